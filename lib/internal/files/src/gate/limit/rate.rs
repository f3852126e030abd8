//! The rate of missed ticks of a run, with one-sided bounds over its rounds.
//!
//! A limit on the rate is kept if the upper bound is below it, and broken if the lower bound is above
//! it ([`jitterstat::stats::miss_rate`]). In contrast to an interval from resampling, the upper
//! bound accounts for misses that did not occur in any round.

use std::fmt;

use super::rounds::{RoundTicks, planned_ticks};
use crate::report::{Subject, Summary};
use jitterstat::gate::decision::{Outcome, Reason};
use jitterstat::stats::bootstrap;
use jitterstat::stats::miss_rate::{self, MissRate, RoundMisses};

/// One-sided confidence with which a rate must be below its limit.
pub const PASS_CONFIDENCE: f64 = 0.95;
/// One-sided confidence with which a rate must be above its limit to break it, which is that of
/// other limits.
pub const BREAK_CONFIDENCE: f64 = 0.995;

/// The rate of missed ticks of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredRate {
    rate: MissRate,
    source: RateSource,
    period_ns: u64,
    /// Number of tickers that ran at once.
    instances: u64,
    /// Longest stall that the bounds assume; `None` for stalls of any length.
    max_stall_ns: Option<u64>,
}

/// The counts from which a rate is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The ticks of each round.
    Rounds,
    /// The values of each round in a file of another tool. Ticks without a value are not counted.
    ForeignRounds,
    /// The totals of a run whose rounds are not known, or not all of them.
    Totals,
}

/// The reason for which the rate of missed ticks of a subject is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownRate {
    /// The subject was not measured.
    NotMeasured,
    /// The period is unknown.
    NoPeriod,
    /// The source does not count all missed ticks; contains the number of those it counts.
    NotCounted(u64),
    /// The source does not contain every round, and the longest stall is not limited.
    OnlyTotals,
}

impl fmt::Display for UnknownRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMeasured => f.write_str("it was not measured"),
            Self::NoPeriod => f.write_str("its period is not known"),
            Self::NotCounted(0) => f.write_str("its missed ticks were not counted"),
            Self::NotCounted(known) => {
                write!(f, "at least {known} were missed, and the others are not counted")
            }
            Self::OnlyTotals => f.write_str(
                "it does not have every round, and misses come in bursts of unknown length; --max-stall limits it",
            ),
        }
    }
}

impl std::error::Error for UnknownRate {}

/// Returns the number of ticks that a stall makes late at most.
#[must_use]
pub fn burst_ticks(max_stall_ns: u64, period_ns: u64, instances: u64) -> u64 {
    max_stall_ns.div_ceil(period_ns.max(1)).max(1).saturating_mul(instances.max(1))
}

impl MeasuredRate {
    /// Reads the rate from a subject of a report, from its rounds if it has all of them, and
    /// otherwise from its totals. `max_stall_ns` is the longest stall to assume; if a tick was
    /// later, its lateness is assumed.
    ///
    /// # Errors
    /// Returns an error if the missed ticks were not all counted, or if only their total is known
    /// without a limit on the length of stalls.
    pub fn from_subject(
        subject: &Subject,
        is_own: bool,
        max_stall_ns: Option<u64>,
    ) -> Result<Self, UnknownRate> {
        let summary = subject.summary.as_ref().ok_or(UnknownRate::NotMeasured)?;
        let (period_ns, instances) = (subject.period_ns, subject.instances);
        if period_ns == 0 {
            return Err(UnknownRate::NoPeriod);
        }
        let max_late_ns = u64::try_from(summary.lateness_ns.max).unwrap_or(0);
        let max_stall_ns = max_stall_ns.map(|stall_ns| stall_ns.max(max_late_ns));
        let max_burst = max_stall_ns.map(|stall_ns| burst_ticks(stall_ns, period_ns, instances));
        // A long run without samples keeps some of its rounds.
        let is_complete = |rounds: &Vec<RoundMisses>| {
            rounds.iter().map(|round| round.ticks).fold(0, u64::saturating_add) >= summary.ticks
        };
        let (rate, source) = match (round_misses(subject).filter(is_complete), max_burst) {
            (Some(rounds), _) => {
                let source = if is_own { RateSource::Rounds } else { RateSource::ForeignRounds };
                (MissRate::from_rounds(&rounds, max_burst), source)
            }
            (None, Some(max_burst)) => {
                let missed = counted_misses(summary, is_own)?;
                let total = RoundMisses { ticks: summary.ticks, missed };
                (MissRate::from_totals(total, max_burst), RateSource::Totals)
            }
            (None, None) => {
                counted_misses(summary, is_own)?;
                return Err(UnknownRate::OnlyTotals);
            }
        };
        Ok(Self { rate, source, period_ns, instances, max_stall_ns })
    }

    /// Computes the rate of measured rounds. `max_stall_ns` is that of
    /// [`from_subject`](Self::from_subject).
    #[must_use]
    pub fn from_rounds(rounds: &[RoundTicks], period_ns: u64, max_stall_ns: Option<u64>) -> Self {
        let max_late_ns = rounds.iter().filter_map(RoundTicks::max_late_ns).max().unwrap_or(0);
        let max_stall_ns = max_stall_ns.map(|ns| ns.max(u64::try_from(max_late_ns).unwrap_or(0)));
        let instances = rounds.iter().map(RoundTicks::instances).max().unwrap_or(1);
        let max_burst = max_stall_ns.map(|stall_ns| burst_ticks(stall_ns, period_ns, instances));
        let rounds: Vec<RoundMisses> = rounds.iter().map(RoundTicks::misses).collect();
        let rate = MissRate::from_rounds(&rounds, max_burst);
        Self { rate, source: RateSource::Rounds, period_ns, instances, max_stall_ns }
    }

    /// Returns the counts and their bounds.
    #[must_use]
    pub fn rate(&self) -> &MissRate {
        &self.rate
    }

    /// Returns the counts from which the rate is known.
    #[must_use]
    pub fn source(&self) -> RateSource {
        self.source
    }

    /// Returns the number of rounds; 0 if they are not known.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        if self.source == RateSource::Totals { 0 } else { self.rate.rounds() }
    }

    /// Returns the longest stall that the bounds assume; `None` if they hold for any stalls.
    #[must_use]
    pub fn max_stall_ns(&self) -> Option<u64> {
        self.max_stall_ns
    }

    /// Returns the number of ticks that the longest stall makes late at most.
    #[must_use]
    pub fn max_burst(&self) -> Option<u64> {
        Some(burst_ticks(self.max_stall_ns?, self.period_ns, self.instances))
    }

    /// Returns the time in which the ticks were due, without warm-up and pauses.
    #[must_use]
    pub fn measured_ns(&self) -> u64 {
        (self.rate.ticks() / self.instances.max(1)).saturating_mul(self.period_ns)
    }

    /// Compares the rate with a limit, a share of the ticks.
    #[must_use]
    pub fn judge(&self, limit: f64) -> (Outcome, Option<Reason>) {
        if self.source != RateSource::Totals && self.rate.rounds() < bootstrap::MIN_ROUNDS as u64 {
            (Outcome::Inconclusive, Some(Reason::TooFewRounds))
        } else if self.rate.upper_bound(PASS_CONFIDENCE) < limit {
            (Outcome::Pass, None)
        } else if self.rate.lower_bound(BREAK_CONFIDENCE) > limit {
            (Outcome::LimitBroken, None)
        } else {
            (Outcome::Inconclusive, Some(Reason::TooFewTicks))
        }
    }

    /// Returns the number of ticks that would probably decide an undecided limit. `None` if the
    /// limit is decided, or no number would decide it.
    #[must_use]
    pub fn ticks_to_decide(&self, limit: f64) -> Option<u64> {
        if self.judge(limit).0 != Outcome::Inconclusive {
            return None;
        }
        let (ticks, rounds) = (self.rate.ticks(), self.rate.rounds());
        let factor = self.rate.factor_to_decide(limit, PASS_CONFIDENCE, BREAK_CONFIDENCE)?;
        let round_ticks = ticks.div_ceil(rounds.max(1));
        let needed_rounds = (rounds as f64 * factor).ceil() as u64;
        Some(needed_rounds.max(bootstrap::MIN_ROUNDS as u64).saturating_mul(round_ticks))
    }
}

/// Returns the minimum number of rounds that show, without a miss, that a rate is below a limit.
#[must_use]
pub fn least_rounds(limit: f64, round_ticks: u64, max_burst: Option<u64>, confidence: f64) -> u64 {
    let rounds = miss_rate::least_rounds(limit, round_ticks, max_burst, confidence);
    rounds.max(bootstrap::MIN_ROUNDS as u64)
}

/// Returns the total of missed ticks, if all of them were counted. Other tools count a stall once,
/// however many ticks it swallows, so that only their 0 is a total.
fn counted_misses(summary: &Summary, is_own: bool) -> Result<u64, UnknownRate> {
    let counted = summary.missed.filter(|missed| is_own || *missed == 0);
    counted.ok_or_else(|| UnknownRate::NotCounted(summary.known_missed()))
}

/// Returns the misses of each round; `None` without rounds, or if they are not counted. All ticks of
/// a lost round were missed.
fn round_misses(subject: &Subject) -> Option<Vec<RoundMisses>> {
    // The entry of the first instance contains the summary of the whole round.
    let rounds = subject.rounds.chunk_by(|a, b| a.index == b.index);
    let mut misses = Vec::new();
    for (entries, ticks) in rounds.zip(planned_ticks(subject)).filter(|(_, ticks)| *ticks > 0) {
        let missed = entries[0].summary.as_ref().map_or(Some(ticks), |summary| summary.missed)?;
        misses.push(RoundMisses { ticks, missed });
    }
    (!misses.is_empty()).then_some(misses)
}
