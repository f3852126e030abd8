//! No counter: the OS clock is read instead, and nothing here but `usable` is reached.

use crate::source::{Source, StatedRate, WhyNotCounter};

pub(crate) const SOURCE: Source = Source::OsClock;
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// Never reached.
#[must_use]
pub fn count() -> u64 {
    unreachable!("no counter is trusted on this architecture")
}

/// Never reached.
#[must_use]
pub fn ordered_count() -> u64 {
    count()
}

pub(crate) fn fenced_count() -> u64 {
    count()
}

pub(crate) fn usable() -> Result<(), WhyNotCounter> {
    Err(WhyNotCounter::NoCounter)
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn rate_stated_cheaply() -> Option<StatedRate> {
    stated_rate()
}
