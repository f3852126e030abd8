//! Tells the one side of a channel that the other did something, for next to nothing while nobody waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

use atomic_waker::AtomicWaker;

/// One waiter, any number of notifiers. The waiter registers and then looks again; a notifier makes its change and then
/// looks whether somebody waits. Every access to the flag is a read-modify-write that acquires and releases: of two, the
/// later sees all that came before the earlier, so not both can look too early.
#[derive(Debug, Default)]
pub(super) struct Signal {
    waits: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    /// Registers the waiter. It must look again afterwards.
    pub(super) fn wait(&self, waker: &Waker) {
        self.waker.register(waker);
        self.waits.swap(true, Ordering::AcqRel);
    }

    /// Wakes the waiter, if there is one. To be called after the change was made.
    pub(super) fn notify(&self) {
        if self.waits.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
}
