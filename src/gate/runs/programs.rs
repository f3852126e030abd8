//! Runs two programs in pairs and collects metrics of their whole runs.

use std::collections::{BTreeSet, HashSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cli::exit::{self, Error, usage};
use cli::printable::to_printable_line;
use cli::terminal::progress::Progress;
use cli::time::format_time;
use cli::units::{format_exact_duration, to_signed_ns};
use engine::measure::benches::{BenchOutputError, BenchRequest, RunLength};
use engine::measure::child::{self, ProgramFault, RunFailure, RunRequest, Series};
use engine::measure::metric::{self, ProgramMetric, ResolvedRun, RunValues, UnjudgedNumber};
use engine::measure::metric_spec::{self, MetricSpec};
use engine::measure::pair_turns::{PairTurn, pair_turns};
use engine::measure::round_settings::RoundSettings;
use engine::measure::stop_delay::StopDelay;
use engine::program::Program;
use engine::scenario::RoundLength;
use files::gate::verdict::{LeftOverProcesses, RunPlan, UnjudgedBench, UnjudgedReason};
use files::report::Change;
use jitterstat::gate::arrivals::{PairedCounts, doubtful_side};
use jitterstat::gate::decision::{ALPHA, FLOOR_NS, Outcome, Reason};
use jitterstat::gate::metric::MetricRule;
use jitterstat::gate::{Side, Sides};
use jitterstat::series::Better;

use crate::gate::args::{Tolerance, WholeRunArgs, find_rise};
use crate::gate::left_out_pairs::LeftOutPairs;
use crate::gate::live_estimate::show_estimate;
use crate::gate::pair_failure::PairFailure;
use crate::gate::pairs::now;
use crate::gate::screen;

/// Maximum number of benchmarks that a message lists.
const MAX_LISTED_NAMES: usize = 10;
/// Default tolerance of a metric, as a share.
const DEFAULT_TOLERANCE: f64 = 0.05;
/// Default tolerance of a tail percentile, as a share.
const DEFAULT_TAIL_TOLERANCE: f64 = 0.20;
/// Factor by which a run exceeds all earlier ones of its side if it seems to hang.
const HANGING_FACTOR: u32 = 5;
/// Time limit of the first run, before the length of a run is known.
const FIRST_RUN_TIMEOUT: Duration = Duration::from_secs(600);

/// The two programs and the requested metrics of their runs.
pub struct Programs {
    pub sides: Sides<Program>,
    /// The words of both commands as the user wrote them.
    plain_words: Sides<Vec<String>>,
    pub names: Sides<String>,
    pub wanted: Vec<MetricSpec>,
    /// The benchmarks among the requested metrics.
    benches: Option<BenchRequest>,
    /// Command to run before each run.
    pub prepare: Option<Program>,
    pub warmup_runs: u64,
    min_run_time: Duration,
    /// Length that a ticking program is requested to use.
    round: RoundLength,
    max_run_time: Option<Duration>,
    pub seed: u64,
    /// Time at which a screen ends its last run.
    pub deadline: Option<Instant>,
}

/// The runs before the first pair.
pub struct FirstRuns {
    /// The last run of each side, which shows the metrics that can be judged.
    last: Sides<RunValues>,
    /// Mean duration of a run of each side.
    pub pair_time: Duration,
}

/// A run that exited with 0.
struct CompletedRun {
    values: RunValues,
    left_over: LeftOverProcesses,
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

/// Why the runs ended before a result.
pub enum StopReason {
    /// The user made a mistake, so the runs cannot be judged.
    Refused(Error),
    /// A run failed or was interrupted.
    RunFailed(PairFailure),
}

impl From<Error> for StopReason {
    fn from(error: Error) -> Self {
        Self::Refused(error)
    }
}

impl From<PairFailure> for StopReason {
    fn from(failure: PairFailure) -> Self {
        match failure {
            PairFailure::Program(failure @ RunFailure::NotStarted { .. }) => {
                Self::Refused(failure.into())
            }
            failure => Self::RunFailed(failure),
        }
    }
}

/// The metrics that both sides have, and the benchmarks that cannot be judged.
#[derive(Default)]
pub struct ResolvedMetrics {
    pub metrics: Vec<ProgramMetric>,
    pub unjudged: Vec<UnjudgedBench>,
}

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

impl Programs {
    /// Adds the flags for a run of this length to programs of benchmarks. `round` is the length of
    /// a run, for programs that tick.
    ///
    /// # Errors
    /// Returns an error if the metrics specify several harnesses, or a filter that a command
    /// replaces.
    pub fn new(
        sides: Sides<Program>,
        names: Sides<String>,
        args: &WholeRunArgs,
        round: RoundLength,
        length: RunLength,
        max_run_time: Option<Duration>,
        seed: u64,
    ) -> exit::Result<Self> {
        let metrics = &args.metric;
        if (1..metrics.len()).any(|n| metrics[..n].contains(&metrics[n])) {
            return Err(Error::usage("--metric names a number twice; give each once"));
        }
        let benches = metric_spec::bench_request(metrics, length)?;
        if let Some(benches) = &benches {
            check_own_filters(&sides, benches, metrics)?;
        }
        let plain_words = sides.as_ref().map(|program| program.words().to_vec());
        let sides = match &benches {
            Some(benches) => Sides {
                base: with_bench_flags(sides.base, benches)?,
                candidate: with_bench_flags(sides.candidate, benches)?,
            },
            None => sides,
        };
        Ok(Self {
            sides,
            plain_words,
            names,
            wanted: args.metric.clone(),
            benches,
            prepare: args.prepare.clone(),
            warmup_runs: args.warmup_runs,
            min_run_time: args.min_run_time,
            round,
            max_run_time,
            seed,
            deadline: None,
        })
    }

    /// Returns how long a benchmark takes in a run, if that is known before it runs.
    pub fn bench_time(&self) -> Option<RangeInclusive<Duration>> {
        self.benches.as_ref().and_then(|benches| benches.format.bench_time(benches.length))
    }

    /// Returns the plan as files contain it.
    pub fn plan(&self, cpu: Option<usize>, looks: &[usize]) -> RunPlan {
        RunPlan {
            warmup_runs: self.warmup_runs,
            prepare: self.prepare.as_ref().map(|program| program.text().to_owned()),
            seed: self.seed,
            cpu,
            alpha: ALPHA,
            looks: looks.iter().map(|&pairs| pairs as u64).collect(),
        }
    }

    /// Checks that all programs exist.
    pub fn check_exist(&self) -> exit::Result<()> {
        let mut programs = self.sides.iter().chain(&self.prepare);
        Ok(programs.try_for_each(Program::check_exists)?)
    }

    /// Runs each side before the first pair, to fill caches.
    ///
    /// # Errors
    /// Returns an error if a run fails or is interrupted: there is nothing to judge then. Also
    /// returns an error if a filter matches no benchmark.
    pub fn warm_up(&self, stop: &AtomicBool) -> Result<FirstRuns, StopReason> {
        let first_runs =
            self.first_runs(stop).map_err(|failure| self.first_run_failure(failure))?;
        self.check_filters(&first_runs, stop)?;
        Ok(first_runs)
    }

    fn first_run_failure(&self, failure: RunFailure) -> StopReason {
        match failure {
            RunFailure::TimedOut { .. } if self.is_deadline_over() => {
                StopReason::Refused(screen::long_run_error())
            }
            RunFailure::Interrupted | RunFailure::NoResources { .. } => {
                StopReason::RunFailed(failure.into())
            }
            failure => StopReason::Refused(failure.into()),
        }
    }

    /// Checks that each filter matches a benchmark of a side. A filter next to others would
    /// otherwise select nothing without a word.
    fn check_filters(&self, first_runs: &FirstRuns, stop: &AtomicBool) -> Result<(), StopReason> {
        let Some(benches) = &self.benches else { return Ok(()) };
        for filter in metric_spec::bench_filters(&self.wanted) {
            let names = first_runs.last.iter().flat_map(RunValues::bench_names);
            let is_matched = match benches.matches(filter, names) {
                Some(is_matched) => is_matched,
                None => self.run_filter(benches, filter, stop)?,
            };
            if !is_matched {
                let format = benches.format;
                return Err(usage!("--metric {format}:{filter} matches no benchmark").into());
            }
        }
        Ok(())
    }

    /// Returns whether a side has benchmarks in a run with a filter alone.
    fn run_filter(
        &self,
        benches: &BenchRequest,
        filter: &str,
        stop: &AtomicBool,
    ) -> Result<bool, StopReason> {
        let limit = self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT);
        let request = BenchRequest { filters: vec![filter.to_owned()], ..benches.clone() };
        let mut failed = None;
        for side in [Side::Base, Side::Candidate] {
            let words = request.add_arguments(&self.plain_words[side]);
            let program = self.sides[side].clone().with_words(words).map_err(Error::from)?;
            match self.run_program(side, &program, Some(&request), limit, stop) {
                Ok(_) => return Ok(true),
                Err(RunFailure::Failed {
                    fault: ProgramFault::Benches { error: BenchOutputError::NoBench(_), .. },
                    ..
                }) => {}
                // Some harnesses fail without a benchmark.
                Err(failure @ RunFailure::Failed { .. }) => failed = failed.or(Some(failure)),
                Err(failure) => return Err(self.first_run_failure(failure)),
            }
        }
        match failed {
            Some(failure) => {
                let format = benches.format;
                Err(usage!("--metric {format}:{filter} alone has no benchmark: {failure}").into())
            }
            None => Ok(false),
        }
    }

    fn first_runs(&self, stop: &AtomicBool) -> Result<FirstRuns, RunFailure> {
        let started = now();
        let limit = self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT);
        for _ in 1..self.warmup_runs {
            self.run(Side::Base, &self.sides, limit, stop)?;
            self.run(Side::Candidate, &self.sides, limit, stop)?;
        }
        let base = self.run(Side::Base, &self.sides, limit, stop)?.values;
        let candidate = self.run(Side::Candidate, &self.sides, limit, stop)?.values;
        let warmup_runs = u32::try_from(self.warmup_runs).unwrap_or(u32::MAX);
        let pair_time = started.elapsed() / warmup_runs;
        Ok(FirstRuns { last: Sides { base, candidate }, pair_time })
    }

    /// Runs a side of these programs, which are [`Self::sides`] or a selection of their benchmarks.
    fn run(
        &self,
        side: Side,
        programs: &Sides<Program>,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<CompletedRun, RunFailure> {
        self.run_program(side, &programs[side], self.benches.as_ref(), limit, stop)
    }

    fn run_program(
        &self,
        side: Side,
        program: &Program,
        benches: Option<&BenchRequest>,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<CompletedRun, RunFailure> {
        let request = RunRequest {
            period: self.round.period,
            ticks: self.round.ticks,
            warmup: self.round.warmup_ticks,
            series: Series::Metrics,
            limit,
        };
        let mut left_over = LeftOverProcesses::default();
        if let Some(prepare) = &self.prepare {
            let limit = self.until_deadline(self.max_run_time.unwrap_or(FIRST_RUN_TIMEOUT));
            let prepared = child::run(prepare, RunRequest { limit, ..request }, stop)?;
            left_over.prepare = prepared.killed_processes();
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        // The preparation takes a part of the remaining time.
        let request = RunRequest { limit: self.until_deadline(limit), ..request };
        let values = metric::run(program, &self.wanted, benches, request, stop)?;
        match side {
            Side::Base => left_over.a = values.killed_processes(),
            Side::Candidate => left_over.b = values.killed_processes(),
        }
        Ok(CompletedRun { values, left_over })
    }

    /// Shortens a time limit so that it ends at the deadline.
    fn until_deadline(&self, limit: Duration) -> Duration {
        let remaining = self.deadline.map(|deadline| deadline.saturating_duration_since(now()));
        remaining.map_or(limit, |remaining| limit.min(remaining))
    }

    fn is_deadline_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now())
    }

    /// Resolves the requested metrics by a run of each side.
    ///
    /// # Errors
    /// Returns an error if a side lacks a metric, the sides report different metrics, a metric is
    /// requested twice, no benchmark reports a number, the runs are too short to be judged, or
    /// nothing remains to be judged.
    pub fn resolve_metrics(&self, first_runs: &FirstRuns) -> exit::Result<ResolvedMetrics> {
        let base = self.resolve_side(Side::Base, &first_runs.last)?;
        let candidate = self.resolve_side(Side::Candidate, &first_runs.last)?;
        let is_other = |metric: &&ProgramMetric| !metric.is_bench();
        let pairs = base.metrics.iter().filter(is_other);
        let mut pairs = pairs.zip(candidate.metrics.iter().filter(is_other));
        if let Some((a, b)) = pairs.find(|(a, b)| !is_same_metric(a, b)) {
            let describe = |metric: &ProgramMetric| {
                let better = if metric.higher_is_better { Better::Higher } else { Better::Lower };
                match a.higher_is_better == b.higher_is_better {
                    true => format!("{} in {}", metric.name, metric.unit),
                    false => format!("{} in {} ({better} is better)", metric.name, metric.unit),
                }
            };
            return Err(usage!(
                "the sides write different metrics: {} and {}",
                describe(a),
                describe(b)
            ));
        }
        let metrics = &candidate.metrics;
        if let Some(index) = (1..metrics.len()).find(|&i| metrics[..i].contains(&metrics[i])) {
            return Err(usage!("--metric names {} twice", metrics[index].name));
        }
        let resolved = pair_metrics(&Sides { base, candidate });
        if resolved.metrics.is_empty() {
            return Err(nothing_to_judge(&resolved.unjudged));
        }
        self.check_numbers(&first_runs.last)?;
        self.check_run_time(&first_runs.last)?;
        Ok(resolved)
    }

    /// Checks that a benchmark reports each requested number.
    fn check_numbers(&self, last_runs: &Sides<RunValues>) -> exit::Result<()> {
        let Some(benches) = &self.benches else { return Ok(()) };
        let reported: BTreeSet<&str> =
            last_runs.iter().flat_map(RunValues::bench_numbers).collect();
        let mut numbers = benches.numbers.iter();
        match numbers.find(|number| !reported.contains(number.as_str())) {
            Some(number) => Err(usage!(
                "no benchmark reports the number {number} of {}; choose from {}",
                benches.format,
                reported.into_iter().collect::<Vec<_>>().join(", ")
            )),
            None => Ok(()),
        }
    }

    fn resolve_side(&self, side: Side, last_runs: &Sides<RunValues>) -> exit::Result<ResolvedRun> {
        let name = self.sides[side].text();
        let other = last_runs.as_ref().swapped()[side];
        metric::resolve_metrics(&self.wanted, &last_runs[side], other)
            .map_err(|reason| usage!("{name}: {reason}; nothing was judged"))
    }

    /// Checks that starting the process is only a small part of a run, if a metric includes it.
    fn check_run_time(&self, last_runs: &Sides<RunValues>) -> exit::Result<()> {
        let shortest = last_runs.base.wall.min(last_runs.candidate.wall);
        let includes_startup = self.wanted.iter().any(MetricSpec::includes_startup);
        if !includes_startup || shortest >= self.min_run_time {
            return Ok(());
        }
        Err(usage!(
            "a run takes {}, and starting the process is much of that; give it more to do, or a shorter \
             --min-run-time than {}",
            format_time(to_signed_ns(shortest)),
            format_exact_duration(self.min_run_time)
        ))
    }

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
            let run = self.run(side, &selected, limit, stop);
            if let Ok(run) = &run {
                runs.count(run.left_over);
                let late =
                    names(&run.values).into_iter().filter(|name| !first_names.contains(name));
                runs.late_benches.extend(late);
            }
            let longest = longest_runs[side];
            let wall = run.as_ref().map_or(Duration::ZERO, |run| run.values.wall);
            let left_over = run.as_ref().map_or(0, |run| run.values.killed_processes());
            match run.and_then(|run| self.open_values(side, metrics, &open, &run.values)) {
                Ok(values) => {
                    // Programs inherit the settings of this thread.
                    let change = settings.changes().into_iter().next();
                    half_pair[side] = Some(HalfPair { values, left_over, change });
                    longest_runs[side] = longest.max(wall);
                }
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
            }
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
            let run = self.run(side, &selected, limit, stop);
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

impl CollectedRuns {
    /// Returns the benchmarks that are not judged because the first runs did not have them.
    pub fn unjudged_late(&self) -> impl Iterator<Item = UnjudgedBench> {
        self.late_benches.iter().map(|name| UnjudgedBench {
            name: name.clone(),
            reason: UnjudgedReason::Late,
            side: None,
            numbers: Vec::new(),
            message: None,
            allowed: false,
        })
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

    fn count(&mut self, found: LeftOverProcesses) {
        self.left_over.a += found.a;
        self.left_over.b += found.b;
        self.left_over.prepare += found.prepare;
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

/// Checks that no command has a filter flag with which its harness ignores the requested filters.
fn check_own_filters(
    sides: &Sides<Program>,
    benches: &BenchRequest,
    metrics: &[MetricSpec],
) -> exit::Result<()> {
    let Some(filter) = metric_spec::bench_filters(metrics).first().copied() else { return Ok(()) };
    let own =
        |program: &Program| Some((benches.own_filter(program.words())?, program.text().to_owned()));
    match sides.iter().find_map(own) {
        Some((flag, program)) => Err(usage!(
            "{program}: the command has {flag}, which replaces the filter of --metric {}:{filter}; give one of them",
            benches.format
        )),
        None => Ok(()),
    }
}

/// Adds the flags for a short run that a command lacks.
fn with_bench_flags(program: Program, benches: &BenchRequest) -> exit::Result<Program> {
    let words = benches.add_arguments(program.words());
    Ok(program.with_words(words)?)
}

/// Returns the metrics that both sides have. A benchmark that cannot be paired is not judged.
fn pair_metrics(sides: &Sides<ResolvedRun>) -> ResolvedMetrics {
    let runs = [&sides.candidate, &sides.base];
    let metrics = runs.iter().flat_map(|run| run.metrics.iter().map(|metric| &metric.name));
    let unjudged = runs.iter().flat_map(|run| run.unjudged.iter().map(|number| &number.name));
    let mut seen = HashSet::new();
    let mut resolved = ResolvedMetrics::default();
    for name in metrics.chain(unjudged).filter(|name| seen.insert(name.as_str())) {
        let found = sides.as_ref().map(|run| FoundMetric::find(run, name));
        let unjudged = |reason: UnjudgedReason, side: Option<&str>| UnjudgedBench {
            name: name.clone(),
            reason,
            side: side.map(str::to_owned),
            numbers: Vec::new(),
            message: None,
            allowed: false,
        };
        let unjudged_number = |number: &UnjudgedNumber, side: Option<&str>| UnjudgedBench {
            numbers: number.numbers.clone(),
            message: number.message.clone(),
            ..unjudged(number.reason, side)
        };
        let bench = match (found.base, found.candidate) {
            (Some(FoundMetric::Judged(a)), Some(FoundMetric::Judged(b))) => {
                if is_same_metric(a, b) {
                    resolved.metrics.push(b.with_base(a));
                    continue;
                }
                unjudged(UnjudgedReason::OtherUnit, None)
            }
            (_, None) => unjudged(UnjudgedReason::OneSide, Some("a")),
            (None, _) => unjudged(UnjudgedReason::OneSide, Some("b")),
            (Some(FoundMetric::Unjudged(a)), Some(FoundMetric::Judged(_))) => {
                unjudged_number(a, Some("a"))
            }
            (Some(FoundMetric::Unjudged(a)), Some(FoundMetric::Unjudged(b)))
                if a.reason == b.reason =>
            {
                unjudged_number(b, None)
            }
            (_, Some(FoundMetric::Unjudged(b))) => unjudged_number(b, Some("b")),
        };
        resolved.unjudged.push(bench);
    }
    resolved.unjudged.sort_by(|a, b| a.name.cmp(&b.name));
    resolved
}

/// A metric that a side has, or cannot be judged by.
enum FoundMetric<'a> {
    Judged(&'a ProgramMetric),
    Unjudged(&'a UnjudgedNumber),
}

impl<'a> FoundMetric<'a> {
    fn find(run: &'a ResolvedRun, name: &str) -> Option<Self> {
        let metric = run.metrics.iter().find(|metric| metric.name == name);
        let number = run.unjudged.iter().find(|number| number.name == name);
        metric.map(Self::Judged).or(number.map(Self::Unjudged))
    }
}

/// Returns the error that no benchmark can be judged.
fn nothing_to_judge(unjudged: &[UnjudgedBench]) -> Error {
    if unjudged.iter().all(|bench| bench.reason == UnjudgedReason::OneSide) {
        return Error::usage("no benchmark is on both sides, so there is nothing to judge");
    }
    usage!("no benchmark can be judged: {}", list_unjudged(unjudged))
}

/// Lists benchmarks with the reasons why they are not judged, the first ones if they are many.
pub fn list_unjudged(unjudged: &[UnjudgedBench]) -> String {
    let entry = |bench: &UnjudgedBench| to_printable_line(&format!("{} ({bench})", bench.name));
    let entries: Vec<String> = unjudged.iter().map(entry).collect();
    let listed = entries[..entries.len().min(MAX_LISTED_NAMES)].join(", ");
    match entries.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Replaces the zeros of a metric, which have no logarithm, by a value far below all others.
pub fn without_zeros(values: &PairValues) -> PairValues {
    const ZERO_FACTOR: f64 = 1e-3;
    let positive = values.iter().flat_map(Sides::iter).copied().filter(|value| *value > 0.0);
    let smallest = positive.min_by(f64::total_cmp).unwrap_or(1.0);
    let replace = |value: f64| if value > 0.0 { value } else { smallest * ZERO_FACTOR };
    values.iter().map(|pair| pair.map(replace)).collect()
}

fn is_same_metric(a: &ProgramMetric, b: &ProgramMetric) -> bool {
    a.name == b.name && a.unit == b.unit && a.higher_is_better == b.higher_is_better
}

/// Builds the rule of a metric with a tolerated rise, or with the default one. Without a floor of
/// the user, benchmarks have none, because many take nanoseconds.
pub fn metric_rule(
    metric: &ProgramMetric,
    tolerated: Option<f64>,
    floor: Option<Duration>,
) -> MetricRule {
    let tails = [":p90", ":p95", ":p99"];
    let is_tail = !metric.is_bench() && tails.iter().any(|tail| metric.name.ends_with(tail));
    let default_floor_ns = if metric.is_bench() { 0.0 } else { FLOOR_NS };
    let floor_ns = floor.map_or(default_floor_ns, |floor| floor.as_nanos() as f64);
    let default_tolerance = if is_tail { DEFAULT_TAIL_TOLERANCE } else { DEFAULT_TOLERANCE };
    let ns_per_unit = ns_per_unit(&metric.unit).filter(|_| !metric.higher_is_better);
    MetricRule {
        higher_is_better: metric.higher_is_better,
        tolerance: tolerated.unwrap_or(default_tolerance),
        floor: ns_per_unit.map_or(0.0, |ns_per_unit| floor_ns / ns_per_unit),
    }
}

/// Returns the nanoseconds of a unit; `None` if it is not one of a time.
pub fn ns_per_unit(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1.0),
        // The micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => Some(1e3),
        "ms" => Some(1e6),
        "s" => Some(1e9),
        _ => None,
    }
}

/// Checks that every tolerance applies to a judged metric, and that no metric is tolerated to fall
/// by 100 % or more. `option` is the flag that set the tolerances.
pub fn check_tolerances(
    option: &str,
    tolerances: &[Tolerance],
    metrics: &[ProgramMetric],
) -> exit::Result<()> {
    let is_judged =
        |tolerance: &Tolerance| metrics.iter().any(|metric| tolerance.applies_to(&metric.name));
    if let Some(unknown) = tolerances.iter().find(|tolerance| !is_judged(tolerance)) {
        let names: Vec<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        return Err(usage!(
            "{option} names {}, which is not judged; choose from {}",
            unknown.name,
            names.join(", ")
        ));
    }
    let mut rising = metrics.iter().filter(|metric| metric.higher_is_better);
    let excessive = rising.find_map(|ProgramMetric { name, .. }| {
        let rise = find_rise(tolerances, name).filter(|rise| *rise >= 1.0)?;
        Some((name, rise))
    });
    match excessive {
        Some((name, rise)) => {
            Err(usage!("more of {name} is better: it cannot fall by {:.0}%", rise * 100.0))
        }
        None => Ok(()),
    }
}
