//! What punctuality costs: lateness against CPU time, a bar from p50 to p99 for each subject.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, LABEL_PX, TITLE_PX, colour, decades, logarithmic, mark, time_label};
use jitterstat::report::Subject;

struct Point<'a> {
    i: usize,
    id: &'a str,
    share: f64,
    p50: i64,
    high: i64,
}

/// Least share of a CPU drawn: below lies what the accounting cannot resolve.
const LEAST_PERCENT: f64 = 0.01;

pub(super) fn draw(area: &Area<'_>, subjects: &[(usize, &Subject)]) -> Drawn {
    let points: Vec<Point<'_>> = subjects
        .iter()
        .filter_map(|(i, s)| {
            let summary = s.summary.as_ref()?;
            let share = summary.cpu_ns_per_tick? / s.period_ns as f64 * 100.0;
            let p50 = summary.lateness_ns.p50?;
            let high = summary.lateness_ns.p99.or(summary.lateness_ns.p90).unwrap_or(p50);
            Some(Point { i: *i, id: &s.id, share: share.max(LEAST_PERCENT), p50, high })
        })
        .collect();
    if points.is_empty() {
        return Ok(());
    }
    let low = points.iter().map(|p| p.share).fold(f64::MAX, f64::min);
    let high = points.iter().map(|p| p.share).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("What punctuality costs", (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(
            (low / 1.6..(high * 1.6).max(low * 10.0)).log_scale(),
            decades(points.iter().flat_map(|p| [p.p50, p.high])).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("CPU time of the process, per cent of one core")
        .y_desc("lateness: mark at p50, bar up to p99")
        .x_label_formatter(&|x| format!("{} %", if *x < 1.0 { format!("{x:.2}") } else { format!("{x:.0}") }))
        .y_label_formatter(&time_label)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for p in &points {
        let (x, y) = (p.share, logarithmic(p.p50));
        chart.draw_series([PathElement::new(vec![(x, y), (x, logarithmic(p.high))], colour(p.i).stroke_width(2))])?;
        let i = p.i;
        chart
            .draw_series([EmptyElement::at((x, y)) + mark(i, (0, 0))])?
            .label(p.id)
            .legend(move |(x, y)| EmptyElement::at((x + 10, y)) + mark(i, (0, 0)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, LABEL_PX))
        .draw()
}
