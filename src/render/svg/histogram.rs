//! Histogram of the lateness of one subject, with logarithmic classes and a logarithmic count: one late tick is seen
//! beside ten thousand punctual ones.

use plotters::prelude::*;

use crate::picture::canvas::{Area, Drawn, FONT, LABEL_PX, chart, colour, decades, logarithmic, time_label};
use crate::render::samples::Lateness;
use crate::render::svg::Drawable;

/// Classes in each decade of lateness.
const CLASSES: f64 = 20.0;

pub(super) fn draw(area: &Area<'_>, drawable: &Drawable<'_>) -> Drawn {
    let (i, subject) = (drawable.i, drawable.subject);
    let values = Lateness::of(subject);
    let range = decades(values.counts().map(|(value, _)| value));
    let start = range.start.log10();
    let classes = ((range.end.log10() - start) * CLASSES).round() as usize;
    let mut counts = vec![0_u64; classes + 1];
    for (value, n) in values.counts() {
        counts[((logarithmic(value).log10() - start) * CLASSES).floor().max(0.0) as usize] += n;
    }
    let most = counts.iter().copied().max().unwrap_or(1) as f64;
    let mut chart = chart(area, format!("Histogram of lateness: {}", subject.id))
        .margin_right(36)
        .build_cartesian_2d(range.log_scale(), (0.5..most * 1.5).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("lateness")
        .y_desc("ticks per bin")
        .x_label_formatter(&time_label)
        .y_label_formatter(&|n| if *n >= 1.0 { format!("{n:.0}") } else { String::new() })
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    let edge = |class: usize| 10_f64.powf(start + class as f64 / CLASSES);
    let bars = counts.iter().enumerate().filter(|(_, n)| **n > 0);
    chart.draw_series(bars.map(|(class, &n)| {
        Rectangle::new([(edge(class), 0.5), (edge(class + 1), n as f64)], colour(i).mix(0.7).filled())
    }))?;
    Ok(())
}
