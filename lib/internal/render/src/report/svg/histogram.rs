//! Histogram of the lateness of one subject. Classes and counts are logarithmic, so that a single
//! late tick is visible next to ten thousand punctual ones.

use plotters::prelude::*;

use crate::picture::canvas::{Area, chart};
use crate::picture::canvas::{
    DrawResult, FONT, LABEL_PX, Picture, colour, decades, draw_hatched, logarithmic, time_label,
    within,
};
use crate::report::origin::Footer;
use crate::report::overflow;
use crate::report::samples::Lateness;
use crate::report::svg::{Captions, Drawable, page};

const HEIGHT: u32 = 440;
/// Classes per decade of lateness.
const CLASSES_PER_DECADE: f64 = 20.0;

pub(super) fn picture(name: &str, drawable: &Drawable<'_>, footer: &Footer) -> Picture {
    let values = Lateness::from_subject(drawable.subject);
    let largest = drawable.subject.summary.as_ref().map_or(0, |s| s.lateness_ns.max);
    let above = values.count() - values.known();
    let note = match overflow::describe(drawable.subject) {
        Some(above) => format!("Both axes are logarithmic. Hatched: {above}."),
        None => "Both axes are logarithmic: a single late tick is visible next to ten thousand punctual ones.".to_owned(),
    };
    let captions = Captions {
        title: format!("Histogram of lateness: {}", drawable.subject.id),
        note: &note,
        footer,
    };
    page(name, HEIGHT, &captions, |area| {
        draw(area, drawable, &values, (above > 0).then_some(largest))
    })
}

fn draw(
    area: &Area<'_>,
    drawable: &Drawable<'_>,
    values: &Lateness,
    above: Option<i64>,
) -> DrawResult {
    let range = decades(values.counts().map(|(value, _)| value).chain(above));
    let start = range.start.log10();
    let classes = ((range.end.log10() - start) * CLASSES_PER_DECADE).round() as usize;
    let mut counts = vec![0_u64; classes + 1];
    let class = |value| {
        ((logarithmic(value).log10() - start) * CLASSES_PER_DECADE).floor().max(0.0) as usize
    };
    for (value, n) in values.counts() {
        counts[class(value)] += n;
    }
    let max_count = counts.iter().copied().max().unwrap_or(1) as f64;
    let mut chart = chart(area)
        .margin_right(36)
        .build_cartesian_2d(range.log_scale(), (0.5..max_count * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("lateness")
        .y_desc("ticks per bin")
        .x_label_formatter(&time_label)
        .y_label_formatter(&|n| if *n >= 1.0 { format!("{n:.0}") } else { String::new() })
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    let edge = |class: usize| 10_f64.powf(start + class as f64 / CLASSES_PER_DECADE);
    let bars = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    chart.draw_series(bars.map(|(class, &n)| {
        Rectangle::new(
            [(edge(class), 0.5), (edge(class + 1), n as f64)],
            colour(drawable.sign).mix(0.7).filled(),
        )
    }))?;
    if let Some((largest, (last, _))) = above.zip(values.counts().last()) {
        let n = values.count() - values.known();
        let from = within(area, chart.backend_coord(&(edge(class(last) + 1), 0.5)));
        let to = within(
            area,
            chart.backend_coord(&(logarithmic(largest), (n as f64).clamp(1.0, max_count))),
        );
        draw_hatched(area, from, to, drawable.sign)?;
    }
    Ok(())
}
