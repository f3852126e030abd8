//! Draws the cost of each operation on each runtime: a mark at the median, and a line from the
//! minimum to the 99th percentile.

use cli::time;
use cli::words::pluralize;
use files::cost::{Overhead, Verdict};
use plotters::prelude::*;

use crate::bench::dispatch::file::{
    DispatchReport as Report, MeasuredOperation as Operation, MeasuredRuntime as Measured,
};
use render::picture::axis::Axis;
use render::picture::canvas::{
    Area, Chart, DrawResult, FONT, LABEL_PX, Picture, SIZE, colour, decades, draw_label,
    draw_lane_name, draw_with_captions, lane_chart_builder, lane_mesh, mark, time_label, within,
};
use render::picture::palette::{Sign, nth};

/// Width of the names in pixels.
const NAMES_WIDTH: u32 = 150;
/// Distance between the runtimes of an operation, as a share of its lane.
const RUNTIME_DISTANCE: f64 = 0.4;

/// Draws the picture of a report.
pub fn draw_picture(report: &Report) -> Picture {
    let tokio = report.host.versions.get("tokio").map_or("unknown", String::as_str);
    let machine = report.host.cpu_model.as_deref().unwrap_or(&report.host.os);
    let footer = [format!("{}, {machine}; tokio {tokio}", report.started_utc)];
    let draw = |area: &Area<'_>| draw_chart(area, report);
    draw_with_captions("dispatch", &headline(report), SIZE, &footer, draw)
}

/// States how many operations of busypoll are clearly cheaper than tokio's.
fn headline(report: &Report) -> String {
    let results = report.operations.iter().flat_map(|operation| &operation.results);
    let compared: Vec<&Overhead> = results.filter_map(|result| result.to_tokio.as_ref()).collect();
    let cheaper = compared.iter().filter(|overhead| overhead.verdict == Verdict::Cheaper).count();
    let operations = pluralize(compared.len() as u64, "operation");
    format!("busypoll is clearly cheaper than tokio in {cheaper} of {operations} that both have.")
}

fn draw_chart(area: &Area<'_>, report: &Report) -> DrawResult {
    let lanes = report.operations.len() as f64;
    let mut builder = lane_chart_builder(area, NAMES_WIDTH);
    builder.margin_right(36);
    let costs = Axis::logarithmic(cost_range(report));
    let mut chart = builder.build_cartesian_2d(costs, Axis::linear(-0.5..lanes - 0.5))?;
    lane_mesh(&mut chart)
        .x_desc("median, with a line from the least to p99")
        .x_label_formatter(&time_label)
        .draw()?;
    let runtimes = runtime_names(report);
    for (i, runtime) in runtimes.iter().enumerate() {
        let offset = (i as f64 - (runtimes.len() - 1) as f64 / 2.0) * RUNTIME_DISTANCE;
        let costs = drawn_costs(report, runtime, offset);
        draw_runtime(area, &mut chart, runtime, nth(i), &costs)?;
    }
    draw_names(area, &chart, report)?;
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, LABEL_PX))
        .draw()
}

/// Returns the names of the runtimes in alphabetical order.
fn runtime_names(report: &Report) -> Vec<&str> {
    let results = report.operations.iter().flat_map(|operation| &operation.results);
    let mut runtimes: Vec<&str> = results.map(|measured| measured.runtime.as_str()).collect();
    runtimes.sort_unstable();
    runtimes.dedup();
    runtimes
}

/// Returns the range of all costs.
fn cost_range(report: &Report) -> std::ops::Range<f64> {
    let mut ends = Vec::new();
    for measured in report.operations.iter().flat_map(|operation| &operation.results) {
        ends.extend([measured.ns.min as i64, high_percentile(measured).ceil() as i64]);
    }
    decades(ends.into_iter())
}

/// Returns the highest percentile up to p99 that is known.
fn high_percentile(measured: &Measured) -> f64 {
    measured.ns.p99.or(measured.ns.p90).unwrap_or(measured.ns.p50)
}

/// The cost of an operation, with values for a logarithmic axis.
struct DrawnCost {
    /// Position on the vertical axis.
    height: f64,
    min: f64,
    median: f64,
    high: f64,
    label: String,
}

/// Returns the costs of all operations on a runtime.
fn drawn_costs(report: &Report, runtime: &str, offset: f64) -> Vec<DrawnCost> {
    let mut costs = Vec::new();
    for operation in &report.operations {
        for measured in operation.results.iter().filter(|measured| measured.runtime == runtime) {
            costs.push(DrawnCost {
                height: lane_height(report, operation) - offset,
                min: measured.ns.min.max(1.0),
                median: measured.ns.p50.max(1.0),
                high: high_percentile(measured).max(1.0),
                label: format_cost(measured.ns.p50),
            });
        }
    }
    costs
}

/// Returns the position of the lane of an operation. The first is at the top.
fn lane_height(report: &Report, operation: &Operation) -> f64 {
    let operations = &report.operations;
    let lane = operations.iter().position(|other| other.name == operation.name).unwrap_or(0);
    operations.len() as f64 - 1.0 - lane as f64
}

fn format_cost(ns: f64) -> String {
    if ns < 1e3 { format!("{} ns", time::format_number(ns)) } else { time::format_time(ns as i64) }
}

/// Draws the costs of a runtime: lines, then marks with an entry of the legend, then labels.
fn draw_runtime<'c, 's: 'c>(
    area: &Area<'_>,
    chart: &mut Chart<'c, 's>,
    runtime: &str,
    sign: Sign,
    costs: &[DrawnCost],
) -> DrawResult {
    let style = colour(sign).stroke_width(2);
    for cost in costs {
        let ends = vec![(cost.min, cost.height), (cost.high, cost.height)];
        chart.plotting_area().draw(&PathElement::new(ends, style))?;
    }
    let medians = costs.iter().map(|cost| (cost.median, cost.height));
    chart
        .draw_series(medians.map(|at| EmptyElement::at(at) + mark(sign, (0, 0))))?
        .label(runtime)
        .legend(move |(x, y)| EmptyElement::at((x + 10, y)) + mark(sign, (0, 0)));
    for cost in costs {
        let (x, y) = within(area, chart.backend_coord(&(cost.high, cost.height)));
        draw_label(area, &cost.label, LABEL_PX - 3, (x + 10, y - 6))?;
    }
    Ok(())
}

/// Writes the names of the operations to the left of their lanes.
fn draw_names(area: &Area<'_>, chart: &Chart<'_, '_>, report: &Report) -> DrawResult {
    let style = (FONT, LABEL_PX).into_text_style(area);
    let start = chart.x_range().start;
    for (lane, operation) in report.operations.iter().enumerate() {
        let height = report.operations.len() as f64 - 1.0 - lane as f64;
        let at = within(area, chart.backend_coord(&(start, height)));
        draw_lane_name(area, &operation.name, &style, at, NAMES_WIDTH)?;
    }
    Ok(())
}
