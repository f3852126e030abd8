//! Ctrl-C, for every command that measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::{self, Error};
use crate::terminal;

/// From here on an interrupt sets the flag, which ends the measurement in order; a second one ends the process.
pub fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let stop = Arc::downgrade(stop);
    ctrlc::set_handler(move || {
        // The second one does not wait for what the first one asked to end.
        if stop.upgrade().is_none_or(|stop| stop.swap(true, Ordering::Relaxed)) {
            terminal::abort();
        }
    })
    .map_err(|e| Error::measure(format!("cannot watch for Ctrl-C: {e}")))
}
