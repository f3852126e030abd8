//! A pair of values, one for each side of a comparison.

use std::ops::{Index, IndexMut};

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side that is compared against: A in messages and files.
    Base,
    /// The side that is judged: B in messages and files.
    Candidate,
}

/// One value for each side of a comparison.
///
/// ```
/// use jitterstat::gate::Sides;
/// let runs_ns = Sides { base: 1_000.0, candidate: 1_200.0 };
/// assert_eq!(runs_ns.map(|ns| ns / 1e3), Sides { base: 1.0, candidate: 1.2 });
/// assert_eq!(runs_ns.swapped().base, 1_200.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides<T> {
    /// The side that is compared against: A in messages and files.
    pub base: T,
    /// The side that is judged: B in messages and files.
    pub candidate: T,
}

impl<T> Sides<T> {
    /// Applies a function to both sides, the base first.
    #[must_use]
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Sides<U> {
        Sides { base: f(self.base), candidate: f(self.candidate) }
    }

    /// Borrows both values.
    #[must_use]
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { base: &self.base, candidate: &self.candidate }
    }

    /// Exchanges the sides.
    #[must_use]
    pub fn swapped(self) -> Self {
        Self { base: self.candidate, candidate: self.base }
    }

    /// Iterates over the base and then the candidate.
    pub fn iter(&self) -> std::array::IntoIter<&T, 2> {
        self.as_ref().into_iter()
    }
}

impl<T> IntoIterator for Sides<T> {
    type Item = T;
    type IntoIter = std::array::IntoIter<T, 2>;

    fn into_iter(self) -> Self::IntoIter {
        <[T; 2]>::from(self).into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Sides<T> {
    type Item = &'a T;
    type IntoIter = std::array::IntoIter<&'a T, 2>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> Sides<Option<T>> {
    /// Takes both values, if both are present.
    pub fn take_both(&mut self) -> Option<Sides<T>> {
        if self.base.is_none() || self.candidate.is_none() {
            return None;
        }
        Some(Sides { base: self.base.take()?, candidate: self.candidate.take()? })
    }
}

/// Files store the two sides as an array, the base first.
impl<T> From<[T; 2]> for Sides<T> {
    fn from([base, candidate]: [T; 2]) -> Self {
        Self { base, candidate }
    }
}

impl<T> From<Sides<T>> for [T; 2] {
    fn from(sides: Sides<T>) -> Self {
        [sides.base, sides.candidate]
    }
}

impl<T> Index<Side> for Sides<T> {
    type Output = T;

    fn index(&self, side: Side) -> &T {
        match side {
            Side::Base => &self.base,
            Side::Candidate => &self.candidate,
        }
    }
}

impl<T> IndexMut<Side> for Sides<T> {
    fn index_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Base => &mut self.base,
            Side::Candidate => &mut self.candidate,
        }
    }
}
