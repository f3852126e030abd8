//! What is read, and how far the conversion can be trusted.

use std::sync::OnceLock;
use std::time::Duration;

use crate::counter;
use crate::moment::ns;
use crate::reading::{cross_thread_order, ordered_count, source, why_not_counter};
use crate::source::{CrossThreadOrder, Source, StatedRate, WhyNotCounter};
use crate::timeline::TIMELINE;

/// How the rate is known.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum RateFrom {
    /// A count of the OS clock is a nanosecond.
    Definition,
    /// Measured between two anchors.
    Anchors {
        /// The time between them.
        baseline: Duration,
    },
}

/// The clock of this process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// What a count is a reading of.
    pub source: Source,
    /// Counts per second.
    pub rate_hz: f64,
    /// How the rate is known.
    pub rate_from: RateFrom,
    /// How far the rate can be off, in parts per billion, judging by its anchors: their brackets
    /// over the baseline. This bounds the relative error of a span of the past, and of one second
    /// of a span that is still to come.
    pub rate_error_ppb: f64,
    /// The rate that the CPU or the hypervisor states; used for the first microseconds only, and
    /// only if the anchors agree with it.
    pub rate_stated: Option<StatedRate>,
    /// How far the conversion of a count of the past can be off the OS's monotonic clock, in
    /// nanoseconds, judging by the anchors: each is off by up to its bracket, and a piece of the
    /// line lies between two of them. A change of that clock's own rate in between (by NTP, say) is
    /// not included.
    pub error_bound_ns: u64,
    /// How long the machine was suspended between the first anchor and the last, at least: no span
    /// across that is to be trusted. `None` where the OS does not say (see
    /// [`Anchor::suspended_until`](crate::Anchor::suspended_until)), or no counter is used.
    pub suspended: Option<Duration>,
    /// What keeps [`MonotonicInstant`](crate::MonotonicInstant)s in order across threads.
    pub cross_thread_order: CrossThreadOrder,
    /// Why the counter is not used; `None` if it is.
    pub why_not_counter: Option<WhyNotCounter>,
}

/// Reports what is read, at what rate, and with what error bound; takes an anchor if one is due.
///
/// # Examples
/// ```
/// let info = tach::info();
/// println!("{} at {:.0} Hz, within {} ns", info.source, info.rate_hz, info.error_bound_ns);
/// ```
#[must_use]
pub fn info() -> Info {
    let source = source();
    let (rate_hz, rate_from, rate_error_ppb, suspended) = if source == Source::OsClock {
        (1e9, RateFrom::Definition, 0.0, None)
    } else {
        // A conversion, so that there are two anchors to take a rate from.
        let _ = ns(ordered_count());
        let quality = TIMELINE.quality().expect("a conversion has taken them");
        let baseline = Duration::from_nanos(quality.baseline_ns as u64);
        let rate_error_ppb = quality.error_ns / quality.baseline_ns * 1e9;
        (
            1e9 / quality.ns_per_count,
            RateFrom::Anchors { baseline },
            rate_error_ppb,
            quality.suspended,
        )
    };
    Info {
        source,
        rate_hz,
        rate_from,
        rate_error_ppb,
        rate_stated: if source == Source::OsClock { None } else { stated_rate() },
        error_bound_ns: error_bound_ns(),
        suspended,
        cross_thread_order: cross_thread_order(),
        why_not_counter: why_not_counter(),
    }
}

/// [`Info::error_bound_ns`] by itself: one load, after the first conversion of the process.
///
/// It changes whenever the line is anchored anew, so two calls may differ.
///
/// # Examples
/// ```
/// assert!(tach::error_bound_ns() > 0);
/// ```
#[must_use]
pub fn error_bound_ns() -> u64 {
    if source() == Source::OsClock {
        return 1;
    }
    TIMELINE.error_bound_ns().unwrap_or_else(|| {
        let _ = ns(ordered_count());
        TIMELINE.error_bound_ns().expect("a conversion has taken the anchors")
    })
}

/// What the CPU and the hypervisor state never changes, and asking costs tens of microseconds under
/// a hypervisor.
fn stated_rate() -> Option<StatedRate> {
    static STATED: OnceLock<Option<StatedRate>> = OnceLock::new();
    *STATED.get_or_init(counter::stated_rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reports_a_rate_that_the_bound_fits() {
        let first = info();
        assert!(first.rate_hz > 0.0 && first.rate_error_ppb >= 0.0 && first.error_bound_ns > 0);
        assert_eq!(first.rate_from == RateFrom::Definition, first.source == Source::OsClock);
        std::thread::yield_now();
        let second = info();
        let apart = (first.rate_hz / second.rate_hz - 1.0).abs() * 1e9;
        assert!(apart <= first.rate_error_ppb + second.rate_error_ppb, "{first:?} {second:?}");
    }

    /// Asked about by every timer that expires: it must not ask the CPU, which costs tens of
    /// microseconds in a machine that is virtual.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "what is compared is what the calls cost")]
    fn the_error_bound_costs_no_more_than_some_readings() {
        let cost = |call: fn() -> u64| {
            let go = || {
                let start = std::time::Instant::now();
                (0..100).for_each(|_| assert_ne!(std::hint::black_box(call()), 0));
                start.elapsed()
            };
            (0..50).map(|_| go()).min().unwrap()
        };
        let _ = error_bound_ns();
        let (bound, reading) = (cost(error_bound_ns), cost(ordered_count));
        assert!(bound <= reading * 20, "{bound:?} for a hundred, where readings take {reading:?}");
        let info = cost(|| info().error_bound_ns);
        assert!(info <= reading * 100, "{info:?} for a hundred, where readings take {reading:?}");
    }

    #[test]
    fn a_stated_rate_is_that_of_the_anchors() {
        let info = info();
        let Some(stated) = info.rate_stated else { return };
        let ratio = stated.hz as f64 / info.rate_hz;
        assert!((0.9..1.1).contains(&ratio), "{stated:?} is {ratio} of the measured rate");
    }
}
