//! Draws the lateness of B as a multiple of A, over the whole range of quantiles.
//!
//! Above 1, B is later. A curve has a 95 % band if there are enough rounds.

use cli::exit::Error;
use files::compare::{Comparison, Quantiles, SubjectComparison};
use files::environment::Difference;
use plotters::prelude::*;

use crate::compare::overview;
use crate::compare::wording::fitness_notes;
use cli::time::trim_zeros;
use render::picture::axis::Axis;
use render::picture::canvas::{
    Area, DrawResult, FONT, LABEL_PX, Picture, SIZE, chart_builder, colour, draw_curve,
    draw_line_key, draw_with_captions, mesh, with_legend,
};
use render::picture::nines;
use render::picture::palette::{Sign, Signs};

/// Height of the lines above the chart.
const HEADER_HEIGHT: i32 = 48;
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

/// Reason why a comparison has no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawError {
    #[error("nothing to draw: the reports contain neither samples nor histograms")]
    NoQuantiles,
    #[error("nothing to draw: for whole runs there is a table; use --format markdown")]
    WholeRuns,
}

impl From<DrawError> for Error {
    fn from(error: DrawError) -> Self {
        Self::usage(error.to_string())
    }
}

/// Draws a comparison.
///
/// # Errors
/// Returns an error if no subjects have quantiles to draw.
pub fn draw_comparison(comparison: &Comparison) -> Result<Picture, DrawError> {
    if comparison.subjects.iter().all(|s| s.quantiles.is_none()) {
        let has_metrics = !comparison.metrics.is_empty();
        return Err(if has_metrics { DrawError::WholeRuns } else { DrawError::NoQuantiles });
    }
    let draw = |area: &Area<'_>| draw_chart(area, comparison);
    Ok(draw_with_captions("shift", &headline(comparison), SIZE, &footer(comparison), draw))
}

/// States the findings about each pair of subjects.
fn headline(comparison: &Comparison) -> String {
    let described = comparison.subjects.iter().filter(|subject| subject.quantiles.is_some());
    let mut findings = Vec::new();
    for subject in described {
        findings.push(format!(
            "{}: {}",
            curve_name(comparison, subject),
            overview::describe_findings(subject)
        ));
    }
    format!("{}.", findings.join("; "))
}

/// Returns the origin of the sides, and how fit their machines were.
fn footer(comparison: &Comparison) -> Vec<String> {
    let (a, b) = (&comparison.a, &comparison.b);
    let mut lines = vec![format!("A: {}, {}", a.file, a.started_utc)];
    lines.push(format!("B: {}, {}", b.file, b.started_utc));
    lines.extend(fitness_notes(comparison));
    lines
}

fn draw_chart(area: &Area<'_>, comparison: &Comparison) -> DrawResult {
    let curves = drawn_curves(comparison);
    let (header, body) = area.split_vertically(HEADER_HEIGHT);
    draw_header(&header, comparison, &curves)?;
    let entries: Vec<(Sign, &str)> = curves.iter().map(|c| (c.sign, c.name.as_str())).collect();
    let has_legend = comparison.subjects.len() > 1;
    let body = if has_legend { with_legend(&body, &entries, draw_line_key)? } else { body };
    let (low, high) = ratio_range(&curves);
    let end = curves.iter().map(Curve::end).fold(1.0, f64::max);
    let ratios = Axis::logarithmic_with_marks(low..high, axis_labels(low, high));
    let mut chart = chart_builder(&body)
        .build_cartesian_2d(Axis::percentiles(end, body.dim_in_pixel().0), ratios)?;
    mesh(&mut chart)
        .x_desc("percentile of the ticks")
        .y_desc("lateness of B as a multiple of A")
        .max_light_lines(1)
        .y_label_formatter(&format_ratio)
        .draw()?;
    let equality = [(0.0, 1.0), (end, 1.0)];
    chart.draw_series(DashedLineSeries::new(equality, 6, 4, BLACK.stroke_width(1)))?;
    for curve in &curves {
        chart.plotting_area().draw(&band(curve))?;
        draw_curve(&mut chart, curve.sign, curve.vertices())?;
    }
    Ok(())
}

impl Curve<'_> {
    /// Returns the points of the curve on the axes.
    fn vertices(&self) -> Vec<(f64, f64)> {
        let mut vertices = Vec::new();
        for point in &self.quantiles.points {
            vertices.push((nines::position(point.quantile), clamp_ratio(point.ratio)));
        }
        vertices
    }

    /// Returns the position of the last point on the axis of percentiles.
    fn end(&self) -> f64 {
        self.vertices().iter().map(|vertex| vertex.0).fold(0.0, f64::max)
    }
}

/// Returns a curve for each pair of subjects that has quantiles.
fn drawn_curves(comparison: &Comparison) -> Vec<Curve<'_>> {
    let numbered = number_subjects(comparison);
    let signs = Signs::from_names(numbered.iter().copied());
    let mut curves = Vec::new();
    for (subject, (name, variant)) in comparison.subjects.iter().zip(numbered) {
        if let Some(quantiles) = &subject.quantiles {
            let sign = signs.sign(name, variant);
            curves.push(Curve { sign, name: curve_name(comparison, subject), quantiles });
        }
    }
    curves
}

/// Returns the name of each subject, and the number of earlier ones with the same name.
fn number_subjects(comparison: &Comparison) -> Vec<(&str, usize)> {
    let mut numbered: Vec<(&str, usize)> = Vec::new();
    for subject in &comparison.subjects {
        let name = subject.a.name.as_str();
        let earlier = numbered.iter().filter(|(other, _)| *other == name).count();
        numbered.push((name, earlier));
    }
    numbered
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
    let resamples = curves.iter().map(|c| c.quantiles.resamples).max().unwrap_or(0);
    let band = if resamples > 0 {
        format!("; band: 95 % at each percentile, from {resamples} resamples of the rounds")
    } else {
        "; no band: too few rounds, or no samples".to_owned()
    };
    let legend = format!("Lateness of B against A. Line: all ticks together{band}");
    let style = (FONT, LABEL_PX).into_text_style(header);
    header.draw_text(&legend, &style, (16, 4))?;
    if !comparison.forced.is_empty() {
        let warning = format!("FORCED, not comparable: {}", format_forced(&comparison.forced));
        header.draw_text(&warning, &style.color(&RED), (16, 4 + HEADER_LINE_HEIGHT))?;
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
    let fields: Vec<&str> = differences.iter().map(|d| d.field.as_str()).collect();
    fields.join(", ") + " differ"
}

/// Formats a ratio without trailing zeros.
fn format_ratio(ratio: &f64) -> String {
    trim_zeros(&format!("{ratio:.9}")).to_owned()
}

/// Returns the labels of the axis of ratios: 1, and as many of the readable steps as fit.
fn axis_labels(low: f64, high: f64) -> Vec<f64> {
    let mut candidates = Vec::new();
    for exponent in -12..12 {
        candidates.extend(STEPS.map(|step| step * 10_f64.powi(exponent)));
    }
    candidates.extend([0.9, 0.95, 1.05, 1.1]);
    candidates.retain(|label| (low..=high).contains(label));
    for steps in [&[1.0, 1.5, 2.0, 3.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0], &[1.0]] {
        if candidates.len() <= MAX_LABELS {
            return candidates;
        }
        candidates.retain(|label| is_step(*label, steps));
    }
    if candidates.len() <= MAX_LABELS { candidates } else { vec![1.0] }
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
