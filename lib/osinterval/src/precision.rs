//! The precise mode: the task wakes up a little before its deadline, and spins on the clock for the
//! rest.

use std::time::Duration;

/// The precision of ticks: how close to its deadline a tick is delivered, and at what cost.
/// [`IntervalBuilder`](crate::IntervalBuilder) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Precision {
    /// A tick is delivered when the OS's timer wakes the task: tens of microseconds late, with
    /// little CPU time.
    #[default]
    Os,
    /// Nine ticks in ten are tens of nanoseconds late, at the cost of CPU time: the timer is armed a
    /// *lead* before the deadline, and a poll within the lead spins on the kernel's clock until the
    /// deadline. The others are as late as the wake-up exceeds the lead, so the 99th percentile is
    /// microseconds or tens of them. [`Spin::with_quantile`] sets the share; the book of osjitter
    /// has a table of its price (Choosing a ticker, What the precise mode spends).
    ///
    /// The lead adapts: it follows the given quantile of how late the timer wakes the task, in both
    /// directions within a hundred ticks at the default quantile, and the closer the quantile is to
    /// one, the slower downwards. The first two wake-ups are not counted, since they are cold: the
    /// first three ticks are as late as with [`Precision::Os`]. If the timer fires later than the lead
    /// allows for, the tick is late by the excess. The lateness includes the time from the wake-up
    /// to the poll: if other tasks hold the worker for long, the lead grows towards its cap.
    ///
    /// An interval that falls back to tokio's timer ticks as with [`Precision::Os`], since no lead
    /// of reasonable length covers a wheel of a millisecond. So does any interval while a test has
    /// paused tokio's clock.
    ///
    /// The spin pauses between two readings of the clock ([`std::hint::spin_loop`]), except in its
    /// last microsecond. The instructions `TPAUSE` of Intel and `WFET` of Arm, which wait with less
    /// power, are not used: no measurement shows a gain, since none was made on hardware that has
    /// them.
    ///
    /// # Effect on other tasks
    /// A poll may hold its worker thread for as long as the lead, which is at most [`Spin::cap`],
    /// and at most the share [`Spin::share`] of the period. During that time, other tasks of the
    /// worker wait; on a current-thread runtime these are all others. If they must not wait, run
    /// the interval on a thread of its own.
    Spin(Spin),
}

impl Precision {
    /// Returns the precise mode with its default settings.
    #[must_use]
    pub fn spin() -> Self {
        Self::Spin(Spin::default())
    }
}

/// Settings of the precise mode.
///
/// # Examples
/// ```
/// use std::time::Duration;
/// use osinterval::{Precision, Spin};
/// // At most 50 us of spinning per tick, and a tenth of a core.
/// let spin = Spin::default().with_cap(Duration::from_micros(50)).with_share(0.1);
/// assert_eq!((spin.cap(), spin.share()), (Duration::from_micros(50), 0.1));
/// let precision = Precision::from(spin);
/// assert_ne!(precision, Precision::spin());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spin {
    quantile: f64,
    floor: Duration,
    cap: Duration,
    share: f64,
}

impl Default for Spin {
    fn default() -> Self {
        Self {
            quantile: 0.92,
            floor: Duration::from_micros(1),
            cap: Duration::from_micros(200),
            share: 0.2,
        }
    }
}

impl Spin {
    /// Returns the share of ticks for which the task should be awake before the deadline; 0.92
    /// unless set. A larger share means more punctual ticks and more time spent spinning.
    #[must_use]
    pub fn quantile(&self) -> f64 {
        self.quantile
    }

    /// Sets [`Spin::quantile`], which is clamped to 0.5 to 0.999.
    #[must_use]
    pub fn with_quantile(self, quantile: f64) -> Self {
        Self { quantile: clamp(quantile, 0.5, 0.999), ..self }
    }

    /// Returns the minimum of the lead; 1 us unless set.
    #[must_use]
    pub fn floor(&self) -> Duration {
        self.floor
    }

    /// Sets [`Spin::floor`], which is at least 1 ns. A larger floor than the maximum of the lead
    /// has the effect of that maximum.
    #[must_use]
    pub fn with_floor(self, floor: Duration) -> Self {
        Self { floor: floor.max(MIN_LEAD), ..self }
    }

    /// Returns the maximum of the lead, which is the maximum time for which a poll holds its
    /// thread; 200 us unless set.
    #[must_use]
    pub fn cap(&self) -> Duration {
        self.cap
    }

    /// Sets [`Spin::cap`], which is at least 1 ns.
    #[must_use]
    pub fn with_cap(self, cap: Duration) -> Self {
        Self { cap: cap.max(MIN_LEAD), ..self }
    }

    /// Returns the maximum of the lead as a share of the period, which is the maximum share of a
    /// core that is spent spinning; 0.2 unless set.
    ///
    /// If the timer's lateness exceeds this share of the period, ticks are late by the difference:
    /// at 0.2 and 30 us of timer lateness, this concerns periods below 150 us. At 1, ticks are
    /// punctual at every period. If the period is shorter than the lateness of the timer, the task
    /// then spins all the time and needs a whole core.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Sets [`Spin::share`], which is clamped to 0 to 1.
    #[must_use]
    pub fn with_share(self, share: f64) -> Self {
        Self { share: clamp(share, 0.0, 1.0), ..self }
    }
}

/// Returns the number of the range that is closest to `value`, or `min` if `value` is not a number.
fn clamp(value: f64, min: f64, max: f64) -> f64 {
    if value.is_nan() { min } else { value.clamp(min, max) }
}

impl From<Spin> for Precision {
    fn from(spin: Spin) -> Self {
        Self::Spin(spin)
    }
}

/// The lead, estimated as a quantile of the lateness of wake-ups.
///
/// The estimate is a stochastic approximation (Robbins and Monro, 1951): it rises by a step times
/// the quantile after a wake-up that was later, and falls by a step times the rest after any other,
/// so it rests where the share of earlier wake-ups is the quantile. The step is proportional to the
/// usual distance between wake-ups and lead, as Tierney (1983) recommends: a timer whose lateness
/// varies by a microsecond needs smaller steps than one that varies by twenty.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    lead_ns: f64,
    /// Moving average of the distance between a wake-up and the lead.
    distance_ns: f64,
    floor_ns: f64,
    cap_ns: f64,
    quantile: f64,
    observations: u32,
}

/// The minimum of the floor and the cap.
const MIN_LEAD: Duration = Duration::from_nanos(1);
/// The first wake-ups, which are not observed: code, timer and caches are cold, and they take
/// several times as long as later ones.
const COLD_WAKE_UPS: u32 = 2;
/// The size of a step up plus a step down, as a multiple of the distance.
const GAIN: f64 = 0.3;
/// The first steps are larger: the sum of both is this multiple, divided by the observations.
const FIRST_GAIN: f64 = 2.0;
/// The distance before it has been observed, as a share of the first lead.
const FIRST_DISTANCE: f64 = 0.1;
/// The share of a new distance in the average.
const DISTANCE_GAIN: f64 = 0.03;
/// A new distance counts as at most this multiple of the average, so that a stall of milliseconds
/// has no more weight than others.
const MAX_DISTANCE: f64 = 3.0;
/// The minimum of the distance, from which it can grow again.
const MIN_DISTANCE_NS: f64 = 20.0;

impl Lead {
    pub(crate) fn new(spin: Spin, period: Duration) -> Self {
        let min_ns = MIN_LEAD.as_nanos() as f64;
        let share_ns = period.as_nanos() as f64 * spin.share;
        let cap_ns = (spin.cap.as_nanos() as f64).min(share_ns).max(min_ns);
        let floor_ns = (spin.floor.as_nanos() as f64).min(cap_ns);
        Self {
            lead_ns: floor_ns,
            distance_ns: MIN_DISTANCE_NS,
            floor_ns,
            cap_ns,
            quantile: spin.quantile,
            observations: 0,
        }
    }

    /// Returns how long before the deadline to wake up.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_nanos(self.lead_ns as u64)
    }

    /// Updates the lead after the task ran `late` after the time for which the timer was armed.
    pub(crate) fn observe(&mut self, late: Duration) {
        self.observations = self.observations.saturating_add(1);
        let observed = self.observations.saturating_sub(COLD_WAKE_UPS);
        if observed == 0 {
            return;
        }
        let late_ns = late.as_nanos() as f64;
        if observed == 1 {
            self.lead_ns = late_ns;
            self.distance_ns = late_ns.min(self.cap_ns) * FIRST_DISTANCE;
        } else {
            let distance_ns = (late_ns.min(self.cap_ns) - self.lead_ns).abs();
            let direction = self.quantile - f64::from(u8::from(late_ns <= self.lead_ns));
            let gain = GAIN.max(FIRST_GAIN / f64::from(observed - 1));
            self.lead_ns += gain * self.distance_ns * direction;
            let counted_ns = distance_ns.min(MAX_DISTANCE * self.distance_ns);
            self.distance_ns += DISTANCE_GAIN * (counted_ns - self.distance_ns);
        }
        self.distance_ns = self.distance_ns.max(MIN_DISTANCE_NS);
        self.lead_ns = self.lead_ns.clamp(self.floor_ns, self.cap_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_micros(500);
    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Returns the i-th lateness of a timer that is `min` to `min + range` late, evenly distributed.
    fn even_lateness(i: u64, min: Duration, range: Duration) -> Duration {
        // The finalizer of SplitMix64.
        let mut random = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        random = (random ^ (random >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        random = (random ^ (random >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        min + range.mul_f64((random >> 44) as f64 / f64::from(1 << 20))
    }

    /// Returns the i-th lateness of a timer that is 20 to 40 us late.
    fn usual_lateness(i: u64) -> Duration {
        even_lateness(i, US(20), US(20))
    }

    #[test]
    fn lead_covers_quantile_of_ticks() {
        for quantile in [0.5, 0.8, 0.92, 0.95, 0.99, 0.999] {
            for range in [US(1), US(20), US(60)] {
                let mut lead = Lead::new(Spin::default().with_quantile(quantile), PERIOD);
                let mut covered = 0;
                for i in 0..42_000 {
                    let late = even_lateness(i, US(20), range);
                    covered += u32::from(i >= 2_000 && late <= lead.duration());
                    lead.observe(late);
                }
                let error = f64::from(covered) / 40_000.0 - quantile;
                assert!(error.abs() < 0.15 * (1.0 - quantile), "{quantile}, {range:?}: {error}");
            }
        }
    }

    #[test]
    fn spinning_is_close_to_constant_lead() {
        for range in [US(1), US(20)] {
            let mut lead = Lead::new(Spin::default().with_quantile(0.9), PERIOD);
            let best = US(20) + range.mul_f64(0.9);
            let (mut spun, mut spun_by_best) = (Duration::ZERO, Duration::ZERO);
            for late in (0..40_000).map(|i| even_lateness(i, US(20), range)) {
                spun += lead.duration().saturating_sub(late);
                spun_by_best += best.saturating_sub(late);
                lead.observe(late);
            }
            assert!(spun < spun_by_best * 21 / 20, "{range:?}: {spun:?}, best {spun_by_best:?}");
        }
    }

    #[test]
    fn cold_wake_ups_are_not_counted() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        for cold in [US(95), US(60)] {
            lead.observe(cold);
            assert_eq!(lead.duration(), US(1));
        }
        lead.observe(US(25));
        assert_eq!(lead.duration(), US(25));
    }

    #[test]
    fn lead_follows_changes_of_lateness() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        for min in [US(20), US(75), US(20), US(5), US(75)] {
            for i in 0..250 {
                lead.observe(even_lateness(i, min, US(5)));
            }
            let late = lead.duration().saturating_sub(min);
            assert!(late > US(3) && late < US(8), "{min:?}: {:?}", lead.duration());
        }
    }

    #[test]
    fn rare_stalls_hardly_raise_lead() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        for i in 0..10_000 {
            let late = if i % 50 == 49 { US(5_000) } else { usual_lateness(i) };
            lead.observe(late);
            assert!(i < 50 || lead.duration() < US(60), "{i}: {:?}", lead.duration());
        }
    }

    #[test]
    fn lead_shrinks_after_a_slow_minute() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        for _ in 0..120_000 {
            lead.observe(US(5_000));
        }
        assert_eq!(lead.duration(), US(100), "a fifth of the period");
        for i in 0..250 {
            lead.observe(usual_lateness(i));
        }
        assert!(lead.duration() < US(50), "{:?}", lead.duration());
    }

    #[test]
    fn settings_are_clamped_when_set() {
        let lowest = Spin::default().with_quantile(f64::NAN).with_share(-1.0);
        assert_eq!((lowest.quantile(), lowest.share()), (0.5, 0.0));
        let highest = Spin::default().with_quantile(1.0).with_share(f64::INFINITY);
        assert_eq!((highest.quantile(), highest.share()), (0.999, 1.0));
        let shortest = Spin::default().with_floor(Duration::ZERO).with_cap(Duration::ZERO);
        assert_eq!((shortest.floor(), shortest.cap()), (MIN_LEAD, MIN_LEAD));
    }

    proptest! {
        #[test]
        fn lead_stays_within_bounds(
            late_ns in proptest::collection::vec(0_u64..10_000_000_000, 0..500),
            quantile in proptest::num::f64::ANY,
            share in proptest::num::f64::ANY,
            cap_us in 0_u64..1_000,
            floor_us in 0_u64..1_000,
            period_us in 1_u64..10_000,
        ) {
            let spin = Spin::default()
                .with_quantile(quantile)
                .with_share(share)
                .with_cap(US(cap_us))
                .with_floor(US(floor_us));
            prop_assert!((0.5..=0.999).contains(&spin.quantile()), "{quantile}");
            prop_assert!((0.0..=1.0).contains(&spin.share()), "{share}");
            let mut lead = Lead::new(spin, US(period_us));
            for ns in late_ns {
                lead.observe(Duration::from_nanos(ns));
                prop_assert!(lead.duration() <= US(cap_us).max(Duration::from_nanos(1)));
                prop_assert!(lead.duration() <= US(period_us));
            }
        }
    }
}
