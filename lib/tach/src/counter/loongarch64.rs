//! The stable counter of 64-bit `LoongArch`.

use core::arch::asm;

use crate::source::{Source, StatedRate, WhyNotCounter};

pub(crate) const SOURCE: Source = Source::Rdtime;

/// Nothing is relied on: strict order is enforced where it is asked for.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// The bare instruction.
#[inline]
#[must_use]
pub fn count() -> u64 {
    let count: u64;
    // SAFETY: reads the stable counter, which user space may; the counter's number goes to `$zero`.
    // No memory, no stack. Without `nomem` the compiler moves no access across it, which the
    // timeline relies on.
    unsafe { asm!("rdtime.d {}, $zero", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// A best effort: the barrier completes every earlier access, but nothing is stated on when the
/// counter is sampled.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    // SAFETY: a barrier only; without `nomem` the compiler moves no access across it.
    unsafe { asm!("dbar 0", options(nostack, preserves_flags)) };
    count()
}

#[inline]
pub(crate) fn fenced_count() -> u64 {
    let count = ordered_count();
    // SAFETY: as in `ordered_count`.
    unsafe { asm!("dbar 0", options(nostack, preserves_flags)) };
    count
}

pub(crate) fn usable() -> Result<(), WhyNotCounter> {
    Ok(())
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn rate_stated_cheaply() -> Option<StatedRate> {
    stated_rate()
}
