//! The comparison of whole runs: is the candidate program worse than the base by its wall time or
//! another metric?

pub mod programs;
pub mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cli::exit::{self, Error};
use cli::time::format_duration;
use cli::words::pluralize;
use engine::machine::tuning;
use engine::measure::child::RunFailure;
use engine::measure::metric::ProgramMetric;
use engine::scenario::draw_seed;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::{Mode, RunMetric, RunsVerdict};
use files::report::{Host, Warning};
use jitterstat::gate::decision::{ALPHA, NumberVerdict, Outcome, Reason};
use jitterstat::gate::metric::{MetricRule, alpha_share};

use crate::gate::args::{GateArgs, Tolerance};
use crate::gate::calibration::{self, GateCalibration};
use crate::gate::comparison::{
    DEFAULT_MAX_PAIRS, gated_programs, program_names, program_round_length, single_period,
};
use crate::gate::design::plan_looks;
use crate::gate::pairs::now;
use crate::gate::question::{Gate, PlannedQuestion, Question};
use crate::progress::Progress;
use crate::terminal;

use programs::{
    FirstRuns, PairValues, Programs, StopReason, Values, check_tolerances, metric_rule,
};

/// Advice for a pair of runs that takes too long.
const SHORTER_RUNS_ADVICE: &str = "give the programs less to do";

/// A planned comparison of two programs by metrics of their runs.
struct RunComparison {
    programs: Programs,
    tolerances: Vec<Tolerance>,
    floor_ns: f64,
    max_pairs: u64,
    max_time: Option<Duration>,
    /// The noise of this machine.
    calibration: Option<RunCalibration>,
    /// Changes that the gate must detect.
    changes: Vec<Tolerance>,
    cpu: Option<usize>,
}

/// The judged metrics, with the looks at which they are judged.
struct MetricPlan {
    metrics: Vec<ProgramMetric>,
    rules: Vec<MetricRule>,
    looks: Vec<usize>,
    /// Alpha of one metric at one look.
    alpha_share: f64,
    /// Warnings of the calibration.
    warnings: Vec<Warning>,
}

pub fn plan(args: &GateArgs) -> PlannedQuestion {
    if args.runs.metric.is_empty() {
        return Ok(None);
    }
    let programs = gated_programs(args).ok_or_else(|| {
        Error::usage("--metric compares two programs; give --base-cmd and --candidate-cmd")
    })?;
    let names = program_names(args, &programs);
    let rounds = &args.judged.rounds;
    let round = program_round_length(rounds, single_period(&args.judged)?)?;
    let seed = rounds.seed.unwrap_or_else(draw_seed);
    Ok(Some(Box::new(RunComparison {
        programs: Programs::new(programs, names, &args.runs, round, args.max_round_time, seed),
        tolerances: args.judged.tolerance.clone(),
        floor_ns: args.judged.floor.as_nanos() as f64,
        max_pairs: args.max_pairs.unwrap_or(DEFAULT_MAX_PAIRS),
        max_time: args.max_time,
        calibration: args.calibration.as_deref().map(calibration::read).transpose()?,
        changes: args.detect.clone(),
        cpu: rounds.cpu,
    })))
}

impl Question for RunComparison {
    fn announce(&self) -> Vec<String> {
        let runs = pluralize(self.programs.warmup_runs, "run");
        vec![format!("first {runs} of each side, to be dropped")]
    }

    fn prepare(&mut self, _stop: &Arc<AtomicBool>) -> exit::Result<()> {
        self.programs.check_exist()?;
        self.cpu.map_or(Ok(()), tuning::bind)
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
        verdict.duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        gate.verdict.runs = Some(verdict);
        Ok(())
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
        let duration =
            |pairs: usize| format_duration(first_runs.pair_time.as_secs_f64() * pairs as f64);
        let (first, last) = (duration(plan.looks[0]), duration(plan.last_look()));
        let message = format!("gate: {first} to the first look, at most {last} to the last");
        terminal::note(gate.quiet, &message);
        verdict.plan = self.programs.plan(self.cpu, &plan.looks);
        let progress = Progress::new(plan.last_look() as u64, gate.quiet);
        let mut is_time_over = false;
        let runs =
            self.programs.run_pairs(&first_runs, &plan.metrics, &gate.stop, &progress, |values| {
                plan.take_look(values, verdict);
                let pairs = values[0].len();
                let is_open = verdict.verdict == Outcome::Inconclusive && pairs < plan.last_look();
                // The first runs determined the looks; later runs can take longer.
                is_time_over = is_open && self.max_time.is_some_and(|max| started.elapsed() > max);
                is_open && !is_time_over
            });
        progress.finish();
        plan.complete_verdict(&runs.values, is_time_over, verdict);
        gate.report_left_over(runs.left_over);
        runs.result.map_err(StopReason::from)
    }

    /// Resolves the metrics by the first runs, and plans the looks that detect the requested
    /// changes.
    fn plan_metrics(&self, first_runs: &FirstRuns, host: &Host) -> exit::Result<MetricPlan> {
        let pair_time = first_runs.pair_time;
        let metrics = self.programs.resolve_metrics(first_runs)?;
        check_tolerances("--tolerance", &self.tolerances, &metrics)?;
        check_tolerances("--detect", &self.changes, &metrics)?;
        // A change to detect is not tolerated.
        let tolerances = [&self.tolerances[..], &self.changes].concat();
        let rules: Vec<MetricRule> =
            metrics.iter().map(|metric| metric_rule(metric, &tolerances, self.floor_ns)).collect();
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
        let looks = plan_looks(mode, max_pairs, pair_time, max_time, SHORTER_RUNS_ADVICE)?;
        let warnings =
            calibration.map_or_else(Vec::new, |calibration| calibration.warnings(&looks));
        let alpha_share = alpha_share(ALPHA, metrics.len(), looks.len());
        Ok(MetricPlan { metrics, rules, looks, alpha_share, warnings })
    }
}

impl MetricPlan {
    fn last_look(&self) -> usize {
        self.looks[self.looks.len() - 1]
    }

    /// Judges the pairs so far, if their number is that of a look.
    fn take_look(&self, values: &Values, verdict: &mut RunsVerdict) {
        let pairs = values[0].len();
        verdict.pairs = pairs as u64;
        if !self.looks.contains(&pairs) {
            return;
        }
        verdict.looks_taken += 1;
        let is_last = pairs == self.last_look();
        let outcomes = self.judge(values, is_last).map(|judged| judged.outcome);
        verdict.verdict = Outcome::worst_of(outcomes);
    }

    fn judge(&self, values: &Values, is_last: bool) -> impl Iterator<Item = NumberVerdict> {
        let rules_with_values = self.rules.iter().zip(values);
        rules_with_values.map(move |(rule, values)| rule.judge(values, self.alpha_share, is_last))
    }

    /// Adds the metrics of all pairs to the verdict. If the time limit ended the runs between two
    /// looks, nothing is decided.
    fn complete_verdict(&self, values: &Values, is_time_over: bool, verdict: &mut RunsVerdict) {
        let is_last = verdict.pairs == self.last_look() as u64;
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
