//! The counter instructions: the only `unsafe` of this crate.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod imp {
    use core::arch::x86_64::{__cpuid, _mm_lfence, _rdtsc};

    #[inline]
    pub(crate) fn count() -> u64 {
        // SAFETY: `rdtsc` exists on every x86_64 CPU and touches no memory; where an operating system forbids it to
        // user space the source is never trusted, so this is not reached.
        unsafe { _rdtsc() }
    }

    #[inline]
    pub(crate) fn ordered_count() -> u64 {
        // SAFETY: `lfence` is part of SSE2, which every x86_64 CPU has; it waits for earlier loads to complete.
        unsafe { _mm_lfence() };
        count()
    }

    /// CPUID 80000007h, EDX bit 8: the counter runs at one rate in every power state (Intel SDM 18.17.1, AMD APM 3 E.4.7).
    pub(crate) fn invariant() -> bool {
        const POWER_LEAF: u32 = 0x8000_0007;
        const INVARIANT_TSC: u32 = 1 << 8;
        // The block is needed up to Rust 1.93 and superfluous after.
        #[allow(unused_unsafe, reason = "a safe function in newer releases")]
        // SAFETY: every x86_64 CPU has the `cpuid` instruction.
        let cpuid = |leaf| unsafe { __cpuid(leaf) };
        cpuid(0x8000_0000).eax >= POWER_LEAF && cpuid(POWER_LEAF).edx & INVARIANT_TSC != 0
    }
}

#[cfg(target_arch = "aarch64")]
mod imp {
    use core::arch::asm;

    #[inline]
    pub(crate) fn count() -> u64 {
        let count: u64;
        // SAFETY: reads a system register that every supported operating system opens to user space; no memory, no
        // flags, no stack.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags)) };
        count
    }

    #[inline]
    pub(crate) fn ordered_count() -> u64 {
        // SAFETY: a barrier only; without `nomem` the compiler moves no load across it.
        unsafe { asm!("isb sy", options(nostack, preserves_flags)) };
        count()
    }

    /// The generic timer counts at one rate for all cores (Arm ARM, D12.1).
    pub(crate) fn invariant() -> bool {
        true
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod imp {
    pub(crate) fn count() -> u64 {
        unreachable!("no counter is trusted on this architecture")
    }

    pub(crate) fn ordered_count() -> u64 {
        count()
    }

    pub(crate) fn invariant() -> bool {
        false
    }
}

pub(crate) use imp::{count, invariant, ordered_count};
