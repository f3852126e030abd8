//! Lateness and CPU time per tick of all subjects with their confidence intervals, and the subjects
//! on the Pareto front.

use std::collections::BTreeMap;
use std::ops::Range;

use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, LEGEND_LINE, Picture, chart_builder, colour, draw_mark_key,
    extremes, logarithmic, logarithmic_axis, mark, mesh, time_label, with_legend, within,
};
use crate::picture::label_layout::{self, Marker, Rect};
use crate::picture::palette::Sign;
use crate::report::label::has_failed_late;
use crate::report::ranking::Ranking;
use crate::report::svg::{
    Captions, LatenessAxis, MAX_SERIES, Series, SignedPoint, grid, group_by_period, page,
    period_title, shade,
};
use crate::report::tradeoff::{Point, keeps_up};

/// Width of a character of a name in common fonts.
const CHARACTER_PX: usize = 8;
/// Radius of the ring around subjects on the front.
const RING_RADIUS: i32 = 10;
/// Factor by which the axes extend beyond the points.
const AXIS_MARGIN: f64 = 1.35;

const HEIGHT: u32 = 460;
/// Height of the chart of a period, if there are several periods.
const PERIOD_HEIGHT: u32 = 360;

/// Explains what the picture contains, and names the subjects that it does not contain.
pub(super) fn note(ranking: &Ranking<'_>, undrawn: &[&str]) -> String {
    let points = ranking.points();
    let has_controls = points.iter().any(|point| point.control);
    let has_bars = |point: &Point| point.late_ci95.is_some() || point.cpu_ci95.is_some();
    let bars =
        points.iter().any(has_bars).then_some("Bars: 95 % confidence intervals over rounds.");
    let not_ranked;
    let mut sentences = Vec::new();
    if ranking.percentile().is_none() {
        sentences.push("Grey, and not ranked: the machine itself was late at this percentile.");
        sentences.extend(bars);
        sentences.extend(has_controls.then_some("Hollow: controls."));
    } else {
        sentences.extend((points.len() > 1).then_some("Lower left is better."));
        sentences.extend(bars);
        let fronts = fronts(&points.iter().collect::<Vec<_>>());
        if let Some(longest) = fronts.iter().map(Vec::len).max() {
            sentences.push(if longest > 1 { "Ringed and joined:" } else { "Ringed:" });
            sentences.push(
                "no other ranked subject was clearly better in one and not clearly worse in the other.",
            );
        }
        let subjects = &ranking.report().subjects;
        let is_unranked = |point: &Point| !point.control && !keeps_up(&subjects[point.subject]);
        let has_failed = |point: &Point| has_failed_late(&subjects[point.subject]);
        let mut unranked = Vec::new();
        unranked.extend(has_controls.then_some("controls (hollow)"));
        if points.iter().any(is_unranked) {
            unranked.push(match points.iter().any(has_failed) {
                true => "subjects that failed or missed most of their ticks",
                false => "subjects that missed most of their ticks",
            });
        }
        if !unranked.is_empty() {
            not_ranked = format!("Not ranked: {}.", unranked.join(", and "));
            sentences.push(&not_ranked);
        }
    }
    let mut note = sentences.join(" ");
    if !undrawn.is_empty() {
        note += &format!(
            " Not drawn, because lateness or CPU time is not known: {}.",
            undrawn.join(", ")
        );
    }
    note
}

pub(super) fn picture(
    captions: &Captions<'_>,
    lateness: &LatenessAxis,
    points: &[SignedPoint<'_>],
) -> Picture {
    let groups = group_by_period(points);
    // With many subjects, only those on the front and the controls have their names next to them.
    let is_crowded = groups.iter().any(|group| group.len() > MAX_SERIES);
    let legend = if is_crowded { legend_entries(points) } else { Vec::new() };
    let legend_height = u32::try_from(legend.len()).unwrap_or(0) * LEGEND_LINE.unsigned_abs() + 80;
    let (rows, _) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * PERIOD_HEIGHT } else { HEIGHT };
    page("tradeoff", height.max(legend_height), captions, |area| {
        draw_groups(area, lateness, &groups, &legend)
    })
}

/// Returns an entry for each sign.
fn legend_entries<'a>(points: &[SignedPoint<'a>]) -> Vec<(Sign, &'a str)> {
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    for &SignedPoint { point, sign } in points {
        if !entries.iter().any(|(other, _)| *other == sign) {
            entries.push((sign, point.name.split('@').next().unwrap_or(&point.name)));
        }
    }
    entries
}

/// Draws a chart for each group. The legend is empty if all names are next to their marks.
fn draw_groups(
    area: &Area<'_>,
    lateness: &LatenessAxis,
    groups: &[Vec<&SignedPoint<'_>>],
    legend: &[(Sign, &str)],
) -> DrawResult {
    let has_legend = !legend.is_empty();
    let area = if has_legend { with_legend(area, legend, draw_mark_key)? } else { area.clone() };
    let cells = area.split_evenly(grid(groups.len(), 2));
    for (cell, group) in cells.iter().zip(groups) {
        let first = group.first().filter(|_| groups.len() > 1);
        let caption = first.map(|signed| period_title(signed.period_ns()));
        draw_chart(cell, lateness, group, caption.as_deref(), has_legend)?;
    }
    Ok(())
}

fn draw_chart(
    area: &Area<'_>,
    lateness: &LatenessAxis,
    signed: &[&SignedPoint<'_>],
    caption: Option<&str>,
    has_legend: bool,
) -> DrawResult {
    let points: Vec<&Point> = signed.iter().map(|signed| signed.point).collect();
    let (costs, late) = (cost_range(&points), lateness_range(&points));
    let mut builder = chart_builder(area);
    if let Some(caption) = caption {
        builder.caption(caption, (FONT, LABEL_PX));
    }
    let (x, y) = (logarithmic_axis(&costs), logarithmic_axis(&late));
    let mut chart = builder.build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .x_desc("CPU time per tick")
        .y_desc(lateness.label())
        .max_light_lines(0)
        .x_label_formatter(&time_label)
        .y_label_formatter(&time_label)
        .draw()?;
    if !lateness.is_ranked {
        let corners = [(costs.start, late.start), (costs.end, late.end)];
        chart.plotting_area().draw(&shade(corners))?;
    }
    let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, y)));
    draw_fronts(area, &points, &pixel)?;
    draw_points(area, signed, &pixel)?;
    let is_named = |p: &&Point| !has_legend || p.front || p.control;
    let mut named: Vec<Point> = points.into_iter().filter(is_named).cloned().collect();
    if caption.is_some() {
        // The caption states the period.
        named.iter_mut().for_each(|point| point.name = name_without_period(&point.name));
    }
    draw_names(area, &named, pixel(costs.start, late.end).1, &pixel)
}

/// Returns a label such as `name@1ms/thread-0` without its period.
fn name_without_period(name: &str) -> String {
    let Some((name, rest)) = name.split_once('@') else { return name.to_owned() };
    rest.find('/').map_or_else(|| name.to_owned(), |end| format!("{name}{}", &rest[end..]))
}

/// Converts coordinates of a chart to pixels.
type ToPixel<'a> = &'a dyn Fn(f64, f64) -> (i32, i32);

fn centre(point: &Point, pixel: ToPixel<'_>) -> (i32, i32) {
    pixel(point.cpu_ns, logarithmic(point.late_ns))
}

/// Rings the subjects on the fronts, and joins those of each front.
fn draw_fronts(area: &Area<'_>, points: &[&Point], pixel: ToPixel<'_>) -> DrawResult {
    let style = BLACK.mix(0.5).stroke_width(1);
    for front in fronts(points) {
        let path: Vec<(i32, i32)> = front.into_iter().map(|p| centre(p, pixel)).collect();
        for &centre in &path {
            area.draw(&Circle::new(centre, RING_RADIUS, style))?;
        }
        area.draw(&DashedPathElement::new(path, 2, 4, style))?;
    }
    Ok(())
}

/// Draws the confidence intervals, and over them the marks.
fn draw_points(area: &Area<'_>, signed: &[&SignedPoint<'_>], pixel: ToPixel<'_>) -> DrawResult {
    for SignedPoint { point, sign } in signed {
        draw_intervals(area, point, *sign, pixel)?;
    }
    for SignedPoint { point, sign } in signed {
        let at = centre(point, pixel);
        area.draw(&(EmptyElement::at(at) + mark(*sign, (0, 0))))?;
        if point.control {
            area.draw(&Circle::new(at, 2, WHITE.filled()))?;
        }
    }
    Ok(())
}

fn draw_intervals(area: &Area<'_>, point: &Point, sign: Sign, pixel: ToPixel<'_>) -> DrawResult {
    let style = colour(sign).stroke_width(2);
    if let Some([low, high]) = point.late_ci95 {
        let (low, high) = (logarithmic(low), logarithmic(high));
        let ends = vec![pixel(point.cpu_ns, low), pixel(point.cpu_ns, high)];
        area.draw(&PathElement::new(ends, style))?;
    }
    if let Some([low, high]) = point.cpu_ci95 {
        let late = logarithmic(point.late_ns);
        area.draw(&PathElement::new(vec![pixel(low, late), pixel(high, late)], style))?;
    }
    Ok(())
}

/// Draws the names next to the marks and below `top`, with a line to those that are far away.
fn draw_names(area: &Area<'_>, points: &[Point], top: i32, pixel: ToPixel<'_>) -> DrawResult {
    let markers: Vec<Marker> = points.iter().map(|p| marker(p, pixel)).collect();
    let (width, height) = area.dim_in_pixel();
    // Above the labels of the axis.
    let (right, bottom) = (to_pixels(width) - 8, to_pixels(height) - 60);
    let bounds = Rect { left: 90, top, right, bottom };
    for (p, label) in points.iter().zip(label_layout::place_labels(&markers, bounds)) {
        let to = (label.x, label.y);
        if label.is_far {
            let style = BLACK.mix(0.4).stroke_width(1);
            area.draw(&PathElement::new(vec![centre(p, pixel), to], style))?;
        }
        let side = if label.is_left { HPos::Right } else { HPos::Left };
        let font = (FONT, LABEL_PX).into_text_style(area).pos(Pos::new(side, VPos::Center));
        area.draw_text(&p.name, &font, to)?;
    }
    Ok(())
}

/// Returns the extent of a mark with its interval bars, and the width of its name.
fn marker(point: &Point, pixel: ToPixel<'_>) -> Marker {
    let at = centre(point, pixel);
    let mut bars = Rect { left: at.0, top: at.1, right: at.0, bottom: at.1 };
    if let Some([low, high]) = point.cpu_ci95 {
        (bars.left, bars.right) = (pixel(low, 1.0).0, pixel(high, 1.0).0);
    }
    if let Some([low, high]) = point.late_ci95 {
        let row = |late: i64| pixel(point.cpu_ns, logarithmic(late)).1;
        (bars.top, bars.bottom) = (row(high), row(low));
    }
    Marker { at, bars, name_width: to_pixels(point.name.chars().count() * CHARACTER_PX) }
}

fn to_pixels(n: impl TryInto<i32>) -> i32 {
    n.try_into().unwrap_or(i32::MAX)
}

fn cost_range(points: &[&Point]) -> Range<f64> {
    let mut costs = Vec::new();
    for point in points {
        costs.push(point.cpu_ns);
        costs.extend(point.cpu_ci95.into_iter().flatten());
    }
    padded_range(&costs)
}

fn lateness_range(points: &[&Point]) -> Range<f64> {
    let mut lateness = Vec::new();
    for point in points {
        lateness.push(logarithmic(point.late_ns));
        lateness.extend(point.late_ci95.into_iter().flatten().map(logarithmic));
    }
    padded_range(&lateness)
}

/// Returns the range of a logarithmic axis that includes all values, with a margin.
fn padded_range(values: &[f64]) -> Range<f64> {
    let (low, high) = extremes(values.iter().map(|value| value.max(1.0)), 1.0);
    low.min(high) / AXIS_MARGIN..high * AXIS_MARGIN
}

/// Returns the subjects on the front of each group of competitors, the cheapest first.
fn fronts<'a>(points: &[&'a Point]) -> Vec<Vec<&'a Point>> {
    let mut fronts: BTreeMap<usize, Vec<&'a Point>> = BTreeMap::new();
    for &point in points {
        if let Some(group) = point.group.filter(|_| point.front) {
            fronts.entry(group).or_default().push(point);
        }
    }
    let mut fronts: Vec<_> = fronts.into_values().collect();
    for front in &mut fronts {
        front.sort_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns));
    }
    fronts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::synthetic::{ROUNDS, report, subject};

    #[test]
    fn note_explains_what_is_drawn() {
        let pair = [subject("a", 60.0, 300.0, 20.0), subject("b", 40.0, 200.0, 30.0)];
        let pair = report(&pair, ROUNDS);
        let text = note(&Ranking::new(&pair), &["c", "d"]);
        for part in ["Lower left", "Ringed and joined: no other", "is not known: c, d."] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("controls") && !text.contains("missed"), "{text}");
        let alone = report(&[subject("a", 60.0, 300.0, 20.0)], ROUNDS);
        let text = note(&Ranking::new(&alone), &[]);
        for part in ["Ringed", "Lower left", "controls", "Not drawn"] {
            assert!(!text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn fronts_join_competitors_only() {
        let pair = [subject("a", 60.0, 300.0, 20.0), subject("b", 40.0, 200.0, 30.0)];
        let mut report = report(&[pair, pair].concat(), ROUNDS);
        for (index, subject) in report.subjects.iter_mut().enumerate().skip(2) {
            subject.load = Some("cpu:2".to_owned());
            subject.id = format!("{index}@1ms");
        }
        let ranking = Ranking::new(&report);
        let points: Vec<&Point> = ranking.points().iter().collect();
        let indices = |front: Vec<&Point>| front.iter().map(|p| p.subject).collect::<Vec<_>>();
        let fronts: Vec<Vec<usize>> = fronts(&points).into_iter().map(indices).collect();
        assert_eq!(fronts, [[0, 1], [2, 3]]);
    }
}
