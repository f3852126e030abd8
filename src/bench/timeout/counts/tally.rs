//! Counts the operations of guards on the runtime's timers.

use std::sync::atomic::{AtomicU64, Ordering};

use benchloops::timeouts::tally::Tally;

static MADE: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// A tally in two counters of the process.
pub struct TimerTally;

impl Tally for TimerTally {
    const IS_COUNTED: bool = true;

    fn timer_created() {
        MADE.fetch_add(1, Ordering::Relaxed);
    }

    fn timer_registered() {
        REGISTERED.fetch_add(1, Ordering::Relaxed);
    }
}

impl TimerTally {
    /// Returns the number of timers created and of registrations so far.
    pub fn counts() -> (u64, u64) {
        (MADE.load(Ordering::Relaxed), REGISTERED.load(Ordering::Relaxed))
    }
}
