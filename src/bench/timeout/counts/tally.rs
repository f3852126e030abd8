//! What a guard asks of the runtime's timers, counted in two words of the process.

use std::sync::atomic::{AtomicU64, Ordering};

pub const IS_COUNTED: bool = true;

static MADE: AtomicU64 = AtomicU64::new(0);
static REGISTERED: AtomicU64 = AtomicU64::new(0);

/// A timer was made.
pub fn made() {
    MADE.fetch_add(1, Ordering::Relaxed);
}

/// A timer was registered with the wheel: polled for the first time before it was due, or set to another time.
pub fn registered() {
    REGISTERED.fetch_add(1, Ordering::Relaxed);
}

/// Timers made and registered so far.
pub fn so_far() -> (u64, u64) {
    (MADE.load(Ordering::Relaxed), REGISTERED.load(Ordering::Relaxed))
}
