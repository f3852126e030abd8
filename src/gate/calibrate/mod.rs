//! `osjitter calibrate`: what a gate can detect on this machine.

pub mod args;
mod runs;
pub mod text;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cli::exit::{self, Error, ExitStatus, usage};
use cli::units;
use engine::machine::{host, tuning};
use files::environment::EnvironmentKey;
use files::file::File;
use files::fitness::Fitness;
use files::gate::calibration::{self, Calibration, CalibrationPlan, MIN_CALIBRATION_PAIRS, SCHEMA};
use files::gate::verdict;
use files::report::Host;
use jitterstat::gate::decision::Rules;

use crate::gate::design::{ENDLESS, PairTest, Sides, scenario};
use crate::gate::pairs::{Collecting, Pairs, now, same_stall_share};
use crate::gate::sides::like_a_program;
use crate::render::formats::{Offer, make};
use crate::{file_io, interrupt, terminal};

use args::CalibrateArgs;

/// Plans, measures for as long as asked, works out what it means, writes.
pub fn run(args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    if let Some(program) = args.command.as_ref().filter(|_| !args.runs.metric.is_empty()) {
        return runs::run(program, args);
    }
    let test = plan(args)?;
    if let Sides::Programs([program, _]) = &test.sides {
        program.check_exists().map_err(Error::usage)?;
    }
    file_io::prove_writable(&args.out)?;
    test.design.cpu.map_or(Ok(()), tuning::bind)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    let (subject, seconds, quiet) =
        (&test.names[0], args.max_time.as_secs_f64(), args.rounds.quiet);
    terminal::note(quiet, &format!("calibrate: {subject} against itself for {seconds:.0}s"));

    let until = now() + args.max_time;
    let mut ended = false;
    let enough = |pairs: &[_]| {
        // As many as there could be if no time went by between the rounds: a script plays in no
        // time.
        ended = now() >= until || pairs.len() as u64 >= 2 * test.pairs;
        ended
    };
    let pairs = Collecting { stop: &stop, quiet, keep_ticks: false, enough }.run(&test);
    let calibration = calibration(&test, &pairs, host, started_utc, !ended);

    write(&calibration, &text::FORMATS, args)?;
    ended_as(calibration.failure, calibration.partial)
}

/// Writes what was found, and shows it.
fn write<T: File>(calibration: &T, formats: &[Offer<T>], args: &CalibrateArgs) -> exit::Result<()> {
    let written = file_io::deliver(calibration.to_json(), Some(&args.out));
    let made = make("a calibration", formats, args.format, calibration)?;
    let shown = file_io::deliver(made.into_bytes(), None);
    if written.is_ok() {
        terminal::note(args.rounds.quiet, &format!("calibration: {}", args.out.display()));
    }
    written.and(shown)
}

fn ended_as(failure: Option<String>, is_partial: bool) -> exit::Result<ExitStatus> {
    match failure {
        Some(failure) => Err(Error::measure(failure)),
        None if is_partial => Ok(ExitStatus::NotMeasured),
        None => Ok(ExitStatus::Done),
    }
}

/// The subject against itself, for about as many pairs as the time holds.
fn plan(args: &CalibrateArgs) -> exit::Result<PairTest> {
    let mut test = match &args.command {
        Some(program) => {
            let like = like_a_program(&args.rounds, args.period)?;
            let programs = [program.clone(), program.clone()];
            let mut test =
                PairTest::of_programs(programs, &like, &args.rounds, Rules::new(like.period_ns()));
            test.max_round_time = args.max_round_time.unwrap_or(test.max_round_time);
            test
        }
        None => {
            let one = scenario(&args.rounds, args.subject, args.period, ENDLESS)?;
            let rules = Rules::new(one.period_ns());
            PairTest::of_subjects([one.clone(), one], &args.rounds, rules)
        }
    };
    test.pairs = pairs_within(
        args.max_time,
        test.pair_time(),
        "rounds",
        "shorter rounds with --round-ticks",
    )?;
    Ok(test)
}

/// How many pairs a time holds; refused where those calibrate nothing.
fn pairs_within(time: Duration, pair_time: Duration, of: &str, or: &str) -> exit::Result<u64> {
    let pairs = u64::try_from(time.as_nanos() / pair_time.as_nanos().max(1)).unwrap_or(u64::MAX);
    if pairs < MIN_CALIBRATION_PAIRS as u64 {
        let least = pair_time.as_secs_f64() * MIN_CALIBRATION_PAIRS as f64;
        return Err(usage!(
            "{} holds {pairs} pairs of {of}, and a calibration takes {MIN_CALIBRATION_PAIRS}: give --max-time {:.0}s or more, or {or}",
            units::format_exact_duration(time),
            least.ceil()
        ));
    }
    Ok(pairs)
}

fn calibration(
    test: &PairTest,
    pairs: &Pairs,
    host: Host,
    started_utc: String,
    partial: bool,
) -> Calibration {
    let (rules, values) = (&test.rules, &pairs.values[..]);
    let pair_ns = pairs.duration_ns() / (values.len() as u64).max(1);
    let metrics = calibration::metrics(values, rules, test.tail(), pair_ns);
    let ticks = test.design.round_ticks + test.design.warmup_ticks;
    let ticking_ns = test.design.period_ns as f64 * ticks as f64 * 2.0 * values.len() as f64;
    let cpus = host.cpus_online.filter(|_| !values.is_empty());
    let steal_ns = pairs.steal_ns(0).zip(pairs.steal_ns(1)).map(|(a, b)| a + b);
    Calibration {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc,
        duration_ns: pairs.duration_ns(),
        partial,
        failure: pairs.failure.clone(),
        environment: EnvironmentKey::from_host(&host),
        subject: test.names[0].clone(),
        plan: CalibrationPlan::new(&test.design, rules),
        pairs: values.len() as u64,
        pair_ns,
        warnings: calibration::warnings(&metrics, values.len()),
        metrics,
        inconclusive: calibration::inconclusive(values, rules, pair_ns),
        real_gates: calibration::real_gates(values, rules),
        same_stall_share: same_stall_share(pairs.records.iter().flat_map(|(rounds, _)| rounds)),
        fitness: Fitness::from_tally(&pairs.tally, host.cpus_online),
        steal_share: steal_ns.zip(cpus).map(|(ns, cpus)| ns as f64 / (ticking_ns * cpus as f64)),
        rounds: verdict::records(values),
    }
}
