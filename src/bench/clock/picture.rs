//! Draws the cost of reading each clock by the number of threads that read concurrently.

use plotters::prelude::*;

use crate::bench::clock::file::{ClockReport, Cost};
use render::picture::axis::Axis;
use render::picture::canvas::{
    Area, Chart, DrawResult, Picture, SIZE, chart_builder, colour, draw_mark_key,
    draw_with_captions, mark, mesh, round, with_legend,
};
use render::picture::palette::{Sign, nth};
use render::report::fitness;

/// Distance between the marks of two clocks, so that equal costs do not hide each other.
const CLOCK_DISTANCE: f64 = 0.05;

/// Draws the picture of a report.
pub fn draw_picture(bench: &ClockReport) -> Picture {
    let machine = bench.host.cpu_model.as_deref().unwrap_or(&bench.host.os);
    let mut footer = vec![format!("{}, {machine}", bench.started_utc)];
    footer.extend(fitness::sentence(bench.fitness.as_ref()));
    let mut headline = bench.advice();
    headline.truncate(2);
    draw_with_captions("clock", &headline.join(" "), SIZE, &footer, |area| draw_chart(area, bench))
}

fn draw_chart(area: &Area<'_>, bench: &ClockReport) -> DrawResult {
    let (clocks, threads) = (bench.clocks(), bench.threads());
    let mut entries: Vec<(Sign, &str)> = Vec::new();
    for (i, &clock) in clocks.iter().enumerate() {
        entries.push((nth(i), clock));
    }
    let area = with_legend(area, &entries, draw_mark_key)?;
    let max_threads = threads.last().copied().unwrap_or(1) as f64;
    let max_ns = bench.costs.iter().map(|c| c.median_ns).fold(1.0, f64::max);
    let mut builder = chart_builder(&area);
    let (x, y) = (Axis::linear(0.5..max_threads + 0.5), Axis::linear(0.0..max_ns * 1.1));
    let mut chart = builder.build_cartesian_2d(x, y)?;
    mesh(&mut chart)
        .x_desc("threads that read at once")
        .y_desc("ns per read: median, bar over the middle half")
        .x_labels(threads.len() * 2 + 1)
        .y_label_formatter(&ns_label)
        .x_label_formatter(&threads_label)
        .draw()?;
    for (i, clock) in clocks.iter().enumerate() {
        let offset = (i as f64 - (clocks.len() - 1) as f64 / 2.0) * CLOCK_DISTANCE;
        let mut costs = Vec::new();
        for cost in bench.costs.iter().filter(|cost| cost.clock == *clock) {
            costs.push(DrawnCost::new(cost, offset, max_ns));
        }
        draw_clock(&mut chart, nth(i), &costs)?;
    }
    Ok(())
}

fn ns_label(ns: &f64) -> String {
    round(*ns)
}

/// Formats a label of the axis of threads, on which only whole numbers have one.
fn threads_label(threads: &f64) -> String {
    if threads.fract() == 0.0 { format!("{threads:.0}") } else { String::new() }
}

/// A cost as drawn. A file may contain any number; values outside of the axis are drawn at its end.
struct DrawnCost {
    median: (f64, f64),
    low: (f64, f64),
    high: (f64, f64),
}

impl DrawnCost {
    fn new(cost: &Cost, offset: f64, max_ns: f64) -> Self {
        let x = cost.threads as f64 + offset;
        let [low, high] = cost.quartiles_ns.map(|ns| ns.clamp(0.0, max_ns * 1.1));
        Self { median: (x, cost.median_ns.clamp(0.0, max_ns)), low: (x, low), high: (x, high) }
    }
}

/// Draws the medians of a clock as a line with marks, and its quartiles as bars.
fn draw_clock(chart: &mut Chart<'_, '_>, sign: Sign, costs: &[DrawnCost]) -> DrawResult {
    let medians = costs.iter().map(|cost| cost.median);
    chart.draw_series(LineSeries::new(medians, colour(sign).mix(0.5)))?;
    let style = colour(sign).stroke_width(2);
    for cost in costs {
        chart.plotting_area().draw(&PathElement::new(vec![cost.low, cost.high], style))?;
    }
    for cost in costs {
        chart.plotting_area().draw(&(EmptyElement::at(cost.median) + mark(sign, (0, 0))))?;
    }
    Ok(())
}
