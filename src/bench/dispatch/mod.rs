//! `osjitter bench dispatch`: measures the cost of the operations of a runtime.

pub mod file;
mod picture;
mod view;

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use benchloops::batches::{BatchPlan, duration_to_counts, measure_read_ns};
use benchloops::operations::cases::{BenchRuntime, Operation};
use benchloops::operations::loops;
use clap::{Args, ValueEnum};
use cli::exit::{self, ExitStatus};
use cli::file_io;
use cli::units;
use cli::words::pluralize;
use engine::machine::host;
use files::report::Warning;

use crate::bench::command::{
    self, BenchStart, OutputArgs, Selection, about, name, select_values, selection_parser,
};
use crate::bench::dispatch::file::{
    DispatchReport, MeasuredOperation, MeasuredRuntime, NotMeasured, TimestampClock,
};
use crate::bench::file::SCHEMA;
use crate::bench::harness::{BenchOutcome, BenchSchedule, Case, Series, Settings};

/// Batches of a round: enough for percentiles over batches, and few enough that the timestamps
/// between them cost almost nothing.
const BATCHES: u64 = 20;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench dispatch
  osjitter bench dispatch --quick
  osjitter bench dispatch --operation 'channel-*' --operation self-wake --rounds 100
  osjitter bench dispatch --format markdown --out results/dispatch

A name may be a glob: 'wake-*'. Operations across threads need two otherwise idle CPUs.")]
pub struct BenchDispatchArgs {
    /// Operation to measure; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = selection_parser::<Operation>("operation"), hide_possible_values = true)]
    operation: Vec<Selection<Operation>>,
    /// Number of rounds [default: 25, or 5 with --quick]
    ///
    /// In each round, every operation runs once on every runtime, in random order.
    #[arg(long, value_name = "N", value_parser = command::parse_rounds)]
    rounds: Option<u64>,
    /// Duration of an operation in a round, from 1ms to 10s [default: 10ms, or 2ms with --quick]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = command::parse_round_time)]
    round_time: Option<Duration>,
    /// Measure for only a second or two
    #[arg(long)]
    quick: bool,
    /// Random seed for the order in rounds [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed)]
    seed: Option<u64>,
    /// List the operations and which runtimes lack them, without measuring
    #[arg(long, conflicts_with_all = ["out", "format"])]
    list: bool,
    #[command(flatten)]
    output: OutputArgs,
}

impl BenchDispatchArgs {
    fn schedule(&self) -> exit::Result<BenchSchedule<OperationCase>> {
        let (rounds, millis) = if self.quick { (5, 2) } else { (25, 10) };
        let round_time = self.round_time.unwrap_or(Duration::from_millis(millis));
        let settings = Settings::new(self.seed, self.rounds.unwrap_or(rounds), round_time, BATCHES);
        BenchSchedule::new(
            settings,
            select_values(&self.operation).into_iter().map(cases).collect(),
        )
    }
}

pub fn run(args: &BenchDispatchArgs) -> exit::Result<ExitStatus> {
    if args.list {
        file_io::write_output(list(), None)?;
        return Ok(ExitStatus::Done);
    }
    let schedule = args.schedule()?;
    let operations = pluralize(select_values(&args.operation).len() as u64, "operation");
    let summary = format!("{operations} on 2 runtimes");
    args.output.run(1, false, |start| {
        Ok(report(start, schedule.run(&summary, args.output.quiet, |_| ())?))
    })
}

/// Lists the operations with their descriptions, and the runtimes without them.
fn list() -> String {
    let mut text = String::new();
    for operation in Operation::value_variants() {
        text += &format!("{:<18}{}\n", name(operation), about(operation));
        for missing in not_measured(*operation) {
            text += &format!("{:<18}not on {}: {}\n", "", missing.runtime, missing.why);
        }
    }
    text
}

/// An operation on a runtime.
#[derive(Clone, Copy)]
struct OperationCase {
    operation: Operation,
    runtime: BenchRuntime,
}

/// Returns the operation on each runtime that has it.
fn cases(operation: Operation) -> Vec<OperationCase> {
    let has = |runtime: &&BenchRuntime| runtime.missing_reason(operation).is_none();
    BenchRuntime::value_variants()
        .iter()
        .filter(has)
        .map(|&runtime| OperationCase { operation, runtime })
        .collect()
}

impl Case for OperationCase {
    type Extra = ();

    fn label(&self) -> String {
        format!("{} {}", name(&self.operation), name(&self.runtime))
    }

    fn expected(&self, settings: &Settings) -> Duration {
        const SET_UP: Duration = Duration::from_micros(300);
        settings.case_duration() + SET_UP
    }

    fn fixed_batch_plan(&self, settings: &Settings) -> Option<BatchPlan> {
        let gap = self.operation.event_interval()?;
        // An event needs at most as long as the gap before it; half of the gap is assumed.
        let events = settings.round_time().as_nanos() / (gap.as_nanos() * 3 / 2);
        Some(BatchPlan {
            batches: (events as u64).max(1),
            operations: 1,
            counts: duration_to_counts(gap),
        })
    }

    fn run(&self, plan: BatchPlan, stop: &Arc<AtomicBool>) -> io::Result<(Vec<f64>, ())> {
        Ok((loops::run(self.operation, self.runtime, plan, stop)?, ()))
    }
}

fn report(start: BenchStart, outcome: BenchOutcome<OperationCase>) -> DispatchReport {
    DispatchReport {
        schema: SCHEMA.to_owned(),
        bench: "dispatch".to_owned(),
        tool: host::tool(),
        duration_ns: start.duration_ns(),
        partial: outcome.partial,
        plan: outcome.settings,
        clock: TimestampClock {
            source: tach::source().to_string(),
            rate_hz: outcome.rate_hz,
            ns_per_read: measure_read_ns(tach::ordered_count),
        },
        warnings: warnings(&start),
        started_utc: start.started_utc,
        host: start.host,
        operations: outcome.groups.iter().map(|group| measured_operation(group)).collect(),
    }
}

fn measured_operation(group: &[Series<OperationCase>]) -> MeasuredOperation {
    let operation = group[0].case.operation;
    let tokio = group.iter().find(|series| series.case.runtime == BenchRuntime::Tokio);
    MeasuredOperation {
        name: name(&operation),
        about: about(&operation),
        by_event: operation.is_timed_per_event(),
        results: group.iter().filter_map(|series| measured_runtime(series, tokio)).collect(),
        not_measured: not_measured(operation),
    }
}

fn measured_runtime(
    series: &Series<OperationCase>,
    tokio: Option<&Series<OperationCase>>,
) -> Option<MeasuredRuntime> {
    let has_cycles = tach::source() == tach::Source::Tsc;
    let tokio = tokio.filter(|_| series.case.runtime != BenchRuntime::Tokio);
    Some(MeasuredRuntime {
        runtime: name(&series.case.runtime),
        ns: series.ns()?,
        cycles: series.counts().filter(|_| has_cycles),
        to_tokio: tokio.and_then(|tokio| series.overhead(tokio)),
        rounds: series.medians(),
    })
}

fn not_measured(operation: Operation) -> Vec<NotMeasured> {
    let mut missing = Vec::new();
    for runtime in BenchRuntime::value_variants() {
        if let Some(why) = runtime.missing_reason(operation) {
            missing.push(NotMeasured { runtime: name(runtime), why: why.to_owned() });
        }
    }
    missing
}

fn warnings(start: &BenchStart) -> Vec<Warning> {
    let mut warnings = start.warnings();
    if let Some(why) = tach::why_not_counter() {
        let message = format!("timestamps are read from the operating system's clock: {why}");
        let hint = "costs measured event by event include tens of nanoseconds more, and there are no cycles";
        warnings.push(Warning::new("os-clock", message, hint));
    }
    if std::thread::available_parallelism().is_ok_and(|n| n.get() < 2) {
        let message = "operations across threads share one CPU";
        let hint = "their figures are those of the scheduler; measure with two CPUs";
        warnings.push(Warning::new("one-cpu", message, hint));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: BenchDispatchArgs,
    }

    fn schedule(args: &[&str]) -> BenchSchedule<OperationCase> {
        CommandLine::parse_from([&["dispatch"], args].concat()).args.schedule().unwrap()
    }

    #[test]
    fn default_schedule_is_complete_and_short() {
        let default = schedule(&[]);
        assert_eq!(default.groups.len(), Operation::value_variants().len());
        assert!(default.expected < Duration::from_secs(10), "{:?}", default.expected);
    }

    #[test]
    fn quick_schedule_fits_one_second() {
        let quick = schedule(&["--quick"]).expected;
        assert!(quick < Duration::from_secs(1), "{quick:?}");
    }

    #[test]
    fn explicit_flags_override_quick() {
        let schedule = schedule(&["--quick", "--rounds", "7", "--operation", "wake-*"]);
        assert_eq!((schedule.settings.rounds, schedule.settings.round_time_ns), (7, 2_000_000));
        let operations: Vec<Operation> =
            schedule.groups.iter().map(|group| group[0].operation).collect();
        assert_eq!(operations, [Operation::WakeBusy, Operation::WakeParked]);
    }

    #[test]
    fn stopped_rounds_end_early() {
        const BATCHES: u64 = 1_000_000;
        let stop = Arc::new(AtomicBool::new(true));
        let plan = BatchPlan { batches: BATCHES, operations: 1, counts: 1_000 };
        let across_threads = [
            Operation::StreamMpsc,
            Operation::StreamSpsc,
            Operation::WakeBusy,
            Operation::WakeParked,
            Operation::MessageParked,
            Operation::IdleTurn,
        ];
        for case in across_threads.into_iter().flat_map(cases) {
            let (costs, ()) = case.run(plan, &stop).unwrap();
            assert!((costs.len() as u64) < BATCHES, "{}", case.label());
        }
    }
}
