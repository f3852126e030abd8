//! The percentile axis in nines: each step to the right divides the number of later ticks by ten.

use jitterstat::stats::quantile::rank;

/// Length of the longest axis, with more nines than any number of samples has.
const MAX_NINES: f64 = 20.0;

/// Returns the position of quantile `q`: 0 for the minimum, 1 for p90, 2 for p99, 3 for p99.9. A
/// quantile too close to 1 for a float is at the end of the longest axis.
pub fn position(q: f64) -> f64 {
    let rest = 1.0 - q;
    if rest > 0.0 { (-rest.log10()).clamp(0.0, MAX_NINES) } else { MAX_NINES }
}

/// The marked quantiles below p90.
const LOW_QUANTILES: [(f64, &str); 3] = [(0.0, "min"), (0.5, "p50"), (0.75, "p75")];

/// Width of a character of a label, and least distance of two labels.
const CHARACTER_PX: f64 = 8.0;
const LABEL_DISTANCE_PX: f64 = 6.0;

/// Returns the positions of the marks of an axis that ends at `end` and is `width` pixels long. Those
/// whose labels would overlap are left out: first p75 and p50, then every second nine.
pub fn marks(end: f64, width: u32) -> Vec<f64> {
    let nines = end.min(MAX_NINES).floor() as u32;
    let every = |step: usize| (1..=nines).step_by(step).map(f64::from);
    let low = LOW_QUANTILES.map(|(q, _)| position(q));
    for few in (1..=low.len()).rev() {
        let marks: Vec<f64> = low[..few].iter().copied().chain(every(1)).collect();
        if have_space(&marks, end, width) {
            return marks;
        }
    }
    let with_step = |step| -> Vec<f64> { low[..1].iter().copied().chain(every(step)).collect() };
    let mut steps = (2..=nines.max(2) as usize).map(with_step);
    steps.find(|marks| have_space(marks, end, width)).unwrap_or(low[..1].to_vec())
}

/// Whether the labels of marks on an axis do not overlap.
fn have_space(marks: &[f64], end: f64, width: u32) -> bool {
    let extent = |mark: f64| label(mark).len() as f64 * CHARACTER_PX;
    marks.windows(2).all(|pair| {
        let distance = (pair[1] - pair[0]) / end.max(1e-9) * f64::from(width);
        distance >= (extent(pair[0]) + extent(pair[1])) / 2.0 + LABEL_DISTANCE_PX
    })
}

/// Returns the label of the mark at a position.
pub fn label(mark: f64) -> String {
    for (q, name) in LOW_QUANTILES {
        if (position(q) - mark).abs() < 1e-3 {
            return name.to_owned();
        }
    }
    match mark.round() as i32 {
        1 => "p90".to_owned(),
        2 => "p99".to_owned(),
        n => format!("p99.{}", "9".repeat(usize::try_from(n - 2).unwrap_or(0))),
    }
}

/// Number of steps of a curve, more than any picture has columns.
const CURVE_STEPS: usize = 400;

/// Returns the quantile curve of sorted samples as (position, value), evenly spaced in nines up to
/// the last sample.
pub fn curve(sorted: &[i64]) -> Vec<(f64, i64)> {
    let at = |rank: u64| sorted.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
    curve_by_rank(sorted.len() as u64, sorted.len() as u64, at)
}

/// Returns the position of the largest of `n` samples. It represents the quantile 1 - 1/(2n), the
/// middle of its share. The formula avoids the subtraction from 1, in which a float would lose the
/// difference if there are very many samples.
pub fn last_position(n: u64) -> f64 {
    (2.0 * n as f64).log10()
}

/// Returns the quantile curve of `n` samples that `at_rank` returns by rank, from 1. Only the first
/// `known` of them are known.
pub fn curve_by_rank(n: u64, known: u64, at_rank: impl Fn(u64) -> Option<i64>) -> Vec<(f64, i64)> {
    let (Some(min), Some(max)) = (at_rank(1), at_rank(known)) else { return Vec::new() };
    let end = if known < n { (n as f64 / (n - known) as f64).log10() } else { last_position(n) };
    let mut curve = Vec::with_capacity(CURVE_STEPS + 1);
    for i in 0..=CURVE_STEPS {
        let x = end * i as f64 / CURVE_STEPS as f64;
        let q = 1.0 - 10_f64.powf(-x);
        let nearest = rank(usize::try_from(n).unwrap_or(usize::MAX), q) as u64;
        curve.push((x, at_rank(nearest.min(known)).unwrap_or(min)));
    }
    curve[CURVE_STEPS].1 = max;
    curve
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_is_one_step() {
        for (q, at) in [(0.0, 0.0), (0.9, 1.0), (0.99, 2.0), (0.9999, 4.0)] {
            assert!((position(q) - at).abs() < 1e-9);
        }
        assert_eq!([0.0, 1.0, 2.0, 3.0, 5.0].map(label), ["min", "p90", "p99", "p99.9", "p99.999"]);
        let labels = |end, width| marks(end, width).into_iter().map(label).collect::<Vec<_>>();
        assert_eq!(labels(2.4, 800), ["min", "p50", "p75", "p90", "p99"]);
        assert_eq!(labels(3.4, 240), ["min", "p90", "p99", "p99.9"]);
    }

    #[test]
    fn extreme_quantiles_have_positions() {
        for q in [1.0, 1.5, f64::INFINITY, f64::NAN] {
            assert_eq!(position(q), MAX_NINES);
        }
        assert_eq!(position(-3.0), 0.0);
        assert!(marks(f64::INFINITY, 800).len() < 30);
    }

    #[test]
    fn labels_never_overlap() {
        for (width, end) in
            (40..900).step_by(20).flat_map(|width| (0..200).map(move |n| (width, n)))
        {
            let end = f64::from(end) / 10.0;
            let marks = marks(end, width);
            assert!(marks[0] == 0.0 && have_space(&marks, end, width), "{width} {end}: {marks:?}");
        }
    }

    #[test]
    fn axis_ends_for_any_sample_count() {
        for n in [1, 1_000, 1 << 53, u64::MAX] {
            let curve = curve_by_rank(n, n, |_| Some(7));
            let end = curve[CURVE_STEPS].0;
            assert!(end.is_finite() && marks(end, 800).len() < 30, "{n}");
        }
    }

    /// Two thirds have no exact binary form.
    #[test]
    fn curve_has_nearest_ranks() {
        let curve = curve_by_rank(9, 8, |rank| Some(rank as i64));
        assert!((curve[200].0 - 3_f64.log10()).abs() < 1e-12);
        assert_eq!(curve[200].1, 6);
    }

    #[test]
    fn curve_rises_from_min_to_max() {
        let sorted: Vec<i64> = (1..=1_000).map(|v| v * v).collect();
        let curve = curve(&sorted);
        assert_eq!((curve[0].1, curve[CURVE_STEPS].1), (1, 1_000_000));
        assert!(curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    }
}
