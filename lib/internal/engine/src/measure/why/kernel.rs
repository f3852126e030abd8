//! The kernel's records on the clock of a round.

use std::time::{Duration, Instant};

use files::why::Switch;

use crate::machine::os;

/// Nanoseconds from `origin` to `at`, which may lie before it.
pub fn ns_after(at: Instant, origin: Instant) -> i64 {
    let ns = |after: Duration| i64::try_from(after.as_nanos()).unwrap_or(i64::MAX);
    match at.checked_duration_since(origin) {
        Some(after) => ns(after),
        None => -ns(origin.saturating_duration_since(at)),
    }
}

/// The kernel's clock at the common origin of a round.
#[derive(Debug)]
pub struct Kernel {
    origin_ns: i128,
}

impl Kernel {
    pub fn new(origin: Instant) -> Option<Self> {
        let (at, ns) = os::monotonic_pair().ok()?;
        Some(Self { origin_ns: i128::from(ns) - i128::from(ns_after(at, origin)) })
    }

    pub fn ns(&self, at_ns: u64) -> i64 {
        i64::try_from(i128::from(at_ns) - self.origin_ns).unwrap_or(i64::MAX)
    }

    /// The same of a time that may be before the clock began.
    pub fn after(&self, at_ns: i64) -> i64 {
        self.ns(u64::try_from(at_ns).unwrap_or(0))
    }

    pub fn switch(&self, record: &os::SwitchRecord) -> Switch {
        Switch { at_ns: self.ns(record.at_ns), kind: record.kind, cpu: record.cpu }
    }
}
