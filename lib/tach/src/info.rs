//! What is read, and how far its conversion can be trusted.

use crate::instant::{ns, timeline};
use crate::source::{Source, WhyNotCounter, source, why_not_counter};

/// The clock of this process.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Info {
    /// What a count is a reading of.
    pub source: Source,
    /// Counts a second.
    pub rate_hz: f64,
    /// How far the conversion of a count of the past is off the operating system's monotonic clock at most, as far as
    /// the anchors can tell: each is wrong by up to its bracket, and a piece of the line lies between two of them. A
    /// clock whose own rate is being changed in between (by NTP, say) is not in it.
    pub error_bound_ns: u64,
    /// Why the counter is not used; `None` if it is.
    pub why_not_counter: Option<WhyNotCounter>,
}

/// Tells what is read, at what rate, and with what error bound; takes an anchor if that is due.
#[must_use]
pub fn info() -> Info {
    let source = source();
    // A conversion, so that there are two anchors to tell a rate.
    let _ = ns(crate::count());
    let quality = timeline().quality();
    let rate_hz = quality.map_or(1e9, |q| 1e9 / q.ns_per_count);
    // Two anchors, each by a bracket and a count, carried on to a threshold twice as far away.
    let error_bound_ns = quality.map_or(0, |q| (4.0 * (q.bracket_ns + q.ns_per_count)).ceil() as u64 + 2);
    Info { source, rate_hz, error_bound_ns, why_not_counter: why_not_counter() }
}
