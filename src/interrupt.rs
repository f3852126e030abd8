//! Ctrl-C, for every command that measures.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::exit::Failure;
use crate::measure::Shared;
use crate::output;

/// From here on an interrupt stops the measurement at the current tick; a second one ends the process.
pub fn stop_on_interrupt(shared: &Arc<Shared>) -> Result<(), Failure> {
    let weak = Arc::downgrade(shared);
    ctrlc::set_handler(move || match weak.upgrade() {
        // The second one does not wait for the current tick.
        Some(shared) if shared.stop.swap(true, Ordering::Relaxed) => output::abort(),
        Some(_) => {}
        None => output::abort(),
    })
    .map_err(|e| Failure::Measure(format!("cannot watch for Ctrl-C: {e}")))
}
