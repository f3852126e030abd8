//! Atomic words of 64 bits: those of the processor or, if it has none, words behind locks.
//!
//! Targets without them are `armv5te-*`, `powerpc-*` and `mipsel-*` of Linux, for example. The build
//! flag `--cfg tach_locked_words` selects the locks on every target, for tests.

#[cfg(any(test, tach_locked_words, not(target_has_atomic = "64")))]
mod locked {
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// A word with the interface of an atomic one. A lock orders more than any `Ordering` requests.
    #[derive(Debug)]
    pub(crate) struct LockedWord<T>(Mutex<T>);

    impl<T: Copy + Ord> LockedWord<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(Mutex::new(value))
        }

        fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }

        pub(crate) fn load(&self, _: Ordering) -> T {
            *self.lock()
        }

        pub(crate) fn store(&self, value: T, _: Ordering) {
            *self.lock() = value;
        }

        /// Raises the word to a value, and returns the previous one.
        pub(crate) fn fetch_max(&self, value: T, _: Ordering) -> T {
            let mut word = self.lock();
            let raised = value.max(*word);
            std::mem::replace(&mut *word, raised)
        }
    }

    #[cfg(test)]
    impl LockedWord<u64> {
        pub(crate) fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
            let mut word = self.lock();
            let sum = word.wrapping_add(value);
            std::mem::replace(&mut *word, sum)
        }
    }
}

#[cfg(any(tach_locked_words, not(target_has_atomic = "64")))]
mod words {
    pub(crate) type AtomicI64 = crate::atomic_words::locked::LockedWord<i64>;
    pub(crate) type AtomicU64 = crate::atomic_words::locked::LockedWord<u64>;
}

#[cfg(not(any(tach_locked_words, not(target_has_atomic = "64"))))]
mod words {
    pub(crate) use std::sync::atomic::{AtomicI64, AtomicU64};
}

#[cfg_attr(
    all(test, loom),
    allow(unused_imports, reason = "the model of the line has its own")
)]
pub(crate) use words::{AtomicI64, AtomicU64};

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

    use super::locked::LockedWord;

    #[test]
    fn locked_words_act_like_atomics() {
        static WORD: LockedWord<u64> = LockedWord::new(5);
        assert_eq!(WORD.fetch_max(9, AcqRel), 5);
        assert_eq!(WORD.fetch_max(7, AcqRel), 9);
        WORD.store(u64::MAX, Release);
        assert_eq!((WORD.fetch_add(2, Relaxed), WORD.load(Acquire)), (u64::MAX, 1));
        let signed = LockedWord::new(-3_i64);
        assert_eq!((signed.fetch_max(-4, Relaxed), signed.load(Relaxed)), (-3, -3));
    }

    #[test]
    fn no_increment_is_lost() {
        let word = LockedWord::new(0_u64);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| _ = word.fetch_add(1, Relaxed)));
            }
        });
        assert_eq!(word.load(Relaxed), 4_000);
    }
}
