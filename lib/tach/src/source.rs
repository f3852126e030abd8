//! Which clock is read, and why.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Instant;

/// What a count is a reading of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The x86 time-stamp counter.
    Tsc,
    /// The Arm virtual counter.
    Cntvct,
    /// Nanoseconds of the operating system's monotonic clock.
    OsClock,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tsc => "tsc",
            Self::Cntvct => "cntvct_el0",
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
            Self::KernelUses(other) => write!(f, "the kernel's clock source is {other}, not tsc"),
            Self::KernelSilent => f.write_str("the kernel's clock source cannot be read"),
            Self::Forced => f.write_str("built with tach_force_os_clock"),
        }
    }
}

impl std::error::Error for WhyNotCounter {}

const UNKNOWN: u8 = 0;
const COUNTER: u8 = 1;
const OS_CLOCK: u8 = 2;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static DECISION: OnceLock<Result<(), WhyNotCounter>> = OnceLock::new();

const COUNTER_SOURCE: Source = if cfg!(target_arch = "aarch64") { Source::Cntvct } else { Source::Tsc };

/// What a count is a reading of. Decided once per process; afterwards one load.
#[inline]
#[must_use]
pub fn source() -> Source {
    match STATE.load(Ordering::Relaxed) {
        COUNTER => COUNTER_SOURCE,
        _ => decided(),
    }
}

#[cold]
fn decided() -> Source {
    let trusted = DECISION.get_or_init(decide).is_ok();
    if STATE.swap(if trusted { COUNTER } else { OS_CLOCK }, Ordering::Relaxed) == UNKNOWN {
        // Before the count that asked is read: every count of this thread lies after the first anchor.
        crate::instant::begin();
    }
    if trusted { COUNTER_SOURCE } else { Source::OsClock }
}

/// Why the counter is not used; `None` if it is.
#[must_use]
pub fn why_not_counter() -> Option<WhyNotCounter> {
    DECISION.get_or_init(decide).clone().err()
}

fn decide() -> Result<(), WhyNotCounter> {
    if cfg!(tach_force_os_clock) {
        return Err(WhyNotCounter::Forced);
    }
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(WhyNotCounter::NoCounter);
    }
    if !crate::counter::invariant() {
        return Err(WhyNotCounter::NotInvariant);
    }
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        let name = std::fs::read_to_string(CURRENT).map_err(|_| WhyNotCounter::KernelSilent)?;
        if name.trim() != "tsc" {
            return Err(WhyNotCounter::KernelUses(name.trim().to_owned()));
        }
    }
    Ok(())
}

/// The operating system's clock as a count: nanoseconds since the first call.
#[cold]
#[allow(clippy::disallowed_methods, reason = "the home of the OS clock")]
pub(crate) fn os_clock_ns() -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    let base = BASE.get_or_init(Instant::now);
    u64::try_from(Instant::now().saturating_duration_since(*base).as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_and_the_reason_agree_and_stay() {
        assert_eq!(source() == Source::OsClock, why_not_counter().is_some());
        assert_eq!(source(), source());
    }
}
