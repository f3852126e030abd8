//! What punctuality costs: lateness against CPU time per tick, both with their intervals, and what
//! nothing beats in both.

use std::time::Duration;

use cli::units;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::picture::canvas::{
    Area, Drawn, FONT, LABEL_PX, LEGEND_LINE, Picture, chart, colour, logarithmic, mark, marks,
    time_label, title, with_legend, within,
};
use crate::picture::label_layout::{self, Marker};
use crate::picture::palette::Sign;
use crate::render::svg::{MAX_TOGETHER, Words, by_period, grid, page};
use crate::render::tradeoff::Point;

/// Width of a character of a name, as wide as common fonts have it.
const CHARACTER_PX: usize = 8;
/// Radius of the ring around what is unbeaten.
const RING: i32 = 10;
/// A bar longer than this may run below its name: else the name would be far from its mark.
const FARTHEST: i32 = 40;
/// What the axes leave free around the points, as a factor.
const ROOM: f64 = 1.35;

const HEIGHT: u32 = 460;
/// Of one chart among several, each of a period.
const OF_A_PERIOD: u32 = 360;
const NOTE: &str = "Lower left is better. Bars: 95 % confidence intervals over rounds. Ringed and joined: nothing else was \
                    both more punctual and cheaper. Hollow: controls.";

/// A subject's point with its sign.
type Signed<'a> = (&'a Point, Sign);

pub(super) fn picture(
    percentile: &str,
    points: &[Signed<'_>],
    shared: &str,
    foot: &[String; 2],
) -> Picture {
    let groups = by_period(points, |(point, sign)| (point.period_ns, *sign));
    let (rows, columns) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * OF_A_PERIOD } else { HEIGHT };
    let words = Words { title: title("Lateness against its price", shared), note: NOTE, foot };
    // In a crowd only what there is to choose, and what it is measured against, has its name beside
    // it.
    let crowd = groups.iter().any(|group| group.len() > MAX_TOGETHER);
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    for (point, sign) in points.iter().filter(|_| crowd) {
        if !entries.iter().any(|(other, _)| other == sign) {
            entries.push((*sign, point.name.split('@').next().unwrap_or(&point.name)));
        }
    }
    let legend = u32::try_from(entries.len()).unwrap_or(0) * LEGEND_LINE.unsigned_abs() + 80;
    page("tradeoff", height.max(if crowd { legend } else { 0 }), &words, |area| {
        let key = |legend: &Area<'_>, sign, (x, y)| {
            legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
        };
        let area = if crowd { with_legend(area, &entries, key)? } else { area.clone() };
        for (cell, group) in area.split_evenly((rows, columns)).iter().zip(&groups) {
            draw(cell, percentile, group, groups.len() > 1, crowd)?;
        }
        Ok(())
    })
}

fn draw(
    area: &Area<'_>,
    percentile: &str,
    signed: &[&Signed<'_>],
    of_a_period: bool,
    crowd: bool,
) -> Drawn {
    let points: Vec<&Point> = signed.iter().map(|(point, _)| *point).collect();
    let x = around(points.iter().flat_map(|p| [Some([p.cpu_ns; 2]), p.cpu_ci95]).flatten());
    let late = |v: [i64; 2]| v.map(logarithmic);
    let y = around(
        points.iter().flat_map(|p| [Some(late([p.late_ns; 2])), p.late_ci95.map(late)]).flatten(),
    );
    let mut builder = chart(area);
    if let (true, Some(point)) = (of_a_period, points.first()) {
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
    let at = |p: &Point| within(area, chart.backend_coord(&(p.cpu_ns, logarithmic(p.late_ns))));
    for path in fronts(&points) {
        let path: Vec<(i32, i32)> = path.into_iter().map(at).collect();
        for &centre in &path {
            area.draw(&Circle::new(centre, RING, BLACK.mix(0.5).stroke_width(1)))?;
        }
        area.draw(&DashedPathElement::new(path, 2, 4, BLACK.mix(0.5).stroke_width(1)))?;
    }
    for (p, sign) in signed {
        let style = colour(*sign).stroke_width(2);
        let pixel = |x: f64, y: f64| within(area, chart.backend_coord(&(x, y)));
        if let Some([low, high]) = p.late_ci95.map(late) {
            area.draw(&PathElement::new(vec![pixel(p.cpu_ns, low), pixel(p.cpu_ns, high)], style))?;
        }
        if let Some([low, high]) = p.cpu_ci95 {
            let y = logarithmic(p.late_ns);
            area.draw(&PathElement::new(vec![pixel(low, y), pixel(high, y)], style))?;
        }
    }
    for (p, sign) in signed {
        area.draw(&(EmptyElement::at(at(p)) + mark(*sign, (0, 0))))?;
        if p.control {
            area.draw(&Circle::new(at(p), 2, WHITE.filled()))?;
        }
    }
    let points: Vec<&Point> =
        points.into_iter().filter(|p| !crowd || p.front || p.control).collect();
    let (width, height) = area.dim_in_pixel();
    let [width, height] = [width, height].map(|n| i32::try_from(n).unwrap_or(i32::MAX));
    let named: Vec<Marker> = points
        .iter()
        .map(|p| {
            let at = at(p);
            let bar = p.cpu_ci95.map_or(0, |ci| {
                ci.map(|x| within(area, chart.backend_coord(&(x, 1.0))).0.abs_diff(at.0))
                    .into_iter()
                    .max()
                    .unwrap_or(0)
            });
            let width = p.name.chars().count() * CHARACTER_PX;
            let pixels = |n: usize| i32::try_from(n).unwrap_or(i32::MAX);
            Marker {
                at,
                reach: pixels(bar as usize).clamp(RING, FARTHEST),
                name_width: pixels(width),
            }
        })
        .collect();
    // Below the title, and above the labels of the axis.
    let bounds = [90, 12, width - 8, height - 60];
    for (p, place) in points.iter().zip(label_layout::beside(&named, bounds)) {
        let to = (place.x, place.y);
        if place.far {
            area.draw(&PathElement::new(vec![at(p), to], BLACK.mix(0.4).stroke_width(1)))?;
        }
        let side = if place.to_the_left { HPos::Right } else { HPos::Left };
        let font = (FONT, LABEL_PX).into_text_style(area).pos(Pos::new(side, VPos::Center));
        area.draw_text(&p.name, &font, to)?;
    }
    Ok(())
}

/// A logarithmic axis that holds all of the values, with room around them.
fn around(values: impl Iterator<Item = [f64; 2]>) -> std::ops::Range<f64> {
    let (low, high) =
        values.flatten().fold((f64::MAX, 1.0_f64), |(l, h), v| (l.min(v.max(1.0)), h.max(v)));
    low.min(high) / ROOM..high * ROOM
}

/// The unbeaten subjects of each period, the cheapest first.
fn fronts<'a>(points: &[&'a Point]) -> Vec<Vec<&'a Point>> {
    let mut periods: Vec<u64> = points.iter().map(|p| p.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let of = |period: u64| {
        let mut front: Vec<&'a Point> =
            points.iter().copied().filter(|p| p.front && p.period_ns == period).collect();
        front.sort_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns));
        front
    };
    periods.into_iter().map(of).collect()
}
