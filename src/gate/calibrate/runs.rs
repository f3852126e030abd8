//! Calibrates a program by metrics of its whole runs.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use cli::exit::{self, ExitStatus};
use engine::machine::{host, tuning};
use engine::measure::metric::ProgramMetric;
use engine::program::Program;
use engine::scenario::draw_seed;
use files::environment::EnvironmentKey;
use files::gate::calibration::runs::{
    self, RecordedMetric, RunCalibration, RunCalibrationPlan, SCHEMA,
};
use files::gate::calibration::warnings;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{ALPHA, FLOOR_NS, LOOKS};

use crate::gate::calibrate::args::CalibrateArgs;
use crate::gate::calibrate::text::RUN_FORMATS;
use crate::gate::calibrate::{exit_status, pairs_within, write_and_print};
use crate::gate::comparison::program_round_length;
use crate::gate::pairs::now;
use crate::gate::runs::programs::{PairValues, Programs, StopReason, metric_rule};
use crate::progress::Progress;
use crate::{file_io, interrupt, terminal};

/// Runs pairs for the requested time, then writes and prints the calibration.
pub fn run(program: &Program, args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    let programs = plan_programs(program, args)?;
    programs.check_exist()?;
    file_io::check_writable(&args.out)?;
    args.rounds.cpu.map_or(Ok(()), tuning::bind)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    let (seconds, quiet) = (args.max_time.as_secs_f64(), args.rounds.quiet);
    let message = format!("calibrate: {} against itself for {seconds:.0}s", program.text());
    terminal::note(quiet, &message);

    let started = now();
    let mut recording = Recording { metrics: Vec::new(), pairs_started: started };
    let result = recording.measure(&programs, args, &stop);
    let (partial, failure) = match result {
        Ok(()) => (false, None),
        Err(StopReason::Refused(error)) if recording.metrics.is_empty() => return Err(error),
        Err(StopReason::Refused(error)) => (true, Some(error.to_string())),
        Err(StopReason::RunFailed(failure)) => (true, failure.message()),
    };
    let duration_ns = nanoseconds(started.elapsed());
    let pairs = recording.pairs();
    let pair_ns = nanoseconds(recording.pairs_started.elapsed()) / pairs.max(1);
    let recorded = &recording.metrics;
    let calibration = RunCalibration {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc,
        duration_ns,
        partial,
        failure,
        environment: EnvironmentKey::from_host(&host),
        program: program.text().to_owned(),
        plan: calibration_plan(&programs, args.rounds.cpu),
        pairs,
        pair_ns,
        metrics: runs::metrics(recorded, ALPHA, &LOOKS, pair_ns),
        inconclusive: runs::inconclusive(recorded, ALPHA, &LOOKS, pair_ns),
        real_gates: runs::real_gates(recorded, ALPHA, &LOOKS),
        warnings: warnings(&[], usize::try_from(pairs).unwrap_or(usize::MAX)),
    };
    write_and_print(&calibration, &RUN_FORMATS, args)?;
    exit_status(calibration.failure, calibration.partial)
}

fn plan_programs(program: &Program, args: &CalibrateArgs) -> exit::Result<Programs> {
    let round = program_round_length(&args.rounds, args.period)?;
    let seed = args.rounds.seed.unwrap_or_else(draw_seed);
    let sides = Sides { base: program.clone(), candidate: program.clone() };
    let names = sides.as_ref().map(|program| program.text().to_owned());
    Ok(Programs::new(sides, names, &args.runs, round, args.max_round_time, seed))
}

fn calibration_plan(programs: &Programs, cpu: Option<usize>) -> RunCalibrationPlan {
    RunCalibrationPlan {
        warmup_runs: programs.warmup_runs,
        prepare: programs.prepare.as_ref().map(|program| program.text().to_owned()),
        seed: programs.seed,
        cpu,
        alpha: ALPHA,
        looks: LOOKS.map(|pairs| pairs as u64).into(),
    }
}

/// The metrics recorded so far.
struct Recording {
    metrics: Vec<RecordedMetric>,
    /// Start of the first pair, after the dropped runs.
    pairs_started: Instant,
}

impl Recording {
    /// Runs pairs until the time is over. Metrics of complete pairs are kept even if this returns
    /// an error.
    fn measure(
        &mut self,
        programs: &Programs,
        args: &CalibrateArgs,
        stop: &AtomicBool,
    ) -> Result<(), StopReason> {
        let started = self.pairs_started;
        let first_runs = programs.warm_up(stop)?;
        let warmup_runs = u32::try_from(programs.warmup_runs).unwrap_or(u32::MAX);
        let pair_time = started.elapsed() / warmup_runs;
        let metrics = programs.resolve_metrics(&first_runs).map_err(StopReason::Refused)?;
        let advice = "the program less to do";
        let max_pairs =
            pairs_within(args.max_time, pair_time, "runs", advice).map_err(StopReason::Refused)?;
        let pairs_started = now();
        self.pairs_started = pairs_started;
        let progress = Progress::new(max_pairs, args.rounds.quiet);
        let has_time = || pairs_started.elapsed() < args.max_time;
        let (values, result) =
            programs.run_pairs(&first_runs, &metrics, stop, &progress, |_| has_time());
        progress.finish();
        let recorded = metrics.iter().zip(values);
        self.metrics = recorded.map(|(metric, values)| recorded_metric(metric, values)).collect();
        result.map_err(StopReason::from)
    }

    /// Returns the number of recorded pairs.
    fn pairs(&self) -> u64 {
        self.metrics.iter().map(|metric| metric.values.len() as u64).max().unwrap_or(0)
    }
}

fn recorded_metric(metric: &ProgramMetric, values: PairValues) -> RecordedMetric {
    RecordedMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        rule: metric_rule(metric, &[], FLOOR_NS),
        values,
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
