//! The chart of a subject: its axes, its stalls, and its ticks reduced to columns of pixels.

use std::ops::Range;

use cli::time::format_time;
use files::report::{Report, Summary};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::axis::Axis;
use crate::picture::canvas::{
    Area, Chart, DrawResult, FONT, LABEL_PX, chart_builder, colour, decades, draw_label,
    logarithmic, mark, mesh, time_label, within,
};
use crate::picture::columns::{Column, reduce};
use crate::report::label::concurrent_cpus;
use crate::report::stalls::Stall;
use crate::report::svg::timeline::Timeline;
use crate::report::svg::{Drawable, shade, truncate_name};
use crate::report::tradeoff::format_missed;
use crate::report::trust::Trust;

/// Width of the columns to which the ticks are reduced.
const COLUMN_PX: usize = 3;
/// Radius of the dot of the worst tick of a column.
const DOT_RADIUS: i32 = 2;
/// Colour of stalls: the yellow of the Okabe-Ito set, which no series has.
const STALL: RGBColor = RGBColor(0xf0, 0xe4, 0x42);
/// Lowest end of the axis. Reading a clock takes longer.
const MIN_LATENESS: f64 = 10.0;
/// Height of the name of a panel above its chart.
pub(super) const NAME_HEIGHT: u32 = 24;
/// Minimum distance between the labels of lateness.
const LATENESS_LABEL_PX: f64 = 24.0;
/// Left end of the marks before the names of panels, at the vertical axes.
const NAME_LEFT: i32 = 88;
/// Right ends of the figures of a panel: the median, p99, the worst tick and missed ticks.
const FIGURES_RIGHT: [i32; 4] = [536, 668, 800, 940];
/// Maximum number of characters of a name above a panel.
const MAX_NAME_CHARS: usize = 44;
/// Height of the labels below the last panel.
pub(super) const TIME_LABELS_HEIGHT: u32 = 44;
/// Maximum number of rounds between which a line is drawn.
pub(super) const MAX_MARKED_ROUNDS: usize = 200;

/// A chart of one subject.
pub(super) struct Panel<'a> {
    pub(super) drawable: &'a Drawable<'a>,
    pub(super) timeline: Timeline,
    /// Lateness from which the ticks are not trusted.
    pub(super) distrusted: Option<i64>,
}

impl<'a> Panel<'a> {
    /// Creates a panel with the stalls of the CPU on which its subject ran.
    pub(super) fn in_run(
        report: &Report,
        drawable: &'a Drawable<'a>,
        known_stalls: &[Stall],
        trust: Trust,
    ) -> Self {
        let cpu = concurrent_cpus(report)[drawable.index];
        let stalls = known_stalls.iter().filter(|stall| stall.cpu.is_none() || stall.cpu == cpu);
        let timeline = Timeline::in_run(drawable.subject, stalls);
        Self { drawable, timeline, distrusted: drawable.first_distrusted(trust) }
    }
}

/// The quantity of a horizontal axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeAxis {
    /// Time since the start of the run.
    Run,
    /// Time in joined rounds.
    Rounds,
    /// Number of ticks, for subjects without a period.
    Ticks,
}

impl TimeAxis {
    fn label(self) -> &'static str {
        match self {
            Self::Run => "time in the run, s",
            Self::Rounds => "time in the rounds, s",
            Self::Ticks => "ticks",
        }
    }
}

/// The axes that all panels share.
pub(super) struct Axes {
    time: TimeAxis,
    end: f64,
    late: Range<f64>,
}

impl Axes {
    /// Returns axes that include all ticks; `None` if there are none.
    pub(super) fn new(panels: &[Panel<'_>], time: TimeAxis) -> Option<Self> {
        let points = || panels.iter().flat_map(|panel| &panel.timeline.points);
        points().next()?;
        let late = decades(points().map(|point| point.1));
        let start = late.start.max(MIN_LATENESS);
        let end = panels.iter().map(|panel| panel.timeline.end).fold(1e-6, f64::max);
        // A label at the end is not lost to rounding.
        let end = (end * 1e6).ceil() / 1e6;
        Some(Self { time, end, late: start..late.end.max(start * 10.0) })
    }

    /// Converts a lateness for the vertical axis, on which low values are on the lower edge.
    fn late(&self, ns: i64) -> f64 {
        logarithmic(ns).max(self.late.start)
    }

    fn format_position(&self, position: f64) -> String {
        let decimals = match self.end {
            _ if self.time == TimeAxis::Ticks => 0,
            ..0.1 => 3,
            0.1..1.0 => 2,
            1.0..10.0 => 1,
            _ => 0,
        };
        format!("{position:.decimals$}")
    }

    /// Returns the labelled decades of a chart with this height. There are at least two.
    fn late_marks(&self, height: u32) -> Vec<f64> {
        let [low, high] = [self.late.start, self.late.end].map(|end| end.log10().round() as i32);
        let decades = (high - low).max(1);
        let min_step = LATENESS_LABEL_PX * f64::from(decades) / f64::from(height.max(1));
        let step = (min_step.ceil() as i32).clamp(1, decades);
        (low..=high).step_by(step as usize).map(|decade| 10_f64.powi(decade)).collect()
    }
}

/// Writes the name of a subject above its panel, with its most important figures.
pub(super) fn draw_name(area: &Area<'_>, panel: &Panel<'_>, trust: Trust) -> DrawResult {
    let Drawable { sign, name, subject, .. } = panel.drawable;
    let baseline = i32::try_from(NAME_HEIGHT).unwrap_or(0) - 18;
    area.draw(&(EmptyElement::at((NAME_LEFT + 6, baseline + 8)) + mark(*sign, (0, 0))))?;
    draw_label(area, &truncate_name(name, MAX_NAME_CHARS), LABEL_PX, (NAME_LEFT + 18, baseline))?;
    let Some(summary) = &subject.summary else { return Ok(()) };
    let font = (FONT, LABEL_PX).with_color(BLACK.mix(0.7)).into_text_style(area);
    let font = font.pos(Pos::new(HPos::Right, VPos::Top));
    let missed = format_missed(subject, summary)
        .map(|share| trust.count_cell(summary, "missed", &format!("missed {share}")));
    let figures = describe_figures(summary, trust).into_iter().chain([missed]);
    for (figure, right) in figures.zip(FIGURES_RIGHT) {
        area.draw_text(&figure.unwrap_or_default(), &font, (right, baseline))?;
    }
    Ok(())
}

/// Formats the median, p99 and the worst tick, with marks of distrust.
fn describe_figures(summary: &Summary, trust: Trust) -> [Option<String>; 3] {
    let lateness = &summary.lateness_ns;
    let [p50, _, p99, ..] = lateness.percentiles();
    let [p50, p99] = [p50, p99].map(|(percentile, value)| {
        Some(format!("{} {}", trust.heading(percentile), format_time(value?)))
    });
    [p50, p99, Some(format!("{} {}", trust.max_heading(), format_time(lateness.max)))]
}

/// Draws the chart of a panel. If there is space for labels below it, the axes have descriptions.
pub(super) fn draw_panel(
    area: &Area<'_>,
    panel: &Panel<'_>,
    axes: &Axes,
    labels: u32,
) -> DrawResult {
    let (_, height) = area.dim_in_pixel();
    let mut builder = chart_builder(area);
    builder.margin_top(0).margin_bottom(0).margin_right(20).x_label_area_size(labels);
    if axes.time != TimeAxis::Run {
        builder.margin_top(12);
    }
    let marks = axes.late_marks(height.saturating_sub(labels));
    let y = Axis::logarithmic_with_marks(axes.late.clone(), marks);
    let mut chart = builder.build_cartesian_2d(Axis::linear(0.0..axes.end), y)?;
    let plot = Plot::new(area, &chart, axes);
    plot.draw_stalls(area, &panel.timeline)?;
    let format_position = |position: &f64| axes.format_position(*position);
    let mut style = mesh(&mut chart);
    style.max_light_lines(0).y_label_formatter(&time_label).x_label_formatter(&format_position);
    if labels > 0 {
        style.x_desc(axes.time.label());
    }
    if axes.time == TimeAxis::Run {
        style.bold_line_style(BLACK.mix(0.12));
    } else {
        // The only vertical lines are those between rounds.
        style.disable_x_mesh().y_desc("lateness");
    }
    style.draw()?;
    if let Some(from) = panel.distrusted {
        let corners = [(0.0, axes.late(from)), (axes.end, axes.late.end)];
        chart.plotting_area().draw(&shade(corners))?;
    }
    // Thin lines between joined rounds, unless there are too many.
    if panel.timeline.joints.len() < MAX_MARKED_ROUNDS {
        for &x in &panel.timeline.joints {
            let ends = vec![(x, axes.late.start), (x, axes.late.end)];
            chart.plotting_area().draw(&PathElement::new(ends, BLACK.mix(0.3).stroke_width(1)))?;
        }
    }
    // A line at the period. A dashed line would make up half of the file.
    let period = panel.drawable.subject.period_ns as f64;
    if axes.late.contains(&period) {
        let ends = vec![(0.0, period), (axes.end, period)];
        chart.plotting_area().draw(&PathElement::new(ends, BLACK.mix(0.5).stroke_width(1)))?;
    }
    plot.draw_columns(area, &chart, panel, axes)
}

/// The pixels of a chart.
struct Plot {
    left: i32,
    top: i32,
    width: i32,
    height: i32,
    end: f64,
}

impl Plot {
    fn new(area: &Area<'_>, chart: &Chart<'_, '_>, axes: &Axes) -> Self {
        let (left, top) = within(area, chart.backend_coord(&(0.0, axes.late.end)));
        let (right, bottom) = within(area, chart.backend_coord(&(axes.end, axes.late.start)));
        Self { left, top, width: right - left, height: bottom - top, end: axes.end }
    }

    /// Shades stalls, and more faintly the rounds with stalls that the kernel counted.
    fn draw_stalls(&self, area: &Area<'_>, timeline: &Timeline) -> DrawResult {
        for (spans, strength) in [(&timeline.stalled_rounds, 0.35), (&timeline.stalls, 0.75)] {
            for pixels in covered_pixels(spans, self.end, self.width) {
                let corners = [
                    (self.left + pixels.start, self.top),
                    (self.left + pixels.end, self.top + self.height),
                ];
                area.draw(&Rectangle::new(corners, STALL.mix(strength).filled()))?;
            }
        }
        Ok(())
    }

    /// Draws the ticks, reduced to columns.
    fn draw_columns(
        &self,
        area: &Area<'_>,
        chart: &Chart<'_, '_>,
        panel: &Panel<'_>,
        axes: &Axes,
    ) -> DrawResult {
        let count = usize::try_from(self.width).unwrap_or(0).div_ceil(COLUMN_PX).max(1);
        // The last column may be narrower.
        let to = self.end * (count * COLUMN_PX) as f64 / f64::from(self.width.max(1));
        let columns = reduce(&panel.timeline.points, 0.0, to, count);
        let row = |ns: i64| within(area, chart.backend_coord(&(0.0, axes.late(ns)))).1;
        let start = |column: usize| self.left + i32::try_from(column * COLUMN_PX).unwrap_or(0);
        let style = colour(panel.drawable.sign).mix(0.6).filled();
        for run in columns.chunk_by(|a, b| a.index + 1 == b.index) {
            area.draw(&Polygon::new(outline(run, &start, &row), style))?;
        }
        let style = colour(panel.drawable.sign).filled();
        for column in &columns {
            let middle = start(column.index) + COLUMN_PX as i32 / 2;
            area.draw(&Circle::new((middle, row(column.max)), DOT_RADIUS, style))?;
        }
        Ok(())
    }
}

/// Returns the outline of the bands of adjacent columns. Each band is at least one pixel high.
fn outline(
    columns: &[Column],
    start: &impl Fn(usize) -> i32,
    row: &impl Fn(i64) -> i32,
) -> Vec<(i32, i32)> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for column in columns {
        let (top, bottom) = (row(column.p90), row(column.min));
        for x in [start(column.index), start(column.index + 1)] {
            upper.push((x, top));
            lower.push((x, bottom.max(top + 1)));
        }
    }
    lower.reverse();
    upper.extend(lower);
    upper
}

/// Returns the ranges of pixels that spans of time cover on an axis of `width` pixels, in order. Each
/// span covers at least one pixel, and ranges that touch are one.
fn covered_pixels(spans: &[Range<f64>], end: f64, width: i32) -> Vec<Range<i32>> {
    let mut is_covered = vec![false; usize::try_from(width).unwrap_or(0)];
    let pixel = |time: f64| (time / end * f64::from(width)).max(0.0);
    for span in spans.iter().filter(|span| span.start < end && span.end > 0.0) {
        let first = (pixel(span.start) as usize).min(is_covered.len().saturating_sub(1));
        let last = (pixel(span.end).ceil() as usize).clamp(first + 1, is_covered.len().max(1));
        if let Some(pixels) = is_covered.get_mut(first..last) {
            pixels.fill(true);
        }
    }
    let mut ranges: Vec<Range<i32>> = Vec::new();
    for (x, _) in (0..).zip(is_covered).filter(|(_, is_covered)| *is_covered) {
        match ranges.last_mut() {
            Some(range) if range.end == x => range.end = x + 1,
            _ => ranges.push(x..x + 1),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_two_labels() {
        for (range, height) in [(10.0..100.0, 40), (10.0..1e9, 40), (1e3..1e6, 30)] {
            let axes = Axes { time: TimeAxis::Run, end: 1.0, late: range };
            assert!(axes.late_marks(height).len() > 1, "{:?}", axes.late);
        }
    }
}
