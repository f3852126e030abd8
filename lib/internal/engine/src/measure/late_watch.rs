//! Detection of late ticks during a round. A late tick can end the run, leave a mark in the
//! kernel's trace, or be sent to another thread.
//!
//! A loop compares one count per tick, after its time stamp, with the count from which the tick
//! would be late. These thresholds are on a line that is slightly early, by the error of the
//! counter's rate, so that no late tick is missed. A tick that reaches its threshold is checked
//! against the kernel's clock, which also updates the line. A loop without detection only checks
//! whether it has one.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use tach::Anchor;

use crate::machine::trace_marker::TraceMarker;
use crate::subject::ticker::Schedule;
use cli::units::to_ns;

/// A tick that was later than the limit.
#[derive(Clone, Debug)]
pub struct LateTick {
    /// Id of the scenario.
    pub scenario_id: Arc<str>,
    pub tick: u64,
    pub lateness_ns: u64,
    /// Time of the detection.
    pub at: SystemTime,
}

/// Limit of the lateness in a run, and the actions for a late tick.
#[derive(Debug)]
pub struct LateWatch {
    pub limit: Duration,
    /// Flag that ends the run at the first late tick.
    pub stop: Option<Arc<AtomicBool>>,
    pub marker: Option<TraceMarker>,
    /// Receives late ticks, except while the receiver is busy.
    pub sender: Option<SyncSender<Option<LateTick>>>,
    has_late_tick: AtomicBool,
    /// The late tick that ended the run.
    stopping_tick: OnceLock<LateTick>,
}

impl LateWatch {
    pub fn new(limit: Duration) -> Self {
        Self {
            limit,
            stop: None,
            marker: None,
            sender: None,
            has_late_tick: AtomicBool::new(false),
            stopping_tick: OnceLock::new(),
        }
    }

    pub fn limit_ns(&self) -> u64 {
        to_ns(self.limit)
    }

    /// Returns the late tick that has ended the run, if there is one.
    pub fn stopping_tick(&self) -> Option<&LateTick> {
        self.stopping_tick.get()
    }

    /// Returns whether a late tick of a scenario has ended the run.
    pub fn was_stopped_by(&self, scenario_id: &str) -> bool {
        self.stopping_tick().is_some_and(|late| *late.scenario_id == *scenario_id)
    }

    /// Handles a late tick. This is called between ticks, so it neither allocates nor blocks.
    pub fn report_late_tick(&self, scenario_id: &Arc<str>, tick: u64, lateness_ns: u64) {
        if self.has_late_tick.swap(true, Ordering::Relaxed) && self.stop.is_some() {
            return;
        }
        if let Some(marker) = &self.marker {
            let limit_ns = self.limit_ns();
            // An error cannot be reported here.
            let _ = marker.mark(format_args!(
                "osjitter: {scenario_id}: tick {tick} was {lateness_ns} ns late, more than {limit_ns} ns"
            ));
        }
        let late = LateTick {
            scenario_id: Arc::clone(scenario_id),
            tick,
            lateness_ns,
            at: SystemTime::now(),
        };
        if let Some(stop) = &self.stop {
            let _ = self.stopping_tick.set(late.clone());
            stop.store(true, Ordering::Relaxed);
        }
        if let Some(sender) = &self.sender {
            // If this fails, the receiver is handling a late tick and another one is queued.
            let _ = sender.try_send(Some(late));
        }
    }
}

/// Detection of late ticks in the loops of a round.
#[derive(Clone, Debug)]
pub struct RoundWatch {
    pub watch: Arc<LateWatch>,
    pub scenario_id: Arc<str>,
    /// The recorded ticks. Late ticks of the warm-up are ignored.
    pub recorded: Range<u64>,
}

impl RoundWatch {
    /// Creates the detection for a loop.
    pub fn loop_watch(&self, schedule: Schedule, anchor: &Anchor) -> LoopWatch {
        let info = tach::info();
        let mut watch = LoopWatch {
            round: self.clone(),
            schedule,
            threshold: LateThreshold::new(info.rate_hz, info.rate_error_ppb, schedule.period),
            ns_per_count: 1e9 / info.rate_hz,
        };
        watch.update(anchor, 0);
        watch
    }
}

/// Detection of late ticks in a loop.
#[derive(Debug)]
pub struct LoopWatch {
    round: RoundWatch,
    schedule: Schedule,
    threshold: LateThreshold,
    ns_per_count: f64,
}

impl LoopWatch {
    /// Checks a wake-up that delivered `expirations` ticks, the last of which is `tick`.
    #[inline]
    pub fn check(&mut self, tick: u64, expirations: u64, wake_count: u64) {
        let first = (tick + 1).saturating_sub(expirations);
        if wake_count >= self.threshold.at(first) {
            self.check_late(first, tick, wake_count);
        }
    }

    /// Checks a wake-up that seems late against the kernel's clock.
    #[cold]
    #[inline(never)]
    fn check_late(&mut self, first: u64, tick: u64, wake_count: u64) {
        let recorded = &self.round.recorded;
        // The first of several ticks is the latest.
        let latest = first.max(recorded.start);
        if latest >= recorded.end.min(tick + 1) {
            return;
        }
        let anchor = Anchor::take();
        let since_ns = anchor.count().saturating_sub(wake_count) as f64 * self.ns_per_count;
        let late = anchor.os_instant().saturating_duration_since(self.schedule.deadline(latest));
        let late = late.saturating_sub(Duration::from_nanos(since_ns as u64));
        if late > self.round.watch.limit {
            let lateness_ns = to_ns(late);
            self.round.watch.report_late_tick(&self.round.scenario_id, latest, lateness_ns);
        }
        self.update(&anchor, tick);
    }

    /// Updates the thresholds from a tick on, with a new anchor.
    fn update(&mut self, anchor: &Anchor, tick: u64) {
        let late_from = self.schedule.deadline(tick) + self.round.watch.limit;
        let ahead = match late_from.checked_duration_since(anchor.os_instant()) {
            Some(ahead) => ahead.as_secs_f64(),
            None => -anchor.os_instant().saturating_duration_since(late_from).as_secs_f64(),
        };
        self.threshold.update(anchor.count(), anchor.bracket_counts(), ahead, tick);
    }
}

/// Counts from which ticks may be late, as a linear function of the tick.
///
/// The thresholds are never later than the exact ones.
#[derive(Debug)]
struct LateThreshold {
    rate_hz: f64,
    /// Maximum relative error of the rate.
    rate_error: f64,
    /// Counts per period, in units of 1/65,536.
    step: u64,
    from_tick: u64,
    from_count: u64,
}

const STEP_BITS: u32 = 16;
/// Maximum relative error of a usable rate.
const MAX_RATE_ERROR: f64 = 0.01;
/// Time between two readings of clocks in an anchor.
const ANCHOR_MARGIN: Duration = Duration::from_nanos(200);

impl LateThreshold {
    fn new(rate_hz: f64, rate_error_ppb: f64, period: Duration) -> Self {
        let rate_error = if rate_error_ppb.is_finite() {
            (rate_error_ppb * 1e-9).clamp(0.0, MAX_RATE_ERROR)
        } else {
            MAX_RATE_ERROR
        };
        let counts = period.as_secs_f64() * rate_hz * (1.0 - rate_error);
        let step = (counts * f64::from(1_u32 << STEP_BITS)) as u64;
        Self { rate_hz, rate_error, step, from_tick: 0, from_count: 0 }
    }

    /// Sets the threshold of a tick to `ahead_s` seconds after the count of an anchor.
    fn update(&mut self, count: u64, bracket_counts: u64, ahead_s: f64, tick: u64) {
        let early_s = ahead_s - ahead_s.abs() * self.rate_error - ANCHOR_MARGIN.as_secs_f64();
        let counts = (early_s * self.rate_hz).floor() as i64;
        self.from_count = count.saturating_add_signed(counts).saturating_sub(bracket_counts);
        self.from_tick = tick;
    }

    /// Returns the threshold of a tick.
    #[inline]
    fn at(&self, tick: u64) -> u64 {
        let ticks = tick.saturating_sub(self.from_tick);
        let counts = (u128::from(ticks) * u128::from(self.step)) >> STEP_BITS;
        self.from_count.saturating_add(counts as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn thresholds_are_slightly_early() {
        for (rate_hz, period_us, error_ppb) in
            [(2.1e9, 500.0, 100.0), (1e9, 1.0, 0.0), (24e6, 333.333, 1_000.0), (5e9, 3.6e9, 50.0)]
        {
            let period = Duration::from_nanos((period_us * 1e3) as u64);
            let mut threshold = LateThreshold::new(rate_hz, error_ppb, period);
            let (count, ahead_s) = (1_u64 << 40, 0.002);
            threshold.update(count, 50, ahead_s, 3);
            for ticks in [0_u64, 1, 7, 250, 100_000] {
                let after_s = ahead_s + ticks as f64 * period.as_secs_f64();
                for rate in [rate_hz * (1.0 - error_ppb * 1e-9), rate_hz * (1.0 + error_ppb * 1e-9)]
                {
                    let exact = count as f64 + after_s * rate;
                    let at = threshold.at(3 + ticks) as f64;
                    let tolerance = 52.0
                        + rate_hz * 200e-9
                        + after_s * rate_hz * 2.1e-9 * error_ppb
                        + ticks as f64;
                    // An f64 represents these counts to within a few.
                    assert!(
                        at <= exact + 4.0 && exact - at <= tolerance + 4.0,
                        "{rate_hz} {ticks}: {at} {exact}"
                    );
                }
            }
            assert_eq!(threshold.at(0), threshold.at(3), "earlier ticks have the same threshold");
        }
    }

    /// Creates the detection for a loop whose grid starts now.
    #[allow(clippy::disallowed_methods, reason = "the grid starts now")]
    fn watched(watch: &Arc<LateWatch>, period: Duration) -> LoopWatch {
        let anchor = Anchor::take();
        let schedule = Schedule { start: anchor.os_instant(), period };
        RoundWatch { watch: Arc::clone(watch), scenario_id: Arc::from("a"), recorded: 1..4 }
            .loop_watch(schedule, &anchor)
    }

    /// Returns the count at a time after the start of the grid.
    fn count(watched: &LoopWatch, after: Duration) -> u64 {
        let at = watched.schedule.start + after;
        let anchor = Anchor::take();
        let ahead = at.saturating_duration_since(anchor.os_instant()).as_secs_f64();
        anchor.count() + (ahead * tach::info().rate_hz) as u64
    }

    #[test]
    fn ticks_within_the_limit_are_ignored() {
        let (sender, receiver) = mpsc::sync_channel(8);
        let watch = Arc::new(LateWatch {
            sender: Some(sender),
            ..LateWatch::new(Duration::from_millis(100))
        });
        // The ticks are not due during the test, however slow the machine is.
        let period = Duration::from_secs(3_600);
        let mut watched = watched(&watch, period);
        let after = |tick, ms| count(&watched, period * tick + Duration::from_millis(ms));
        let counts = [after(0, 900), after(1, 99), after(1, 101)];
        let mut check = |tick, expirations, count| {
            watched.check(tick, expirations, count);
            receiver.try_recv().ok().flatten().map(|late: LateTick| late.lateness_ns / 1_000_000)
        };
        assert_eq!(check(0, 1, counts[0]), None, "part of the warm-up");
        assert_eq!(check(1, 1, counts[1]), None);
        // These times are in the future, so by the kernel's clock no tick is late yet.
        assert_eq!(check(1, 1, counts[2]), None);
        assert!(watch.stopping_tick().is_none());
    }

    #[test]
    fn late_ticks_end_the_run_once() {
        let stop: Arc<AtomicBool> = Arc::default();
        let (sender, receiver) = mpsc::sync_channel(8);
        let limit = Duration::from_millis(5);
        let watch = Arc::new(LateWatch {
            stop: Some(Arc::clone(&stop)),
            sender: Some(sender),
            ..LateWatch::new(limit)
        });
        let mut watched = watched(&watch, Duration::from_secs(1));
        // Ticks 1 to 3 were due before the first check.
        watched.schedule.start -= Duration::from_secs(10);
        watched.update(&Anchor::take(), 0);
        let now = tach::ordered_count();
        for tick in [0, 4] {
            watched.check(tick, 1, now);
            assert!(!stop.load(Ordering::Relaxed), "{tick} is not recorded");
        }
        watched.check(3, 3, now);
        assert!(stop.load(Ordering::Relaxed) && watch.stopping_tick().is_some());
        watched.check(3, 1, tach::ordered_count());
        let late: Vec<LateTick> = receiver.try_iter().flatten().collect();
        let [late_tick] = &late[..] else { panic!("{late:?}") };
        let lateness = Duration::from_nanos(late_tick.lateness_ns);
        // The first of the three ticks is the latest. It was due 9 s ago.
        assert!(
            lateness >= Duration::from_secs(9) && &*late_tick.scenario_id == "a",
            "{late_tick:?}"
        );
    }
}
