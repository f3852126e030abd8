//! The virtual counter of 64-bit Arm.

use core::arch::asm;

use crate::source::{CounterUnavailable, Source, StatedBy, StatedRate};

pub(crate) const SOURCE: Source = Source::Cntvct;

/// The generic timer is one system counter for all cores. It must be impossible to observe time
/// going backwards between two cores that communicate (Arm Architecture Reference Manual, "The
/// system counter").
pub(crate) const ONE_FOR_ALL_CORES: bool = true;

/// There is one ordered read only.
pub(crate) const HAS_FENCE: bool = false;

/// Reads the counter by the bare instruction.
#[inline]
#[must_use]
pub fn count() -> u64 {
    let count: u64;
    // SAFETY: reads a system register that every supported operating system opens to user space; no
    // memory, no flags, no stack. Without `nomem` the compiler moves no access across it, which the
    // timeline relies on.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, preserves_flags)) };
    count
}

/// Reads the counter between two barriers and a load.
///
/// `isb` alone does not wait until an earlier load has its value, so `dsb ishld` does. `isb` then
/// prevents an early read of the register. The load at the end depends on the count. For every
/// later barrier and release store, the reading of the counter thus becomes an earlier load, as in
/// the Linux kernel.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    let count: u64;
    let word = 0_u64;
    // SAFETY: two barriers, the register of `count`, and a load from `word`, which lives on this
    // stack frame: the offset added to its address is `count ^ count`, zero.
    unsafe {
        asm!(
            "dsb ishld",
            "isb sy",
            "mrs {count}, cntvct_el0",
            "eor {scratch}, {count}, {count}",
            "ldr {scratch}, [{word}, {scratch}]",
            count = out(reg) count,
            scratch = out(reg) _,
            word = in(reg) &raw const word,
            options(nostack, preserves_flags)
        );
    }
    count
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
    // SAFETY: a barrier only; without `nomem` the compiler moves no access across it.
    unsafe { asm!("isb sy", options(nostack, preserves_flags)) };
    count
}

pub(crate) fn check_usable() -> Result<(), CounterUnavailable> {
    Ok(())
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    let hz: u64;
    // SAFETY: the same as in `count`; firmware has written the rate there.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags)) };
    (hz > 0).then_some(StatedRate { hz, by: StatedBy::Cpu })
}

pub(crate) fn cheap_stated_rate() -> Option<StatedRate> {
    stated_rate()
}
