//! Which clock is read, and why; and the readings themselves, each behind one load and one branch.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::counter;
use crate::os::{self, OsInstant};

/// What a count is a reading of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The x86 time-stamp counter.
    Tsc,
    /// The Arm virtual counter.
    Cntvct,
    /// The counter of RISC-V or `LoongArch`.
    Rdtime,
    /// Nanoseconds of the operating system's monotonic clock.
    OsClock,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tsc => "tsc",
            Self::Cntvct => "cntvct_el0",
            Self::Rdtime => "rdtime",
            Self::OsClock => "os-clock",
        })
    }
}

/// Why the counter is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNotCounter {
    /// This architecture has none that we read.
    NoCounter,
    /// Its rate follows the CPU's frequency.
    NotInvariant,
    /// The CPU has no instruction that reads it in order.
    NoOrderedRead,
    /// The kernel uses another clock source; it may have found the counter unstable.
    KernelUses(String),
    /// The kernel does not tell what it uses.
    KernelSilent,
    /// Built with `--cfg tach_force_os_clock`.
    Forced,
}

impl fmt::Display for WhyNotCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter => f.write_str("no counter is known for this architecture"),
            Self::NotInvariant => f.write_str("the counter is not invariant"),
            Self::NoOrderedRead => f.write_str("the CPU cannot read the counter in order"),
            Self::KernelUses(other) => write!(f, "the kernel's clock source is {other}, not tsc"),
            Self::KernelSilent => f.write_str("the kernel's clock source cannot be read"),
            Self::Forced => f.write_str("built with tach_force_os_clock"),
        }
    }
}

impl std::error::Error for WhyNotCounter {}

/// The rate of the counter by somebody's account: nominal, so checked against anchors and soon replaced by them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedRate {
    /// Counts a second.
    pub hz: u64,
    /// Who says so.
    pub by: StatedBy,
}

/// Who states a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatedBy {
    /// CPUID leaf 15h or 16h, or `cntfrq_el0`.
    Cpu,
    /// CPUID leaf 40000010h.
    Hypervisor,
}

impl fmt::Display for StatedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Hypervisor => "hypervisor",
        })
    }
}

/// How [`MonotonicInstant`](crate::MonotonicInstant) keeps its order across threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrossThreadOrder {
    /// An ordered read of a counter that the architecture states to be one for all cores.
    Architecture,
    /// An ordered read of a counter that the kernel has checked to agree on all cores, and keeps its own time with.
    Kernel,
    /// The largest count that any thread has seen, in one shared word: nobody vouches for the counters.
    SharedMaximum,
    /// The operating system's clock, which promises it.
    OsClock,
}

impl fmt::Display for CrossThreadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Architecture => "architecture",
            Self::Kernel => "kernel",
            Self::SharedMaximum => "shared-maximum",
            Self::OsClock => "os-clock",
        })
    }
}

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
        // Before the count that asked is read: every count of this thread lies after the first anchor.
        STATE.store(
            match decision {
                Ok(CrossThreadOrder::SharedMaximum) => COUNTER,
                Ok(_) => COUNTER_IN_ORDER,
                Err(_) => OS_CLOCK,
            },
            Ordering::Relaxed,
        );
        crate::instant::begin();
    }
    decision
}

/// What a count is a reading of. Decided once per process.
#[inline]
#[must_use]
pub fn source() -> Source {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::SOURCE } else { decided() }
}

#[cold]
fn decided() -> Source {
    if decision().is_ok() { counter::SOURCE } else { Source::OsClock }
}

/// Why the counter is not used; `None` if it is.
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
    let vouched = os::kernel_vouches()?;
    Ok(match (counter::ONE_FOR_ALL_CORES, vouched) {
        (true, _) => CrossThreadOrder::Architecture,
        (false, true) => CrossThreadOrder::Kernel,
        (false, false) => CrossThreadOrder::SharedMaximum,
    })
}

/// Whether the kernel has given up the counter since this process began to use it, as its watchdog does when it finds
/// it unstable: spans that reach beyond that moment are not to be trusted. Asks the kernel; not for hot paths.
#[must_use]
pub fn lost_trust() -> Option<WhyNotCounter> {
    decision().as_ref().ok().and_then(|_| os::kernel_vouches().err())
}

/// One reading of the counter; earlier loads may still be under way.
#[inline]
#[must_use]
pub fn count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::count() } else { first_or_os_clock() }
}

/// One reading of the counter that no earlier load can pass: what a time stamp beside shared state needs.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::ordered_count() } else { first_or_os_clock() }
}

/// One reading of the counter that no earlier load can pass, and that no later instruction overtakes: what ends a
/// section under measurement.
#[inline]
#[must_use]
pub fn fenced_count() -> u64 {
    if STATE.load(Ordering::Relaxed) >= COUNTER { counter::fenced_count() } else { first_or_os_clock() }
}

/// One reading that is never less than any reading like it that happened before, on whatever thread.
#[inline]
pub(crate) fn monotonic_count() -> u64 {
    if STATE.load(Ordering::Relaxed) == COUNTER_IN_ORDER { counter::ordered_count() } else { enforced_or_first() }
}

#[cold]
#[inline(never)]
fn first_or_os_clock() -> u64 {
    match decided() {
        Source::OsClock => os_clock_count(),
        _ => counter::ordered_count(),
    }
}

#[cold]
#[inline(never)]
fn enforced_or_first() -> u64 {
    static LARGEST: AtomicU64 = AtomicU64::new(0);
    match cross_thread_order() {
        CrossThreadOrder::SharedMaximum => at_least(&LARGEST, counter::ordered_count()),
        CrossThreadOrder::OsClock => os_clock_count(),
        _ => counter::ordered_count(),
    }
}

/// The largest of `count` and every count this was called with before.
fn at_least(largest: &AtomicU64, count: u64) -> u64 {
    // Whoever is behind needs to read only.
    match largest.load(Ordering::Acquire) {
        seen if seen >= count => seen,
        _ => largest.fetch_max(count, Ordering::AcqRel).max(count),
    }
}

/// The first count of the operating system's clock: so far from zero that a moment of years ago has a count too.
pub(crate) const OS_CLOCK_ORIGIN: u64 = 1 << 60;

pub(crate) fn os_clock_base() -> OsInstant {
    static BASE: OnceLock<OsInstant> = OnceLock::new();
    *BASE.get_or_init(os::now)
}

/// The operating system's clock as a count: nanoseconds.
fn os_clock_count() -> u64 {
    let base = os_clock_base();
    let since = u64::try_from(os::now().saturating_duration_since(base).as_nanos()).unwrap_or(u64::MAX);
    OS_CLOCK_ORIGIN.saturating_add(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_and_the_reason_agree_and_stay() {
        assert_eq!(source() == Source::OsClock, why_not_counter().is_some());
        assert_eq!(source(), source());
        assert_eq!(cross_thread_order() == CrossThreadOrder::OsClock, source() == Source::OsClock);
        assert_eq!(lost_trust(), None, "unless the kernel has really just given up the counter");
    }

    #[test]
    fn the_private_cfg_forces_the_os_clock() {
        assert_eq!(why_not_counter() == Some(WhyNotCounter::Forced), cfg!(tach_force_os_clock));
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
                        let seen = at_least(largest, count);
                        assert!(seen >= before && seen >= count);
                        published.store(seen, Ordering::Release);
                    }
                });
            }
        });
        assert!(largest.load(Ordering::Relaxed) >= 1_000_000);
    }
}
