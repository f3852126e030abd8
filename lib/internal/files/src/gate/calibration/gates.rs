//! Gates from the pairs of a calibration, with new labels and with the original ones. The pairs can
//! be of rounds or of whole runs.

use crate::model::model;
use jitterstat::gate::decision::{self, MIN_PAIRS, Outcome};
use jitterstat::stats::quantile::rank;
use jitterstat::stats::random::SplitMix64;

/// Minimum number of pairs of a calibration: the tail is judged on half of them.
pub const MIN_CALIBRATION_PAIRS: usize = 2 * MIN_PAIRS;
/// Minimum number of real gates for a rate of false alarms.
pub const MIN_REAL_GATES: u64 = 100;
/// Time limits in seconds for which the probability of an undecided gate is estimated.
pub const TIMES_S: [u64; 3] = [30, 60, 120];

/// Probability with which a gate detects the smallest detectable change.
const POWER: f64 = 0.95;
/// Quantile of the normal distribution for [`POWER`].
const Z_POWER: f64 = 1.645;
/// Number of relabelled gates behind each number. The standard error of a share of 5 % is 1.5 %.
pub(super) const RELABELLED: u32 = 200;
/// Fixed seed, so that the same rounds give the same numbers.
const SEED: u64 = 0x6361_6c69_6272_6174;
/// Standard deviation of a normal distribution, in median absolute deviations.
const SD_PER_MAD: f64 = 1.482_602_218_505_602;

model! {
    /// The probability that a gate ends undecided without a change.
    pub struct InconclusiveChance {
        /// Time limit of the gate.
        pub seconds: u64,
        /// Number of pairs at the last look within that time; 0 without a look.
        pub pairs: u64,
        /// Share of undecided relabelled gates; null without a look within that time.
        pub share: Option<f64>,
        /// Number of relabelled gates behind the share.
        pub gates: u64,
    }

    /// The outcomes of consecutive real gates, which consist of the pairs in their order and with
    /// their original labels.
    pub struct RealGates {
        /// Number of complete gates.
        pub gates: u64,
        /// Number of gates that passed.
        pub passed: u64,
        /// Number of false alarms.
        pub regressed: u64,
        /// Number of undecided gates.
        pub inconclusive: u64,
        /// Share of false alarms; null with fewer than 100 gates.
        pub false_alarm_rate: Option<f64>,
        /// 95 % upper bound of that share; null with fewer than 100 gates.
        pub false_alarm_rate_upper95: Option<f64>,
    }
}

/// A pair of a relabelled gate: the index of the recorded pair, and whether its sides are
/// exchanged.
pub(super) type Label = (usize, bool);

/// A generator of gates from recorded pairs with new labels.
pub(super) struct Relabelled {
    pairs: usize,
    random: SplitMix64,
}

impl Relabelled {
    pub(super) fn new(pairs: usize) -> Self {
        Self::with_seed(pairs, SEED)
    }

    pub(super) fn with_seed(pairs: usize, seed: u64) -> Self {
        Self { pairs, random: SplitMix64::new(seed) }
    }

    /// Returns a gate of `n` consecutive pairs from a random position.
    pub(super) fn gate(&mut self, n: usize) -> Vec<Label> {
        let start = self.random.index(self.pairs);
        (start..start + n).map(|i| (i % self.pairs, self.random.coin())).collect()
    }
}

/// Returns the bound below which the share [`POWER`] of the bounds is; `None` if it is infinite.
pub(super) fn power_bound(mut bounds: Vec<f64>) -> Option<f64> {
    bounds.sort_unstable_by(f64::total_cmp);
    bounds.get(rank(bounds.len(), POWER) - 1).copied().filter(|bound| bound.is_finite())
}

/// Returns the robust standard deviation of differences.
pub(super) fn spread(differences: impl Iterator<Item = f64> + Clone) -> f64 {
    let centre = decision::median(differences.clone());
    SD_PER_MAD * decision::median(differences.map(|d| (d - centre).abs()))
}

/// Performs a gate and returns its outcome and the number of pairs it took. `look` judges the first
/// pairs, given their number and whether it is the last look.
pub(super) fn decide(
    looks: &[usize],
    pairs: usize,
    mut look: impl FnMut(usize, bool) -> Outcome,
) -> (Outcome, usize) {
    for (i, &n) in looks.iter().enumerate().take_while(|&(_, &n)| n <= pairs) {
        let outcome = look(n, i + 1 == looks.len());
        if outcome != Outcome::Inconclusive {
            return (outcome, n);
        }
    }
    (Outcome::Inconclusive, looks.last().copied().unwrap_or(0))
}

/// Estimates the probability that a gate ends undecided without a change, for each of [`TIMES_S`].
/// `decide` returns the outcome of a relabelled gate with the given looks.
pub(super) fn inconclusive(
    pairs: usize,
    looks: &[usize],
    pair_ns: u64,
    mut decide: impl FnMut(&[usize], &[Label]) -> Outcome,
) -> Vec<InconclusiveChance> {
    let mut chance = |seconds: u64| {
        let within =
            |n: &usize| u128::from(pair_ns) * *n as u128 <= u128::from(seconds) * 1_000_000_000;
        // A gate with a time limit plans its looks accordingly.
        let looks = &looks[..looks.iter().take_while(|n| within(n)).count()];
        let (Some(&last), true) = (looks.last(), pairs >= MIN_CALIBRATION_PAIRS) else {
            return InconclusiveChance {
                seconds,
                pairs: looks.last().map_or(0, |&n| n as u64),
                share: None,
                gates: 0,
            };
        };
        let mut relabelled = Relabelled::new(pairs);
        let open = (0..RELABELLED)
            .filter(|_| decide(looks, &relabelled.gate(last)) == Outcome::Inconclusive);
        let share = tidy(open.count() as f64 / f64::from(RELABELLED));
        InconclusiveChance {
            seconds,
            pairs: last as u64,
            share: Some(share),
            gates: RELABELLED.into(),
        }
    };
    TIMES_S.into_iter().map(&mut chance).collect()
}

/// Counts the outcomes of consecutive real gates. `gate` performs a gate from a pair on, and
/// returns its outcome and number of pairs. Remaining pairs are ignored.
pub(super) fn real_gates(
    pairs: usize,
    mut gate: impl FnMut(usize) -> (Outcome, usize),
) -> RealGates {
    let (mut passed, mut regressed, mut inconclusive, mut from) = (0, 0, 0, 0);
    while from < pairs {
        let (outcome, taken) = gate(from);
        if taken == 0 || taken > pairs - from {
            break;
        }
        match outcome {
            Outcome::Pass | Outcome::Improved => passed += 1,
            Outcome::Regressed | Outcome::LimitBroken => regressed += 1,
            Outcome::Inconclusive => inconclusive += 1,
        }
        from += taken;
    }
    let gates = passed + regressed + inconclusive;
    let claimed = gates >= MIN_REAL_GATES;
    RealGates {
        gates,
        passed,
        regressed,
        inconclusive,
        false_alarm_rate: claimed.then(|| tidy(regressed as f64 / gates as f64)),
        false_alarm_rate_upper95: claimed.then(|| tidy(upper95(regressed, gates))),
    }
}

/// Returns the exact 95 % upper bound of a probability after `k` events in `n` trials (Clopper and
/// Pearson, "The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial",
/// Biometrika, 1934).
fn upper95(k: u64, n: u64) -> f64 {
    let at_most = |p: f64| {
        let mut term = (n as f64 * (-p).ln_1p()).exp();
        let mut sum = term;
        for i in 0..k {
            term *= (n - i) as f64 / (i + 1) as f64 * p / (1.0 - p);
            sum += term;
        }
        sum
    };
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(middle) > 0.05 { low = middle } else { high = middle }
    }
    high
}

/// Rounds to six digits: more would be noise, and six survive JSON exactly.
pub(super) fn tidy(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Returns the factor by which intervals are wider if each look has this share of alpha instead of
/// that of the calibration.
pub(super) fn widening(share: f64, calibrated: f64) -> f64 {
    // The normal distribution's quantile for a small probability.
    let z = |share: f64| {
        let y = -2.0 * share.ln();
        (y - y.ln() - std::f64::consts::TAU.ln()).max(0.0).sqrt()
    };
    (z(share) + Z_POWER) / (z(calibrated) + Z_POWER)
}

/// The smallest detectable changes of a gate, whose intervals may be wider than those of the
/// calibration. Changes are logarithms above zero.
pub(super) struct Sensitivity {
    /// Number of pairs at each look with the smallest change, in ascending order of the number.
    pub(super) looks: Vec<(u64, f64)>,
    /// The lift of stalls, which additional pairs do not reduce.
    pub(super) lift: f64,
    /// Factor by which the intervals are wider than those of the calibration.
    pub(super) widening: f64,
}

impl Sensitivity {
    /// Returns the smallest change at any number of pairs. The part that is not the lift of stalls
    /// falls with the root of the number.
    pub(super) fn at(&self, pairs: u64) -> Option<f64> {
        let next = self.looks.iter().find(|(n, _)| *n >= pairs);
        let (from, change) = next.or(self.looks.last())?;
        let narrowing = (*from as f64 / pairs.max(1) as f64).sqrt();
        Some((change - self.lift) * self.widening * narrowing + self.lift)
    }

    /// Returns the number of pairs that detects a change, extrapolated from the first look that
    /// does, or from the last one.
    pub(super) fn pairs_for(&self, change: f64) -> Option<u64> {
        let target = change - self.lift;
        let unlifted = |change: &f64| (change - self.lift) * self.widening;
        let is_detected = |(_, smallest): &&(u64, f64)| unlifted(smallest) <= target;
        let (from, smallest) = self.looks.iter().find(is_detected).or(self.looks.last())?;
        let previous = self.looks.iter().rev().find(|(n, _)| n < from).map_or(0, |(n, _)| n + 1);
        let pairs = (*from as f64 * (unlifted(smallest) / target).powi(2)).ceil() as u64;
        (target > 0.0).then(|| pairs.max(previous).max(MIN_CALIBRATION_PAIRS as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_bound_is_exact() {
        // For 0 of 100: 1 - 0.05^(1/100).
        assert!((upper95(0, 100) - 0.029_513).abs() < 1e-6);
        // For 2 of 200, from the tables of Clopper and Pearson.
        assert!((upper95(2, 200) - 0.031_1).abs() < 1e-4, "{}", upper95(2, 200));
    }

    #[test]
    fn relabelled_gates_wrap_around() {
        let mut relabelled = Relabelled::new(5);
        let gate = relabelled.gate(12);
        assert!(gate.windows(2).all(|w| w[1].0 == (w[0].0 + 1) % 5), "{gate:?}");
        assert!(
            gate.iter().any(|(_, swapped)| *swapped) && gate.iter().any(|(_, swapped)| !swapped)
        );
    }
}
