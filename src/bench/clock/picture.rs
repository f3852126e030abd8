//! Draws the cost of reading each clock by the number of threads that read concurrently.

use plotters::prelude::*;

use crate::bench::clock::file::ClockReport;
use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, draw, mark, round, with_legend,
};
use render::picture::palette::{Sign, nth};

/// Draws the picture of a report.
pub fn draw_picture(bench: &ClockReport) -> Picture {
    draw("clock", |area| draw_chart(area, bench))
}

fn draw_chart(area: &Area<'_>, bench: &ClockReport) -> DrawResult {
    let threads = bench.threads();
    let max_threads = threads.last().copied().unwrap_or(1) as f64;
    let max_ns = bench.costs.iter().map(|c| c.median_ns).fold(1.0, f64::max);
    let clocks = bench.clocks();
    let entries: Vec<(Sign, &str)> =
        clocks.iter().copied().enumerate().map(|(i, name)| (nth(i), name)).collect();
    let area = &with_legend(area, &entries, |legend, sign, (x, y)| {
        legend.draw(&(EmptyElement::at((x + 12, y)) + mark(sign, (0, 0))))
    })?;
    let mut chart = ChartBuilder::on(area)
        .caption("What reading a clock costs", (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(0.5..max_threads + 0.5, 0.0..max_ns * 1.1)?;
    chart
        .configure_mesh()
        .x_desc("threads that read at once")
        .y_desc("ns per read: median, bar over the middle half")
        .x_labels(threads.len() * 2 + 1)
        .y_label_formatter(&|ns| round(*ns))
        .x_label_formatter(&|x| if x.fract() == 0.0 { format!("{x:.0}") } else { String::new() })
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for (i, clock) in clocks.iter().copied().enumerate() {
        // The marks of the clocks are offset, so that equal costs do not hide each other.
        let offset = (i as f64 - (clocks.len() - 1) as f64 / 2.0) * 0.05;
        let costs: Vec<_> = bench.costs.iter().filter(|c| c.clock == clock).collect();
        let points: Vec<(f64, f64)> = costs
            .iter()
            .map(|c| (c.threads as f64 + offset, c.median_ns.clamp(0.0, max_ns)))
            .collect();
        chart.draw_series(LineSeries::new(points.clone(), colour(nth(i)).mix(0.5)))?;
        chart.draw_series(costs.iter().zip(&points).map(|(c, &(x, _))| {
            // A file may contain any number; values outside of the axis are drawn at its end.
            let [low, high] = c.quartiles_ns.map(|ns| ns.clamp(0.0, max_ns * 1.1));
            PathElement::new(vec![(x, low), (x, high)], colour(nth(i)).stroke_width(2))
        }))?;
        chart.draw_series(points.iter().map(|&at| EmptyElement::at(at) + mark(nth(i), (0, 0))))?;
    }
    Ok(())
}
