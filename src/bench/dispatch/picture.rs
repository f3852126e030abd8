//! What each operation costs on each runtime: the median as a mark, a line from the least to the
//! 99th percentile.

use cli::time;
use plotters::prelude::*;

use crate::bench::dispatch::file::{
    DispatchReport as Report, MeasuredOperation as Operation, MeasuredRuntime as Measured,
};
use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, decades, draw, mark, time_label,
};
use crate::picture::palette::nth;

/// Room for names, in pixels.
const NAMES: u32 = 150;
/// Share of an operation's lane between its runtimes.
const APART: f64 = 0.4;

/// The picture of a report.
pub fn picture(report: &Report) -> Picture {
    draw("dispatch", |area| paint(area, report))
}

fn paint(area: &Area<'_>, report: &Report) -> DrawResult {
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
        .y_label_area_size(NAMES)
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
        let aside = (i as f64 - (runtimes.len() - 1) as f64 / 2.0) * APART;
        let at = |o: &Operation| {
            let lane = report.operations.iter().position(|other| other.name == o.name).unwrap_or(0);
            lanes - 1.0 - lane as f64 - aside
        };
        let own: Vec<_> = measured.iter().filter(|(_, r)| r.runtime == runtime).collect();
        chart.draw_series(own.iter().map(|(o, r)| {
            PathElement::new(
                vec![(r.ns.min.max(1.0), at(o)), (high(r).max(1.0), at(o))],
                colour(nth(i)).stroke_width(2),
            )
        }))?;
        chart
            .draw_series(
                own.iter().map(|(o, r)| {
                    EmptyElement::at((r.ns.p50.max(1.0), at(o))) + mark(nth(i), (0, 0))
                }),
            )?
            .label(runtime)
            .legend(move |(x, y)| EmptyElement::at((x + 10, y)) + mark(nth(i), (0, 0)));
        for (o, r) in own {
            let (x, y) = chart.backend_coord(&(high(r).max(1.0), at(o)));
            let says = match r.ns.p50 {
                ns if ns < 1e3 => format!("{} ns", time::format_number(ns)),
                ns => time::format_time(ns as i64),
            };
            area.draw_text(&says, &(FONT, LABEL_PX - 3).into_text_style(area), (x + 10, y - 6))?;
        }
    }
    for (lane, operation) in report.operations.iter().enumerate() {
        let (left, y) = chart.backend_coord(&(range.start, lanes - 1.0 - lane as f64));
        let style = (FONT, LABEL_PX).into_text_style(area);
        area.draw_text(
            &operation.name,
            &style,
            (left - i32::try_from(NAMES).unwrap_or(0) + 10, y - 7),
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
