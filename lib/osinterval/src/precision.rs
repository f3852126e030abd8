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
    /// A tick is tens of nanoseconds late, at the cost of CPU time: the timer is armed a *lead*
    /// before the deadline, and a poll within the lead spins on the kernel's clock until the
    /// deadline.
    ///
    /// The lead adapts: it follows the given quantile of how late the timer wakes the task, upwards
    /// within tens of ticks, downwards within hundreds. If the timer fires later than the lead
    /// allows for, the tick is late by the excess. The lateness includes the time from the wake-up
    /// to the poll: if other tasks hold the worker for long, the lead grows towards its cap.
    ///
    /// An interval that falls back to tokio's timer ticks as with [`Precision::Os`], since no lead
    /// of reasonable length covers a wheel of a millisecond. So does any interval while a test has
    /// paused tokio's clock.
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

/// The lead, estimated as a quantile of the lateness.
///
/// The estimate is a stochastic approximation (Robbins and Monro, 1951) of the logarithm, so that
/// its steps fit leads of one and of a hundred microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    lead: Duration,
    ln_ns: f64,
    ln_floor: f64,
    ln_cap: f64,
    quantile: f64,
    observations: u32,
}

/// The minimum of the floor and the cap. The logarithm of a lead of zero is infinite.
const MIN_LEAD: Duration = Duration::from_nanos(1);
/// The size of a step up plus a step down, on the logarithm.
const GAIN: f64 = 0.1;
/// The ratio of the first lead to the first observation, which is taken as the median.
const FIRST_MARGIN: f64 = 1.5;
/// The first steps are this many times larger, and shrink to their size over as many observations.
const FIRST_STEPS: u32 = 5;

impl Lead {
    pub(crate) fn new(spin: Spin, period: Duration) -> Self {
        let min_ns = MIN_LEAD.as_nanos() as f64;
        let share_ns = period.as_nanos() as f64 * spin.share;
        let cap_ns = (spin.cap.as_nanos() as f64).min(share_ns).max(min_ns);
        let floor_ns = (spin.floor.as_nanos() as f64).min(cap_ns);
        Self {
            lead: Duration::from_nanos(floor_ns as u64),
            ln_ns: floor_ns.ln(),
            ln_floor: floor_ns.ln(),
            ln_cap: cap_ns.ln(),
            quantile: spin.quantile,
            observations: 0,
        }
    }

    /// Returns how long before the deadline to wake up.
    pub(crate) fn duration(&self) -> Duration {
        self.lead
    }

    /// Updates the lead after the task ran `late` after the time for which the timer was armed.
    pub(crate) fn observe(&mut self, late: Duration) {
        if self.observations == 0 {
            self.ln_ns = (late.as_nanos() as f64 * FIRST_MARGIN).ln();
        } else {
            let gain = GAIN * f64::from((FIRST_STEPS + 1).saturating_sub(self.observations).max(1));
            self.ln_ns += gain * if late > self.lead { self.quantile } else { self.quantile - 1.0 };
        }
        self.observations = self.observations.saturating_add(1);
        self.ln_ns = self.ln_ns.clamp(self.ln_floor, self.ln_cap);
        self.lead = Duration::from_nanos(self.ln_ns.exp() as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: Duration = Duration::from_micros(500);
    const US: fn(u64) -> Duration = Duration::from_micros;

    /// Returns the i-th lateness of a timer that is 20 to 40 us late, evenly distributed.
    fn usual_lateness(i: u64) -> Duration {
        US(20)
            + Duration::from_nanos(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44) * 20_000 / (1 << 20)
    }

    #[test]
    fn lead_covers_quantile_of_ticks() {
        for quantile in [0.8, 0.95, 0.99] {
            let mut lead = Lead::new(Spin::default().with_quantile(quantile), PERIOD);
            for i in 0..2_000 {
                lead.observe(usual_lateness(i));
            }
            let mut covered = 0;
            for late in (2_000..22_000).map(usual_lateness) {
                covered += u32::from(late <= lead.duration());
                lead.observe(late);
            }
            assert!(
                (f64::from(covered) / 20_000.0 - quantile).abs() < 0.02,
                "{quantile}: {covered}"
            );
        }
    }

    #[test]
    fn lead_shrinks_after_a_slow_minute() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        for _ in 0..120_000 {
            lead.observe(US(5_000));
        }
        // A fifth of the period, less what the logarithm rounds off.
        assert!(lead.duration() > US(99) && lead.duration() <= US(100), "{:?}", lead.duration());
        for i in 0..1_000 {
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
