//! Decides once per process which clock is read, and provides the reads. Each read is behind one
//! load and one branch.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::anchor::Anchor;
use crate::atomic_words::AtomicU64;
use crate::os::{self, OsInstant};
use crate::source::{CounterUnavailable, CrossThreadOrder, Source};
use crate::{bias, counter, timeline};

/// The clock is not decided yet. The order of these states matters: the counter is read from
/// `COUNTER` on, and after a fence from `FENCED` on.
const UNKNOWN: u8 = 0;
const OS_CLOCK: u8 = 1;
const COUNTER: u8 = 2;
/// The counter is read, and the architecture or the kernel guarantees its order across threads.
const COUNTER_IN_ORDER: u8 = 3;
/// `COUNTER` with ordered reads by a fence.
const FENCED: u8 = 4;
/// `COUNTER_IN_ORDER` with ordered reads by a fence.
const FENCED_IN_ORDER: u8 = 5;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static DECISION: OnceLock<Result<CrossThreadOrder, CounterUnavailable>> = OnceLock::new();

fn decision() -> &'static Result<CrossThreadOrder, CounterUnavailable> {
    let decision = DECISION.get_or_init(decide);
    // The rest is not part of the initialization, because taking an anchor needs the decision. All
    // of it has the same result if several threads do it.
    if STATE.load(Ordering::Relaxed) == UNKNOWN {
        let is_fenced = counter::HAS_FENCE && decision.is_ok() && counter::fence_orders_reads();
        let state = match (decision, is_fenced) {
            (Err(_), _) => OS_CLOCK,
            (Ok(CrossThreadOrder::SharedMaximum), false) => COUNTER,
            (Ok(CrossThreadOrder::SharedMaximum), true) => FENCED,
            (Ok(_), false) => COUNTER_IN_ORDER,
            (Ok(_), true) => FENCED_IN_ORDER,
        };
        STATE.store(state, Ordering::Relaxed);
        // The line begins before the caller's count is read, so every count of this thread is later
        // than the first anchor.
        timeline::TIMELINE.begin(Anchor::take);
        #[cfg(feature = "recalibrate-background")]
        if decision.is_ok() {
            crate::background::start_by_default(recalibrate);
        }
    }
    decision
}

/// Takes an anchor if counts come from a counter. Returns whether it did anything.
pub(crate) fn recalibrate() -> bool {
    source() != Source::OsClock && timeline::TIMELINE.recalibrate(ordered_count, Anchor::take)
}

/// Returns the clock that counts are read from. It is decided once per process.
///
/// # Examples
/// ```
/// match tach::why_not_counter() {
///     None => println!("counts come from {}", tach::source()),
///     Some(reason) => println!("counts are nanoseconds of the OS clock: {reason}"),
/// }
/// ```
#[inline]
#[must_use]
pub fn source() -> Source {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::SOURCE } else { decide_source() }
}

#[cold]
fn decide_source() -> Source {
    if decision().is_ok() { counter::SOURCE } else { Source::OsClock }
}

/// Returns the reason for which the counter is not used; `None` if it is used. [`source`] has an
/// example.
#[must_use]
pub fn why_not_counter() -> Option<CounterUnavailable> {
    decision().as_ref().err().cloned()
}

pub(crate) fn cross_thread_order() -> CrossThreadOrder {
    *decision().as_ref().unwrap_or(&CrossThreadOrder::OsClock)
}

fn decide() -> Result<CrossThreadOrder, CounterUnavailable> {
    if cfg!(tach_force_os_clock) {
        return Err(CounterUnavailable::Forced);
    }
    counter::check_usable()?;
    check_below_overflow(counter::ordered_count())?;
    let verified = os::is_verified_by_kernel()?;
    Ok(match (counter::ONE_FOR_ALL_CORES, verified) {
        (true, _) => CrossThreadOrder::Architecture,
        (false, true) => CrossThreadOrder::Kernel,
        (false, false) => CrossThreadOrder::SharedMaximum,
    })
}

/// The largest count. The other half of the 64-bit range is for sums (see [`repr`](crate::repr)).
pub(crate) const MAX_COUNT: u64 = (1 << 63) - 1;

/// Checks that instants can hold this count and those of the next years. At 5 GHz the counter needs
/// 29 years from half of `MAX_COUNT` to `MAX_COUNT`.
fn check_below_overflow(count: u64) -> Result<(), CounterUnavailable> {
    if count <= MAX_COUNT / 2 { Ok(()) } else { Err(CounterUnavailable::NearOverflow) }
}

/// Checks that the kernel has not given up the counter since this process began to use it, as its
/// watchdog does when it finds the counter unstable. It reads a file of the kernel, so keep it off
/// hot paths.
///
/// If counts come from the OS clock, nothing needs to be checked, and the result is `Ok`.
///
/// # Errors
/// Returns an error if the kernel uses another clock source now, or if its clock source cannot be
/// read. Do not trust spans that reach beyond that time.
///
/// # Examples
/// ```
/// if let Err(reason) = tach::check_counter() {
///     eprintln!("the numbers of this run are invalid: {reason}");
/// }
/// ```
pub fn check_counter() -> Result<(), CounterUnavailable> {
    if decision().is_ok() {
        os::is_verified_by_kernel()?;
    }
    Ok(())
}

/// Reads the counter. Earlier loads may still be in flight.
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
    if STATE.load(Ordering::Relaxed) >= COUNTER {
        counter::count()
    } else {
        read_first_or_os_clock()
    }
}

/// Reads the counter such that no earlier load can pass the read. Use it for a timestamp that is
/// ordered with shared state. The crate's first example converts one.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    let state = STATE.load(Ordering::Relaxed);
    if counter::HAS_FENCE && state >= FENCED {
        counter::count_after_fence()
    } else if state >= COUNTER {
        counter::ordered_count()
    } else {
        read_first_or_os_clock()
    }
}

/// Reads the counter such that no earlier load can pass the read and no later instruction can
/// overtake it. Use it at the end of a measured section.
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
        read_first_or_os_clock()
    }
}

/// Reads the counter such that the result is never less than an earlier result of this function on
/// any thread.
#[inline]
pub(crate) fn monotonic_count() -> u64 {
    let biased_count = if MAY_BE_IN_ORDER { bias::read_biased(counter::count) } else { None };
    biased_count.unwrap_or_else(unbiased_monotonic_count)
}

/// Whether this platform can guarantee the order of the counter across threads.
const MAY_BE_IN_ORDER: bool = counter::ONE_FOR_ALL_CORES || os::CAN_KERNEL_VERIFY_COUNTER;

/// Reads the counter like [`monotonic_count`] on a thread that does not have the bias. It is not
/// inlined, because a fence or a shared word costs more than the call.
#[inline(never)]
fn unbiased_monotonic_count() -> u64 {
    static MAXIMUM: AtomicU64 = AtomicU64::new(0);
    let state = STATE.load(Ordering::Relaxed);
    if counter::HAS_FENCE && state == FENCED_IN_ORDER {
        bias::read_fenced(counter::count_after_fence)
    } else if state == COUNTER_IN_ORDER {
        bias::read_fenced(counter::ordered_count)
    } else if state >= COUNTER {
        // The shared word alone keeps the order, so the bare instruction is enough.
        raise_to(&MAXIMUM, counter::count())
    } else {
        read_first_monotonic_or_os_clock()
    }
}

#[cold]
#[inline(never)]
fn read_first_monotonic_or_os_clock() -> u64 {
    match decide_source() {
        Source::OsClock => os_clock_count(),
        _ => unbiased_monotonic_count(),
    }
}

#[cold]
#[inline(never)]
fn read_first_or_os_clock() -> u64 {
    match decide_source() {
        Source::OsClock => os_clock_count(),
        _ => counter::ordered_count(),
    }
}

/// Raises `maximum` to `count` if it is less, and returns the new maximum.
fn raise_to(maximum: &AtomicU64, count: u64) -> u64 {
    // A thread whose counter is behind reads the word but does not write it.
    match maximum.load(Ordering::Acquire) {
        current if current >= count => current,
        _ => maximum.fetch_max(count, Ordering::AcqRel).max(count),
    }
}

impl Anchor {
    /// Reads the OS clock between two counts several times, and keeps the reading with the
    /// narrowest bracket. This costs a few microseconds in total.
    #[must_use]
    pub fn take() -> Self {
        Self::with_min_bracket(ordered_count)
    }
}

/// The first count of the OS clock. It is so far from zero that times of years ago have counts as
/// well.
pub(crate) const OS_CLOCK_ORIGIN: u64 = 1 << 60;

pub(crate) fn os_clock_base() -> OsInstant {
    static BASE: OnceLock<OsInstant> = OnceLock::new();
    *BASE.get_or_init(os::now)
}

/// Reads the OS clock as a count of nanoseconds.
fn os_clock_count() -> u64 {
    let base = os_clock_base();
    let elapsed = os::now().saturating_duration_since(base);
    OS_CLOCK_ORIGIN.saturating_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::anchor::Conversion;
    use std::time::Duration;

    #[test]
    fn source_and_reason_agree() {
        assert_eq!(source() == Source::OsClock, why_not_counter().is_some());
        assert_eq!(source(), source());
        assert_eq!(cross_thread_order() == CrossThreadOrder::OsClock, source() == Source::OsClock);
        assert_eq!(
            check_counter(),
            Ok(()),
            "unless the kernel has really just given up the counter"
        );
    }

    #[test]
    fn counter_near_overflow_is_rejected() {
        assert_eq!(check_below_overflow(1 << 61), Ok(()));
        assert_eq!(check_below_overflow(1 << 62), Err(CounterUnavailable::NearOverflow));
        assert_eq!(check_below_overflow(u64::MAX), Err(CounterUnavailable::NearOverflow));
    }

    #[test]
    fn cfg_forces_the_os_clock() {
        assert_eq!(
            why_not_counter() == Some(CounterUnavailable::Forced),
            cfg!(tach_force_os_clock)
        );
    }

    #[test]
    fn reads_never_go_back() {
        for _ in 0..100_000 {
            let reads = [ordered_count(), count(), ordered_count(), fenced_count()];
            assert!(reads.is_sorted(), "{reads:?}");
        }
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "two anchors need some time between them")]
    fn conversions_match_os_clock_within_bound() {
        let first = Anchor::take();
        // Each count is read between two readings of the clock, so its conversion must be between
        // them, up to its bound.
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
    fn os_clock_counts_are_nanoseconds() {
        let (before, outer) = (os_clock_count(), os::now());
        let inner_start = os::now();
        while os_clock_count() < before + 1_000_000 {}
        let inner = inner_start.elapsed();
        assert!(os_clock_count() - before >= 1_000_000);
        assert!(outer.elapsed() >= inner);
        assert!(before >= OS_CLOCK_ORIGIN);
    }

    #[test]
    fn shared_maximum_hides_differing_counters() {
        // The counter of every second thread is far behind, and no thread may ever see that.
        let (maximum, published) = (AtomicU64::new(0), AtomicU64::new(0));
        let clock = AtomicU64::new(1_000_000);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (maximum, published, clock) = (&maximum, &published, &clock);
                scope.spawn(move || {
                    for _ in 0..50_000 {
                        let before = published.load(Ordering::Acquire);
                        let count = clock.fetch_add(1, Ordering::Relaxed) - (thread % 2) * 10_000;
                        let raised = raise_to(maximum, count);
                        assert!(raised >= before && raised >= count);
                        published.store(raised, Ordering::Release);
                    }
                });
            }
        });
        assert!(maximum.load(Ordering::Relaxed) >= 1_000_000);
    }
}
