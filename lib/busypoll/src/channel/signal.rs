//! Tells the one side of a channel that the other did something, for next to nothing while nobody waits.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Waker;

use atomic_waker::AtomicWaker;

/// One waiter, any number of notifiers. The waiter registers and then looks again; the notifier makes its change and
/// then looks whether somebody waits; a sequentially consistent fence on each side keeps both from looking too early.
#[derive(Debug, Default)]
pub(super) struct Signal {
    waits: AtomicBool,
    waker: AtomicWaker,
}

impl Signal {
    /// Registers the waiter. It must look again afterwards.
    pub(super) fn wait(&self, waker: &Waker) {
        self.waker.register(waker);
        self.waits.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Wakes the waiter, if there is one. To be called after the change was made.
    pub(super) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.waits.load(Ordering::Relaxed) && self.waits.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
}
