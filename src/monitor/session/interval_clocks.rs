//! The clocks and counters of the machine from which an interval of a monitor is computed.
//!
//! All of them are read at once, after the probes were polled, so that the CPU time of an interval
//! belongs to its length and to its ticks.

use std::time::{Duration, SystemTime};

use cli::units::to_ns;
use engine::machine::os;
use files::bins::IntervalCounts;
use files::window::TimeInWindow;

use crate::monitor::flight_watch::FlightWatch;
use crate::monitor::loop_id::LoopId;

/// Difference between two clocks over an interval that is not a step of one of them.
const MAX_CLOCK_DIFFERENCE: Duration = Duration::from_secs(1);

/// Clocks and counters of the machine at the start of an interval.
#[derive(Debug)]
pub struct IntervalStart {
    pub at: tach::Instant,
    pub time: SystemTime,
    cpu_ns: Option<u64>,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
    /// CPU time that flight records have cost.
    flight_ns: u64,
}

impl IntervalStart {
    pub fn now(flight: Option<&FlightWatch>) -> Self {
        Self {
            at: tach::Instant::now(),
            time: SystemTime::now(),
            cpu_ns: os::usage().cpu_ns,
            steal_ns: os::steal_ns(),
            throttled_ns: os::throttled_ns(),
            flight_ns: flight.map_or(0, |flight| flight.hindsight.cpu_ns()),
        }
    }

    /// Returns the start in microseconds since 1970.
    pub fn unix_us(&self) -> u64 {
        let since_1970 = self.time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX)
    }
}

/// Differences between the starts of two successive intervals.
#[derive(Debug)]
pub struct IntervalDeltas {
    pub length: Duration,
    /// CPU time of the monitor.
    cpu_ns: Option<u64>,
    flight_ns: u64,
    steal_ns: Option<u64>,
    throttled_ns: Option<u64>,
}

impl IntervalDeltas {
    pub fn between(before: &IntervalStart, now: &IntervalStart) -> Self {
        let delta = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            length: now.at.duration_since(before.at),
            cpu_ns: delta(now.cpu_ns, before.cpu_ns),
            flight_ns: now.flight_ns.saturating_sub(before.flight_ns),
            steal_ns: delta(now.steal_ns, before.steal_ns),
            throttled_ns: delta(now.throttled_ns, before.throttled_ns),
        }
    }

    /// Returns the CPU time of the monitor, to which that of flight records is added: recording
    /// costs CPU time of all threads, at their switches.
    pub fn monitor_time(&self) -> Option<TimeInWindow> {
        let cpu_ns = self.cpu_ns?.saturating_add(self.flight_ns);
        Some(TimeInWindow::new(cpu_ns, to_ns(self.length)))
    }

    /// Returns the CPU time of the probes' threads.
    pub fn probe_time(&self, probes_ns: u64) -> TimeInWindow {
        TimeInWindow::new(probes_ns, to_ns(self.length))
    }

    /// Returns whether recording switches is the larger part of the monitor's CPU time.
    pub fn is_mostly_recording(&self) -> bool {
        self.cpu_ns.is_some_and(|cpu_ns| self.flight_ns > cpu_ns)
    }

    /// Adds the counters of the machine and of a probe's threads to those of a loop.
    pub fn add_to(
        &self,
        counts: &mut IntervalCounts,
        loop_id: &LoopId,
        times: Option<os::ThreadTimes>,
    ) {
        counts.cpu_ns = times.map(|times| times.cpu_ns);
        counts.run_queue_ns = times.map(|times| times.run_queue_ns);
        counts.steal_ns = self.steal_ns;
        // Throttling of this process's control group does not affect other programs.
        let is_probe = matches!(loop_id, LoopId::Probe { .. });
        counts.throttled_ns = self.throttled_ns.filter(|_| is_probe);
    }
}

/// Returns by how much the calendar clock was set back between two readings, if it was by more than
/// the error of the other clock.
pub fn clock_set_back(before: SystemTime, now: SystemTime, elapsed: Duration) -> Option<Duration> {
    let expected = before.checked_add(elapsed)?;
    expected.duration_since(now).ok().filter(|step| *step > MAX_CLOCK_DIFFERENCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_steps_back_are_detected() {
        let seconds = Duration::from_secs;
        let start = SystemTime::UNIX_EPOCH + seconds(1_000_000);
        let step = |wall: SystemTime| clock_set_back(start, wall, seconds(300));
        assert_eq!(step(start + seconds(270)), Some(seconds(30)));
        assert_eq!(step(start - seconds(3_600)), Some(seconds(3_900)));
        // Slewing, and a suspend or a step forward, are no step back.
        assert_eq!(step(start + Duration::from_millis(299_500)), None);
        assert_eq!(step(start + seconds(900)), None);
    }
}
