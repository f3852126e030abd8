//! Pairs of a count and the OS clock, and the line between two of them.

use std::time::Duration;

use crate::os::{self, OsInstant};

/// A count and the OS clock at the same moment, up to the bracket.
///
/// # Examples
/// ```
/// let anchor = tach::Anchor::take();
/// println!("{} is {:?}, give or take {} counts", anchor.count(), anchor.std(), anchor.bracket_counts() / 2);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    count: u64,
    std: OsInstant,
    bracket_counts: u64,
    /// How long the machine had been suspended, at least and at most.
    suspended_ns: Option<[i64; 2]>,
}

/// An anchor is the tightest of this many pairs: enough that one of them meets no interrupt.
const PAIRS: usize = 32;

impl Anchor {
    /// The tightest of several readings of the OS clock, each between two counts.
    pub(crate) fn tightest(ordered_count: impl Fn() -> u64) -> Self {
        let pair = || {
            let before = ordered_count();
            let std = os::now();
            let bracket_counts = ordered_count().saturating_sub(before);
            Self { count: before + bracket_counts / 2, std, bracket_counts, suspended_ns: None }
        };
        let first = pair();
        let tightest = (1..PAIRS).map(|_| pair()).fold(first, |best, next| {
            if next.bracket_counts < best.bracket_counts { next } else { best }
        });
        Self { suspended_ns: os::suspended_ns(), ..tightest }
    }

    #[cfg(test)]
    pub(crate) fn new(count: u64, std: OsInstant, bracket_counts: u64) -> Self {
        Self { count, std, bracket_counts, suspended_ns: None }
    }

    /// The raw count.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The OS clock at that count.
    #[must_use]
    pub fn std(&self) -> OsInstant {
        self.std
    }

    /// Counts between the readings on either side of the clock's: the pair is off by at most half
    /// of that.
    #[must_use]
    pub fn bracket_counts(&self) -> u64 {
        self.bracket_counts
    }

    /// How long the machine was suspended between this anchor and a later one, at least; zero if it
    /// was not. What the counter did meanwhile differs between machines: do not trust a conversion
    /// across it.
    ///
    /// # Platform notes
    /// `None` where the OS does not say: elsewhere than on 64-bit Linux and Android, where it is by
    /// how much `CLOCK_BOOTTIME` ran ahead of `CLOCK_MONOTONIC`.
    ///
    /// # Examples
    /// ```
    /// let first = tach::Anchor::take();
    /// let last = tach::Anchor::take();
    /// match first.suspended_until(&last) {
    ///     Some(std::time::Duration::ZERO) | None => {}
    ///     Some(length) => eprintln!("the machine slept for {length:?} in between"),
    /// }
    /// ```
    #[must_use]
    pub fn suspended_until(&self, later: &Self) -> Option<Duration> {
        let [_, before_most] = self.suspended_ns?;
        let [after_least, _] = later.suspended_ns?;
        Some(Duration::from_nanos(
            u64::try_from(after_least.saturating_sub(before_most)).unwrap_or(0),
        ))
    }
}

/// The line through two anchors: counts to nanoseconds, in whole numbers, with an error bound.
///
/// # Examples
/// ```
/// use tach::{Anchor, Conversion};
/// let first = Anchor::take();
/// let counts: Vec<u64> = (0..1_000).map(|_| tach::count()).collect();
/// std::thread::sleep(std::time::Duration::from_millis(1));
/// let last = Anchor::take();
/// let conversion = Conversion::between(&first, &last).expect("a millisecond lies between");
/// println!("{} counts per second, within {} ns", conversion.rate_hz(), conversion.error_bound_ns());
/// let ns: Vec<i64> = conversion.series(counts.iter().copied(), first.std()).collect();
/// assert_eq!(ns[0], conversion.ns_since(counts[0], first.std()));
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
    /// The line through both; `None` if either clock has not advanced from the first anchor to the
    /// last.
    #[must_use]
    pub fn between(first: &Anchor, last: &Anchor) -> Option<Self> {
        let counts = last.count.checked_sub(first.count).filter(|&c| c > 0)?;
        let ns = last.std.checked_duration_since(first.std)?.as_nanos();
        let ns = u64::try_from(ns).ok().filter(|&n| n > 0)?;
        Some(Self {
            first: *first,
            counts,
            ns,
            bracket_counts: first.bracket_counts.max(last.bracket_counts),
        })
    }

    /// Nanoseconds from `origin` to the moment of `count`; negative if it was before.
    #[must_use]
    pub fn ns_since(&self, count: u64, origin: OsInstant) -> i64 {
        self.after_first(count, self.first_after(origin))
    }

    /// As [`Conversion::ns_since`] for a whole series, with the work that does not depend on the
    /// count done once.
    pub fn series<I: IntoIterator<Item = u64>>(
        &self,
        counts: I,
        origin: OsInstant,
    ) -> impl Iterator<Item = i64> + use<'_, I> {
        let offset = self.first_after(origin);
        counts.into_iter().map(move |count| self.after_first(count, offset))
    }

    /// Nanoseconds from `origin` to the first anchor.
    fn first_after(&self, origin: OsInstant) -> i128 {
        let signed = |d: Duration| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX / 2);
        match self.first.std.checked_duration_since(origin) {
            Some(after) => signed(after),
            None => -signed(origin - self.first.std),
        }
    }

    fn after_first(&self, count: u64, offset: i128) -> i64 {
        let after = i128::from(count) - i128::from(self.first.count);
        // Whole numbers throughout; the narrow division, for whatever lies within some seconds, is
        // several times faster.
        let after = match i64::try_from(after)
            .ok()
            .and_then(|after| after.checked_mul(i64::try_from(self.ns).ok()?))
        {
            Some(scaled)
                if i64::try_from(self.counts)
                    .is_ok_and(|c| scaled.checked_add(c / 2).is_some()) =>
            {
                let counts = self.counts as i64;
                i128::from((scaled + counts / 2).div_euclid(counts))
            }
            _ => {
                let counts = i128::from(self.counts);
                (after * i128::from(self.ns) + counts / 2).div_euclid(counts)
            }
        };
        i64::try_from(after + offset).unwrap_or(if after < 0 { i64::MIN } else { i64::MAX })
    }

    /// How far [`Conversion::ns_since`] can be off for a count between the anchors, in nanoseconds:
    /// half the wider bracket, one count, the step of the OS clock and the rounding of the result.
    /// The anchors' own error enters linearly, so between them it never exceeds that of the worse
    /// one. A rate that varies in between is not included.
    #[must_use]
    pub fn error_bound_ns(&self) -> u64 {
        let counts = u128::from(self.bracket_counts) + 2;
        let half = (counts * u128::from(self.ns)).div_ceil(u128::from(self.counts) * 2);
        u64::try_from(half).unwrap_or(u64::MAX).saturating_add(os::STEP_NS + 1)
    }

    /// Counts per second, from the anchors.
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
        fn a_series_is_its_counts_one_by_one_and_exact(
            counts in proptest::collection::vec(proptest::num::u64::ANY, 1..20), rate in 1_u64..10_000, ns in 1_u64..1 << 50, near in 0_u64..1 << 40
        ) {
            let base = os::now();
            let first = Anchor::new(1 << 40, base, 0);
            let last = Anchor::new((1 << 40) + (ns / 1_000 + 1) * rate, base + Duration::from_nanos(ns), 0);
            let conversion = Conversion::between(&first, &last).unwrap();
            for count in counts.iter().copied().chain([near]) {
                let exact = (i128::from(count) - (1 << 40)) * i128::from(conversion.ns) + i128::from(conversion.counts) / 2;
                let exact = exact.div_euclid(i128::from(conversion.counts));
                let clamped = exact.clamp(i64::MIN.into(), i64::MAX.into());
                proptest::prop_assert_eq!(i128::from(conversion.ns_since(count, base)), clamped);
            }
            let one_by_one: Vec<_> = counts.iter().map(|&c| conversion.ns_since(c, base)).collect();
            proptest::prop_assert_eq!(conversion.series(counts, base).collect::<Vec<_>>(), one_by_one);
        }
    }

    #[test]
    fn a_suspend_between_two_anchors_is_noticed() {
        let at = |suspended_ns| Anchor { suspended_ns, ..Anchor::new(0, os::now(), 0) };
        let (awake, slept) =
            (at(Some([5_000_000_020, 5_000_000_080])), at(Some([12_000_000_030, 12_000_000_090])));
        assert_eq!(awake.suspended_until(&slept), Some(Duration::from_nanos(6_999_999_950)));
        // The same, read with another error; and a reading that another clock's step has moved
        // back.
        assert_eq!(
            awake.suspended_until(&at(Some([5_000_000_075, 5_000_000_900]))),
            Some(Duration::ZERO)
        );
        assert_eq!(slept.suspended_until(&awake), Some(Duration::ZERO));
        assert_eq!(at(None).suspended_until(&slept).or(awake.suspended_until(&at(None))), None);
        // Of this machine: it is awake, and its clocks tell.
        let (first, last) = (Anchor::tightest(|| 0), Anchor::tightest(|| 0));
        let tells =
            cfg!(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"));
        assert_eq!(first.suspended_until(&last), tells.then_some(Duration::ZERO));
    }

    #[test]
    fn the_line_is_exact_at_its_ends() {
        let first = Anchor::new(1_000, os::now(), 30);
        let last = Anchor::new(7_001_234, first.std() + Duration::from_millis(2), 40);
        let conversion = Conversion::between(&first, &last).unwrap();
        assert_eq!(conversion.ns_since(first.count(), first.std()), 0);
        assert_eq!(conversion.ns_since(last.count(), last.std()), 0);
        assert!(Conversion::between(&first, &first).is_none());
        assert!(Conversion::between(&last, &first).is_none());
    }
}
