//! `osjitter calibrate`: measures the changes that a gate can detect on this machine.
//!
//! A subject or program runs against itself, so every difference between the sides is noise.

pub mod args;
mod runs;
pub mod text;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use cli::exit::{self, Error, ExitStatus, usage};
use cli::file_io;
use cli::terminal;
use cli::units;
use engine::machine::{host, tuning};
use engine::program::Program;
use files::environment::EnvironmentKey;
use files::file::File;
use files::fitness::Fitness;
use files::gate::calibration::{self, Calibration, CalibrationPlan, MIN_CALIBRATION_PAIRS, SCHEMA};
use files::gate::verdict;
use files::report::Host;
use jitterstat::gate::decision::Rules;
use jitterstat::gate::round::Pair;
use jitterstat::gate::{Side, Sides};

use crate::gate::pair_test::{ENDLESS, PairSource, PairTest, build_scenario};
use crate::gate::pairs::{CollectedPairs, PairCollection, now, same_stall_share};
use crate::interrupt;
use crate::needless_runtime;
use render::formats::{Offer, make};

use args::CalibrateArgs;

/// Measures for the requested time, then writes and prints the calibration.
pub fn run(args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    match &args.command {
        Some(program) if !args.runs.metric.is_empty() => runs::run(program, args),
        _ => calibrate_lateness(args),
    }
}

/// A calibration that is being measured.
struct Measurement {
    host: Host,
    started_utc: String,
    started: Instant,
    stop: Arc<AtomicBool>,
}

impl Measurement {
    /// Prepares this process and announces the measurement of a subject or program.
    fn start(name: &str, cpu: Option<usize>, args: &CalibrateArgs) -> exit::Result<Self> {
        // The table goes to stdout.
        file_io::check_no_stdio(&args.out, "--out", "a file")?;
        args.destination().check_file()?;
        cpu.map_or(Ok(()), tuning::bind)?;
        let host = host::capture();
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let stop = Arc::default();
        interrupt::stop_on_interrupt(&stop)?;
        let seconds = args.max_time.as_secs_f64();
        let message = format!("calibrate: {name} against itself for {seconds:.0}s");
        terminal::note(args.rounds.quiet, &message);
        Ok(Self { host, started_utc, started: now(), stop })
    }
}

fn calibrate_lateness(args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    let mut test = plan(args)?;
    if let PairSource::Programs(programs) = &test.source {
        programs.base.check_exists()?;
    }
    let measurement = Measurement::start(&test.names.base, test.design.cpu, args)?;
    test.rehearse(&measurement.stop)?;
    // The time of a pair includes the starts of the program, which are known now.
    test.pairs = planned_pairs(&test, args)?;
    let deadline = measurement.started + args.max_time;
    // Scripted rounds take no time, so the number of pairs is limited as well.
    let max_pairs = 2 * test.pairs;
    let mut is_complete = false;
    let is_enough = |pairs: &[Pair]| {
        is_complete = now() >= deadline || pairs.len() as u64 >= max_pairs;
        is_complete
    };
    let (stop, quiet) = (&measurement.stop, args.rounds.quiet);
    let settings = &test.read_round_settings();
    let collection = PairCollection { stop, quiet, settings, keep_ticks: false, is_enough };
    let pairs = collection.run(&test);
    let calibration = build_calibration(measurement, &test, &pairs, !is_complete);
    let is_partial = calibration.partial || calibration.failure.is_some();
    write_and_print(&calibration, &text::FORMATS, args, is_partial)?;
    exit_status(calibration.failure, calibration.partial)
}

/// Writes the calibration to its file and prints it.
fn write_and_print<T: File>(
    calibration: &T,
    formats: &[Offer<T>],
    args: &CalibrateArgs,
    is_partial: bool,
) -> exit::Result<()> {
    let json = calibration.to_json();
    let written = args.destination().write_measured(json.as_bytes(), is_partial);
    let made = make("a calibration", formats, args.format, calibration)?;
    let printed = file_io::write_output(made.into_bytes(), None);
    if let Ok(file) = &written {
        terminal::note(args.rounds.quiet, &format!("calibration: {}", file.display()));
    }
    written.and(printed)
}

fn exit_status(failure: Option<String>, is_partial: bool) -> exit::Result<ExitStatus> {
    match failure {
        Some(failure) => Err(Error::measure(failure)),
        None if is_partial => Ok(ExitStatus::NotMeasured),
        None => Ok(ExitStatus::Done),
    }
}

/// Plans the test of the subject against itself, with as many pairs as fit into the time.
fn plan(args: &CalibrateArgs) -> exit::Result<PairTest> {
    let mut test = match &args.command {
        Some(program) => plan_program(program, args)?,
        None => {
            let has_runtime = args.subject.runtime_kind.has_runtime();
            needless_runtime::check(args.rounds.runtime.as_slice(), has_runtime)?;
            plan_subject(args)?
        }
    };
    test.pairs = planned_pairs(&test, args)?;
    Ok(test)
}

fn planned_pairs(test: &PairTest, args: &CalibrateArgs) -> exit::Result<u64> {
    let advice = "shorter rounds with --round-ticks";
    pairs_within(args.max_time, test.pair_time(), "rounds", advice)
}

fn plan_program(program: &Program, args: &CalibrateArgs) -> exit::Result<PairTest> {
    let length = args.rounds.program_round_length(args.period)?;
    let program = program.clone().with_meter(args.meter.clone());
    let programs = Sides { base: program.clone(), candidate: program };
    let rules = Rules::new(length.period_ns());
    let mut test = PairTest::from_programs(programs, length, &args.rounds, rules);
    test.max_round_time = args.max_round_time.unwrap_or(test.max_round_time);
    test.start_timeout = args.max_round_time.unwrap_or(test.start_timeout);
    Ok(test)
}

fn plan_subject(args: &CalibrateArgs) -> exit::Result<PairTest> {
    let scenario = build_scenario(&args.rounds, args.subject, args.period, ENDLESS)?;
    let rules = Rules::new(scenario.period_ns());
    let scenarios = Sides { base: scenario.clone(), candidate: scenario };
    Ok(PairTest::from_subjects(scenarios, &args.rounds, rules))
}

/// Returns the number of pairs that fit into a time.
///
/// # Errors
/// Returns an error with `advice` if they are too few for a calibration.
fn pairs_within(
    time: Duration,
    pair_time: Duration,
    noun: &str,
    advice: &str,
) -> exit::Result<u64> {
    let pairs = u64::try_from(time.as_nanos() / pair_time.as_nanos().max(1)).unwrap_or(u64::MAX);
    if pairs < MIN_CALIBRATION_PAIRS as u64 {
        let min_seconds = pair_time.as_secs_f64() * MIN_CALIBRATION_PAIRS as f64;
        return Err(usage!(
            "{} is enough for {pairs} pairs of {noun}, but a calibration needs {MIN_CALIBRATION_PAIRS}: give --max-time \
             {:.0}s or more, or {advice}",
            units::format_exact_duration(time),
            min_seconds.ceil()
        ));
    }
    Ok(pairs)
}

fn build_calibration(
    measurement: Measurement,
    test: &PairTest,
    pairs: &CollectedPairs,
    partial: bool,
) -> Calibration {
    let values = &pairs.values[..];
    let pair_ns = pairs.duration_ns() / (values.len() as u64).max(1);
    let recording = calibration::recording(values, &test.rules, test.tail(), pair_ns);
    let metrics = calibration::metrics(&recording);
    let rounds = pairs.records.iter().flat_map(|record| record.rounds.iter());
    Calibration {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc: measurement.started_utc,
        duration_ns: pairs.duration_ns(),
        partial,
        failure: pairs.failure.as_ref().map(|failure| failure.to_string()),
        environment: EnvironmentKey::from_host(&measurement.host),
        subject: test.names.base.clone(),
        plan: CalibrationPlan::new(&test.design, &test.rules),
        pairs: values.len() as u64,
        pair_ns,
        warnings: [
            calibration::warnings(&metrics, values.len(), &test.rules.looks),
            pairs.left_out.warnings("rounds"),
        ]
        .concat(),
        metrics,
        inconclusive: recording.inconclusive(),
        real_gates: recording.real_gates(),
        same_stall_share: same_stall_share(rounds),
        fitness: Fitness::from_tally(&pairs.tally, measurement.host.cpus_online),
        steal_share: steal_share(pairs, measurement.host.cpus_online),
        rounds: verdict::records(values),
    }
}

/// Returns the share of the time of all CPUs that the hypervisor took during the rounds.
fn steal_share(pairs: &CollectedPairs, cpus: Option<u64>) -> Option<f64> {
    let stolen = pairs.stolen(Side::Base)? + pairs.stolen(Side::Candidate)?;
    stolen.share_of_cpus(cpus?)
}
