//! Lateness against percentile: the latency axis logarithmic, the percentile axis in nines.

use plotters::prelude::*;

use crate::picture::canvas::{
    Area, Drawn, FONT, LABEL_PX, chart, colour, decades, line, logarithmic, time_label, title, with_legend,
};
use crate::picture::nines::{self, Nines};
use crate::picture::palette::{self, Dash};
use crate::render::samples::Lateness;
use crate::render::svg::Drawable;

/// One subject's line: which one, and its points in nines and nanoseconds.
struct Curve<'a> {
    of: &'a Drawable<'a>,
    points: Vec<(f64, i64)>,
}

pub(super) fn draw(area: &Area<'_>, subjects: &[Drawable<'_>], shared: &str) -> Drawn {
    let curves: Vec<Curve<'_>> = subjects
        .iter()
        .map(|of| {
            let values = Lateness::of(of.subject);
            Curve { of, points: nines::curve_of(values.count(), |rank| values.at_rank(rank)) }
        })
        .filter(|curve| !curve.points.is_empty())
        .collect();
    let entries: Vec<(usize, &str)> = curves.iter().map(|c| (c.of.i, c.of.name.as_str())).collect();
    let area = with_legend(area, &entries, |legend, i, (x, y)| legend.draw(&line(i, vec![(x, y), (x + 24, y)])))?;
    let values = curves.iter().flat_map(|c| c.points.iter().map(|p| p.1));
    let end = curves.iter().filter_map(|c| c.points.last()).map(|p| p.0).fold(1.0, f64::max);
    let mut chart = chart(&area, title("Lateness by percentile", shared))
        .build_cartesian_2d(Nines { end }, decades(values).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("percentile of the ticks")
        .y_desc("lateness")
        .max_light_lines(1)
        .y_label_formatter(&time_label)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    // What has gaps lies over what has none: curves that coincide are all seen.
    let mut by_dash: Vec<&Curve<'_>> = curves.iter().collect();
    by_dash.sort_by_key(|curve| palette::dash(curve.of.i) != Dash::Solid);
    for curve in by_dash {
        let points = curve.points.iter().map(|&(x, y)| (x, logarithmic(y)));
        let style = colour(curve.of.i).stroke_width(2);
        match palette::dash(curve.of.i) {
            Dash::Solid => chart.draw_series(LineSeries::new(points, style))?,
            Dash::Dashed { on, off } => chart.draw_series(DashedLineSeries::new(points, on, off, style))?,
        };
    }
    Ok(())
}
