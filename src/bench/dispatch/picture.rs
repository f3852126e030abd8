//! Draws the cost of each operation on each runtime: a mark at the median, and a line from the
//! minimum to the 99th percentile.

use cli::time;
use plotters::prelude::*;

use crate::bench::dispatch::file::{
    DispatchReport as Report, MeasuredOperation as Operation, MeasuredRuntime as Measured,
};
use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, decades, draw, mark, time_label,
};
use render::picture::palette::nth;

/// Width of the names in pixels.
const NAMES_WIDTH: u32 = 150;
/// Distance between the runtimes of an operation, as a share of its lane.
const RUNTIME_DISTANCE: f64 = 0.4;

/// Draws the picture of a report.
pub fn draw_picture(report: &Report) -> Picture {
    draw("dispatch", |area| draw_chart(area, report))
}

fn draw_chart(area: &Area<'_>, report: &Report) -> DrawResult {
    let measured: Vec<(&Operation, &Measured)> =
        report.operations.iter().flat_map(|o| o.results.iter().map(move |r| (o, r))).collect();
    let mut runtimes: Vec<&str> = measured.iter().map(|(_, r)| r.runtime.as_str()).collect();
    runtimes.sort_unstable();
    runtimes.dedup();
    let high = |r: &Measured| r.ns.p99.or(r.ns.p90).unwrap_or(r.ns.p50);
    let range =
        decades(measured.iter().flat_map(|(_, r)| [r.ns.min as i64, high(r).ceil() as i64]));
    let lanes = report.operations.len() as f64;
    let tokio = report.host.versions.get("tokio").map_or("unknown", String::as_str);
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("What a runtime's operations cost: busypoll, and tokio {tokio}"),
            (FONT, TITLE_PX),
        )
        .margin(12)
        .margin_right(36)
        .x_label_area_size(48)
        .y_label_area_size(NAMES_WIDTH)
        .build_cartesian_2d(range.clone().log_scale(), -0.5..lanes - 0.5)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("median, with a line from the least to p99")
        .x_label_formatter(&time_label)
        .light_line_style(BLACK.mix(0.06))
        .label_style((FONT, LABEL_PX))
        .draw()?;
    for (i, &runtime) in runtimes.iter().enumerate() {
        let offset = (i as f64 - (runtimes.len() - 1) as f64 / 2.0) * RUNTIME_DISTANCE;
        let height = |o: &Operation| {
            let lane = report.operations.iter().position(|other| other.name == o.name).unwrap_or(0);
            lanes - 1.0 - lane as f64 - offset
        };
        let results: Vec<_> = measured.iter().filter(|(_, r)| r.runtime == runtime).collect();
        chart.draw_series(results.iter().map(|(o, r)| {
            PathElement::new(
                vec![(r.ns.min.max(1.0), height(o)), (high(r).max(1.0), height(o))],
                colour(nth(i)).stroke_width(2),
            )
        }))?;
        let marks = results
            .iter()
            .map(|(o, r)| EmptyElement::at((r.ns.p50.max(1.0), height(o))) + mark(nth(i), (0, 0)));
        chart
            .draw_series(marks)?
            .label(runtime)
            .legend(move |(x, y)| EmptyElement::at((x + 10, y)) + mark(nth(i), (0, 0)));
        for (o, r) in results {
            let (x, y) = chart.backend_coord(&(high(r).max(1.0), height(o)));
            let label = match r.ns.p50 {
                ns if ns < 1e3 => format!("{} ns", time::format_number(ns)),
                ns => time::format_time(ns as i64),
            };
            area.draw_text(&label, &(FONT, LABEL_PX - 3).into_text_style(area), (x + 10, y - 6))?;
        }
    }
    for (lane, operation) in report.operations.iter().enumerate() {
        let (left, y) = chart.backend_coord(&(range.start, lanes - 1.0 - lane as f64));
        let style = (FONT, LABEL_PX).into_text_style(area);
        area.draw_text(
            &operation.name,
            &style,
            (left - i32::try_from(NAMES_WIDTH).unwrap_or(0) + 10, y - 7),
        )?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, LABEL_PX))
        .draw()
}
