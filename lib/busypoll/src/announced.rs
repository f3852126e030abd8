//! Whether a task, or the root, that another thread has woken is on its way to the runtime's
//! thread.

use crate::sync::{AtomicBool, Ordering};

/// A wake that finds one on its way adds none. Every access is a read-modify-write that acquires
/// and releases: of two, the later sees all that came before the earlier. So a wake either finds no
/// announcement, and makes one, or whoever takes the one that it found sees what the wake was
/// about.
#[derive(Debug)]
pub(crate) struct Announced(AtomicBool);

impl Announced {
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// After the change that the wake is about. True if the caller must pass the task on to the
    /// runtime's thread.
    #[must_use]
    pub(crate) fn announce(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// On the runtime's thread, when the task has come, before it looks for the change.
    pub(crate) fn take(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }

    /// Of a task that has ended, or begins; what others do to it meanwhile does not matter.
    #[inline]
    pub(crate) fn set(&self, announced: bool) {
        self.0.store(announced, Ordering::Relaxed);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::Announced;
    use crate::inbox::Inbox;

    /// Wakers make a change that is ordered by nothing but the announcement, then wake; the
    /// runtime's thread takes what came, and looks. One that looked too early, and is not told
    /// again, would look for ever, which loom reports.
    fn all_changes_are_seen(wakers: usize, wakes: usize, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 10_000;
        model.check(move || {
            let shared = Arc::new((Announced::new(), Inbox::new(), AtomicUsize::new(0)));
            let threads: Vec<_> = (0..wakers)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    loom::thread::spawn(move || {
                        for _ in 0..wakes {
                            shared.2.fetch_add(1, Ordering::Relaxed);
                            if shared.0.announce() {
                                let _ = shared.1.push(0);
                            }
                        }
                    })
                })
                .collect();
            let mut seen = 0;
            while seen < wakers * wakes {
                match shared.1.pop() {
                    Some(_) => {
                        shared.0.take();
                        seen = shared.2.load(Ordering::Relaxed);
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
    fn no_change_is_missed_with_one_waker() {
        all_changes_are_seen(1, 2, 3);
    }

    #[test]
    fn no_change_is_missed_with_two_wakers() {
        all_changes_are_seen(2, 1, 3);
    }
}
