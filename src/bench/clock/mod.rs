//! `osjitter bench clock`: measures the cost, resolution and accuracy of clocks.
#![allow(clippy::disallowed_methods, reason = "spans need time to pass")]

pub mod file;
mod picture;
mod view;

use std::io;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, Scope};
use std::time::Duration;

use benchloops::clocks::{
    CLOCKS, CallBlock, Clock, FirstUse, InstantPair, costed_clocks, count_absurd, elapsed_blocks,
    measure_first_use, run_on_threads,
};
use clap::Args;
use cli::exit::{self, Error, ExitStatus};
use cli::terminal;
use cli::units::{self, UnitError, to_ns, to_signed_ns};
use engine::measure::cost::CostMeter;
use files::fitness::{Fitness, Tally};
use tach::Anchor;

use crate::bench::clock::file::{
    Absurd, ClockReport, Cost, Drift, Elapsed, First, Granularity, Order,
};
use crate::bench::command::{BenchStart, OutputArgs};
use crate::bench::file::SCHEMA;

/// Number of blocks of readings per clock; the blocks of all clocks alternate.
const BLOCKS: usize = 101;
/// Number of readings whose successive differences give the granularity.
const GRANULARITY_READS: usize = 100_000;
/// The age, in the file, of the first instant of the process.
const PROCESS_AGE: &str = "process";

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench clock
  osjitter bench clock --drift 1s --drift 10s --order-reads 1_000_000_000
  osjitter bench clock --load --format json --out results/clock")]
pub struct BenchClockArgs {
    /// Number of threads that read concurrently; repeat for several [default: 1, 2, 4 and that of
    /// CPUs]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    threads: Vec<u64>,
    /// Compare with the operating system's clock over this time; repeat for several
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_span, default_value = "1s")]
    drift: Vec<Duration>,
    /// Number of readings per clock whose order across threads is checked
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "10_000_000")]
    order_reads: u64,
    /// Keep every CPU busy during the comparison with the operating system's clock
    #[arg(long)]
    load: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn parse_span(text: &str) -> Result<Duration, UnitError> {
    units::parse_duration_within(
        "a comparison",
        text,
        Duration::from_millis(1)..=Duration::from_secs(24 * 3600),
    )
}

/// Measures the clocks and writes the report.
pub fn run(args: &BenchClockArgs) -> exit::Result<ExitStatus> {
    // This must come before any other use of a clock.
    let first_use = measure_first_use();
    args.output.run(1, false, |start| {
        measure(args, first_use, start)
            .map_err(|e| Error::measure(format!("cannot start the threads: {e}")))
    })
}

fn measure(
    args: &BenchClockArgs,
    first_use: FirstUse,
    start: BenchStart,
) -> io::Result<ClockReport> {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let note = |text: &str| terminal::note(args.output.quiet, text);

    note("reading clocks ...");
    let mut tally = Tally::default();
    let mut costs = Vec::new();
    for threads in thread_counts(args, cpus) {
        costs.extend(measure_costs(threads, &mut tally)?);
    }
    let granularity =
        CLOCKS.iter().map(|&(name, clock)| measure_granularity(name, clock)).collect();

    note("looking for instants out of order ...");
    let mut order = Vec::new();
    for (name, clock) in CLOCKS {
        order.push(measure_order(name, clock, cpus, args.order_reads)?);
    }
    let absurd = measure_absurd(cpus.max(2), args.order_reads)?;

    let mut ages = vec![(PROCESS_AGE.to_owned(), first_use.instants)];
    let drift = follow_clock(args, cpus, &mut ages)?;
    Ok(ClockReport {
        schema: SCHEMA.to_owned(),
        bench: "clock".to_owned(),
        clock: file::TachClock::from(&tach::info()),
        first: First::from(&first_use),
        fitness: Fitness::from_tally(&tally, start.host.cpus_online),
        costs,
        elapsed: measure_elapsed(&ages),
        granularity,
        order,
        absurd,
        drift,
        duration_ns: start.duration_ns(),
        started_utc: start.started_utc,
        host: start.host,
    })
}

/// Compares the clocks over each span, at the start of which an instant is added to `ages`.
fn follow_clock(
    args: &BenchClockArgs,
    cpus: u64,
    ages: &mut Vec<(String, InstantPair)>,
) -> io::Result<Vec<Drift>> {
    let mut drift = Vec::new();
    for &span in &args.drift {
        let age = units::format_exact_duration(span);
        let note = format!("following the operating system's clock for {age} ...");
        terminal::note(args.output.quiet, &note);
        ages.push((age, InstantPair::now()));
        drift.push(measure_drift(span, args.load.then_some(cpus))?);
    }
    Ok(drift)
}

impl From<&FirstUse> for First {
    fn from(first_use: &FirstUse) -> Self {
        Self { read_ns: to_ns(first_use.read), conversion_ns: to_ns(first_use.conversion) }
    }
}

/// Returns the numbers of threads to measure with, in ascending order.
fn thread_counts(args: &BenchClockArgs, cpus: u64) -> Vec<u64> {
    let mut threads =
        if args.threads.is_empty() { vec![1, 2, 4, cpus] } else { args.threads.clone() };
    threads.sort_unstable();
    threads.dedup();
    threads
}

/// Returns the nanoseconds that a difference of one between two readings means.
fn ns_per_step(clock: &str) -> f64 {
    if clock == "std" { 1.0 } else { 1e9 / tach::info().rate_hz }
}

/// Measures the cost of a reading while several threads read.
///
/// With a single thread, the tally records how the machine behaved: that thread always needs its
/// CPU and waits for no other one.
fn measure_costs(threads: u64, tally: &mut Tally) -> io::Result<Vec<Cost>> {
    let clocks = costed_clocks();
    let barrier = Barrier::new(threads as usize);
    let per_thread = run_on_threads(threads, |_| measure_blocks(&clocks, &barrier))?;
    if let [(_, cost)] = &per_thread[..] {
        tally.add("clocks", 0, &cost.to_round(0), &[]);
    }
    let mut costs = Vec::new();
    for (i, (name, _)) in clocks.iter().enumerate() {
        let blocks = per_thread.iter().flat_map(|(blocks, _)| blocks[i].iter().copied()).collect();
        let Quartiles { low, median, high, blocks } = quartiles(blocks);
        costs.push(Cost {
            clock: (*name).to_owned(),
            threads,
            median_ns: median,
            quartiles_ns: [low, high],
            blocks,
        });
    }
    Ok(costs)
}

/// Measures the blocks of each clock on one of several threads, and the costs of all of them.
///
/// The clocks alternate, so that other work on the machine affects all of them.
fn measure_blocks(
    clocks: &[(&str, &dyn Clock)],
    barrier: &Barrier,
) -> (Vec<Vec<f64>>, engine::measure::cost::Cost) {
    let (before, first) = (CostMeter::start(), Anchor::take());
    let mut blocks = vec![Vec::with_capacity(BLOCKS); clocks.len()];
    for _ in 0..BLOCKS {
        for ((_, clock), blocks) in clocks.iter().zip(&mut blocks) {
            barrier.wait();
            blocks.push(clock.block_ns());
        }
    }
    (blocks, before.cost(&first, &Anchor::take()))
}

/// Measures the differences between successive readings.
fn measure_granularity(name: &str, clock: &dyn Clock) -> Granularity {
    let reads = clock.counts(GRANULARITY_READS);
    let mut steps: Vec<u64> = reads.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
    steps.sort_unstable();
    let zeros = steps.partition_point(|&s| s == 0);
    let ns = ns_per_step(name);
    Granularity {
        clock: name.to_owned(),
        smallest_step_ns: steps.get(zeros).map(|&s| s as f64 * ns),
        median_step_ns: steps[steps.len() / 2] as f64 * ns,
        equal_neighbours: zeros as u64,
    }
}

/// Counts readings out of order across threads.
fn measure_order(name: &str, clock: &dyn Clock, threads: u64, reads: u64) -> io::Result<Order> {
    let reads_per_thread = reads.div_ceil(threads);
    let violations = clock.violations(threads, reads_per_thread)?;
    Ok(Order {
        clock: name.to_owned(),
        threads,
        reads: reads_per_thread * threads,
        violations: violations.iter().map(|v| v.count).sum(),
        worst_ns: violations.iter().map(|v| v.max_difference).max().unwrap_or(0) as f64
            * ns_per_step(name),
    })
}

/// Counts elapsed times above a day between threads.
fn measure_absurd(threads: u64, reads: u64) -> io::Result<Absurd> {
    let reads_per_thread = reads.div_ceil(threads);
    let absurd = count_absurd(threads, reads_per_thread)?;
    Ok(Absurd { threads, reads: reads_per_thread * threads, absurd })
}

/// Measures the cost of `elapsed` by age, and of a reading for comparison.
fn measure_elapsed(ages: &[(String, InstantPair)]) -> Vec<Elapsed> {
    let blocks = elapsed_blocks(ages);
    let mut costs = vec![Vec::with_capacity(BLOCKS); blocks.len()];
    for _ in 0..BLOCKS {
        for (block, costs) in blocks.iter().zip(&mut costs) {
            costs.push((block.measure_ns)());
        }
    }
    let mut elapsed = Vec::with_capacity(blocks.len());
    for (CallBlock { clock, age, .. }, costs) in blocks.into_iter().zip(costs) {
        let Quartiles { low, median, high, blocks } = quartiles(costs);
        elapsed.push(Elapsed {
            clock: clock.to_owned(),
            age,
            median_ns: median,
            quartiles_ns: [low, high],
            blocks,
        });
    }
    elapsed
}

/// Quartiles of the costs of blocks.
struct Quartiles {
    low: f64,
    median: f64,
    high: f64,
    blocks: u64,
}

fn quartiles(mut costs: Vec<f64>) -> Quartiles {
    costs.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| costs[((costs.len() - 1) as f64 * share) as usize];
    let blocks = costs.len() as u64;
    Quartiles { low: quantile(0.25), median: quantile(0.5), high: quantile(0.75), blocks }
}

/// Compares a span of `tach` with that of the operating system's clock, while `load_threads` spin.
fn measure_drift(span: Duration, load_threads: Option<u64>) -> io::Result<Drift> {
    let stop = AtomicBool::new(false);
    let load = load_threads.unwrap_or(0);
    let Span { tach, first, last } =
        std::thread::scope(|scope| measure_under_load(scope, span, load, &stop))?;
    let os = last.os_instant() - first.os_instant();
    let error_ns = to_signed_ns(tach) - to_signed_ns(os);
    let bracket_counts = (first.bracket_counts() + last.bracket_counts()) as f64 / 2.0;
    Ok(Drift {
        span_ns: to_ns(os),
        loaded: load_threads.is_some(),
        error_ns,
        error_ppb: error_ns as f64 / os.as_nanos() as f64 * 1e9,
        resolution_ns: bracket_counts / tach::info().rate_hz * 1e9,
    })
}

/// Measures a span while a number of threads spin.
fn measure_under_load<'scope>(
    scope: &'scope Scope<'scope, '_>,
    span: Duration,
    threads: u64,
    stop: &'scope AtomicBool,
) -> io::Result<Span> {
    let spin = || {
        while !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let started = (0..threads).try_for_each(|_| Builder::new().spawn_scoped(scope, spin).map(drop));
    let measured = started.map(|()| measure_span(span));
    // Also if a thread could not be started, so that the others end.
    stop.store(true, Ordering::Relaxed);
    measured
}

/// A span of time by `tach`, between two anchors.
struct Span {
    tach: Duration,
    first: Anchor,
    last: Anchor,
}

/// Sleeps for a span and measures it.
///
/// Converts at the beginning and at the end of the span but not in between, like a program that
/// measures one span.
fn measure_span(length: Duration) -> Span {
    let instant = |anchor: &Anchor| tach::Instant::from_count(anchor.count());
    let first = Anchor::take();
    let _ = instant(&first).elapsed();
    std::thread::sleep(length);
    let last = Anchor::take();
    Span { tach: instant(&last) - instant(&first), first, last }
}
