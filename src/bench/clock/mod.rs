//! `osjitter bench clock`: what reading a clock costs here, how fine and how true it is.
#![allow(clippy::disallowed_methods, reason = "spans need time to pass")]

pub mod file;
mod picture;
mod view;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use benchloops::clocks::{
    CLOCKS, CallBlock, Clock, FirstUse, InstantPair, costed_clocks, count_absurd, elapsed_blocks,
    measure_first_use, run_on_threads,
};
use clap::Args;
use cli::exit::{self, ExitStatus};
use cli::units;
use engine::measure::cost::CostMeter;
use files::fitness::{Fitness, Tally};
use tach::Anchor;

use crate::bench::clock::file::{
    Absurd, ClockReport, Cost, Drift, Elapsed, First, Granularity, Order,
};
use crate::bench::command::OutputArgs;
use crate::bench::file::SCHEMA;
use crate::terminal;

/// Blocks of reads of each clock, in turn with those of the others.
const BLOCKS: usize = 101;
/// Reads of which neighbours are compared.
const NEIGHBOURS: usize = 100_000;
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench clock
  osjitter bench clock --drift 1s --drift 10s --order-reads 1_000_000_000
  osjitter bench clock --load --format json --out results/clock")]
pub struct BenchClockArgs {
    /// Threads that read at once; repeat for several [default: 1, 2, 4 and as many as CPUs]
    #[arg(long, value_name = "N", value_parser = units::parse_count)]
    threads: Vec<u64>,
    /// Compare with the operating system's clock over so long; repeat for several
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span, default_value = "1s")]
    drift: Vec<Duration>,
    /// Reads in search of instants out of order across threads, for each clock
    #[arg(long, value_name = "N", value_parser = units::parse_count, default_value = "10_000_000")]
    order_reads: u64,
    /// Keep every CPU busy while comparing with the operating system's clock
    #[arg(long)]
    load: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = units::parse_duration(text)?;
    if span.is_zero() {
        Err(format!("{text} compares nothing; give at least 1ms"))
    } else {
        Ok(span)
    }
}

pub fn run(args: &BenchClockArgs) -> exit::Result<ExitStatus> {
    // First of all, before anything else here has asked for a clock.
    let FirstUse { read, conversion, instants: born } = measure_first_use();
    let first =
        First { read_ns: read.as_nanos() as u64, conversion_ns: conversion.as_nanos() as u64 };
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let mut threads =
        if args.threads.is_empty() { vec![1, 2, 4, cpus] } else { args.threads.clone() };
    threads.sort_unstable();
    threads.dedup();
    let say = |what: &str| terminal::note(args.output.quiet, what);
    args.output.run(1, false, |started| {
        say("reading clocks ...");
        let mut alone = Tally::default();
        let costs = threads.iter().flat_map(|&n| costs(n, &mut alone)).collect();
        let granularity = CLOCKS.iter().map(|&(name, clock)| granularity(name, clock)).collect();
        say("looking for instants out of order ...");
        let order = CLOCKS
            .iter()
            .map(|&(name, clock)| order(name, clock, cpus, args.order_reads))
            .collect();
        let (threads, each) = (cpus.max(2), args.order_reads.div_ceil(cpus.max(2)));
        let absurd = Absurd { threads, reads: each * threads, absurd: count_absurd(threads, each) };
        let follow = |&span| {
            say(&format!(
                "following the operating system's clock for {} ...",
                units::format_exact_duration(span)
            ));
            drift(span, args.load.then_some(cpus))
        };
        let mut ages = vec![(PROCESS.to_owned(), born)];
        let mut drift = Vec::new();
        for span in &args.drift {
            ages.push((units::format_exact_duration(*span), InstantPair::now()));
            drift.push(follow(span));
        }
        let elapsed = elapsed(&ages);
        let fitness = Fitness::from_tally(&alone, started.host.cpus_online);
        Ok(ClockReport {
            schema: SCHEMA.to_owned(),
            bench: "clock".to_owned(),
            duration_ns: started.duration_ns(),
            started_utc: started.started_utc,
            host: started.host,
            clock: file::Clock::from(&tach::info()),
            first,
            fitness,
            costs,
            elapsed,
            granularity,
            order,
            absurd,
            drift,
        })
    })
}

/// A step of the number that a reading is.
fn ns_per_step(clock: &str) -> f64 {
    if clock == "std" { 1.0 } else { 1e9 / tach::info().rate_hz }
}

/// What reads cost while so many threads read. What the machine did while one read alone goes into
/// the tally: it always wants its CPU, and has nobody of its own to wait for.
fn costs(threads: u64, alone: &mut Tally) -> Vec<Cost> {
    let clocks = costed_clocks();
    let barrier = Barrier::new(threads as usize);
    // In turn, so that whatever else the machine does meets all of them.
    let per_thread = run_on_threads(threads, |_| {
        let (before, first) = (CostMeter::start(), Anchor::take());
        let mut blocks = vec![Vec::with_capacity(BLOCKS); clocks.len()];
        for _ in 0..BLOCKS {
            for ((_, clock), blocks) in clocks.iter().zip(&mut blocks) {
                barrier.wait();
                blocks.push(clock.block_ns());
            }
        }
        (blocks, before.cost(&first, &Anchor::take()))
    });
    if let [(_, cost)] = &per_thread[..] {
        alone.add("clocks", 0, &cost.round(), &[]);
    }
    clocks
        .iter()
        .enumerate()
        .map(|(i, (name, _))| {
            let all = per_thread.iter().flat_map(|(blocks, _)| blocks[i].iter().copied()).collect();
            let ([low, median_ns, high], blocks) = quartiles(all);
            Cost {
                clock: (*name).to_owned(),
                threads,
                median_ns,
                quartiles_ns: [low, high],
                blocks,
            }
        })
        .collect()
}

/// The age of the first instant of the process, in the file.
const PROCESS: &str = "process";
/// What neighbours in a row of readings differ by.
fn granularity(name: &str, clock: &dyn Clock) -> Granularity {
    let reads = clock.counts(NEIGHBOURS);
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

/// Instants out of order across threads.
fn order(name: &str, clock: &dyn Clock, threads: u64, reads: u64) -> Order {
    let each = reads.div_ceil(threads);
    let found = clock.violations(threads, each);
    Order {
        clock: name.to_owned(),
        threads,
        reads: each * threads,
        violations: found.iter().map(|f| f.count).sum(),
        worst_ns: found.iter().map(|f| f.max_difference).max().unwrap_or(0) as f64
            * ns_per_step(name),
    }
}

/// What `elapsed` costs by age, beside a reading.
fn elapsed(ages: &[(String, InstantPair)]) -> Vec<Elapsed> {
    let blocks = elapsed_blocks(ages);
    let mut costs = vec![Vec::with_capacity(BLOCKS); blocks.len()];
    for _ in 0..BLOCKS {
        blocks.iter().zip(&mut costs).for_each(|(block, costs)| costs.push((block.measure_ns)()));
    }
    let entry = |(block, costs): (CallBlock<'_>, Vec<f64>)| {
        let ([low, median_ns, high], blocks) = quartiles(costs);
        Elapsed {
            clock: block.clock.to_owned(),
            age: block.age,
            median_ns,
            quartiles_ns: [low, high],
            blocks,
        }
    };
    blocks.into_iter().zip(costs).map(entry).collect()
}

/// The quartiles of what blocks cost, and how many there are.
fn quartiles(mut costs: Vec<f64>) -> ([f64; 3], u64) {
    costs.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| costs[((costs.len() - 1) as f64 * share) as usize];
    ([at(0.25), at(0.5), at(0.75)], costs.len() as u64)
}

fn drift(span: Duration, load: Option<u64>) -> Drift {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..load.unwrap_or(0) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let at = |anchor: &Anchor| tach::Instant::from_count(anchor.count());
        let first = Anchor::take();
        // As a program does that looks at a span at its beginning and at its end: nothing is
        // converted in between.
        let _ = at(&first).elapsed();
        std::thread::sleep(span);
        let last = Anchor::take();
        let ours = at(&last) - at(&first);
        stop.store(true, Ordering::Relaxed);
        let theirs = last.std() - first.std();
        let error_ns = ours.as_nanos() as i64 - theirs.as_nanos() as i64;
        let seen_ns =
            (first.bracket_counts() + last.bracket_counts()) as f64 / 2.0 / tach::info().rate_hz
                * 1e9;
        Drift {
            span_ns: theirs.as_nanos() as u64,
            loaded: load.is_some(),
            error_ns,
            error_ppb: error_ns as f64 / theirs.as_nanos() as f64 * 1e9,
            resolution_ns: seen_ns,
        }
    })
}
