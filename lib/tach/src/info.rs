//! Reports the clock of the process, its rate, and the error bound of conversions.

use std::sync::OnceLock;
use std::time::Duration;

use crate::counter;
use crate::reading::{cross_thread_order, ordered_count, source, why_not_counter};
use crate::repr::to_ns;
use crate::source::{CounterUnavailable, CrossThreadOrder, Source, StatedRate};
use crate::timeline::TIMELINE;

/// The origin of the rate.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum RateFrom {
    /// The rate is exact, since a count of the OS clock is a nanosecond.
    Definition,
    /// The rate is measured between two anchors.
    Anchors {
        /// The time between the two anchors.
        baseline: Duration,
    },
}

/// A description of the clock of this process.
///
/// With the feature `serde` it can be stored next to the measurements of a run. Variants are stored
/// in their text form (`"tsc"`), and durations as serde does.
///
/// ```
/// # #[cfg(feature = "serde")] {
/// let text = serde_json::to_string(&tach::info())?;
/// let info: tach::Info = serde_json::from_str(&text)?;
/// assert_eq!(info.source, tach::source());
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Info {
    /// The clock that counts are read from.
    pub source: Source,
    /// Counts per second.
    pub rate_hz: f64,
    /// The origin of the rate.
    pub rate_from: RateFrom,
    /// The error bound of the rate in parts per billion, computed from its anchors as their
    /// brackets over the baseline. It bounds the error of one second of a future span. Each end of a
    /// past span has an error of up to `error_bound_ns`, so the relative error of a short span is
    /// larger.
    pub rate_error_ppb: f64,
    /// The rate that the CPU or the hypervisor states. It is used for the first microseconds only,
    /// and only if it agrees with the anchors.
    pub rate_stated: Option<StatedRate>,
    /// The error bound for the conversion of a past count, relative to the OS's monotonic clock, in
    /// nanoseconds. It is computed from the anchors: each has an error of up to its bracket, and a
    /// piece of the line is between two of them. A change of the OS clock's own rate in between
    /// (for example by NTP) is not included.
    pub error_bound_ns: u64,
    /// The minimum time for which the machine was suspended between the first anchor and the last.
    /// Do not trust a span across a suspend. `None` if the OS does not report it (see
    /// [`Anchor::suspended_until`](crate::Anchor::suspended_until)) or if no counter is used.
    pub suspended: Option<Duration>,
    /// The means by which [`MonotonicInstant`](crate::MonotonicInstant)s keep their order across
    /// threads.
    pub cross_thread_order: CrossThreadOrder,
    /// The reason for which the counter is not used; `None` if it is used.
    pub why_not_counter: Option<CounterUnavailable>,
}

/// Returns the clock that is read, its rate and its error bound. Takes an anchor if one is due.
///
/// # Examples
/// ```
/// let info = tach::info();
/// println!("{} at {:.0} Hz, within {} ns", info.source, info.rate_hz, info.error_bound_ns);
/// ```
#[must_use]
pub fn info() -> Info {
    let source = source();
    let rate = if source == Source::OsClock { OS_CLOCK_RATE } else { measure_rate() };
    Info {
        source,
        rate_hz: rate.hz,
        rate_from: rate.from,
        rate_error_ppb: rate.error_ppb,
        rate_stated: if source == Source::OsClock { None } else { stated_rate() },
        error_bound_ns: error_bound_ns(),
        suspended: rate.suspended,
        cross_thread_order: cross_thread_order(),
        why_not_counter: why_not_counter(),
    }
}

/// The rate of the clock, with its origin and its error.
struct RateInfo {
    hz: f64,
    from: RateFrom,
    error_ppb: f64,
    suspended: Option<Duration>,
}

const OS_CLOCK_RATE: RateInfo =
    RateInfo { hz: 1e9, from: RateFrom::Definition, error_ppb: 0.0, suspended: None };

/// Measures the rate of the counter by the first anchor and the last.
fn measure_rate() -> RateInfo {
    // A conversion takes the second anchor if there is only the first.
    let _ = to_ns(ordered_count());
    let quality = TIMELINE.quality().expect("a conversion has taken two anchors");
    let baseline = Duration::from_nanos(quality.baseline_ns as u64);
    RateInfo {
        hz: 1e9 / quality.ns_per_count,
        from: RateFrom::Anchors { baseline },
        error_ppb: quality.error_ns / quality.baseline_ns * 1e9,
        suspended: quality.suspended,
    }
}

/// Returns [`Info::rate_hz`] alone. Unlike [`info`], it does not read the rate that the CPU or the
/// hypervisor states, which costs tens of microseconds at the first call under a hypervisor.
///
/// # Examples
/// ```
/// assert!(tach::rate_hz() > 0.0);
/// ```
#[must_use]
pub fn rate_hz() -> f64 {
    if source() == Source::OsClock { OS_CLOCK_RATE.hz } else { measure_rate().hz }
}

/// Returns [`Info::error_bound_ns`] alone. After the first conversion of the process this costs one
/// load.
///
/// The bound may grow with each new anchor, so two calls may return different values.
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
    if let Some(bound) = TIMELINE.error_bound_ns() {
        return bound;
    }
    let _ = to_ns(ordered_count());
    TIMELINE.error_bound_ns().expect("a conversion has taken two anchors")
}

/// Returns the rate that the CPU or the hypervisor states. It never changes, and reading it costs
/// tens of microseconds under a hypervisor, so it is read once.
fn stated_rate() -> Option<StatedRate> {
    static STATED: OnceLock<Option<StatedRate>> = OnceLock::new();
    *STATED.get_or_init(counter::stated_rate)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rates_agree_within_error() {
        let first = info();
        assert!(first.rate_hz > 0.0 && first.rate_error_ppb >= 0.0 && first.error_bound_ns > 0);
        assert_eq!(first.rate_from == RateFrom::Definition, first.source == Source::OsClock);
        std::thread::yield_now();
        let second = info();
        let difference_ppb = (first.rate_hz / second.rate_hz - 1.0).abs() * 1e9;
        assert!(
            difference_ppb <= first.rate_error_ppb + second.rate_error_ppb,
            "{first:?} {second:?}"
        );
    }

    /// Every timer that expires reads the error bound, so it must not execute CPUID, which costs
    /// tens of microseconds in a virtual machine.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "compares the cost of the calls")]
    fn error_bound_costs_some_readings() {
        let cost = |call: fn() -> u64| {
            let time_calls = || {
                let start = std::time::Instant::now();
                for _ in 0..100 {
                    assert_ne!(std::hint::black_box(call()), 0);
                }
                start.elapsed()
            };
            (0..50).map(|_| time_calls()).min().unwrap()
        };
        let _ = error_bound_ns();
        let (bound, reading) = (cost(error_bound_ns), cost(ordered_count));
        assert!(bound <= reading * 20, "100 calls take {bound:?}, 100 readings {reading:?}");
        let info = cost(|| info().error_bound_ns);
        assert!(info <= reading * 100, "100 calls take {info:?}, 100 readings {reading:?}");
    }

    #[test]
    fn stated_rate_matches_the_anchors() {
        let info = info();
        let Some(stated) = info.rate_stated else { return };
        let ratio = stated.hz as f64 / info.rate_hz;
        assert!((0.9..1.1).contains(&ratio), "{stated:?} is {ratio} of the measured rate");
    }
}
