//! Calibrates a program by metrics of its whole runs.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, ExitStatus};
use cli::terminal::progress::Progress;
use cli::units::to_ns;
use engine::machine::host;
use engine::measure::benches::RunLength;
use engine::measure::metric::ProgramMetric;
use engine::measure::round_settings::RoundSettings;
use engine::program::Program;
use engine::scenario::draw_seed;
use files::environment::EnvironmentKey;
use files::gate::calibration::runs::{self, RecordedMetric, RunCalibration, SCHEMA};
use files::gate::calibration::warnings;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::ALPHA;

use crate::gate::calibrate::args::CalibrateArgs;
use crate::gate::calibrate::text::RUN_FORMATS;
use crate::gate::calibrate::{Measurement, exit_status, pairs_within, write_and_print};
use crate::gate::left_out_pairs::LeftOutPairs;
use crate::gate::pair_failure::PairFailure;
use crate::gate::pair_test::{DEFAULT_MAX_PAIRS, looks_of_runs};
use crate::gate::pairs::now;
use crate::gate::runs::collected_runs::{CollectedRuns, PairValues, without_zeros};
use crate::gate::runs::metric_rules::metric_rule;
use crate::gate::runs::programs::Programs;
use crate::gate::runs::stop_reason::StopReason;

/// Runs pairs for the requested time, then writes and prints the calibration.
pub fn run(program: &Program, args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    let programs = plan_programs(program, args)?;
    programs.check_exist()?;
    let measurement = Measurement::start(program.text(), args.rounds.cpu, args)?;
    let measured = match measure(&programs, args, &measurement.stop) {
        Ok(measured) => measured,
        Err(StopReason::Refused(error)) => return Err(error),
        Err(StopReason::RunFailed(failure)) => {
            MeasuredPairs { failure: Some(failure), ..MeasuredPairs::default() }
        }
    };
    let calibration = measured.calibration(measurement, &programs, args.rounds.cpu);
    let is_partial = calibration.partial || calibration.failure.is_some();
    write_and_print(&calibration, &RUN_FORMATS, args, is_partial)?;
    exit_status(calibration.failure, calibration.partial)
}

fn plan_programs(program: &Program, args: &CalibrateArgs) -> exit::Result<Programs> {
    let round = args.rounds.program_round_length(args.period)?;
    let seed = args.rounds.seed.unwrap_or_else(draw_seed);
    let sides = Sides { base: program.clone(), candidate: program.clone() };
    let names = sides.as_ref().map(|program| program.text().to_owned());
    let length = RunLength::Short;
    Programs::new(sides, names, &args.runs, round, length, args.max_round_time, seed)
}

/// The pairs of runs after the dropped ones.
#[derive(Default)]
struct MeasuredPairs {
    metrics: Vec<RecordedMetric>,
    elapsed: Duration,
    /// Why the pairs ended early, if they did.
    failure: Option<PairFailure>,
    left_out: LeftOutPairs,
}

/// Runs pairs until the time is over.
fn measure(
    programs: &Programs,
    args: &CalibrateArgs,
    stop: &AtomicBool,
) -> Result<MeasuredPairs, StopReason> {
    let first_runs = programs.warm_up(stop)?;
    let resolved = programs.resolve_metrics(&first_runs)?;
    let metrics = resolved.metrics;
    let advice = "the program less to do";
    let max_pairs = pairs_within(args.max_time, first_runs.pair_time, "runs", advice)?;
    let started = now();
    let progress = Progress::new(max_pairs, args.rounds.quiet);
    let settings = RoundSettings::read_bound_to(args.rounds.cpu);
    let CollectedRuns { values, left_out, result, .. } =
        programs.run_pairs(&first_runs, &metrics, &settings, stop, &progress, |_| {
            (started.elapsed() < args.max_time).then(|| vec![true; metrics.len()])
        });
    progress.finish();
    let recorded = metrics.iter().zip(values);
    Ok(MeasuredPairs {
        metrics: recorded.map(|(metric, values)| recorded_metric(metric, &values)).collect(),
        elapsed: started.elapsed(),
        failure: result.err(),
        left_out,
    })
}

impl MeasuredPairs {
    fn calibration(
        self,
        measurement: Measurement,
        programs: &Programs,
        cpu: Option<usize>,
    ) -> RunCalibration {
        let duration_ns = to_ns(measurement.started.elapsed());
        let pairs = self.metrics.first().map_or(0, |metric| metric.values.len());
        let pair_ns = to_ns(self.elapsed) / (pairs as u64).max(1);
        let looks = looks_of_runs(self.metrics.len(), DEFAULT_MAX_PAIRS);
        let recording = runs::recording(&self.metrics, ALPHA, &looks, pair_ns);
        RunCalibration {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc: measurement.started_utc,
            duration_ns,
            partial: self.failure.is_some(),
            failure: self.failure.and_then(PairFailure::message),
            environment: EnvironmentKey::from_host(&measurement.host),
            program: programs.names.base.clone(),
            plan: programs.plan(cpu, &looks),
            pairs: pairs as u64,
            pair_ns,
            metrics: runs::metrics(&self.metrics, &recording),
            inconclusive: recording.inconclusive(),
            real_gates: recording.real_gates(),
            warnings: [warnings(&[], pairs, &looks), self.left_out.warnings("runs")].concat(),
        }
    }
}

fn recorded_metric(metric: &ProgramMetric, values: &PairValues) -> RecordedMetric {
    RecordedMetric {
        name: metric.name.clone(),
        unit: metric.unit.clone(),
        rule: metric_rule(metric, None, None),
        values: without_zeros(values),
    }
}
