//! The two sides of a comparison.

use std::ops::{Index, IndexMut};

/// One side of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The side compared against: A, the baseline program, or the control of a session.
    Base,
    /// The side that is judged: B, the candidate program, or the subject of a session.
    Candidate,
}

/// A value for each side of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sides<T> {
    pub base: T,
    pub candidate: T,
}

impl<T> Sides<T> {
    pub fn as_ref(&self) -> Sides<&T> {
        Sides { base: &self.base, candidate: &self.candidate }
    }

    pub fn map<U>(self, mut convert: impl FnMut(T) -> U) -> Sides<U> {
        Sides { base: convert(self.base), candidate: convert(self.candidate) }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> {
        [&self.base, &self.candidate].into_iter()
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
