//! The time-stamp counter of x86 and `x86_64`.

#[cfg(target_arch = "x86")]
use core::arch::x86::{__cpuid, __rdtscp, _mm_lfence, _rdtsc, CpuidResult};
#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc, CpuidResult};

use std::sync::OnceLock;

use crate::source::{CounterUnavailable, Source, StatedBy, StatedRate};

pub(crate) const SOURCE: Source = Source::Tsc;

/// Neither vendor specifies that the counters of all cores are equal, but the kernel checks it.
pub(crate) const ONE_FOR_ALL_CORES: bool = false;

/// Reads the counter by the bare instruction.
#[inline]
#[must_use]
pub fn count() -> u64 {
    // SAFETY: `check_usable` has found the counter, and the instruction accesses no memory. If the
    // operating system forbids it to user space, it faults, which is not a memory error.
    unsafe { _rdtsc() }
}

/// Reads the counter by `rdtscp`.
///
/// The instruction waits until every earlier instruction has been executed and every earlier load
/// is globally visible (Intel SDM volume 2, RDTSCP; AMD APM volume 3, RDTSCP). A later store
/// becomes visible to other cores only after it retires, and so after the read.
#[inline]
#[must_use]
pub fn ordered_count() -> u64 {
    let mut processor = 0;
    // SAFETY: `check_usable` has found the instruction; it writes to `processor` only.
    unsafe { __rdtscp(&raw mut processor) }
}

/// There are two ordered reads: `rdtscp`, and `rdtsc` after `lfence`.
pub(crate) const HAS_FENCE: bool = true;

/// Reads the counter after a fence, which is as ordered as `rdtscp` if `fence_orders_reads` is
/// true. On an AMD EPYC it takes an eighth less time.
///
/// The fence waits until every earlier instruction has been executed and every earlier load is
/// globally visible (Intel SDM volume 2, RDTSC; AMD APM volume 3, LFENCE). As for `rdtscp`, a later
/// store becomes visible to other cores only after the read.
#[inline]
pub(crate) fn count_after_fence() -> u64 {
    // SAFETY: part of SSE2, which this module is compiled for only; a fence and nothing else.
    unsafe { _mm_lfence() };
    count()
}

/// Checks whether `lfence` waits for earlier instructions. It always does on Intel's CPUs, and on
/// AMD's if the CPU states it (APM volume 3, CPUID Fn8000_0021). On older ones it depends on a
/// setting that user space cannot read.
pub(crate) fn fence_orders_reads() -> bool {
    const EXTENDED_FEATURES_2: u32 = 0x8000_0021;
    const LFENCE_ALWAYS_SERIALIZING: u32 = 1 << 2;
    if highest_extended_leaf() >= EXTENDED_FEATURES_2 {
        return cpuid(EXTENDED_FEATURES_2).eax & LFENCE_ALWAYS_SERIALIZING != 0;
    }
    let vendor = cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx] == [*b"Genu", *b"ineI", *b"ntel"].map(u32::from_le_bytes)
}

#[inline]
pub(crate) fn fenced_count() -> u64 {
    let count = ordered_count();
    // SAFETY: part of SSE2, which this module is compiled for only; a fence and nothing else. It
    // holds back every later instruction until the counter has been read.
    unsafe { _mm_lfence() };
    count
}

/// Reads a leaf of CPUID. The `unsafe` block is needed up to Rust 1.93 only.
#[allow(unused_unsafe, reason = "a safe function in newer releases")]
fn cpuid(leaf: u32) -> CpuidResult {
    // SAFETY: every CPU with SSE2 has the `cpuid` instruction.
    unsafe { __cpuid(leaf) }
}

/// Reads a leaf of CPUID; `None` if it is beyond the highest leaf of its range.
fn checked_cpuid(leaf: u32) -> Option<CpuidResult> {
    const RANGE: u32 = 0xffff_0000;
    if leaf <= cpuid(leaf & RANGE).eax { Some(cpuid(leaf)) } else { None }
}

/// Returns the highest leaf of the extended range. It is read once.
fn highest_extended_leaf() -> u32 {
    static HIGHEST: OnceLock<u32> = OnceLock::new();
    *HIGHEST.get_or_init(|| cpuid(0x8000_0000).eax)
}

/// Checks that the counter is invariant and that `rdtscp` exists. It reads few leaves, since each
/// costs microseconds under a hypervisor.
pub(crate) fn check_usable() -> Result<(), CounterUnavailable> {
    const FEATURES: u32 = 0x8000_0001;
    const RDTSCP: u32 = 1 << 27;
    // EDX bit 8: one rate in every power and performance state (Intel SDM volume 3, 18.17.1; AMD
    // APM volume 3, E.4.7).
    const POWER: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    if highest_extended_leaf() < POWER || cpuid(POWER).edx & INVARIANT_TSC == 0 {
        return Err(CounterUnavailable::NotInvariant);
    }
    if cpuid(FEATURES).edx & RDTSCP == 0 {
        return Err(CounterUnavailable::NoOrderedRead);
    }
    Ok(())
}

fn is_under_hypervisor() -> bool {
    const PRESENT: u32 = 1 << 31;
    cpuid(1).ecx & PRESENT != 0
}

/// Returns the stated rate; `None` under a hypervisor, where reading the leaves takes longer than
/// waiting for the anchors.
pub(crate) fn cheap_stated_rate() -> Option<StatedRate> {
    if is_under_hypervisor() { None } else { stated_rate() }
}

pub(crate) fn stated_rate() -> Option<StatedRate> {
    hypervisor_rate().or_else(crystal_rate).or_else(base_rate)
}

/// Returns the rate that the hypervisor states.
fn hypervisor_rate() -> Option<StatedRate> {
    // The first leaf contains the highest leaf of a hypervisor. By VMware's convention, which KVM
    // and others follow, leaf 10h contains the rate of the counter in kHz.
    const FIRST: u32 = 0x4000_0000;
    const TIMING: u32 = 0x4000_0010;
    let is_stated = is_under_hypervisor() && (TIMING..FIRST + 0x100).contains(&cpuid(FIRST).eax);
    let khz = if is_stated { cpuid(TIMING).eax } else { 0 };
    if khz > 0 {
        Some(StatedRate { hz: u64::from(khz) * 1_000, by: StatedBy::Hypervisor })
    } else {
        None
    }
}

/// Returns the rate that follows from the frequency of the crystal: crystal Hz (ECX) * EBX / EAX
/// (Intel SDM volume 2, CPUID).
fn crystal_rate() -> Option<StatedRate> {
    let leaf = checked_cpuid(0x15)?;
    let (denominator, numerator) = (u64::from(leaf.eax), u64::from(leaf.ebx));
    let crystal_hz = u64::from(leaf.ecx);
    let hz = (crystal_hz * numerator).checked_div(denominator).filter(|&hz| hz > 0)?;
    Some(StatedRate { hz, by: StatedBy::Cpu })
}

/// Returns the base frequency of the CPU, at which the counter runs if the frequency of the crystal
/// is not stated.
fn base_rate() -> Option<StatedRate> {
    let mhz = checked_cpuid(0x16)?.eax & 0xffff;
    if mhz > 0 {
        Some(StatedRate { hz: u64::from(mhz) * 1_000_000, by: StatedBy::Cpu })
    } else {
        None
    }
}
