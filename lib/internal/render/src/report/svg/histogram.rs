//! Histogram of the lateness of one subject. Classes and counts are logarithmic, so that a single
//! late tick is visible next to ten thousand punctual ones.

use std::ops::Range;

use plotters::prelude::*;

use crate::picture::axis::Axis;
use crate::picture::canvas::{
    Area, Chart, DrawResult, Picture, chart_builder, colour, decades, draw_hatched, logarithmic,
    logarithmic_axis, mesh, time_label, within,
};
use crate::picture::palette::Sign;
use crate::report::overflow;
use crate::report::svg::{Captions, DISTRUST_NOTE, Drawable, page, shade};
use crate::report::trust::Trust;
use files::quantity::is_gaps;
use files::report::Report;
use files::samples::Lateness;

const HEIGHT: u32 = 440;
/// Classes per decade of lateness.
const CLASSES_PER_DECADE: f64 = 20.0;

/// Draws a histogram; `None` if the source keeps neither values nor bins.
pub(super) fn picture(
    name: &str,
    drawable: &Drawable<'_>,
    report: &Report,
    footer: &[String],
) -> Option<Picture> {
    let values = Lateness::from_subject(drawable.subject);
    values.counts().next()?;
    let quantity = if is_gaps(report) { "gap" } else { "lateness" };
    let distrusted = drawable.first_distrusted(Trust::from_report(report));
    let mut note = match overflow::describe(drawable.subject) {
        Some(above) => format!("Both axes are logarithmic. Hatched: {above}."),
        None => "Both axes are logarithmic: a single late tick is visible next to ten thousand punctual ones.".to_owned(),
    };
    if distrusted.is_some() {
        note += DISTRUST_NOTE;
    }
    let captions = Captions {
        headline: drawable.describe(report),
        what: format!("Histogram of {}", if is_gaps(report) { "gaps" } else { quantity }),
        note: &note,
        footer,
    };
    Some(page(name, HEIGHT, &captions, |area| draw(area, drawable, &values, quantity, distrusted)))
}

fn draw(
    area: &Area<'_>,
    drawable: &Drawable<'_>,
    values: &Lateness,
    quantity: &str,
    distrusted: Option<i64>,
) -> DrawResult {
    let summary = drawable.subject.summary.as_ref();
    let largest = (values.above() > 0).then(|| summary.map_or(0, |s| s.lateness_ns.max));
    let range = decades(values.counts().map(|(value, _)| value).chain(largest));
    let histogram = Histogram::new(&range, values);
    let counts = 0.5..(histogram.max_count() * 1.5).max(2.5);
    let most = counts.end;
    let mut builder = chart_builder(area);
    builder.margin_right(36);
    let (x, y) = (Axis::logarithmic(range.clone()), logarithmic_axis(&counts));
    let mut chart = builder.build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .x_desc(quantity)
        .y_desc("ticks per bin")
        .x_label_formatter(&time_label)
        .y_label_formatter(&count_label)
        .draw()?;
    if let Some(from) = distrusted {
        let corners = [(logarithmic(from), 0.5), (range.end, most)];
        chart.plotting_area().draw(&shade(corners))?;
    }
    draw_bars(&chart, &histogram, drawable.sign)?;
    match largest {
        Some(largest) => draw_above(area, &chart, &histogram, values, largest, drawable.sign),
        None => Ok(()),
    }
}

/// The number of ticks in each class of lateness.
struct Histogram {
    /// Decimal logarithm of the start of the first class.
    start: f64,
    counts: Vec<u64>,
}

impl Histogram {
    fn new(range: &Range<f64>, values: &Lateness) -> Self {
        let start = range.start.log10();
        let classes = ((range.end.log10() - start) * CLASSES_PER_DECADE).round() as usize;
        let mut histogram = Self { start, counts: vec![0; classes + 1] };
        for (value, n) in values.counts() {
            let class = histogram.class(value);
            histogram.counts[class] += n;
        }
        histogram
    }

    /// Returns the index of the class that contains a value.
    fn class(&self, value: i64) -> usize {
        let decades = logarithmic(value).log10() - self.start;
        (decades * CLASSES_PER_DECADE).floor().max(0.0) as usize
    }

    /// Returns the lower boundary of a class in nanoseconds.
    fn edge(&self, class: usize) -> f64 {
        10_f64.powf(self.start + class as f64 / CLASSES_PER_DECADE)
    }

    fn max_count(&self) -> f64 {
        self.counts.iter().copied().max().unwrap_or(1) as f64
    }
}

/// Formats a label of the axis of counts, on which fractions of a tick have none.
fn count_label(n: &f64) -> String {
    if *n >= 1.0 { format!("{n:.0}") } else { String::new() }
}

fn draw_bars(chart: &Chart<'_, '_>, histogram: &Histogram, sign: Sign) -> DrawResult {
    let style = colour(sign).mix(0.7).filled();
    for (class, &n) in histogram.counts.iter().enumerate() {
        if n > 0 {
            let corners = [(histogram.edge(class), 0.5), (histogram.edge(class + 1), n as f64)];
            chart.plotting_area().draw(&Rectangle::new(corners, style))?;
        }
    }
    Ok(())
}

/// Draws a hatched zone for the values above the last class, of which only the number and the
/// largest are known.
fn draw_above(
    area: &Area<'_>,
    chart: &Chart<'_, '_>,
    histogram: &Histogram,
    values: &Lateness,
    largest: i64,
    sign: Sign,
) -> DrawResult {
    let Some((last, _)) = values.counts().last() else { return Ok(()) };
    let start = (histogram.edge(histogram.class(last) + 1), 0.5);
    let height = (values.above() as f64).clamp(1.0, histogram.max_count());
    let end = (logarithmic(largest), height);
    let [from, to] = [start, end].map(|corner| within(area, chart.backend_coord(&corner)));
    draw_hatched(area, from, to, sign)
}
