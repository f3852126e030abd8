//! Lateness by cause while it is taken apart.

use crate::report::why::{Class, Shares};

/// So many nanoseconds of each [`Class`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts([u64; Class::ALL.len()]);

impl Parts {
    /// One part.
    #[must_use]
    pub fn ns(&self, class: Class) -> u64 {
        self.0[class as usize]
    }

    /// All of them together.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.0.iter().fold(0, |sum, &ns| sum.saturating_add(ns))
    }

    /// As a report has them: null is what the facts do not allow to be measured.
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

    /// Adds others to these.
    pub fn add_all(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(other.0) {
            *ours = ours.saturating_add(theirs);
        }
    }

    /// Adds to one part.
    pub fn add(&mut self, class: Class, ns: u64) {
        let part = &mut self.0[class as usize];
        *part = part.saturating_add(ns);
    }

    /// Moves at most so much, and returns how much it was.
    pub(super) fn move_up_to(&mut self, most: u64, from: Class, to: Class) -> u64 {
        let moved = most.min(self.ns(from));
        self.0[from as usize] -= moved;
        self.0[to as usize] += moved;
        moved
    }
}

/// Which parts can be measured at all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeasurableParts {
    /// Whether there is a quota.
    pub quota: bool,
    /// Whether faults are counted and their price is known.
    pub faults: bool,
    /// Whether the timer has slack.
    pub slack: bool,
}
