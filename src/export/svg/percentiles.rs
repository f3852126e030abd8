//! Lateness against percentile: the latency axis logarithmic, the percentile axis in nines.

use plotters::prelude::*;

use super::{Area, Drawn, FONT, LABEL_PX, TITLE_PX, colour, decades, logarithmic, time_label};
use crate::view::nines;
use jitterstat::report::Subject;

/// One subject's line: where it stands in the report (its colour), its name, and the points.
type Curve<'a> = (usize, &'a str, Vec<(f64, i64)>);

pub(super) fn draw(area: &Area<'_>, subjects: &[(usize, &Subject)]) -> Drawn {
    let curves: Vec<Curve<'_>> = subjects
        .iter()
        .map(|(i, s)| {
            let mut all: Vec<i64> = s.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
            all.sort_unstable();
            (*i, s.id.as_str(), nines::curve(&all))
        })
        .filter(|(_, _, curve)| !curve.is_empty())
        .collect();
    let values = || curves.iter().flat_map(|(_, _, c)| c.iter().map(|p| p.1));
    if curves.is_empty() {
        return Ok(());
    }
    let end = curves.iter().filter_map(|(_, _, c)| c.last()).map(|p| p.0).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption("Lateness by percentile", (FONT, TITLE_PX))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(0.0..end, decades(values()).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("ticks at most this late (each step to the right: a tenth of the rest)")
        .y_desc("lateness")
        .x_labels(end.floor() as usize + 1)
        .x_label_formatter(&|x| nines::label(*x))
        .y_label_formatter(&time_label)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    for (i, id, curve) in &curves {
        let style = colour(*i).stroke_width(2);
        chart
            .draw_series(LineSeries::new(curve.iter().map(|&(x, y)| (x, logarithmic(y))), style))?
            .label(*id)
            .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FONT, LABEL_PX))
        .draw()
}
