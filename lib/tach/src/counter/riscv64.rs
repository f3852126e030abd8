//! The real-time counter of 64-bit RISC-V.

use core::arch::asm;

use crate::source::{CounterUnavailable, Source, StatedRate};

pub(crate) const SOURCE: Source = Source::Rdtime;

/// The counters of all harts are equal to within one count only (RISC-V unprivileged specification,
/// Zicntr), so a message may seem to arrive one count early.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// There is one ordered read only.
pub(crate) const HAS_FENCE: bool = false;

/// Reads the counter by the bare instruction.
#[inline]
#[must_use]
pub fn count() -> u64 {
    let count: u64;
    // SAFETY: reads a counter that supervisors open to user space (or emulate); no memory, no
    // flags, no stack. Without `nomem` the compiler moves no access across it, which the timeline
    // relies on.
    unsafe { asm!("rdtime {}", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Reads the counter after a fence. This is a best effort: a read of the counter is a device input,
/// which the fence orders, but an implementation may sample the counter early.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    // SAFETY: a fence only; without `nomem` the compiler moves no access across it.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
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
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    count
}

pub(crate) fn check_usable() -> Result<(), CounterUnavailable> {
    Ok(())
}

/// Returns `None`, since the rate is in the device tree, which user space may not be able to read.
pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn cheap_stated_rate() -> Option<StatedRate> {
    stated_rate()
}
