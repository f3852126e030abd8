//! The comparison of whole runs: is the candidate program worse than the base by its wall time or
//! another metric?

mod bench_build;
#[cfg(test)]
mod false_alarms;
mod old_criterion;
pub mod programs;
mod same_program;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cli::exit::{self, Error};
use cli::terminal;
use cli::terminal::progress::Progress;
use cli::time::format_duration;
use cli::units::to_ns;
use cli::words::pluralize;
use engine::machine::tuning;
use engine::measure::benches::{BenchFormat, RunLength};
use engine::measure::child::RunFailure;
use engine::measure::metric::ProgramMetric;
use engine::measure::metric_spec::{BenchSpec, MetricSpec};
use engine::scenario::draw_seed;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::{RunMetric, RunsVerdict, SameProgram, UnjudgedBench, UnjudgedReason};
use files::report::Warning;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{ALPHA, NumberVerdict, Outcome, Reason};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::gate::args::{GateArgs, Tolerance};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::pair_test::{DEFAULT_MAX_PAIRS, looks_of_runs, looks_within};
use crate::gate::pairs::now;
use crate::gate::running_gate::RunningGate;
use crate::gate::screen::{self, MAX_SCREEN_PAIRS, Screen, ScreenDeadline, warn_of_few_pairs};

use bench_build::BenchBuild;
use programs::{
    CollectedRuns, FirstRuns, PairValues, Programs, ResolvedMetrics, StopReason, Values,
    check_tolerances, list_unjudged, metric_rule, without_zeros,
};
use same_program::EqualExecutables;

/// Advice for a pair of runs that takes too long.
const SHORTER_RUNS_ADVICE: &str = "give the programs less to do";

/// Number of benchmarks for which the first look is expected, before the suite is built. It comes
/// after 24 pairs for one benchmark, and after 44 for a thousand.
const EXPECTED_BENCHES: usize = 20;
/// Number of pairs after which the time until the looks is announced.
const ANNOUNCED_PAIRS: usize = 3;

/// A planned comparison of two programs by metrics of their runs.
pub struct RunComparison {
    programs: Programs,
    /// The build of the programs, if they are versions of a benchmark.
    build: Option<BenchBuild>,
    /// The executables of the build if they are equal, unless the user wants them measured.
    equal_executables: Option<EqualExecutables>,
    measures_equal: bool,
    tolerances: Vec<Tolerance>,
    floor: Option<Duration>,
    max_pairs: u64,
    max_time: Option<Duration>,
    /// The noise of this machine.
    calibration: Option<RunCalibration>,
    /// Changes that the gate must detect.
    changes: Vec<Tolerance>,
    cpu: Option<usize>,
    screen: Option<Screen>,
    /// Parts of the names of benchmarks that need not be judged.
    allowed_unjudged: Vec<String>,
}

/// The judged metrics, with the looks at which they are judged.
struct MetricPlan {
    /// The judged metrics, and after them the CPU time if only the wall time is judged.
    measured: Vec<ProgramMetric>,
    metrics: Vec<ProgramMetric>,
    rules: Vec<MetricRule>,
    looks: Vec<usize>,
    /// Number of pairs until the last look.
    expected_pairs: usize,
    /// Alpha of one metric at one look.
    alpha_share: f64,
    /// Whether only clear changes are reported.
    is_screen: bool,
    /// Warnings of the calibration.
    warnings: Vec<Warning>,
    /// Benchmarks that are not judged.
    unjudged: Vec<UnjudgedBench>,
    same_program: Option<SameProgram>,
}

/// The judged pairs of runs.
struct JudgedRuns {
    /// Numbers of pairs of the planned looks.
    looks: Vec<usize>,
    pairs: usize,
    looks_taken: u64,
    outcome: Outcome,
    /// The reason, if the outcome is inconclusive.
    reason: Option<Reason>,
    metrics: Vec<RunMetric>,
    unjudged: Vec<UnjudgedBench>,
    /// Whether nothing was measured, because both sides are the same program.
    same_program: Option<SameProgram>,
}

/// Runs that ended before the first pair.
impl Default for JudgedRuns {
    fn default() -> Self {
        Self {
            looks: Vec::new(),
            pairs: 0,
            looks_taken: 0,
            outcome: Outcome::Inconclusive,
            reason: None,
            metrics: Vec::new(),
            unjudged: Vec::new(),
            same_program: None,
        }
    }
}

/// Plans the comparison of two programs by metrics of their runs, if the arguments have one.
pub fn plan(args: &GateArgs) -> exit::Result<Option<RunComparison>> {
    if !args.has_whole_runs() {
        return Ok(None);
    }
    let rounds = &args.judged.rounds;
    let mut runs = args.runs.clone();
    if runs.metric.is_empty() {
        runs.metric.push(MetricSpec::Bench(BenchSpec::all(BenchFormat::Criterion)));
    }
    let mut build = None;
    if let (Some(name), Some(base)) = (&args.bench, &args.base) {
        let flags = args.cargo_flags.clone().unwrap_or_default();
        let is_criterion = runs.metric.iter().any(|metric| metric.is_of(BenchFormat::Criterion));
        build = Some(BenchBuild::new(name, base, flags, is_criterion, rounds.quiet)?);
    }
    let (sides, default_names) = match (&build, args.programs()) {
        (Some(build), _) => (build.programs()?, build.names()),
        (None, Some(sides)) => {
            let commands = sides.as_ref().map(|program| program.text().to_owned());
            (sides, commands)
        }
        (None, None) => {
            return Err(Error::usage(
                "--metric compares two programs; give --base-cmd and --candidate-cmd",
            ));
        }
    };
    let round = rounds.program_round_length(args.program_period()?)?;
    let length = if args.screen { RunLength::Brief } else { RunLength::Short };
    let seed = rounds.seed.unwrap_or_else(draw_seed);
    let names = args.program_names(default_names);
    let max_run_time = args.max_round_time;
    Ok(Some(RunComparison {
        programs: Programs::new(sides, names, &runs, round, length, max_run_time, seed)?,
        build,
        equal_executables: None,
        measures_equal: args.measure_equal,
        tolerances: args.judged.tolerance.clone(),
        floor: args.judged.floor,
        max_pairs: args.max_pairs.unwrap_or(DEFAULT_MAX_PAIRS),
        max_time: args.max_time,
        calibration: args.calibration.as_deref().map(calibration::read).transpose()?,
        changes: args.detect.clone(),
        cpu: rounds.cpu,
        screen: Screen::start(args),
        allowed_unjudged: args.allow_unjudged.clone(),
    }))
}

impl RunComparison {
    /// Returns whether a benchmark need not be judged.
    fn allows_unjudged(&self, name: &str) -> bool {
        self.allowed_unjudged.iter().any(|part| names_bench(part, name))
    }

    /// Builds the programs, if they are versions of a benchmark, and checks that they exist.
    pub fn prepare(&mut self, stop: &Arc<AtomicBool>) -> exit::Result<()> {
        let expected_time = self.expected_time();
        if let Some(build) = &mut self.build {
            if let Some(note) = expected_time {
                terminal::note(build.quiet, &format!("gate: {note}"));
            }
            let built = build.build(&mut self.programs.sides, stop)?;
            if !self.measures_equal {
                self.equal_executables = EqualExecutables::find(built);
            }
            // The time of a screen begins after the build.
            self.screen = self.screen.map(Screen::restart);
        }
        self.programs.deadline = self.screen.map(|screen| screen.deadline());
        self.programs.check_exist()?;
        Ok(self.cpu.map_or(Ok(()), tuning::bind)?)
    }

    /// Describes how long the benchmarks will take, as far as this is known before they are built: how
    /// many they are is not. `None` if the times of their harness are not known either.
    fn expected_time(&self) -> Option<String> {
        if self.screen.is_some() {
            let limit = format_duration(screen::MAX_SCREEN_TIME.as_secs_f64());
            return Some(format!("the build, and then at most {limit}"));
        }
        let bench_time = self.programs.bench_time()?;
        let looks = looks_of_runs(EXPECTED_BENCHES, self.max_pairs);
        let seconds = |run: Duration, pairs: usize| 2.0 * run.as_secs_f64() * pairs as f64;
        let shortest = format_duration(seconds(*bench_time.start(), looks[0]));
        let first = format_duration(seconds(*bench_time.end(), looks[0]));
        let last = format_duration(seconds(*bench_time.end(), looks[looks.len() - 1]));
        let first = if shortest == first { first } else { format!("{shortest} to {first}") };
        let limit = self.max_time.map_or_else(String::new, |limit| {
            format!(", and all of them at most {}", format_duration(limit.as_secs_f64()))
        });
        Some(format!(
            "after the build, each benchmark takes about {first} to the first look, which decides most of them, and at most {last}{limit}"
        ))
    }

    /// Returns a note for the user before the first run. The duration is not known yet.
    pub fn note(&self) -> String {
        let runs = pluralize(self.programs.warmup_runs, "run");
        format!("first {runs} of each side, to be dropped")
    }

    /// Measures and judges the programs, and adds the verdict to that of the gate.
    pub fn judge(self, gate: &mut RunningGate) -> exit::Result<()> {
        if gate.stop_reason().is_some() {
            gate.mark_partial(None);
            return Ok(());
        }
        let started = now();
        let (mut judged, result) = match self.plan_metrics(gate) {
            Ok((first_runs, plan)) => match plan.same_program.clone() {
                Some(same) => (plan.without_pairs(same), Ok(())),
                None => self.judge_pairs(&first_runs, &plan, started, gate),
            },
            Err(stop) => (JudgedRuns::default(), Err(stop)),
        };
        let (outcome, reason) = match result {
            Ok(()) => (judged.outcome, judged.reason),
            Err(StopReason::Refused(error)) if judged.pairs == 0 => return Err(error),
            Err(stop) => {
                let (reason, failure) = match stop {
                    StopReason::Refused(error) => (Reason::NotMeasured, Some(error.to_string())),
                    StopReason::RunFailed(RunFailure::Interrupted) => (Reason::Interrupted, None),
                    StopReason::RunFailed(failure) => {
                        (Reason::NotMeasured, Some(failure.to_string()))
                    }
                };
                for metric in &mut judged.metrics {
                    metric.judged.mark_inconclusive(Some(reason));
                }
                gate.mark_partial(failure);
                (Outcome::Inconclusive, Some(reason))
            }
        };
        gate.verdict.runs = Some(RunsVerdict {
            a: self.programs.names.base.clone(),
            b: self.programs.names.candidate.clone(),
            duration_ns: to_ns(started.elapsed()),
            verdict: outcome,
            reason,
            plan: self.programs.plan(self.cpu, &judged.looks),
            pairs: judged.pairs as u64,
            looks_taken: judged.looks_taken,
            metrics: judged.metrics,
            unjudged: judged.unjudged,
            same_program: judged.same_program,
        });
        Ok(())
    }

    /// Runs each side for the first time. Returns also whether both sides are the same program.
    fn first_runs(
        &self,
        quiet: bool,
        stop: &AtomicBool,
    ) -> Result<(FirstRuns, Option<SameProgram>), StopReason> {
        let Some(equal) = &self.equal_executables else {
            return Ok((self.programs.warm_up(stop)?, None));
        };
        let watch = equal.watch();
        let first_runs = self.programs.warm_up(stop)?;
        match equal.compare_files(watch) {
            Ok(same) => Ok((first_runs, Some(same))),
            Err(reason) => {
                let note = format!(
                    "gate: both sides are the same program, but {reason}, so they are measured"
                );
                terminal::note(quiet, &note);
                Ok((first_runs, None))
            }
        }
    }

    /// Runs each side for the first time, resolves the metrics by these runs, and plans the looks
    /// that detect the requested changes.
    fn plan_metrics(&self, gate: &RunningGate) -> Result<(FirstRuns, MetricPlan), StopReason> {
        let (first_runs, same_program) = self.first_runs(gate.quiet, &gate.stop)?;
        let pair_time = first_runs.pair_time;
        let ResolvedMetrics { metrics, mut unjudged } =
            self.programs.resolve_metrics(&first_runs)?;
        for bench in &mut unjudged {
            bench.allowed = self.allows_unjudged(&bench.name);
        }
        check_tolerances("--tolerance", &self.tolerances, &metrics)?;
        check_tolerances("--detect", &self.changes, &metrics)?;
        // A change to detect is not tolerated.
        let tolerances = [&self.tolerances[..], &self.changes].concat();
        let rules: Vec<MetricRule> =
            metrics.iter().map(|metric| metric_rule(metric, &tolerances, self.floor)).collect();
        let calibration = self.calibration.as_ref().map(|calibration| {
            let host = &gate.verdict.host;
            GateCalibration::from_runs(calibration, &metrics, &rules, pair_time, host)
        });
        let max_pairs = match &calibration {
            Some(calibration) if !self.changes.is_empty() => {
                calibration.pairs_to_detect(&self.changes, self.max_time)?
            }
            _ => self.max_pairs,
        };
        let looks = match &self.screen {
            // Its deadline determines the look, since the first runs can be slower than the others.
            Some(_) => vec![MAX_SCREEN_PAIRS],
            None => looks_within(
                looks_of_runs(metrics.len(), max_pairs),
                pair_time,
                self.max_time,
                SHORTER_RUNS_ADVICE,
            )?,
        };
        let expected_looks = self.screen.map_or(looks.clone(), |screen| screen.looks(pair_time));
        let warnings =
            calibration.map_or_else(Vec::new, |calibration| calibration.warnings(&looks));
        let alpha_share = alpha_share(ALPHA, metrics.len(), looks.len());
        let is_screen = self.screen.is_some();
        let expected_pairs = expected_looks[expected_looks.len() - 1];
        let mut measured = metrics.clone();
        if metrics.iter().any(ProgramMetric::is_wall) && !metrics.iter().any(ProgramMetric::is_cpu)
        {
            measured.push(ProgramMetric::cpu());
        }
        let plan = MetricPlan {
            measured,
            metrics,
            rules,
            looks,
            expected_pairs,
            alpha_share,
            is_screen,
            warnings,
            unjudged,
            same_program,
        };
        Ok((first_runs, plan))
    }

    /// Runs pairs until a look decides. Returns the pairs so far even if a run failed.
    fn judge_pairs(
        &self,
        first_runs: &FirstRuns,
        plan: &MetricPlan,
        started: Instant,
        gate: &mut RunningGate,
    ) -> (JudgedRuns, Result<(), StopReason>) {
        gate.warn_early(plan.warnings.clone());
        let mut unjudged = plan.unjudged.clone();
        announce_unjudged(&unjudged);
        if plan.is_screen {
            terminal::note(gate.quiet, &format!("gate: {}", screen::announcement()));
        }

        let deadline = self.screen.map(|mut screen| screen.start_test());
        let mut looks = RunLooks::new(plan, deadline, self.max_time, started);
        let progress = Progress::new(plan.expected_pairs as u64, gate.quiet);
        let quiet = gate.quiet;
        let runs =
            self.programs.run_pairs(first_runs, &plan.measured, &gate.stop, &progress, |runs| {
                if looks.end_with(runs) {
                    return None;
                }
                if let Some(note) = looks.announcement(runs.pairs) {
                    progress.print_above(|| terminal::note(quiet, &format!("gate: {note}")));
                }
                Some(looks.open_metrics())
            });
        progress.finish();

        let pairs = runs.pairs;
        let mut planned_looks = plan.looks.clone();
        if runs.result.is_ok() {
            if deadline.is_some() {
                // The deadline can come within a pair.
                if looks.taken == 0 {
                    looks.take(&runs, true);
                }
                planned_looks = vec![pairs];
            }
            warn_of_few_pairs(pairs as u64, "runs", gate);
        }
        gate.report_left_over(runs.left_over);

        let is_last = plan.is_screen || pairs == plan.last_look();
        let mut metrics = plan.run_metrics(&runs.values, is_last, &looks);
        gate.verdict.warnings.extend(plan.steadier_metric(&runs.values, &metrics));
        for name in plan.remove_zeros(&mut metrics) {
            let allowed = self.allows_unjudged(&name);
            unjudged.push(UnjudgedBench {
                name,
                reason: UnjudgedReason::Zero,
                side: None,
                numbers: Vec::new(),
                message: None,
                allowed,
            });
        }
        let is_complete = !metrics.is_empty() && unjudged.iter().all(|bench| bench.allowed);
        let (outcome, reason) = match looks.outcome() {
            Outcome::Pass | Outcome::Improved if !is_complete => {
                (Outcome::Inconclusive, Some(Reason::NotJudged))
            }
            Outcome::Inconclusive => {
                let mut open = metrics.iter().filter(|metric| metric.judged.is_inconclusive());
                (Outcome::Inconclusive, open.find_map(|metric| metric.judged.reason))
            }
            outcome => (outcome, None),
        };
        let judged = JudgedRuns {
            looks: planned_looks,
            pairs,
            looks_taken: looks.taken,
            outcome,
            reason,
            metrics: if pairs == 0 { Vec::new() } else { metrics },
            unjudged,
            same_program: None,
        };
        (judged, runs.result.map_err(StopReason::from))
    }
}

/// Warns before measuring of benchmarks that keep the gate from passing, so that the user can still
/// interrupt it.
fn announce_unjudged(unjudged: &[UnjudgedBench]) {
    let missing: Vec<UnjudgedBench> =
        unjudged.iter().filter(|bench| !bench.allowed).cloned().collect();
    if !missing.is_empty() {
        let count = pluralize(missing.len() as u64, "benchmark");
        let message =
            format!("not judged, so the gate cannot pass: {count}: {}", list_unjudged(&missing));
        terminal::warning(&message);
    }
}

/// Returns whether a part of a name occurs in that of a benchmark: at its beginning if the part
/// begins with `^`, and at its end if it ends with `$`.
fn names_bench(part: &str, name: &str) -> bool {
    let (part, is_start) = part.strip_prefix('^').map_or((part, false), |rest| (rest, true));
    let (part, is_end) = part.strip_suffix('$').map_or((part, false), |rest| (rest, true));
    match (is_start, is_end) {
        (true, true) => name == part,
        (true, false) => name.starts_with(part),
        (false, true) => name.ends_with(part),
        (false, false) => name.contains(part),
    }
}

impl MetricPlan {
    /// Judges both sides without a pair, because they are the same program. A benchmark that has no
    /// number is not judged by this either.
    fn without_pairs(&self, same_program: SameProgram) -> JudgedRuns {
        announce_unjudged(&self.unjudged);
        let is_complete = self.unjudged.iter().all(|bench| bench.allowed);
        JudgedRuns {
            looks: self.looks.clone(),
            outcome: if is_complete { Outcome::Pass } else { Outcome::Inconclusive },
            reason: (!is_complete).then_some(Reason::NotJudged),
            unjudged: self.unjudged.clone(),
            same_program: Some(same_program),
            ..JudgedRuns::default()
        }
    }

    fn last_look(&self) -> usize {
        self.looks[self.looks.len() - 1]
    }

    /// Judges every metric by its values.
    fn judge(&self, values: &Values, is_last: bool) -> Vec<NumberVerdict> {
        let mut judged = Vec::new();
        for (rule, values) in self.rules.iter().zip(values) {
            let values = without_zeros(values);
            judged.push(match self.is_screen {
                true => rule.screen(&values, self.alpha_share),
                false => rule.judge(&values, self.alpha_share, is_last),
            });
        }
        judged
    }

    /// Returns the warning that the CPU time would have decided where the wall time was too noisy.
    /// It does not reveal the outcome, so a gate that is run for it has its full alpha.
    fn steadier_metric(&self, values: &Values, metrics: &[RunMetric]) -> Option<Warning> {
        let wall = self.metrics.iter().position(ProgramMetric::is_wall)?;
        let cpu = self.measured.get(self.metrics.len())?;
        let is_noisy = metrics[wall].judged.reason == Some(Reason::TooNoisy);
        let cpu_times = &values[self.metrics.len()];
        let judged = self.rules[wall].judge(cpu_times, self.alpha_share, true);
        let is_steadier = is_noisy && judged.outcome != Outcome::Inconclusive;
        is_steadier.then(|| Warning {
            code: "steadier-metric".to_owned(),
            message: "The wall time varies too much here; the CPU time of these runs would have been decided.".to_owned(),
            hint: format!("Judge it with --metric {}.", cpu.name),
        })
    }

    /// Returns whether the values of a metric say nothing, because all of them are zero.
    fn is_unresolved(metric: &ProgramMetric, values: &PairValues) -> bool {
        let is_zero = values.iter().flat_map(Sides::iter).all(|value| *value == 0.0);
        !metric.counts_from_zero() && !values.is_empty() && is_zero
    }

    /// Removes the metrics whose values are all zero, and returns their names.
    fn remove_zeros(&self, metrics: &mut Vec<RunMetric>) -> Vec<String> {
        let mut planned = self.metrics.iter();
        let is_zero = |metric: &mut RunMetric| {
            let planned = planned.next().expect("there is a plan for each metric");
            let values: PairValues = metric.values.iter().map(|&pair| pair.into()).collect();
            Self::is_unresolved(planned, &values)
        };
        metrics.extract_if(.., is_zero).map(|metric| metric.name).collect()
    }

    /// Returns the metrics for the verdict. If the time limit ended the runs between two looks, nothing
    /// more is decided.
    fn run_metrics(&self, values: &Values, is_last: bool, looks: &RunLooks<'_>) -> Vec<RunMetric> {
        let mut metrics = Vec::new();
        let judged = self.judge(values, is_last).into_iter().zip(&looks.decided);
        for ((metric, (judged, decided)), values) in self.metrics.iter().zip(judged).zip(values) {
            let mut metric = RunMetric {
                name: metric.name.clone(),
                unit: metric.unit.clone(),
                higher_is_better: metric.higher_is_better,
                judged: (&judged).into(),
                a: judged.sides.base,
                b: judged.sides.candidate,
                pairs: judged.pairs as u64,
                pairs_to_decide: judged.pairs_to_decide,
                values: values.iter().map(|&pair| pair.into()).collect(),
            };
            show_zeros(&mut metric);
            if looks.is_time_over && decided.is_none() {
                let reason = judged.reason.unwrap_or(Reason::TooFewRounds);
                metric.judged.mark_inconclusive(Some(reason));
            }
            metrics.push(metric);
        }
        metrics
    }
}

/// Shows a median of zero, whose place another value took in the computation. Nothing has a ratio to
/// zero.
fn show_zeros(metric: &mut RunMetric) {
    let median = |side: usize| {
        let mut values: Vec<f64> = metric.values.iter().map(|pair| pair[side]).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    let is_zero = [0, 1].map(|side| median(side) == Some(0.0));
    if is_zero[0] {
        metric.a = 0.0;
    }
    if is_zero[1] {
        metric.b = 0.0;
    }
    if is_zero[0] != is_zero[1] {
        (metric.judged.ratio, metric.judged.ratio_interval) = (None, None);
    }
}

/// The looks at the pairs of runs.
///
/// A metric is decided at the first look at which it passes, improves or regresses. It keeps this
/// outcome, and its benchmark leaves the later pairs. The share of alpha that each metric has at each
/// look was fixed before the first pair, so the rate of false alarms holds: over all looks, a metric
/// is judged no more often than if it had remained.
struct RunLooks<'a> {
    plan: &'a MetricPlan,
    /// Deadline of the only look of a screen.
    deadline: Option<ScreenDeadline>,
    started: Instant,
    /// The pairs that measure the same metrics as the next one.
    stretch: Stretch,
    max_time: Option<Duration>,
    /// Number of looks taken.
    taken: u64,
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
    fn new(
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
    fn end_with(&mut self, runs: &CollectedRuns) -> bool {
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
    fn outcome(&self) -> Outcome {
        Outcome::worst_of(self.decided.iter().map(|found| found.unwrap_or(Outcome::Inconclusive)))
    }

    /// Returns which metrics the next pair measures.
    fn open_metrics(&self) -> Vec<bool> {
        let mut open: Vec<bool> = self.decided.iter().map(Option::is_none).collect();
        // The CPU time is only measured along with the wall time.
        let is_open_wall =
            |(metric, is_open): (&ProgramMetric, &bool)| metric.is_wall() && *is_open;
        let is_wall_open = self.plan.metrics.iter().zip(&open).any(is_open_wall);
        open.resize(self.plan.measured.len(), is_wall_open);
        open
    }

    /// Returns a note on the time until the next look, after a few pairs that measure the same metrics.
    /// The first runs would give a wrong time, because their caches are cold.
    fn announcement(&self, pairs: usize) -> Option<String> {
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

    fn take(&mut self, runs: &CollectedRuns, is_last: bool) {
        self.taken += 1;
        let judged = self.plan.judge(&runs.values, is_last);
        let judged = judged.iter().zip(&self.plan.metrics).zip(&runs.values);
        for (((judged, metric), values), decided) in judged.zip(&mut self.decided) {
            // Values of zero decide nothing, and more pairs would not change that.
            let outcome = match MetricPlan::is_unresolved(metric, values) {
                true => Outcome::Pass,
                false => judged.outcome,
            };
            if decided.is_none() && outcome != Outcome::Inconclusive {
                *decided = Some(outcome);
            }
        }
    }
}
