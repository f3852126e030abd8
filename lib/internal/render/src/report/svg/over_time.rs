//! Lateness of one subject over the run: a band from the minimum to the maximum in each column, and
//! every point of the tail.

use files::report::Subject;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, Chart, DrawResult, Picture, SIZE, chart_builder, colour, decades, logarithmic, mesh,
    time_label,
};
use crate::picture::envelope::{Envelope, envelope};
use crate::picture::palette::Sign;
use crate::report::origin::Footer;
use crate::report::svg::{Captions, Drawable, page};

const HEIGHT: u32 = 440;
const NOTE: &str = "Band: from the least to the largest of all ticks in a column. Points: every tick above p99. Between its \
                    rounds the other subjects ran.";

/// Number of columns of the band; each is two pixels wide.
const COLUMNS: usize = SIZE.0 as usize / 2;

type TimeChart<'c, 's> = Chart<'c, 's, RangedCoordf64, LogCoord<f64>>;

pub(super) fn picture(name: &str, drawable: &Drawable<'_>, footer: &Footer) -> Picture {
    let captions = Captions {
        title: format!("Lateness over time: {}", drawable.subject.id),
        note: NOTE,
        footer,
    };
    page(name, HEIGHT, &captions, |area| draw(area, drawable))
}

fn draw(area: &Area<'_>, drawable: &Drawable<'_>) -> DrawResult {
    let (sign, subject) = (drawable.sign, drawable.subject);
    let points = tick_points(subject);
    let from = points.first().map_or(0.0, |p| p.0);
    let to = points.last().map_or(1.0, |p| p.0).max(from + 1e-6);
    let tail = subject.summary.as_ref().and_then(|s| s.lateness_ns.p99).unwrap_or(i64::MAX);
    let reduced = envelope(&points, from, to, COLUMNS, tail);
    let late = decades(points.iter().map(|p| p.1));
    let mut chart = chart_builder(area).build_cartesian_2d(from..to, late.log_scale())?;
    mesh(&mut chart)
        .x_desc("time in the run, s")
        .y_desc("lateness")
        .y_label_formatter(&time_label)
        .x_label_formatter(&seconds_label)
        .draw()?;
    draw_band(&chart, &reduced, (to - from) / COLUMNS as f64 / 2.0, sign)?;
    draw_tail(&chart, &reduced, sign)
}

/// Returns the deadline of each tick in seconds, and its lateness.
fn tick_points(subject: &Subject) -> Vec<(f64, i64)> {
    let mut points = Vec::new();
    for round in &subject.rounds {
        for (i, &late) in round.lateness_ns.iter().enumerate() {
            let grid_ns = round.tick_index(i) as f64 * subject.period_ns as f64;
            points.push(((round.start_ns as f64 + grid_ns) / 1e9, late));
        }
    }
    points
}

fn seconds_label(seconds: &f64) -> String {
    format!("{seconds:.1}")
}

/// Draws the range of values in each column. `half` is half the width of a column.
fn draw_band(chart: &TimeChart<'_, '_>, reduced: &Envelope, half: f64, sign: Sign) -> DrawResult {
    let style = colour(sign).mix(0.55).filled();
    for &(x, low, high) in &reduced.band {
        // A column with a single value is drawn as a short stroke.
        let (low, high) = (logarithmic(low), logarithmic(high));
        let corners = [(x - half, low), (x + half, high.max(low * 1.03))];
        chart.plotting_area().draw(&Rectangle::new(corners, style))?;
    }
    Ok(())
}

fn draw_tail(chart: &TimeChart<'_, '_>, reduced: &Envelope, sign: Sign) -> DrawResult {
    let style = colour(sign).filled();
    for &(x, late) in &reduced.tail {
        chart.plotting_area().draw(&Circle::new((x, logarithmic(late)), 2, style))?;
    }
    Ok(())
}
