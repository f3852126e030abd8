//! The clocks that a program can choose from, and the loops that read them.
#![allow(clippy::disallowed_methods, reason = "the clocks are measured here")]

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, OnceLock};
use std::thread::{Builder, ScopedJoinHandle};
use std::time::{Duration, Instant};

use tach::{MonotonicInstant, OrderedInstant};

use crate::batches::mean_read_ns;

/// Readings per block: some hundred microseconds.
const READS: u64 = 10_000;
/// Maximum elapsed time that is plausible in a process that is seconds old.
const MAX_PLAUSIBLE_TIME: Duration = Duration::from_secs(86_400);

/// A clock under measurement.
///
/// Implementations are generic over the reading, so that it is inlined into the loops.
pub trait Clock: Sync {
    /// Measures the mean nanoseconds of a reading over a block of readings.
    fn block_ns(&self) -> f64;
    /// Returns `reads` consecutive readings as numbers.
    fn counts(&self, reads: usize) -> Vec<u64>;
    /// Compares readings across threads: each of `threads` threads checks `checks_per_thread` times
    /// whether the clock is behind a reading of another thread.
    ///
    /// # Errors
    ///
    /// Returns an error if a thread cannot be started.
    fn violations(&self, threads: u64, checks_per_thread: u64) -> io::Result<Vec<OrderViolations>>;
}

/// Readings of one thread that were behind an earlier reading of another thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderViolations {
    pub count: u64,
    /// Largest difference, in units of the clock.
    pub max_difference: u64,
}

/// Functions that read a clock and convert a reading to a number.
struct TypedClock<R, C>(R, C);

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> TypedClock<R, C> {
    fn count(&self) -> u64 {
        (self.1)((self.0)())
    }

    /// Checks readings of this thread against those that other threads publish.
    fn check_order(&self, published: &AtomicU64, checks: u64) -> OrderViolations {
        let mut violations = OrderViolations::default();
        for _ in 0..checks {
            let before = published.load(Ordering::Acquire);
            let now = self.count();
            if now < before {
                violations.count += 1;
                violations.max_difference = violations.max_difference.max(before - now);
            }
            published.store(now, Ordering::Release);
        }
        violations
    }
}

impl<T, R: Fn() -> T + Sync, C: Fn(T) -> u64 + Sync> Clock for TypedClock<R, C> {
    /// Does not convert the readings to numbers.
    fn block_ns(&self) -> f64 {
        mean_read_ns(READS, &self.0)
    }

    fn counts(&self, reads: usize) -> Vec<u64> {
        let mut counts = Vec::with_capacity(reads);
        counts.extend((0..reads).map(|_| self.count()));
        counts
    }

    fn violations(&self, threads: u64, checks_per_thread: u64) -> io::Result<Vec<OrderViolations>> {
        let published = AtomicU64::new(0);
        run_on_threads(threads, |_| self.check_order(&published, checks_per_thread))
    }
}

fn std_ns(now: Instant) -> u64 {
    static BASE: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    (now - *BASE.get_or_init(|| now)).as_nanos() as u64
}

/// The clocks that a program can choose from, with their names in the report.
pub const CLOCKS: [(&str, &dyn Clock); 4] = [
    ("tach-instant", &TypedClock(tach::Instant::now, tach::Instant::count)),
    ("tach-ordered", &TypedClock(OrderedInstant::now, OrderedInstant::count)),
    ("tach-monotonic", &TypedClock(MonotonicInstant::now, MonotonicInstant::count)),
    ("std", &TypedClock(Instant::now, std_ns)),
];

/// Reads the counter without order, and returns the maximum of all readings so far. The
/// `MonotonicInstant` of the crate tach 0.2 keeps its order by this method.
fn shared_maximum() -> u64 {
    static MAXIMUM: AtomicU64 = AtomicU64::new(0);
    let count = tach::count();
    MAXIMUM.fetch_max(count, Ordering::AcqRel).max(count)
}

/// Returns the clocks whose cost is measured: [`CLOCKS`], the bare instructions, the fenced reading
/// that ends a measured section, and a reading with a shared maximum for comparison.
pub fn costed_clocks() -> Vec<(&'static str, &'static dyn Clock)> {
    let bare: &[(&str, &dyn Clock)] = match tach::why_not_counter() {
        Some(_) => &[],
        None => &[
            ("bare-counter", &TypedClock(tach::bare::count, |count| count)),
            ("bare-ordered-counter", &TypedClock(tach::bare::ordered_count, |count| count)),
        ],
    };
    let compared: &[(&str, &dyn Clock)] = &[
        ("tach-fenced", &TypedClock(tach::fenced_count, |count| count)),
        ("shared-maximum", &TypedClock(shared_maximum, |count| count)),
    ];
    let [instants @ .., std] = &CLOCKS;
    [bare, instants, compared, &[*std]].concat()
}

/// Runs `work` on several threads at once. Its argument is the index of the thread.
///
/// # Errors
///
/// Returns an error if a thread cannot be started. None of them has done any work then.
pub fn run_on_threads<T: Send>(threads: u64, work: impl Fn(u64) -> T + Sync) -> io::Result<Vec<T>> {
    let barrier = &Barrier::new(threads as usize);
    let (are_started, work) = (&OnceLock::<bool>::new(), &work);
    std::thread::scope(|scope| {
        let mut started = Vec::new();
        for i in 0..threads {
            let run = move || {
                // Only if all threads exist can all of them reach the barrier.
                are_started.wait().then(|| {
                    barrier.wait();
                    work(i)
                })
            };
            match Builder::new().spawn_scoped(scope, run) {
                Ok(thread) => started.push(thread),
                Err(error) => {
                    let _ = are_started.set(false);
                    return Err(error);
                }
            }
        }
        let _ = are_started.set(true);
        let join = |thread: ScopedJoinHandle<'_, Option<T>>| {
            let result = thread.join().expect("the work does not panic");
            result.expect("all threads were started")
        };
        Ok(started.into_iter().map(join).collect())
    })
}

/// An instant of both clocks, read one after the other.
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

/// Calls that take about a microsecond.
const CALLS_PER_MICROSECOND: u64 = 40;

/// A block of equal calls of one clock.
pub struct CallBlock<'a> {
    pub clock: &'static str,
    /// Age of the instant whose elapsed time is computed.
    pub age: String,
    /// Runs the block and returns the nanoseconds of one call.
    pub measure_ns: Box<dyn Fn() -> f64 + 'a>,
}

impl<'a> CallBlock<'a> {
    fn new(clock: &'static str, age: &str, measure_ns: impl Fn() -> f64 + 'a) -> Self {
        Self { clock, age: age.to_owned(), measure_ns: Box::new(measure_ns) }
    }
}

/// Returns the blocks that measure the cost of `elapsed` for instants of different ages, and of a
/// reading for comparison. The first of `ages` is the oldest and is measured last.
pub fn elapsed_blocks(ages: &[(String, InstantPair)]) -> Vec<CallBlock<'_>> {
    let mut blocks = vec![
        CallBlock::new("tach-instant", "now", || mean_read_ns(READS, tach::Instant::now)),
        CallBlock::new("std", "now", || mean_read_ns(READS, Instant::now)),
        CallBlock::new("tach-instant", "now-elapsed", || {
            mean_read_ns(READS, || tach::Instant::now().elapsed())
        }),
        CallBlock::new("std", "now-elapsed", || mean_read_ns(READS, || Instant::now().elapsed())),
        CallBlock::new("tach-instant", "1us", || mean_fresh_ns(fresh_tach_ns)),
        CallBlock::new("std", "1us", || mean_fresh_ns(fresh_std_ns)),
    ];
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

/// Returns the mean cost of a call with instants that are at most a microsecond old.
fn mean_fresh_ns(measure_ns: fn(InstantPair) -> f64) -> f64 {
    let goes = READS / CALLS_PER_MICROSECOND;
    let costs = (0..goes).map(|_| measure_ns(black_box(InstantPair::now())));
    costs.sum::<f64>() / goes as f64
}

fn fresh_tach_ns(pair: InstantPair) -> f64 {
    mean_read_ns(CALLS_PER_MICROSECOND, || black_box(pair).tach.elapsed())
}

fn fresh_std_ns(pair: InstantPair) -> f64 {
    mean_read_ns(CALLS_PER_MICROSECOND, || black_box(pair).std.elapsed())
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

/// Counts implausible elapsed times since a reading of another thread.
///
/// Each of `threads` threads computes `checks_per_thread` elapsed times.
///
/// # Errors
///
/// Returns an error if a thread cannot be started.
pub fn count_absurd(threads: u64, checks_per_thread: u64) -> io::Result<u64> {
    let published = AtomicU64::new(tach::Instant::now().count());
    let counts = run_on_threads(threads, |_| check_elapsed(&published, checks_per_thread))?;
    Ok(counts.iter().sum())
}

/// Counts implausible elapsed times since the readings that other threads publish.
fn check_elapsed(published: &AtomicU64, checks: u64) -> u64 {
    let mut absurd = 0_u64;
    for _ in 0..checks {
        let latest = tach::Instant::from_count(published.load(Ordering::Acquire));
        absurd += u64::from(latest.elapsed() > MAX_PLAUSIBLE_TIME);
        published.store(tach::Instant::now().count(), Ordering::Release);
    }
    absurd
}
