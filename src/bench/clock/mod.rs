//! `osjitter bench clock`: what reading a clock costs here, how fine and how true it is.
#![allow(clippy::disallowed_methods, reason = "the clocks are what is measured here, and spans need time to pass")]

pub mod file;
mod picture;
mod view;

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use jitterstat::fitness::{Fitness, Tally};
use tach::{Anchor, MonotonicInstant, OrderedInstant};

use crate::bench::clock::file::{Absurd, ClockReport, Cost, Drift, Elapsed, First, Granularity, Order};
use crate::bench::command::OutputArgs;
use crate::bench::file::SCHEMA;
use crate::bench::harness::ns_of_reads;
use crate::exit::{self, ExitStatus};
use crate::measure::cost::Before;
use crate::terminal;
use crate::text::units;

/// Reads between two looks at the clock that times them: some hundred microseconds.
const READS: u64 = 10_000;
/// Blocks of reads of each clock, in turn with those of the others.
const BLOCKS: usize = 101;
/// Reads of which neighbours are compared.
const NEIGHBOURS: usize = 100_000;
/// An elapsed time above this is absurd in a process that is seconds old.
const ABSURD: Duration = Duration::from_secs(86_400);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench clock
  osjitter bench clock --drift 1s --drift 10s --order-reads 1_000_000_000
  osjitter bench clock --load --format json --out results/clock")]
pub struct BenchClockArgs {
    /// Threads that read at once; repeat for several [default: 1, 2, 4 and as many as CPUs]
    #[arg(long, value_name = "N", value_parser = units::count)]
    threads: Vec<u64>,
    /// Compare with the operating system's clock over so long; repeat for several
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = span, default_value = "1s")]
    drift: Vec<Duration>,
    /// Reads in search of instants out of order across threads, for each clock
    #[arg(long, value_name = "N", value_parser = units::count, default_value = "10_000_000")]
    order_reads: u64,
    /// Keep every CPU busy while comparing with the operating system's clock
    #[arg(long)]
    load: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = units::duration(text)?;
    if span.is_zero() { Err(format!("{text} compares nothing; give at least 1ms")) } else { Ok(span) }
}

pub fn run(args: &BenchClockArgs) -> exit::Result<ExitStatus> {
    // First of all, before anything else here has asked for a clock.
    let (first, born) = first_uses();
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let mut threads = if args.threads.is_empty() { vec![1, 2, 4, cpus] } else { args.threads.clone() };
    threads.sort_unstable();
    threads.dedup();
    let say = |what: &str| terminal::note(args.output.quiet, what);
    args.output.run(1, false, |started| {
        say("reading clocks ...");
        let mut alone = Tally::default();
        let costs = threads.iter().flat_map(|&n| costs(n, &mut alone)).collect();
        let granularity = CLOCKS.iter().map(|&(name, clock)| clock.granularity(name)).collect();
        say("looking for instants out of order ...");
        let order = CLOCKS.iter().map(|&(name, clock)| clock.order(name, cpus, args.order_reads)).collect();
        let absurd = absurd(cpus.max(2), args.order_reads);
        let follow = |&span| {
            say(&format!("following the operating system's clock for {} ...", units::short(span)));
            drift(span, args.load.then_some(cpus))
        };
        let mut ages = vec![(PROCESS.to_owned(), born)];
        let mut drift = Vec::new();
        for span in &args.drift {
            ages.push((units::short(*span), Pair::now()));
            drift.push(follow(span));
        }
        let elapsed = elapsed(&ages);
        let fitness = Fitness::of(&alone, started.host.cpus_online);
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

/// A clock under measurement. Each method is generic over the reading inside, so no call stands between two reads.
trait Measured: Sync {
    fn block_ns(&self) -> f64;
    fn granularity(&self, name: &str) -> Granularity;
    fn order(&self, name: &str, threads: u64, reads: u64) -> Order;
}

/// How a clock is read, and what number a reading is.
struct Of<R, C>(R, C);

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> Of<R, C> {
    fn count(&self) -> u64 {
        (self.1)((self.0)())
    }
}

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> Measured for Of<R, C> {
    /// Turning a reading into a number is no part of it.
    fn block_ns(&self) -> f64 {
        ns_of_reads(READS, &self.0)
    }

    fn granularity(&self, name: &str) -> Granularity {
        let mut reads = Vec::with_capacity(NEIGHBOURS);
        reads.extend((0..NEIGHBOURS).map(|_| self.count()));
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

    fn order(&self, name: &str, threads: u64, reads: u64) -> Order {
        let each = reads.div_ceil(threads);
        let published = AtomicU64::new(0);
        let found = on_threads(threads, |_| {
            let (mut violations, mut worst) = (0_u64, 0_u64);
            for _ in 0..each {
                let before = published.load(Ordering::Acquire);
                let now = self.count();
                if now < before {
                    violations += 1;
                    worst = worst.max(before - now);
                }
                published.store(now, Ordering::Release);
            }
            (violations, worst)
        });
        let ns = ns_per_step(name);
        Order {
            clock: name.to_owned(),
            threads,
            reads: each * threads,
            violations: found.iter().map(|f| f.0).sum(),
            worst_ns: found.iter().map(|f| f.1).max().unwrap_or(0) as f64 * ns,
        }
    }
}

/// A step of the number that a reading is.
fn ns_per_step(clock: &str) -> f64 {
    if clock == "std" { 1.0 } else { 1e9 / tach::info().rate_hz }
}

fn std_ns(now: Instant) -> u64 {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    (now - *BASE.get_or_init(|| now)).as_nanos() as u64
}

/// The clocks a program may choose from, by the names they have in the report.
const CLOCKS: [(&str, &dyn Measured); 4] = [
    ("tach-instant", &Of(tach::Instant::now, tach::Instant::count)),
    ("tach-ordered", &Of(OrderedInstant::now, OrderedInstant::count)),
    ("tach-monotonic", &Of(MonotonicInstant::now, MonotonicInstant::count)),
    ("std", &Of(Instant::now, std_ns)),
];

/// Beside those, for the cost only: the instructions by themselves, and what ends a measured section.
fn costed() -> Vec<(&'static str, &'static dyn Measured)> {
    let bare: &[(&str, &dyn Measured)] = match tach::why_not_counter() {
        Some(_) => &[],
        None => &[
            ("bare-counter", &Of(tach::bare::count, |count| count)),
            ("bare-ordered-counter", &Of(tach::bare::ordered_count, |count| count)),
        ],
    };
    let [instants @ .., std] = &CLOCKS;
    [bare, instants, &[("tach-fenced", &Of(tach::fenced_count, |count| count))], &[*std]].concat()
}

/// Runs `work` on so many threads at once, with the number of the thread.
fn on_threads<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|i| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    barrier.wait();
                    work(i)
                })
            })
            .collect();
        started.into_iter().map(|t| t.join().expect("the work does not panic")).collect()
    })
}

/// What reads cost while so many threads read. What the machine did while one read alone goes into the tally: it always
/// wants its CPU, and has nobody of its own to wait for.
fn costs(threads: u64, alone: &mut Tally) -> Vec<Cost> {
    let clocks = costed();
    let barrier = Barrier::new(threads as usize);
    // In turn, so that whatever else the machine does meets all of them.
    let per_thread = on_threads(threads, |_| {
        let (before, first) = (Before::read(), Anchor::take());
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
            Cost { clock: (*name).to_owned(), threads, median_ns, quartiles_ns: [low, high], blocks }
        })
        .collect()
}

/// The same moment by both clocks.
#[derive(Clone, Copy)]
struct Pair {
    tach: tach::Instant,
    std: Instant,
}

impl Pair {
    fn now() -> Self {
        Self { tach: tach::Instant::now(), std: Instant::now() }
    }
}

/// The age of the first instant of the process, in the file.
const PROCESS: &str = "process";
/// Calls of a block within a microsecond.
const CALLS_OF_A_MICROSECOND: u64 = 40;

/// What `elapsed` costs by age, each of these and an instant just taken, beside a reading.
fn elapsed(ages: &[(String, Pair)]) -> Vec<Elapsed> {
    type Block<'a> = (&'static str, String, Box<dyn Fn() -> f64 + 'a>);
    let mut blocks: Vec<Block<'_>> = vec![
        ("tach-instant", "now".to_owned(), Box::new(|| ns_of_reads(READS, tach::Instant::now))),
        ("std", "now".to_owned(), Box::new(|| ns_of_reads(READS, Instant::now))),
        ("tach-instant", "now-elapsed".to_owned(), Box::new(|| ns_of_reads(READS, || tach::Instant::now().elapsed()))),
        ("std", "now-elapsed".to_owned(), Box::new(|| ns_of_reads(READS, || Instant::now().elapsed()))),
    ];
    let fresh = |call: fn(Pair) -> f64| {
        move || {
            let goes = READS / CALLS_OF_A_MICROSECOND;
            (0..goes).map(|_| call(black_box(Pair::now()))).sum::<f64>() / goes as f64
        }
    };
    let tach = fresh(|pair| ns_of_reads(CALLS_OF_A_MICROSECOND, || black_box(pair).tach.elapsed()));
    let std = fresh(|pair| ns_of_reads(CALLS_OF_A_MICROSECOND, || black_box(pair).std.elapsed()));
    blocks.push(("tach-instant", "1us".to_owned(), Box::new(tach)));
    blocks.push(("std", "1us".to_owned(), Box::new(std)));
    // The process, the oldest, is the first of them.
    for (age, pair) in ages.iter().skip(1).chain(ages.first()) {
        blocks.push((
            "tach-instant",
            age.clone(),
            Box::new(move || ns_of_reads(READS, || black_box(pair).tach.elapsed())),
        ));
        blocks.push(("std", age.clone(), Box::new(move || ns_of_reads(READS, || black_box(pair).std.elapsed()))));
    }
    let mut costs = vec![Vec::with_capacity(BLOCKS); blocks.len()];
    for _ in 0..BLOCKS {
        blocks.iter().zip(&mut costs).for_each(|((_, _, block), costs)| costs.push(block()));
    }
    let entry = |((clock, age, _), costs): (Block<'_>, Vec<f64>)| {
        let ([low, median_ns, high], blocks) = quartiles(costs);
        Elapsed { clock: clock.to_owned(), age, median_ns, quartiles_ns: [low, high], blocks }
    };
    blocks.into_iter().zip(costs).map(entry).collect()
}

/// The quartiles of what blocks cost, and how many there are.
fn quartiles(mut costs: Vec<f64>) -> ([f64; 3], u64) {
    costs.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| costs[((costs.len() - 1) as f64 * share) as usize];
    ([at(0.25), at(0.5), at(0.75)], costs.len() as u64)
}

/// What the first uses cost, and the first instants.
fn first_uses() -> (First, Pair) {
    let before = Instant::now();
    let instant = tach::Instant::now();
    let read = Instant::now();
    let span = instant.elapsed();
    let converted = Instant::now();
    black_box(span);
    let first =
        First { read_ns: (read - before).as_nanos() as u64, conversion_ns: (converted - read).as_nanos() as u64 };
    (first, Pair { tach: instant, std: before })
}

fn absurd(threads: u64, reads: u64) -> Absurd {
    let each = reads.div_ceil(threads);
    let published = AtomicU64::new(tach::Instant::now().count());
    let found = on_threads(threads, |_| {
        let mut absurd = 0_u64;
        for _ in 0..each {
            let theirs = tach::Instant::from_count(published.load(Ordering::Acquire));
            absurd += u64::from(theirs.elapsed() > ABSURD);
            published.store(tach::Instant::now().count(), Ordering::Release);
        }
        absurd
    });
    Absurd { threads, reads: each * threads, absurd: found.iter().sum() }
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
        // As a program does that looks at a span at its beginning and at its end: nothing is converted in between.
        let _ = at(&first).elapsed();
        std::thread::sleep(span);
        let last = Anchor::take();
        let ours = at(&last) - at(&first);
        stop.store(true, Ordering::Relaxed);
        let theirs = last.std() - first.std();
        let error_ns = ours.as_nanos() as i64 - theirs.as_nanos() as i64;
        let seen_ns = (first.bracket_counts() + last.bracket_counts()) as f64 / 2.0 / tach::info().rate_hz * 1e9;
        Drift {
            span_ns: theirs.as_nanos() as u64,
            loaded: load.is_some(),
            error_ns,
            error_ppb: error_ns as f64 / theirs.as_nanos() as f64 * 1e9,
            resolution_ns: seen_ns,
        }
    })
}
