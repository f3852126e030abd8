//! Anchors, which pair a count with the OS clock, and the conversion by the line through two of
//! them.

use std::time::Duration;

use crate::clock_pair::read_narrowest;
use crate::os::{self, OsInstant, SuspendedTime};

/// A count and the reading of the OS clock at the same time, up to the bracket.
///
/// # Examples
/// ```
/// let anchor = tach::Anchor::take();
/// let error_counts = anchor.bracket_counts() / 2;
/// println!("{} is {:?}, within {error_counts} counts", anchor.count(), anchor.os_instant());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    count: u64,
    os_instant: OsInstant,
    bracket_counts: u64,
    /// How long the machine had been suspended; `None` if the OS does not report it.
    suspended: Option<SuspendedTime>,
}

impl Anchor {
    /// Reads the OS clock several times, each time between two counts, and returns the reading with
    /// the narrowest bracket.
    pub(crate) fn with_min_bracket(ordered_count: impl Fn() -> u64) -> Self {
        let width = |before: u64, after: u64| after.saturating_sub(before);
        let narrowest = read_narrowest(ordered_count, width, os::now);
        Self {
            count: narrowest.before + narrowest.width / 2,
            os_instant: narrowest.value,
            bracket_counts: narrowest.width,
            suspended: os::suspended_time(),
        }
    }

    #[cfg(test)]
    pub(crate) fn new(count: u64, os_instant: OsInstant, bracket_counts: u64) -> Self {
        Self { count, os_instant, bracket_counts, suspended: None }
    }

    /// Moves the reading of the OS clock forward, unless the OS clock cannot represent the result.
    pub(crate) fn with_os_delay(self, delay: Duration) -> Self {
        let os_instant = self.os_instant.checked_add(delay).unwrap_or(self.os_instant);
        Self { os_instant, ..self }
    }

    #[cfg(all(test, not(loom)))]
    pub(crate) fn with_suspended_ns(self, ns: i64) -> Self {
        Self { suspended: Some(SuspendedTime { min_ns: ns, max_ns: ns }), ..self }
    }

    /// Returns the raw count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the reading of the OS clock at that count.
    #[must_use]
    pub fn os_instant(&self) -> OsInstant {
        self.os_instant
    }

    /// Returns the counts between the readings before and after that of the OS clock. The error of
    /// the anchor is at most half of that.
    #[must_use]
    pub fn bracket_counts(&self) -> u64 {
        self.bracket_counts
    }

    /// Returns the minimum time for which the machine was suspended between this anchor and a later
    /// one; zero if it was not suspended. Whether the counter runs during a suspend differs between
    /// machines, so do not trust a conversion across one.
    ///
    /// # Platform notes
    /// On 64-bit Linux and Android this is the time by which `CLOCK_BOOTTIME` ran ahead of
    /// `CLOCK_MONOTONIC`. On other platforms it is `None`.
    ///
    /// # Examples
    /// ```
    /// let first = tach::Anchor::take();
    /// let last = tach::Anchor::take();
    /// match first.suspended_until(&last) {
    ///     Some(std::time::Duration::ZERO) | None => {}
    ///     Some(duration) => eprintln!("the machine was suspended for {duration:?}"),
    /// }
    /// ```
    #[must_use]
    pub fn suspended_until(&self, later: &Self) -> Option<Duration> {
        let before = self.suspended?;
        let after = later.suspended?;
        let between_ns = after.min_ns.saturating_sub(before.max_ns);
        Some(Duration::from_nanos(u64::try_from(between_ns).unwrap_or(0)))
    }
}

/// A conversion from counts to nanoseconds by the line through two anchors, in whole numbers and
/// with an error bound.
///
/// # Examples
/// ```
/// use tach::{Anchor, Conversion};
/// let first = Anchor::take();
/// let counts: Vec<u64> = (0..1_000).map(|_| tach::count()).collect();
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// let last = Anchor::take();
/// let conversion = Conversion::between(&first, &last).expect("a millisecond between the anchors");
/// let error_ns = conversion.error_bound_ns();
/// println!("{} counts per second, within {error_ns} ns", conversion.rate_hz());
/// let ns: Vec<i64> = conversion.series(counts.iter().copied(), first.os_instant()).collect();
/// assert_eq!(ns[0], conversion.ns_since(counts[0], first.os_instant()));
/// assert!(ns.is_sorted());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Conversion {
    first: Anchor,
    counts: u64,
    ns: u64,
    bracket_counts: u64,
}

impl Conversion {
    /// Creates the conversion by the line through two anchors; `None` if either clock has not
    /// advanced from the first anchor to the last.
    #[must_use]
    pub fn between(first: &Anchor, last: &Anchor) -> Option<Self> {
        let counts = last.count.checked_sub(first.count).filter(|&c| c > 0)?;
        let ns = last.os_instant.checked_duration_since(first.os_instant)?.as_nanos();
        let ns = u64::try_from(ns).ok().filter(|&n| n > 0)?;
        Some(Self {
            first: *first,
            counts,
            ns,
            bracket_counts: first.bracket_counts.max(last.bracket_counts),
        })
    }

    /// Returns the nanoseconds from `origin` to the time of `count`; negative if that was before.
    /// Saturates at 292 years.
    #[must_use]
    pub fn ns_since(&self, count: u64, origin: OsInstant) -> i64 {
        self.ns_with_offset(count, self.first_ns_since(origin))
    }

    /// Converts a whole series like [`Conversion::ns_since`], but does the work that does not
    /// depend on the count only once.
    pub fn series<I: IntoIterator<Item = u64>>(
        &self,
        counts: I,
        origin: OsInstant,
    ) -> impl Iterator<Item = i64> + use<'_, I> {
        let offset_ns = self.first_ns_since(origin);
        counts.into_iter().map(move |count| self.ns_with_offset(count, offset_ns))
    }

    /// Returns the nanoseconds from `origin` to the first anchor.
    fn first_ns_since(&self, origin: OsInstant) -> i128 {
        let signed = |d: Duration| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX / 2);
        match self.first.os_instant.checked_duration_since(origin) {
            Some(duration) => signed(duration),
            None => -signed(origin - self.first.os_instant),
        }
    }

    /// Returns the nanoseconds from the first anchor to `count`, plus `offset_ns`.
    fn ns_with_offset(&self, count: u64, offset_ns: i128) -> i64 {
        let counts = i128::from(count) - i128::from(self.first.count);
        let ns = match self.scale_narrow(counts) {
            Some(ns) => i128::from(ns),
            None => {
                let divisor = i128::from(self.counts);
                (counts * i128::from(self.ns) + divisor / 2).div_euclid(divisor)
            }
        };
        let sum_ns = ns + offset_ns;
        i64::try_from(sum_ns).unwrap_or(if sum_ns < 0 { i64::MIN } else { i64::MAX })
    }

    /// Converts a number of counts to nanoseconds in 64 bits; `None` if that would overflow.
    ///
    /// The 64-bit division is several times faster than the wide one, and is enough for counts
    /// within some seconds of the first anchor.
    #[inline]
    fn scale_narrow(&self, counts: i128) -> Option<i64> {
        let ns = i64::try_from(self.ns).ok()?;
        let divisor = i64::try_from(self.counts).ok()?;
        let product = i64::try_from(counts).ok()?.checked_mul(ns)?;
        Some(product.checked_add(divisor / 2)?.div_euclid(divisor))
    }

    /// Returns the error bound of [`Conversion::ns_since`] for a count between the anchors, in
    /// nanoseconds.
    ///
    /// It is the sum of half the wider bracket, one count, the step of the OS clock and the
    /// rounding of the result. The errors of the anchors are interpolated, so between the anchors
    /// the error never exceeds that of the worse one. A rate that varies in between is not
    /// included.
    #[must_use]
    pub fn error_bound_ns(&self) -> u64 {
        let counts = u128::from(self.bracket_counts) + 2;
        let half_ns = (counts * u128::from(self.ns)).div_ceil(u128::from(self.counts) * 2);
        u64::try_from(half_ns).unwrap_or(u64::MAX).saturating_add(os::STEP_NS + 1)
    }

    /// Returns the counts per second between the anchors.
    #[must_use]
    pub fn rate_hz(&self) -> f64 {
        self.counts as f64 / self.ns as f64 * 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn series_matches_exact_single_conversions(
            counts in proptest::collection::vec(proptest::num::u64::ANY, 1..20),
            rate in 1_u64..10_000,
            ns in 1_u64..1 << 50,
            near in 0_u64..1 << 40,
        ) {
            const FIRST_COUNT: u64 = 1 << 40;
            let base = os::now();
            let first = Anchor::new(FIRST_COUNT, base, 0);
            let last_count = FIRST_COUNT + (ns / 1_000 + 1) * rate;
            let last = Anchor::new(last_count, base + Duration::from_nanos(ns), 0);
            let conversion = Conversion::between(&first, &last).unwrap();
            for count in counts.iter().copied().chain([near]) {
                let divisor = i128::from(conversion.counts);
                let product =
                    (i128::from(count) - i128::from(FIRST_COUNT)) * i128::from(conversion.ns);
                let exact = (product + divisor / 2).div_euclid(divisor);
                let clamped = exact.clamp(i64::MIN.into(), i64::MAX.into());
                proptest::prop_assert_eq!(i128::from(conversion.ns_since(count, base)), clamped);
            }
            let singles: Vec<_> = counts.iter().map(|&c| conversion.ns_since(c, base)).collect();
            let series: Vec<_> = conversion.series(counts, base).collect();
            proptest::prop_assert_eq!(series, singles);
        }
    }

    #[test]
    fn distant_origins_saturate_by_sign() {
        const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
        let first = Anchor::new(1 << 40, os::now(), 0);
        let last = Anchor::new(2 << 40, first.os_instant() + CENTURY / 100, 0);
        let conversion = Conversion::between(&first, &last).unwrap();
        // Not every system has instants that distant.
        let later = first.os_instant().checked_add(CENTURY * 4);
        let earlier = first.os_instant().checked_sub(CENTURY * 4);
        for (origin, expected) in [(later, i64::MIN), (earlier, i64::MAX)] {
            for count in [first.count() - 1, last.count()] {
                let ns = origin.map(|origin| conversion.ns_since(count, origin));
                assert!(ns.is_none_or(|ns| ns == expected), "{count}: {ns:?}");
            }
        }
    }

    fn anchor_with(suspended: Option<SuspendedTime>) -> Anchor {
        Anchor { suspended, ..Anchor::new(0, os::now(), 0) }
    }

    fn anchor_after(min_ns: i64, max_ns: i64) -> Anchor {
        anchor_with(Some(SuspendedTime { min_ns, max_ns }))
    }

    #[test]
    fn suspend_between_anchors_is_reported() {
        let before = anchor_after(5_000_000_020, 5_000_000_080);
        let after = anchor_after(12_000_000_030, 12_000_000_090);
        assert_eq!(before.suspended_until(&after), Some(Duration::from_nanos(6_999_999_950)));
        // Bounds that overlap: the machine was not suspended in between.
        let overlapping = anchor_after(5_000_000_075, 5_000_000_900);
        assert_eq!(before.suspended_until(&overlapping), Some(Duration::ZERO));
        // A step of the clock has moved the later reading back.
        assert_eq!(after.suspended_until(&before), Some(Duration::ZERO));
        assert_eq!(anchor_with(None).suspended_until(&after), None);
        assert_eq!(before.suspended_until(&anchor_with(None)), None);
    }

    #[test]
    fn awake_machine_reports_no_suspend() {
        let is_reported =
            cfg!(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"));
        let (first, last) = (Anchor::with_min_bracket(|| 0), Anchor::with_min_bracket(|| 0));
        assert_eq!(first.suspended_until(&last), is_reported.then_some(Duration::ZERO));
    }

    #[test]
    fn conversion_is_exact_at_anchors() {
        let first = Anchor::new(1_000, os::now(), 30);
        let last = Anchor::new(7_001_234, first.os_instant() + Duration::from_millis(2), 40);
        let conversion = Conversion::between(&first, &last).unwrap();
        assert_eq!(conversion.ns_since(first.count(), first.os_instant()), 0);
        assert_eq!(conversion.ns_since(last.count(), last.os_instant()), 0);
        assert!(Conversion::between(&first, &first).is_none());
        assert!(Conversion::between(&last, &first).is_none());
    }
}
