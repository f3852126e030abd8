//! The timer lead: how long before its deadline a sleeping task is woken, to spin for the rest.
//!
//! The delay from the loop to the task is below 100 ns while the code and data of both are in the
//! caches. After milliseconds of spinning on the clock they have left the caches, and interrupts
//! have emptied the TLB. On a virtual machine, the delay then was 8 us. It is therefore measured at
//! every wake-up that nothing else delayed, and the lead follows the measurements.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Bounds of an adaptive lead. The part of a lead that exceeds the delay must not hold up other
/// tasks for long.
const MIN_LEAD: Duration = Duration::from_micros(1);
const MAX_LEAD: Duration = Duration::from_micros(20);

/// Ratio of the lead to the delay. The delay varies, and twice the delay suffices for most
/// wake-ups.
const DELAY_MULTIPLE: u32 = 2;

#[derive(Debug)]
pub(crate) struct TimerLead {
    is_adaptive: bool,
    current: Cell<Duration>,
    /// The time at which a timer fired in the last turn with timers, if it was the only one and
    /// nothing else was ready.
    fired_alone: Cell<Option<Instant>>,
}

impl TimerLead {
    pub(crate) fn new_adaptive() -> Self {
        Self { is_adaptive: true, current: Cell::new(MIN_LEAD), fired_alone: Cell::default() }
    }

    pub(crate) fn new_fixed(lead: Duration) -> Self {
        Self { is_adaptive: false, current: Cell::new(lead), fired_alone: Cell::default() }
    }

    #[inline]
    pub(crate) fn get(&self) -> Duration {
        self.current.get()
    }

    /// Records a turn with timers, at `now`. `is_alone` means that exactly one fired and nothing
    /// else was ready.
    #[inline]
    pub(crate) fn record_firing(&self, now: Instant, is_alone: bool) {
        self.fired_alone.set((is_alone && self.is_adaptive).then_some(now));
    }

    /// Records that a task that a timer has woken reads the clock.
    #[inline]
    pub(crate) fn record_arrival(&self, now: Instant) {
        if let Some(fired) = self.fired_alone.take() {
            self.adjust(now.saturating_duration_since(fired));
        }
    }

    /// Moves the lead half the distance up to the lead that this delay requires, or an eighth of
    /// the distance down.
    fn adjust(&self, delay: Duration) {
        let wanted = delay.saturating_mul(DELAY_MULTIPLE).clamp(MIN_LEAD, MAX_LEAD);
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

    fn adjust_by(lead: &TimerLead, delays: impl IntoIterator<Item = u64>) -> Duration {
        for delay in delays {
            lead.adjust(NS(delay));
        }
        lead.get()
    }

    #[test]
    fn lead_follows_delay_within_limits() {
        let lead = TimerLead::new_adaptive();
        assert_eq!(lead.get(), MIN_LEAD);
        assert_eq!(adjust_by(&lead, [50; 10]), MIN_LEAD);
        // The lead becomes twice the delay within a few wake-ups.
        let adapted = adjust_by(&lead, [8_000; 10]);
        assert!(adapted <= NS(16_000) && adapted > NS(15_900), "{adapted:?}");
        // The lead returns when the delay is short again.
        let back = adjust_by(&lead, [50; 60]);
        assert!(back >= MIN_LEAD && back < NS(1_010), "{back:?}");
        // A delay of a second does not raise the lead above the maximum.
        let adapted = adjust_by(&lead, [1_000_000_000; 40]);
        assert!(adapted <= MAX_LEAD && adapted > NS(19_990), "{adapted:?}");
    }

    #[test]
    fn single_outlier_is_forgotten() {
        let lead = TimerLead::new_adaptive();
        let struck = adjust_by(&lead, [30_000]);
        assert!(struck > NS(10_000), "{struck:?}");
        assert!(adjust_by(&lead, [100; 20]) < NS(2_000));
    }

    #[test]
    fn only_lone_timers_adjust_lead() {
        let (lead, start) = (TimerLead::new_adaptive(), crate::clock::now());
        lead.record_firing(start, false);
        lead.record_arrival(start + NS(9_000));
        assert_eq!(lead.get(), MIN_LEAD);
        lead.record_firing(start, true);
        lead.record_arrival(start + NS(9_000));
        let adapted = lead.get();
        assert!(adapted > MIN_LEAD);
        // Each firing is counted once.
        lead.record_arrival(start + NS(900_000));
        assert_eq!(lead.get(), adapted);
    }

    /// A task that is woken at a deadline which was postponed records no arrival.
    #[cfg(not(loom))]
    #[test]
    fn firing_counts_for_one_turn() {
        use std::task::Poll;
        let mut polls = 0;
        let turns = std::future::poll_fn(|cx| {
            let executor = crate::context::current();
            let now = crate::clock::now();
            polls += 1;
            if polls == 3 {
                executor.timer_lead.record_arrival(now + Duration::from_secs(1));
                assert_eq!(executor.timer_lead.get(), MIN_LEAD);
                return Poll::Ready(());
            }
            // The first timer fires in this turn.
            let deadline = now + Duration::from_secs(3_600) * (polls - 1);
            executor.timers.register(None, deadline, cx.waker());
            if polls == 2 {
                cx.waker().wake_by_ref();
            }
            Poll::Pending
        });
        crate::Runtime::new().unwrap().block_on(turns);
    }

    #[test]
    fn fixed_lead_stays_constant() {
        let (lead, start) = (TimerLead::new_fixed(NS(5)), crate::clock::now());
        lead.record_firing(start, true);
        lead.record_arrival(start + NS(9_000));
        assert_eq!(lead.get(), NS(5));
    }
}
