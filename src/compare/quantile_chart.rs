//! Draws the lateness of B as a multiple of A, over the whole range of quantiles.
//!
//! Above 1, B is later. A curve has a 95 % band if there are enough rounds.

use files::compare::{Comparison, Quantiles, SubjectComparison};
use files::environment::Difference;
use plotters::prelude::*;

use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, TITLE_PX, colour, draw, line, with_legend,
};
use render::picture::nines::{self, Nines};
use render::picture::palette::{Dash, Sign, Signs};

/// Height of the lines above the chart.
const HEADER_HEIGHT: i32 = 76;
const HEADER_LINE_HEIGHT: i32 = 20;
/// Maximum number of characters in a line of the header.
const MAX_HEADER_CHARACTERS: usize = 110;
/// The axis extends at least by this factor above and below 1.
const MIN_SPAN: f64 = 1.05;
/// Readable steps of the axis within a decade.
const STEPS: [f64; 9] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0];
/// Maximum number of labels on the axis.
const MAX_LABELS: usize = 12;

/// Minimum of the drawn ratios. A file can contain any number, so others are drawn at the edge.
const MIN_RATIO: f64 = 1e-9;
/// Maximum of the drawn ratios.
const MAX_RATIO: f64 = 1e9;

fn clamp_ratio(ratio: f64) -> f64 {
    ratio.clamp(MIN_RATIO, MAX_RATIO)
}

/// The curve of two subjects.
struct Curve<'a> {
    sign: Sign,
    name: String,
    quantiles: &'a Quantiles,
}

/// Draws a comparison.
///
/// # Errors
/// Returns an error if no subjects have quantiles to draw.
pub fn draw_comparison(comparison: &Comparison) -> Result<Picture, String> {
    if comparison.subjects.iter().all(|s| s.quantiles.is_none()) {
        let reason = if comparison.metrics.is_empty() {
            "the reports contain neither samples nor histograms"
        } else {
            "for whole runs there is a table; use --format markdown"
        };
        return Err(format!("nothing to draw: {reason}"));
    }
    Ok(draw("shift", |area| draw_chart(area, comparison)))
}

fn draw_chart(area: &Area<'_>, comparison: &Comparison) -> DrawResult {
    let curves = curves(comparison);
    let (header, body) = area.split_vertically(HEADER_HEIGHT);
    draw_header(&header, comparison, &curves)?;
    let entries: Vec<(Sign, &str)> = curves.iter().map(|c| (c.sign, c.name.as_str())).collect();
    let body = if comparison.subjects.len() > 1 {
        with_legend(&body, &entries, |legend, sign, (x, y)| {
            legend.draw(&line(sign, vec![(x, y), (x + 24, y)]))
        })?
    } else {
        body
    };
    let (low, high) = ratio_range(&curves);
    let points = curves.iter().flat_map(|curve| &curve.quantiles.points);
    let end = points.map(|point| nines::position(point.quantile)).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&body)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(76)
        .build_cartesian_2d(
            Nines { end },
            (low..high).log_scale().with_key_points(axis_labels(low, high)),
        )?;
    chart
        .configure_mesh()
        .x_desc("percentile of the ticks")
        .y_desc("lateness of B as a multiple of A")
        .max_light_lines(1)
        .y_label_formatter(&format_ratio)
        .label_style((FONT, LABEL_PX))
        .light_line_style(BLACK.mix(0.06))
        .draw()?;
    let equality = [(0.0, 1.0), (end, 1.0)];
    chart.draw_series(DashedLineSeries::new(equality, 6, 4, BLACK.stroke_width(1)))?;
    for curve in &curves {
        chart.draw_series([band(curve)])?;
        let points = curve.quantiles.points.iter();
        let points =
            points.map(|point| (nines::position(point.quantile), clamp_ratio(point.ratio)));
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

/// Returns a curve for each pair of subjects that has quantiles.
fn curves(comparison: &Comparison) -> Vec<Curve<'_>> {
    let subjects = &comparison.subjects;
    // Subjects with the same name differ by the number of earlier ones.
    let variant = |index: usize| {
        let earlier = subjects[..index].iter();
        earlier.filter(|other| other.a.name == subjects[index].a.name).count()
    };
    let names = subjects.iter().enumerate().map(|(i, s)| (s.a.name.as_str(), variant(i)));
    let signs = Signs::from_names(names);
    let mut curves = Vec::new();
    for (i, subject) in subjects.iter().enumerate() {
        if let Some(quantiles) = &subject.quantiles {
            let sign = signs.sign(&subject.a.name, variant(i));
            curves.push(Curve { sign, name: curve_name(comparison, subject), quantiles });
        }
    }
    curves
}

fn curve_name(comparison: &Comparison, subject: &SubjectComparison) -> String {
    let (a, b) = (&subject.a, &subject.b);
    if a.id != b.id {
        return format!("{} against {}", b.id, a.id);
    }
    let subjects = &comparison.subjects;
    let is_unique = subjects.iter().filter(|other| other.a.name == a.name).count() == 1;
    // A legend has space for names, but not for ids.
    if subjects.len() > 1 && is_unique { a.name.clone() } else { a.id.clone() }
}

/// Returns the range of the axis of ratios.
fn ratio_range(curves: &[Curve<'_>]) -> (f64, f64) {
    let (mut low, mut high) = (1.0 / MIN_SPAN, MIN_SPAN);
    for point in curves.iter().flat_map(|curve| &curve.quantiles.points) {
        for ratio in std::iter::once(point.ratio).chain(point.ratio_ci95.into_iter().flatten()) {
            let ratio = clamp_ratio(ratio);
            (low, high) = (low.min(ratio), high.max(ratio));
        }
    }
    (low / MIN_SPAN, high * MIN_SPAN)
}

/// Returns the band of a curve as a polygon: along its upper edge and back along the lower one.
fn band(curve: &Curve<'_>) -> Polygon<(f64, f64)> {
    let (mut upper, mut lower) = (Vec::new(), Vec::new());
    for point in &curve.quantiles.points {
        if let Some([low, high]) = point.ratio_ci95 {
            let x = nines::position(point.quantile);
            upper.push((x, clamp_ratio(high)));
            lower.push((x, clamp_ratio(low)));
        }
    }
    lower.reverse();
    upper.append(&mut lower);
    Polygon::new(upper, colour(curve.sign).mix(0.18).filled())
}

fn draw_header(header: &Area<'_>, comparison: &Comparison, curves: &[Curve<'_>]) -> DrawResult {
    let title = match curves {
        [curve] => format!("Lateness of B against A: {}", curve.name),
        _ => "Lateness of B against A".to_owned(),
    };
    header.draw_text(&title, &(FONT, TITLE_PX).into_text_style(header), (12, 8))?;
    let resamples = curves.iter().map(|c| c.quantiles.resamples).max().unwrap_or(0);
    let band = if resamples > 0 {
        format!("; band: 95 % at each percentile, from {resamples} resamples of the rounds")
    } else {
        "; no band: too few rounds, or no samples".to_owned()
    };
    let legend = format!("line: all ticks together{band}");
    let style = (FONT, LABEL_PX).into_text_style(header);
    header.draw_text(&legend, &style, (12, 12 + HEADER_LINE_HEIGHT))?;
    if !comparison.forced.is_empty() {
        let warning = format!("FORCED, not comparable: {}", format_forced(&comparison.forced));
        header.draw_text(&warning, &style.color(&RED), (12, 12 + 2 * HEADER_LINE_HEIGHT))?;
    }
    Ok(())
}

/// Formats the differences in full, or only their fields if the line would be too long.
fn format_forced(differences: &[Difference]) -> String {
    let full: Vec<String> = differences.iter().map(ToString::to_string).collect();
    let full = full.join(", ");
    if full.len() <= MAX_HEADER_CHARACTERS {
        return full;
    }
    let fields: Vec<&str> =
        differences.iter().map(|difference| difference.field.as_str()).collect();
    fields.join(", ") + " differ"
}

/// Formats a ratio without trailing zeros.
fn format_ratio(ratio: &f64) -> String {
    let text = format!("{ratio:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the labels of the axis of ratios: 1, and as many of the readable steps as fit.
fn axis_labels(low: f64, high: f64) -> Vec<f64> {
    let decades = (-12..12).map(|exponent| 10_f64.powi(exponent));
    let candidates: Vec<f64> = decades
        .flat_map(|d| STEPS.map(|s| s * d))
        .chain([0.9, 0.95, 1.05, 1.1])
        .filter(|m| (low..=high).contains(m))
        .collect();
    if candidates.len() <= MAX_LABELS {
        return candidates;
    }
    for steps in [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0]] {
        let labels: Vec<f64> =
            candidates.iter().copied().filter(|&label| is_step(label, steps)).collect();
        if labels.len() <= MAX_LABELS {
            return labels;
        }
    }
    vec![1.0]
}

/// Returns whether a label is one of the steps in its decade.
fn is_step(label: f64, steps: &[f64]) -> bool {
    let digit = label / 10_f64.powf((label.log10() + 1e-9).floor());
    steps.iter().any(|step| (digit - step).abs() < 1e-6)
}

#[cfg(test)]
mod tests {
    use super::axis_labels;

    #[test]
    fn axis_labels_contain_one() {
        for (low, high) in [(0.9, 1.1), (0.5, 3.0), (0.001, 400.0), (1e-6, 1e6), (0.95, 120.0)] {
            let labels = axis_labels(low, high);
            assert!(labels.iter().any(|m| (m - 1.0).abs() < 1e-9), "{low} {high}: {labels:?}");
            assert!((1..=13).contains(&labels.len()), "{low} {high}: {labels:?}");
        }
    }
}
