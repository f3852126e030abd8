//! Lateness against percentile: the latency axis logarithmic, the percentile axis in nines.

use std::time::Duration;

use cli::time::format_time;
use cli::units;
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, Drawn, FONT, GHOST, LABEL_PX, Picture, colour, decades, hatched, line, logarithmic,
    time_label, title, with_legend, within,
};
use crate::picture::nines::{self, Nines};
use crate::picture::palette::{Dash, Sign};
use crate::render::samples::Lateness;
use crate::render::svg::{Drawable, MAX_TOGETHER, Words, by_period, grid, page};

const HEIGHT: u32 = 440;
/// Of one chart among several, each of a period.
const OF_A_PERIOD: u32 = 320;
/// Of one among many, each of a subject.
const OF_A_SUBJECT: u32 = 170;
const COLUMNS: usize = 4;

/// One subject's line: which one, its points in nines and nanoseconds, and what lies above the last
/// of them.
struct Curve<'a> {
    of: &'a Drawable<'a>,
    points: Vec<(f64, i64)>,
    above: Option<Above>,
}

/// Values of which only the number and the largest are known.
struct Above {
    /// Where they begin and end on the axis of percentiles.
    nines: [f64; 2],
    ns: [i64; 2],
    count: u64,
}

/// What all charts of a picture share.
struct Axes {
    end: f64,
    late: std::ops::Range<f64>,
}

pub(super) fn picture(subjects: &[Drawable<'_>], shared: &str, foot: &[String; 2]) -> Picture {
    let curves: Vec<Curve<'_>> =
        subjects.iter().map(curve).filter(|curve| !curve.points.is_empty()).collect();
    let tops = curves.iter().filter_map(|c| c.above.as_ref()).map(|above| above.ns[1]);
    let values = curves.iter().flat_map(|c| c.points.iter().map(|p| p.1)).chain(tops);
    let ends = curves.iter().filter_map(|c| {
        c.above.as_ref().map_or(c.points.last().map(|p| p.0), |a| Some(a.nines[1]))
    });
    let axes = Axes { end: ends.fold(1.0, f64::max), late: decades(values) };
    let note = match curves.iter().any(|c| c.above.is_some()) {
        true => {
            "Each gridline to the right leaves one tenth as many ticks. Hatched: too late for the bins of its source."
        }
        false => "Each gridline to the right leaves one tenth as many ticks.",
    };
    let words = Words { title: title("Lateness by percentile", shared), note, foot };
    let groups = by_period(&curves, |c| (c.of.subject.period_ns, c.of.sign));
    if groups.iter().any(|group| group.len() > MAX_TOGETHER) {
        let (rows, columns) = grid(curves.len(), COLUMNS);
        return page("percentiles", rows as u32 * OF_A_SUBJECT, &words, |area| {
            for (cell, own) in area.split_evenly((rows, columns)).iter().zip(&curves) {
                let title = cut(&own.of.name);
                chart(cell, Some(&title), &[own], &curves, &axes)?;
            }
            Ok(())
        });
    }
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    let notes: Vec<String> = curves.iter().map(label).collect();
    for (curve, note) in curves.iter().zip(&notes) {
        // At several periods a name stands once, as the subjects of one period have it.
        let name = if groups.len() > 1 { curve.of.subject.name.as_str() } else { note };
        if !entries.iter().any(|(sign, _)| *sign == curve.of.sign) {
            entries.push((curve.of.sign, name));
        }
    }
    let (rows, columns) = grid(groups.len(), 2);
    let height = if groups.len() > 1 { rows as u32 * OF_A_PERIOD } else { HEIGHT };
    page("percentiles", height, &words, |area| {
        let key =
            |legend: &Area<'_>, sign, (x, y)| legend.draw(&line(sign, vec![(x, y), (x + 24, y)]));
        let area = with_legend(area, &entries, key)?;
        for (cell, group) in area.split_evenly((rows, columns)).iter().zip(&groups) {
            let period = group.first().filter(|_| groups.len() > 1).map(|c| c.of.subject.period_ns);
            let title = period.map(|ns| {
                format!("period {}", units::format_exact_duration(Duration::from_nanos(ns)))
            });
            chart(cell, title.as_deref(), group, &[], &axes)?;
        }
        Ok(())
    })
}

fn curve<'a>(of: &'a Drawable<'a>) -> Curve<'a> {
    let values = Lateness::of(of.subject);
    let (n, known) = (values.count(), values.known());
    let points = nines::curve_of(n, known, |rank| values.at_rank(rank));
    let largest = of.subject.summary.as_ref().map_or(0, |s| s.lateness_ns.max);
    let above = points.last().filter(|_| known < n).map(|&(from, last)| Above {
        nines: [from, nines::last(n)],
        ns: [last, largest],
        count: n - known,
    });
    Curve { of, points, above }
}

/// The name, and how many lie above the last bin.
fn label(curve: &Curve<'_>) -> String {
    let name = &curve.of.name;
    curve.above.as_ref().map_or(name.clone(), |above| format!("{name}\n{}", above.says()))
}

impl Above {
    fn says(&self) -> String {
        format!(
            "{} above {}, up to {}",
            self.count,
            format_time(self.ns[0]),
            format_time(self.ns[1])
        )
    }
}

/// A name that fits above a small chart.
fn cut(name: &str) -> String {
    const MAX_NAME_CHARS: usize = 28;
    if name.chars().count() <= MAX_NAME_CHARS {
        name.to_owned()
    } else {
        name.chars().take(MAX_NAME_CHARS - 3).chain("...".chars()).collect()
    }
}

/// `ghosts` are drawn behind, as one grey crowd.
fn chart(
    area: &Area<'_>,
    name: Option<&str>,
    curves: &[&Curve<'_>],
    ghosts: &[Curve<'_>],
    axes: &Axes,
) -> Drawn {
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
    // What has gaps lies over what has none: curves that coincide are all seen.
    let mut by_dash: Vec<&&Curve<'_>> = curves.iter().collect();
    by_dash.sort_by_key(|curve| curve.of.sign.dash != Dash::Solid);
    for curve in by_dash {
        let style = colour(curve.of.sign).stroke_width(2);
        match curve.of.sign.dash {
            Dash::Solid => chart.draw_series(LineSeries::new(points(curve), style))?,
            Dash::Dashed { on, off } => {
                chart.draw_series(DashedLineSeries::new(points(curve), on, off, style))?
            }
        };
        if let Some(above) = &curve.above {
            let corner = |i: usize| {
                within(area, chart.backend_coord(&(above.nines[i], logarithmic(above.ns[i]))))
            };
            hatched(area, [corner(0), corner(1)], curve.of.sign)?;
        }
    }
    Ok(())
}
