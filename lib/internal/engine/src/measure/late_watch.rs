//! Ticks later than a limit, noticed while they come: they end the run, leave a mark in the
//! kernel's trace, or are handed on.
//!
//! A loop compares one count a tick, after its stamp, with the count from which that tick would be
//! late. The line that these lie on is laid a little early, by the error of the counter's rate, so
//! that none is missed; what reaches it is held against the kernel's clock, which also lays the
//! line anew. A loop that is not watched has nothing of this but the question whether it is.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime};

use tach::Anchor;

use crate::machine::trace_marker::TraceMarker;
use crate::subject::ticker::Schedule;

/// A tick that came later than the limit.
#[derive(Clone, Debug)]
pub struct LateTick {
    /// Id of its scenario.
    pub scenario_id: Arc<str>,
    pub lateness_ns: u64,
    /// When that was noticed.
    pub at: SystemTime,
}

/// What is watched for in a run, and what comes of it.
#[derive(Debug)]
pub struct LateWatch {
    pub limit: Duration,
    /// Set at the first late tick: the run ends there.
    pub stop: Option<Arc<AtomicBool>>,
    pub marker: Option<TraceMarker>,
    /// Takes late ticks while it has nothing else to do.
    pub sender: Option<SyncSender<Option<LateTick>>>,
    noticed: AtomicBool,
}

impl LateWatch {
    pub fn new(limit: Duration) -> Self {
        Self { limit, stop: None, marker: None, sender: None, noticed: AtomicBool::new(false) }
    }

    pub fn limit_ns(&self) -> u64 {
        u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether the run was ended for a late tick.
    pub fn has_stopped_run(&self) -> bool {
        self.stop.is_some() && self.noticed.load(Ordering::Relaxed)
    }

    /// A tick came late. Allocates nothing and waits for nothing: this is called between ticks.
    pub fn notice(&self, scenario_id: &Arc<str>, tick: u64, lateness_ns: u64) {
        if self.noticed.swap(true, Ordering::Relaxed) && self.stop.is_some() {
            return;
        }
        if let Some(marker) = &self.marker {
            let limit_ns = self.limit_ns();
            // Nobody can be told now.
            let _ = marker.mark(format_args!(
                "osjitter: {scenario_id}: tick {tick} was {lateness_ns} ns late, more than {limit_ns} ns"
            ));
        }
        if let Some(stop) = &self.stop {
            stop.store(true, Ordering::Relaxed);
        }
        if let Some(taker) = &self.sender {
            let late = LateTick {
                scenario_id: Arc::clone(scenario_id),
                lateness_ns,
                at: SystemTime::now(),
            };
            // It has one to do, and one to do next.
            let _ = taker.try_send(Some(late));
        }
    }
}

/// What a round needs to watch its loops.
#[derive(Clone, Debug)]
pub struct RoundWatch {
    pub watch: Arc<LateWatch>,
    pub scenario_id: Arc<str>,
    /// The ticks that are recorded: a late tick of the warm-up is none.
    pub recorded: Range<u64>,
}

impl RoundWatch {
    /// For a loop on that grid.
    pub fn loop_watch(&self, schedule: Schedule, anchor: &Anchor) -> LoopWatch {
        let info = tach::info();
        let mut watch = LoopWatch {
            round: self.clone(),
            schedule,
            line: LateThreshold::new(info.rate_hz, info.rate_error_ppb, schedule.period),
            ns_per_count: 1e9 / info.rate_hz,
        };
        watch.lay(anchor, 0);
        watch
    }
}

/// Looks at each tick of a loop.
#[derive(Debug)]
pub struct LoopWatch {
    round: RoundWatch,
    schedule: Schedule,
    line: LateThreshold,
    ns_per_count: f64,
}

impl LoopWatch {
    /// A wake-up at this count reported so many ticks, the last of which is `tick`.
    #[inline]
    pub fn look(&mut self, tick: u64, expirations: u64, wake_count: u64) {
        let first = (tick + 1).saturating_sub(expirations);
        if wake_count >= self.line.at(first) {
            self.seems_late(first, tick, wake_count);
        }
    }

    #[cold]
    #[inline(never)]
    fn seems_late(&mut self, first: u64, tick: u64, wake_count: u64) {
        let recorded = &self.round.recorded;
        // Of several ticks the first one is the latest.
        let latest = first.max(recorded.start);
        if latest >= recorded.end.min(tick + 1) {
            return;
        }
        let anchor = Anchor::take();
        let since_ns = anchor.count().saturating_sub(wake_count) as f64 * self.ns_per_count;
        let late = anchor.std().saturating_duration_since(self.schedule.deadline(latest));
        let late = late.saturating_sub(Duration::from_nanos(since_ns as u64));
        if late > self.round.watch.limit {
            let lateness_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
            self.round.watch.notice(&self.round.scenario_id, latest, lateness_ns);
        }
        self.lay(&anchor, tick);
    }

    /// Lays the line through a fresh anchor, from a tick on.
    fn lay(&mut self, anchor: &Anchor, tick: u64) {
        let late_from = self.schedule.deadline(tick) + self.round.watch.limit;
        let ahead = match late_from.checked_duration_since(anchor.std()) {
            Some(ahead) => ahead.as_secs_f64(),
            None => -anchor.std().saturating_duration_since(late_from).as_secs_f64(),
        };
        self.line.lay(anchor.count(), anchor.bracket_counts(), ahead, tick);
    }
}

/// The counts from which ticks may be late: a straight one, never behind the true one.
#[derive(Debug)]
struct LateThreshold {
    rate_hz: f64,
    /// By how much of a length the rate may be off.
    error: f64,
    /// Counts a period, in steps of a 65,536th.
    step: u64,
    from_tick: u64,
    from_count: u64,
}

const STEP_BITS: u32 = 16;
/// A rate that is worse known than this is of no use.
const WORST_RATE: f64 = 0.01;
/// What lies between two clocks that are read one after the other.
const MARGIN: Duration = Duration::from_nanos(200);

impl LateThreshold {
    fn new(rate_hz: f64, rate_error_ppb: f64, period: Duration) -> Self {
        let error = if rate_error_ppb.is_finite() {
            (rate_error_ppb * 1e-9).clamp(0.0, WORST_RATE)
        } else {
            WORST_RATE
        };
        let counts = period.as_secs_f64() * rate_hz * (1.0 - error);
        let step = (counts * f64::from(1_u32 << STEP_BITS)) as u64;
        Self { rate_hz, error, step, from_tick: 0, from_count: 0 }
    }

    /// Through a count so many seconds ahead of the anchor's, for a tick.
    fn lay(&mut self, count: u64, bracket_counts: u64, ahead_s: f64, tick: u64) {
        let early_s = ahead_s - ahead_s.abs() * self.error - MARGIN.as_secs_f64();
        let counts = (early_s * self.rate_hz).floor() as i64;
        self.from_count = count.saturating_add_signed(counts).saturating_sub(bracket_counts);
        self.from_tick = tick;
    }

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
    fn the_line_is_never_behind_and_hardly_before_the_true_one() {
        for (rate_hz, period_us, error_ppb) in
            [(2.1e9, 500.0, 100.0), (1e9, 1.0, 0.0), (24e6, 333.333, 1_000.0), (5e9, 3.6e9, 50.0)]
        {
            let period = Duration::from_nanos((period_us * 1e3) as u64);
            let mut line = LateThreshold::new(rate_hz, error_ppb, period);
            let (count, ahead_s) = (1_u64 << 40, 0.002);
            line.lay(count, 50, ahead_s, 3);
            for ticks in [0_u64, 1, 7, 250, 100_000] {
                let after_s = ahead_s + ticks as f64 * period.as_secs_f64();
                for rate in [rate_hz * (1.0 - error_ppb * 1e-9), rate_hz * (1.0 + error_ppb * 1e-9)]
                {
                    let exact = count as f64 + after_s * rate;
                    let at = line.at(3 + ticks) as f64;
                    let room = 52.0
                        + rate_hz * 200e-9
                        + after_s * rate_hz * 2.1e-9 * error_ppb
                        + ticks as f64;
                    // 53 bits hold these counts to a few.
                    assert!(
                        at <= exact + 4.0 && exact - at <= room + 4.0,
                        "{rate_hz} {ticks}: {at} {exact}"
                    );
                }
            }
            assert_eq!(line.at(0), line.at(3), "no tick is asked for twice");
        }
    }

    /// A loop on a grid that begins now, watched with this limit.
    #[allow(clippy::disallowed_methods, reason = "the grid begins now")]
    fn watched(watch: &Arc<LateWatch>) -> LoopWatch {
        let anchor = Anchor::take();
        let schedule = Schedule { start: anchor.std(), period: Duration::from_secs(1) };
        RoundWatch { watch: Arc::clone(watch), scenario_id: Arc::from("a"), recorded: 1..4 }
            .loop_watch(schedule, &anchor)
    }

    /// The count so long after the start of the grid.
    fn count(watched: &LoopWatch, after: Duration) -> u64 {
        let at = watched.schedule.start + after;
        let anchor = Anchor::take();
        let ahead = at.saturating_duration_since(anchor.std()).as_secs_f64();
        anchor.count() + (ahead * tach::info().rate_hz) as u64
    }

    #[test]
    fn a_tick_is_late_from_the_limit_on_and_only_a_recorded_one() {
        let (taker, taken) = mpsc::sync_channel(8);
        let watch = Arc::new(LateWatch {
            sender: Some(taker),
            ..LateWatch::new(Duration::from_millis(100))
        });
        let mut watched = watched(&watch);
        let after =
            |tick, ms| count(&watched, Duration::from_secs(tick) + Duration::from_millis(ms));
        let counts = [after(0, 900), after(1, 99), after(1, 101), after(2, 0), after(4, 500)];
        let mut look = |tick, expirations, count| {
            watched.look(tick, expirations, count);
            taken.try_recv().ok().flatten().map(|late: LateTick| late.lateness_ns / 1_000_000)
        };
        assert_eq!(look(0, 1, counts[0]), None, "of the warm-up");
        assert_eq!(look(1, 1, counts[1]), None);
        // The grid's seconds have not come: by the kernel's clock none is late yet.
        assert_eq!(look(1, 1, counts[2]), None);
        assert!(!watch.has_stopped_run());
    }

    #[test]
    fn what_is_late_by_the_clock_ends_the_run_once() {
        let stop: Arc<AtomicBool> = Arc::default();
        let (taker, taken) = mpsc::sync_channel(8);
        let limit = Duration::from_millis(5);
        let watch = Arc::new(LateWatch {
            stop: Some(Arc::clone(&stop)),
            sender: Some(taker),
            ..LateWatch::new(limit)
        });
        let mut watched = watched(&watch);
        // Ticks 1 to 3 were due before the loop looked.
        watched.schedule.start -= Duration::from_secs(10);
        watched.lay(&Anchor::take(), 0);
        let now = tach::ordered_count();
        for tick in [0, 4] {
            watched.look(tick, 1, now);
            assert!(!stop.load(Ordering::Relaxed), "{tick} is not recorded");
        }
        watched.look(3, 3, now);
        assert!(stop.load(Ordering::Relaxed) && watch.has_stopped_run());
        watched.look(3, 1, tach::ordered_count());
        let late: Vec<LateTick> = taken.try_iter().flatten().collect();
        let [one] = &late[..] else { panic!("{late:?}") };
        let lateness = Duration::from_nanos(one.lateness_ns);
        // Of the three the first one is the latest: due at 1 s of 10 s.
        assert!(lateness >= Duration::from_secs(9) && &*one.scenario_id == "a", "{one:?}");
    }
}
