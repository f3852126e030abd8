//! The percentile axis in nines: each step to the right is a tenth of the ticks left.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

/// The end of the longest axis: more nines than any count of samples has.
const MAX_NINES: f64 = 20.0;

/// Where quantile `q` lies on the axis: 0 at the minimum, 1 at p90, 2 at p99, 3 at p99.9. A
/// quantile so close to 1 that a float holds no difference lies where the longest axis ends.
pub fn position(q: f64) -> f64 {
    let left = 1.0 - q;
    if left > 0.0 { (-left.log10()).clamp(0.0, MAX_NINES) } else { MAX_NINES }
}

/// The quantiles that people read, below the nines.
const READ: [(f64, &str); 3] = [(0.0, "min"), (0.5, "p50"), (0.75, "p75")];

/// Where the marks of an axis that ends at `end` are.
pub fn marks(end: f64) -> Vec<f64> {
    let whole = (1..).map(f64::from).take_while(|&n| n <= end.min(MAX_NINES));
    READ.iter().map(|&(q, _)| position(q)).chain(whole).collect()
}

/// How people write the quantile at a mark.
pub fn label(position_of: f64) -> String {
    if let Some((_, name)) = READ.iter().find(|(q, _)| (position(*q) - position_of).abs() < 1e-3) {
        return (*name).to_owned();
    }
    match position_of.round() as i32 {
        1 => "p90".to_owned(),
        2 => "p99".to_owned(),
        n => format!("p99.{}", "9".repeat(usize::try_from(n - 2).unwrap_or(0))),
    }
}

/// Most points of a curve: more than any picture has columns.
const POINTS: usize = 400;

/// The quantile curve of sorted samples, as (position, value): evenly spaced in nines, up to the
/// last sample.
pub fn curve(sorted: &[i64]) -> Vec<(f64, i64)> {
    let at = |rank: u64| sorted.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied();
    curve_of(sorted.len() as u64, sorted.len() as u64, at)
}

/// Where the largest of `n` samples lies. It stands for the quantile 1 - 1/(2n): in the middle of
/// its own share. Written without the subtraction from 1, in which more samples than a float has
/// digits are lost.
pub fn last(n: u64) -> f64 {
    (2.0 * n as f64).log10()
}

/// The same of `n` samples that are asked for by rank, from 1; only the first so many of them are
/// known.
pub fn curve_of(n: u64, known: u64, at_rank: impl Fn(u64) -> Option<i64>) -> Vec<(f64, i64)> {
    let (Some(least), Some(largest)) = (at_rank(1), at_rank(known)) else { return Vec::new() };
    let end = if known < n { (n as f64 / (n - known) as f64).log10() } else { last(n) };
    let mut curve: Vec<(f64, i64)> = (0..=POINTS)
        .map(|i| {
            let x = end * i as f64 / POINTS as f64;
            let q = 1.0 - 10_f64.powf(-x);
            let rank = ((q * n as f64).ceil() as u64).clamp(1, known);
            (x, at_rank(rank).unwrap_or(least))
        })
        .collect();
    curve[POINTS].1 = largest;
    curve
}

/// The axis of percentiles, from the least sample to the largest.
pub struct Nines {
    pub end: f64,
}

impl Ranged for Nines {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (value / self.end * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        marks(self.end)
    }

    fn range(&self) -> std::ops::Range<f64> {
        0.0..self.end
    }
}

impl ValueFormatter<f64> for Nines {
    fn format(position: &f64) -> String {
        label(*position)
    }
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
        assert_eq!(
            marks(2.4).into_iter().map(label).collect::<Vec<_>>(),
            ["min", "p50", "p75", "p90", "p99"]
        );
    }

    #[test]
    fn a_quantile_without_a_rest_still_has_a_place() {
        for q in [1.0, 1.5, f64::INFINITY, f64::NAN] {
            assert_eq!(position(q), MAX_NINES);
        }
        assert_eq!(position(-3.0), 0.0);
        assert!(marks(f64::INFINITY).len() < 30);
    }

    #[test]
    fn an_axis_of_any_number_of_samples_ends() {
        for n in [1, 1_000, 1 << 53, u64::MAX] {
            let curve = curve_of(n, n, |_| Some(7));
            assert!(curve[POINTS].0.is_finite() && marks(curve[POINTS].0).len() < 30, "{n}");
        }
    }

    #[test]
    fn a_curve_rises_from_the_minimum_to_the_maximum() {
        let sorted: Vec<i64> = (1..=1_000).map(|v| v * v).collect();
        let curve = curve(&sorted);
        assert_eq!((curve[0].1, curve[POINTS].1), (1, 1_000_000));
        assert!(curve.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1));
    }
}
