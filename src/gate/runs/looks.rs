//! The looks at pairs of runs: when they are due, and what each of them decides.

use std::time::{Duration, Instant};

use cli::time::format_duration;
use engine::measure::metric::ProgramMetric;
use files::gate::verdict::RunMetric;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::pairs::now;
use crate::gate::screen::ScreenDeadline;

use super::collected_runs::{CollectedRuns, Values};
use super::metric_plan::MetricPlan;

/// Number of pairs after which the time until the looks is announced.
const ANNOUNCED_PAIRS: usize = 3;

/// The looks at the pairs of runs.
///
/// A metric is decided at the first look at which it passes, improves or regresses. It keeps this
/// outcome, and its benchmark leaves the later pairs. The share of alpha that each metric has at
/// each look was fixed before the first pair, so the rate of false alarms holds: over all looks, a
/// metric is judged no more often than if it had remained.
pub struct RunLooks<'a> {
    plan: &'a MetricPlan,
    /// Deadline of the only look of a screen.
    deadline: Option<ScreenDeadline>,
    started: Instant,
    /// The pairs that measure the same metrics as the next one.
    stretch: Stretch,
    max_time: Option<Duration>,
    /// Number of looks taken.
    pub taken: u64,
    /// The outcome of each metric that is decided.
    decided: Vec<Option<Outcome>>,
    /// Whether the time limit came between two looks.
    is_time_over: bool,
}

/// The pairs between two looks.
struct Stretch {
    /// Number of pairs before the first one.
    pairs: usize,
    started: Instant,
}

impl<'a> RunLooks<'a> {
    pub fn new(
        plan: &'a MetricPlan,
        deadline: Option<ScreenDeadline>,
        max_time: Option<Duration>,
        started: Instant,
    ) -> Self {
        RunLooks {
            plan,
            deadline,
            started,
            stretch: Stretch { pairs: 0, started: now() },
            max_time,
            taken: 0,
            decided: vec![None; plan.metrics.len()],
            is_time_over: false,
        }
    }

    /// Looks at the pairs if a look is due, and returns whether the runs end with them.
    pub fn end_with(&mut self, runs: &CollectedRuns) -> bool {
        let pairs = runs.pairs;
        let is_due = |deadline: ScreenDeadline| pairs > 0 && deadline.is_reached(pairs);
        if self.deadline.is_some_and(is_due) {
            self.take(runs, true);
            return true;
        }
        if self.plan.looks.contains(&pairs) {
            self.take(runs, pairs == self.plan.last_look());
            self.stretch = Stretch { pairs, started: now() };
        }
        if self.is_decided() || pairs >= self.plan.last_look() {
            return true;
        }
        // The first runs determined the looks; later runs can take longer.
        self.is_time_over = self.max_time.is_some_and(|max_time| self.started.elapsed() > max_time);
        self.is_time_over
    }

    /// Returns whether more pairs are not needed: each benchmark is decided, or another metric has
    /// regressed.
    fn is_decided(&self) -> bool {
        let is_open = self.decided.contains(&None);
        let mut others = self.plan.metrics.iter().filter(|metric| !metric.is_bench());
        let has_others = others.next().is_some();
        !is_open || has_others && self.outcome() == Outcome::Regressed
    }

    /// Returns the outcome of all metrics by the looks so far.
    pub fn outcome(&self) -> Outcome {
        Outcome::worst_of(self.decided.iter().map(|found| found.unwrap_or(Outcome::Inconclusive)))
    }

    /// Returns the metrics for the verdict. If the time limit ended the runs between two looks,
    /// nothing more is decided.
    pub fn metrics(&self, values: &Values, is_last: bool) -> Vec<RunMetric> {
        let mut metrics = self.plan.run_metrics(values, is_last);
        for (metric, decided) in metrics.iter_mut().zip(&self.decided) {
            if self.is_time_over && decided.is_none() {
                let reason = metric.judged.reason.unwrap_or(Reason::TooFewRounds);
                metric.judged.mark_inconclusive(Some(reason));
            }
        }
        metrics
    }

    /// Returns which metrics the next pair measures.
    pub fn open_metrics(&self) -> Vec<bool> {
        let mut open: Vec<bool> = self.decided.iter().map(Option::is_none).collect();
        // The CPU time is only measured along with the wall time.
        let is_open_wall =
            |(metric, is_open): (&ProgramMetric, &bool)| metric.is_wall() && *is_open;
        let is_wall_open = self.plan.metrics.iter().zip(&open).any(is_open_wall);
        open.resize(self.plan.measured.len(), is_wall_open);
        open
    }

    /// Returns a note on the time until the next look, after a few pairs that measure the same
    /// metrics. The first runs would give a wrong time, because their caches are cold.
    pub fn announcement(&self, pairs: usize) -> Option<String> {
        let Stretch { pairs: earlier_pairs, started } = self.stretch;
        if self.plan.is_screen || pairs != earlier_pairs + ANNOUNCED_PAIRS {
            return None;
        }
        let pair_seconds = started.elapsed().as_secs_f64() / ANNOUNCED_PAIRS as f64;
        let time_to = |look: usize| format_duration(pair_seconds * (look - pairs) as f64);
        let next = *self.plan.looks.iter().find(|&&look| look > pairs)?;
        let last = self.plan.last_look();
        let (to_next, to_last) = (time_to(next), time_to(last));
        if self.taken == 0 {
            return Some(format!("{to_next} to the first look, at most {to_last} to the last"));
        }
        let count = |counted| self.decided.iter().filter(|outcome| **outcome == counted).count();
        let regressed = match count(Some(Outcome::Regressed)) {
            0 => String::new(),
            regressed => format!(", and {regressed} regressed"),
        };
        Some(format!(
            "open metrics after {earlier_pairs} pairs: {} of {}{regressed}; {to_next} to the next look, at most {to_last} to the last",
            count(None),
            self.decided.len()
        ))
    }

    pub fn take(&mut self, runs: &CollectedRuns, is_last: bool) {
        self.taken += 1;
        let judged = self.plan.judge(&runs.values, is_last);
        let judged = judged.iter().zip(&self.plan.metrics).zip(&runs.values);
        for (((judged, metric), values), decided) in judged.zip(&mut self.decided) {
            // Zeros decide nothing. More pairs would not change that if a side has no other value.
            let outcome = match MetricPlan::is_unresolved(metric, values) {
                true if is_last || has_only_zeros(values) => Outcome::Pass,
                true => Outcome::Inconclusive,
                false => judged.outcome,
            };
            if decided.is_none() && outcome != Outcome::Inconclusive {
                *decided = Some(outcome);
            }
        }
    }
}

/// Returns whether a side has no value above zero.
fn has_only_zeros(values: &[Sides<f64>]) -> bool {
    values.iter().all(|pair| pair.base == 0.0) || values.iter().all(|pair| pair.candidate == 0.0)
}
