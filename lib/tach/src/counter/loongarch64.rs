//! The stable counter of 64-bit `LoongArch`.

use core::arch::asm;

use crate::source::{CounterUnavailable, Source, StatedRate};

pub(crate) const SOURCE: Source = Source::Rdtime;

/// No guarantee of the architecture is relied on, so a shared maximum enforces the order.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// There is one ordered read only.
pub(crate) const HAS_FENCE: bool = false;

/// Reads the counter by the bare instruction.
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

/// Reads the counter after a barrier. This is a best effort: the barrier completes every earlier
/// access, but it is not specified when the counter is sampled.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    // SAFETY: a barrier only; without `nomem` the compiler moves no access across it.
    unsafe { asm!("dbar 0", options(nostack, preserves_flags)) };
    count()
}

#[inline]
pub(crate) fn count_after_fence() -> u64 {
    ordered_count()
}

pub(crate) fn fence_orders_reads() -> bool {
    false
}

#[inline]
pub(crate) fn fenced_count() -> u64 {
    let count = ordered_count();
    // SAFETY: the same as in `ordered_count`.
    unsafe { asm!("dbar 0", options(nostack, preserves_flags)) };
    count
}

pub(crate) fn check_usable() -> Result<(), CounterUnavailable> {
    Ok(())
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn cheap_stated_rate() -> Option<StatedRate> {
    stated_rate()
}
