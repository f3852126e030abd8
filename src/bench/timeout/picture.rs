//! Draws the overhead of each variant and clock over the control loop, with its interval: one
//! picture per workload.

use files::cost::{Overhead, Verdict};
use plotters::prelude::*;

use crate::bench::timeout::file::{MeasuredWorkload as Workload, TimeoutReport as Report};
use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, draw, file_name, round,
};
use render::picture::palette::nth;

/// One lane of the picture.
struct Lane<'a> {
    name: String,
    colour: usize,
    overhead: &'a Overhead,
    low: f64,
    high: f64,
    is_idle_timeout: bool,
}

/// Width of the names in pixels.
const NAMES_WIDTH: u32 = 230;

/// Draws every picture of a report.
pub fn draw_pictures(report: &Report) -> Vec<Picture> {
    report.workloads.iter().filter_map(|workload| draw_workload(report, workload)).collect()
}

/// Draws a workload; `None` if it has no overheads.
fn draw_workload(report: &Report, workload: &Workload) -> Option<Picture> {
    let lanes = lanes(workload);
    let name = format!("timeout-{}", file_name(&workload.id));
    (!lanes.is_empty()).then(|| draw(&name, |area| draw_chart(area, report, workload, &lanes)))
}

fn lanes(workload: &Workload) -> Vec<Lane<'_>> {
    let mut clocks: Vec<&str> = workload.results.iter().map(|r| r.clock.as_str()).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let lanes = workload.results.iter().filter_map(|result| {
        let overhead = result.overhead.as_ref()?;
        let [low, high] = overhead.ns_ci95.unwrap_or([overhead.ns; 2]);
        Some(Lane {
            name: format!("{} · {}", result.variant, result.clock),
            colour: clocks.iter().position(|clock| *clock == result.clock).unwrap_or(0),
            overhead,
            low,
            high,
            is_idle_timeout: result.variant.starts_with("idle-timeout"),
        })
    });
    lanes.collect()
}

fn draw_chart(
    area: &Area<'_>,
    report: &Report,
    workload: &Workload,
    lanes: &[Lane<'_>],
) -> DrawResult {
    let low = lanes.iter().map(|l| l.low.min(l.overhead.ns)).fold(0.0, f64::min);
    let high = lanes.iter().map(|l| l.high.max(l.overhead.ns)).fold(1.0, f64::max);
    let axis_start = low - (high - low) * 0.05;
    let control = workload
        .results
        .first()
        .and_then(|r| r.ns_per_message.as_ref())
        .map_or(f64::NAN, |c| c.p50);
    let tokio = report.host.versions.get("tokio").map_or("unknown", String::as_str);
    let fires = if workload.results.iter().any(|r| r.lateness_ns.is_some()) {
        "may fire"
    } else {
        "does not fire"
    };
    let title = format!("Price of a timeout that {fires}: {}", workload.id);
    let axis_title = format!(
        "ns a message over the control loop's {control:.1} ns: median, 95 % interval ({} runtime, tokio {tokio})",
        workload.runtime
    );
    // The space on the right is for the labels of the lanes.
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(NAMES_WIDTH)
        .build_cartesian_2d(
            axis_start..high + (high - low) * 0.32,
            -0.5..lanes.len() as f64 - 0.5,
        )?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(axis_title)
        .x_label_formatter(&|ns| round(*ns))
        .max_light_lines(1)
        .light_line_style(BLACK.mix(0.06))
        .label_style((FONT, LABEL_PX))
        .draw()?;
    chart.draw_series([PathElement::new(
        vec![(0.0, -0.5), (0.0, lanes.len() as f64 - 0.5)],
        BLACK.stroke_width(1),
    )])?;
    for (i, lane) in lanes.iter().enumerate() {
        let y = (lanes.len() - 1 - i) as f64;
        let style = colour(nth(lane.colour)).stroke_width(3);
        let (low, high) = (lane.low, lane.high);
        chart.draw_series([
            PathElement::new(vec![(low, y), (high, y)], style),
            PathElement::new(vec![(low, y - 0.15), (low, y + 0.15)], style),
            PathElement::new(vec![(high, y - 0.15), (high, y + 0.15)], style),
        ])?;
        chart.draw_series([Circle::new(
            (lane.overhead.ns, y),
            5,
            colour(nth(lane.colour)).filled(),
        )])?;
        let label = match lane.overhead.verdict {
            Verdict::NoDifference => "no difference shown".to_owned(),
            // A ratio to an empty loop is meaningless.
            _ if control < 10.0 => format!("{:+.1} ns", lane.overhead.ns),
            _ => format!("{:+.1} ns, {:+.1} %", lane.overhead.ns, lane.overhead.percent),
        };
        let (x, y_px) = chart.backend_coord(&(high.max(lane.overhead.ns), y));
        area.draw_text(&label, &(FONT, LABEL_PX).into_text_style(area), (x + 10, y_px - 7))?;
        let (left, _) = chart.backend_coord(&(axis_start, y));
        let weight = if lane.is_idle_timeout { FontStyle::Bold } else { FontStyle::Normal };
        let font = (FONT, LABEL_PX, weight).into_text_style(area);
        area.draw_text(
            &lane.name,
            &font,
            (left - i32::try_from(NAMES_WIDTH).unwrap_or(0) + 10, y_px - 7),
        )?;
    }
    Ok(())
}
