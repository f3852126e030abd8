//! Models of the two kinds of sleeper for loom, without a timeout: a sleep that is not ended is a
//! deadlock, which loom reports.

use std::io;
use std::time::Instant;

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};

use crate::backend::Backend;

#[derive(Debug)]
pub(crate) struct Sleeper {
    /// Whether `wake` is remembered until the next sleep, as by an event of Windows or of kqueue.
    /// Otherwise a sleep compares the word first, as a futex does, or a condition variable's user.
    remembers_wake: bool,
    is_woken: Mutex<bool>,
    changed: Condvar,
}

impl Sleeper {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self::with_memory(false))
    }

    pub(crate) fn with_memory(remembers_wake: bool) -> Self {
        Self { remembers_wake, is_woken: Mutex::new(false), changed: Condvar::new() }
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::ThreadSleep
    }

    pub(crate) fn sleep_until(&self, word: Option<&AtomicU32>, _: Instant) -> io::Result<()> {
        let mut is_woken = self.is_woken.lock().unwrap();
        if !self.remembers_wake {
            *is_woken = word.is_some_and(|word| word.load(Ordering::Relaxed) != 0);
        }
        while !*is_woken {
            is_woken = self.changed.wait(is_woken).unwrap();
        }
        *is_woken = false;
        Ok(())
    }

    pub(crate) fn wake(&self, _word: &AtomicU32) {
        *self.is_woken.lock().unwrap() = true;
        self.changed.notify_one();
    }
}
