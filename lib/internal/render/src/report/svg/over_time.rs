//! Lateness of one subject over the run: a band from the minimum to the maximum in each column, and
//! every point of the tail.

use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, SIZE, chart, colour, decades, logarithmic,
    time_label,
};
use crate::picture::envelope::envelope;
use crate::report::origin::Footer;
use crate::report::svg::{Captions, Drawable, page};

const HEIGHT: u32 = 440;
const NOTE: &str = "Band: from the least to the largest of all ticks in a column. Points: every tick above p99. Between its \
                    rounds the other subjects ran.";

/// Number of columns of the band; each is two pixels wide.
const COLUMNS: usize = SIZE.0 as usize / 2;

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
    let points: Vec<(f64, i64)> = subject
        .rounds
        .iter()
        .flat_map(|round| {
            let ticks: Vec<u64> = match &round.tick {
                Some(ticks) => ticks.clone(),
                None => (round.first_tick..).take(round.lateness_ns.len()).collect(),
            };
            let at = |k: u64| (round.start_ns as f64 + k as f64 * subject.period_ns as f64) / 1e9;
            ticks.into_iter().map(at).zip(round.lateness_ns.iter().copied()).collect::<Vec<_>>()
        })
        .collect();
    let from = points.first().map_or(0.0, |p| p.0);
    let to = points.last().map_or(1.0, |p| p.0).max(from + 1e-6);
    let tail = subject.summary.as_ref().and_then(|s| s.lateness_ns.p99).unwrap_or(i64::MAX);
    let picture = envelope(&points, from, to, COLUMNS, tail);
    let mut chart = chart(area)
        .build_cartesian_2d(from..to, decades(points.iter().map(|p| p.1)).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("time in the run, s")
        .y_desc("lateness")
        .y_label_formatter(&time_label)
        .x_label_formatter(&|x| format!("{x:.1}"))
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    let half = (to - from) / COLUMNS as f64 / 2.0;
    let bars = picture.band.iter().map(|&(x, low, high)| {
        // A column with a single value is drawn as a short stroke.
        let (low, high) = (logarithmic(low), logarithmic(high));
        Rectangle::new(
            [(x - half, low), (x + half, high.max(low * 1.03))],
            colour(sign).mix(0.55).filled(),
        )
    });
    chart.draw_series(bars)?;
    chart.draw_series(
        picture
            .tail
            .iter()
            .map(|&(x, y)| Circle::new((x, logarithmic(y)), 2, colour(sign).filled())),
    )?;
    Ok(())
}
