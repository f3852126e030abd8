//! Synchronization primitives: the real ones or, with `--cfg loom`, those with which loom tries
//! every schedule.

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "busypoll does not support this target: armv5te, powerpc, mipsel and others have no 64-bit atomics, with which \
     threads hand over woken tasks"
);

#[cfg(loom)]
pub(crate) use model::*;
#[cfg(not(loom))]
pub(crate) use real::*;

#[cfg(not(loom))]
mod real {
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use std::sync::{Mutex, MutexGuard};

    pub(crate) use atomic_waker::AtomicWaker;
    pub(crate) use crossbeam_queue::SegQueue;

    /// A cell with the interface of loom's cell.
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(std::cell::UnsafeCell::new(value))
        }

        #[inline]
        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        #[inline]
        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }

    /// Does nothing without loom. See the version for loom.
    #[inline]
    pub(crate) fn loom_fence() {}
}

#[cfg(loom)]
mod model {
    use std::collections::VecDeque;
    use std::fmt;
    use std::task::Waker;

    pub(crate) use loom::cell::UnsafeCell;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    #[derive(Default)]
    pub(crate) struct AtomicWaker(loom::future::AtomicWaker);

    impl AtomicWaker {
        pub(crate) fn register(&self, waker: &Waker) {
            self.0.register_by_ref(waker);
        }
        pub(crate) fn wake(&self) {
            self.0.wake();
        }
    }

    impl fmt::Debug for AtomicWaker {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("AtomicWaker")
        }
    }

    /// Replaces the queue, whose correctness its own crate tests.
    #[derive(Debug)]
    pub(crate) struct SegQueue<T>(Mutex<VecDeque<T>>);

    impl<T> SegQueue<T> {
        pub(crate) fn new() -> Self {
            Self(Mutex::new(VecDeque::new()))
        }
        pub(crate) fn push(&self, item: T) {
            self.0.lock().unwrap().push_back(item);
        }
        pub(crate) fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }
    }

    /// Separates two sequentially consistent accesses that must not be reordered, since loom models
    /// that order for fences only.
    pub(crate) fn loom_fence() {
        loom::sync::atomic::fence(Ordering::SeqCst);
    }
}
