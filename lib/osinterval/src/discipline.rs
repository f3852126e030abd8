//! The servo of a steered interval. It estimates when the events of another clock happen, and
//! aligns deadlines with them.
//!
//! It is the PI servo of linuxptp (`pi.c`), with three differences:
//! - It corrects an estimate and not a clock. Deadlines follow the estimate by bounded steps.
//! - Its first gains are those of a least-squares line through all observations: Morrison's
//!   expanding-memory filter (*Introduction to Sequential Smoothing and Prediction*, 1969).
//! - An observation far from its estimate is ignored. Several in a row are a jump of the other
//!   clock, and the estimate starts again from their median.

use std::time::{Duration, Instant};

/// The number of events from which the estimate starts: the first ones, or those after a jump.
const RUN: usize = 15;
/// The number of observations of a locked servo, whose error is about a fifth of the scatter.
const LOCKED: u32 = 100;
/// The limit of the errors that are not ignored, as a multiple of the mean deviation. It is four
/// standard deviations of a normal distribution.
const GATE: f64 = 5.0;
/// Added to that limit, for clocks without scatter.
const GATE_FLOOR_NS: f64 = 1_000.0;
/// The share of a new observation in the mean deviation.
const DEVIATION_GAIN: f64 = 1.0 / 32.0;
/// The proportional gain for observations a second apart, and its exponent for other distances:
/// those of linuxptp for hardware time stamps. Its exponent of -0.3 is for a gain per second.
const GAIN_SCALE: f64 = 0.7;
const GAIN_EXPONENT: f64 = 1.0 - 0.3;
/// The limit of the proportional gain: linuxptp's scale for software time stamps.
const MAX_GAIN: f64 = 0.1;
/// How far a cycle, and the distance of two deadlines, may differ from a period, as shares of it.
const MAX_STRETCH: f64 = 0.01;
const MAX_STEP: f64 = 0.05;

/// The state of the servo of a steered interval, as returned by the method `steering` of intervals.
///
/// # Examples
/// ```
/// # #[cfg(feature = "interval")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let mut interval = osinterval::interval(Duration::from_millis(1));
/// let received = interval.tick().await + Duration::from_micros(20); // a packet of a robot
/// interval.steer(received + Duration::from_micros(300)); // ticks follow 300 us later
/// let steering = interval.steering().expect("the interval is steered");
/// assert!(!steering.is_locked); // after a single event
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Steering {
    /// Whether the estimate rests on at least 100 events since the first one or the last jump.
    pub is_locked: bool,
    /// The time from the most recently observed event to the tick that belongs to it, in
    /// nanoseconds. It is negative if the tick is earlier, and contains the scatter of that event.
    pub offset_ns: i64,
    /// The frequency of the other clock relative to that of the interval, less one, in parts per
    /// billion. It is positive if ticks are less than a period apart.
    pub rate_ppb: i64,
    /// The mean absolute deviation of events from their estimated times, in nanoseconds, without
    /// ignored events.
    pub deviation_ns: u64,
}

/// An estimate of when the events of another clock happen.
#[derive(Clone, Debug)]
pub(crate) struct Discipline {
    /// The estimated time of an event, as an instant and the rest, and its number if that is known.
    anchor: Instant,
    fraction_ns: f64,
    number: Option<u64>,
    /// The length of a cycle of the other clock relative to the period, less one.
    stretch: f64,
    deviation_ns: f64,
    /// The number of observations that the estimate rests on.
    observations: u32,
    /// The most recent event, and its difference from the estimate.
    last_event: Instant,
    error_ns: f64,
    /// The errors of the observations that were ignored in a row, and their number.
    ignored_ns: [f64; RUN],
    ignored: usize,
}

impl Discipline {
    /// Starts with the first observed event.
    pub(crate) fn new(number: Option<u64>, event: Instant) -> Self {
        Self {
            anchor: event,
            fraction_ns: 0.0,
            number,
            stretch: 0.0,
            deviation_ns: 0.0,
            observations: 0,
            last_event: event,
            error_ns: 0.0,
            ignored_ns: [0.0; RUN],
            ignored: 1,
        }
    }

    /// Corrects the estimate by an event. Without its number, or that of the anchor, the event is
    /// that of the closest cycle. An event within half a period of the last one is dropped: it was
    /// queued behind that one.
    pub(crate) fn observe(&mut self, number: Option<u64>, event: Instant, period: Duration) {
        let period_ns = period.as_nanos() as f64;
        if signed_ns(self.last_event, event).abs() < period_ns / 2.0 {
            return;
        }
        self.last_event = event;
        let cycle_ns = self.cycle_ns(period);
        let elapsed_ns = signed_ns(self.anchor, event) - self.fraction_ns;
        let numbered_cycles = number
            .zip(self.number)
            .map(|(number, anchor_number)| number.wrapping_sub(anchor_number) as i64);
        let cycles = numbered_cycles.unwrap_or((elapsed_ns / cycle_ns).round() as i64);
        self.error_ns = elapsed_ns - cycles as f64 * cycle_ns;
        let gate_ns = GATE * self.deviation_ns + GATE_FLOOR_NS;
        let correction_ns = if self.observations > 0 && self.error_ns.abs() <= gate_ns {
            self.ignored = 0;
            self.track(cycles as f64, period)
        } else {
            if numbered_cycles.is_none() && self.ignored > 0 {
                // After a jump by half a cycle, two cycles are as close. All errors refer to one.
                let last_ns = self.ignored_ns[self.ignored - 1];
                self.error_ns -= ((self.error_ns - last_ns) / cycle_ns).round() * cycle_ns;
            }
            self.ignored_ns[self.ignored] = self.error_ns;
            self.ignored += 1;
            if self.ignored < RUN {
                return;
            }
            self.restart()
        };
        let after_ns = correction_ns - self.error_ns;
        if let Some(anchor) = shift(event, after_ns.floor()) {
            self.anchor = anchor;
            self.fraction_ns = after_ns - after_ns.floor();
            let counted =
                self.number.map(|anchor_number| anchor_number.wrapping_add_signed(cycles));
            self.number = number.or(counted);
        }
    }

    /// Returns the correction by the error of an expected event, some cycles after the anchor.
    fn track(&mut self, cycles: f64, period: Duration) -> f64 {
        self.observations = self.observations.saturating_add(1);
        let n = f64::from(self.observations);
        let seconds = cycles.abs() * period.as_secs_f64();
        let steady_gain = (GAIN_SCALE * seconds.powf(GAIN_EXPONENT)).min(MAX_GAIN);
        let gain = steady_gain.max(2.0 * (2.0 * n - 1.0) / (n * (n + 1.0)));
        // A quarter of the square is critical damping.
        let integral_gain = (steady_gain * steady_gain / 4.0).max(6.0 / (n * (n + 1.0)));
        if cycles != 0.0 {
            self.stretch += integral_gain * self.error_ns / (cycles * period.as_nanos() as f64);
            self.stretch = self.stretch.clamp(-MAX_STRETCH, MAX_STRETCH);
        }
        self.deviation_ns += (self.error_ns.abs() - self.deviation_ns) * DEVIATION_GAIN;
        gain * self.error_ns
    }

    /// Returns the correction to the median of the ignored observations. The rate remains for now.
    fn restart(&mut self) -> f64 {
        let center_ns = median(self.ignored_ns);
        self.deviation_ns = median(self.ignored_ns.map(|error| (error - center_ns).abs()));
        self.observations = RUN as u32;
        self.ignored = 0;
        center_ns
    }

    /// Returns the time from `deadline` to the closest estimated event.
    fn distance_ns(&self, deadline: Instant, period: Duration) -> f64 {
        let cycle_ns = self.cycle_ns(period);
        let elapsed_ns = signed_ns(self.anchor, deadline) - self.fraction_ns;
        (elapsed_ns / cycle_ns).round() * cycle_ns - elapsed_ns
    }

    /// Moves a deadline that is one period after its predecessor towards the closest event, by at
    /// most [`MAX_STEP`] of the period.
    pub(crate) fn align(&self, deadline: Instant, period: Duration) -> Instant {
        if self.observations == 0 {
            return deadline;
        }
        let max_ns = (MAX_STEP * period.as_nanos() as f64).floor();
        let step_ns = self.distance_ns(deadline, period).clamp(-max_ns, max_ns);
        shift(deadline, step_ns).unwrap_or(deadline)
    }

    /// Returns the first estimated event after `now`, and after the event of the tick that was due at
    /// `due`. `None` without an estimate.
    pub(crate) fn next_event(
        &self,
        due: Instant,
        now: Instant,
        period: Duration,
    ) -> Option<Instant> {
        if self.observations == 0 {
            return None;
        }
        let from = shift(due, self.distance_ns(due, period))?.max(now);
        let closest_ns = self.distance_ns(from, period);
        let is_after = closest_ns.round() >= 1.0;
        let after_ns = if is_after { closest_ns } else { closest_ns + self.cycle_ns(period) };
        // A cycle may be shorter than a nanosecond.
        shift(from, after_ns.max(1.0))
    }

    fn cycle_ns(&self, period: Duration) -> f64 {
        period.as_nanos() as f64 * (1.0 + self.stretch)
    }

    pub(crate) fn steering(&self, deadline: Instant, period: Duration) -> Steering {
        Steering {
            is_locked: self.observations >= LOCKED,
            offset_ns: -(self.error_ns + self.distance_ns(deadline, period)).round() as i64,
            rate_ppb: ((1.0 / (1.0 + self.stretch) - 1.0) * 1e9).round() as i64,
            deviation_ns: self.deviation_ns.round() as u64,
        }
    }
}

fn median(mut values: [f64; RUN]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[RUN / 2]
}

/// Returns the time from `from` to `to`.
fn signed_ns(from: Instant, to: Instant) -> f64 {
    match to.checked_duration_since(from) {
        Some(after) => after.as_nanos() as f64,
        None => -(from.duration_since(to).as_nanos() as f64),
    }
}

fn shift(instant: Instant, after_ns: f64) -> Option<Instant> {
    let distance = Duration::from_nanos(after_ns.abs().round() as u64);
    if after_ns < 0.0 { instant.checked_sub(distance) } else { instant.checked_add(distance) }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "any instant will do for an origin")]
mod tests {
    use super::*;
    use std::ops::Range;

    const PERIOD: Duration = Duration::from_millis(1);
    const MS: f64 = 1e6;

    /// Returns a number from -1 to 1 with a standard deviation of 0.29: a sum of four.
    fn scatter(index: u64) -> f64 {
        let mut bits = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xFFFF).sum();
        sum as f64 / 131_070.0 - 1.0
    }

    /// Follows a clock whose events scatter with a standard deviation of 20 us, and of which 1 %
    /// are up to 5 ms off. `cycle` returns the length of a cycle in ms, and whether its event is
    /// observed.
    ///
    /// Asserts that 99 % of the ticks from the 500th on are within 10 us of their event, except
    /// those that are exempt. Returns the cycles by which ticks moved from one event to another.
    fn follow(ticks: u64, cycle: impl Fn(u64) -> (f64, bool), exempt: Range<u64>) -> i64 {
        let origin = Instant::now() + Duration::from_secs(1);
        let (mut deadline, mut event_ns) = (origin, 0.3 * MS);
        let mut discipline = Discipline::new(None, origin);
        let (mut judged, mut far, mut first_slip, mut slip) = (0, 0, 0, 0);
        for k in 0..ticks {
            let offset_ns = signed_ns(origin, deadline) - event_ns;
            slip = (offset_ns / MS).round() as i64;
            if k <= 500 {
                first_slip = slip;
            } else if !exempt.contains(&k) {
                judged += 1;
                far += u64::from((offset_ns - slip as f64 * MS).abs() > 0.01 * MS);
            }
            let (length_ms, is_observed) = cycle(k);
            if is_observed {
                let is_outlier = scatter(!k) < -0.65; // 1 %
                let width_ns = if is_outlier { 5.0 * MS } else { 0.02 * MS / 0.29 };
                let event = shift(origin, event_ns + scatter(k) * width_ns).unwrap();
                discipline.observe(None, event, PERIOD);
            }
            event_ns += length_ms * MS;
            let next = discipline.align(deadline + PERIOD, PERIOD);
            assert!((0.95 * MS..=1.05 * MS).contains(&signed_ns(deadline, next)), "{k}");
            deadline = next;
        }
        assert!(far * 100 <= judged, "{far} of {judged} are far");
        assert!(discipline.steering(deadline, PERIOD).is_locked);
        slip - first_slip
    }

    #[test]
    fn hour_keeps_every_cycle() {
        assert_eq!(follow(3_600_000, |_| (1.000_05, true), 0..0), 0);
    }

    #[test]
    fn rates_of_both_signs_are_followed() {
        for rate in [-1e-3, -2e-4, -5e-5, 0.0, 2e-4, 1e-3] {
            assert_eq!(follow(20_000, |_| (1.0 + rate, true), 0..0), 0, "{rate}");
        }
        // A degree more every second, at 1 ppm per degree.
        assert_eq!(follow(100_000, |k| (1.0 + k as f64 * 1e-9, true), 0..0), 0);
        let step = |k| if k < 10_000 { (1.000_05, true) } else { (0.999_95, true) };
        assert_eq!(follow(20_000, step, 10_000..11_000), 0);
    }

    #[test]
    fn gaps_keep_the_rate() {
        assert_eq!(follow(100_000, |k| (1.000_05, k % 10_000 < 7_000), 0..0), 0);
        // Events are rare, as of a clock that is read now and then.
        assert_eq!(follow(100_000, |k| (1.000_05, k % 100 == 0), 0..100_000), 0);
    }

    #[test]
    fn jumps_move_ticks_by_steps() {
        let jump = |cycles| move |k| (if k == 5_000 { 1.0 + cycles } else { 1.000_05 }, true);
        assert_eq!(follow(10_000, jump(0.3), 5_000..5_100), 0);
        assert_eq!(follow(10_000, jump(3.25), 5_000..5_100), -3);
        assert_eq!(follow(10_000, jump(3.0), 0..0), -3);
        assert!((-1..=0).contains(&follow(10_000, jump(0.5), 5_000..5_100)));
    }
}
