//! How one side of a channel waits for the other: it registers, then tries again; the other side makes its change, then
//! looks for somebody registered. While nobody waits, that look is next to free.

use std::sync::PoisonError;
use std::task::{Poll, Waker};

use super::error::{SendError, TryRecvError, TrySendError};
use crate::sync::{AtomicBool, AtomicWaker, Mutex, Ordering, loom_fence};

/// One waiter, any number of notifiers. Every access to the flag is a read-modify-write that acquires and releases: of
/// two, the later sees all that came before the earlier, so waiter and notifier cannot both miss the other.
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

    /// [`notify`](Self::notify) after a change that was a sequentially consistent read-modify-write, which the waiter
    /// checks by a sequentially consistent load: one load suffices then, since not both can come first.
    #[inline]
    pub(crate) fn notify_after_swap(&self) {
        loom_fence();
        if self.waits.load(Ordering::SeqCst) {
            self.notify();
        }
    }
}

/// Any number of waiters, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    /// Whether `waiting` may hold somebody: spares each notification the lock.
    anyone: AtomicBool,
    waiting: Mutex<Vec<Waker>>,
}

impl Waiters {
    /// Registers a waiter, which must then try again.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
        self.anyone.swap(true, Ordering::SeqCst);
    }

    /// Wakes all, since any one of them may have been dropped. After a change as in [`Waiter::notify_after_swap`].
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
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            self.anyone.store(false, Ordering::Relaxed);
            std::mem::take(&mut *waiting)
        };
        waiting.into_iter().for_each(Waker::wake);
    }
}

/// Sends the value; or registers, and tries again, since there may have been room since the first try.
#[inline]
pub(crate) fn poll_send<C, T>(
    channel: &mut C,
    value: &mut Option<T>,
    try_send: impl Fn(&mut C, T) -> Result<(), TrySendError<T>>,
    wait: impl Fn(&mut C),
) -> Poll<Result<(), SendError<T>>> {
    for registered in [false, true] {
        let Some(taken) = value.take() else { break };
        match try_send(channel, taken) {
            Ok(()) => break,
            Err(TrySendError::Closed(back)) => return Poll::Ready(Err(SendError(back))),
            Err(TrySendError::Full(back)) => *value = Some(back),
        }
        if registered {
            return Poll::Pending;
        }
        wait(channel);
    }
    Poll::Ready(Ok(()))
}

/// Receives a value; or registers, and tries again, since one may have come since the first try.
#[inline]
pub(crate) fn poll_recv<C, T>(
    channel: &mut C,
    try_recv: impl Fn(&mut C) -> Result<T, TryRecvError>,
    wait: impl Fn(&mut C),
) -> Poll<Option<T>> {
    for registered in [false, true] {
        match try_recv(channel) {
            Ok(value) => return Poll::Ready(Some(value)),
            Err(TryRecvError::Closed) => return Poll::Ready(None),
            Err(TryRecvError::Empty) if !registered => wait(channel),
            Err(TryRecvError::Empty) => {}
        }
    }
    Poll::Pending
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::task::Poll;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::Waiter;

    /// What the channels do: the notifiers make a change that is ordered by nothing but the flag, the waiter checks,
    /// registers, and checks again. A lost wake would leave it waiting forever, which loom reports as a deadlock.
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
