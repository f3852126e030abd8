//! The question of whole runs: is program B worse than A by its wall time, or by any other number?

pub mod programs;
pub mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use cli::exit::{self, Error};
use cli::time::format_duration;
use engine::machine::tuning;
use engine::measure::child::RunFailure;
use engine::measure::metric::{ProgramMetric, RunValues};
use engine::scenario::draw_seed;
use files::gate::calibration::runs::RunCalibration;
use files::gate::verdict::{Mode, RunMetric, RunsVerdict};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Outcome, Reason, Rules};
use jitterstat::gate::metric::alpha_share;
use jitterstat::gate::metric::{JudgedMetric, MetricRule};

use crate::gate::args::{GateArgs, Tolerance};
use crate::gate::calibration;
use crate::gate::pairs::now;
use crate::gate::question::{Gate, Question};
use crate::gate::sides::{DEFAULT_PAIRS, like_a_program, looks, names, one_period};
use crate::gate::text::counted;
use crate::terminal::{self, Progress};

use programs::{Programs, Stop, check_tolerances, rule};

/// What makes a pair of runs shorter.
const SHORTER: &str = "give the programs less to do";

/// Two programs to be judged by numbers of their runs.
struct Runs {
    programs: Programs,
    tolerances: Vec<Tolerance>,
    floor_ns: f64,
    most_pairs: u64,
    most_time: Option<Duration>,
    /// What is known of the noise here, and the changes that are to be seen.
    calibration: Option<RunCalibration>,
    see: Vec<Tolerance>,
    cpu: Option<usize>,
}

pub fn plan(args: &GateArgs) -> exit::Result<Option<Box<dyn Question>>> {
    if args.runs.metric.is_empty() {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (&args.baseline_cmd, &args.candidate_cmd) else {
        return Err(Error::usage(
            "--metric compares two programs; give --baseline-cmd and --candidate-cmd",
        ));
    };
    let like = like_a_program(&args.judged.rounds, one_period(&args.judged)?)?;
    let rounds = &args.judged.rounds;
    let seed = rounds.seed.unwrap_or_else(draw_seed);
    Ok(Some(Box::new(Runs {
        programs: Programs::new(
            [a, b],
            names(args, [a, b]),
            &args.runs,
            &like,
            args.max_round_time,
            seed,
        ),
        tolerances: args.judged.tolerance.clone(),
        floor_ns: args.judged.floor.as_nanos() as f64,
        most_pairs: args.max_pairs.unwrap_or(DEFAULT_PAIRS[0]),
        most_time: args.max_time,
        calibration: args.calibration.as_deref().map(calibration::read).transpose()?,
        see: args.see.clone(),
        cpu: rounds.cpu,
    })))
}

impl Question for Runs {
    fn announce(&self) -> Vec<String> {
        vec![format!(
            "first {} of each side, to be dropped",
            counted(self.programs.warmup_runs, "run")
        )]
    }

    fn prepare(&self, _stop: &Arc<AtomicBool>) -> exit::Result<()> {
        self.programs.find()?;
        self.cpu.map_or(Ok(()), tuning::bind)
    }

    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        if gate.over().is_some() {
            gate.cut_short(None);
            return Ok(());
        }
        let [a, b] = self.programs.names.clone();
        let mut verdict = RunsVerdict {
            a,
            b,
            duration_ns: 0,
            verdict: Outcome::Inconclusive,
            reason: None,
            warmup_runs: self.programs.warmup_runs,
            prepare: self.programs.prepare.as_ref().map(|program| program.text().to_owned()),
            seed: self.programs.seed,
            cpu: self.cpu,
            alpha: Rules::new(1).alpha,
            looks: Vec::new(),
            pairs: 0,
            looks_taken: 0,
            metrics: Vec::new(),
        };
        let started = now();
        match self.measure(gate, &mut verdict, started) {
            Ok(()) => {}
            Err(Stop::Refused(error)) if verdict.pairs == 0 => return Err(error),
            Err(stop) => {
                let (reason, failure) = match stop {
                    Stop::Refused(error) => (Reason::NotMeasured, Some(error.to_string())),
                    Stop::Cut(RunFailure::Interrupted) => (Reason::Interrupted, None),
                    Stop::Cut(why) => (Reason::NotMeasured, why.message()),
                };
                verdict
                    .metrics
                    .iter_mut()
                    .for_each(|m| (m.verdict, m.reason) = (Outcome::Inconclusive, Some(reason)));
                (verdict.verdict, verdict.reason) = (Outcome::Inconclusive, Some(reason));
                gate.cut_short(failure);
            }
        }
        verdict.duration_ns = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        gate.verdict.runs = Some(verdict);
        Ok(())
    }
}

impl Runs {
    /// Runs both until a look decides; what there is of it is in the verdict in any case.
    fn measure(
        &self,
        gate: &mut Gate,
        verdict: &mut RunsVerdict,
        started: Instant,
    ) -> Result<(), Stop> {
        let first = self.programs.warm_up(&gate.stop)?;
        let pair_time =
            started.elapsed() / u32::try_from(self.programs.warmup_runs).unwrap_or(u32::MAX);
        let (numbers, looks) = self.plan_looks(&first, pair_time).map_err(Stop::Refused)?;
        let rules: Vec<MetricRule> = numbers.iter().map(|number| self.rule(number)).collect();
        if let Some(calibration) = &self.calibration {
            let said = calibration::run_warnings(
                calibration,
                &numbers,
                &rules,
                &looks,
                &gate.verdict.host,
            );
            gate.warn_early(said);
        }
        let takes = |pairs: usize| pair_time.as_secs_f64() * pairs as f64;
        let last = looks[looks.len() - 1];
        let announced = format!(
            "gate: {} to the first look, at most {} to the last",
            format_duration(takes(looks[0])),
            format_duration(takes(last))
        );
        terminal::note(gate.quiet, &announced);
        verdict.looks = looks.iter().map(|&n| n as u64).collect();
        let share = alpha_share(verdict.alpha, numbers.len(), looks.len());
        let progress = Progress::new(last as u64, gate.quiet);
        let mut over = false;
        let (values, result) =
            self.programs.pairs(&first, &numbers, &gate.stop, &progress, |values| {
                let pairs = values[0].len();
                verdict.pairs = pairs as u64;
                if looks.contains(&pairs) {
                    verdict.looks_taken += 1;
                    let judged = rules
                        .iter()
                        .zip(values)
                        .map(|(rule, values)| rule.judge(values, share, pairs == last));
                    verdict.verdict = Outcome::worst_of(judged.map(|j| j.outcome));
                }
                let is_open = verdict.verdict == Outcome::Inconclusive && pairs < last;
                // The looks were planned by the first runs; later ones may take longer.
                over = is_open && self.most_time.is_some_and(|most| started.elapsed() > most);
                is_open && !over
            });
        progress.finish();
        // The last look, or what there is without one.
        let of = |((number, rule), values): ((&ProgramMetric, &MetricRule), &Vec<Sides<f64>>)| {
            let judged = rule.judge(values, share, verdict.pairs == last as u64);
            metric_of(number, judged, values)
        };
        let mut metrics: Vec<RunMetric> = numbers.iter().zip(&rules).zip(&values).map(of).collect();
        for metric in metrics.iter_mut().filter(|_| over) {
            // Between two looks nothing is decided.
            metric.verdict = Outcome::Inconclusive;
            metric.reason.get_or_insert(Reason::TooFewRounds);
        }
        let open =
            metrics.iter().find_map(|m| m.reason.filter(|_| m.verdict == Outcome::Inconclusive));
        verdict.reason = open.filter(|_| verdict.verdict == Outcome::Inconclusive);
        verdict.metrics = if verdict.pairs == 0 { Vec::new() } else { metrics };
        result.map_err(Stop::from)
    }

    /// What is judged, and when it is looked at: as the changes ask that are to be seen.
    fn plan_looks(
        &self,
        first: &[RunValues; 2],
        pair_time: Duration,
    ) -> exit::Result<(Vec<ProgramMetric>, Vec<usize>)> {
        let numbers = self.programs.numbers(first)?;
        check_tolerances("--tolerance", &self.tolerances, &numbers)?;
        check_tolerances("--see", &self.see, &numbers)?;
        let looks = |pairs: u64, most: Option<Duration>| {
            looks(Mode::Interleaved, pairs, pair_time, most, SHORTER)
        };
        let pairs = match &self.calibration {
            Some(calibration) if !self.see.is_empty() => {
                let rules: Vec<MetricRule> =
                    numbers.iter().map(|number| self.rule(number)).collect();
                let untimed = |pairs| looks(pairs, None);
                let time = (self.most_time, pair_time);
                calibration::runs_to_see(calibration, (&numbers, &rules), &self.see, time, untimed)?
            }
            _ => self.most_pairs,
        };
        Ok((numbers, looks(pairs, self.most_time)?))
    }

    /// What is to be seen is not tolerated.
    fn rule(&self, number: &ProgramMetric) -> MetricRule {
        let asked = [&self.tolerances[..], &self.see].concat();
        rule(number, &asked, self.floor_ns)
    }
}

fn metric_of(number: &ProgramMetric, judged: JudgedMetric, values: &[Sides<f64>]) -> RunMetric {
    RunMetric {
        name: number.name.clone(),
        unit: number.unit.clone(),
        higher_is_better: number.higher_is_better,
        verdict: judged.outcome,
        reason: judged.reason,
        ratio: judged.ratio,
        ratio_interval: judged.ratio_interval.map(Into::into),
        tolerated_ratio: judged.tolerated_ratio,
        a: judged.sides.base,
        b: judged.sides.candidate,
        pairs: judged.pairs as u64,
        pairs_to_decide: judged.pairs_to_decide,
        values: values.iter().map(|&pair| pair.into()).collect(),
    }
}
