//! Resources of a process by `getrusage`, on all Unix systems except Linux, which has a finer clock
//! for the CPU time.

use std::mem::MaybeUninit;

use crate::machine::os::types::Usage;

/// Returns the CPU time and context switches of this process.
pub fn usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage` of ours, which the call fills and does not keep.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return Usage::default();
    }
    // SAFETY: the call succeeded, and all-zero was a valid `rusage` before.
    let usage = unsafe { usage.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "the fields differ in width from system to system")]
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    Usage {
        cpu_ns: Some(ns(usage.ru_utime) + ns(usage.ru_stime)),
        switches_voluntary: u64::try_from(usage.ru_nvcsw).ok(),
        switches_involuntary: u64::try_from(usage.ru_nivcsw).ok(),
    }
}
