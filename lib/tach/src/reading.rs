//! Which clock is read, decided once per process; and the readings themselves, each behind one load
//! and one branch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::anchor::Anchor;
use crate::os::{self, OsInstant};
use crate::source::{CrossThreadOrder, Source, WhyNotCounter};
use crate::{counter, timeline};

/// Not decided yet. The order of these matters: from `COUNTER` on the counter is read.
const UNKNOWN: u8 = 0;
const OS_CLOCK: u8 = 1;
const COUNTER: u8 = 2;
const COUNTER_IN_ORDER: u8 = 3;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static DECISION: OnceLock<Result<CrossThreadOrder, WhyNotCounter>> = OnceLock::new();

fn decision() -> &'static Result<CrossThreadOrder, WhyNotCounter> {
    let mut mine = false;
    let decision = DECISION.get_or_init(|| {
        mine = true;
        decide()
    });
    if mine {
        // Before the count that asked is read: every count of this thread lies after the first
        // anchor.
        STATE.store(
            match decision {
                Ok(CrossThreadOrder::SharedMaximum) => COUNTER,
                Ok(_) => COUNTER_IN_ORDER,
                Err(_) => OS_CLOCK,
            },
            Ordering::Relaxed,
        );
        timeline::TIMELINE.begin(Anchor::take);
    }
    decision
}

/// What a count is a reading of. Decided once per process.
///
/// # Examples
/// ```
/// match tach::why_not_counter() {
///     None => println!("counts come from {}", tach::source()),
///     Some(why) => println!("counts are nanoseconds of the OS clock: {why}"),
/// }
/// ```
#[inline]
#[must_use]
pub fn source() -> Source {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::SOURCE } else { source_decided() }
}

#[cold]
fn source_decided() -> Source {
    if decision().is_ok() { counter::SOURCE } else { Source::OsClock }
}

/// Why the counter is not used; `None` if it is. See [`source`].
#[must_use]
pub fn why_not_counter() -> Option<WhyNotCounter> {
    decision().as_ref().err().cloned()
}

pub(crate) fn cross_thread_order() -> CrossThreadOrder {
    *decision().as_ref().unwrap_or(&CrossThreadOrder::OsClock)
}

fn decide() -> Result<CrossThreadOrder, WhyNotCounter> {
    if cfg!(tach_force_os_clock) {
        return Err(WhyNotCounter::Forced);
    }
    counter::usable()?;
    fits(counter::ordered_count())?;
    let trusted = os::kernel_trusts_counter()?;
    Ok(match (counter::ONE_FOR_ALL_CORES, trusted) {
        (true, _) => CrossThreadOrder::Architecture,
        (false, true) => CrossThreadOrder::Kernel,
        (false, false) => CrossThreadOrder::SharedMaximum,
    })
}

/// The largest count: the other half of 64 bits is for sums (see [`moment`](crate::moment)).
pub(crate) const LAST_COUNT: u64 = (1 << 63) - 1;

/// Whether instants can hold this count and those of the years to come: at 5 GHz there are 29
/// between the two halves.
fn fits(count: u64) -> Result<(), WhyNotCounter> {
    if count <= LAST_COUNT / 2 { Ok(()) } else { Err(WhyNotCounter::NearOverflow) }
}

/// Whether the kernel has given up the counter since this process began to use it, as its watchdog
/// does when it finds it unstable: do not trust spans that reach beyond that moment. Asks the
/// kernel, so keep it off hot paths.
///
/// # Examples
/// ```
/// if let Some(why) = tach::lost_trust() {
///     eprintln!("the figures of this run are void: {why}");
/// }
/// ```
#[must_use]
pub fn lost_trust() -> Option<WhyNotCounter> {
    decision().as_ref().ok().and_then(|_| os::kernel_trusts_counter().err())
}

/// One reading of the counter; earlier loads may still be in flight.
///
/// # Examples
/// ```
/// let (before, after) = (tach::count(), tach::count());
/// let counts = after - before; // of `info().rate_hz` counts per second
/// # let _ = counts;
/// ```
#[inline]
#[must_use]
pub fn count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::count() } else { first_or_os_clock() }
}

/// One reading of the counter that no earlier load can pass: what a time stamp beside shared state
/// needs. The crate's first example converts one.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER {
        counter::ordered_count()
    } else {
        first_or_os_clock()
    }
}

/// One reading of the counter that no earlier load can pass and no later instruction overtakes:
/// what ends a section under measurement.
///
/// # Examples
/// ```
/// let start = tach::ordered_count();
/// let sum = std::hint::black_box((0..100_u64).sum::<u64>());
/// let counts = tach::fenced_count() - start;
/// # let _ = (sum, counts);
/// ```
#[inline]
#[must_use]
pub fn fenced_count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER {
        counter::fenced_count()
    } else {
        first_or_os_clock()
    }
}

/// One reading that is never less than any reading like it that happened before, on whatever
/// thread.
#[inline]
pub(crate) fn monotonic_count() -> u64 {
    if STATE.load(Ordering::Relaxed) == COUNTER_IN_ORDER {
        counter::ordered_count()
    } else {
        enforced_or_first()
    }
}

#[cold]
#[inline(never)]
fn first_or_os_clock() -> u64 {
    match source_decided() {
        Source::OsClock => os_clock_count(),
        _ => counter::ordered_count(),
    }
}

#[cold]
#[inline(never)]
fn enforced_or_first() -> u64 {
    static LARGEST: AtomicU64 = AtomicU64::new(0);
    match cross_thread_order() {
        CrossThreadOrder::SharedMaximum => raise(&LARGEST, counter::ordered_count()),
        CrossThreadOrder::OsClock => os_clock_count(),
        _ => counter::ordered_count(),
    }
}

/// The largest of `count` and every count this was called with before.
fn raise(largest: &AtomicU64, count: u64) -> u64 {
    // A thread that is behind only needs to read.
    match largest.load(Ordering::Acquire) {
        seen if seen >= count => seen,
        _ => largest.fetch_max(count, Ordering::AcqRel).max(count),
    }
}

impl Anchor {
    /// Reads the OS clock between two counts, several times, and keeps the tightest pair: a few
    /// microseconds in all.
    #[must_use]
    pub fn take() -> Self {
        Self::tightest(ordered_count)
    }
}

/// The first count of the OS clock: so far from zero that moments of years ago have counts of their
/// own.
pub(crate) const OS_CLOCK_ORIGIN: u64 = 1 << 60;

pub(crate) fn os_clock_base() -> OsInstant {
    static BASE: OnceLock<OsInstant> = OnceLock::new();
    *BASE.get_or_init(os::now)
}

/// The OS clock as a count: nanoseconds.
fn os_clock_count() -> u64 {
    let base = os_clock_base();
    let since =
        u64::try_from(os::now().saturating_duration_since(base).as_nanos()).unwrap_or(u64::MAX);
    OS_CLOCK_ORIGIN.saturating_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::anchor::Conversion;
    use std::time::Duration;

    #[test]
    fn the_source_and_the_reason_agree_and_stay() {
        assert_eq!(source() == Source::OsClock, why_not_counter().is_some());
        assert_eq!(source(), source());
        assert_eq!(cross_thread_order() == CrossThreadOrder::OsClock, source() == Source::OsClock);
        assert_eq!(lost_trust(), None, "unless the kernel has really just given up the counter");
    }

    #[test]
    fn a_counter_that_starts_near_its_end_is_not_used() {
        assert_eq!(fits(1 << 61), Ok(()));
        assert_eq!(fits(1 << 62), Err(WhyNotCounter::NearOverflow));
        assert_eq!(fits(u64::MAX), Err(WhyNotCounter::NearOverflow));
    }

    #[test]
    fn the_private_cfg_forces_the_os_clock() {
        assert_eq!(why_not_counter() == Some(WhyNotCounter::Forced), cfg!(tach_force_os_clock));
    }

    #[test]
    fn each_read_is_not_less_than_the_one_before() {
        for _ in 0..100_000 {
            let reads = [ordered_count(), count(), ordered_count(), fenced_count()];
            assert!(reads.is_sorted(), "{reads:?}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "two anchors need some time between them")]
    fn converted_counts_agree_with_the_os_clock_within_the_bound() {
        let first = Anchor::take();
        // Each count lies between two clock readings, so the conversion must fall between them, up
        // to its bound.
        let reads: Vec<_> = (0..1_000).map(|_| (os::now(), ordered_count(), os::now())).collect();
        std::thread::sleep(Duration::from_millis(5));
        let conversion = Conversion::between(&first, &Anchor::take()).unwrap();
        let bound = conversion.error_bound_ns() as i64;
        for (before, count, after) in reads {
            assert!(conversion.ns_since(count, before) >= -bound);
            assert!(conversion.ns_since(count, after) <= bound);
        }
    }

    #[test]
    fn each_os_clock_count_is_a_nanosecond_of_that_clock() {
        let (before, outer) = (os_clock_count(), os::now());
        let inner_start = os::now();
        while os_clock_count() < before + 1_000_000 {}
        let inner = inner_start.elapsed();
        assert!(os_clock_count() - before >= 1_000_000);
        assert!(outer.elapsed() >= inner);
        assert!(before >= OS_CLOCK_ORIGIN);
    }

    #[test]
    fn a_shared_maximum_hides_counters_that_disagree() {
        // Every second thread's counter is behind by far: no thread may ever see that.
        let (largest, published) = (AtomicU64::new(0), AtomicU64::new(0));
        let clock = AtomicU64::new(1_000_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (largest, published, clock) = (&largest, &published, &clock);
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        let before = published.load(Ordering::Acquire);
                        let count = clock.fetch_add(1, Ordering::Relaxed) - (thread % 2) * 10_000;
                        let seen = raise(largest, count);
                        assert!(seen >= before && seen >= count);
                        published.store(seen, Ordering::Release);
                    }
                });
            }
        });
        assert!(largest.load(Ordering::Relaxed) >= 1_000_000);
    }
}
