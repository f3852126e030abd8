//! `osjitter bench clock`: measures the clocks of `tach` beside the standard library's.
#![allow(clippy::disallowed_methods, reason = "the clocks are what is measured here, and spans need time to pass")]

pub mod args;
pub mod markdown;
pub mod model;
pub mod picture;

use std::hint::black_box;
use std::io::Write;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jitterstat::file::File as _;
use tach::{Anchor, MonotonicInstant, OrderedInstant};

use crate::bench::clock::args::BenchClockArgs;
use crate::bench::clock::model::{Absurd, BENCH, Bench, Clock, Cost, Drift, First, Granularity, Order, SCHEMA};
use crate::exit::{Error, ExitStatus};
use crate::machine::host;
use crate::render::formats::Format;
use crate::text::units;
use crate::{files, terminal};

/// Reads between two looks at the clock that times them: some hundred microseconds.
const READS: u64 = 10_000;
/// Blocks of reads of each clock, in turn with those of the others.
const BLOCKS: usize = 101;
/// Reads of which neighbours are compared.
const NEIGHBOURS: usize = 100_000;
/// An elapsed time above this is absurd in a process that is seconds old.
const ABSURD: Duration = Duration::from_secs(86_400);

/// Measures, and writes what was found.
pub fn run(args: &BenchClockArgs) -> Result<ExitStatus, Error> {
    // First of all, before anything else here has asked for a clock.
    let first = first_uses();
    let spans = match args.drift.as_slice() {
        [] => vec![Duration::from_secs(1)],
        given => given.iter().map(|text| units::duration(text)).collect::<Result<_, _>>().map_err(Error::usage)?,
    };
    if spans.iter().any(Duration::is_zero) {
        return Err(Error::usage("--drift 0s compares nothing; give at least 1ms"));
    }
    if let Some(out) = &args.out {
        std::fs::create_dir_all(out).map_err(|e| Error::usage(format!("cannot make {}: {e}", out.display())))?;
    }
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let mut threads = if args.threads.is_empty() { vec![1, 2, 4, cpus] } else { args.threads.clone() };
    threads.sort_unstable();
    threads.dedup();

    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let started = Instant::now();
    terminal::note(args.quiet, "reading clocks ...");
    let costs = threads.iter().flat_map(|&n| costs(n)).collect();
    let granularity = CLOCKS.iter().map(|&(name, clock)| clock.granularity(name)).collect();
    terminal::note(args.quiet, "looking for instants out of order ...");
    let order = CLOCKS.iter().map(|&(name, clock)| clock.order(name, cpus, args.order_reads)).collect();
    let absurd = absurd(cpus.max(2), args.order_reads);
    let drift = spans
        .iter()
        .map(|&span| {
            terminal::note(
                args.quiet,
                &format!("following the operating system's clock for {} ...", units::short(span)),
            );
            drift(span, args.load.then_some(cpus))
        })
        .collect();
    let info = tach::info();
    let bench = Bench {
        schema: SCHEMA.to_owned(),
        bench: BENCH.to_owned(),
        started_utc,
        duration_ns: started.elapsed().as_nanos() as u64,
        host: host::capture(),
        clock: Clock::from(&info),
        first,
        costs,
        granularity,
        order,
        absurd,
        drift,
    };
    let json = bench.to_json();
    if let Some(out) = &args.out {
        let files = [("clock.json", json.as_str()), ("clock.svg", &picture::picture(&bench).svg)];
        for (name, text) in files {
            let file = out.join(name);
            files::write_atomically(&file, text.as_bytes())
                .map_err(|e| Error::measure(format!("cannot write {}: {e}", file.display())))?;
        }
    }
    let text = match args.format {
        Format::Json => json,
        Format::Table => bench.table(),
    };
    std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing)?;
    Ok(ExitStatus::Done)
}

/// A clock under measurement. Each method is generic over the reading inside, so no call stands between two reads.
trait Measured: Sync {
    fn block_ns(&self) -> f64;
    fn granularity(&self, name: &str) -> Granularity;
    fn order(&self, name: &str, threads: u64, reads: u64) -> Order;
}

struct Of<R>(R);

impl<R: Fn() -> u64 + Sync> Measured for Of<R> {
    fn block_ns(&self) -> f64 {
        let start = Instant::now();
        for _ in 0..READS {
            black_box((self.0)());
        }
        start.elapsed().as_nanos() as f64 / READS as f64
    }

    fn granularity(&self, name: &str) -> Granularity {
        let mut reads = Vec::with_capacity(NEIGHBOURS);
        reads.extend((0..NEIGHBOURS).map(|_| (self.0)()));
        let mut steps: Vec<u64> = reads.windows(2).map(|w| w[1].saturating_sub(w[0])).collect();
        steps.sort_unstable();
        let zeros = steps.partition_point(|&s| s == 0);
        let ns = if name == "std" { 1.0 } else { 1e9 / tach::info().rate_hz };
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
                let now = (self.0)();
                if now < before {
                    violations += 1;
                    worst = worst.max(before - now);
                }
                published.store(now, Ordering::Release);
            }
            (violations, worst)
        });
        let ns = if name == "std" { 1.0 } else { 1e9 / tach::info().rate_hz };
        Order {
            clock: name.to_owned(),
            threads,
            reads: each * threads,
            violations: found.iter().map(|f| f.0).sum(),
            worst_ns: found.iter().map(|f| f.1).max().unwrap_or(0) as f64 * ns,
        }
    }
}

fn std_ns() -> u64 {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let base = *BASE.get_or_init(Instant::now);
    (Instant::now() - base).as_nanos() as u64
}

/// The clocks a program may choose from, by the names they have in the report.
const CLOCKS: [(&str, &dyn Measured); 4] = [
    ("tach-instant", &Of(|| tach::Instant::now().count())),
    ("tach-ordered", &Of(|| OrderedInstant::now().count())),
    ("tach-monotonic", &Of(|| MonotonicInstant::now().count())),
    ("std", &Of(std_ns)),
];

/// Beside those, for the cost only: the instructions by themselves, and what ends a measured section.
fn costed() -> Vec<(&'static str, &'static dyn Measured)> {
    /// Only `now()`: turning the standard library's instant into a number is no part of reading it.
    struct Std;
    impl Measured for Std {
        fn block_ns(&self) -> f64 {
            let start = Instant::now();
            for _ in 0..READS {
                black_box(Instant::now());
            }
            start.elapsed().as_nanos() as f64 / READS as f64
        }
        fn granularity(&self, name: &str) -> Granularity {
            Of(std_ns).granularity(name)
        }
        fn order(&self, name: &str, threads: u64, reads: u64) -> Order {
            Of(std_ns).order(name, threads, reads)
        }
    }
    let mut clocks: Vec<(&str, &dyn Measured)> = Vec::new();
    if tach::why_not_counter().is_none() {
        clocks.push(("bare-counter", &Of(tach::bare::count)));
        clocks.push(("bare-ordered-counter", &Of(tach::bare::ordered_count)));
    }
    clocks.extend(CLOCKS.iter().filter(|(name, _)| *name != "std"));
    clocks.push(("tach-fenced", &Of(tach::fenced_count)));
    clocks.push(("std", &Std));
    clocks
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

fn costs(threads: u64) -> Vec<Cost> {
    let clocks = costed();
    let barrier = Barrier::new(threads as usize);
    // In turn, so that whatever else the machine does meets all of them.
    let per_thread = on_threads(threads, |_| {
        let mut blocks = vec![Vec::with_capacity(BLOCKS); clocks.len()];
        for _ in 0..BLOCKS {
            for ((_, clock), blocks) in clocks.iter().zip(&mut blocks) {
                barrier.wait();
                blocks.push(clock.block_ns());
            }
        }
        blocks
    });
    clocks
        .iter()
        .enumerate()
        .map(|(i, (name, _))| {
            let mut all: Vec<f64> = per_thread.iter().flat_map(|blocks| blocks[i].iter().copied()).collect();
            all.sort_unstable_by(f64::total_cmp);
            let at = |share: f64| all[((all.len() - 1) as f64 * share) as usize];
            Cost {
                clock: (*name).to_owned(),
                threads,
                median_ns: at(0.5),
                quartiles_ns: [at(0.25), at(0.75)],
                blocks: all.len() as u64,
            }
        })
        .collect()
}

fn first_uses() -> First {
    let before = Instant::now();
    let instant = tach::Instant::now();
    let read = Instant::now();
    let span = instant.elapsed();
    let converted = Instant::now();
    black_box(span);
    First { read_ns: (read - before).as_nanos() as u64, conversion_ns: (converted - read).as_nanos() as u64 }
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
