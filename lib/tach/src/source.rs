//! What a count is a reading of, and what is known about it: the types in which the rest of the
//! crate answers.

use std::fmt;

/// What a count is a reading of. Its text form is stable and meant for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Source {
    /// The x86 time-stamp counter.
    Tsc,
    /// The Arm virtual counter.
    Cntvct,
    /// The counter of RISC-V or `LoongArch`.
    Rdtime,
    /// Nanoseconds of the OS's monotonic clock.
    OsClock,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tsc => "tsc",
            Self::Cntvct => "cntvct_el0",
            Self::Rdtime => "rdtime",
            Self::OsClock => "os-clock",
        })
    }
}

/// Why the counter is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WhyNotCounter {
    /// This crate knows no counter for the architecture.
    NoCounter,
    /// Its rate follows the CPU's frequency.
    NotInvariant,
    /// The CPU has no instruction that reads it in order.
    NoOrderedRead,
    /// It has come so far that an instant could not hold its counts for years to come.
    NearOverflow,
    /// The kernel uses another clock source; it may have found the counter unstable.
    KernelUses(String),
    /// The kernel's clock source cannot be read.
    KernelSilent,
    /// Built with `--cfg tach_force_os_clock`.
    Forced,
}

impl fmt::Display for WhyNotCounter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter => f.write_str("no counter is known for this architecture"),
            Self::NotInvariant => f.write_str("the counter is not invariant"),
            Self::NoOrderedRead => f.write_str("the CPU cannot read the counter in order"),
            Self::NearOverflow => f.write_str("the counter is near its overflow"),
            Self::KernelUses(other) => write!(f, "the kernel's clock source is {other}, not tsc"),
            Self::KernelSilent => f.write_str("the kernel's clock source cannot be read"),
            Self::Forced => f.write_str("built with tach_force_os_clock"),
        }
    }
}

impl std::error::Error for WhyNotCounter {}

/// The nominal rate of the counter, as stated by the CPU or the hypervisor. Anchors check it, and
/// soon replace it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatedRate {
    /// Counts per second.
    pub hz: u64,
    /// Who states it.
    pub by: StatedBy,
}

/// Who states a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StatedBy {
    /// CPUID leaf 15h or 16h, or `cntfrq_el0`.
    Cpu,
    /// CPUID leaf 40000010h.
    Hypervisor,
}

impl fmt::Display for StatedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Hypervisor => "hypervisor",
        })
    }
}

/// How [`MonotonicInstant`](crate::MonotonicInstant) keeps its order across threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrossThreadOrder {
    /// An ordered read of a counter that, by the architecture's own rules, is one for all cores.
    Architecture,
    /// An ordered read of a counter that the kernel has checked on all cores and keeps its own time
    /// with.
    Kernel,
    /// The largest count that any thread has seen, in one shared word: nothing guarantees that the
    /// counters agree.
    SharedMaximum,
    /// The OS clock, which guarantees it.
    OsClock,
}

impl fmt::Display for CrossThreadOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Architecture => "architecture",
            Self::Kernel => "kernel",
            Self::SharedMaximum => "shared-maximum",
            Self::OsClock => "os-clock",
        })
    }
}
