//! Compares our clocks with those of other crates in one run.
//!
//!     peers-clock [--seconds N] [--reads N] > peers-clock.json
//!     peers-clock --drift SECONDS > drift.json
//!
//! Measures the cost of a read and of `elapsed` on several threads, the first conversion, the
//! drift from the clock of the operating system, and the order of instants across threads. The
//! clocks are interleaved. JSON goes to standard output. "First" is
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
/// Numbers of threads that read at once.
const THREADS: [u64; 4] = [1, 2, 4, 16];

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

fn drift_ppm<C: Clock>(span: Duration) -> f64 {
    let first = tach::read_paired(C::now);
    std::thread::sleep(span);
    let last = tach::read_paired(C::now);
    let truth = (last.at - first.at).as_nanos() as f64;
    (C::between(first.value, last.value).as_nanos() as f64 - truth) / truth * 1e6
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

/// The medians of a clock at a number of threads.
struct Costs {
    read_ns: f64,
    elapsed_ns: f64,
    /// Cost of a reading and of `elapsed`, each relative to that with a shared maximum in the same
    /// block.
    read_ratio: f64,
    elapsed_ratio: f64,
}

/// Mean nanoseconds of a block of readings, and of one of calls of `elapsed`.
struct BlockCosts {
    read_ns: f64,
    elapsed_ns: f64,
}

/// Returns the costs of each clock while several threads read at once. The clocks alternate.
fn measure_costs(threads: u64) -> Vec<Costs> {
    let barrier = Barrier::new(threads as usize);
    let run_blocks = || -> Vec<Vec<BlockCosts>> {
        let run_clock = |clock: &ClockBenchmark| {
            barrier.wait();
            let read_ns = (clock.block_ns)();
            barrier.wait();
            BlockCosts { read_ns, elapsed_ns: (clock.elapsed_ns)() }
        };
        (0..BLOCKS).map(|_| CLOCKS.iter().map(run_clock).collect()).collect()
    };
    let blocks: Vec<Vec<BlockCosts>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run_blocks)).collect();
        started.into_iter().flat_map(|t| t.join().expect("no panic")).collect()
    });
    let base = CLOCKS.iter().position(|clock| clock.name == SharedMaximum::NAME).expect("a clock");
    let medians = |i: usize| {
        let median_of = |value: fn(&BlockCosts, &BlockCosts) -> f64| {
            median(blocks.iter().map(|block| value(&block[i], &block[base])).collect())
        };
        Costs {
            read_ns: median_of(|clock, _| clock.read_ns),
            elapsed_ns: median_of(|clock, _| clock.elapsed_ns),
            read_ratio: median_of(|clock, base| clock.read_ns / base.read_ns),
            elapsed_ratio: median_of(|clock, base| clock.elapsed_ns / base.elapsed_ns),
        }
    };
    (0..CLOCKS.len()).map(medians).collect()
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
    let costs = THREADS.map(|threads| (threads, measure_costs(threads)));
    let rows: Vec<Value> = CLOCKS
        .iter()
        .enumerate()
        .map(|(i, clock)| {
            let values = |value: fn(&Costs) -> f64| -> Vec<Value> {
                let rows = costs.iter().map(|(n, costs)| (n, value(&costs[i])));
                rows.map(|(n, median)| json!({"threads": n, "median": median})).collect()
            };
            json!({
                "clock": clock.name,
                "read_ns": values(|costs| costs.read_ns),
                "elapsed_ns": values(|costs| costs.elapsed_ns),
                "read_ratio": values(|costs| costs.read_ratio),
                "elapsed_ratio": values(|costs| costs.elapsed_ratio),
                "first_conversion_us": first(i),
                "drift": {"span_s": seconds, "ppm": (clock.drift_ppm)(Duration::from_secs(seconds))},
                "order": {"threads": 4, "reads": reads, "violations": (clock.out_of_order)(4, reads)},
            })
        })
        .collect();
    println!("{:#}", json!({"clock_source": tach::source().to_string(), "clocks": rows}));
}
