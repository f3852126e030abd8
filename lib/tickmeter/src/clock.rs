//! The clock of a meter: `tach`'s own line, continued for a moment by one multiplication.

use std::time::{Duration, Instant};

/// Slopes are nanoseconds a count, times two to this power.
const SLOPE_BITS: u32 = 32;
/// The line is continued for at most so long before `tach` is asked again: a change of its rate by
/// a millionth is then 100 ns, which is what its own anchors are good to.
const LONGEST_NS: u64 = 100_000_000;

/// Nanoseconds since an origin, for a reading of the counter and a few instructions.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    start: tach::Instant,
    /// Of the last time that `tach` was asked.
    count: u64,
    ns: i64,
    slope: u64,
    /// Counts for which that holds.
    holds: u64,
}

impl Clock {
    /// The origin is now.
    pub(crate) fn new() -> Self {
        let anchor = tach::Anchor::take();
        let start = tach::Instant::from_count(anchor.count());
        let slope = (1e9 / tach::info().rate_hz * (1_u64 << SLOPE_BITS) as f64) as u64;
        Self { origin: anchor.std(), start, count: start.count(), ns: 0, slope, holds: 0 }
    }

    /// Where it counts from.
    pub(crate) fn origin(&self) -> Instant {
        self.origin
    }

    /// Of a reading of the counter, no older than the clock.
    #[inline]
    pub(crate) fn ns_at(&mut self, count: u64) -> i64 {
        let since = count.wrapping_sub(self.count);
        if since > self.holds {
            self.ask(count);
            return self.ns;
        }
        self.ns + (since.wrapping_mul(self.slope) >> SLOPE_BITS) as i64
    }

    /// A moment of the operating system's clock.
    #[inline]
    pub(crate) fn ns_of(&self, moment: Instant) -> i64 {
        let ns = |span: Duration| {
            (span.as_secs() * 1_000_000_000).wrapping_add(span.subsec_nanos().into()) as i64
        };
        match moment.checked_duration_since(self.origin) {
            Some(after) => ns(after),
            None => -ns(self.origin - moment),
        }
    }

    #[cold]
    #[inline(never)]
    fn ask(&mut self, count: u64) {
        let ns = tach::Instant::from_count(count).duration_since(self.start).as_nanos() as i64;
        // The line's own slope, if there is enough of it; a counter that went back says nothing.
        let (counts, length) = (count.saturating_sub(self.count), ns.saturating_sub(self.ns));
        if self.holds > 0 && counts >= self.holds && length > 0 {
            self.slope = (((length as u128) << SLOPE_BITS) / u128::from(counts)) as u64;
        }
        // A young line still turns: it is not continued for longer than a quarter of its age.
        let most = (LONGEST_NS.min(ns as u64 / 4).max(1_000) << SLOPE_BITS) / self.slope.max(1);
        (self.count, self.ns, self.holds) = (count, ns, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads the counter")]
    fn it_stays_on_the_line_that_it_continues() {
        let mut clock = Clock::new();
        let mut last = 0;
        for _ in 0..300_000 {
            let before = clock.origin.elapsed();
            let now = clock.ns_at(tach::count());
            let after = clock.origin.elapsed();
            let bound = tach::error_bound_ns() as i64 + 100;
            assert!(
                before.as_nanos() as i64 - bound <= now && now <= after.as_nanos() as i64 + bound,
                "{clock:?}"
            );
            assert!(now >= last - 100, "{last} {clock:?}");
            last = now;
        }
        let moment = clock.origin + Duration::from_micros(7);
        assert_eq!(
            [clock.ns_of(moment), clock.ns_of(clock.origin - Duration::from_secs(2))],
            [7_000, -2_000_000_000]
        );
    }
}
