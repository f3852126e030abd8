//! Lateness of one subject over its rounds, which are joined: a band from the minimum to the maximum
//! in each column, and every point of the tail.

use std::ops::Range;

use cli::sort::sort_by;
use files::report::{Round, Subject};
use plotters::prelude::*;

use crate::picture::axis::Axis;
use crate::picture::canvas::{
    Area, Chart, DrawResult, Picture, SIZE, chart_builder, colour, decades, logarithmic, mesh,
    time_label,
};
use crate::picture::envelope::{Envelope, envelope};
use crate::picture::palette::Sign;
use crate::report::svg::{Captions, DISTRUST_NOTE, Drawable, page, shade};
use crate::report::trust::Trust;

const HEIGHT: u32 = 440;
const NOTE: &str =
    "Band: from the least to the largest of all ticks in a column. Points: every tick above p99.";

/// Number of columns of the band; each is two pixels wide.
const COLUMNS: usize = SIZE.0 as usize / 2;

/// Maximum number of rounds between which a line is drawn.
const MAX_MARKED_ROUNDS: usize = 200;

pub(super) fn picture(
    name: &str,
    drawable: &Drawable<'_>,
    trust: Trust,
    footer: &[String],
) -> Picture {
    let timeline = Timeline::new(drawable.subject);
    let distrusted = drawable.first_distrusted(trust);
    let joints = match timeline.joints.len() {
        0 => "",
        n if n < MAX_MARKED_ROUNDS => {
            " The rounds are joined at the thin lines; the time between them is left out."
        }
        _ => " The rounds are joined; the time between them is left out.",
    };
    let note = format!("{NOTE}{joints}{}", if distrusted.is_some() { DISTRUST_NOTE } else { "" });
    let title = format!("Lateness over time: {}", drawable.subject.id);
    let captions = Captions { title, note: &note, footer };
    page(name, HEIGHT, &captions, |area| draw(area, drawable, &timeline, distrusted))
}

/// The ticks of a subject on an axis without the time between its rounds.
struct Timeline {
    /// The position of each tick, ascending, and its lateness.
    points: Vec<(f64, i64)>,
    /// The positions at which two rounds are joined.
    joints: Vec<f64>,
    end: f64,
    has_period: bool,
}

impl Timeline {
    fn new(subject: &Subject) -> Self {
        let has_period = subject.period_ns > 0;
        // Without a period, the axis counts the ticks.
        let step = if has_period { subject.period_ns as f64 / 1e9 } else { 1.0 };
        let (mut points, mut joints, mut end) = (Vec::new(), Vec::new(), 0.0);
        // The instances of a round overlap in time.
        for rounds in subject.rounds.chunk_by(|a, b| a.index == b.index) {
            let mut ticks: Vec<(f64, i64)> = rounds.iter().flat_map(|r| due(r, step)).collect();
            sort_by(&mut ticks, |a, b| a.0.total_cmp(&b.0));
            let (Some(&(first, _)), Some(&(last, _))) = (ticks.first(), ticks.last()) else {
                continue;
            };
            if !points.is_empty() {
                joints.push(end);
            }
            points.extend(ticks.into_iter().map(|(due, late)| (end + due - first, late)));
            end += last - first + step;
        }
        Self { points, joints, end, has_period }
    }
}

/// Returns the deadline of each tick of a round and its lateness; `step` is the period on the axis.
fn due(round: &Round, step: f64) -> impl Iterator<Item = (f64, i64)> {
    let start = round.start_ns as f64 / 1e9;
    let ticks = round.lateness_ns.iter().enumerate();
    ticks.map(move |(i, &late)| (start + round.tick_index(i) as f64 * step, late))
}

fn draw(
    area: &Area<'_>,
    drawable: &Drawable<'_>,
    timeline: &Timeline,
    distrusted: Option<i64>,
) -> DrawResult {
    let (sign, subject) = (drawable.sign, drawable.subject);
    let (points, end) = (&timeline.points, timeline.end.max(1e-6));
    let tail = subject.summary.as_ref().and_then(|s| s.lateness_ns.p99).unwrap_or(i64::MAX);
    let reduced = envelope(points, 0.0, end, COLUMNS, tail);
    let late = decades(points.iter().map(|p| p.1));
    let decimals = match end {
        _ if !timeline.has_period => 0,
        ..0.1 => 3,
        0.1..1.0 => 2,
        _ => 1,
    };
    let (x, y) = (Axis::linear(0.0..end), Axis::logarithmic(late.clone()));
    let mut chart = chart_builder(area).build_cartesian_2d(x, y)?;
    // The only vertical lines are those between rounds.
    mesh(&mut chart)
        .disable_x_mesh()
        .max_light_lines(1)
        .x_desc(if timeline.has_period { "time in the rounds, s" } else { "ticks" })
        .y_desc("lateness")
        .y_label_formatter(&time_label)
        .x_label_formatter(&|position| format!("{position:.decimals$}"))
        .draw()?;
    if let Some(from) = distrusted {
        let corners = [(0.0, logarithmic(from)), (end, late.end)];
        chart.plotting_area().draw(&shade(corners))?;
    }
    draw_joints(&chart, timeline, &late)?;
    draw_band(&chart, &reduced, end / COLUMNS as f64 / 2.0, sign)?;
    draw_tail(&chart, &reduced, sign)
}

/// Draws a thin line between rounds, unless there are too many.
fn draw_joints(chart: &Chart<'_, '_>, timeline: &Timeline, late: &Range<f64>) -> DrawResult {
    if timeline.joints.len() >= MAX_MARKED_ROUNDS {
        return Ok(());
    }
    for &x in &timeline.joints {
        let ends = vec![(x, late.start), (x, late.end)];
        chart.plotting_area().draw(&PathElement::new(ends, BLACK.mix(0.3).stroke_width(1)))?;
    }
    Ok(())
}

/// Draws the range of values in each column. `half` is half the width of a column.
fn draw_band(chart: &Chart<'_, '_>, reduced: &Envelope, half: f64, sign: Sign) -> DrawResult {
    let style = colour(sign).mix(0.55).filled();
    for &(x, low, high) in &reduced.band {
        // A column with a single value is drawn as a short stroke.
        let (low, high) = (logarithmic(low), logarithmic(high));
        let corners = [(x - half, low), (x + half, high.max(low * 1.03))];
        chart.plotting_area().draw(&Rectangle::new(corners, style))?;
    }
    Ok(())
}

fn draw_tail(chart: &Chart<'_, '_>, reduced: &Envelope, sign: Sign) -> DrawResult {
    let style = colour(sign).filled();
    for &(x, late) in &reduced.tail {
        chart.plotting_area().draw(&Circle::new((x, logarithmic(late)), 2, style))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::Report;

    use super::*;

    #[test]
    fn rounds_are_joined() {
        let text = include_str!("../../../../../../tests/fixtures/report.json");
        let mut subject = Report::from_json(text).expect("a report").subjects.remove(0);
        let rounds = subject.rounds.len();
        let timeline = Timeline::new(&subject);
        assert_eq!(timeline.joints.len(), rounds - 1);
        assert_eq!(timeline.points.len(), 600);
        assert!(timeline.points.is_sorted_by(|a, b| a.0 < b.0));
        // Twelve rounds of 50 ticks at 1 ms, although the run took 2.2 s.
        assert!((timeline.end - 0.6).abs() < 1e-6, "{}", timeline.end);
        subject.period_ns = 0;
        assert!((Timeline::new(&subject).end - 600.0).abs() < 1.0, "ticks are counted");
    }
}
