//! `osjitter bench timeout`: measures the cost of a timeout that does not fire around every wait.

mod cases;
pub mod counts;
mod counts_program;
pub mod file;
mod picture;
mod reference;
pub mod view;
mod workload_runtime;

use std::time::Duration;

use benchloops::batches::measure_read_ns;
use benchloops::timeouts::loops::{Job, Workload};
use benchloops::timeouts::operation_counts::OperationCounts;
use benchloops::timeouts::variant::{Clock, Variant};
use clap::{Args, ValueEnum};
use cli::exit::{self, ExitStatus, usage};
use cli::file_io;
use cli::units::{self, to_ns};
use cli::words::pluralize;
use engine::machine::host;
use files::report::Warning;
use files::summary::distribution;
use render::formats::Format;

use crate::bench::command::{
    self, BenchStart, OutputArgs, Selection, about, name, select_values, selection_parser,
};
use crate::bench::file::SCHEMA;
use crate::bench::harness::{self, BenchOutcome, BenchSchedule, Series};
use crate::bench::timeout::cases::{
    BATCHES, Case, LENGTHS, MAX_TIMERS, WorkloadArgs, WorkloadKind, combinations, id, parse_share,
    timed_workloads,
};
use crate::bench::timeout::counts_program::{CountsError, CountsProgram};
use crate::bench::timeout::file::{
    Counts, MeasuredVariant, MeasuredWorkload, Settings, TimeoutReport,
};
use crate::settings::is_from_file;

#[derive(Debug, Args)]
#[command(after_help = "\
Variants:  control, timeout, sleep, reused-sleep, reused-boxed-sleep, idle-timeout,
           idle-timeout-slack
Clocks:    tokio, tach, quanta
Workloads: channel-multi-thread, channel-current-thread, rearm, ready, pending, moved, timers,
           expired, fire

Examples:
  osjitter bench timeout
  osjitter bench timeout --workload channel-current-thread --rounds 100
  osjitter bench timeout --variant idle-timeout --clock tach --workload timers --timers 100000
  osjitter bench timeout --workload channel-multi-thread --reference

Names may be globs; the control loop, which has no timeout, always runs.")]
pub struct BenchTimeoutArgs {
    /// Implementation of the timeout; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = selection_parser::<Variant>("variant"), hide_possible_values = true, help_heading = "Cases")]
    variant: Vec<Selection<Variant>>,
    /// Clock of the timeouts; repeat for several [default: tokio, and tach if the variant supports
    /// it]
    #[arg(long, value_name = "NAME", value_parser = selection_parser::<Clock>("clock"), hide_possible_values = true, help_heading = "Cases")]
    clock: Vec<Selection<Clock>>,
    /// Workload; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = selection_parser::<WorkloadKind>("workload"), hide_possible_values = true, help_heading = "Cases")]
    workload: Vec<Selection<WorkloadKind>>,
    /// Length of the timeout, from 10us to 10s; repeat for several [default: 10s, and shorter ones
    /// in some workloads]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_length, help_heading = "Cases")]
    length: Vec<Duration>,
    /// Number of concurrent timeouts in the workloads timers and expired, up to 100000; repeat for several
    /// [default: 1, 1000, 100000; expired: 10000]
    #[arg(long, value_name = "N", value_parser = parse_timers, help_heading = "Cases")]
    timers: Vec<u64>,
    /// Share of messages that never arrive in the workload fire; repeat for several [default: 1%,
    /// 100%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = parse_share, help_heading = "Cases")]
    fire: Vec<u64>,
    /// Capacity of the channel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse_capacity, help_heading = "Cases")]
    capacity: u64,
    /// Number of rounds
    ///
    /// In each round, every variant runs once, in random order.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = command::parse_rounds, help_heading = "Rounds")]
    rounds: u64,
    /// Duration of a variant in a round, from 1ms to 10s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = command::parse_round_time, default_value = "10ms", help_heading = "Rounds")]
    round_time: Duration,
    /// Random seed for the order in rounds [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, help_heading = "Rounds")]
    seed: Option<u64>,
    /// Add the published figures of bench-tokio-timeout
    #[arg(long, help_heading = "Output")]
    reference: bool,
    /// List the variants, clocks, workloads and impossible combinations, without measuring
    #[arg(long, conflicts_with_all = ["out", "format", "reference"], help_heading = "Cases")]
    list: bool,
    #[command(flatten, next_help_heading = "Output")]
    output: OutputArgs,
}

fn parse_length(text: &str) -> Result<Duration, units::UnitError> {
    units::parse_duration_within("a timeout", text, LENGTHS)
}

fn parse_timers(text: &str) -> Result<u64, units::UnitError> {
    units::parse_number_within(text, 1..=MAX_TIMERS)
}

fn parse_capacity(text: &str) -> Result<u64, units::UnitError> {
    units::parse_number_within(text, 1..=1_000_000)
}

impl BenchTimeoutArgs {
    fn schedule(&self) -> exit::Result<BenchSchedule<Case>> {
        let clocks = if self.clock.is_empty() {
            vec![Clock::Tokio, Clock::Tach]
        } else {
            select_values(&self.clock)
        };
        // A combination must be possible if both parts are named; otherwise impossible ones are
        // left out.
        let are_both_named = !self.variant.is_empty() && !self.clock.is_empty();
        let combinations = combinations(select_values(&self.variant), &clocks, are_both_named)?;
        let capacity = self.capacity as usize;
        let workload_args =
            WorkloadArgs { lengths: &self.length, timers: &self.timers, fires: &self.fire };
        let workloads = timed_workloads(select_values(&self.workload), workload_args);
        let mut groups = Vec::with_capacity(workloads.len());
        for (workload, length) in workloads {
            let job = |variant, clock| Job { workload, length, capacity, variant, clock };
            let cases = combinations.iter().map(|&(variant, clock)| Case::new(job(variant, clock)));
            groups.push(cases.collect());
        }
        let settings = harness::Settings::new(self.seed, self.rounds, self.round_time, BATCHES);
        BenchSchedule::new(settings, groups)
    }
}

/// Checks that the published figures can be added to a stored report.
///
/// # Errors
/// Returns an error if the format has no place for them, or the report lacks their workload.
pub fn check_reference(report: &TimeoutReport, format: Format) -> exit::Result<()> {
    check_reference_format(format)?;
    if !report.workloads.iter().any(|w| reference::is_reference_workload(&w.name)) {
        let name = reference::REFERENCE_WORKLOAD;
        return Err(usage!("--reference needs the workload {name}, which the file does not have"));
    }
    Ok(())
}

fn check_reference_format(format: Format) -> exit::Result<()> {
    match format {
        Format::Json | Format::Svg => {
            Err(usage!("--reference goes with --format table, markdown or html"))
        }
        _ => Ok(()),
    }
}

pub fn run(args: &BenchTimeoutArgs) -> exit::Result<ExitStatus> {
    if args.list {
        file_io::write_output(list(), None)?;
        return Ok(ExitStatus::Done);
    }
    let schedule = args.schedule()?;
    let jobs = || schedule.groups.iter().flatten().map(|case| &case.job);
    let has_reference = |job: &Job| reference::is_reference_workload(&job.workload.to_string());
    if args.reference && !is_from_file("--reference") {
        check_reference_format(args.output.format)?;
        if !jobs().any(has_reference) {
            let name = reference::REFERENCE_WORKLOAD;
            return Err(usage!("--reference needs the workload {name}: add --workload {name}"));
        }
    }
    let (workloads, variants) = (schedule.groups.len(), schedule.groups[0].len());
    let summary = format!(
        "{} × {}",
        pluralize(workloads as u64, "workload"),
        pluralize(variants as u64, "variant")
    );
    args.output.run(workloads, args.reference, |start| measure(args, schedule, &summary, start))
}

/// Counts the operations of each case in another program, and measures their costs.
fn measure(
    args: &BenchTimeoutArgs,
    schedule: BenchSchedule<Case>,
    summary: &str,
    start: BenchStart,
) -> exit::Result<TimeoutReport> {
    let clocks = clocks(&schedule);
    let mut program = CountsProgram::start();
    let count = |case: &mut Case| case.counts = count_operations(&mut program, &case.job);
    let outcome = schedule.run(summary, args.output.quiet, count)?;
    Ok(report(start, outcome, clocks, args.capacity))
}

/// Counts the operations of a case. After an error, its late reply would be taken for that of the
/// next case, so the program is not used again.
fn count_operations(
    program: &mut Result<CountsProgram, CountsError>,
    job: &Job,
) -> Result<OperationCounts, CountsError> {
    let counts = program.as_mut().map_err(|error| error.clone())?.count(job);
    if let Err(error) = &counts {
        *program = Err(error.clone());
    }
    counts
}

/// Lists the names with their descriptions, and the combinations that are not possible.
fn list() -> String {
    let mut text = "variants\n".to_owned();
    for variant in Variant::value_variants() {
        text += &format!("  {:<24}{}\n", name(variant), about(variant));
        for clock in Clock::value_variants().iter().filter(|_| *variant != Variant::Control) {
            if let Some(reason) = variant.rejection_reason(*clock) {
                text += &format!("  {:<24}not with the clock {}: {reason}\n", "", name(clock));
            }
        }
    }
    text += "workloads\n";
    WorkloadKind::value_variants()
        .iter()
        .for_each(|kind| text += &format!("  {:<24}{}\n", name(kind), about(kind)));
    text
}

/// Measures the cost of a reading of each clock in the schedule.
fn clocks(schedule: &BenchSchedule<Case>) -> Vec<file::MeasuredClock> {
    let jobs = || schedule.groups.iter().flatten().map(|case| &case.job);
    let is_used =
        |clock: &&Clock| **clock == Clock::Tokio || jobs().any(|job| job.clock == **clock);
    Clock::value_variants().iter().filter(is_used).map(measure_clock).collect()
}

/// Measures the cost of a reading of a clock.
fn measure_clock(clock: &Clock) -> file::MeasuredClock {
    let (source, ns_per_read) = match clock {
        Clock::Tokio => {
            let source = "std::time::Instant, the kernel's monotonic clock".to_owned();
            (source, measure_read_ns(tokio::time::Instant::now))
        }
        Clock::Tach => (tach::source().to_string(), measure_read_ns(tach::Instant::now)),
        #[cfg(feature = "quanta")]
        Clock::Quanta => ("quanta::Instant".to_owned(), measure_read_ns(quanta::Instant::now)),
        #[cfg(not(feature = "quanta"))]
        Clock::Quanta => unreachable!("every variant refuses it"),
    };
    file::MeasuredClock { name: name(clock), source, ns_per_read }
}

/// Clock sources that are read with one counter instruction and without a system call.
const COUNTER_SOURCES: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

fn report(
    start: BenchStart,
    outcome: BenchOutcome<Case>,
    clocks: Vec<file::MeasuredClock>,
    capacity: u64,
) -> TimeoutReport {
    let clock_source = start.host.clock_source.as_deref();
    let counts_reads = clock_source.is_some_and(|source| COUNTER_SOURCES.contains(&source));
    let settings = &outcome.settings;
    TimeoutReport {
        schema: SCHEMA.to_owned(),
        bench: "timeout".to_owned(),
        tool: host::tool(),
        duration_ns: start.duration_ns(),
        partial: outcome.partial,
        plan: Settings {
            seed: settings.seed,
            rounds: settings.rounds,
            round_time_ns: settings.round_time_ns,
            batches: settings.batches,
            capacity,
        },
        clocks,
        warnings: warnings(&start, &outcome),
        started_utc: start.started_utc,
        host: start.host,
        workloads: outcome
            .groups
            .iter()
            .map(|group| measured_workload(group, counts_reads))
            .collect(),
    }
}

fn measured_workload(group: &[Series<Case>], counts_reads: bool) -> MeasuredWorkload {
    let job = &group[0].case.job;
    let runtime =
        job.workload.workers().map_or("current-thread".to_owned(), |n| format!("multi-thread:{n}"));
    MeasuredWorkload {
        id: id(job),
        name: job.workload.to_string(),
        length_ns: to_ns(job.length),
        runtime,
        results: group
            .iter()
            .map(|series| measured_variant(series, &group[0], counts_reads))
            .collect(),
    }
}

/// Divides counted operations by the number of messages.
fn counts_per_message(counts: &OperationCounts, counts_reads: bool) -> Counts {
    let per_message = |n: u64| n as f64 / counts.messages.max(1) as f64;
    Counts {
        messages: counts.messages,
        clock_reads: counts.counter_reads.filter(|_| counts_reads).map(per_message),
        timers_made: per_message(counts.timers_made),
        timer_registrations: per_message(counts.timer_registrations),
        allocations: per_message(counts.allocations),
        bytes_kept: counts.bytes_kept,
    }
}

fn measured_variant(
    series: &Series<Case>,
    control: &Series<Case>,
    counts_reads: bool,
) -> MeasuredVariant {
    let job = &series.case.job;
    let is_control = job.variant == Variant::Control;
    let lateness: Vec<&[i64]> =
        series.extras.iter().map(|round| round.lateness_ns.as_slice()).collect();
    let fires = matches!(job.workload, Workload::Fire(1..));
    let counts = series.case.counts.as_ref().ok();
    MeasuredVariant {
        variant: name(&job.variant),
        clock: if is_control { "none".to_owned() } else { name(&job.clock) },
        ns_per_message: series.ns(),
        overhead: if is_control { None } else { series.overhead(control) },
        counts: counts.map(|counts| counts_per_message(counts, counts_reads)),
        fired: series.extras.iter().map(|round| round.fired).sum(),
        lateness_ns: distribution(&lateness).filter(|_| fires),
        early: lateness.iter().flat_map(|late| late.iter()).filter(|&&ns| ns < 0).count() as u64,
        rounds: series.medians(),
    }
}

fn warnings(start: &BenchStart, outcome: &BenchOutcome<Case>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(source) = start.host.clock_source.as_deref().filter(|s| *s != "tsc") {
        let message = format!("the kernel's clock source is {source}, not tsc");
        let hint = "if reading the clock is expensive, so is every variant that reads it per message; compare the \
                    cost per read";
        warnings.push(Warning::new("clock-source", message, hint));
    }
    warnings.extend(start.warnings());
    let mut cases = outcome.groups.iter().flatten().map(|series| &series.case);
    if let Some(reason) = cases.find_map(|case| case.counts.as_ref().err()) {
        let message = format!("the operations per message were not counted: {reason}");
        let hint = match reason {
            CountsError::NotStarted { .. } => {
                "cargo install and cargo build put osjitter-counts next to osjitter; keep them together"
            }
            _ => "measure again",
        };
        warnings.push(Warning::new("no-counts", message, hint));
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
        args: BenchTimeoutArgs,
    }

    fn schedule(args: &[&str]) -> Result<BenchSchedule<Case>, String> {
        let line = CommandLine::try_parse_from([&["timeout"], args].concat());
        let args = line.map_err(|e| e.to_string())?.args;
        args.schedule().map_err(|e| e.to_string())
    }

    #[test]
    fn default_schedule_is_complete_and_short() {
        let default = schedule(&[]).unwrap();
        for kind in WorkloadKind::value_variants() {
            assert!(
                default.groups.iter().any(|group| id(&group[0].job).starts_with(&name(kind))),
                "{kind:?}"
            );
        }
        assert!(default.groups.iter().all(|group| group.len() == 12));
        assert!(default.expected < Duration::from_secs(80), "{:?}", default.expected);
    }

    #[test]
    fn invalid_arguments_are_named() {
        let error = |args: &[&str]| schedule(args).err().unwrap();
        let both = |variant, clock| error(&["--variant", variant, "--clock", clock]);
        assert!(
            both("timeout", "tach")
                .contains("timeout cannot take the clock tach: tokio::time::timeout")
        );
        assert!(both("idle-timeout", "quanta").contains("no error bound"));
        assert!(both("slumber", "tokio").contains("there are control, timeout"));
        assert!(error(&["--length", "1us"]).contains("outside 10us to 10s"));
        assert!(error(&["--timers", "100001"]).contains("100000"));
        assert!(error(&["--fire", "101%"]).contains("101%"));
        assert!(error(&["--capacity", "0"]).contains("capacity"));
        assert!(error(&["--rounds", "10000", "--round-time", "10s"]).contains("hours"));
    }

    #[test]
    fn clock_selects_supporting_variants() {
        let tach = schedule(&["--clock", "tach"]).unwrap();
        assert!(
            tach.groups
                .iter()
                .all(|group| group.len() == 6 && group[0].job.variant == Variant::Control)
        );
    }

    #[test]
    fn baseline_is_alias_of_control() {
        let old = schedule(&["--variant", "baseline"]).unwrap();
        assert!(
            old.groups
                .iter()
                .all(|group| group.len() == 1 && group[0].job.variant == Variant::Control)
        );
    }
}
