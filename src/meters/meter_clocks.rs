//! Relates the times of meters to the clocks of this process.

use std::time::{Duration, Instant, SystemTime};

use engine::machine::os;
use tickmeter::Snapshot;

/// Largest distance of a meter's last tick into the future that is an error of the clocks, not a
/// step of one of them.
const MAX_CLOCK_ERROR: Duration = Duration::from_millis(2);

/// Largest difference of two clocks that does not show that a program is in another time namespace.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(60);

/// The clocks of this process at one moment.
#[derive(Clone, Copy, Debug)]
pub struct MeterClocks {
    at: Instant,
    monotonic: Option<Duration>,
    calendar: SystemTime,
}

impl MeterClocks {
    #[allow(clippy::disallowed_methods, reason = "relates clocks to each other")]
    pub fn read() -> Self {
        let pair = os::monotonic_pair().ok();
        let calendar = SystemTime::now();
        let monotonic = pair.map(|(_, ns)| Duration::from_nanos(ns));
        Self { at: pair.map_or_else(Instant::now, |(at, _)| at), monotonic, calendar }
    }

    /// Returns the time since the registration of a meter, or `None` if its last tick would be in
    /// the future.
    ///
    /// The calendar clock may have been set since the registration, and the machine may have been
    /// suspended. So the monotonic clock is used, unless the meter is much older by it, or the last
    /// tick would be in the future: then that clock is of another time namespace.
    pub fn age(&self, snapshot: &Snapshot) -> Option<Duration> {
        let is_possible = |age: &Duration| *age + MAX_CLOCK_ERROR >= snapshot.last_tick;
        let monotonic = self.monotonic.zip(snapshot.registered_monotonic);
        let monotonic = monotonic.and_then(|(now, then)| now.checked_sub(then)).filter(is_possible);
        let calendar = self.calendar.duration_since(snapshot.registered).ok().filter(is_possible);
        match (monotonic, calendar) {
            (Some(monotonic), Some(calendar)) if monotonic > calendar + MAX_CLOCK_DIFFERENCE => {
                Some(calendar)
            }
            _ => monotonic.or(calendar),
        }
    }

    pub fn at(&self) -> Instant {
        self.at
    }

    /// Returns the moment that is `ago` in the past.
    pub fn instant(&self, ago: Duration) -> Option<Instant> {
        self.at.checked_sub(ago)
    }

    /// Returns the calendar time that is `ago` in the past.
    pub fn calendar_time(&self, ago: Duration) -> Option<SystemTime> {
        self.calendar.checked_sub(ago)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meters::test_meter::MeterContents;

    const HOUR: Duration = Duration::from_secs(3_600);
    const DAY: Duration = Duration::from_secs(86_400);

    /// Returns the clocks of a machine that has been up for ten days, and a meter that was
    /// registered an hour ago and has just ticked.
    fn clocks_and_meter() -> (MeterClocks, Snapshot) {
        let mut meter =
            MeterContents { name: "loop", period_ns: 1, ..MeterContents::default() }.snapshot();
        let clocks = MeterClocks {
            monotonic: Some(10 * DAY),
            calendar: meter.registered + HOUR,
            ..MeterClocks::read()
        };
        meter.registered_monotonic = Some(10 * DAY - HOUR);
        meter.last_tick = HOUR;
        (clocks, meter)
    }

    #[test]
    fn steps_of_the_calendar_are_ignored() {
        let (clocks, meter) = clocks_and_meter();
        assert_eq!(clocks.age(&meter), Some(HOUR));
        for calendar in [clocks.calendar + DAY, clocks.calendar - DAY, SystemTime::UNIX_EPOCH] {
            assert_eq!(MeterClocks { calendar, ..clocks }.age(&meter), Some(HOUR));
        }
    }

    #[test]
    fn other_namespaces_use_the_calendar() {
        let (clocks, mut meter) = clocks_and_meter();
        for monotonic in [Some(11 * DAY), Some(9 * DAY), Some(HOUR), None] {
            assert_eq!(MeterClocks { monotonic, ..clocks }.age(&meter), Some(HOUR));
        }
        meter.registered_monotonic = None;
        assert_eq!(clocks.age(&meter), Some(HOUR), "an older program");
    }

    #[test]
    fn future_ticks_have_no_age() {
        let (clocks, mut meter) = clocks_and_meter();
        meter.last_tick = HOUR + MAX_CLOCK_ERROR;
        assert_eq!(clocks.age(&meter), Some(HOUR), "an error of the clocks");
        meter.last_tick += Duration::from_nanos(1);
        assert_eq!(clocks.age(&meter), None);
    }
}
