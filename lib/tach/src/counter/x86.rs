//! The time-stamp counter of x86 and `x86_64`.

#[cfg(target_arch = "x86")]
use core::arch::x86::{__cpuid, __rdtscp, _mm_lfence, _rdtsc, CpuidResult};
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc, CpuidResult};

use crate::source::{Source, StatedBy, StatedRate, WhyNotCounter};

pub(crate) const SOURCE: Source = Source::Tsc;

/// Neither vendor states that the counters of all cores agree; the kernel checks it.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// The bare instruction.
#[inline]
#[must_use]
pub fn count() -> u64 {
    // SAFETY: `usable` has found the counter, and it touches no memory. An operating system that
    // forbids it to user space makes it fault, which is no memory error.
    unsafe { _rdtsc() }
}

/// `rdtscp` waits until every earlier instruction has been executed and every earlier load is
/// globally visible (Intel SDM volume 2, RDTSCP; AMD APM volume 3, RDTSCP). A later store is seen
/// by others only after it retires, so after this.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    let mut processor = 0;
    // SAFETY: `usable` has found the instruction; it writes to `processor` only.
    unsafe { __rdtscp(&raw mut processor) }
}

#[inline]
pub(crate) fn fenced_count() -> u64 {
    let count = ordered_count();
    // SAFETY: part of SSE2, which this module is compiled for only; a fence and nothing else. It
    // holds back every later instruction until the counter has been read.
    unsafe { _mm_lfence() };
    count
}

/// The leaves of CPUID; the block is needed up to Rust 1.93 and superfluous after.
#[allow(unused_unsafe, reason = "a safe function in newer releases")]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every CPU with SSE2 has the `cpuid` instruction.
    unsafe { __cpuid(leaf) }
}

/// `leaf` of CPUID, unless it lies beyond the highest of its range.
fn leaf(leaf: u32) -> Option<CpuidResult> {
    const RANGE: u32 = 0xffff_0000;
    (leaf <= cpuid(leaf & RANGE).eax).then(|| cpuid(leaf))
}

/// Few leaves: under a hypervisor each costs microseconds.
pub(crate) fn usable() -> Result<(), WhyNotCounter> {
    const HIGHEST: u32 = 0x8000_0000;
    const FEATURES: u32 = 0x8000_0001;
    const RDTSCP: u32 = 1 << 27;
    // EDX bit 8: one rate in every power and performance state (Intel SDM volume 3, 18.17.1; AMD
    // APM volume 3, E.4.7).
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    if cpuid(HIGHEST).eax < POWER || cpuid(POWER).edx & INVARIANT_TSC == 0 {
        return Err(WhyNotCounter::NotInvariant);
    }
    if cpuid(FEATURES).edx & RDTSCP == 0 {
        return Err(WhyNotCounter::NoOrderedRead);
    }
    Ok(())
}

fn under_hypervisor() -> bool {
    const PRESENT: u32 = 1 << 31;
    cpuid(1).ecx & PRESENT != 0
}

/// Under a hypervisor reading the leaves takes longer than waiting for the anchors.
pub(crate) fn rate_stated_cheaply() -> Option<StatedRate> {
    if under_hypervisor() { None } else { stated_rate() }
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    let hypervisor = || {
        // Above the first leaf of a hypervisor, its own highest one; 10h is kHz of the counter by
        // VMware's convention, which KVM and others follow.
        const FIRST: u32 = 0x4000_0000;
        const TIMING: u32 = 0x4000_0010;
        let here = under_hypervisor() && (TIMING..FIRST + 0x100).contains(&cpuid(FIRST).eax);
        let khz = if here { cpuid(TIMING).eax } else { 0 };
        (khz > 0).then(|| StatedRate { hz: u64::from(khz) * 1_000, by: StatedBy::Hypervisor })
    };
    let crystal = || {
        // Intel SDM volume 2, CPUID: counter = ECX crystal Hz * EBX / EAX.
        let l = leaf(0x15)?;
        let (denominator, numerator, crystal_hz) =
            (u64::from(l.eax), u64::from(l.ebx), u64::from(l.ecx));
        let hz = (crystal_hz * numerator).checked_div(denominator).filter(|&hz| hz > 0)?;
        Some(StatedRate { hz, by: StatedBy::Cpu })
    };
    let base = || {
        // The base frequency in MHz, which the counter runs at where the crystal's is not stated.
        let mhz = leaf(0x16)?.eax & 0xffff;
        (mhz > 0).then(|| StatedRate { hz: u64::from(mhz) * 1_000_000, by: StatedBy::Cpu })
    };
    hypervisor().or_else(crystal).or_else(base)
}
