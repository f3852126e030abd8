//! Draws the overhead of each variant and clock over the control loop, with its interval: one
//! picture per workload.

use files::cost::{Overhead, Verdict};
use plotters::prelude::*;

use crate::bench::timeout::file::{
    MeasuredVariant as Variant, MeasuredWorkload as Workload, TimeoutReport as Report,
};
use render::picture::axis::Axis;
use render::picture::canvas::{
    Area, Chart, DrawResult, FONT, LABEL_PX, Picture, SIZE, colour, draw_label, draw_lane_name,
    draw_with_captions, file_name, lane_chart_builder, lane_mesh, mark, round, within,
};
use render::picture::palette::{Sign, nth};

/// Width of the names in pixels.
const NAMES_WIDTH: u32 = 230;
/// Minimum cost of the control loop, in nanoseconds, to which a ratio has a meaning.
const MIN_CONTROL_NS: f64 = 10.0;

/// One lane of the picture.
struct Lane<'a> {
    name: String,
    sign: Sign,
    overhead: &'a Overhead,
    low: f64,
    high: f64,
    is_idle_timeout: bool,
}

/// Draws every picture of a report.
pub fn draw_pictures(report: &Report) -> Vec<Picture> {
    report.workloads.iter().filter_map(|workload| draw_workload(report, workload)).collect()
}

/// Draws a workload; `None` if it has no overheads.
fn draw_workload(report: &Report, workload: &Workload) -> Option<Picture> {
    let mut clocks: Vec<&str> = workload.results.iter().map(|r| r.clock.as_str()).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let results = workload.results.iter();
    let lanes: Vec<Lane<'_>> = results.filter_map(|result| Lane::new(result, &clocks)).collect();
    let name = format!("timeout-{}", file_name(&workload.id));
    if !lanes.is_empty() {
        let machine = report.host.cpu_model.as_deref().unwrap_or(&report.host.os);
        let footer = [format!("{}, {machine}; workload {}", report.started_utc, workload.id)];
        let draw = |area: &Area<'_>| draw_chart(area, report, workload, &lanes);
        Some(draw_with_captions(&name, &headline(workload, &lanes), SIZE, &footer, draw))
    } else {
        None
    }
}

impl<'a> Lane<'a> {
    /// Creates the lane of a variant; `None` if it has no overhead.
    fn new(result: &'a Variant, clocks: &[&str]) -> Option<Self> {
        let overhead = result.overhead.as_ref()?;
        let [low, high] = overhead.ns_ci95.unwrap_or([overhead.ns; 2]);
        let clock = clocks.iter().position(|clock| *clock == result.clock).unwrap_or(0);
        Some(Self {
            name: format!("{} · {}", result.variant, result.clock),
            sign: nth(clock),
            overhead,
            low,
            high,
            is_idle_timeout: result.variant.starts_with("idle-timeout"),
        })
    }
}

fn draw_chart(
    area: &Area<'_>,
    report: &Report,
    workload: &Workload,
    lanes: &[Lane<'_>],
) -> DrawResult {
    let low = lanes.iter().map(|l| l.low.min(l.overhead.ns)).fold(0.0, f64::min);
    let high = lanes.iter().map(|l| l.high.max(l.overhead.ns)).fold(1.0, f64::max);
    // The control loop comes first.
    let control = workload.results.first().and_then(|r| r.ns_per_message.as_ref());
    let control_ns = control.map_or(f64::NAN, |costs| costs.p50);
    // The space on the right is for the labels of the lanes.
    let overheads = low - (high - low) * 0.05..high + (high - low) * 0.32;
    let heights = -0.5..lanes.len() as f64 - 0.5;
    let mut builder = lane_chart_builder(area, NAMES_WIDTH);
    let mut chart =
        builder.build_cartesian_2d(Axis::linear(overheads), Axis::linear(heights.clone()))?;
    lane_mesh(&mut chart)
        .x_desc(axis_title(report, workload, control_ns))
        .x_label_formatter(&ns_label)
        .max_light_lines(1)
        .draw()?;
    let zero = vec![(0.0, heights.start), (0.0, heights.end)];
    chart.plotting_area().draw(&PathElement::new(zero, BLACK.stroke_width(1)))?;
    for (i, lane) in lanes.iter().enumerate() {
        let height = (lanes.len() - 1 - i) as f64;
        draw_overhead(&chart, lane, height)?;
        draw_texts(area, &chart, lane, height, control_ns)?;
    }
    Ok(())
}

/// States the price of tokio's timeout and of the idle timeout of the same workload.
fn headline(workload: &Workload, lanes: &[Lane<'_>]) -> String {
    let has_fired = workload.results.iter().any(|r| r.lateness_ns.is_some());
    let fires = if has_fired { "may fire" } else { "does not fire" };
    let mut prices = Vec::new();
    for name in ["timeout · tokio", "idle-timeout · tach"] {
        let lane = lanes.iter().find(|lane| lane.name == name);
        prices.extend(lane.map(|lane| match lane.overhead.verdict {
            Verdict::NoDifference => format!("no difference shown with {name}"),
            _ => format!("{:+.1} ns a message with {name}", lane.overhead.ns),
        }));
    }
    let prices = if prices.is_empty() { workload.id.clone() } else { prices.join(", ") };
    format!("Price of a timeout that {fires}: {prices}.")
}

fn axis_title(report: &Report, workload: &Workload, control_ns: f64) -> String {
    let tokio = report.host.versions.get("tokio").map_or("unknown", String::as_str);
    format!(
        "ns a message over the control loop's {control_ns:.1} ns: median, 95 % interval ({} runtime, tokio {tokio})",
        workload.runtime
    )
}

fn ns_label(ns: &f64) -> String {
    round(*ns)
}

/// Draws the overhead of a lane as a point, and its interval as a line with ends.
fn draw_overhead(chart: &Chart<'_, '_>, lane: &Lane<'_>, y: f64) -> DrawResult {
    let Lane { low, high, .. } = *lane;
    let style = colour(lane.sign).stroke_width(3);
    let lines = [
        [(low, y), (high, y)],
        [(low, y - 0.15), (low, y + 0.15)],
        [(high, y - 0.15), (high, y + 0.15)],
    ];
    for line in lines {
        chart.plotting_area().draw(&PathElement::new(line.to_vec(), style))?;
    }
    let at = EmptyElement::at((lane.overhead.ns, y));
    chart.plotting_area().draw(&(at + mark(lane.sign, (0, 0))))
}

/// Writes the overhead of a lane to the right of its interval, and its name to the left of the
/// chart.
fn draw_texts(
    area: &Area<'_>,
    chart: &Chart<'_, '_>,
    lane: &Lane<'_>,
    height: f64,
    control_ns: f64,
) -> DrawResult {
    let end = chart.backend_coord(&(lane.high.max(lane.overhead.ns), height));
    let (x, y) = within(area, end);
    draw_label(area, &format_overhead(lane.overhead, control_ns), LABEL_PX, (x + 10, y - 7))?;
    let weight = if lane.is_idle_timeout { FontStyle::Bold } else { FontStyle::Normal };
    let style = (FONT, LABEL_PX, weight).into_text_style(area);
    let start = chart.backend_coord(&(chart.x_range().start, height));
    draw_lane_name(area, &lane.name, &style, within(area, start), NAMES_WIDTH)
}

fn format_overhead(overhead: &Overhead, control_ns: f64) -> String {
    match overhead.verdict {
        Verdict::NoDifference => "no difference shown".to_owned(),
        _ if control_ns < MIN_CONTROL_NS => format!("{:+.1} ns", overhead.ns),
        _ => format!("{:+.1} ns, {:+.1} %", overhead.ns, overhead.percent),
    }
}
