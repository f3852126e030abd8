//! Sleeps of a thread on systems without a sleeper of their own: a condition variable of std.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use crate::backend::Backend;
use crate::real_clock::real_now;

#[derive(Debug)]
pub(crate) struct Sleeper {
    lock: Mutex<()>,
    woken: Condvar,
}

/// Whether a program has only one thread, which no other can wake. A condition variable of std
/// panics there.
const IS_SINGLE_THREADED: bool = cfg!(all(target_family = "wasm", not(target_feature = "atomics")));

impl Sleeper {
    #[allow(clippy::unnecessary_wraps, reason = "the sleepers of other systems can fail")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { lock: Mutex::new(()), woken: Condvar::new() })
    }

    #[allow(clippy::unused_self, reason = "the sleepers of other systems are of several kinds")]
    pub(crate) fn backend(&self) -> Backend {
        Backend::Condvar
    }

    #[allow(clippy::unnecessary_wraps, reason = "as above")]
    pub(crate) fn sleep_until(
        &self,
        word: Option<&AtomicU32>,
        deadline: Instant,
    ) -> io::Result<()> {
        let remaining = deadline.saturating_duration_since(real_now());
        if IS_SINGLE_THREADED {
            #[allow(clippy::disallowed_methods, reason = "there is no other sleep")]
            std::thread::sleep(remaining);
            return Ok(());
        }
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if word.is_none_or(|word| word.load(Ordering::Relaxed) == 0) {
            drop(self.woken.wait_timeout(guard, remaining));
        }
        Ok(())
    }

    pub(crate) fn wake(&self, _word: &AtomicU32) {
        // The sleeping thread has read the word under the lock. If it has read the old value, it
        // waits by the time the lock is free, and is notified.
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.woken.notify_one();
    }
}
