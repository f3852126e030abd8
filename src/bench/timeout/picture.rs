//! The overhead of each variant and clock over the control loop, with its interval: one picture for
//! each workload.

use files::cost::{Overhead, Verdict};
use plotters::prelude::*;

use crate::bench::timeout::file::{MeasuredWorkload as Workload, TimeoutReport as Report};
use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, draw, file_name, round,
};
use crate::picture::palette::nth;

/// One lane of the picture.
struct Lane<'a> {
    name: String,
    colour: usize,
    overhead: &'a Overhead,
    interval: [f64; 2],
    is_ours: bool,
}

/// Room for names, in pixels.
const NAMES: u32 = 230;

/// Every picture of a report.
pub fn pictures(report: &Report) -> Vec<Picture> {
    let picture = |workload: &Workload| {
        let lanes = lanes(workload);
        (!lanes.is_empty()).then(|| {
            draw(&format!("timeout-{}", file_name(&workload.id)), |area| {
                paint(area, report, workload, &lanes)
            })
        })
    };
    report.workloads.iter().filter_map(picture).collect()
}

fn lanes(workload: &Workload) -> Vec<Lane<'_>> {
    let mut clocks: Vec<&str> = workload.results.iter().map(|r| r.clock.as_str()).collect();
    clocks.sort_unstable();
    clocks.dedup();
    let lanes = workload.results.iter().filter_map(|result| {
        let overhead = result.overhead.as_ref()?;
        Some(Lane {
            name: format!("{} · {}", result.variant, result.clock),
            colour: clocks.iter().position(|clock| *clock == result.clock).unwrap_or(0),
            overhead,
            interval: overhead.ns_ci95.unwrap_or([overhead.ns; 2]),
            is_ours: result.variant.starts_with("idle-timeout"),
        })
    });
    lanes.collect()
}

fn paint(area: &Area<'_>, report: &Report, workload: &Workload, lanes: &[Lane<'_>]) -> DrawResult {
    let low = lanes.iter().map(|l| l.interval[0].min(l.overhead.ns)).fold(0.0, f64::min);
    let high = lanes.iter().map(|l| l.interval[1].max(l.overhead.ns)).fold(1.0, f64::max);
    let room = (high - low) * 0.05;
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
    let below = format!(
        "ns a message over the control loop's {control:.1} ns: median, 95 % interval ({} runtime, tokio {tokio})",
        workload.runtime
    );
    // Room on the right for what each lane says in words.
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(48)
        .y_label_area_size(NAMES)
        .build_cartesian_2d(
            low - room..high + (high - low) * 0.32,
            -0.5..lanes.len() as f64 - 0.5,
        )?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc(below)
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
        let [from, to] = lane.interval;
        chart.draw_series([
            PathElement::new(vec![(from, y), (to, y)], style),
            PathElement::new(vec![(from, y - 0.15), (from, y + 0.15)], style),
            PathElement::new(vec![(to, y - 0.15), (to, y + 0.15)], style),
        ])?;
        chart.draw_series([Circle::new(
            (lane.overhead.ns, y),
            5,
            colour(nth(lane.colour)).filled(),
        )])?;
        let says = match lane.overhead.verdict {
            Verdict::NoDifference => "no difference shown".to_owned(),
            // A ratio to a loop with nothing in it says nothing.
            _ if control < 10.0 => format!("{:+.1} ns", lane.overhead.ns),
            _ => format!("{:+.1} ns, {:+.1} %", lane.overhead.ns, lane.overhead.percent),
        };
        let (x, y_px) = chart.backend_coord(&(to.max(lane.overhead.ns), y));
        area.draw_text(&says, &(FONT, LABEL_PX).into_text_style(area), (x + 10, y_px - 7))?;
        let (left, _) = chart.backend_coord(&(low - room, y));
        let weight = if lane.is_ours { FontStyle::Bold } else { FontStyle::Normal };
        let font = (FONT, LABEL_PX, weight).into_text_style(area);
        area.draw_text(
            &lane.name,
            &font,
            (left - i32::try_from(NAMES).unwrap_or(0) + 10, y_px - 7),
        )?;
    }
    Ok(())
}
