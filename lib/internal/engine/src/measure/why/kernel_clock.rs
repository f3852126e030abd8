//! Conversion of the kernel's time stamps to the time line of a round.

use std::time::Instant;

use files::why::Switch;

use crate::machine::os;
use cli::units::ns_after;

/// The clock of the kernel's records, relative to the origin of a round.
///
/// In a time namespace, `CLOCK_MONOTONIC` of this process and its programs has an offset to it.
#[derive(Debug)]
pub struct KernelClock {
    /// Origin by `CLOCK_MONOTONIC` of this process.
    origin_ns: i128,
    offset_ns: i64,
}

impl KernelClock {
    /// Reads the clock. Returns `None` if the platform has no such clock.
    pub fn new(origin: Instant) -> Option<Self> {
        let (at, ns) = os::monotonic_pair().ok()?;
        let origin_ns = i128::from(ns) - i128::from(ns_after(at, origin));
        Some(Self { origin_ns, offset_ns: os::clock_offsets().monotonic_ns })
    }

    /// Converts the time of a record of the kernel to nanoseconds after the origin.
    pub fn ns(&self, at_ns: u64) -> i64 {
        self.process_ns(i128::from(at_ns) + i128::from(self.offset_ns))
    }

    /// Converts a time of `CLOCK_MONOTONIC` that a process has read.
    pub fn process_ns(&self, at_ns: impl Into<i128>) -> i64 {
        i64::try_from(at_ns.into() - self.origin_ns).unwrap_or(i64::MAX)
    }

    /// Like [`Self::ns`] for a time that may be negative, which counts as zero.
    pub fn convert_signed(&self, at_ns: i64) -> i64 {
        self.ns(u64::try_from(at_ns).unwrap_or(0))
    }

    /// Converts a record of a switch.
    pub fn switch(&self, record: &os::SwitchRecord) -> Switch {
        Switch { at_ns: self.ns(record.at_ns), kind: record.kind, cpu: record.cpu }
    }
}
