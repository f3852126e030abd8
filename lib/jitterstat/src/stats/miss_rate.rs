//! One-sided bounds of the rate of misses, from the number of misses of each round.
//!
//! Misses come in bursts: a stall of the machine lets several ticks in a row be missed, so that an
//! exact interval over ticks ([`super::binomial`]) is too narrow. The bounds here resemble it, but
//! their unit is the round, and within a round the misses may depend on each other in any way.
//!
//! The upper bound is that of Stringer ("Practical aspects of statistical sampling in auditing",
//! Proceedings of the American Statistical Association, 1963), with which auditors bound a rare
//! error from a sample in which they found few or none. With `p(j)` as the exact upper bound of the
//! share of rounds after `j` rounds with a miss, and `m(1) ≥ m(2) ≥ …` as the misses of these
//! rounds, it is
//!
//! ```text
//! p(0) · worst + Σ (p(j) - p(j - 1)) · m(j)
//! ```
//!
//! misses per round, where `worst` are the misses of the worst possible round. Without a miss, or if
//! every round is either in time or missed as a whole, this is the exact bound of Clopper and
//! Pearson over rounds. Otherwise it is conservative in every published simulation and in those of
//! the tests below. For many rounds this is proven (Bickel, "Inference and auditing: the Stringer
//! bound", International Statistical Review 60, 1992; Pap and van Zuijlen, "On the asymptotic
//! behaviour of the Stringer bound", Statistica Neerlandica 50, 1996); for few rounds there is no
//! proof. The lower bound has the same form, with the exact lower bounds.
//!
//! # The worst round
//!
//! A round that was not seen may consist of misses only. Without an assumption, `R` rounds without a
//! miss therefore show that less than about `3 / R` of the ticks are missed, however many ticks a
//! round has. More can be shown only if the bursts are limited: if a stall makes at most `max_burst`
//! ticks late, then the worst round has that many misses more than the worst one that was seen, and
//! `N` ticks without a miss show about `3 · max_burst / N`. This also assumes that stalls are
//! independent of each other: their number per round is then a Poisson number. If they come in
//! groups, the bound is too low unless some of the groups are seen: in a simulation in which a tenth
//! of the rounds had 500 times as many stalls, it was right in 83 % of the runs of 20 rounds instead
//! of 95 %, and in 95 % or more of those of at least 50 rounds.

use super::binomial;

/// The ticks of one round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundMisses {
    /// Number of planned ticks.
    pub ticks: u64,
    /// Number of ticks that were missed.
    pub missed: u64,
}

/// The misses of a run.
///
/// ```
/// use jitterstat::stats::miss_rate::{MissRate, RoundMisses};
///
/// // None of 120,000 ticks in 480 rounds was missed.
/// let rounds = [RoundMisses { ticks: 250, missed: 0 }; 480];
/// let any_stall = MissRate::from_rounds(&rounds, None).upper_bound(0.95);
/// assert!((any_stall - 0.006_22).abs() < 1e-5);
/// let short_stalls = MissRate::from_rounds(&rounds, Some(4)).upper_bound(0.95);
/// assert!(short_stalls < 1e-4);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MissRate {
    /// Rounds with a miss, in groups of equal misses, the worst first.
    groups: Vec<MissGroup>,
    rounds: u64,
    ticks: u64,
    missed: u64,
    /// Number of ticks of the longest round.
    max_ticks: u64,
    max_burst: Option<u64>,
}

/// Rounds with an equal number of misses.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MissGroup {
    /// Misses of each of them.
    missed: f64,
    rounds: u64,
}

/// Maximum number of groups of a rate that is extrapolated.
const MAX_PLANNED_GROUPS: usize = 16;
/// Maximum factor by which a run is extrapolated.
const MAX_FACTOR: f64 = 1024.0;

impl MissRate {
    /// Creates the rate of a run from its rounds. `max_burst` is the number of ticks that one stall
    /// makes late at most; `None` for any number.
    #[must_use]
    pub fn from_rounds(rounds: &[RoundMisses], max_burst: Option<u64>) -> Self {
        let mut misses: Vec<u64> = rounds.iter().map(|r| r.missed.min(r.ticks)).collect();
        misses.sort_unstable_by(|a, b| b.cmp(a));
        let mut groups: Vec<MissGroup> = Vec::new();
        for equal in misses.chunk_by(|a, b| a == b).filter(|equal| equal[0] > 0) {
            groups.push(MissGroup { missed: equal[0] as f64, rounds: equal.len() as u64 });
        }
        Self {
            groups,
            rounds: rounds.len() as u64,
            ticks: saturating_sum(rounds.iter().map(|round| round.ticks)),
            missed: saturating_sum(misses),
            max_ticks: rounds.iter().map(|round| round.ticks).max().unwrap_or(0),
            max_burst,
        }
    }

    /// Creates the rate of a run of which only the totals are known, if a stall makes at most
    /// `max_burst` ticks late. The misses count as bursts of that length, which gives the widest
    /// bounds.
    #[must_use]
    pub fn from_totals(total: RoundMisses, max_burst: u64) -> Self {
        let RoundMisses { ticks, missed } = total;
        let max_burst = max_burst.clamp(1, ticks.max(1));
        let missed = missed.min(ticks);
        let whole = MissGroup { missed: max_burst as f64, rounds: missed / max_burst };
        let rest = MissGroup { missed: (missed % max_burst) as f64, rounds: 1 };
        let groups = [whole, rest].into_iter().filter(|g| g.rounds > 0 && g.missed > 0.0).collect();
        let rounds = ticks.div_ceil(max_burst);
        Self { groups, rounds, ticks, missed, max_ticks: max_burst, max_burst: None }
    }

    /// Returns the number of rounds.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns the number of planned ticks.
    #[must_use]
    pub fn ticks(&self) -> u64 {
        self.ticks
    }

    /// Returns the number of missed ticks.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the share of missed ticks; `None` without a tick.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.ticks > 0).then(|| self.missed as f64 / self.ticks as f64)
    }

    /// Returns the bound below which the share of missed ticks is, with at least the given
    /// confidence; 1 without a tick.
    #[must_use]
    pub fn upper_bound(&self, confidence: f64) -> f64 {
        let unseen = binomial::upper_bound(0, self.rounds, confidence);
        let mut seen = 0_u64;
        let (mut bound, mut previous) = (0.0, unseen);
        for group in &self.groups {
            seen = seen.saturating_add(group.rounds);
            let next = binomial::upper_bound(seen, self.rounds, confidence);
            bound += (next - previous) * group.missed;
            previous = next;
        }
        let mut worst = unseen * self.max_ticks as f64;
        if let Some(burst) = self.max_burst {
            let worst_seen = self.groups.first().map_or(0.0, |group| group.missed);
            // The number of bursts of a round is a Poisson number: one in `-ln(1 - unseen)` rounds.
            worst = worst.min(-(-unseen).ln_1p() * (worst_seen + burst.max(1) as f64));
        }
        self.per_tick(bound + worst, 1.0)
    }

    /// Returns the bound above which the share of missed ticks is, with at least the given
    /// confidence; 0 without a miss.
    #[must_use]
    pub fn lower_bound(&self, confidence: f64) -> f64 {
        let mut seen = 0_u64;
        let (mut bound, mut previous) = (0.0, 0.0);
        for group in &self.groups {
            seen = seen.saturating_add(group.rounds);
            let next = binomial::lower_bound(seen, self.rounds, confidence);
            bound += (next - previous) * group.missed;
            previous = next;
        }
        self.per_tick(bound, 0.0)
    }

    /// Converts misses per round to a share of the ticks; `unknown` without a tick.
    fn per_tick(&self, misses_per_round: f64, unknown: f64) -> f64 {
        if self.ticks == 0 {
            return unknown;
        }
        (misses_per_round * self.rounds as f64 / self.ticks as f64).min(1.0)
    }

    /// Returns by how many times more rounds like these would show on which side of the limit the
    /// rate is: below it with the confidence `upper`, or above it with the confidence `lower`.
    ///
    /// Returns `None` if the rate equals the limit, or if not even a thousand times more would
    /// suffice.
    #[must_use]
    pub fn factor_to_decide(&self, limit: f64, upper: f64, lower: f64) -> Option<f64> {
        let share = self.share()?;
        if share == limit {
            return None;
        }
        let is_decided = |factor: f64| {
            let scaled = self.scaled(factor);
            if share < limit {
                scaled.upper_bound(upper) < limit
            } else {
                scaled.lower_bound(lower) > limit
            }
        };
        let mut high = 1.0;
        while !is_decided(high) {
            high *= 2.0;
            if high > MAX_FACTOR {
                return None;
            }
        }
        let mut low = high / 2.0;
        for _ in 0..10 {
            let middle = f64::midpoint(low, high);
            if is_decided(middle) { high = middle } else { low = middle }
        }
        Some(high.max(1.0))
    }

    /// Returns the rate as if there were `factor` times as many rounds like these.
    fn scaled(&self, factor: f64) -> Self {
        let scale = |count: u64| (count as f64 * factor).round() as u64;
        // Few groups suffice for an estimate, and each takes a search.
        let size = self.groups.len().div_ceil(MAX_PLANNED_GROUPS).max(1);
        let mut groups = Vec::new();
        for neighbours in self.groups.chunks(size) {
            let rounds = saturating_sum(neighbours.iter().map(|group| group.rounds));
            let misses = neighbours.iter().map(|group| group.missed * group.rounds as f64);
            let missed = misses.sum::<f64>() / rounds as f64;
            groups.push(MissGroup { missed, rounds: scale(rounds) });
        }
        Self {
            groups,
            rounds: scale(self.rounds),
            ticks: scale(self.ticks),
            missed: scale(self.missed),
            ..*self
        }
    }
}

/// Adds up counts, to `u64::MAX` at most.
fn saturating_sum(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

/// Returns the minimum number of rounds of `round_ticks` ticks that show, without a miss, that the
/// rate of misses is below a limit. `max_burst` is that of [`MissRate::from_rounds`].
///
/// ```
/// use jitterstat::stats::miss_rate::least_rounds;
/// assert_eq!(least_rounds(1e-4, 250, None, 0.95), 29_956);
/// assert_eq!(least_rounds(1e-4, 250, Some(4), 0.95), 480);
/// ```
#[must_use]
pub fn least_rounds(limit: f64, round_ticks: u64, max_burst: Option<u64>, confidence: f64) -> u64 {
    let ln_rest = (1.0 - confidence).ln();
    let any_burst = if limit < 1.0 { ln_rest / (-limit).ln_1p() } else { 0.0 };
    let rounds = match max_burst {
        Some(burst) => {
            let short_bursts = -ln_rest * burst.max(1) as f64 / (limit * round_ticks.max(1) as f64);
            any_burst.min(short_bursts)
        }
        None => any_burst,
    };
    // Above the real number, since the bound must be below the limit.
    (rounds.floor() as u64).saturating_add(1)
}

#[cfg(test)]
mod tests;
