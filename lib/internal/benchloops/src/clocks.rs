//! The clocks a program may choose from, and the loops that read them.
#![allow(clippy::disallowed_methods, reason = "the clocks are what is measured here")]

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tach::{MonotonicInstant, OrderedInstant};

use crate::batches::mean_read_ns;

/// Reads between two looks at the clock that times them: some hundred microseconds.
const READS: u64 = 10_000;
/// An elapsed time above this is absurd in a process that is seconds old.
const ABSURD: Duration = Duration::from_secs(86_400);

/// A clock under measurement. Each method is generic over the reading inside, so no call stands
/// between two reads.
pub trait Clock: Sync {
    /// Nanoseconds of a reading, from a block of them.
    fn block_ns(&self) -> f64;
    /// So many readings in a row, as numbers.
    fn counts(&self, reads: usize) -> Vec<u64>;
    /// So many threads, each of which looks so often whether the clock is behind what another one
    /// read: how often it was, and the most it was.
    fn violations(&self, threads: u64, each: u64) -> Vec<(u64, u64)>;
}

/// How a clock is read, and what number a reading is.
struct TypedClock<R, C>(R, C);

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> TypedClock<R, C> {
    fn count(&self) -> u64 {
        (self.1)((self.0)())
    }
}

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> Clock for TypedClock<R, C> {
    /// Turning a reading into a number is no part of it.
    fn block_ns(&self) -> f64 {
        mean_read_ns(READS, &self.0)
    }

    fn counts(&self, reads: usize) -> Vec<u64> {
        let mut counts = Vec::with_capacity(reads);
        counts.extend((0..reads).map(|_| self.count()));
        counts
    }

    fn violations(&self, threads: u64, each: u64) -> Vec<(u64, u64)> {
        let published = AtomicU64::new(0);
        run_on_threads(threads, |_| {
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
        })
    }
}

fn std_ns(now: Instant) -> u64 {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    (now - *BASE.get_or_init(|| now)).as_nanos() as u64
}

/// The clocks a program may choose from, by the names they have in the report.
pub const CLOCKS: [(&str, &dyn Clock); 4] = [
    ("tach-instant", &TypedClock(tach::Instant::now, tach::Instant::count)),
    ("tach-ordered", &TypedClock(OrderedInstant::now, OrderedInstant::count)),
    ("tach-monotonic", &TypedClock(MonotonicInstant::now, MonotonicInstant::count)),
    ("std", &TypedClock(Instant::now, std_ns)),
];

/// Beside those, for the cost only: the instructions by themselves, and what ends a measured
/// section.
pub fn costed_clocks() -> Vec<(&'static str, &'static dyn Clock)> {
    let bare: &[(&str, &dyn Clock)] = match tach::why_not_counter() {
        Some(_) => &[],
        None => &[
            ("bare-counter", &TypedClock(tach::bare::count, |count| count)),
            ("bare-ordered-counter", &TypedClock(tach::bare::ordered_count, |count| count)),
        ],
    };
    let [instants @ .., std] = &CLOCKS;
    [bare, instants, &[("tach-fenced", &TypedClock(tach::fenced_count, |count| count))], &[*std]]
        .concat()
}

/// Runs `work` on so many threads at once, with the number of the thread.
pub fn run_on_threads<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
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

/// The same moment by both clocks.
#[derive(Clone, Copy)]
pub struct InstantPair {
    pub tach: tach::Instant,
    pub std: Instant,
}

impl InstantPair {
    pub fn now() -> Self {
        Self { tach: tach::Instant::now(), std: Instant::now() }
    }
}

/// Calls of a block within a microsecond.
const CALLS_PER_MICROSECOND: u64 = 40;

/// Calls of one kind, by one clock.
pub struct CallBlock<'a> {
    pub clock: &'static str,
    /// Of the instant that is asked how long ago it was.
    pub age: String,
    /// Runs a block, and gives the nanoseconds of one call.
    pub ns: Box<dyn Fn() -> f64 + 'a>,
}

impl<'a> CallBlock<'a> {
    fn new(clock: &'static str, age: &str, ns: impl Fn() -> f64 + 'a) -> Self {
        Self { clock, age: age.to_owned(), ns: Box::new(ns) }
    }
}

/// What `elapsed` costs by age, each of these and an instant just taken, beside a reading. The
/// oldest is the first of them.
pub fn elapsed_blocks(ages: &[(String, InstantPair)]) -> Vec<CallBlock<'_>> {
    let mut blocks = vec![
        CallBlock::new("tach-instant", "now", || mean_read_ns(READS, tach::Instant::now)),
        CallBlock::new("std", "now", || mean_read_ns(READS, Instant::now)),
        CallBlock::new("tach-instant", "now-elapsed", || {
            mean_read_ns(READS, || tach::Instant::now().elapsed())
        }),
        CallBlock::new("std", "now-elapsed", || mean_read_ns(READS, || Instant::now().elapsed())),
    ];
    let fresh = |call: fn(InstantPair) -> f64| {
        move || {
            let goes = READS / CALLS_PER_MICROSECOND;
            (0..goes).map(|_| call(black_box(InstantPair::now()))).sum::<f64>() / goes as f64
        }
    };
    let tach = fresh(|pair| mean_read_ns(CALLS_PER_MICROSECOND, || black_box(pair).tach.elapsed()));
    let std = fresh(|pair| mean_read_ns(CALLS_PER_MICROSECOND, || black_box(pair).std.elapsed()));
    blocks.push(CallBlock::new("tach-instant", "1us", tach));
    blocks.push(CallBlock::new("std", "1us", std));
    for (age, pair) in ages.iter().skip(1).chain(ages.first()) {
        blocks.push(CallBlock::new("tach-instant", age, move || {
            mean_read_ns(READS, || black_box(pair).tach.elapsed())
        }));
        blocks.push(CallBlock::new("std", age, move || {
            mean_read_ns(READS, || black_box(pair).std.elapsed())
        }));
    }
    blocks
}

/// Costs of the first use of a clock in a process.
pub struct FirstUse {
    /// Time of the first reading.
    pub read: Duration,
    /// Time of the first conversion.
    pub conversion: Duration,
    /// The first instants.
    pub instants: InstantPair,
}

/// Reads and converts for the first time in this process, and measures both.
pub fn measure_first_use() -> FirstUse {
    let before = Instant::now();
    let instant = tach::Instant::now();
    let read = Instant::now();
    let span = instant.elapsed();
    let converted = Instant::now();
    black_box(span);
    FirstUse {
        read: read - before,
        conversion: converted - read,
        instants: InstantPair { tach: instant, std: before },
    }
}

/// How often the time elapsed since another thread's reading is absurd: so many threads, each of
/// which looks so often.
pub fn count_absurd(threads: u64, each: u64) -> u64 {
    let published = AtomicU64::new(tach::Instant::now().count());
    let found = run_on_threads(threads, |_| {
        let mut absurd = 0_u64;
        for _ in 0..each {
            let theirs = tach::Instant::from_count(published.load(Ordering::Acquire));
            absurd += u64::from(theirs.elapsed() > ABSURD);
            published.store(tach::Instant::now().count(), Ordering::Release);
        }
        absurd
    });
    found.iter().sum()
}
