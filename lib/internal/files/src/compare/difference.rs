//! Decides whether two subjects differ clearly. Every ranking, mark and factor follows this
//! decision, and so does the finding of a comparison.
//!
//! Two subjects of a run are compared round by round, with the estimate and the interval of
//! `osjitter compare`. A report without rounds may have confidence intervals of its percentiles; a
//! difference is then clear if the intervals do not overlap. Without any interval, with a
//! difference of at most one step of the source, or at a percentile that reflects the machine, no
//! difference is clear.

use std::cell::OnceCell;

use crate::report::{Distribution, Fitness, PERCENTILES, Report, Subject, Summary};
use jitterstat::gate::Sides;
use jitterstat::stats::quantile::median;
use jitterstat::stats::{Interval, shift};

use super::model::tidy;
use super::rounds::{
    QUANTILES, RoundValues, Rounds, bounded_interval, common_rounds, ln_ratios, times,
};

/// The difference between two subjects in one number, of which less is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairDifference {
    /// Ratio of the candidate to the base; `None` if no interval supports it.
    pub ratio: Option<f64>,
    /// 95 % interval of the ratio; `None` if only the intervals of both numbers are known.
    pub ratio_interval: Option<Interval<f64>>,
    /// The conclusion from the interval.
    pub conclusion: Conclusion,
}

/// The conclusion about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// The number of the base is lower.
    BaseIsLower,
    /// The number of the candidate is lower.
    CandidateIsLower,
    /// The interval contains 1, or the numbers differ by at most one step of their source.
    NotShown,
    /// There is no interval.
    Unknown,
    /// The number reflects the machine rather than the subjects.
    NotTrusted,
}

impl PairDifference {
    const UNKNOWN: Self =
        Self { ratio: None, ratio_interval: None, conclusion: Conclusion::Unknown };

    /// Returns the difference between two numbers with intervals of their own. It is clear if the
    /// intervals do not overlap.
    #[must_use]
    pub fn from_intervals(
        values: Sides<f64>,
        intervals: Sides<Option<Interval<f64>>>,
        step: f64,
    ) -> Self {
        let (Some(base), Some(candidate)) = (intervals.base, intervals.candidate) else {
            return Self::UNKNOWN;
        };
        let conclusion = if (values.base - values.candidate).abs() <= step {
            Conclusion::NotShown
        } else if base.upper < candidate.lower {
            Conclusion::BaseIsLower
        } else if candidate.upper < base.lower {
            Conclusion::CandidateIsLower
        } else {
            Conclusion::NotShown
        };
        let ratio = (values.base > 0.0).then(|| tidy(values.candidate / values.base));
        Self { ratio, ratio_interval: None, conclusion }
    }

    /// Returns the difference between two distributions at a percentile, by their intervals over
    /// rounds.
    #[must_use]
    pub fn from_distributions(sides: Sides<&Distribution>, key: &str) -> Self {
        let (Some(base), Some(candidate)) =
            (sides.base.percentile(key), sides.candidate.percentile(key))
        else {
            return Self::UNKNOWN;
        };
        let values = Sides { base: base as f64, candidate: candidate as f64 };
        let steps = sides.map(|distribution| unit_step(distribution_values(distribution)));
        // The bins of a stored histogram have three significant digits.
        let bin_width = values.base.max(values.candidate) / 1_000.0;
        let step = bin_width.max(steps.base.max(steps.candidate));
        let intervals = sides.map(|distribution| interval(distribution, key));
        Self::from_intervals(values, intervals, step)
    }

    /// Returns whether one of the sides is clearly lower.
    #[must_use]
    pub fn is_clear(&self) -> bool {
        matches!(self.conclusion, Conclusion::BaseIsLower | Conclusion::CandidateIsLower)
    }
}

fn interval(distribution: &Distribution, key: &str) -> Option<Interval<f64>> {
    let [lower, upper] = *distribution.ci95.get(key)?;
    Some(Interval { lower: lower as f64, upper: upper as f64 })
}

/// The limits of what two measurements can show.
pub(super) struct EvidenceLimits {
    /// Step of the coarser source.
    step_ns: f64,
    /// Relative step of the source with fewer significant digits.
    relative_step: f64,
    /// Index in [`PERCENTILES`] of the first percentile that is not trusted.
    first_distrusted: Option<usize>,
}

impl EvidenceLimits {
    /// Creates the limits of two subjects with the [steps](step_ns) of their values.
    pub(super) fn new(reports: Sides<&Report>, steps_ns: Sides<f64>) -> Self {
        let first = |report: &Report| report.fitness.as_ref().and_then(Fitness::first_distrusted);
        let first_distrusted = reports.iter().filter_map(|report| first(report)).min();
        let relative = reports.map(|report| relative_step(report.clock.value_digits));
        Self {
            step_ns: steps_ns.base.max(steps_ns.candidate),
            relative_step: relative.base.max(relative.candidate),
            first_distrusted,
        }
    }

    fn is_trusted(&self, key: &str) -> bool {
        let Some(first) = self.first_distrusted else { return true };
        PERCENTILES[..first].iter().any(|percentile| percentile.key == key)
    }

    /// Concludes from the interval of a ratio at a percentile; `values` are the compared numbers.
    pub(super) fn conclude(
        &self,
        key: &str,
        ratio: Option<Interval<f64>>,
        values: Sides<f64>,
    ) -> Conclusion {
        let Some(interval) = ratio else { return Conclusion::Unknown };
        if !self.is_trusted(key) {
            return Conclusion::NotTrusted;
        }
        let step = self.step_ns.max(self.relative_step * values.base.max(values.candidate));
        let is_within_step = (values.base - values.candidate).abs() <= step;
        match interval {
            _ if is_within_step => Conclusion::NotShown,
            Interval { lower, .. } if lower > 1.0 => Conclusion::BaseIsLower,
            Interval { upper, .. } if upper < 1.0 => Conclusion::CandidateIsLower,
            _ => Conclusion::NotShown,
        }
    }
}

/// Returns the maximum width of a bin of a histogram with this number of significant digits, relative
/// to the values in it.
fn relative_step(digits: Option<u32>) -> f64 {
    /// Histograms have no more.
    const MAX_DIGITS: u32 = 5;
    digits.map_or(0.0, |digits| {
        let bins_per_octave = 10_u32.pow(digits.min(MAX_DIGITS)).next_power_of_two();
        1.0 / f64::from(bins_per_octave)
    })
}

/// Returns the step of the values of a subject: that of the clock, the one that another tool states,
/// or the unit in which a program wrote them.
pub(super) fn step_ns(report: &Report, subject: &Subject) -> f64 {
    let rate_hz = report.clock.rate_hz;
    let clock_step = if rate_hz > 0.0 { 1e9 / rate_hz } else { 1.0 };
    let samples = subject.rounds.iter().flat_map(|round| round.lateness_ns.iter().copied());
    let unit = if subject.has_samples() {
        unit_step(samples)
    } else {
        let rounds = subject.rounds.iter().filter_map(|round| round.summary.as_ref());
        let summaries = rounds.chain(&subject.summary);
        unit_step(summaries.flat_map(|summary| distribution_values(&summary.lateness_ns)))
    };
    let stated = if report.is_own() { 0 } else { report.clock.error_bound_ns };
    clock_step.max(unit).max(stated as f64)
}

fn distribution_values(distribution: &Distribution) -> impl Iterator<Item = i64> + '_ {
    let percentiles = distribution.percentiles().into_iter().filter_map(|(_, value)| value);
    percentiles.chain([distribution.min, distribution.max])
}

/// Returns the unit of which all values are multiples: a millisecond, a microsecond or a
/// nanosecond.
fn unit_step(values: impl Iterator<Item = i64>) -> f64 {
    const MICROSECOND: i64 = 1_000;
    const MILLISECOND: i64 = 1_000_000;
    let mut step = MILLISECOND;
    for value in values {
        if value % step != 0 {
            step = if value % MICROSECOND == 0 { MICROSECOND } else { 1 };
        }
        if step == 1 {
            break;
        }
    }
    step as f64
}

/// The evidence of a report about differences between its subjects. The values of the rounds of a
/// subject are computed once.
#[derive(Debug)]
pub struct ReportEvidence<'a> {
    report: &'a Report,
    rounds: Vec<OnceCell<Rounds>>,
    steps_ns: Vec<OnceCell<f64>>,
}

impl<'a> ReportEvidence<'a> {
    /// Creates the evidence of a report.
    #[must_use]
    pub fn new(report: &'a Report) -> Self {
        let count = report.subjects.len();
        Self {
            report,
            rounds: vec![OnceCell::new(); count],
            steps_ns: vec![OnceCell::new(); count],
        }
    }

    /// Returns the difference between two subjects, given by their indices, at a percentile.
    ///
    /// # Panics
    /// Panics if the report has no subject with one of the indices.
    #[must_use]
    pub fn difference(&self, pair: Sides<usize>, key: &str) -> PairDifference {
        let subjects = pair.map(|index| &self.report.subjects[index]);
        let (Some(base), Some(candidate)) = (&subjects.base.summary, &subjects.candidate.summary)
        else {
            return PairDifference::UNKNOWN;
        };
        let reports = Sides { base: self.report, candidate: self.report };
        let limits = EvidenceLimits::new(reports, pair.map(|index| self.step_ns(index)));
        if !limits.is_trusted(key) {
            return PairDifference {
                conclusion: Conclusion::NotTrusted,
                ..PairDifference::UNKNOWN
            };
        }
        let Some(mut paired) = self.paired(pair, key, &limits) else {
            return pooled_difference(Sides { base, candidate }, key);
        };
        if paired.is_clear() && !is_confirmed(paired.conclusion, subjects, key) {
            paired.conclusion = Conclusion::NotShown;
        }
        paired
    }

    /// Compares two subjects round by round; `None` if no round of both has the percentile.
    fn paired(
        &self,
        pair: Sides<usize>,
        key: &str,
        limits: &EvidenceLimits,
    ) -> Option<PairDifference> {
        let which = QUANTILES.iter().position(|(name, _)| *name == key)?;
        let rounds = pair.map(|index| &self.rounds(index).values[..]);
        let pairs = common_rounds(rounds, |round: &RoundValues| round.ns[which]);
        let ratio = shift::paired(&ln_ratios(&pairs))?;
        let Some(interval) = bounded_interval(&ratio, pairs.len()) else {
            return Some(PairDifference::UNKNOWN);
        };
        let interval = interval.map(|ln| tidy(ln.exp()));
        let medians = times(&pairs).map(|side| median(side).round());
        Some(PairDifference {
            ratio: Some(tidy(ratio.shift.estimate.exp())),
            ratio_interval: Some(interval),
            conclusion: limits.conclude(key, Some(interval), medians),
        })
    }

    fn step_ns(&self, index: usize) -> f64 {
        let subject = &self.report.subjects[index];
        *self.steps_ns[index].get_or_init(|| step_ns(self.report, subject))
    }

    fn rounds(&self, index: usize) -> &Rounds {
        let subject = &self.report.subjects[index];
        self.rounds[index].get_or_init(|| Rounds::new(self.report, subject))
    }
}

/// Returns whether all ticks of two subjects confirm a clear difference between their rounds.
///
/// Each tick of a stall counts without samples, so that one stall can separate the rounds: the
/// intervals of the percentiles must then show the difference as well.
pub(super) fn is_confirmed(conclusion: Conclusion, subjects: Sides<&Subject>, key: &str) -> bool {
    let (Some(base), Some(candidate)) = (&subjects.base.summary, &subjects.candidate.summary)
    else {
        return false;
    };
    let summaries = Sides { base, candidate };
    if !(subjects.base.has_samples() && subjects.candidate.has_samples()) {
        let pooled = pooled_difference(summaries, key).conclusion;
        if pooled != Conclusion::Unknown {
            return conclusion == pooled;
        }
    }
    agrees_with_values(conclusion, summaries, key)
}

/// Returns the difference between the percentiles of all ticks, by their intervals.
fn pooled_difference(summaries: Sides<&Summary>, key: &str) -> PairDifference {
    PairDifference::from_distributions(summaries.map(|summary| &summary.lateness_ns), key)
}

/// Whether the percentiles of all ticks, which a table shows, are in the order of a conclusion.
fn agrees_with_values(conclusion: Conclusion, summaries: Sides<&Summary>, key: &str) -> bool {
    let values = summaries.map(|summary| summary.lateness_ns.percentile(key));
    match conclusion {
        Conclusion::BaseIsLower => values.base < values.candidate,
        Conclusion::CandidateIsLower => values.candidate < values.base,
        _ => true,
    }
}
