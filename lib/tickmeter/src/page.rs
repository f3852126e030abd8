//! The memory of a meter: a mapped file that other processes read, or private memory.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use crate::layout::HEADER_WORDS;
#[cfg(all(unix, not(loom)))]
use crate::mapping::Mapping;
use crate::sync::{AtomicU64, OnceLock, Ordering};

/// The words of one meter.
#[derive(Debug)]
pub(crate) struct Page {
    memory: Memory,
    /// The page in which the meter records instead, if this one could not be allocated.
    replacement: OnceLock<Arc<Self>>,
}

#[derive(Debug)]
enum Memory {
    Private(Box<[AtomicU64]>),
    #[cfg(all(unix, not(loom)))]
    Mapped(Mapping),
}

impl Page {
    /// Allocates private memory of `words` words: the header, and zeros.
    pub(crate) fn private(header: &[u64; HEADER_WORDS], words: usize) -> Self {
        let header = header.iter().copied().chain(std::iter::repeat(0));
        let memory = Memory::Private(header.take(words).map(AtomicU64::new).collect());
        Self { memory, replacement: OnceLock::new() }
    }

    #[cfg(all(unix, not(loom)))]
    pub(crate) fn mapped(mapping: Mapping) -> Self {
        Self { memory: Memory::Mapped(mapping), replacement: OnceLock::new() }
    }

    /// Allocates the memory of all words. Until then, only the header may be accessed. The words
    /// after the header must not have been stored to.
    ///
    /// # Errors
    /// Returns an error if the system refuses the memory of a file, e.g. because its file system is
    /// full.
    pub(crate) fn reserve(&self) -> io::Result<()> {
        match &self.memory {
            Memory::Private(_) => Ok(()),
            #[cfg(all(unix, not(loom)))]
            Memory::Mapped(mapping) => mapping.reserve(),
        }
    }

    /// Returns a private page with the header of this one, which readers of this page use from now
    /// on.
    pub(crate) fn replace(&self) -> Arc<Self> {
        let mut header = [0; HEADER_WORDS];
        for (copied, word) in header.iter_mut().zip(&**self) {
            *copied = word.load(Ordering::Relaxed);
        }
        let private = || Arc::new(Self::private(&header, self.len()));
        Arc::clone(self.replacement.get_or_init(private))
    }

    /// Returns the page in which the meter records.
    pub(crate) fn current(&self) -> &Self {
        self.replacement.get().map_or(self, |replacement| replacement)
    }
}

impl Deref for Page {
    type Target = [AtomicU64];

    #[inline]
    fn deref(&self) -> &[AtomicU64] {
        match &self.memory {
            Memory::Private(words) => words,
            #[cfg(all(unix, not(loom)))]
            Memory::Mapped(mapping) => mapping,
        }
    }
}
