//! How long before its deadline a sleeping task is woken, to spin for the rest.
//!
//! The way from the loop to the task takes under 100 ns while its code and data are in the caches.
//! After milliseconds of spinning on the clock they have left them, and interrupts have emptied the
//! TLB: on a virtual machine the same way took 8 us. So it is measured at each wake-up that nothing
//! else stood in the way of, and the lead follows.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Leads that are learnt lie between these: what comes on top of the way must not hold up other
/// tasks for long.
const LEAST: Duration = Duration::from_micros(1);
const MOST: Duration = Duration::from_micros(20);

/// The way varies: twice of it is enough for most wake-ups.
const WAYS: u32 = 2;

#[derive(Debug)]
pub(crate) struct Lead {
    learns: bool,
    current: Cell<Duration>,
    /// When a timer last fired, if it was the only one and nothing else was ready.
    fired_alone: Cell<Option<Instant>>,
}

impl Lead {
    pub(crate) fn learnt() -> Self {
        Self { learns: true, current: Cell::new(LEAST), fired_alone: Cell::default() }
    }

    pub(crate) fn fixed(lead: Duration) -> Self {
        Self { learns: false, current: Cell::new(lead), fired_alone: Cell::default() }
    }

    #[inline]
    pub(crate) fn get(&self) -> Duration {
        self.current.get()
    }

    /// Timers fired at `now`; `alone` if it was one, and nothing else was ready.
    #[inline]
    pub(crate) fn fired(&self, now: Instant, alone: bool) {
        self.fired_alone.set((alone && self.learns).then_some(now));
    }

    /// A task that a timer was to wake reads the clock.
    #[inline]
    pub(crate) fn arrived(&self, now: Instant) {
        if let Some(fired) = self.fired_alone.take() {
            self.learn(now.saturating_duration_since(fired));
        }
    }

    /// Halfway up to what this way asks for, an eighth of the way down.
    fn learn(&self, way: Duration) {
        let wanted = way.saturating_mul(WAYS).clamp(LEAST, MOST);
        let current = self.current.get();
        let next = match wanted.checked_sub(current) {
            Some(more) => current + more / 2,
            None => current - (current - wanted) / 8,
        };
        self.current.set(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NS: fn(u64) -> Duration = Duration::from_nanos;

    fn after(lead: &Lead, ways: impl IntoIterator<Item = u64>) -> Duration {
        ways.into_iter().for_each(|way| lead.learn(NS(way)));
        lead.get()
    }

    #[test]
    fn it_follows_the_way_within_its_limits() {
        let lead = Lead::learnt();
        assert_eq!(lead.get(), LEAST);
        assert_eq!(after(&lead, [50; 10]), LEAST);
        // Twice the way, in a few wake-ups.
        let learnt = after(&lead, [8_000; 10]);
        assert!(learnt <= NS(16_000) && learnt > NS(15_900), "{learnt:?}");
        // Back where the way is short again.
        let back = after(&lead, [50; 60]);
        assert!(back >= LEAST && back < NS(1_010), "{back:?}");
        // A way of a second asks for no more than the most.
        let learnt = after(&lead, [1_000_000_000; 40]);
        assert!(learnt <= MOST && learnt > NS(19_990), "{learnt:?}");
    }

    #[test]
    fn one_long_way_is_forgotten() {
        let lead = Lead::learnt();
        let struck = after(&lead, [30_000]);
        assert!(struck > NS(10_000), "{struck:?}");
        assert!(after(&lead, [100; 20]) < NS(2_000));
    }

    #[test]
    fn only_a_timer_that_fired_alone_teaches() {
        let (lead, start) = (Lead::learnt(), crate::clock::now());
        lead.fired(start, false);
        lead.arrived(start + NS(9_000));
        assert_eq!(lead.get(), LEAST);
        lead.fired(start, true);
        lead.arrived(start + NS(9_000));
        let learnt = lead.get();
        assert!(learnt > LEAST);
        // Once for each firing.
        lead.arrived(start + NS(900_000));
        assert_eq!(lead.get(), learnt);
    }

    #[test]
    fn a_fixed_lead_stays() {
        let (lead, start) = (Lead::fixed(NS(5)), crate::clock::now());
        lead.fired(start, true);
        lead.arrived(start + NS(9_000));
        assert_eq!(lead.get(), NS(5));
    }
}
