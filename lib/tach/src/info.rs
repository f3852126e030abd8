//! What is read, and how far the conversion can be trusted.

use std::time::Duration;

use crate::counter;
use crate::instant::ns;
use crate::os;
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
    /// How far the rate can be off, in parts per billion, judging by its anchors: their brackets over the baseline. This
    /// bounds the relative error of a span of the past, and of one second of a span that is still to come.
    pub rate_error_ppb: f64,
    /// The rate that the CPU or the hypervisor states; used for the first microseconds only, and only if the anchors
    /// agree with it.
    pub rate_stated: Option<StatedRate>,
    /// How far the conversion of a count of the past can be off the OS's monotonic clock, in nanoseconds, judging by the
    /// anchors: each is off by up to its bracket, and a piece of the line lies between two of them. A change of that
    /// clock's own rate in between (by NTP, say) is not included.
    pub error_bound_ns: u64,
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
    let (rate_hz, rate_from, rate_error_ppb, error_bound_ns) = if source == Source::OsClock {
        (1e9, RateFrom::Definition, 0.0, 1)
    } else {
        // A conversion, so that there are two anchors to take a rate from.
        let _ = ns(ordered_count());
        let quality = TIMELINE.quality().expect("a conversion has taken them");
        let wrong_ns = quality.bracket_ns + quality.ns_per_count + (os::STEP_NS - 1) as f64;
        let baseline = Duration::from_nanos(quality.baseline_ns as u64);
        // Two anchors, each by a bracket and a count, carried on to a threshold twice as far away.
        let error_bound_ns = (4.0 * wrong_ns).ceil() as u64 + 2;
        let rate_error_ppb = 2.0 * wrong_ns / quality.baseline_ns * 1e9;
        (1e9 / quality.ns_per_count, RateFrom::Anchors { baseline }, rate_error_ppb, error_bound_ns)
    };
    Info {
        source,
        rate_hz,
        rate_from,
        rate_error_ppb,
        rate_stated: if source == Source::OsClock { None } else { counter::stated_rate() },
        error_bound_ns,
        cross_thread_order: cross_thread_order(),
        why_not_counter: why_not_counter(),
    }
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

    #[test]
    fn a_stated_rate_is_that_of_the_anchors() {
        let info = info();
        let Some(stated) = info.rate_stated else { return };
        let ratio = stated.hz as f64 / info.rate_hz;
        assert!((0.9..1.1).contains(&ratio), "{stated:?} is {ratio} of the measured rate");
    }
}
