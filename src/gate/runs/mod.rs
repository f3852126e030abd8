//! The comparison of whole runs: is the candidate program worse than the base by its wall time or
//! another metric?

mod bench_build;
#[cfg(test)]
mod false_alarms;
mod looks;
mod metric_plan;
mod old_criterion;
pub mod programs;
mod same_program;
mod target_flags;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cli::exit::{self, Error};
use cli::terminal;
use cli::terminal::progress::Progress;
use cli::time::{format_duration, format_time};
use cli::units::{to_ns, to_signed_ns};
use cli::words::pluralize;
use engine::machine::tuning;
use engine::measure::benches::{BenchFormat, RunLength};
use engine::measure::child::RunFailure;
use engine::measure::metric::ProgramMetric;
use engine::measure::metric_spec::{BenchSpec, MetricSpec};
use engine::measure::round_settings::RoundSettings;
use engine::scenario::draw_seed;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::{RunsVerdict, SameProgram};
use jitterstat::gate::decision::{ALPHA, Outcome, Reason};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::gate::args::{GateArgs, Tolerance, tolerated_rise};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::pair_failure::PairFailure;
use crate::gate::pair_test::{DEFAULT_MAX_PAIRS, looks_of_runs, looks_within};
use crate::gate::pairs::now;
use crate::gate::running_gate::RunningGate;
use crate::gate::screen::{self, MAX_SCREEN_PAIRS, Screen, warn_of_few_pairs};

use bench_build::BenchBuild;
use looks::RunLooks;
use metric_plan::{JudgedRuns, MetricPlan, announce_unjudged};
use programs::{
    FirstRuns, HangingRun, Programs, ResolvedMetrics, StopReason, check_tolerances, metric_rule,
};
use same_program::EqualExecutables;

/// Advice for a pair of runs that takes too long.
const SHORTER_RUNS_ADVICE: &str = "give the programs less to do";

/// Number of benchmarks for which the first look is expected, before the suite is built. It comes
/// after 24 pairs for one benchmark, and after 44 for a thousand.
const EXPECTED_BENCHES: usize = 20;

/// A planned comparison of two programs by metrics of their runs.
pub struct RunComparison {
    programs: Programs,
    /// The build of the programs, if they are versions of a benchmark.
    build: Option<BenchBuild>,
    /// The executables of the build if they are equal, unless the user wants them measured.
    equal_executables: Option<EqualExecutables>,
    tolerances: Vec<Tolerance>,
    floor: Option<Duration>,
    /// Whether the floor is also that of a baseline.
    is_floor_shared: bool,
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
        let (measures_equal, quiet) = (args.measure_equal, rounds.quiet);
        build = Some(BenchBuild::new(name, base, flags, is_criterion, measures_equal, quiet)?);
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
        tolerances: args.judged.tolerance.clone(),
        floor: args.judged.floor,
        is_floor_shared: args.baseline.is_some(),
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
            if !build.measures_equal {
                self.equal_executables = EqualExecutables::find(built);
            }
            // The time of a screen begins after the build.
            self.screen = self.screen.map(Screen::restart);
        }
        self.programs.deadline = self.screen.map(|screen| screen.deadline());
        self.programs.check_exist()?;
        Ok(self.cpu.map_or(Ok(()), tuning::bind)?)
    }

    /// Describes how long the benchmarks will take, as far as this is known before they are built:
    /// how many they are is not. `None` if the times of their harness are not known either.
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
                    StopReason::RunFailed(PairFailure::Program(RunFailure::Interrupted)) => {
                        (Reason::Interrupted, None)
                    }
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
        let rule = |metric: &ProgramMetric| {
            let tolerated = tolerated_rise(&self.tolerances, &self.changes, &metric.name);
            metric_rule(metric, tolerated, self.floor)
        };
        let rules: Vec<MetricRule> = metrics.iter().map(rule).collect();
        self.note_unused_floor(&rules, gate.quiet);
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

    /// Notes that the floor of the user, which is a time, applies to no metric.
    fn note_unused_floor(&self, rules: &[MetricRule], quiet: bool) {
        let is_used = self.is_floor_shared || rules.iter().any(|rule| rule.floor > 0.0);
        if !is_used && self.floor.is_some_and(|floor| !floor.is_zero()) {
            let reason = "it applies to times in ns, us, ms or s, and no judged metric is one";
            terminal::note(quiet, &format!("--floor has no effect: {reason}"));
        }
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
        let settings = RoundSettings::read_bound_to(self.cpu);
        let runs = self.programs.run_pairs(
            first_runs,
            &plan.measured,
            &settings,
            &gate.stop,
            &progress,
            |runs| {
                if looks.end_with(runs) {
                    return None;
                }
                if let Some(note) = looks.announcement(runs.pairs) {
                    progress.print_above(|| terminal::note(quiet, &format!("gate: {note}")));
                }
                Some(looks.open_metrics())
            },
        );
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
        if let Some(HangingRun { side, lasted, longest }) = runs.hanging {
            let [lasted, longest] = [lasted, longest].map(|time| format_time(to_signed_ns(time)));
            let message = format!(
                "The last run of {} had not ended after {lasted}, when the time of the screen was over; the longest one before took {longest}.",
                self.programs.names[side]
            );
            gate.warn("hanging-run", &message, "Gate without --screen, which waits longer.");
        }
        gate.verdict.warnings.extend(runs.left_out.warnings("runs"));

        let is_last = plan.is_screen || pairs == plan.last_look();
        let mut metrics = looks.metrics(&runs.values, is_last);
        gate.verdict.warnings.extend(plan.steadier_metric(&runs.values, &metrics));
        for mut bench in plan.remove_zeros(&mut metrics).into_iter().chain(runs.unjudged_late()) {
            bench.allowed = self.allows_unjudged(&bench.name);
            unjudged.push(bench);
        }
        let is_complete = !metrics.is_empty() && unjudged.iter().all(|bench| bench.allowed);
        for metric in &mut metrics {
            if let Some(doubt) = runs.doubt(metric.judged.verdict) {
                metric.judged.mark_inconclusive(Some(doubt));
            }
        }
        let outcome = looks.outcome();
        let (outcome, reason) = match (outcome, runs.doubt(outcome)) {
            (_, Some(doubt)) => (Outcome::Inconclusive, Some(doubt)),
            (Outcome::Pass | Outcome::Improved, _) if !is_complete => {
                (Outcome::Inconclusive, Some(Reason::NotJudged))
            }
            (Outcome::Inconclusive, _) => {
                let mut open = metrics.iter().filter(|metric| metric.judged.is_inconclusive());
                (Outcome::Inconclusive, open.find_map(|metric| metric.judged.reason))
            }
            (outcome, None) => (outcome, None),
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
