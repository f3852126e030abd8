//! Lateness by percentile, with a logarithmic axis of lateness and an axis of percentiles in nines.

use std::time::Duration;

use cli::time::format_time;
use cli::units;
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, FONT, GHOST, LABEL_PX, Picture, colour, decades, draw_hatched, line,
    logarithmic, time_label, title, with_legend, within,
};
use crate::picture::nines::{self, Nines};
use crate::picture::palette::{Dash, Sign};
use crate::report::origin::Footer;
use crate::report::samples::Lateness;
use crate::report::svg::{Captions, Drawable, MAX_SERIES, grid, group_by_period, page};

const HEIGHT: u32 = 440;
/// Height of the chart of a period, if there are several periods.
const PERIOD_HEIGHT: u32 = 320;
/// Height of the small chart of a subject, if there are many subjects.
const SUBJECT_HEIGHT: u32 = 170;
const COLUMNS: usize = 4;

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
    late: std::ops::Range<f64>,
}

pub(super) fn picture(subjects: &[Drawable<'_>], shared: &str, footer: &Footer) -> Picture {
    let curves: Vec<Curve<'_>> =
        subjects.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let tops = curves.iter().filter_map(|c| c.above.as_ref()).map(|above| above.end.1);
    let values = curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)).chain(tops);
    let ends = curves
        .iter()
        .filter_map(|c| c.above.as_ref().map_or(c.points.last().map(|p| p.0), |a| Some(a.end.0)));
    let axes = Axes { end: ends.fold(1.0, f64::max), late: decades(values) };
    let note = match curves.iter().any(|c| c.above.is_some()) {
        true => {
            "Each gridline to the right leaves one tenth as many ticks. Hatched: too late for the bins of its source."
        }
        false => "Each gridline to the right leaves one tenth as many ticks.",
    };
    let captions = Captions { title: title("Lateness by percentile", shared), note, footer };
    let groups = group_by_period(&curves, |c| (c.drawable.subject.period_ns, c.drawable.sign));
    if groups.iter().any(|group| group.len() > MAX_SERIES) {
        let (rows, columns) = grid(curves.len(), COLUMNS);
        return page("percentiles", rows as u32 * SUBJECT_HEIGHT, &captions, |area| {
            for (cell, curve) in area.split_evenly((rows, columns)).iter().zip(&curves) {
                let title = truncate_name(&curve.drawable.name);
                chart(cell, Some(&title), &[curve], &curves, &axes)?;
            }
            Ok(())
        });
    }
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    let notes: Vec<String> = curves.iter().map(label).collect();
    for (curve, note) in curves.iter().zip(&notes) {
        // With several periods, the legend has one entry per name.
        let name = if groups.len() > 1 { curve.drawable.subject.name.as_str() } else { note };
        if !entries.iter().any(|(sign, _)| *sign == curve.drawable.sign) {
            entries.push((curve.drawable.sign, name));
        }
    }
    let (rows, columns) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * PERIOD_HEIGHT } else { HEIGHT };
    page("percentiles", height, &captions, |area| {
        let key =
            |legend: &Area<'_>, sign, (x, y)| legend.draw(&line(sign, vec![(x, y), (x + 24, y)]));
        let area = with_legend(area, &entries, key)?;
        for (cell, group) in area.split_evenly((rows, columns)).iter().zip(&groups) {
            let period =
                group.first().filter(|_| groups.len() > 1).map(|c| c.drawable.subject.period_ns);
            let title = period.map(|ns| {
                format!("period {}", units::format_exact_duration(Duration::from_nanos(ns)))
            });
            chart(cell, title.as_deref(), group, &[], &axes)?;
        }
        Ok(())
    })
}

fn curve<'a>(drawable: &'a Drawable<'a>) -> Curve<'a> {
    let values = Lateness::from_subject(drawable.subject);
    let (n, known) = (values.count(), values.known());
    let points = nines::curve_by_rank(n, known, |rank| values.at_rank(rank));
    let largest = drawable.subject.summary.as_ref().map_or(0, |s| s.lateness_ns.max);
    let above = points.last().filter(|_| known < n).map(|&start| Unresolved {
        start,
        end: (nines::last_position(n), largest),
        count: n - known,
    });
    Curve { drawable, points, above }
}

/// Returns the name, and the number of values above the last bin.
fn label(curve: &Curve<'_>) -> String {
    let name = &curve.drawable.name;
    curve.above.as_ref().map_or(name.clone(), |above| format!("{name}\n{}", above.describe()))
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

/// Shortens a name to fit above a small chart.
fn truncate_name(name: &str) -> String {
    const MAX_NAME_CHARS: usize = 28;
    if name.chars().count() <= MAX_NAME_CHARS {
        name.to_owned()
    } else {
        name.chars().take(MAX_NAME_CHARS - 3).chain("...".chars()).collect()
    }
}

/// Draws a chart. `ghosts` are the curves drawn behind it in grey.
fn chart(
    area: &Area<'_>,
    name: Option<&str>,
    curves: &[&Curve<'_>],
    ghosts: &[Curve<'_>],
    axes: &Axes,
) -> DrawResult {
    let small = !ghosts.is_empty();
    let px = if small { LABEL_PX - 4 } else { LABEL_PX };
    let mut builder = ChartBuilder::on(area);
    builder.margin(if small { 4 } else { 12 });
    builder.x_label_area_size(if small { 22 } else { 44 }).y_label_area_size(if small {
        46
    } else {
        76
    });
    if let Some(name) = name {
        builder.caption(name, (FONT, px));
    }
    let mut chart =
        builder.build_cartesian_2d(Nines { end: axes.end }, axes.late.clone().log_scale())?;
    let mut mesh = chart.configure_mesh();
    mesh.max_light_lines(1)
        .y_label_formatter(&time_label)
        .label_style((FONT, px))
        .light_line_style(BLACK.mix(0.06));
    if small {
        mesh.y_labels(4).x_label_formatter(&|x| match nines::label(*x).as_str() {
            "p50" | "p75" => String::new(),
            text => text.to_owned(),
        });
    } else {
        mesh.x_desc("percentile of the ticks").y_desc("lateness");
    }
    mesh.draw()?;
    let points = |curve: &Curve<'_>| {
        curve.points.iter().map(|&(x, y)| (x, logarithmic(y))).collect::<Vec<_>>()
    };
    for ghost in ghosts {
        chart.draw_series(LineSeries::new(points(ghost), GHOST.stroke_width(1)))?;
    }
    // Dashed lines are drawn over solid ones, so that both are visible if they coincide.
    let mut by_dash: Vec<&&Curve<'_>> = curves.iter().collect();
    by_dash.sort_by_key(|curve| curve.drawable.sign.dash != Dash::Solid);
    for curve in by_dash {
        let style = colour(curve.drawable.sign).stroke_width(2);
        match curve.drawable.sign.dash {
            Dash::Solid => chart.draw_series(LineSeries::new(points(curve), style))?,
            Dash::Dashed { on, off } => {
                chart.draw_series(DashedLineSeries::new(points(curve), on, off, style))?
            }
        };
        if let Some(above) = &curve.above {
            let corner = |(position, ns): (f64, i64)| {
                within(area, chart.backend_coord(&(position, logarithmic(ns))))
            };
            draw_hatched(area, corner(above.start), corner(above.end), curve.drawable.sign)?;
        }
    }
    Ok(())
}
