//! Tells the one side of a channel that the other did something, for next to nothing while nobody waits.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;

#[cfg(not(loom))]
use atomic_waker::AtomicWaker;
#[cfg(loom)]
use model::AtomicWaker;

use super::ring::sequential;

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
        self.waits.swap(true, Ordering::SeqCst);
    }

    /// Wakes the waiter, if there is one. To be called after the change was made.
    pub(super) fn notify(&self) {
        if self.waits.swap(false, Ordering::AcqRel) {
            self.waker.wake();
        }
    }
}

impl Signal {
    /// The same after a change that was a sequentially consistent read-modify-write, if the waiter looks for it by a
    /// sequentially consistent load: then one look does, since not both can be the earlier one.
    #[inline]
    pub(super) fn notify_after_swap(&self) {
        sequential();
        if self.waits.load(Ordering::SeqCst) {
            self.notify();
        }
    }
}

#[cfg(loom)]
mod model {
    //! The same, as far as it is used here, over loom's own.
    use std::task::Waker;

    #[derive(Default)]
    pub(super) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(super) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }
        pub(super) fn wake(&self) {
            self.0.wake();
        }
    }

    impl std::fmt::Debug for AtomicWaker {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("AtomicWaker")
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::task::Poll;

    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::Signal;

    /// What the channels do: the notifiers make a change that is ordered by nothing but the signal, the waiter looks,
    /// registers, and looks again. A lost wake would leave it waiting for ever, which loom reports as a deadlock.
    fn all_changes_are_seen(notifiers: usize, preemptions: Option<usize>) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = preemptions;
        model.check(move || {
            let shared = Arc::new((Signal::default(), AtomicUsize::new(0)));
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
                shared.0.wait(cx.waker());
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
