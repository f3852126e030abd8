//! The comparison of whole runs: is the candidate program worse than the base by its wall time or
//! another metric?

pub mod bench_build;
pub mod programs;
pub mod text;

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
use engine::measure::metric::{MetricSpec, ProgramMetric};
use engine::scenario::draw_seed;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::{Mode, RunMetric, RunsVerdict};
use files::report::{Host, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{ALPHA, NumberVerdict, Outcome, Reason};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::gate::args::{GateArgs, Tolerance};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::comparison::{
    gated_programs, given_names, program_names, program_round_length, single_period,
};
use crate::gate::design::{DEFAULT_MAX_PAIRS, plan_looks};
use crate::gate::pairs::now;
use crate::gate::question::{Gate, PlannedQuestion, Question};
use crate::gate::screen::{self, MAX_SCREEN_PAIRS, Screen, warn_of_few_pairs};

use bench_build::BenchBuild;
use programs::{
    FirstRuns, PairValues, Programs, ResolvedMetrics, StopReason, Values, check_tolerances,
    metric_rule,
};

/// Advice for a pair of runs that takes too long.
const SHORTER_RUNS_ADVICE: &str = "give the programs less to do";

/// Maximum number of benchmarks that a warning lists.
const MAX_LISTED_NAMES: usize = 10;

/// A planned comparison of two programs by metrics of their runs.
struct RunComparison {
    programs: Programs,
    /// The build of the programs, if they are versions of a benchmark.
    build: Option<BenchBuild>,
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
}

/// The judged metrics, with the looks at which they are judged.
struct MetricPlan {
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
}

pub fn plan(args: &GateArgs) -> PlannedQuestion {
    if !args.has_whole_runs() {
        return Ok(None);
    }
    let build = plan_build(args)?;
    let rounds = &args.judged.rounds;
    Ok(Some(Box::new(RunComparison {
        programs: plan_programs(args, build.as_ref())?,
        build,
        tolerances: args.judged.tolerance.clone(),
        floor: args.judged.floor,
        max_pairs: args.max_pairs.unwrap_or(DEFAULT_MAX_PAIRS),
        max_time: args.max_time,
        calibration: args.calibration.as_deref().map(calibration::read).transpose()?,
        changes: args.detect.clone(),
        cpu: rounds.cpu,
        screen: Screen::start(args),
    })))
}

fn plan_build(args: &GateArgs) -> exit::Result<Option<BenchBuild>> {
    let (Some(name), Some(base)) = (&args.bench, &args.base) else { return Ok(None) };
    let flags = args.cargo_flags.clone().unwrap_or_default();
    BenchBuild::new(name, base, flags, args.judged.rounds.quiet).map(Some)
}

fn plan_programs(args: &GateArgs, build: Option<&BenchBuild>) -> exit::Result<Programs> {
    let (sides, names) = match build {
        Some(build) => (build.programs()?, given_names(args, build.names())),
        None => {
            let sides = gated_programs(args).ok_or_else(|| {
                Error::usage("--metric compares two programs; give --base-cmd and --candidate-cmd")
            })?;
            let names = program_names(args, &sides);
            (sides, names)
        }
    };
    let mut runs = args.runs.clone();
    if runs.metric.is_empty() {
        runs.metric.push(MetricSpec::Bench(BenchFormat::Criterion, None));
    }
    let rounds = &args.judged.rounds;
    let round = program_round_length(rounds, single_period(&args.judged)?)?;
    let length = if args.screen { RunLength::Brief } else { RunLength::Short };
    let seed = rounds.seed.unwrap_or_else(draw_seed);
    Programs::new(sides, names, &runs, round, length, args.max_round_time, seed)
}

impl Question for RunComparison {
    fn announce(&self) -> Vec<String> {
        let runs = pluralize(self.programs.warmup_runs, "run");
        vec![format!("first {runs} of each side, to be dropped")]
    }

    fn prepare(&mut self, stop: &Arc<AtomicBool>) -> exit::Result<()> {
        if let Some(build) = &mut self.build {
            build.build(&mut self.programs.sides, stop)?;
            // The time of a screen begins after the build.
            self.screen = self.screen.map(Screen::restart);
        }
        self.programs.deadline = self.screen.map(|screen| screen.deadline());
        self.programs.check_exist()?;
        Ok(self.cpu.map_or(Ok(()), tuning::bind)?)
    }

    fn judge(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if gate.stop_reason().is_some() {
            gate.mark_partial(None);
            return Ok(());
        }
        let mut verdict = self.empty_verdict();
        let started = now();
        match self.measure(gate, &mut verdict, started) {
            Ok(()) => {}
            Err(StopReason::Refused(error)) if verdict.pairs == 0 => return Err(error),
            Err(stop) => mark_stopped(stop, &mut verdict, gate),
        }
        verdict.duration_ns = to_ns(started.elapsed());
        gate.verdict.runs = Some(verdict);
        Ok(())
    }
}

/// Returns the warning that benchmarks are not judged because only one side has them.
fn unpaired_warning(unpaired: &Sides<Vec<String>>) -> Option<Warning> {
    let named = [("A", &unpaired.base), ("B", &unpaired.candidate)];
    let present = named.into_iter().filter(|(_, names)| !names.is_empty());
    let lists: Vec<String> =
        present.map(|(side, names)| format!("{} of {side}", list_names(names))).collect();
    (!lists.is_empty()).then(|| Warning {
        code: "bench-on-one-side".to_owned(),
        message: format!("Benchmarks on one side are not judged: {}.", lists.join("; ")),
        hint: "They are judged when both versions have them.".to_owned(),
    })
}

/// Lists names, the first ones if they are many.
fn list_names(names: &[String]) -> String {
    let listed = names[..names.len().min(MAX_LISTED_NAMES)].join(", ");
    match names.len().saturating_sub(MAX_LISTED_NAMES) {
        0 => listed,
        more => format!("{listed} and {more} more"),
    }
}

/// Marks a verdict as inconclusive because its runs ended early.
fn mark_stopped(stop: StopReason, verdict: &mut RunsVerdict, gate: &mut Gate) {
    let (reason, failure) = match stop {
        StopReason::Refused(error) => (Reason::NotMeasured, Some(error.to_string())),
        StopReason::RunFailed(RunFailure::Interrupted) => (Reason::Interrupted, None),
        StopReason::RunFailed(failure) => (Reason::NotMeasured, failure.message()),
    };
    for metric in &mut verdict.metrics {
        metric.judged.mark_inconclusive(Some(reason));
    }
    (verdict.verdict, verdict.reason) = (Outcome::Inconclusive, Some(reason));
    gate.mark_partial(failure);
}

impl RunComparison {
    /// Builds the verdict before the first run.
    fn empty_verdict(&self) -> RunsVerdict {
        let names = self.programs.names.clone();
        RunsVerdict {
            a: names.base,
            b: names.candidate,
            duration_ns: 0,
            verdict: Outcome::Inconclusive,
            reason: None,
            plan: self.programs.plan(self.cpu, &[]),
            pairs: 0,
            looks_taken: 0,
            metrics: Vec::new(),
        }
    }

    /// Runs both programs until a look decides. The verdict contains the pairs so far even if this
    /// returns an error.
    fn measure(
        &self,
        gate: &mut Gate,
        verdict: &mut RunsVerdict,
        started: Instant,
    ) -> Result<(), StopReason> {
        let first_runs = self.programs.warm_up(&gate.stop)?;
        let host = &gate.verdict.host;
        let plan = self.plan_metrics(&first_runs, host).map_err(StopReason::Refused)?;
        gate.warn_early(plan.warnings.clone());
        terminal::note(gate.quiet, &format!("gate: {}", plan.announcement(first_runs.pair_time)));
        verdict.plan = self.programs.plan(self.cpu, &plan.looks);
        let progress = Progress::new(plan.expected_pairs as u64, gate.quiet);
        let deadline = self.screen.map(|mut screen| screen.start_test());
        let mut is_time_over = false;
        let runs =
            self.programs.run_pairs(&first_runs, &plan.metrics, &gate.stop, &progress, |values| {
                let pairs = values[0].len();
                let is_due =
                    deadline.is_some_and(|deadline| pairs > 0 && deadline.is_reached(pairs));
                plan.take_look(values, is_due, verdict);
                if is_due {
                    return false;
                }
                let is_open = verdict.verdict == Outcome::Inconclusive && pairs < plan.last_look();
                // The first runs determined the looks; later runs can take longer.
                is_time_over = is_open && self.max_time.is_some_and(|max| started.elapsed() > max);
                is_open && !is_time_over
            });
        progress.finish();
        if deadline.is_some() && runs.result.is_ok() {
            plan.end_screen(&runs.values, verdict);
        }
        plan.complete_verdict(&runs.values, is_time_over, verdict);
        if runs.result.is_ok() {
            warn_of_few_pairs(verdict.pairs, "runs", gate);
        }
        gate.report_left_over(runs.left_over);
        runs.result.map_err(StopReason::from)
    }

    /// Resolves the metrics by the first runs, and plans the looks that detect the requested
    /// changes.
    fn plan_metrics(&self, first_runs: &FirstRuns, host: &Host) -> exit::Result<MetricPlan> {
        let pair_time = first_runs.pair_time;
        let ResolvedMetrics { metrics, unpaired } = self.programs.resolve_metrics(first_runs)?;
        check_tolerances("--tolerance", &self.tolerances, &metrics)?;
        check_tolerances("--detect", &self.changes, &metrics)?;
        // A change to detect is not tolerated.
        let tolerances = [&self.tolerances[..], &self.changes].concat();
        let rules: Vec<MetricRule> =
            metrics.iter().map(|metric| metric_rule(metric, &tolerances, self.floor)).collect();
        let calibration = self.calibration.as_ref().map(|calibration| {
            GateCalibration::from_runs(calibration, &metrics, &rules, pair_time, host)
        });
        let max_pairs = match &calibration {
            Some(calibration) if !self.changes.is_empty() => {
                calibration.pairs_to_detect(&self.changes, self.max_time)?
            }
            _ => self.max_pairs,
        };
        let (mode, max_time) = (Mode::Interleaved, self.max_time);
        let looks = match &self.screen {
            // Its deadline determines the look, since the first runs can be slower than the others.
            Some(_) => vec![MAX_SCREEN_PAIRS],
            None => plan_looks(mode, max_pairs, pair_time, max_time, SHORTER_RUNS_ADVICE)?,
        };
        let expected_looks = self.screen.map_or(looks.clone(), |screen| screen.looks(pair_time));
        let mut warnings =
            calibration.map_or_else(Vec::new, |calibration| calibration.warnings(&looks));
        warnings.extend(unpaired_warning(&unpaired));
        let alpha_share = alpha_share(ALPHA, metrics.len(), looks.len());
        let is_screen = self.screen.is_some();
        let expected_pairs = expected_looks[expected_looks.len() - 1];
        Ok(MetricPlan { metrics, rules, looks, expected_pairs, alpha_share, is_screen, warnings })
    }
}

impl MetricPlan {
    /// Describes how long the looks take.
    fn announcement(&self, pair_time: Duration) -> String {
        if self.is_screen {
            return screen::announcement();
        }
        let duration = |pairs: usize| format_duration(pair_time.as_secs_f64() * pairs as f64);
        let (first, last) = (duration(self.looks[0]), duration(self.last_look()));
        format!("{first} to the first look, at most {last} to the last")
    }

    fn last_look(&self) -> usize {
        self.looks[self.looks.len() - 1]
    }

    /// Takes the look of a screen if the deadline came within a pair, and states at which pair it was.
    fn end_screen(&self, values: &Values, verdict: &mut RunsVerdict) {
        if verdict.looks_taken == 0 {
            self.take_look(values, true, verdict);
        }
        verdict.plan.looks = vec![verdict.pairs];
    }

    /// Judges the pairs so far, if a look is due or planned at their number.
    fn take_look(&self, values: &Values, is_due: bool, verdict: &mut RunsVerdict) {
        let pairs = values[0].len();
        verdict.pairs = pairs as u64;
        if !is_due && !self.looks.contains(&pairs) {
            return;
        }
        verdict.looks_taken += 1;
        let is_last = is_due || pairs == self.last_look();
        let outcomes = self.judge(values, is_last).map(|judged| judged.outcome);
        verdict.verdict = Outcome::worst_of(outcomes);
    }

    fn judge(&self, values: &Values, is_last: bool) -> impl Iterator<Item = NumberVerdict> {
        let rules_with_values = self.rules.iter().zip(values);
        rules_with_values.map(move |(rule, values)| match self.is_screen {
            true => rule.screen(values, self.alpha_share),
            false => rule.judge(values, self.alpha_share, is_last),
        })
    }

    /// Adds the metrics of all pairs to the verdict. If the time limit ended the runs between two
    /// looks, nothing is decided.
    fn complete_verdict(&self, values: &Values, is_time_over: bool, verdict: &mut RunsVerdict) {
        let is_last = self.is_screen || verdict.pairs == self.last_look() as u64;
        let mut metrics = Vec::new();
        for (metric, (judged, values)) in
            self.metrics.iter().zip(self.judge(values, is_last).zip(values))
        {
            metrics.push(run_metric(metric, judged, values.clone()));
        }
        for metric in metrics.iter_mut().filter(|_| is_time_over) {
            let reason = metric.judged.reason.unwrap_or(Reason::TooFewRounds);
            metric.judged.mark_inconclusive(Some(reason));
        }
        let mut open = metrics.iter().filter(|metric| metric.judged.is_inconclusive());
        let open_reason = open.find_map(|metric| metric.judged.reason);
        verdict.reason = open_reason.filter(|_| verdict.verdict == Outcome::Inconclusive);
        verdict.metrics = if verdict.pairs == 0 { Vec::new() } else { metrics };
    }
}

fn run_metric(metric: &ProgramMetric, judged: NumberVerdict, values: PairValues) -> RunMetric {
    RunMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        higher_is_better: metric.higher_is_better,
        judged: (&judged).into(),
        a: judged.sides.base,
        b: judged.sides.candidate,
        pairs: judged.pairs as u64,
        pairs_to_decide: judged.pairs_to_decide,
        values: values.into_iter().map(Into::into).collect(),
    }
}
