//! Compares our clocks with those of other crates in one run.
//!
//!     peers-clock [--seconds N] [--reads N] > peers-clock.json
//!     peers-clock --drift SECONDS > drift.json
//!
//! Measures the cost of a read on several threads, the cost of `elapsed`, the first conversion, the
//! drift from the clock of the operating system, and the order of instants across threads. The
//! clocks are interleaved. The table goes to standard error, JSON to standard output. "First" is
//! the first reading and the first span of a fresh process. It does not include work before `main`,
//! which minstant and fastant do. With `--drift`, only the drift is measured, of all clocks at once.
#![allow(
    clippy::disallowed_methods,
    reason = "the program measures clocks, and spans need time to pass"
)]

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Number of reads of a block, which takes some hundred microseconds.
const READS: u64 = 10_000;
/// Number of blocks of each clock, alternating with those of the other clocks.
const BLOCKS: usize = 101;

/// A clock of a crate.
trait Clock {
    type Instant: Copy + Send + Sync;
    const NAME: &str;
    fn now() -> Self::Instant;
    fn between(earlier: Self::Instant, later: Self::Instant) -> Duration;
    fn elapsed(earlier: &Self::Instant) -> Duration;
}

macro_rules! clocks {
    ($($ty:ident $name:literal $instant:ty, $now:expr, $elapsed:expr;)*) => {
        $(
            struct $ty;
            impl Clock for $ty {
                type Instant = $instant;
                const NAME: &str = $name;
                fn now() -> Self::Instant {
                    $now()
                }
                fn between(earlier: Self::Instant, later: Self::Instant) -> Duration {
                    later.duration_since(earlier)
                }
                fn elapsed(earlier: &Self::Instant) -> Duration {
                    $elapsed(earlier)
                }
            }
        )*
        const CLOCKS: &[ClockBenchmark] = &[$(ClockBenchmark::new::<$ty>()),*];
    };
}

/// The measurements of a clock. Each function is compiled separately for each clock.
struct ClockBenchmark {
    name: &'static str,
    block_ns: fn() -> f64,
    elapsed_ns: fn() -> f64,
    first_us: fn() -> f64,
    drift_ppm: fn(Duration) -> f64,
    out_of_order: fn(u64, u64) -> u64,
}

impl ClockBenchmark {
    const fn new<C: Clock>() -> Self {
        Self {
            name: C::NAME,
            block_ns: block_ns::<C>,
            elapsed_ns: elapsed_ns::<C>,
            first_us: first_us::<C>,
            drift_ppm: drift_ppm::<C>,
            out_of_order: out_of_order::<C>,
        }
    }
}

clocks! {
    Tach "tach::Instant" tach::Instant, tach::Instant::now, tach::Instant::elapsed;
    TachOrdered "tach::OrderedInstant" tach::OrderedInstant,
        tach::OrderedInstant::now, tach::OrderedInstant::elapsed;
    TachMonotonic "tach::MonotonicInstant" tach::MonotonicInstant,
        tach::MonotonicInstant::now, tach::MonotonicInstant::elapsed;
    TachUnordered "tach::MonotonicInstant, elapsed_unordered" tach::MonotonicInstant,
        tach::MonotonicInstant::now, tach::MonotonicInstant::elapsed_unordered;
    SharedMaximum "tach::Instant, shared maximum" tach::Instant,
        shared_maximum, |earlier: &tach::Instant| shared_maximum() - *earlier;
    Quanta "quanta::Instant" quanta::Instant, quanta::Instant::now, quanta::Instant::elapsed;
    Minstant "minstant::Instant" minstant::Instant,
        minstant::Instant::now, minstant::Instant::elapsed;
    Fastant "fastant::Instant" fastant::Instant, fastant::Instant::now, fastant::Instant::elapsed;
    Std "std::time::Instant" Instant, Instant::now, Instant::elapsed;
}

/// Reads the counter without order and returns the maximum of all readings so far. The crate tach
/// 0.2 keeps its `MonotonicInstant` in order by this method. It is not in the registry.
fn shared_maximum() -> tach::Instant {
    static MAXIMUM: AtomicU64 = AtomicU64::new(0);
    let count = tach::count();
    tach::Instant::from_count(MAXIMUM.fetch_max(count, Ordering::AcqRel).max(count))
}

fn block_ns<C: Clock>() -> f64 {
    let start = Instant::now();
    for _ in 0..READS {
        black_box(C::now());
    }
    start.elapsed().as_nanos() as f64 / READS as f64
}

/// Returns the cost of one `elapsed`, for an instant at the start of the block.
fn elapsed_ns<C: Clock>() -> f64 {
    let earlier = C::now();
    let start = Instant::now();
    for _ in 0..READS {
        black_box(C::elapsed(black_box(&earlier)));
    }
    start.elapsed().as_nanos() as f64 / READS as f64
}

/// Returns the time of the first reading and the first span of this process.
fn first_us<C: Clock>() -> f64 {
    let start = Instant::now();
    let first = C::now();
    black_box(C::between(first, C::now()));
    start.elapsed().as_nanos() as f64 / 1e3
}

/// Reads a clock between two readings of the operating system's clock. Returns the pair with the
/// shortest time between those two of many tries, with their middle.
fn pair<C: Clock>() -> (Instant, C::Instant) {
    let read = || {
        let before = Instant::now();
        let instant = C::now();
        (before.elapsed(), before, instant)
    };
    let (width, before, instant) = (0..100).map(|_| read()).min_by_key(|p| p.0).expect("a hundred");
    (before + width / 2, instant)
}

fn drift_ppm<C: Clock>(span: Duration) -> f64 {
    let (os, instant) = pair::<C>();
    std::thread::sleep(span);
    let (os_end, instant_end) = pair::<C>();
    let truth = (os_end - os).as_nanos() as f64;
    (C::between(instant, instant_end).as_nanos() as f64 - truth) / truth * 1e6
}

/// Counts readings that are earlier than one that another thread has already published.
///
/// Each thread repeatedly loads the published reading, reads the clock, compares and publishes.
fn out_of_order<C: Clock>(threads: u64, reads: u64) -> u64 {
    let base = C::now();
    // The base must be earlier than any reading of the threads, even if the clock is out of order.
    std::thread::sleep(Duration::from_millis(1));
    let published = AtomicU64::new(0);
    let barrier = Barrier::new(threads as usize);
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let mut violations = 0;
                    for _ in 0..reads / threads {
                        let before = published.load(Ordering::Acquire);
                        let now = C::between(base, C::now()).as_nanos() as u64;
                        violations += u64::from(now < before);
                        published.store(now, Ordering::Release);
                    }
                    violations
                })
            })
            .collect();
        started.into_iter().map(|t| t.join().expect("no panic")).sum()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn costs_ns(threads: u64) -> Vec<f64> {
    let barrier = Barrier::new(threads as usize);
    let per_thread: Vec<Vec<Vec<f64>>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut blocks = vec![Vec::with_capacity(BLOCKS); CLOCKS.len()];
                    for _ in 0..BLOCKS {
                        for (clock, blocks) in CLOCKS.iter().zip(&mut blocks) {
                            barrier.wait();
                            blocks.push((clock.block_ns)());
                        }
                    }
                    blocks
                })
            })
            .collect();
        started.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    (0..CLOCKS.len())
        .map(|i| median(per_thread.iter().flat_map(|b| b[i].iter().copied()).collect()))
        .collect()
}

/// Returns the cost of `elapsed` of each clock, interleaved on one thread.
fn elapsed_costs_ns() -> Vec<f64> {
    let mut blocks = vec![Vec::with_capacity(BLOCKS); CLOCKS.len()];
    for _ in 0..BLOCKS {
        CLOCKS
            .iter()
            .zip(&mut blocks)
            .for_each(|(clock, blocks)| blocks.push((clock.elapsed_ns)()));
    }
    blocks.into_iter().map(median).collect()
}

/// Measures the drift of all clocks over a number of seconds, at the same time.
fn print_drift(seconds: u64) {
    let span = Duration::from_secs(seconds);
    let drift: Vec<f64> = std::thread::scope(|scope| {
        let started: Vec<_> =
            CLOCKS.iter().map(|clock| scope.spawn(move || (clock.drift_ppm)(span))).collect();
        started.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let rows: Vec<Value> = CLOCKS
        .iter()
        .zip(drift)
        .map(|(clock, ppm)| json!({"clock": clock.name, "ppm": ppm}))
        .collect();
    let source = tach::source().to_string();
    println!("{:#}", json!({"clock_source": source, "span_s": seconds, "clocks": rows}));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let (mut seconds, mut reads) = (1, 10_000_000);
    while let Some(name) = arguments.next() {
        let value = arguments.next().and_then(|v| v.parse().ok());
        match (name.as_str(), value) {
            // The first use of each clock must happen in a new process.
            ("--first", Some(i)) => {
                println!("{}", (CLOCKS[i as usize].first_us)());
                return;
            }
            ("--drift", Some(span)) => return print_drift(span),
            ("--seconds", Some(n)) => seconds = n,
            ("--reads", Some(n)) => reads = n,
            _ => {
                eprintln!("usage: peers-clock [--seconds N] [--reads N], or peers-clock --drift N");
                std::process::exit(2);
            }
        }
    }
    let program = std::env::current_exe().expect("the path of this program");
    let first = |i: usize| {
        let run = || {
            let output = std::process::Command::new(&program)
                .args(["--first", &i.to_string()])
                .output()
                .expect("the program runs");
            String::from_utf8_lossy(&output.stdout).trim().parse::<f64>().expect("a number")
        };
        median((0..5).map(|_| run()).collect())
    };
    let costs: Vec<(u64, Vec<f64>)> = [1, 2, 4].map(|threads| (threads, costs_ns(threads))).into();
    let elapsed = elapsed_costs_ns();
    eprintln!(
        "{:<44}{:>9}{:>9}{:>9}{:>9}{:>13}{:>14}{:>14}",
        "", "ns: 1", "2", "4 thr.", "elapsed", "first, us", "drift, ppm", "out of order"
    );
    let rows: Vec<Value> = CLOCKS
        .iter()
        .enumerate()
        .map(|(i, clock)| {
            let ns: Vec<f64> = costs.iter().map(|(_, medians)| medians[i]).collect();
            let (first_us, drift) = (first(i), (clock.drift_ppm)(Duration::from_secs(seconds)));
            let out_of_order = (clock.out_of_order)(4, reads);
            eprintln!(
                "{:<44}{:>9.1}{:>9.1}{:>9.1}{:>9.1}{:>13.1}{:>14.3}{:>14}",
                clock.name, ns[0], ns[1], ns[2], elapsed[i], first_us, drift, out_of_order
            );
            json!({
                "clock": clock.name,
                "read_ns": costs.iter().map(|(n, medians)| json!({"threads": n, "median": medians[i]})).collect::<Vec<_>>(),
                "elapsed_ns": elapsed[i],
                "first_conversion_us": first_us,
                "drift": {"span_s": seconds, "ppm": drift},
                "order": {"threads": 4, "reads": reads, "violations": out_of_order},
            })
        })
        .collect();
    println!("{:#}", json!({"clock_source": tach::source().to_string(), "clocks": rows}));
}
