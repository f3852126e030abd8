//! The real-time counter of 64-bit RISC-V.

use core::arch::asm;

use crate::source::{Source, StatedRate, WhyNotCounter};

pub(crate) const SOURCE: Source = Source::Rdtime;

/// All harts agree to within one count only (RISC-V unprivileged specification, Zicntr): a message
/// may seem to arrive one count early.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// The bare instruction.
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

/// A best effort: reading the counter is an input of the device kind, and the fence orders those,
/// but how early an implementation samples it is its own affair.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    // SAFETY: a fence only; without `nomem` the compiler moves no access across it.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    count()
}

#[inline]
pub(crate) fn fenced_count() -> u64 {
    let count = ordered_count();
    // SAFETY: as in `ordered_count`.
    unsafe { asm!("fence iorw, iorw", options(nostack, preserves_flags)) };
    count
}

pub(crate) fn usable() -> Result<(), WhyNotCounter> {
    Ok(())
}

/// The device tree knows it, which user space need not see.
pub(crate) fn stated_rate() -> Option<StatedRate> {
    None
}

pub(crate) fn rate_stated_cheaply() -> Option<StatedRate> {
    stated_rate()
}
