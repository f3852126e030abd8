//! Lateness and CPU time per tick of all subjects with their confidence intervals, and the subjects
//! on the Pareto front.

use std::time::Duration;

use cli::units;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, LEGEND_LINE, Picture, chart, colour, logarithmic, mark,
    marks, time_label, title, with_legend, within,
};
use crate::picture::label_layout::{self, Marker, Rect};
use crate::picture::palette::Sign;
use crate::report::origin::Footer;
use crate::report::svg::{Captions, MAX_SERIES, grid, group_by_period, page};
use crate::report::tradeoff::Point;

/// Width of a character of a name in common fonts.
const CHARACTER_PX: usize = 8;
/// Radius of the ring around subjects on the front.
const RING_RADIUS: i32 = 10;
/// Maximum distance of a name from its mark. A longer interval bar may cross the name.
const MAX_REACH: i32 = 40;
/// Factor by which the axes extend beyond the points.
const AXIS_MARGIN: f64 = 1.35;

const HEIGHT: u32 = 460;
/// Height of the chart of a period, if there are several periods.
const PERIOD_HEIGHT: u32 = 360;
const NOTE: &str = "Lower left is better. Bars: 95 % confidence intervals over rounds. Ringed and joined: nothing else was \
                    both more punctual and cheaper. Hollow: controls.";

/// The point of a subject with its sign.
type Signed<'a> = (&'a Point, Sign);

pub(super) fn picture(
    percentile: &str,
    points: &[Signed<'_>],
    shared: &str,
    footer: &Footer,
) -> Picture {
    let groups = group_by_period(points, |(point, sign)| (point.period_ns, *sign));
    let (rows, columns) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * PERIOD_HEIGHT } else { HEIGHT };
    let captions =
        Captions { title: title("Lateness against its price", shared), note: NOTE, footer };
    // With many subjects, only those on the front and the controls have their names next to them.
    let is_crowded = groups.iter().any(|group| group.len() > MAX_SERIES);
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    for (point, sign) in points.iter().filter(|_| is_crowded) {
        if !entries.iter().any(|(other, _)| other == sign) {
            entries.push((*sign, point.name.split('@').next().unwrap_or(&point.name)));
        }
    }
    let legend = u32::try_from(entries.len()).unwrap_or(0) * LEGEND_LINE.unsigned_abs() + 80;
    page("tradeoff", height.max(if is_crowded { legend } else { 0 }), &captions, |area| {
        let key = |legend: &Area<'_>, sign, (x, y)| {
            legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
        };
        let area = if is_crowded { with_legend(area, &entries, key)? } else { area.clone() };
        for (cell, group) in area.split_evenly((rows, columns)).iter().zip(&groups) {
            draw(cell, percentile, group, groups.len() > 1, is_crowded)?;
        }
        Ok(())
    })
}

fn draw(
    area: &Area<'_>,
    percentile: &str,
    signed: &[&Signed<'_>],
    has_periods: bool,
    is_crowded: bool,
) -> DrawResult {
    let points: Vec<&Point> = signed.iter().map(|(point, _)| *point).collect();
    let x = padded_range(points.iter().flat_map(|p| [Some([p.cpu_ns; 2]), p.cpu_ci95]).flatten());
    let late = |v: [i64; 2]| v.map(logarithmic);
    let y = padded_range(
        points.iter().flat_map(|p| [Some(late([p.late_ns; 2])), p.late_ci95.map(late)]).flatten(),
    );
    let mut builder = chart(area);
    if let (true, Some(point)) = (has_periods, points.first()) {
        builder.caption(
            format!(
                "period {}",
                units::format_exact_duration(Duration::from_nanos(point.period_ns))
            ),
            (FONT, LABEL_PX),
        );
    }
    let mut chart = builder.build_cartesian_2d(
        x.clone().log_scale().with_key_points(marks(&x)),
        y.clone().log_scale().with_key_points(marks(&y)),
    )?;
    chart
        .configure_mesh()
        .x_desc("CPU time per tick")
        .y_desc(format!("lateness, {percentile}"))
        .max_light_lines(0)
        .x_label_formatter(&time_label)
        .y_label_formatter(&time_label)
        .label_style((FONT, LABEL_PX))
        .draw()?;
    let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, y)));
    draw_fronts(area, &points, &pixel)?;
    draw_points(area, signed, &pixel)?;
    let is_named = |p: &&Point| !is_crowded || p.front || p.control;
    let named: Vec<&Point> = points.into_iter().filter(is_named).collect();
    draw_names(area, &named, &pixel)
}

/// Converts coordinates of a chart to pixels.
type ToPixel<'a> = &'a dyn Fn(f64, f64) -> (i32, i32);

fn centre(point: &Point, pixel: ToPixel<'_>) -> (i32, i32) {
    pixel(point.cpu_ns, logarithmic(point.late_ns))
}

/// Rings and joins the subjects on the front of each period.
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
fn draw_points(area: &Area<'_>, signed: &[&Signed<'_>], pixel: ToPixel<'_>) -> DrawResult {
    for (p, sign) in signed {
        let style = colour(*sign).stroke_width(2);
        if let Some([low, high]) = p.late_ci95.map(|ci| ci.map(logarithmic)) {
            area.draw(&PathElement::new(vec![pixel(p.cpu_ns, low), pixel(p.cpu_ns, high)], style))?;
        }
        if let Some([low, high]) = p.cpu_ci95 {
            let y = logarithmic(p.late_ns);
            area.draw(&PathElement::new(vec![pixel(low, y), pixel(high, y)], style))?;
        }
    }
    for (p, sign) in signed {
        area.draw(&(EmptyElement::at(centre(p, pixel)) + mark(*sign, (0, 0))))?;
        if p.control {
            area.draw(&Circle::new(centre(p, pixel), 2, WHITE.filled()))?;
        }
    }
    Ok(())
}

/// Draws the names next to the marks, with a line to those that are far away.
fn draw_names(area: &Area<'_>, points: &[&Point], pixel: ToPixel<'_>) -> DrawResult {
    let markers: Vec<Marker> = points.iter().map(|p| marker(p, pixel)).collect();
    let (width, height) = area.dim_in_pixel();
    let [width, height] = [width, height].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
    // Below the title, and above the labels of the axis.
    let bounds = Rect { left: 90, top: 12, right: width - 8, bottom: height - 60 };
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

/// Returns the extent of a mark and of its name.
fn marker(point: &Point, pixel: ToPixel<'_>) -> Marker {
    let at = centre(point, pixel);
    let ends = point.cpu_ci95.into_iter().flatten();
    let reach = ends.map(|x| pixel(x, 1.0).0.abs_diff(at.0)).max().unwrap_or(0);
    let pixels = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
    Marker {
        at,
        reach: pixels(reach as usize).clamp(RING_RADIUS, MAX_REACH),
        name_width: pixels(point.name.chars().count() * CHARACTER_PX),
    }
}

/// Returns the range of a logarithmic axis that includes all values, with a margin.
fn padded_range(values: impl Iterator<Item = [f64; 2]>) -> std::ops::Range<f64> {
    let (low, high) =
        values.flatten().fold((f64::MAX, 1.0_f64), |(l, h), v| (l.min(v.max(1.0)), h.max(v)));
    low.min(high) / AXIS_MARGIN..high * AXIS_MARGIN
}

/// Returns the subjects on the front of each period, the cheapest first.
fn fronts<'a>(points: &[&'a Point]) -> Vec<Vec<&'a Point>> {
    let mut periods: Vec<u64> = points.iter().map(|p| p.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let front = |period: u64| {
        let mut front: Vec<&'a Point> =
            points.iter().copied().filter(|p| p.front && p.period_ns == period).collect();
        front.sort_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns));
        front
    };
    periods.into_iter().map(front).collect()
}
