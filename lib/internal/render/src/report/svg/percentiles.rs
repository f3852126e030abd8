//! Lateness by percentile, with a logarithmic axis of lateness and an axis of percentiles in nines.

use std::ops::Range;

use cli::time::format_time;
use cli::words::capitalize;
use plotters::prelude::*;

use crate::picture::axis::Axis;
use crate::picture::canvas::{
    Area, Chart, DrawResult, FONT, GHOST, LABEL_PX, Picture, chart_builder, decades, draw_curve,
    draw_hatched, draw_line_and_mark_key, logarithmic, logarithmic_axis, mark, mesh, time_label,
    title, with_legend, within,
};
use crate::picture::nines;
use crate::picture::palette::{Dash, Sign};
use crate::report::svg::{
    Captions, DISTRUST_NOTE, Drawable, MAX_SERIES, Series, grid, group_by_period, page,
    period_title, shade, truncate_name,
};
use crate::report::trust::Trust;
use files::quantity::is_gaps;
use files::report::Report;
use files::samples::Lateness;

const HEIGHT: u32 = 440;
/// Height of the chart of a period, if there are several periods.
const PERIOD_HEIGHT: u32 = 320;
/// Height of the small chart of a subject, if there are many subjects.
const SUBJECT_HEIGHT: u32 = 170;
const COLUMNS: usize = 4;
/// Maximum number of characters of a name above a small chart.
const MAX_NAME_CHARS: usize = 28;
/// Number of marks on a curve.
const MARKS: usize = 4;
/// Maximum number of curves in the background of a small chart.
const MAX_GHOSTS: usize = 24;
/// Maximum number of points of all curves in the backgrounds of small charts, if each has only a few.
const MAX_GHOST_POINTS: usize = 50_000;

/// The line of one subject: its points in nines and nanoseconds, and the values above the last
/// point.
struct Curve<'a> {
    drawable: &'a Drawable<'a>,
    points: Vec<(f64, i64)>,
    above: Option<Unresolved>,
}

/// Values of which only the number and the largest are known.
struct Unresolved {
    /// Position on the axis of percentiles, and lateness in nanoseconds, of the first of them and
    /// of the largest.
    start: (f64, i64),
    end: (f64, i64),
    count: u64,
}

/// The axes shared by all charts of a picture.
struct Axes {
    end: f64,
    /// Name of the quantity on the vertical axis.
    quantity: &'static str,
    late: Range<f64>,
    /// Position of the first percentile at which the machine itself was late.
    distrusted: Option<f64>,
}

/// Draws the curves; `None` if the source keeps neither values nor bins of any subject.
pub(super) fn picture(
    headline: String,
    report: &Report,
    subjects: &[Drawable<'_>],
    shared: &str,
    footer: &[String],
) -> Option<Picture> {
    let mut curves: Vec<Curve<'_>> = subjects.iter().map(Curve::new).collect();
    curves.retain(|curve| !curve.points.is_empty());
    if curves.is_empty() {
        return None;
    }
    let trust = Trust::from_report(report);
    let mut note = "Each gridline to the right leaves one tenth as many ticks.".to_owned();
    if !trust.covers_max() {
        note += DISTRUST_NOTE;
    }
    if curves.iter().any(|c| c.above.is_some()) {
        note += " Hatched: too late for the bins of its source.";
    }
    let quantity = if is_gaps(report) { "gap" } else { "lateness" };
    let axes = Axes::new(&curves, quantity, trust);
    let what = title(&format!("{} by percentile", capitalize(quantity)), shared);
    let captions = Captions { headline, what, note: &note, footer };
    let groups = group_by_period(&curves);
    if groups.iter().any(|group| group.len() > MAX_SERIES) {
        let (rows, _) = grid(curves.len(), COLUMNS);
        let height = rows as u32 * SUBJECT_HEIGHT;
        let draw = |area: &Area<'_>| draw_subjects(area, &curves, &axes);
        return Some(page("percentiles", height, &captions, draw));
    }
    let (rows, _) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * PERIOD_HEIGHT } else { HEIGHT };
    let draw = |area: &Area<'_>| draw_groups(area, &curves, &groups, &axes);
    Some(page("percentiles", height, &captions, draw))
}

/// Draws a small chart for each subject, with the others behind it in grey.
fn draw_subjects(area: &Area<'_>, curves: &[Curve<'_>], axes: &Axes) -> DrawResult {
    let ghosts = ghosts(curves);
    let cells = area.split_evenly(grid(curves.len(), COLUMNS));
    for (cell, curve) in cells.iter().zip(curves) {
        draw_small_chart(cell, curve, &ghosts, axes)?;
    }
    Ok(())
}

/// Returns the lines in the background of each small chart: those of all curves, or of some that are
/// evenly spaced in their order. With every point of every curve, a picture of many subjects would be
/// megabytes large.
fn ghosts(curves: &[Curve<'_>]) -> Vec<Vec<(f64, f64)>> {
    let drawn = curves.iter().step_by(curves.len().div_ceil(MAX_GHOSTS).max(1));
    let points: usize = drawn.clone().map(|ghost| ghost.points.len()).sum();
    let step = (points * curves.len()).div_ceil(MAX_GHOST_POINTS).max(1);
    drawn.map(|ghost| thin_out(&ghost.logarithmic_points(), step)).collect()
}

/// Draws a chart for each group, and a legend.
fn draw_groups(
    area: &Area<'_>,
    curves: &[Curve<'_>],
    groups: &[Vec<&Curve<'_>>],
    axes: &Axes,
) -> DrawResult {
    let has_periods = groups.len() > 1;
    let labels: Vec<String> = curves.iter().map(Curve::label).collect();
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    for (curve, label) in curves.iter().zip(&labels) {
        // With several periods, the legend has one entry per name.
        let name: &str = if has_periods { &curve.drawable.subject.name } else { label };
        if !entries.iter().any(|(sign, _)| *sign == curve.sign()) {
            entries.push((curve.sign(), name));
        }
    }
    let area = with_legend(area, &entries, draw_line_and_mark_key)?;
    let cells = area.split_evenly(grid(groups.len(), 2));
    for (cell, group) in cells.iter().zip(groups) {
        let first = group.first().filter(|_| has_periods);
        let caption = first.map(|curve| period_title(curve.period_ns()));
        draw_chart(cell, caption.as_deref(), group, axes)?;
    }
    Ok(())
}

impl<'a> Curve<'a> {
    fn new(drawable: &'a Drawable<'a>) -> Self {
        let values = Lateness::from_subject(drawable.subject);
        let (n, known) = (values.count(), values.known());
        let points = nines::curve_by_rank(n, known, |rank| values.at_rank(rank));
        let largest = drawable.subject.summary.as_ref().map_or(0, |s| s.lateness_ns.max);
        let end = (nines::last_position(n), largest);
        let last = points.last().filter(|_| known < n);
        let above = last.map(|&start| Unresolved { start, end, count: n - known });
        Self { drawable, points, above }
    }

    /// Returns the points of the curve on a logarithmic axis.
    fn logarithmic_points(&self) -> Vec<(f64, f64)> {
        self.points.iter().map(|&(x, ns)| (x, logarithmic(ns))).collect()
    }

    /// Returns the name, and the number of values above the last bin.
    fn label(&self) -> String {
        let name = &self.drawable.name;
        match &self.above {
            Some(above) => format!("{name}\n{}", above.describe()),
            None => name.clone(),
        }
    }
}

impl Series for Curve<'_> {
    fn period_ns(&self) -> u64 {
        self.drawable.subject.period_ns
    }

    fn sign(&self) -> Sign {
        self.drawable.sign
    }
}

impl Unresolved {
    fn describe(&self) -> String {
        format!(
            "{} above {}, up to {}",
            self.count,
            format_time(self.start.1),
            format_time(self.end.1)
        )
    }
}

impl Axes {
    /// Returns axes that include all points of all curves.
    fn new(curves: &[Curve<'_>], quantity: &'static str, trust: Trust) -> Self {
        let mut end = 1.0_f64;
        let mut values = Vec::new();
        for curve in curves {
            let last = curve.above.as_ref().map(|above| above.end);
            values.extend(curve.points.iter().chain(&last).map(|point| point.1));
            let last = last.or(curve.points.last().copied());
            end = end.max(last.map_or(1.0, |point| point.0));
        }
        let distrusted = trust.first_distrusted_position();
        Self { end, quantity, late: decades(values.into_iter()), distrusted }
    }
}

/// Draws the chart of a group of subjects.
fn draw_chart(
    area: &Area<'_>,
    caption: Option<&str>,
    curves: &[&Curve<'_>],
    axes: &Axes,
) -> DrawResult {
    let mut builder = chart_builder(area);
    if let Some(caption) = caption {
        builder.caption(caption, (FONT, LABEL_PX));
    }
    let width = area.dim_in_pixel().0;
    let (x, y) = (Axis::percentiles(axes.end, width), logarithmic_axis(&axes.late));
    let mut chart = builder.build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .max_light_lines(1)
        .y_label_formatter(&time_label)
        .x_desc("percentile of the ticks")
        .y_desc(axes.quantity)
        .draw()?;
    shade_distrusted(&mut chart, axes)?;
    draw_curves(area, &mut chart, curves)?;
    draw_marks(area, &chart, curves)
}

/// Draws the marks of the curves, each curve's at other percentiles, so that curves with equal
/// values and those of one colour can be distinguished.
fn draw_marks(area: &Area<'_>, chart: &Chart<'_, '_>, curves: &[&Curve<'_>]) -> DrawResult {
    for (n, curve) in curves.iter().enumerate() {
        let points = curve.logarithmic_points();
        let distance = (points.len() / MARKS).max(1);
        let first = (distance * (2 * n + 1)) / (2 * curves.len());
        for &point in points.iter().skip(first).step_by(distance) {
            let at = within(area, chart.backend_coord(&point));
            area.draw(&(EmptyElement::at(at) + mark(curve.sign(), (0, 0))))?;
        }
    }
    Ok(())
}

/// Draws the small chart of a subject, with `ghosts` behind it in grey.
fn draw_small_chart(
    area: &Area<'_>,
    curve: &Curve<'_>,
    ghosts: &[Vec<(f64, f64)>],
    axes: &Axes,
) -> DrawResult {
    let mut builder = ChartBuilder::on(area);
    builder.margin(4).x_label_area_size(22).y_label_area_size(46);
    builder.caption(truncate_name(&curve.drawable.name, MAX_NAME_CHARS), (FONT, LABEL_PX - 4));
    let width = area.dim_in_pixel().0;
    let (x, y) = (Axis::percentiles(axes.end, width), Axis::logarithmic(axes.late.clone()));
    let mut chart = builder.build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .label_style((FONT, LABEL_PX - 4))
        .max_light_lines(1)
        .y_labels(4)
        .y_label_formatter(&time_label)
        .draw()?;
    shade_distrusted(&mut chart, axes)?;
    for ghost in ghosts {
        chart.draw_series(LineSeries::new(ghost.clone(), GHOST.stroke_width(1)))?;
    }
    draw_curves(area, &mut chart, &[curve])
}

/// Returns every point in a distance of `step`, and the last one.
fn thin_out(points: &[(f64, f64)], step: usize) -> Vec<(f64, f64)> {
    let mut thinned: Vec<(f64, f64)> = points.iter().copied().step_by(step).collect();
    if !points.len().saturating_sub(1).is_multiple_of(step) {
        thinned.extend(points.last());
    }
    thinned
}

/// Shades the percentiles at which the machine itself was late.
fn shade_distrusted(chart: &mut Chart<'_, '_>, axes: &Axes) -> DrawResult {
    let Some(start) = axes.distrusted.filter(|start| *start < axes.end) else { return Ok(()) };
    let corners = [(start, axes.late.start), (axes.end, axes.late.end)];
    chart.plotting_area().draw(&shade(corners))
}

/// Draws the curves, and hatched zones for the values above the last bin.
fn draw_curves(area: &Area<'_>, chart: &mut Chart<'_, '_>, curves: &[&Curve<'_>]) -> DrawResult {
    // Dashed lines are drawn over solid ones, so that both are visible if they coincide.
    let mut by_dash: Vec<&Curve<'_>> = curves.to_vec();
    by_dash.sort_by_key(|curve| curve.sign().dash != Dash::Solid);
    for curve in by_dash {
        let sign = curve.sign();
        draw_curve(chart, sign, curve.logarithmic_points())?;
        if let Some(Unresolved { start, end, .. }) = curve.above {
            let [from, to] = [start, end]
                .map(|(x, ns)| within(area, chart.backend_coord(&(x, logarithmic(ns)))));
            draw_hatched(area, from, to, sign)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::thin_out;

    #[test]
    fn thinned_curves_keep_both_ends() {
        let points: Vec<(f64, f64)> = (0..10).map(|i| (f64::from(i), 0.0)).collect();
        let positions = |step| thin_out(&points, step).iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!(positions(1).len(), 10);
        assert_eq!(positions(3), [0.0, 3.0, 6.0, 9.0]);
        assert_eq!(positions(4), [0.0, 4.0, 8.0, 9.0]);
        assert_eq!(positions(100), [0.0, 9.0]);
        assert!(thin_out(&[], 3).is_empty());
    }
}
