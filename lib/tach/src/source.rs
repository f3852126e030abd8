//! The types that describe the clock: its source, why it is not the counter, its stated rate and
//! how it keeps its order.

use std::fmt;

/// The clock that counts are read from. Its text form is stable and meant for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum Source {
    /// The x86 time-stamp counter.
    Tsc,
    /// The Arm virtual counter.
    #[cfg_attr(feature = "serde", serde(rename = "cntvct_el0"))]
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

/// The reason for which the counter is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum CounterUnavailable {
    /// This crate supports no counter of the architecture.
    NoCounter,
    /// The rate of the counter follows the CPU's frequency.
    NotInvariant,
    /// The CPU has no instruction that reads the counter in order.
    NoOrderedRead,
    /// The counter is so high that instants could not hold its counts of the next years.
    NearOverflow,
    /// The kernel uses another clock source; it may have found the counter unstable.
    KernelUses(String),
    /// The kernel's clock source cannot be read.
    KernelSilent,
    /// The crate was built with `--cfg tach_force_os_clock`.
    Forced,
}

impl fmt::Display for CounterUnavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCounter => f.write_str("no counter is supported on this architecture"),
            Self::NotInvariant => f.write_str("the counter is not invariant"),
            Self::NoOrderedRead => f.write_str("the CPU cannot read the counter in order"),
            Self::NearOverflow => f.write_str("the counter is near its overflow"),
            Self::KernelUses(other) => write!(f, "the kernel's clock source is {other}, not tsc"),
            Self::KernelSilent => f.write_str("the kernel's clock source cannot be read"),
            Self::Forced => f.write_str("built with tach_force_os_clock"),
        }
    }
}

impl std::error::Error for CounterUnavailable {}

/// The nominal rate of the counter, as stated by the CPU or the hypervisor. It is checked against
/// the first anchors and replaced by the rate that they give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StatedRate {
    /// Counts per second.
    pub hz: u64,
    /// The origin of the statement.
    pub by: StatedBy,
}

/// The origin of a stated rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
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

/// The means by which [`MonotonicInstant`](crate::MonotonicInstant) keeps its order across threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum CrossThreadOrder {
    /// An ordered read of a counter that all cores share, as the architecture specifies.
    Architecture,
    /// An ordered read of a counter that the kernel has checked on all cores and uses as its clock
    /// source.
    Kernel,
    /// One shared word with the largest count that any thread has read, since nothing guarantees
    /// that the counters of the cores are equal.
    SharedMaximum,
    /// The OS clock, which guarantees the order.
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
