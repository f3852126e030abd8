//! Gates made of the pairs of a calibration, whatever the pairs are of: under labels drawn anew,
//! and as they were.

use crate::model::model;
use jitterstat::gate::decision::{self, MIN_PAIRS, Outcome};
use jitterstat::stats::quantile::rank;
use jitterstat::stats::random::SplitMix64;

/// Fewer pairs calibrate nothing: the tail is judged on half of them.
pub const MIN_CALIBRATION_PAIRS: usize = 2 * MIN_PAIRS;
/// Real gates that a rate of false alarms is claimed from.
pub const MIN_REAL_GATES: u64 = 100;
/// Times for which the chance of an undecided gate is told, in seconds.
pub const TIMES_S: [u64; 3] = [30, 60, 120];

/// A change is one that a gate can see if it sees it so often.
const POWER: f64 = 0.95;
/// Quantile of the normal distribution for [`POWER`].
const Z_POWER: f64 = 1.645;
/// Relabelled gates behind each figure: a share of 5 % is known to 1.5 %.
pub(super) const RELABELLED: u32 = 200;
/// Fixed: the same rounds give the same figures.
const SEED: u64 = 0x6361_6c69_6272_6174;
/// A normal distribution's standard deviation in median absolute deviations.
const SD_OF_MAD: f64 = 1.482_602_218_505_602;

model! {
    /// How often a gate ends undecided although nothing has changed.
    pub struct InconclusiveChance {
        /// The time it is given.
        pub seconds: u64,
        /// Pairs at the last look within that time; 0 if none is.
        pub pairs: u64,
        /// Share of the relabelled gates; null where the time holds no look.
        pub share: Option<f64>,
        /// Relabelled gates behind the share.
        pub gates: u64,
    }

    /// Gates that were really measured: the pairs in their order, under their own labels, each gate
    /// after the last.
    pub struct RealGates {
        /// Gates that came to an end.
        pub gates: u64,
        /// Of those, passed.
        pub passed: u64,
        /// False alarms.
        pub regressed: u64,
        /// Undecided.
        pub inconclusive: u64,
        /// Share of false alarms; null with fewer than 100 gates, which are too few to claim one.
        pub false_alarm_rate: Option<f64>,
        /// 95 % upper bound of that rate; null where that is.
        pub false_alarm_rate_upper95: Option<f64>,
    }
}

/// A pair of a relabelled gate: which of the recorded ones it is, and whether its sides are
/// exchanged.
pub(super) type Label = (usize, bool);

/// Gates of recorded pairs under labels drawn anew.
pub(super) struct Relabelled {
    pairs: usize,
    random: SplitMix64,
}

impl Relabelled {
    pub(super) fn new(pairs: usize) -> Self {
        Self::seeded(pairs, SEED)
    }

    pub(super) fn seeded(pairs: usize, seed: u64) -> Self {
        Self { pairs, random: SplitMix64::new(seed) }
    }

    /// So many neighbouring pairs from a random place on.
    pub(super) fn gate(&mut self, n: usize) -> Vec<Label> {
        let start = self.random.index(self.pairs);
        (start..start + n).map(|i| (i % self.pairs, self.random.coin())).collect()
    }
}

/// The bound that [`POWER`] of them stay below.
pub(super) fn seen_by_most(mut bounds: Vec<f64>) -> Option<f64> {
    bounds.sort_unstable_by(f64::total_cmp);
    bounds.get(rank(bounds.len(), POWER) - 1).copied().filter(|bound| bound.is_finite())
}

/// Robust standard deviation of differences.
pub(super) fn spread(differences: impl Iterator<Item = f64> + Clone) -> f64 {
    let centre = decision::median(differences.clone());
    SD_OF_MAD * decision::median(differences.map(|d| (d - centre).abs()))
}

/// How a gate over so many pairs ends, and how many it took: it looks at the first of them, and is
/// told when for the last time.
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

/// The chance that a gate ends undecided although nothing has changed, for each of the times;
/// `ends` says how a relabelled gate with such looks ends.
pub(super) fn inconclusive(
    pairs: usize,
    looks: &[usize],
    pair_ns: u64,
    mut ends: impl FnMut(&[usize], &[Label]) -> Outcome,
) -> Vec<InconclusiveChance> {
    let mut chance = |seconds: u64| {
        let within =
            |n: &usize| u128::from(pair_ns) * *n as u128 <= u128::from(seconds) * 1_000_000_000;
        // A gate that knows how long it may take plans its looks by that.
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
            .filter(|_| ends(looks, &relabelled.gate(last)) == Outcome::Inconclusive);
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

/// The gates that the pairs really were, one after the other; what is left at the end is none.
/// `gate` says how one ends that begins at a pair, and how many it takes.
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

/// The exact 95 % upper bound of a probability of which `k` of `n` trials came true (Clopper and
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

/// Six digits: more are noise, and these a reader of JSON keeps exactly.
pub(super) fn tidy(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// How much wider intervals are where each look has this share of alpha, than where it has that of
/// the calibration.
pub(super) fn widening(share: f64, calibrated: f64) -> f64 {
    // The normal distribution's quantile for a small probability.
    let z = |share: f64| {
        let y = -2.0 * share.ln();
        (y - y.ln() - std::f64::consts::TAU.ln()).max(0.0).sqrt()
    };
    (z(share) + Z_POWER) / (z(calibrated) + Z_POWER)
}

/// The smallest changes that were calibrated, for a gate whose intervals may be wider. Changes are
/// logarithms, above zero.
pub(super) struct Sight {
    /// Pairs, and the change that they see; by pairs.
    pub(super) looks: Vec<(u64, f64)>,
    /// What stalls add, which no number of pairs narrows.
    pub(super) lift: f64,
    pub(super) widening: f64,
}

impl Sight {
    /// The smallest change at a look that may lie between those calibrated: what is not the lift of
    /// stalls narrows with the root of the pairs.
    pub(super) fn at(&self, pairs: u64) -> Option<f64> {
        let next = self.looks.iter().find(|(n, _)| *n >= pairs);
        let (from, change) = next.or(self.looks.last())?;
        let narrows = (*from as f64 / pairs.max(1) as f64).sqrt();
        Some((change - self.lift) * self.widening * narrows + self.lift)
    }

    /// From the first calibrated look that sees as much, or from the last one, the pairs that see
    /// such a change.
    pub(super) fn pairs_for(&self, change: f64) -> Option<u64> {
        let room = change - self.lift;
        let wide = |change: &f64| (change - self.lift) * self.widening;
        let (from, seen) =
            self.looks.iter().find(|(_, c)| wide(c) <= room).or(self.looks.last())?;
        let before = self.looks.iter().rev().find(|(n, _)| n < from).map_or(0, |(n, _)| n + 1);
        let pairs = (*from as f64 * (wide(seen) / room).powi(2)).ceil() as u64;
        (room > 0.0).then(|| pairs.max(before).max(MIN_CALIBRATION_PAIRS as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_a_rate_is_the_exact_one() {
        // None of 100: 1 - 0.05^(1/100).
        assert!((upper95(0, 100) - 0.029_513).abs() < 1e-6);
        // 2 of 200, by the tables of Clopper and Pearson.
        assert!((upper95(2, 200) - 0.031_1).abs() < 1e-4, "{}", upper95(2, 200));
    }

    #[test]
    fn a_relabelled_gate_is_of_neighbours_and_goes_round() {
        let mut relabelled = Relabelled::new(5);
        let gate = relabelled.gate(12);
        assert!(gate.windows(2).all(|w| w[1].0 == (w[0].0 + 1) % 5), "{gate:?}");
        assert!(
            gate.iter().any(|(_, swapped)| *swapped) && gate.iter().any(|(_, swapped)| !swapped)
        );
    }
}
