//! One program against itself, by numbers of its whole runs.

use std::sync::Arc;
use std::time::SystemTime;

use cli::exit::{self, ExitStatus};
use engine::machine::{host, tuning};
use engine::program::Program;
use engine::scenario::draw_seed;
use files::environment::EnvironmentKey;
use files::gate::calibration::runs::{
    self, RecordedMetric, RunCalibration, RunCalibrationPlan, SCHEMA,
};
use files::gate::calibration::warnings;
use jitterstat::gate::decision::{LOOKS, Rules};

use crate::gate::calibrate::args::CalibrateArgs;
use crate::gate::calibrate::text::RUN_FORMATS;
use crate::gate::calibrate::{ended_as, pairs_within, write};
use crate::gate::pairs::now;
use crate::gate::runs::programs::{Programs, Stop, rule};
use crate::gate::sides::like_a_program;
use crate::terminal::Progress;
use crate::{file_io, interrupt, terminal};

/// Runs pairs for as long as asked, works out what they mean, writes.
pub fn run(program: &Program, args: &CalibrateArgs) -> exit::Result<ExitStatus> {
    let like = like_a_program(&args.rounds, args.period)?;
    let seed = args.rounds.seed.unwrap_or_else(draw_seed);
    let names = [program.text().to_owned(), program.text().to_owned()];
    let programs =
        Programs::new([program, program], names, &args.runs, &like, args.max_round_time, seed);
    programs.find()?;
    file_io::prove_writable(&args.out)?;
    args.rounds.cpu.map_or(Ok(()), tuning::bind)?;
    let host = host::capture();
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    let (seconds, quiet) = (args.max_time.as_secs_f64(), args.rounds.quiet);
    terminal::note(
        quiet,
        &format!("calibrate: {} against itself for {seconds:.0}s", program.text()),
    );

    let started = now();
    let (mut recorded, mut measuring) = (Vec::new(), started);
    let mut measure = || -> Result<(), Stop> {
        let first = programs.warm_up(&stop)?;
        let pair_time = started.elapsed() / u32::try_from(programs.warmup_runs).unwrap_or(u32::MAX);
        let numbers = programs.numbers(&first).map_err(Stop::Refused)?;
        let pairs = pairs_within(args.max_time, pair_time, "runs", "the program less to do")
            .map_err(Stop::Refused)?;
        measuring = now();
        let progress = Progress::new(pairs, quiet);
        let (values, result) = programs
            .pairs(&first, &numbers, &stop, &progress, |_| measuring.elapsed() < args.max_time);
        progress.finish();
        let of = |(number, values): (&_, _)| {
            let rule = rule(number, &[], Rules::new(1).floor_ns);
            RecordedMetric { name: number.name.clone(), unit: number.unit.clone(), rule, values }
        };
        recorded = numbers.iter().zip(values).map(of).collect();
        result.map_err(Stop::from)
    };
    let (partial, failure) = match measure() {
        Ok(()) => (false, None),
        Err(Stop::Refused(refused)) if recorded.is_empty() => return Err(refused),
        Err(Stop::Refused(refused)) => (true, Some(refused.to_string())),
        Err(Stop::Cut(why)) => (true, why.message()),
    };
    let duration_ns = ns(started.elapsed());
    let pairs =
        recorded.iter().map(|of: &RecordedMetric| of.values.len() as u64).max().unwrap_or(0);
    let pair_ns = ns(measuring.elapsed()) / pairs.max(1);
    let alpha = Rules::new(1).alpha;
    let calibration = RunCalibration {
        schema: SCHEMA.to_owned(),
        tool: host::tool(),
        started_utc,
        duration_ns,
        partial,
        failure,
        environment: EnvironmentKey::from_host(&host),
        program: program.text().to_owned(),
        plan: RunCalibrationPlan {
            warmup_runs: programs.warmup_runs,
            prepare: programs.prepare.as_ref().map(|program| program.text().to_owned()),
            seed,
            cpu: args.rounds.cpu,
            alpha,
            looks: LOOKS.map(|n| n as u64).into(),
        },
        pairs,
        pair_ns,
        metrics: runs::metrics(&recorded, alpha, &LOOKS, pair_ns),
        inconclusive: runs::inconclusive(&recorded, alpha, &LOOKS, pair_ns),
        real_gates: runs::real_gates(&recorded, alpha, &LOOKS),
        warnings: warnings(&[], usize::try_from(pairs).unwrap_or(usize::MAX)),
    };
    write(&calibration, &RUN_FORMATS, args)?;
    ended_as(calibration.failure, calibration.partial)
}

fn ns(length: std::time::Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}
