//! The value of a number over the rounds of a run, and its interval.

use super::measured::Measured;
use super::path::{Count, NumberKind, Series, Statistic, SummaryPath};
use crate::report;
use crate::round_costs::{CostPerTick, ratio_with_interval};
use crate::summary::{PPB, distribute_ticks, stored_samples};
use jitterstat::sample::RoundSamples;
use jitterstat::stats::miss_rate::RoundMisses;
use jitterstat::stats::{Interval, bootstrap, quantile, sign_test};

/// Confidence of the deciding interval.
const CONFIDENCE: f64 = 0.99;

impl SummaryPath {
    /// Measures the number over all rounds, with its 99 % interval.
    #[must_use]
    pub fn measure(&self, rounds: &[RoundTicks]) -> Measured {
        self.measure_at(rounds, CONFIDENCE)
    }

    /// Measures the number over all rounds, with an interval at another confidence of at most
    /// 0.998, which is the limit of 1,000 resamples.
    #[must_use]
    pub fn measure_at(&self, rounds: &[RoundTicks], confidence: f64) -> Measured {
        let (value, interval) = match self.kind {
            NumberKind::Statistic(series, statistic) => {
                statistic.measure(&series_values(series, rounds), confidence)
            }
            NumberKind::MedianRound(q) => median_round(rounds, q, confidence),
            NumberKind::Ticks(Count::NoPark)
                if series_values(Series::UntilUnpark, rounds).iter().all(Vec::is_empty) =>
            {
                (None, None)
            }
            NumberKind::Ticks(count) => {
                let shares =
                    rounds.iter().map(|r| (100.0 * count.in_round(r) as f64, r.planned() as f64));
                ratio_with_interval(&shares.collect::<Vec<_>>(), confidence)
            }
            NumberKind::Drift => {
                let sums: Vec<_> = rounds.iter().map(RoundTicks::drift_sums).collect();
                let (value, interval) = ratio_with_interval(&sums, confidence);
                (value.map(|v| v * PPB), interval.map(|i| i.map(|v| v * PPB)))
            }
            NumberKind::Cpu => CostPerTick::estimate_cpu_ns_per_tick(&costs(rounds), confidence),
            NumberKind::Wakeups => {
                CostPerTick::estimate_wakeups_per_tick(&costs(rounds), confidence)
            }
        };
        Measured {
            value,
            interval,
            rounds: rounds.len(),
            ticks: rounds.iter().map(RoundTicks::planned).sum(),
            is_extreme: matches!(
                self.kind,
                NumberKind::Statistic(_, Statistic::Min | Statistic::Max)
            ),
            is_unknown_cost: matches!(self.kind, NumberKind::Cpu | NumberKind::Wakeups)
                && value.is_none(),
            is_from_summary: false,
        }
    }

    /// Reads the number from a summary without samples. The value is `None` for percentiles, which
    /// need samples, and for numbers that the summary does not have.
    #[must_use]
    pub fn from_summary(&self, summary: &report::Summary, rounds: usize) -> Measured {
        let share = |count: u64| (100.0 * count as f64) / summary.ticks.max(1) as f64;
        let value = match self.kind {
            NumberKind::Statistic(series, statistic) => {
                series.in_summary(summary).and_then(|d| statistic.in_distribution(d))
            }
            NumberKind::MedianRound(_) => None,
            NumberKind::Ticks(count) => count.in_summary(summary).map(share),
            NumberKind::Drift => summary.drift_ppb,
            NumberKind::Cpu => summary.cpu_ns_per_tick,
            NumberKind::Wakeups => summary.wakeups_per_tick,
        };
        Measured {
            value,
            interval: None,
            rounds,
            ticks: summary.ticks,
            is_extreme: false,
            is_unknown_cost: false,
            is_from_summary: true,
        }
    }
}

impl Series {
    fn in_summary(self, summary: &report::Summary) -> Option<&report::Distribution> {
        match self {
            Self::Lateness => Some(&summary.lateness_ns),
            Self::Consecutive => summary.jitter_consecutive_ns.as_ref(),
            Self::Spread => summary.jitter_spread_ns.as_ref(),
            Self::UntilUnpark => summary.until_unpark_ns.as_ref(),
            Self::AfterUnpark => summary.after_unpark_ns.as_ref(),
        }
    }
}

/// A round of a subject with all of its instances.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundTicks {
    pub(super) parts: Vec<RoundSamples>,
    pub(super) costs: CostPerTick,
}

/// The error of a subject without rounds for a limit. Contains the identifier of the subject.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MissingRounds {
    /// The subject was not measured.
    #[error("{0} was not measured")]
    NoSummary(String),
    /// The report contains no samples of the subject.
    #[error("the samples of {0} were left out of the report, and intervals need them")]
    NoSamples(String),
}

impl RoundTicks {
    /// Collects the rounds of a measured subject. All ticks of a lost round count as skipped.
    ///
    /// # Errors
    /// Returns an error if no round has ticks, or the report contains no samples.
    pub fn from_subject(subject: &report::Subject) -> Result<Vec<Self>, MissingRounds> {
        if subject.summary.is_none() {
            return Err(MissingRounds::NoSummary(subject.id.clone()));
        }
        if !subject.has_samples() {
            return Err(MissingRounds::NoSamples(subject.id.clone()));
        }
        // The entries of the instances of a round are consecutive.
        let entries = subject.rounds.chunk_by(|a, b| a.index == b.index);
        let rounds = entries.zip(CostPerTick::from_subject(subject)).zip(planned_ticks(subject));
        let mut collected = Vec::new();
        for ((entries, costs), ticks) in rounds {
            if ticks == 0 && entries.iter().all(|entry| entry.lateness_ns.is_empty()) {
                continue;
            }
            let mut round = Self::from_entries(subject, entries, costs);
            if round.planned() == 0 {
                round.plan(ticks);
            }
            collected.push(round);
        }
        Ok(collected)
    }

    fn from_entries(
        subject: &report::Subject,
        entries: &[report::Round],
        costs: CostPerTick,
    ) -> Self {
        Self { parts: stored_samples(subject, entries), costs }
    }

    fn planned(&self) -> u64 {
        self.parts.iter().map(|p| p.grid.ticks).sum()
    }

    /// Distributes the planned ticks of a lost round over its instances.
    fn plan(&mut self, ticks: u64) {
        let planned = distribute_ticks(ticks, self.instances(), &vec![0; self.parts.len()]);
        for (part, ticks) in self.parts.iter_mut().zip(planned) {
            part.grid.ticks = ticks;
        }
    }

    /// Returns the number of planned and of missed ticks.
    pub(super) fn misses(&self) -> RoundMisses {
        RoundMisses { ticks: self.planned(), missed: Count::Missed.in_round(self) }
    }

    /// Returns the largest lateness.
    pub(super) fn max_late_ns(&self) -> Option<i64> {
        self.parts.iter().flat_map(|part| part.lateness_ns.iter().copied()).max()
    }

    /// Returns the number of instances.
    pub(super) fn instances(&self) -> u64 {
        self.parts.len() as u64
    }

    fn sum(&self, count: impl Fn(&RoundSamples) -> u64) -> u64 {
        self.parts.iter().map(count).sum()
    }

    /// Returns the numerator and denominator of the slope of lateness over time.
    fn drift_sums(&self) -> (f64, f64) {
        let sums = self.parts.iter().map(RoundSamples::drift_sums);
        sums.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
    }
}

/// Returns the number of planned ticks of each round.
///
/// A round without a delivered tick has no summary. Either it was lost: its ticks are those of the
/// subject that are in no other round. Or it had none, like a slice of a trace without a timer, and a
/// round that an interrupt cut in its warm-up.
pub(super) fn planned_ticks(subject: &report::Subject) -> Vec<u64> {
    // The entry of the first instance contains the summary of the whole round.
    let entries = subject.rounds.chunk_by(|a, b| a.index == b.index);
    let summaries = entries.map(|entries| entries[0].summary.as_ref());
    let mut planned: Vec<u64> = summaries.map(|s| s.map_or(0, |s| s.ticks)).collect();
    let round_ticks = planned.iter().copied().max().unwrap_or(0);
    let counted = planned.iter().fold(0, |sum: u64, ticks| sum.saturating_add(*ticks));
    let total = subject.summary.as_ref().map_or(0, |summary| summary.ticks);
    let mut lost = total.saturating_sub(counted);
    for ticks in planned.iter_mut().filter(|ticks| **ticks == 0) {
        *ticks = round_ticks.min(lost);
        lost -= *ticks;
    }
    planned
}

impl Count {
    fn in_summary(self, summary: &report::Summary) -> Option<u64> {
        match self {
            Self::Missed => summary.missed,
            Self::Skipped => summary.skipped,
            Self::Coalesced => summary.coalesced,
            Self::Delivered => Some(summary.delivered),
            Self::Early => summary.early,
            Self::NoPark => summary.no_park,
        }
    }

    fn in_round(self, round: &RoundTicks) -> u64 {
        let coalesced = if self == Self::Delivered { round.sum(|part| part.coalesced) } else { 0 };
        let total = round.sum(|part| match self {
            Self::Missed => part.missed(),
            Self::Skipped => part.skipped(),
            // The entry of the first instance contains the number of all.
            Self::Coalesced => part.coalesced,
            Self::Delivered => part.recorded(),
            Self::Early => part.early(),
            Self::NoPark => part.until_unpark_ns.iter().filter(|u| u.is_none()).count() as u64,
        });
        total.saturating_sub(coalesced)
    }
}

impl Statistic {
    /// Returns the statistic of a distribution; `None` for a percentile.
    fn in_distribution(self, distribution: &report::Distribution) -> Option<f64> {
        match self {
            Self::Min => Some(distribution.min as f64),
            Self::Mean => distribution.mean.map(|mean| mean as f64),
            Self::Max => Some(distribution.max as f64),
            Self::Quantile(_) => None,
        }
    }

    fn measure(self, rounds: &[Vec<i64>], confidence: f64) -> (Option<f64>, Option<Interval<f64>>) {
        let values = || rounds.iter().flatten().copied();
        let float = |ns: i64| ns as f64;
        match self {
            Self::Min => (values().min().map(float), None),
            Self::Max => (values().max().map(float), None),
            Self::Mean => {
                let sums =
                    rounds.iter().map(|r| (r.iter().map(|&v| v as f64).sum(), r.len() as f64));
                ratio_with_interval(&sums.collect::<Vec<_>>(), confidence)
            }
            Self::Quantile(q) => {
                let mut sorted: Vec<i64> = values().collect();
                sorted.sort_unstable();
                let value = quantile::supported_nearest_rank(&sorted, q);
                let slices: Vec<&[i64]> = rounds.iter().map(Vec::as_slice).collect();
                let interval =
                    bootstrap::percentile_intervals(&slices, &[q], confidence).pop().flatten();
                (value.map(float), interval.map(|i| i.map(float)))
            }
        }
    }
}

/// Returns the values of a series, round by round.
fn series_values(series: Series, rounds: &[RoundTicks]) -> Vec<Vec<i64>> {
    let parts = rounds.iter().flat_map(|r| &r.parts);
    let lateness = parts.flat_map(|p| p.lateness_ns.iter().copied());
    let min_ns = lateness.min().unwrap_or(0);
    let values = |part: &RoundSamples| -> Vec<i64> {
        let stamped = || part.lateness_ns.iter().zip(&part.until_unpark_ns);
        match series {
            Series::Lateness => part.lateness_ns.clone(),
            Series::Consecutive => part.consecutive_ns().collect(),
            Series::Spread => part.lateness_ns.iter().map(|l| l - min_ns).collect(),
            Series::UntilUnpark => part.until_unpark_ns.iter().flatten().copied().collect(),
            Series::AfterUnpark => stamped().filter_map(|(l, u)| u.map(|u| l - u)).collect(),
        }
    };
    rounds.iter().map(|r| r.parts.iter().flat_map(values).collect()).collect()
}

/// The median over the rounds of a quantile.
fn median_round(
    rounds: &[RoundTicks],
    q: f64,
    confidence: f64,
) -> (Option<f64>, Option<Interval<f64>>) {
    let percentile = |mut sorted: Vec<i64>| {
        sorted.sort_unstable();
        quantile::round_nearest_rank(&sorted, q)
    };
    let values: Option<Vec<i64>> =
        series_values(Series::Lateness, rounds).into_iter().map(percentile).collect();
    let Some((value, interval)) = values.and_then(|v| sign_test::median_interval(&v, confidence))
    else {
        return (None, None);
    };
    let interval = interval.filter(|_| rounds.len() >= bootstrap::MIN_ROUNDS);
    (Some(value as f64), interval.map(|i| i.map(|ns| ns as f64)))
}

impl RoundTicks {
    /// Measures the CPU time in per cent of one core, which is its share of the windows in which it
    /// was counted, with an interval at a confidence of at most 0.998.
    #[must_use]
    pub fn measure_core_percent(rounds: &[Self], confidence: f64) -> Measured {
        let (value, interval) = CostPerTick::estimate_core_percent(&costs(rounds), confidence);
        Measured {
            value,
            interval,
            rounds: rounds.len(),
            ticks: rounds.iter().map(Self::planned).sum(),
            is_extreme: false,
            is_unknown_cost: value.is_none(),
            is_from_summary: false,
        }
    }
}

fn costs(rounds: &[RoundTicks]) -> Vec<CostPerTick> {
    rounds.iter().map(|round| round.costs).collect()
}
