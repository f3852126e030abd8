//! The bounds of an interval.

/// An interval with both of its bounds.
///
/// ```
/// use jitterstat::stats::Interval;
/// let ns = Interval { lower: 950, upper: 1_200 };
/// assert!(ns.contains(1_200) && !ns.contains(900));
/// assert_eq!(<[i64; 2]>::from(ns), [950, 1_200]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval<T> {
    /// The lower bound, which belongs to the interval.
    pub lower: T,
    /// The upper bound, which belongs to the interval.
    pub upper: T,
}

impl<T> Interval<T> {
    /// Applies a function to both bounds, the lower one first.
    #[must_use]
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Interval<U> {
        Interval { lower: f(self.lower), upper: f(self.upper) }
    }
}

impl<T: Copy + PartialOrd> Interval<T> {
    /// Creates the interval that contains a single value.
    #[must_use]
    pub fn point(value: T) -> Self {
        Self { lower: value, upper: value }
    }

    /// Returns whether a value is within the bounds.
    #[must_use]
    pub fn contains(&self, value: T) -> bool {
        self.lower <= value && value <= self.upper
    }
}

/// Files store an interval as an array, the lower bound first.
impl<T> From<[T; 2]> for Interval<T> {
    fn from([lower, upper]: [T; 2]) -> Self {
        Self { lower, upper }
    }
}

impl<T> From<Interval<T>> for [T; 2] {
    fn from(interval: Interval<T>) -> Self {
        [interval.lower, interval.upper]
    }
}
