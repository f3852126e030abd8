//! The whole range of quantiles of B against A: above 1, B is later there. With a band, where the
//! ticks carry one.

use files::compare::{Comparison, Quantiles};
use plotters::prelude::*;

use crate::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, draw, line, with_legend,
};
use crate::picture::nines::{self, Nines};
use crate::picture::palette::{Dash, Sign, Signs};

/// Height of the lines above the chart.
const HEAD: i32 = 76;
const HEAD_LINE: i32 = 20;
/// So many fit into one of them.
const HEAD_CHARACTERS: usize = 110;
/// The axis shows at least a twentieth more and less.
const MIN_SPAN: f64 = 1.05;
/// Steps that people read, within a decade.
const STEPS: [f64; 9] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0];
/// More labels than this are crowded.
const MAX_LABELS: usize = 12;

/// Ratios beyond these are drawn at the edge: a file may state any number.
const FARTHEST: [f64; 2] = [1e-9, 1e9];

fn drawn(ratio: f64) -> f64 {
    ratio.clamp(FARTHEST[0], FARTHEST[1])
}

/// A pair of subjects with a range to draw.
struct Curve<'a> {
    sign: Sign,
    name: String,
    quantiles: &'a Quantiles,
}

/// B against A, over the whole range of quantiles.
///
/// # Errors
/// A sentence, where no pair of subjects has ticks to draw.
pub fn picture(comparison: &Comparison) -> Result<Picture, String> {
    if comparison.subjects.iter().all(|s| s.quantiles.is_none()) {
        let why = if comparison.metrics.is_empty() {
            "the reports hold neither samples nor histograms"
        } else {
            "of whole runs there is a table; write --format markdown"
        };
        return Err(format!("there is nothing to draw: {why}"));
    }
    Ok(draw("shift", |area| chart(area, comparison)))
}

fn chart(area: &Area<'_>, comparison: &Comparison) -> DrawResult {
    let several = comparison.subjects.len() > 1;
    let twin = |i: usize| {
        let before = &comparison.subjects[..i];
        before.iter().filter(|c| c.a.name == comparison.subjects[i].a.name).count()
    };
    let signs = Signs::from_names(
        comparison.subjects.iter().enumerate().map(|(i, c)| (c.a.name.as_str(), twin(i))),
    );
    let curves: Vec<Curve<'_>> = comparison
        .subjects
        .iter()
        .enumerate()
        .filter_map(|(i, compared)| {
            let twins =
                comparison.subjects.iter().filter(|c| c.a.name == compared.a.name).count() > 1;
            let name = match (&compared.a, &compared.b) {
                (a, b) if a.id != b.id => format!("{} against {}", b.id, a.id),
                // Names fit beside a chart, ids do not.
                (a, _) if several && !twins => a.name.clone(),
                (a, _) => a.id.clone(),
            };
            Some(Curve {
                sign: signs.sign(&compared.a.name, twin(i)),
                name,
                quantiles: compared.quantiles.as_ref()?,
            })
        })
        .collect();
    let (head, body) = area.split_vertically(HEAD);
    headline(&head, comparison, &curves)?;
    let entries: Vec<(Sign, &str)> = curves.iter().map(|c| (c.sign, c.name.as_str())).collect();
    let body = if several {
        with_legend(&body, &entries, |legend, sign, (x, y)| {
            legend.draw(&line(sign, vec![(x, y), (x + 24, y)]))
        })?
    } else {
        body
    };
    let points = || curves.iter().flat_map(|c| &c.quantiles.points);
    let values = points()
        .flat_map(|p| [p.ratio].into_iter().chain(p.ratio_ci95.into_iter().flatten()))
        .map(drawn);
    let (low, high) =
        values.fold((1.0 / MIN_SPAN, MIN_SPAN), |(l, h), v| (f64::min(l, v), f64::max(h, v)));
    let (low, high) = (low / MIN_SPAN, high * MIN_SPAN);
    let end = points().map(|p| nines::position(p.quantile)).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&body)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(
            Nines { end },
            (low..high).log_scale().with_key_points(marks(low, high)),
        )?;
    chart
        .configure_mesh()
        .x_desc("percentile of the ticks")
        .y_desc("lateness of B as a multiple of A")
        .max_light_lines(1)
        .y_label_formatter(&label)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    chart.draw_series(DashedLineSeries::new(
        [(0.0, 1.0), (end, 1.0)],
        6,
        4,
        BLACK.stroke_width(1),
    ))?;
    for curve in &curves {
        let at = |quantile: f64| nines::position(quantile);
        let band: Vec<(f64, [f64; 2])> = curve
            .quantiles
            .points
            .iter()
            .filter_map(|p| Some((at(p.quantile), p.ratio_ci95?.map(drawn))))
            .collect();
        let upper = band.iter().map(|&(x, [_, high])| (x, high));
        let lower = band.iter().rev().map(|&(x, [low, _])| (x, low));
        chart.draw_series([Polygon::new(
            upper.chain(lower).collect::<Vec<_>>(),
            colour(curve.sign).mix(0.18).filled(),
        )])?;
        let points = curve.quantiles.points.iter().map(|p| (at(p.quantile), drawn(p.ratio)));
        let style = colour(curve.sign).stroke_width(2);
        match curve.sign.dash {
            Dash::Solid => chart.draw_series(LineSeries::new(points, style))?,
            Dash::Dashed { on, off } => {
                chart.draw_series(DashedLineSeries::new(points, on, off, style))?
            }
        };
    }
    Ok(())
}

fn headline(head: &Area<'_>, comparison: &Comparison, curves: &[Curve<'_>]) -> DrawResult {
    let title = match curves {
        [one] => format!("Lateness of B against A: {}", one.name),
        _ => "Lateness of B against A".to_owned(),
    };
    head.draw_text(&title, &(FONT, TITLE_PX).into_text_style(head), (12, 8))?;
    let resamples = curves.iter().map(|c| c.quantiles.resamples).max().unwrap_or(0);
    let band = if resamples > 0 {
        format!("; band: 95 % at each percentile, from {resamples} resamples of the rounds")
    } else {
        "; no band: too few rounds, or no samples".to_owned()
    };
    let says = format!("line: all ticks together{band}");
    head.draw_text(&says, &(FONT, LABEL_PX).into_text_style(head), (12, 12 + HEAD_LINE))?;
    if !comparison.forced.is_empty() {
        let join = |told: Vec<String>| told.join(", ");
        let mut says = join(comparison.forced.iter().map(ToString::to_string).collect());
        if says.len() > HEAD_CHARACTERS {
            says = join(comparison.forced.iter().map(|d| d.field.clone()).collect()) + " differ";
        }
        let says = format!("FORCED, not comparable: {says}");
        head.draw_text(
            &says,
            &(FONT, LABEL_PX).into_text_style(head).color(&RED),
            (12, 12 + 2 * HEAD_LINE),
        )?;
    }
    Ok(())
}

/// A ratio without digits that say nothing.
fn label(ratio: &f64) -> String {
    let text = format!("{ratio:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Where the axis of ratios has labels: 1, and as many of the readable steps as there is room for.
fn marks(low: f64, high: f64) -> Vec<f64> {
    let decades = (-12..12).map(|exponent| 10_f64.powi(exponent));
    let all: Vec<f64> = decades
        .flat_map(|d| STEPS.map(|s| s * d))
        .chain([0.9, 0.95, 1.05, 1.1])
        .filter(|m| (low..=high).contains(m))
        .collect();
    for coarser in [&STEPS[..], &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0]] {
        let digit = |m: f64| m / 10_f64.powf((m.log10() + 1e-9).floor());
        let kept: Vec<f64> = all
            .iter()
            .copied()
            .filter(|&m| {
                coarser.len() == STEPS.len() || coarser.iter().any(|c| (digit(m) - c).abs() < 1e-6)
            })
            .collect();
        if kept.len() <= MAX_LABELS {
            return kept;
        }
    }
    vec![1.0]
}

#[cfg(test)]
mod tests {
    use super::marks;

    #[test]
    fn the_axis_of_ratios_always_shows_one_and_is_never_crowded() {
        for (low, high) in [(0.9, 1.1), (0.5, 3.0), (0.001, 400.0), (1e-6, 1e6), (0.95, 120.0)] {
            let marks = marks(low, high);
            assert!(marks.iter().any(|m| (m - 1.0).abs() < 1e-9), "{low} {high}: {marks:?}");
            assert!((1..=13).contains(&marks.len()), "{low} {high}: {marks:?}");
        }
    }
}
