//! How one side of a channel waits for the other: it registers, then tries again; the other side
//! makes its change, then looks for somebody registered. While nobody waits, that look is next to
//! free.

use std::sync::PoisonError;
use std::task::Waker;

use crate::sync::{AtomicBool, AtomicWaker, Mutex, MutexGuard, Ordering, loom_fence};
use crate::waker_set::WakerSet;

/// One waiter, any number of notifiers. Every access to the flag is a read-modify-write that
/// acquires and releases: of two, the later sees all that came before the earlier, so waiter and
/// notifier cannot both miss the other.
#[derive(Debug, Default)]
pub(crate) struct Waiter {
    waits: AtomicBool,
    waker: AtomicWaker,
}

impl Waiter {
    /// Registers the waiter, which must then try again.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
        self.waits.swap(true, Ordering::SeqCst);
    }

    /// Wakes the waiter, if there is one. Call it after the change.
    pub(crate) fn notify(&self) {
        if self.waits.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }

    /// [`notify`](Self::notify) after a change that was a sequentially consistent
    /// read-modify-write, which the waiter checks by a sequentially consistent load: one load
    /// suffices then, since not both can come first.
    #[inline]
    pub(crate) fn notify_after_swap(&self) {
        loom_fence();
        if self.waits.load(Ordering::SeqCst) {
            self.notify();
        }
    }
}

/// Any number of waiters, each of which leaves with its future.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Whether `waiting` may hold somebody: spares each notification the lock.
    anyone: AtomicBool,
    waiting: Mutex<WakerSet>,
}

impl Waiters {
    /// Registers a waiter, which must then try again.
    pub(crate) fn register(&self, ticket: &mut Option<u64>, waker: &Waker) {
        let mut waiting = self.lock();
        let replaced = waiting.join(ticket, waker);
        self.anyone.swap(true, Ordering::SeqCst);
        drop(waiting);
        drop(replaced);
    }

    /// Its future is gone.
    pub(crate) fn leave(&self, ticket: u64) {
        let removed = self.lock().leave(ticket);
        drop(removed);
    }

    /// Wakes all, since any one of them may be dropped before it is polled. After a change as in
    /// [`Waiter::notify_after_swap`].
    #[inline]
    pub(crate) fn notify_after_swap(&self) {
        loom_fence();
        if self.anyone.load(Ordering::SeqCst) {
            self.wake_all();
        }
    }

    #[cold]
    fn wake_all(&self) {
        let waiting = {
            let mut waiting = self.lock();
            self.anyone.store(false, Ordering::Relaxed);
            waiting.take()
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

    /// What the channels do: the notifiers make a change that is ordered by nothing but the flag,
    /// the waiter checks, registers, and checks again. A lost wake would leave it waiting forever,
    /// which loom reports as a deadlock.
    fn all_changes_are_seen(notifiers: usize, preemptions: Option<usize>) {
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
            let all = || shared.1.load(Ordering::Relaxed) == notifiers;
            loom::future::block_on(std::future::poll_fn(|cx| {
                if all() {
                    return Poll::Ready(());
                }
                shared.0.register(cx.waker());
                if all() { Poll::Ready(()) } else { Poll::Pending }
            }));
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn no_notification_is_lost_by_one() {
        all_changes_are_seen(1, None);
    }

    #[test]
    fn no_notification_is_lost_by_two() {
        all_changes_are_seen(2, Some(3));
    }
}
