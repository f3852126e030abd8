//! Waiting for the other side of a channel.
//!
//! A waiting side registers, then tries again. The other side makes its change, then checks for a
//! registered waiter. This check is nearly free without a waiter.

use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{AtomicBool, AtomicWaker, Mutex, MutexGuard, Ordering, loom_fence};
use crate::waker_set::WakerSet;

/// One waiter, and any number of notifiers.
///
/// Every access to the flag is a read-modify-write that acquires and releases. The later of two
/// accesses sees everything that happened before the earlier one, so the waiter and a notifier
/// cannot both miss each other.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    is_waiting: AtomicBool,
    waker: AtomicWaker,
}

impl Waiter {
    /// Registers the waiter, which must then try again.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
        self.is_waiting.swap(true, Ordering::SeqCst);
    }

    /// Wakes the waiter, if there is one. Must be called after the change.
    pub(crate) fn notify(&self) {
        if self.is_waiting.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// Wakes the waiter like [`notify`](Self::notify), but for a change that was a sequentially consistent
    /// read-modify-write and that the waiter checks by a sequentially consistent load. A single
    /// load suffices, since the two accesses cannot both come first.
    #[inline]
    pub(crate) fn notify_after_swap(&self) {
        loom_fence();
        if self.is_waiting.load(Ordering::SeqCst) {
            self.notify();
        }
    }
}

/// Any number of waiters, each of which deregisters when its future is dropped.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Whether `waiting` may contain a waker, which saves most notifications the lock.
    may_have_waiters: AtomicBool,
    waiting: Mutex<WakerSet>,
}

impl Waiters {
    /// Registers a waiter, which must then try again.
    pub(crate) fn register(&self, ticket: &mut Option<u64>, waker: &Waker) {
        if ticket.is_some_and(|ticket| self.lock().has_waker(ticket, waker)) {
            // The flag is set as long as the set contains a waker.
            return;
        }
        // A waker's clone and destructor are foreign code, so they run without the lock.
        let waker = waker.clone();
        let mut waiting = self.lock();
        let replaced = waiting.register(ticket, waker);
        self.may_have_waiters.swap(true, Ordering::SeqCst);
        drop(waiting);
        drop(replaced);
    }

    /// Removes the waker of a future that is dropped.
    pub(crate) fn deregister(&self, ticket: u64) {
        let removed = self.lock().deregister(ticket);
        drop(removed);
    }

    /// Wakes all waiters, since any single one may be dropped before it is polled. The change must
    /// be as for [`Waiter::notify_after_swap`].
    #[inline]
    pub(crate) fn notify_after_swap(&self) {
        loom_fence();
        if self.may_have_waiters.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let waiting = {
            let mut waiting = self.lock();
            self.may_have_waiters.store(false, Ordering::Relaxed);
            waiting.take_wakers()
        };
        waiting.for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, WakerSet> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::task::Poll;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::Waiter;

    /// Runs the protocol of the channels: the notifiers make a change that is ordered only by the
    /// flag; the waiter checks, registers, and checks again. A lost wake would leave the waiter
    /// waiting forever, which loom reports as a deadlock.
    fn check_all_changes_seen(notifiers: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let shared = Arc::new((Waiter::default(), AtomicUsize::new(0)));
            let threads: Vec<_> = (0..notifiers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        shared.1.fetch_add(1, Ordering::Relaxed);
                        shared.0.notify();
                    })
                })
                .collect();
            let all_notified = || shared.1.load(Ordering::Relaxed) == notifiers;
            loom::future::block_on(std::future::poll_fn(|cx| {
                if all_notified() {
                    return Poll::Ready(());
                }
                shared.0.register(cx.waker());
                if all_notified() { Poll::Ready(()) } else { Poll::Pending }
            }));
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn one_notifier_is_always_seen() {
        check_all_changes_seen(1, None);
    }

    #[test]
    fn two_notifiers_are_always_seen() {
        check_all_changes_seen(2, Some(3));
    }
}
