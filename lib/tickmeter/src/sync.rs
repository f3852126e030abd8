//! Atomics of the publication protocol: those of std or, with `--cfg loom`, those of loom, which
//! runs a test under every schedule.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::OnceLock;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use once_lock::OnceLock;

#[cfg(loom)]
mod once_lock {
    use super::Ordering;
    use loom::sync::atomic::AtomicBool;

    /// The lock of std, with its order of memory as loom sees it. Only one thread may set it.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        value: std::sync::OnceLock<T>,
        is_set: AtomicBool,
    }

    impl<T> OnceLock<T> {
        pub(crate) fn new() -> Self {
            Self { value: std::sync::OnceLock::new(), is_set: AtomicBool::new(false) }
        }

        pub(crate) fn get(&self) -> Option<&T> {
            self.is_set.load(Ordering::Acquire).then(|| self.value.get()).flatten()
        }

        pub(crate) fn get_or_init(&self, init: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(init);
            self.is_set.store(true, Ordering::Release);
            value
        }
    }
}
