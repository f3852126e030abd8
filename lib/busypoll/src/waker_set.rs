//! The wakers of futures that wait for the same thing. Each future removes its waker when dropped.

use std::collections::BTreeMap;
use std::task::Waker;

/// Wakers in order of arrival. The clone and the destructor of a waker are foreign code: wakers are
/// cloned for this set, and those that it returns are dropped or woken, while nothing is locked or
/// borrowed.
#[derive(Debug, Default)]
pub(crate) struct WakerSet {
    last_ticket: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl WakerSet {
    /// Returns whether the waker that is registered with a ticket wakes the same task as `waker`.
    pub(crate) fn has_waker(&self, ticket: u64, waker: &Waker) -> bool {
        self.waiting.get(&ticket).is_some_and(|known| known.will_wake(waker))
    }

    /// Adds the waker of a future, or replaces and returns its earlier one. The future uses the
    /// ticket to [deregister](Self::deregister).
    #[must_use]
    pub(crate) fn register(&mut self, ticket: &mut Option<u64>, waker: Waker) -> Option<Waker> {
        let number = *ticket.get_or_insert_with(|| self.draw_ticket());
        self.waiting.insert(number, waker)
    }

    fn draw_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.last_ticket
    }

    /// Removes the waker of a future, if it is still registered.
    #[must_use]
    pub(crate) fn deregister(&mut self, ticket: u64) -> Option<Waker> {
        self.waiting.remove(&ticket)
    }

    /// Removes and returns all wakers.
    pub(crate) fn take_wakers(&mut self) -> impl Iterator<Item = Waker> + use<> {
        std::mem::take(&mut self.waiting).into_values()
    }
}
