//! Wakes from other threads that have not reached the runtime's thread yet.

use crate::sync::{AtomicBool, Ordering};

/// Whether a wake from another thread is pending.
///
/// A thread that finds a pending wake adds no other one. Every access is a read-modify-write that
/// acquires and releases, so the later of two accesses sees everything that happened before the
/// earlier one. A wake therefore either finds no pending wake and announces itself, or the
/// runtime's thread, when it accepts the pending wake, sees the change that both wakes are about.
#[derive(Debug)]
pub(crate) struct RemoteWake(AtomicBool);

impl RemoteWake {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Announces a wake, after the change that it is about. Returns true if the caller must pass
    /// the task on to the runtime's thread.
    #[must_use]
    pub(crate) fn announce(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Accepts the wake on the runtime's thread. Must be called before that thread looks for the
    /// change.
    pub(crate) fn take(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Sets the flag for a task that begins or has ended, when concurrent wakes do not matter.
    #[inline]
    pub(crate) fn set(&self, is_announced: bool) {
        self.0.store(is_announced, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::RemoteWake;
    use crate::inbox::Inbox;

    /// The state that the threads of a model share.
    struct Shared {
        wake: RemoteWake,
        inbox: Inbox,
        changes: AtomicUsize,
    }

    /// Wakers make a change that is ordered only by the announcement, then wake. The runtime's
    /// thread accepts each wake and looks for the change. If it looked too early and were not woken
    /// again, it would loop forever, which loom reports.
    fn check_all_changes_seen(wakers: usize, wakes: usize, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 10_000;
        model.check(move || {
            let shared = Arc::new(Shared {
                wake: RemoteWake::new(),
                inbox: Inbox::new(),
                changes: AtomicUsize::new(0),
            });
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        for _ in 0..wakes {
                            shared.changes.fetch_add(1, Ordering::Relaxed);
                            if shared.wake.announce() {
                                let _ = shared.inbox.push(0);
                            }
                        }
                    })
                })
                .collect();
            let mut seen = 0;
            while seen < wakers * wakes {
                match shared.inbox.pop() {
                    Some(_) => {
                        shared.wake.take();
                        seen = shared.changes.load(Ordering::Relaxed);
                    }
                    None => loom::thread::yield_now(),
                }
            }
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn one_waker_loses_no_change() {
        check_all_changes_seen(1, 2, 3);
    }

    #[test]
    fn two_wakers_lose_no_change() {
        check_all_changes_seen(2, 1, 3);
    }
}
