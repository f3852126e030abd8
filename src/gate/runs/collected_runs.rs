//! Runs two programs in pairs and collects the values of their metrics.

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::terminal::progress::Progress;
use engine::measure::child::{self, ProgramFault, RunFailure};
use engine::measure::metric::{self, ProgramMetric};
use engine::measure::pair_turns::{PairTurn, pair_turns};
use engine::measure::round_settings::RoundSettings;
use engine::measure::run_values::RunValues;
use engine::measure::stop_delay::StopDelay;
use engine::program::Program;
use files::gate::verdict::{LeftOverProcesses, UnjudgedBench, UnjudgedReason};
use files::report::Change;
use jitterstat::gate::arrivals::{PairedCounts, doubtful_side};
use jitterstat::gate::decision::{Outcome, Reason};
use jitterstat::gate::{Side, Sides};

use crate::gate::left_out_pairs::LeftOutPairs;
use crate::gate::live_estimate::show_estimate;
use crate::gate::pair_failure::PairFailure;

use super::first_runs::FirstRuns;
use super::programs::{CompletedRun, Programs};

/// Factor by which a run exceeds all earlier ones of its side if it seems to hang.
const HANGING_FACTOR: u32 = 5;

/// The values of one metric, pair by pair.
pub type PairValues = Vec<Sides<f64>>;

/// The values of each metric.
pub type Values = Vec<PairValues>;

/// The result of several pairs of runs.
pub struct CollectedRuns {
    /// Number of complete pairs.
    pub pairs: usize,
    /// The values of all complete pairs that measured the metric.
    pub values: Values,
    /// Processes that the programs left running in these runs.
    pub left_over: LeftOverProcesses,
    /// Number of these processes in each complete pair, without those of `--prepare`.
    pub left_over_by_pair: PairedCounts,
    /// Pairs without values, because a setting was changed during them.
    pub left_out: LeftOutPairs,
    /// Names of benchmarks that the first runs did not have.
    pub late_benches: BTreeSet<String>,
    /// The last run, if the deadline ended it and it seems to hang.
    pub hanging: Option<HangingRun>,
    /// Why the runs ended before `next_metrics` ended them, if they did.
    pub result: Result<(), PairFailure>,
}

/// A run that the deadline of a screen ended after several times the longest earlier time of its
/// side. It may never have ended.
#[derive(Clone, Copy, Debug)]
pub struct HangingRun {
    pub side: Side,
    pub lasted: Duration,
    /// Time of the longest earlier run.
    pub longest: Duration,
}

impl CollectedRuns {
    /// Returns the benchmarks that are not judged because the first runs did not have them.
    pub fn unjudged_late(&self) -> impl Iterator<Item = UnjudgedBench> {
        let late = self.late_benches.iter();
        late.map(|name| UnjudgedBench::new(name, UnjudgedReason::Late, None))
    }

    /// Returns the reason why an outcome is doubtful, if it is: a run that hangs is in no value,
    /// and work that a side leaves to processes is missing from its values.
    pub fn doubt(&self, outcome: Outcome) -> Option<Reason> {
        let has_less_work = self.left_over_by_pair.is_clearly_larger(doubtful_side(outcome));
        match outcome {
            Outcome::Inconclusive => None,
            _ if has_less_work => Some(Reason::LeftOverProcesses),
            Outcome::Pass | Outcome::Improved => self.hanging.map(|_| Reason::NotMeasured),
            Outcome::Regressed | Outcome::LimitBroken => None,
        }
    }

    fn count_left_over(&mut self, side: Side, run: &CompletedRun) {
        match side {
            Side::Base => self.left_over.a += run.values.killed_processes(),
            Side::Candidate => self.left_over.b += run.values.killed_processes(),
        }
        self.left_over.prepare += run.prepare_left_over;
    }

    fn push(&mut self, pair: Sides<OpenValues>) {
        let pairs = pair.base.into_iter().zip(pair.candidate);
        for (values, pair) in self.values.iter_mut().zip(pairs) {
            if let (Some(base), Some(candidate)) = pair {
                values.push(Sides { base, candidate });
            }
        }
        self.pairs += 1;
    }
}

impl Programs {
    /// Runs pairs, each in random order, until `next_metrics` returns `None` for the runs so far.
    /// Otherwise it returns a flag for each metric: whether the next pair measures it. It is called
    /// once for each number of complete pairs. `settings` are those with which all runs have to
    /// run.
    ///
    /// Returns the values of all complete pairs, even if a run fails. The pair in which the
    /// deadline comes is incomplete.
    pub fn run_pairs(
        &self,
        first_runs: &FirstRuns,
        metrics: &[ProgramMetric],
        settings: &RoundSettings,
        stop: &AtomicBool,
        progress: &Progress,
        mut next_metrics: impl FnMut(&CollectedRuns) -> Option<Vec<bool>>,
    ) -> CollectedRuns {
        let longest = first_runs.last.base.wall.max(first_runs.last.candidate.wall);
        let limit = self.max_run_time.unwrap_or(child::hang_timeout(longest));
        let mut runs = CollectedRuns {
            pairs: 0,
            values: vec![Vec::new(); metrics.len()],
            left_over: LeftOverProcesses::default(),
            left_over_by_pair: PairedCounts::default(),
            left_out: LeftOutPairs::default(),
            late_benches: BTreeSet::new(),
            hanging: None,
            result: Ok(()),
        };
        let mut open = vec![true; metrics.len()];
        let mut selected = self.sides.clone();
        let mut half_pair: Sides<Option<HalfPair>> = Sides::default();
        let mut is_new_pair = true;
        let mut longest_runs = first_runs.last.as_ref().map(|run| run.wall);
        let names = |run: &RunValues| metric::bench_metric_names(&self.wanted, run);
        let first_names: HashSet<String> = first_runs.last.iter().flat_map(names).collect();
        let stop_delay = StopDelay::begin();
        for PairTurn { pair, slot, side } in pair_turns(self.seed) {
            stop_delay.stop_if_requested();
            if slot == 0 && is_new_pair {
                let Some(next) = next_metrics(&runs) else { break };
                if next != open {
                    open = next;
                    match self.select(metrics, &open, limit, stop) {
                        Ok(programs) => selected = programs,
                        Err(failure) => {
                            runs.result = Err(failure.into());
                            break;
                        }
                    }
                }
            }
            progress.show(&self.names[side], pair);
            let longest = longest_runs[side];
            let run = match self.run(&selected[side], self.benches.as_ref(), limit, stop) {
                Ok(run) => run,
                Err(RunFailure::TimedOut { program, limit: lasted, .. })
                    if self.is_deadline_over() =>
                {
                    // The command of `--prepare` can time out as well.
                    let is_side = program == selected[side].text();
                    let is_long = lasted > longest * HANGING_FACTOR;
                    let is_hanging = is_side && is_long && runs.pairs > 0;
                    runs.hanging = is_hanging.then_some(HangingRun { side, lasted, longest });
                    break;
                }
                Err(failure) => {
                    runs.result = Err(failure.into());
                    break;
                }
            };
            runs.count_left_over(side, &run);
            let late = names(&run.values).into_iter().filter(|name| !first_names.contains(name));
            runs.late_benches.extend(late);
            let values = match self.open_values(side, metrics, &open, &run.values) {
                Ok(values) => values,
                Err(failure) => {
                    runs.result = Err(failure.into());
                    break;
                }
            };
            // Programs inherit the settings of this thread.
            let change = settings.changes().into_iter().next();
            let left_over = run.values.killed_processes();
            half_pair[side] = Some(HalfPair { values, left_over, change });
            longest_runs[side] = longest.max(run.values.wall);
            let Some(pair) = half_pair.take_both() else { continue };
            let change = changed_setting(&pair);
            is_new_pair = change.is_none();
            if let Some((side, change)) = change {
                if runs.left_out.add_changed(change.clone(), runs.pairs) {
                    let side = self.names[side].clone();
                    runs.result = Err(PairFailure::SettingsChanged { side, change });
                    break;
                }
            } else {
                runs.left_over_by_pair.add(pair.as_ref().map(|half| half.left_over));
                runs.push(pair.map(|half| half.values));
                if let Some(shown) = open.iter().position(|&is_open| is_open) {
                    let logarithms = without_zeros(&runs.values[shown]).into_iter();
                    let logarithms = logarithms.map(|pair| pair.map(f64::ln));
                    show_estimate(progress, &metrics[shown].name, logarithms);
                }
                progress.step();
            }
        }
        runs
    }

    /// Returns the programs for runs of the open metrics only, or of everything if the harness
    /// cannot select them. A first run of each side, which is dropped, must have all of them.
    ///
    /// # Errors
    /// Returns an error if the user interrupts the first runs.
    fn select(
        &self,
        metrics: &[ProgramMetric],
        open: &[bool],
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<Sides<Program>, RunFailure> {
        let Some(selected) = self.selected_programs(metrics, open) else {
            return Ok(self.sides.clone());
        };
        for side in [Side::Base, Side::Candidate] {
            let run = self.run(&selected[side], self.benches.as_ref(), limit, stop);
            match run.and_then(|run| self.open_values(side, metrics, open, &run.values)) {
                Ok(_) => {}
                Err(RunFailure::Interrupted) => return Err(RunFailure::Interrupted),
                Err(_) => return Ok(self.sides.clone()),
            }
        }
        Ok(selected)
    }

    /// Returns the programs with arguments that select the benchmarks of the open metrics. `None`
    /// if the harness cannot select them, or a metric is of a whole run.
    fn selected_programs(
        &self,
        metrics: &[ProgramMetric],
        open: &[bool],
    ) -> Option<Sides<Program>> {
        let open = metrics.iter().zip(open).filter(|(_, is_open)| **is_open);
        let names: Option<Vec<&str>> = open.map(|(metric, _)| metric.bench()).collect();
        let mut names = names?;
        names.dedup();
        let select = |side: Side| {
            let words = self.benches.as_ref()?.select(&self.plain_words[side], &names)?;
            self.sides[side].clone().with_words(words).ok()
        };
        Some(Sides { base: select(Side::Base)?, candidate: select(Side::Candidate)? })
    }

    /// Returns the value of each open metric in a run.
    fn open_values(
        &self,
        side: Side,
        metrics: &[ProgramMetric],
        open: &[bool],
        run: &RunValues,
    ) -> Result<OpenValues, RunFailure> {
        let value = |(metric, &is_open): (&ProgramMetric, &bool)| {
            is_open.then(|| metric.value(side, run)).transpose()
        };
        let values = metrics.iter().zip(open).map(value).collect::<Result<_, _>>();
        values.map_err(|error| RunFailure::new(&self.sides[side], ProgramFault::Metric(error)))
    }
}

/// The value of each metric in a run; `None` for one that is not measured any more.
type OpenValues = Vec<Option<f64>>;

/// A run whose partner has not run yet.
struct HalfPair {
    values: OpenValues,
    /// Number of processes that the program left running.
    left_over: u64,
    /// Setting that was changed from outside during the run.
    change: Option<Change>,
}

/// Returns the first change of a setting during a pair, and the side of that run.
fn changed_setting(pair: &Sides<HalfPair>) -> Option<(Side, Change)> {
    let change = |side: Side| Some((side, pair[side].change.clone()?));
    change(Side::Base).or_else(|| change(Side::Candidate))
}

/// Replaces the zeros of a metric, which have no logarithm, by a value far below all others.
pub fn without_zeros(values: &PairValues) -> PairValues {
    const ZERO_FACTOR: f64 = 1e-3;
    let positive = values.iter().flat_map(Sides::iter).copied().filter(|value| *value > 0.0);
    let smallest = positive.min_by(f64::total_cmp).unwrap_or(1.0);
    let replace = |value: f64| if value > 0.0 { value } else { smallest * ZERO_FACTOR };
    values.iter().map(|pair| pair.map(replace)).collect()
}
