//! [`Reader`]: reads a meter of this process.

use std::convert::Infallible;
use std::sync::Arc;

use crate::layout::Layout;
use crate::page::Page;
use crate::publication::{CopyExtent, RawSnapshot, copy_meter, load_words};
use crate::snapshot::Snapshot;

/// Number of copies that are tried until one is exact.
pub(crate) const MAX_ATTEMPTS: usize = 4;

/// Reads a meter of this process from any thread, without disturbing it.
///
/// Created by [`Meter::reader`](crate::Meter::reader).
#[derive(Clone, Debug)]
pub struct Reader {
    page: Arc<Page>,
}

impl Reader {
    pub(crate) fn new(page: Arc<Page>) -> Self {
        Self { page }
    }

    /// Returns what was recorded so far. It may be inexact: see [`Snapshot::exact`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let mut raw = self.copy();
        for _ in 1..MAX_ATTEMPTS {
            if raw.is_exact() {
                break;
            }
            raw = self.copy();
        }
        Snapshot::decode(&raw, &Layout::CURRENT).expect("this process wrote it")
    }

    fn copy(&self) -> RawSnapshot {
        let load = |from, into: &mut [u64]| self.load(from, into);
        let copied = copy_meter(&Layout::CURRENT, CopyExtent::Used, load);
        copied.unwrap_or_else(|never| match never {})
    }

    fn load(&self, from: usize, into: &mut [u64]) -> Result<(), Infallible> {
        load_words(self.page.current(), from, into);
        Ok(())
    }
}
