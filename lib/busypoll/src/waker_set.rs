//! The wakers of futures that wait for one thing, each of which leaves with its future.

use std::collections::BTreeMap;
use std::task::Waker;

/// In order of arrival. A waker's destructor is foreign code: what comes out of here is dropped, or
/// woken, while nothing is locked or borrowed.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    last: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl WakerSet {
    /// Adds a future's waker, or replaces its earlier one, which is returned. The ticket is the
    /// future's, to [leave](Self::leave) with.
    #[must_use]
    pub(crate) fn join(&mut self, ticket: &mut Option<u64>, waker: &Waker) -> Option<Waker> {
        let number = *ticket.get_or_insert_with(|| {
            self.last += 1;
            self.last
        });
        match self.waiting.get_mut(&number) {
            Some(known) if known.will_wake(waker) => None,
            _ => self.waiting.insert(number, waker.clone()),
        }
    }

    /// Removes a future's waker, if it is still here.
    #[must_use]
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        self.waiting.remove(&ticket)
    }

    /// Removes all.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}
