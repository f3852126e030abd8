//! The numbers of a calibration, from the file of either kind.

use crate::model::model;
use jitterstat::gate::decision::MIN_PAIRS;

/// Minimum number of pairs of a calibration: the tail is judged on half of them.
pub const MIN_CALIBRATION_PAIRS: usize = 2 * MIN_PAIRS;
/// Quantile of the normal distribution for the probability with which the smallest detectable
/// change is detected.
const Z_POWER: f64 = 1.645;

model! {
    /// The smallest detectable change at one look.
    #[cfg_attr(feature = "schema", schemars(rename = "SmallestRunChange"))]
    pub struct DetectableChange {
        /// Number of pairs at the look.
        pub pairs: u64,
        /// Time to measure these pairs.
        pub after_ns: u64,
        /// Ratio of B to A; below 1 if higher values are better.
        pub ratio: f64,
        /// B minus A, in the metric's unit.
        pub difference: f64,
    }
}

/// The sensitivity of a gate to changes of one number. Changes for the worse are natural logarithms
/// above zero.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibratedNumber {
    /// Name of the percentile or metric.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether higher values are better, so that a fall is a regression.
    pub higher_is_better: bool,
    /// Median over both sides, in the judged pairs.
    pub median: f64,
    /// Robust standard deviation of the difference between the logarithms of a pair.
    pub spread: f64,
    /// Spread of the quieter half of the pairs, if the number is judged by that half.
    pub spread_quiet_half: Option<f64>,
    /// Whether stalls could mask a change of the tolerated size.
    pub stall_dominated: bool,
    /// Lift of stalls on both sides, which additional pairs do not reduce.
    pub(super) lift: f64,
    /// Alpha of the number at one look of the calibration.
    pub(super) alpha: f64,
    /// The smallest detectable change at each look, in ascending order of the pairs.
    pub changes: Vec<DetectableChange>,
}

impl CalibratedNumber {
    /// Returns the number of pairs with which a gate detects a change, extrapolated from the first
    /// look that does, or from the last one. `alpha` is the alpha of the number at one look of that
    /// gate.
    ///
    /// Returns `None` if no number is enough, because stalls alone lift the number by that much, or
    /// the calibration did not reach a look.
    #[must_use]
    pub fn pairs_to_detect(&self, change: f64, alpha: f64) -> Option<u64> {
        let target = change - self.lift;
        let looks = self.looks_at(alpha);
        let is_detected = |(_, unlifted): &&(u64, f64)| *unlifted <= target;
        let (from, unlifted) = looks.iter().find(is_detected).or(looks.last())?;
        let previous = looks.iter().rev().find(|(n, _)| n < from).map_or(0, |(n, _)| n + 1);
        let pairs = (*from as f64 * (unlifted / target).powi(2)).ceil() as u64;
        let can_detect = target > 0.0 && !self.stall_dominated;
        if can_detect { Some(pairs.max(previous).max(MIN_CALIBRATION_PAIRS as u64)) } else { None }
    }

    /// Returns the smallest change that a gate detects with a number of pairs. `None` if stalls could
    /// mask a change, or the calibration did not reach a look.
    #[must_use]
    pub fn smallest_detectable(&self, pairs: u64, alpha: f64) -> Option<f64> {
        self.smallest_change(pairs, alpha).filter(|_| !self.stall_dominated)
    }

    /// Returns the smallest change that a gate detects at its last look, if a smaller one is
    /// tolerated. The gate would often end undecided.
    #[must_use]
    pub fn noise_above(&self, tolerated: f64, last: u64, alpha: f64) -> Option<f64> {
        let smallest = self.smallest_change(last, alpha)?;
        (tolerated.exp() < smallest.exp() - 1e-6).then_some(smallest)
    }

    /// Converts a change to a ratio of B to A.
    #[must_use]
    pub fn ratio(&self, change: f64) -> f64 {
        if self.higher_is_better { (-change).exp() } else { change.exp() }
    }

    /// Returns the smallest detectable change. The part that is not the lift of stalls falls with
    /// the root of the number of pairs.
    fn smallest_change(&self, pairs: u64, alpha: f64) -> Option<f64> {
        let looks = self.looks_at(alpha);
        let (from, unlifted) = looks.iter().find(|(n, _)| *n >= pairs).or(looks.last())?;
        Some(unlifted * (*from as f64 / pairs.max(1) as f64).sqrt() + self.lift)
    }

    /// Returns the number of pairs at each look of the calibration, and the smallest change there
    /// without the lift of stalls, if each look has this alpha.
    fn looks_at(&self, alpha: f64) -> Vec<(u64, f64)> {
        let widening = widening(alpha, self.alpha);
        let unlifted = |change: &DetectableChange| (change.ratio.ln().abs() - self.lift) * widening;
        self.changes.iter().map(|change| (change.pairs, unlifted(change))).collect()
    }
}

/// Returns the factor by which intervals are wider if each look has this share of alpha instead of
/// that of the calibration.
fn widening(share: f64, calibrated: f64) -> f64 {
    // The normal distribution's quantile for a small probability.
    let z = |share: f64| {
        let y = -2.0 * share.ln();
        (y - y.ln() - std::f64::consts::TAU.ln()).max(0.0).sqrt()
    };
    (z(share) + Z_POWER) / (z(calibrated) + Z_POWER)
}
