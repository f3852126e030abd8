//! The precise mode: wake up a little before the deadline, and spin on the clock for the rest.

use std::time::Duration;

/// How close to its deadline a tick is delivered, and what that may cost.
/// [`Builder`](crate::Builder) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Precision {
    /// When the OS's timer wakes the task: tens of microseconds late, next to no CPU time.
    #[default]
    Os,
    /// Tens of nanoseconds late, paid for in CPU time: the timer is armed a *lead* before the
    /// deadline, and the poll that finds itself within the lead spins on the kernel's clock until
    /// the deadline has come.
    ///
    /// The lead is learnt: it follows the given quantile of how late the timer wakes the task, up
    /// within tens of ticks, down again within hundreds. A tick for which the timer is later than
    /// the lead is as late as without it, less the lead. Whatever keeps the task from being polled
    /// once the timer has woken it counts too: beside tasks that hold the worker for long, the lead
    /// grows towards its cap. Where the interval falls back to tokio's timer it ticks as with
    /// [`Precision::Os`]: no lead of reasonable length covers a wheel of a millisecond.
    ///
    /// # What it does to others
    /// A poll may hold its worker thread for as long as the lead, at most [`Spin::cap`], and at
    /// most the share [`Spin::share`] of the period. Other tasks of that worker wait in the
    /// meantime: on a current-thread runtime all of them. Give such an interval a thread of its own
    /// where others must not wait.
    Spin(Spin),
}

impl Precision {
    /// The precise mode with its default settings.
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
/// // At most 50 us of spinning a tick, and a tenth of a core.
/// let spin = Spin::default().quantile(0.9).floor(Duration::from_micros(2)).cap(Duration::from_micros(50)).share(0.1);
/// let precision = Precision::from(spin);
/// assert_ne!(precision, Precision::spin());
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Spin {
    /// The share of ticks that should find the task awake before the deadline, between 0 and 1
    /// (0.92). More means more punctual ticks, and more time spent spinning.
    pub quantile: f64,
    /// The lead is never shorter than this (1 us).
    pub floor: Duration,
    /// The lead is never longer than this (200 us): the longest time that one poll holds its
    /// thread.
    pub cap: Duration,
    /// The lead is never longer than this share of the period (0.2): the largest share of one core
    /// that spinning takes.
    pub share: f64,
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
    /// Sets [`Spin::quantile`]; clamped to 0.5 to 0.999.
    #[must_use]
    pub fn quantile(self, quantile: f64) -> Self {
        Self { quantile, ..self }
    }

    /// Sets [`Spin::floor`].
    #[must_use]
    pub fn floor(self, floor: Duration) -> Self {
        Self { floor, ..self }
    }

    /// Sets [`Spin::cap`].
    #[must_use]
    pub fn cap(self, cap: Duration) -> Self {
        Self { cap, ..self }
    }

    /// Sets [`Spin::share`]; clamped to 0 to 1.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }
}

impl From<Spin> for Precision {
    fn from(spin: Spin) -> Self {
        Self::Spin(spin)
    }
}

/// The learnt lead: a quantile tracked by stochastic approximation (Robbins and Monro, 1951) on the
/// logarithm, so that its steps fit leads of one and of a hundred microseconds.
#[derive(Clone, Debug)]
pub(crate) struct Lead {
    lead: Duration,
    ln_ns: f64,
    ln_floor: f64,
    ln_cap: f64,
    quantile: f64,
    observed: u32,
}

/// Size of a step up and a step down together, on the logarithm.
const GAIN: f64 = 0.1;
/// The first observation is taken as the median; the lead starts this much above it.
const FIRST_MARGIN: f64 = 1.5;
/// The steps start this many times larger, and shrink to their size over as many observations.
const FIRST_STEPS: u32 = 5;

impl Lead {
    pub(crate) fn new(spin: Spin, period: Duration) -> Self {
        const LEAST_NS: f64 = 1.0;
        let share = if spin.share.is_finite() { spin.share.clamp(0.0, 1.0) } else { 0.0 };
        let cap_ns =
            (spin.cap.as_nanos() as f64).min(period.as_nanos() as f64 * share).max(LEAST_NS);
        let floor_ns = (spin.floor.as_nanos() as f64).clamp(LEAST_NS, cap_ns);
        let quantile =
            if spin.quantile.is_finite() { spin.quantile.clamp(0.5, 0.999) } else { 0.5 };
        let lead = Duration::from_nanos(floor_ns as u64);
        Self {
            lead,
            ln_ns: floor_ns.ln(),
            ln_floor: floor_ns.ln(),
            ln_cap: cap_ns.ln(),
            quantile,
            observed: 0,
        }
    }

    /// How long before the deadline to wake up.
    pub(crate) fn get(&self) -> Duration {
        self.lead
    }

    /// The timer woke the task this long after the time it was armed for.
    pub(crate) fn observe(&mut self, late: Duration) {
        if self.observed == 0 {
            self.ln_ns = (late.as_nanos() as f64 * FIRST_MARGIN).ln();
        } else {
            let gain = GAIN * f64::from((FIRST_STEPS + 1).saturating_sub(self.observed).max(1));
            self.ln_ns += gain * if late > self.lead { self.quantile } else { self.quantile - 1.0 };
        }
        self.observed = self.observed.saturating_add(1);
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

    /// Lateness of a timer that is 20 to 40 us late, evenly.
    fn ordinary(i: u64) -> Duration {
        US(20)
            + Duration::from_nanos(i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44) * 20_000 / (1 << 20)
    }

    #[test]
    fn the_lead_finds_the_quantile_and_covers_its_share_of_the_ticks() {
        for quantile in [0.8, 0.95, 0.99] {
            let mut lead = Lead::new(Spin::default().quantile(quantile), PERIOD);
            (0..2_000).for_each(|i| lead.observe(ordinary(i)));
            let covered = (2_000..22_000)
                .filter(|&i| {
                    let covered = ordinary(i) <= lead.get();
                    lead.observe(ordinary(i));
                    covered
                })
                .count();
            assert!((covered as f64 / 20_000.0 - quantile).abs() < 0.02, "{quantile}: {covered}");
        }
    }

    #[test]
    fn it_comes_down_again_after_a_bad_minute() {
        let mut lead = Lead::new(Spin::default(), PERIOD);
        (0..120_000).for_each(|_| lead.observe(US(5_000)));
        // A fifth of the period, less what the logarithm rounds off.
        assert!(lead.get() > US(99) && lead.get() <= US(100), "{:?}", lead.get());
        (0..1_000).for_each(|i| lead.observe(ordinary(i)));
        assert!(lead.get() < US(50), "{:?}", lead.get());
    }

    proptest! {
        #[test]
        fn it_never_leaves_its_bounds(
            late_ns in proptest::collection::vec(0_u64..10_000_000_000, 0..500),
            quantile in proptest::num::f64::ANY,
            share in proptest::num::f64::ANY,
            cap_us in 0_u64..1_000,
            floor_us in 0_u64..1_000,
            period_us in 1_u64..10_000,
        ) {
            let spin = Spin::default().quantile(quantile).share(share).cap(US(cap_us)).floor(US(floor_us));
            let mut lead = Lead::new(spin, US(period_us));
            for ns in late_ns {
                lead.observe(Duration::from_nanos(ns));
                prop_assert!(lead.get() <= US(cap_us).max(Duration::from_nanos(1)));
                prop_assert!(lead.get() <= US(period_us));
            }
        }
    }
}
