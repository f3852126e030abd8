//! Gates from recorded pairs of equal sides: simulated ones with new labels, and the real ones.

use super::calibrated_number::{CalibratedNumber, DetectableChange, MIN_CALIBRATION_PAIRS};
use crate::model::model;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Lift, NumberRule, Outcome};
use jitterstat::gate::metric::alpha_share;
use jitterstat::gate::round::Late;
use jitterstat::stats::random::SplitMix64;
use jitterstat::stats::{binomial, quantile};

/// Minimum number of real gates for a rate of false alarms.
pub const MIN_REAL_GATES: u64 = 100;
/// Time limits in seconds for which the probability of an undecided gate is estimated.
pub const TIMES_S: [u64; 3] = [30, 60, 120];

/// Probability with which a gate detects the smallest detectable change.
const POWER: f64 = 0.95;
/// Number of relabelled gates behind each number. The standard error of a share of 5 % is 1.5 %.
const RELABELLED: u32 = 200;
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

/// The numbers that were recorded in the same pairs, and the gate that judges them.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The recorded numbers. They share alpha.
    pub numbers: Vec<RecordedNumber>,
    /// Maximum share of false alarms of a gate.
    pub alpha: f64,
    /// Numbers of pairs at which a gate looks.
    pub looks: Vec<usize>,
    /// Wall time of one pair.
    pub pair_ns: u64,
    /// Whether a number keeps the outcome of the first look that decides it, as in a gate of whole
    /// runs. Otherwise, every look judges all numbers.
    pub keeps_outcomes: bool,
}

/// A number with its rule and its values in all pairs.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedNumber {
    /// Name of the percentile or metric.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether higher values are better. Their logarithms are then negated.
    pub higher_is_better: bool,
    /// The rule by which a gate judges it.
    pub rule: NumberRule,
    /// The logarithms of both sides, pair by pair. Larger ones are worse.
    pub values: Vec<Sides<Late>>,
}

impl Recording {
    /// Returns the number of recorded pairs.
    #[must_use]
    pub fn pairs(&self) -> usize {
        self.numbers.iter().map(|number| number.values.len()).min().unwrap_or(0)
    }

    /// Computes the sensitivity of a gate to changes of each number.
    #[must_use]
    pub fn calibrate(&self) -> Vec<CalibratedNumber> {
        let alpha = alpha_share(self.alpha, self.numbers.len(), self.looks.len());
        self.numbers.iter().map(|number| number.calibrate(self, alpha)).collect()
    }

    /// Estimates the probability that a gate ends undecided without a change, for each of
    /// [`TIMES_S`].
    #[must_use]
    pub fn inconclusive(&self) -> Vec<InconclusiveChance> {
        TIMES_S.map(|seconds| self.inconclusive_within(seconds)).into()
    }

    fn inconclusive_within(&self, seconds: u64) -> InconclusiveChance {
        let limit_ns = u128::from(seconds) * 1_000_000_000;
        let is_within = |&&n: &&usize| u128::from(self.pair_ns) * n as u128 <= limit_ns;
        // A gate with a time limit plans its looks accordingly.
        let looks: Vec<usize> = self.looks.iter().take_while(is_within).copied().collect();
        let last = looks.last().copied().unwrap_or(0);
        let mut chance = InconclusiveChance { seconds, pairs: last as u64, share: None, gates: 0 };
        if last > 0 && self.pairs() >= MIN_CALIBRATION_PAIRS {
            let mut labels = Relabelled::new(self.pairs());
            let gates = (0..RELABELLED).map(|_| self.relabel(&labels.gate(last)));
            let open = gates.filter(|gate| gate.decide(&looks).0 == Outcome::Inconclusive);
            chance.share = Some(tidy(open.count() as f64 / f64::from(RELABELLED)));
            chance.gates = RELABELLED.into();
        }
        chance
    }

    /// Counts the outcomes of the real gates: consecutive ones from the pairs in their order.
    /// Remaining pairs are ignored.
    #[must_use]
    pub fn real_gates(&self) -> RealGates {
        let (mut outcomes, mut from) = (Vec::new(), 0);
        while from < self.pairs() {
            let rest: Vec<Label> = (from..self.pairs()).map(|i| (i, false)).collect();
            let (outcome, taken) = self.relabel(&rest).decide(&self.looks);
            if taken == 0 || taken > self.pairs() - from {
                break;
            }
            outcomes.push(outcome);
            from += taken;
        }
        RealGates::from_outcomes(&outcomes)
    }

    /// Performs a gate over the pairs in their order, and returns its outcome and the number of
    /// pairs it took.
    fn decide(&self, looks: &[usize]) -> (Outcome, usize) {
        let alpha = alpha_share(self.alpha, self.numbers.len(), looks.len());
        let last = looks.last().copied().unwrap_or(0);
        let mut outcomes = vec![Outcome::Inconclusive; self.numbers.len()];
        for &pairs in looks.iter().take_while(|&&pairs| pairs <= self.pairs()) {
            for (number, outcome) in self.numbers.iter().zip(&mut outcomes) {
                if *outcome == Outcome::Inconclusive || !self.keeps_outcomes {
                    let values = &number.values[..pairs];
                    *outcome = number.rule.judge(values, alpha, pairs == last).outcome;
                }
            }
            let outcome = Outcome::worst_of(outcomes.iter().copied());
            if outcome != Outcome::Inconclusive {
                return (outcome, pairs);
            }
        }
        (Outcome::Inconclusive, last)
    }

    /// Returns the pairs of a gate.
    fn relabel(&self, labels: &[Label]) -> Self {
        let numbers = self.numbers.iter().map(|number| number.relabel(labels)).collect();
        Self { numbers, looks: Vec::new(), ..*self }
    }
}

impl RecordedNumber {
    /// `alpha` is the alpha of the number at one look.
    fn calibrate(&self, recording: &Recording, alpha: f64) -> CalibratedNumber {
        let used = self.rule.used_pairs(&self.values);
        let stalls = Lift::from_pairs(&used, self.rule.period_ns);
        let lift = stalls.map_or(0.0, |stalls| stalls.both);
        // Larger logarithms are worse.
        let sign = if self.higher_is_better { -1.0 } else { 1.0 };
        let median = (sign * quantile::median(used.iter().flatten().map(|late| late.ln))).exp();
        let mut labels = Relabelled::new(self.values.len());
        let change = |&pairs: &usize| {
            let change = self.interval_bound(pairs, alpha, &mut labels)? + lift;
            let ratio = tidy((sign * change).exp());
            let after_ns = recording.pair_ns.saturating_mul(pairs as u64);
            let difference = tidy(median * (ratio - 1.0));
            Some(DetectableChange { pairs: pairs as u64, after_ns, ratio, difference })
        };
        let has_enough_pairs = self.values.len() >= MIN_CALIBRATION_PAIRS;
        let looks = recording.looks.iter().filter(|_| has_enough_pairs);
        CalibratedNumber {
            name: self.name.clone(),
            unit: self.unit.clone(),
            higher_is_better: self.higher_is_better,
            median,
            spread: pair_spread(&self.values),
            spread_quiet_half: self.rule.uses_quiet_half.then(|| pair_spread(&used)),
            stall_dominated: stalls.is_some_and(|lift| lift.masks_change(self.rule.tolerance)),
            lift,
            alpha,
            changes: looks.filter_map(change).collect(),
        }
    }

    /// Computes the bound below which the intervals of 95 % of the relabelled gates stay at a look.
    /// `None` if it is infinite.
    ///
    /// To pass without a change, the upper bound plus the lift of stalls must be below the
    /// tolerance. A change moves the interval with it, and is detected if the lower bound is then
    /// above zero. As the intervals are symmetric around zero, both distances are equal.
    fn interval_bound(&self, pairs: usize, alpha: f64, labels: &mut Relabelled) -> Option<f64> {
        let gates = (0..RELABELLED).map(|_| self.relabel(&labels.gate(pairs)));
        let shifts = gates.filter_map(|gate| gate.rule.shift(&gate.values, alpha));
        let mut bounds: Vec<f64> = shifts.flat_map(|s| [s.upper, -s.lower]).collect();
        bounds.sort_unstable_by(f64::total_cmp);
        quantile::nearest_rank(&bounds, POWER).filter(|bound| bound.is_finite())
    }

    /// Returns the number with its values in the pairs of a relabelled gate, without a name.
    fn relabel(&self, labels: &[Label]) -> Self {
        let value = |&(i, is_swapped): &Label| {
            let pair = self.values[i];
            if is_swapped { pair.swapped() } else { pair }
        };
        let values = labels.iter().map(value).collect();
        Self { name: String::new(), unit: String::new(), values, ..*self }
    }
}

/// Returns the robust standard deviation of the differences within pairs.
fn pair_spread(values: &[Sides<Late>]) -> f64 {
    let differences = values.iter().map(|pair| pair.candidate.ln - pair.base.ln);
    let centre = quantile::median(differences.clone());
    tidy(SD_PER_MAD * quantile::median(differences.map(|d| (d - centre).abs())))
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
    fn new(pairs: usize) -> Self {
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

impl RealGates {
    fn from_outcomes(outcomes: &[Outcome]) -> Self {
        let count = |counted: [Outcome; 2]| {
            outcomes.iter().filter(|outcome| counted.contains(outcome)).count() as u64
        };
        let gates = outcomes.len() as u64;
        let regressed = count([Outcome::Regressed, Outcome::LimitBroken]);
        let claims_rate = gates >= MIN_REAL_GATES;
        Self {
            gates,
            passed: count([Outcome::Pass, Outcome::Improved]),
            regressed,
            inconclusive: count([Outcome::Inconclusive; 2]),
            false_alarm_rate: claims_rate.then(|| tidy(regressed as f64 / gates as f64)),
            false_alarm_rate_upper95: claims_rate
                .then(|| tidy(binomial::upper_bound(regressed, gates, 0.95))),
        }
    }
}

/// Rounds to six digits: more would be noise, and six survive JSON exactly.
pub(super) fn tidy(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

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
