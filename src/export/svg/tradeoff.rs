//! What punctuality costs: lateness against CPU time, a bar from p50 to p99 for each subject.

use plotters::prelude::*;

use super::{
    Area, Drawable, Drawn, FONT, LABEL_PX, TITLE_PX, colour, decades, logarithmic, mark, time_label, title, with_legend,
};
use crate::view::cost::core_percent;

struct Point<'a> {
    of: &'a Drawable<'a>,
    percent: f64,
    p50: i64,
    high: i64,
}

/// Least share of a CPU drawn: below lies what the accounting cannot resolve.
const LEAST_PERCENT: f64 = 0.01;

pub(super) fn draw(area: &Area<'_>, subjects: &[Drawable<'_>], shared: &str) -> Drawn {
    let points: Vec<Point<'_>> = subjects
        .iter()
        .filter_map(|of| {
            let summary = of.subject.summary.as_ref()?;
            let percent = core_percent(of.subject)?;
            let p50 = summary.lateness_ns.p50?;
            let high = summary.lateness_ns.p99.or(summary.lateness_ns.p90).unwrap_or(p50);
            Some(Point { of, percent: percent.max(LEAST_PERCENT), p50, high })
        })
        .collect();
    let entries: Vec<(usize, &str)> = points.iter().map(|p| (p.of.i, p.of.name.as_str())).collect();
    let area = with_legend(area, &entries, |legend, i, (x, y)| {
        legend.draw(&(EmptyElement::at((x + 12, y)) + mark(i, (0, 0))))
    })?;
    let low = points.iter().map(|p| p.percent).fold(f64::MAX, f64::min).min(1.0);
    let high = points.iter().map(|p| p.percent).fold(0.0, f64::max).max(100.0);
    let mut chart = ChartBuilder::on(&area)
        .caption(title("What punctuality costs", shared), (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(
            (low / 1.6..high * 1.6).log_scale().with_key_points(percents(low, high)),
            decades(points.iter().flat_map(|p| [p.p50, p.high])).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("CPU time of the process, per cent of one core")
        .y_desc("lateness: mark at p50, bar up to p99")
        .max_light_lines(1)
        .x_label_formatter(&|x| format!("{x} %"))
        .y_label_formatter(&time_label)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for p in &points {
        let (x, y) = (p.percent, logarithmic(p.p50));
        let bar = vec![(x, y), (x, logarithmic(p.high))];
        chart.draw_series([PathElement::new(bar, colour(p.of.i).stroke_width(2))])?;
        chart.draw_series([EmptyElement::at((x, y)) + mark(p.of.i, (0, 0))])?;
    }
    Ok(())
}

/// … 1, 3, 10, 30 … from `low` to `high`: on a logarithmic axis evenly spaced, and far enough apart for their labels.
fn percents(low: f64, high: f64) -> Vec<f64> {
    let decades = [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0, 10_000.0];
    decades.iter().flat_map(|d| [*d, 3.0 * d]).filter(|p| (low..=high).contains(p)).collect()
}
