//! The fallback for architectures without a supported counter. The OS clock is read instead, so
//! only `check_usable` is ever called.

use crate::source::{CounterUnavailable, Source, StatedRate};

pub(crate) const SOURCE: Source = Source::OsClock;
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// There is one ordered read only.
pub(crate) const HAS_FENCE: bool = false;

/// Panics, and is never called.
#[must_use]
pub fn count() -> u64 {
    unreachable!("no counter is trusted on this architecture")
}

/// Panics, and is never called.
#[must_use]
pub fn ordered_count() -> u64 {
    count()
}

#[inline]
pub(crate) fn count_after_fence() -> u64 {
    ordered_count()
}

pub(crate) fn fence_orders_reads() -> bool {
    false
}

pub(crate) fn fenced_count() -> u64 {
    count()
}

pub(crate) fn check_usable() -> Result<(), CounterUnavailable> {
    Err(CounterUnavailable::NoCounter)
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn cheap_stated_rate() -> Option<StatedRate> {
    stated_rate()
}
