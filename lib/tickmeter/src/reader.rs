//! Reads a meter of this process from any thread.

use std::convert::Infallible;
use std::sync::Arc;

use crate::book::{self, copy};
use crate::layout::Layout;
use crate::page::Page;
use crate::snapshot::Snapshot;

/// Copies of a meter that nothing was booked into meanwhile are tried for so often.
pub(crate) const ATTEMPTS: usize = 4;

/// Reads a meter of this process from any thread; the meter does not notice. From
/// [`Meter::reader`](crate::Meter::reader).
#[derive(Clone, Debug)]
pub struct Reader {
    page: Arc<Page>,
}

impl Reader {
    pub(crate) fn new(page: Arc<Page>) -> Self {
        Self { page }
    }

    /// What has been booked so far. See [`Snapshot::exact`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let attempt = || {
            let load = |from, into: &mut [u64]| {
                book::load(&self.page, from, into);
                Ok::<_, Infallible>(())
            };
            copy(Layout::CURRENT.words, load).unwrap_or_else(|never| match never {})
        };
        let mut copied = attempt();
        for _ in 1..ATTEMPTS {
            if copied.is_exact() {
                break;
            }
            copied = attempt();
        }
        Snapshot::of(&copied, &Layout::CURRENT).expect("this process wrote it")
    }
}
