//! Lateness by cause during the attribution.

use crate::report::why::{Class, Shares};

/// The nanoseconds of each [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts([u64; Class::ALL.len()]);

impl Parts {
    /// Returns one part.
    #[must_use]
    pub fn ns(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// Returns the sum of all parts.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }

    /// Converts the parts to those of a report, in which causes that cannot be measured are null.
    #[must_use]
    pub fn shares(&self, known: MeasurableParts) -> Shares {
        let if_known = |known: bool, class| known.then(|| self.ns(class));
        Shares {
            queue: self.ns(Class::Queue),
            quota: if_known(known.quota, Class::Quota),
            own_cpu: self.ns(Class::OwnCpu),
            faults: if_known(known.faults, Class::Faults),
            blocked: self.ns(Class::Blocked),
            stopped: self.ns(Class::Stopped),
            slack: if_known(known.slack, Class::Slack),
            host: self.ns(Class::Host),
            below: self.ns(Class::Below),
            path: self.ns(Class::Path),
            unexplained: self.ns(Class::Unexplained),
        }
    }

    /// Adds other parts to these.
    pub fn add_all(&mut self, other: &Self) {
        for (part, more) in self.0.iter_mut().zip(other.0) {
            *part = part.saturating_add(more);
        }
    }

    /// Adds to one part.
    pub fn add(&mut self, class: Class, ns: u64) {
        let part = &mut self.0[class as usize];
        *part = part.saturating_add(ns);
    }

    /// Moves at most `max_ns` from one part to another, and returns the moved time.
    pub(super) fn move_up_to(&mut self, max_ns: u64, from: Class, to: Class) -> u64 {
        let moved = max_ns.min(self.ns(from));
        self.0[from as usize] -= moved;
        self.0[to as usize] += moved;
        moved
    }
}

/// The optional causes that can be measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasurableParts {
    /// Whether the control group has a quota.
    pub quota: bool,
    /// Whether page faults are counted and their cost is known.
    pub faults: bool,
    /// Whether the timer has slack.
    pub slack: bool,
}
