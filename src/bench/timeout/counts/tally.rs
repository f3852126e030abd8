//! What a guard asks of the runtime's timers, counted in two words of the process.

use std::sync::atomic::{AtomicU64, Ordering};

use benchloops::timeouts::tally::Tally;

static MADE: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicU64 = AtomicU64::new(0);

pub struct Counting;

impl Tally for Counting {
    const IS_COUNTED: bool = true;

    fn timer_created() {
        MADE.fetch_add(1, Ordering::Relaxed);
    }

    fn timer_registered() {
        REGISTERED.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counting {
    /// Timers made and registered so far.
    pub fn so_far() -> (u64, u64) {
        (MADE.load(Ordering::Relaxed), REGISTERED.load(Ordering::Relaxed))
    }
}
