//! The memory of a meter: a mapped file that other processes read, or private memory.

use std::ops::Deref;

#[cfg(all(unix, not(loom)))]
use crate::mapping::Mapping;
use crate::sync::AtomicU64;

/// The words of one meter.
#[derive(Debug)]
pub(crate) enum Page {
    Private(Box<[AtomicU64]>),
    #[cfg(all(unix, not(loom)))]
    Mapped(Mapping),
}

impl Page {
    /// Allocates private memory of `words` words, all zero.
    pub(crate) fn private(words: usize) -> Self {
        Self::Private((0..words).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Deref for Page {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match self {
            Self::Private(words) => words,
            #[cfg(all(unix, not(loom)))]
            Self::Mapped(mapping) => mapping,
        }
    }
}
