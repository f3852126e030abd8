//! `osjitter bench dispatch`: what a runtime does, and what that costs.

pub mod file;
mod picture;
mod view;

use std::io;
use std::time::Duration;

use benchloops::batches::{BatchPlan, duration_to_counts, measure_read_ns};
use benchloops::operations::cases::{BenchRuntime, Operation};
use benchloops::operations::loops;
use clap::{Args, ValueEnum};
use cli::exit::{self, ExitStatus};
use cli::units;
use engine::machine::host;
use files::report::Warning;

use crate::bench::command::{
    self, Matching, OutputArgs, Started, about, asked, matching, name, warning,
};
use crate::bench::dispatch::file::{
    Clock, DispatchReport, MeasuredOperation, MeasuredRuntime, NotMeasured,
};
use crate::bench::file::SCHEMA;
use crate::bench::harness::{Case, Measured, Schedule, Series, Settings};
use crate::file_io;

/// Batches of a round: enough for percentiles over batches, few enough that a stamp between them is
/// nothing.
const BATCHES: u64 = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench dispatch
  osjitter bench dispatch --quick
  osjitter bench dispatch --operation 'channel-*' --operation self-wake --rounds 100
  osjitter bench dispatch --format markdown --out results/dispatch

A name may be a glob: 'wake-*'. What crosses threads needs two CPUs to itself.")]
pub struct BenchDispatchArgs {
    /// What the runtimes are to do; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = matching::<Operation>("operation"))]
    operation: Vec<Matching<Operation>>,
    /// Rounds; in each, every operation runs once on every runtime, in random order [default: 25,
    /// or 5 with --quick]
    #[arg(long, value_name = "N", value_parser = command::rounds)]
    rounds: Option<u64>,
    /// How long an operation runs on a runtime in a round, from 1ms to 10s [default: 10ms, or 2ms
    /// with --quick]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = command::round_time)]
    round_time: Option<Duration>,
    /// A first look in a second or two
    #[arg(long)]
    quick: bool,
    /// Seed of the order [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = units::parse_seed)]
    seed: Option<u64>,
    /// List the operations, and which runtime lacks one; measure nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl BenchDispatchArgs {
    fn schedule(&self) -> exit::Result<Schedule<Cell>> {
        let (rounds, millis) = if self.quick { (5, 2) } else { (25, 10) };
        let round_time = self.round_time.unwrap_or(Duration::from_millis(millis));
        let settings = Settings::new(self.seed, self.rounds.unwrap_or(rounds), round_time, BATCHES);
        Schedule::new(settings, asked(&self.operation).into_iter().map(cells).collect())
    }
}

pub fn run(args: &BenchDispatchArgs) -> exit::Result<ExitStatus> {
    if args.list {
        file_io::write_output(list(), None)?;
        return Ok(ExitStatus::Done);
    }
    let schedule = args.schedule()?;
    args.output.run(1, false, |started| {
        let what = format!("{} operations on 2 runtimes", asked(&args.operation).len());
        let measured = schedule.run(&what, args.output.quiet, |_| ())?;
        Ok(report(started, measured))
    })
}

/// The names, what they stand for, and who has no such thing.
fn list() -> String {
    let mut text = String::new();
    for operation in Operation::value_variants() {
        text += &format!("{:<18}{}\n", name(operation), about(operation));
        for not in not_measured(*operation) {
            text += &format!("{:<18}not on {}: {}\n", "", not.runtime, not.why);
        }
    }
    text
}

/// An operation on a runtime.
#[derive(Clone, Copy)]
struct Cell {
    operation: Operation,
    side: BenchRuntime,
}

/// The runtimes that have it.
fn cells(operation: Operation) -> Vec<Cell> {
    let has = |side: &&BenchRuntime| side.missing_reason(operation).is_none();
    BenchRuntime::value_variants()
        .iter()
        .filter(has)
        .map(|&side| Cell { operation, side })
        .collect()
}

impl Case for Cell {
    type Extra = ();

    fn label(&self) -> String {
        format!("{} {}", name(&self.operation), name(&self.side))
    }

    fn expected(&self, settings: &Settings) -> Duration {
        const SET_UP: Duration = Duration::from_micros(300);
        settings.with_warm_up() + SET_UP
    }

    fn load(&self, settings: &Settings) -> Option<BatchPlan> {
        let gap = self.operation.event_interval()?;
        // An event takes about as long as the gap before it, or less.
        let events = settings.round_time().as_nanos() / (gap.as_nanos() * 3 / 2);
        Some(BatchPlan {
            batches: (events as u64).max(1),
            operations: 1,
            counts: duration_to_counts(gap),
        })
    }

    fn run(&self, load: BatchPlan) -> io::Result<(Vec<f64>, ())> {
        Ok((loops::run(self.operation, self.side, load)?, ()))
    }
}

fn report(started: Started, measured: Measured<Cell>) -> DispatchReport {
    DispatchReport {
        schema: SCHEMA.to_owned(),
        bench: "dispatch".to_owned(),
        tool: host::tool(),
        duration_ns: started.duration_ns(),
        partial: measured.partial,
        plan: measured.settings,
        clock: Clock {
            source: tach::source().to_string(),
            rate_hz: measured.rate_hz,
            ns_per_read: measure_read_ns(tach::ordered_count),
        },
        warnings: warnings(&started),
        started_utc: started.started_utc,
        host: started.host,
        operations: measured.groups.iter().map(|group| operation(group)).collect(),
    }
}

fn operation(group: &[Series<Cell>]) -> MeasuredOperation {
    let operation = group[0].case.operation;
    let tokio = group.iter().find(|series| series.case.side == BenchRuntime::Tokio);
    let has_cycles = tach::source() == tach::Source::Tsc;
    let runtime = |series: &Series<Cell>| {
        Some(MeasuredRuntime {
            runtime: name(&series.case.side),
            ns: series.ns()?,
            cycles: series.counts().filter(|_| has_cycles),
            to_tokio: tokio
                .filter(|_| series.case.side != BenchRuntime::Tokio)
                .and_then(|tokio| series.overhead(tokio)),
            rounds: series.medians(),
        })
    };
    MeasuredOperation {
        name: name(&operation),
        about: about(&operation),
        by_event: operation.is_timed_per_event(),
        results: group.iter().filter_map(runtime).collect(),
        not_measured: not_measured(operation),
    }
}

fn not_measured(operation: Operation) -> Vec<NotMeasured> {
    let lacks = |side: &BenchRuntime| {
        Some(NotMeasured { runtime: name(side), why: side.missing_reason(operation)?.to_owned() })
    };
    BenchRuntime::value_variants().iter().filter_map(lacks).collect()
}

fn warnings(started: &Started) -> Vec<Warning> {
    let mut warnings = started.warnings();
    if let Some(why) = tach::why_not_counter() {
        let message = format!("stamps are read from the operating system's clock: {why}");
        let hint = "what is measured event by event holds tens of nanoseconds more, and there are no cycles";
        warnings.push(warning("os-clock", message, hint));
    }
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        let message = "there is one CPU for the two threads of what crosses threads";
        warnings.push(warning(
            "one-cpu",
            message,
            "those figures are the scheduler's; measure with two CPUs",
        ));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchDispatchArgs,
    }

    fn schedule(args: &[&str]) -> Schedule<Cell> {
        Line::parse_from([&["dispatch"], args].concat()).args.schedule().unwrap()
    }

    #[test]
    fn the_default_takes_every_operation_and_ends_within_ten_seconds_and_quick_within_one() {
        let default = schedule(&[]);
        assert_eq!(default.groups.len(), Operation::value_variants().len());
        assert!(default.expected < Duration::from_secs(10), "{:?}", default.expected);
        let quick = schedule(&["--quick"]).expected;
        assert!(quick < Duration::from_secs(1), "{quick:?}");
    }

    #[test]
    fn what_is_said_wins_over_quick() {
        let schedule = schedule(&["--quick", "--rounds", "7", "--operation", "wake-*"]);
        assert_eq!((schedule.settings.rounds, schedule.settings.round_time_ns), (7, 2_000_000));
        let operations: Vec<Operation> =
            schedule.groups.iter().map(|group| group[0].operation).collect();
        assert_eq!(operations, [Operation::WakeBusy, Operation::WakeParked]);
    }
}
