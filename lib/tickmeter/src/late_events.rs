//! Late ticks as events of the `tracing` crate, at most one per second and meter.

use crate::publication::Wakeup;

/// The minimum time between two events of a meter.
const MIN_EVENT_INTERVAL_NS: u64 = 1_000_000_000;

/// Emits events for the late ticks of a meter, and limits their rate.
#[derive(Debug, Default)]
pub(crate) struct LateEvents {
    /// Number of late ticks so far.
    number: u64,
    last_event_ns: Option<u64>,
    /// Number of late ticks since the last event.
    suppressed: u64,
}

impl LateEvents {
    /// Emits an event if the wake-up is late and no event was emitted within the last second.
    #[inline]
    pub(crate) fn check(&mut self, meter: &str, wakeup: &Wakeup) {
        let lateness_ns = u64::try_from(wakeup.lateness_ns).unwrap_or(0);
        if lateness_ns >= wakeup.late_from_ns {
            self.report(meter, wakeup, lateness_ns);
        }
    }

    #[cold]
    fn report(&mut self, meter: &str, wakeup: &Wakeup, lateness_ns: u64) {
        if let Some(suppressed) = self.count(wakeup.at_ns) {
            tracing::warn!(
                target: "tickmeter",
                meter,
                number = self.number,
                lateness_ns,
                work_ns = wakeup.work_ns,
                overrun_ns = wakeup.overrun_ns,
                suppressed,
                "late tick"
            );
        }
    }

    /// Counts a late tick. If it may have an event, returns the number of late ticks that had none
    /// since the last event.
    fn count(&mut self, at_ns: u64) -> Option<u64> {
        self.number += 1;
        let is_too_soon = self
            .last_event_ns
            .is_some_and(|last_ns| at_ns.saturating_sub(last_ns) < MIN_EVENT_INTERVAL_NS);
        if is_too_soon {
            self.suppressed += 1;
            return None;
        }
        self.last_event_ns = Some(at_ns);
        Some(std::mem::take(&mut self.suppressed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_of_events_is_limited() {
        const S: u64 = 1_000_000_000;
        let mut events = LateEvents::default();
        let counted = [0, 1, S - 1, S, S + 1, 5 * S].map(|at_ns| events.count(at_ns));
        assert_eq!(counted, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(events.number, 6);
    }
}
