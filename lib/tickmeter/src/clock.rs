//! The clock of a meter: `tach`'s conversion of counts to time, extrapolated for a short time by
//! one multiplication.

use std::time::{Duration, Instant};

/// Slopes are nanoseconds per count, times two to this power.
const SLOPE_BITS: u32 = 32;
/// Maximum time for which `tach`'s conversion is extrapolated. If its rate changes by a millionth,
/// that is an error of 100 ns, which is also the accuracy of `tach`'s anchors.
const MAX_EXTRAPOLATION_NS: u64 = 100_000_000;
/// A clock extrapolates by at most its age divided by this. A conversion that is off by its error
/// bound bends a line of half that age by twice the bound. The extrapolation continues the bend by
/// an eighth of the line, so it adds a quarter of the bound.
const EXTRAPOLATION_DIVISOR: u64 = 16;
/// Maximum error of an extrapolation from a change of the rate and from rounding.
const RATE_ERROR_NS: u64 = 100;
/// Maximum time by which the operating system's clock and the conversion may be apart. They come
/// apart if the machine is suspended and only one of the clocks stops.
const MAX_DISTANCE_NS: i64 = 10_000_000;

/// Converts readings of the counter to nanoseconds since an origin, in a few instructions.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    start: tach::Instant,
    /// Time by which the counter has run longer than the operating system's clock.
    ahead_ns: i64,
    /// Maximum error of the origin, which is half the bracket of its anchor.
    origin_error_ns: u64,
    /// Counter and time of the last conversion by `tach`.
    anchor_count: u64,
    anchor_ns: i64,
    slope: u64,
    /// Number of counts after the anchor for which the slope is valid.
    valid_counts: u64,
}

impl Clock {
    /// Creates a clock whose origin is now.
    pub(crate) fn new() -> Self {
        let anchor = tach::Anchor::take();
        let start = tach::Instant::from_count(anchor.count());
        let slope = (1e9 / tach::rate_hz() * (1_u64 << SLOPE_BITS) as f64) as u64;
        Self {
            origin: anchor.os_instant(),
            start,
            ahead_ns: 0,
            origin_error_ns: anchor_error_ns(&anchor, slope),
            anchor_count: start.count(),
            anchor_ns: 0,
            slope,
            valid_counts: 0,
        }
    }

    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Returns the origin on the clock of `tach`.
    #[cfg(feature = "stacks")]
    pub(crate) fn start(&self) -> tach::Instant {
        self.start
    }

    /// Returns the time by which the counter has run longer than the operating system's clock.
    #[cfg(feature = "stacks")]
    pub(crate) fn ahead_ns(&self) -> i64 {
        self.ahead_ns
    }

    /// Returns the maximum error of `ns_at` relative to the operating system's clock. It may grow
    /// with a later conversion.
    pub(crate) fn error_bound_ns(&self) -> u64 {
        let conversion_ns = tach::error_bound_ns();
        conversion_ns + conversion_ns / 4 + self.origin_error_ns + RATE_ERROR_NS
    }

    /// Converts a reading of the counter. Returns `None` if the anchor must be moved for it.
    #[inline]
    pub(crate) fn ns_at(&self, count: u64) -> Option<i64> {
        let since_anchor = count.wrapping_sub(self.anchor_count);
        (since_anchor <= self.valid_counts)
            .then(|| self.anchor_ns + (since_anchor.wrapping_mul(self.slope) >> SLOPE_BITS) as i64)
    }

    /// Converts an instant of the operating system's clock. Saturates 292 years from the origin.
    #[inline]
    pub(crate) fn ns_of(&self, instant: Instant) -> i64 {
        match instant.checked_duration_since(self.origin) {
            Some(after) => signed_ns(after),
            None => -signed_ns(self.origin - instant),
        }
    }

    /// Moves the anchor to a count, which `tach` converts. Returns its time.
    pub(crate) fn move_anchor(&mut self, count: u64) -> i64 {
        let is_continuous = !self.correct_distance();
        let ns = self.convert(tach::Instant::from_count(count));
        // Use the slope between the two anchors if they are far enough apart. A counter that went
        // back gives no slope.
        let counts = count.saturating_sub(self.anchor_count);
        let elapsed_ns = ns.saturating_sub(self.anchor_ns);
        let is_far = self.valid_counts > 0 && counts >= self.valid_counts;
        if is_continuous && is_far && elapsed_ns > 0 {
            self.slope = (((elapsed_ns as u128) << SLOPE_BITS) / u128::from(counts)) as u64;
        }
        // The slope of a young clock still changes.
        let age_ns = u64::try_from(ns).unwrap_or(0);
        let valid_ns = MAX_EXTRAPOLATION_NS.min(age_ns / EXTRAPOLATION_DIVISOR).max(1_000);
        self.valid_counts = (valid_ns << SLOPE_BITS) / self.slope.max(1);
        (self.anchor_count, self.anchor_ns) = (count, ns);
        ns
    }

    /// Converts a time by `tach` to nanoseconds since the origin.
    fn convert(&self, time: tach::Instant) -> i64 {
        // A loop may have read the counter before the clock was created.
        let ns = match time.checked_duration_since(self.start) {
            Some(after) => signed_ns(after),
            None => -signed_ns(self.start - time),
        };
        ns.saturating_sub(self.ahead_ns)
    }

    /// Follows the operating system's clock if the conversion is apart from it, and returns whether
    /// it was.
    #[allow(clippy::disallowed_methods, reason = "the clocks are compared")]
    fn correct_distance(&mut self) -> bool {
        // However long the thread loses its CPU in between, the readings are in this order.
        let before = tach::Instant::now();
        let os_ns = self.ns_of(Instant::now());
        let after = tach::Instant::now();
        let is_apart = self.convert(before).saturating_sub(os_ns) > MAX_DISTANCE_NS
            || os_ns.saturating_sub(self.convert(after)) > MAX_DISTANCE_NS;
        if is_apart {
            let anchor = tach::Anchor::take();
            let ns = self.convert(tach::Instant::from_count(anchor.count()));
            let distance_ns = ns.saturating_sub(self.ns_of(anchor.os_instant()));
            self.ahead_ns = self.ahead_ns.saturating_add(distance_ns);
            self.origin_error_ns = anchor_error_ns(&anchor, self.slope);
        }
        is_apart
    }
}

/// Returns the maximum error of an anchor, which is half of its bracket.
fn anchor_error_ns(anchor: &tach::Anchor, slope: u64) -> u64 {
    let error_counts = anchor.bracket_counts() / 2 + 1;
    (error_counts.saturating_mul(slope) >> SLOPE_BITS) + 1
}

/// Converts a duration to nanoseconds. Saturates at 584 years.
pub(crate) fn saturating_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Converts a duration to nanoseconds. Saturates at 292 years.
fn signed_ns(duration: Duration) -> i64 {
    i64::try_from(saturating_ns(duration)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of the clocks has stopped during a suspend of the machine.
    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn clock_follows_os_after_suspend() {
        const HOUR: Duration = Duration::from_secs(3_600);
        let now = tach::Instant::now();
        for start in [now - HOUR, now + HOUR] {
            let mut clock = Clock::new();
            clock.move_anchor(tach::count());
            (clock.start, clock.valid_counts) = (start, 1);
            let slope = clock.slope;
            let before = clock.origin.elapsed().as_nanos() as i64;
            let ns = clock.move_anchor(tach::count());
            let after = clock.origin.elapsed().as_nanos() as i64;
            let range = before - MAX_DISTANCE_NS..=after + MAX_DISTANCE_NS;
            assert!(range.contains(&ns), "{ns} is not in {range:?}");
            assert_eq!(clock.slope, slope, "the suspend says nothing about the rate");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn clock_stays_within_error_bound() {
        let mut clock = Clock::new();
        let mut last = 0;
        for _ in 0..300_000 {
            let before = clock.origin.elapsed();
            let count = tach::count();
            let now = clock.ns_at(count).unwrap_or_else(|| clock.move_anchor(count));
            let after = clock.origin.elapsed();
            let bound = clock.error_bound_ns() as i64;
            assert!(
                before.as_nanos() as i64 - bound <= now && now <= after.as_nanos() as i64 + bound,
                "{now} is not within {bound} of {before:?} to {after:?}: {clock:?}"
            );
            assert!(now >= last - bound, "{last} {now} {clock:?}");
            last = now;
        }
        let instant = clock.origin + Duration::from_micros(7);
        assert_eq!(
            [clock.ns_of(instant), clock.ns_of(clock.origin - Duration::from_secs(2))],
            [7_000, -2_000_000_000]
        );
    }
}
