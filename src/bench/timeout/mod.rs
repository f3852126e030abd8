//! `osjitter bench timeout`: what a timeout around every wait costs while it does not fire.

mod cases;
mod counter;
pub mod file;
mod picture;
mod reference;
mod view;

use std::time::Duration;

use benchloops::batches::measure_read_ns;
use benchloops::timeouts::loops::{Job, Workload};
use benchloops::timeouts::variant::{Clock, Variant};
use clap::{Args, ValueEnum};
use cli::exit::{self, ExitStatus, usage};
use cli::units;
use engine::machine::host;
use files::report::Warning;
use files::summary::distribution;

use crate::bench::command::{
    self, Matching, OutputArgs, Started, about, asked, matching, most, name, warning,
};
use crate::bench::file::SCHEMA;
use crate::bench::harness::{self, Measured, Schedule, Series};
use crate::bench::timeout::cases::{
    BATCHES, Case, Kind, LENGTHS, MAX_TIMERS, cells, combinations, id, share,
};
use crate::bench::timeout::counter::Counter;
use crate::bench::timeout::file::{
    Counts, MeasuredVariant, MeasuredWorkload, Settings, TimeoutReport,
};
use crate::file_io;

#[derive(Debug, Args)]
#[command(after_help = "\
Variants:  control, timeout, sleep, reused-sleep, reused-boxed-sleep, idle-timeout,
           idle-timeout-slack
Clocks:    tokio, tach; quanta in a build with that feature
Workloads: channel-multi-thread, channel-current-thread, rearm, ready, pending, moved, timers,
           expired, fire

Examples:
  osjitter bench timeout
  osjitter bench timeout --workload channel-current-thread --rounds 100
  osjitter bench timeout --variant idle-timeout --clock tach --workload timers --timers 100000
  osjitter bench timeout --workload channel-multi-thread --reference

Names may be globs; the control loop, which has no timeout, always runs.")]
pub struct BenchTimeoutArgs {
    /// Ways to put a timeout around a wait; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = matching::<Variant>("variant"))]
    variant: Vec<Matching<Variant>>,
    /// Clocks they read; repeat for several [default: tokio and tach, where that is possible]
    #[arg(long, value_name = "NAME", value_parser = matching::<Clock>("clock"))]
    clock: Vec<Matching<Clock>>,
    /// What the messages are like; repeat for several [default: all]
    #[arg(long, value_name = "NAME", value_parser = matching::<Kind>("workload"))]
    workload: Vec<Matching<Kind>>,
    /// Length of the timeout, from 10us to 10s; repeat for several [default: 10s, and shorter ones
    /// where it matters]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = length)]
    length: Vec<Duration>,
    /// Timeouts at once in the workloads timers and expired, up to 100000; repeat for several
    /// [default: 1, 1000, 100000; expired: 10000]
    #[arg(long, value_name = "N", value_parser = most("timers", MAX_TIMERS))]
    timers: Vec<u64>,
    /// Share of messages that never come in the workload fire; repeat for several [default: 1%,
    /// 100%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = share)]
    fire: Vec<u64>,
    /// Capacity of the channel
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = most("as capacity of the channel", 1_000_000))]
    capacity: u64,
    /// Rounds; in each, every variant runs once, in random order
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = command::rounds)]
    rounds: u64,
    /// How long a variant runs in a round, from 1ms to 10s
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = command::round_time, default_value = "10ms")]
    round_time: Duration,
    /// Seed of the order [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = units::parse_seed)]
    seed: Option<u64>,
    /// Print the published figures of bench-tokio-timeout beside ours
    #[arg(long)]
    reference: bool,
    /// List the variants, clocks and workloads, and which combination cannot be; measure nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn length(text: &str) -> Result<Duration, String> {
    units::parse_duration_within("a timeout", text, LENGTHS)
}

impl BenchTimeoutArgs {
    fn schedule(&self) -> exit::Result<Schedule<Case>> {
        let clocks = if self.clock.is_empty() {
            vec![Clock::Tokio, Clock::Tach]
        } else {
            asked(&self.clock)
        };
        // Whoever names both means the combination; whoever names one takes what there is of the
        // other.
        let are_both_named = !self.variant.is_empty() && !self.clock.is_empty();
        let combinations = combinations(asked(&self.variant), &clocks, are_both_named)?;
        let capacity = self.capacity as usize;
        let job = |(workload, length), (variant, clock)| Job {
            workload,
            length,
            capacity,
            variant,
            clock,
        };
        let cells = cells(asked(&self.workload), &self.length, &self.timers, &self.fire);
        let group = |cell| {
            combinations.iter().map(|&combination| Case::new(job(cell, combination))).collect()
        };
        let settings = harness::Settings::new(self.seed, self.rounds, self.round_time, BATCHES);
        Schedule::new(settings, cells.into_iter().map(group).collect())
    }
}

pub fn run(args: &BenchTimeoutArgs) -> exit::Result<ExitStatus> {
    if args.list {
        file_io::write_output(list(), None)?;
        return Ok(ExitStatus::Done);
    }
    let schedule = args.schedule()?;
    let jobs = || schedule.groups.iter().flatten().map(|case| &case.job);
    if args.reference && !jobs().any(|job| reference::is_like_reference(&job.workload.to_string()))
    {
        let like = reference::LIKE_REFERENCE;
        return Err(usage!("--reference needs the workload {like}: add --workload {like}"));
    }
    let (workloads, variants) = (schedule.groups.len(), schedule.groups[0].len());
    args.output.run(workloads, args.reference, |started| {
        let clocks = clocks(&schedule);
        let what = format!("{workloads} workloads × {variants} variants");
        let mut counter = Counter::start();
        let count = |case: &mut Case| {
            case.counted = counter.as_mut().map_err(|e| e.clone()).and_then(|c| c.count(&case.job))
        };
        let measured = schedule.run(&what, args.output.quiet, count)?;
        Ok(report(started, measured, clocks, args.capacity))
    })
}

/// The names, what they stand for, and what cannot be.
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
    Kind::value_variants()
        .iter()
        .for_each(|kind| text += &format!("  {:<24}{}\n", name(kind), about(kind)));
    text
}

fn clocks(schedule: &Schedule<Case>) -> Vec<file::Clock> {
    let jobs = || schedule.groups.iter().flatten().map(|case| &case.job);
    let used = Clock::value_variants()
        .iter()
        .filter(|&&c| c == Clock::Tokio || jobs().any(|job| job.clock == c));
    let entry = |clock: &Clock| {
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
        file::Clock { name: name(clock), source, ns_per_read }
    };
    used.map(entry).collect()
}

/// Clock sources that the kernel's monotonic clock reads with one counter instruction, without a
/// system call.
const COUNTER_SOURCES: [&str; 3] = ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"];

fn report(
    started: Started,
    measured: Measured<Case>,
    clocks: Vec<file::Clock>,
    capacity: u64,
) -> TimeoutReport {
    let reads_count =
        started.host.clock_source.as_deref().is_some_and(|s| COUNTER_SOURCES.contains(&s));
    let settings = &measured.settings;
    TimeoutReport {
        schema: SCHEMA.to_owned(),
        bench: "timeout".to_owned(),
        tool: host::tool(),
        duration_ns: started.duration_ns(),
        partial: measured.partial,
        plan: Settings {
            seed: settings.seed,
            rounds: settings.rounds,
            round_time_ns: settings.round_time_ns,
            batches: settings.batches,
            capacity,
        },
        clocks,
        warnings: warnings(&started, &measured),
        started_utc: started.started_utc,
        host: started.host,
        workloads: measured.groups.iter().map(|group| workload(group, reads_count)).collect(),
    }
}

fn workload(group: &[Series<Case>], reads_count: bool) -> MeasuredWorkload {
    let job = &group[0].case.job;
    let runtime =
        job.workload.workers().map_or("current-thread".to_owned(), |n| format!("multi-thread:{n}"));
    MeasuredWorkload {
        id: id(job),
        name: job.workload.to_string(),
        length_ns: job.length.as_nanos() as u64,
        runtime,
        results: group.iter().map(|series| variant(series, &group[0], reads_count)).collect(),
    }
}

fn variant(series: &Series<Case>, control: &Series<Case>, reads_count: bool) -> MeasuredVariant {
    let job = &series.case.job;
    let is_control = job.variant == Variant::Control;
    let lateness: Vec<&[i64]> =
        series.extras.iter().map(|round| round.lateness_ns.as_slice()).collect();
    let fires = matches!(job.workload, Workload::Fire(1..));
    let counts = series.case.counted.as_ref().ok().map(|counted| {
        let each = |n: u64| n as f64 / counted.messages.max(1) as f64;
        Counts {
            messages: counted.messages,
            clock_reads: counted.counter_reads.filter(|_| reads_count).map(each),
            timers_made: each(counted.timers_made),
            timer_registrations: each(counted.timer_registrations),
            allocations: each(counted.allocations),
            bytes_kept: counted.bytes_kept,
        }
    });
    MeasuredVariant {
        variant: name(&job.variant),
        clock: if is_control { "none".to_owned() } else { name(&job.clock) },
        ns_per_message: series.ns(),
        overhead: if is_control { None } else { series.overhead(control) },
        counts,
        fired: series.extras.iter().map(|round| round.fired).sum(),
        lateness_ns: distribution(&lateness).filter(|_| fires),
        early: lateness.iter().flat_map(|late| late.iter()).filter(|&&ns| ns < 0).count() as u64,
        rounds: series.medians(),
    }
}

fn warnings(started: &Started, measured: &Measured<Case>) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if let Some(source) = started.host.clock_source.as_deref().filter(|s| *s != "tsc") {
        let message = format!("the kernel's clock source is {source}, not tsc");
        let hint = "where reading the clock is dear, every variant that reads it per message looks dear; compare the \
                    cost per read";
        warnings.push(warning("clock-source", message, hint));
    }
    warnings.extend(started.warnings());
    if let Some(reason) =
        measured.groups.iter().flatten().find_map(|series| series.case.counted.as_ref().err())
    {
        let hint =
            "cargo install and cargo build put osjitter-counts beside osjitter; keep them together";
        warnings.push(warning(
            "no-counts",
            format!("what a message asks for was not counted: {reason}"),
            hint,
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
        args: BenchTimeoutArgs,
    }

    fn schedule(args: &[&str]) -> Result<Schedule<Case>, String> {
        let line =
            Line::try_parse_from([&["timeout"], args].concat()).map_err(|e| e.to_string())?;
        line.args.schedule().map_err(|e| e.to_string())
    }

    #[test]
    fn the_default_takes_every_workload_and_ends_within_90_seconds() {
        let default = schedule(&[]).unwrap();
        for kind in Kind::value_variants() {
            assert!(
                default.groups.iter().any(|group| id(&group[0].job).starts_with(&name(kind))),
                "{kind:?}"
            );
        }
        assert!(default.groups.iter().all(|group| group.len() == 12));
        assert!(default.expected < Duration::from_secs(80), "{:?}", default.expected);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
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
    fn a_clock_alone_takes_the_variants_that_can_have_it() {
        let tach = schedule(&["--clock", "tach"]).unwrap();
        assert!(
            tach.groups
                .iter()
                .all(|group| group.len() == 6 && group[0].job.variant == Variant::Control)
        );
    }

    #[test]
    fn the_control_loop_has_its_old_name_too() {
        let old = schedule(&["--variant", "baseline"]).unwrap();
        assert!(
            old.groups
                .iter()
                .all(|group| group.len() == 1 && group[0].job.variant == Variant::Control)
        );
    }
}
