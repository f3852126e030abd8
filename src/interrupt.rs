//! Ctrl-C, for every command that measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::exit::Error;
use crate::measure::round::Shared;
use crate::terminal;

/// From here on an interrupt stops the measurement at the current tick; a second one ends the process.
pub fn stop_on_interrupt(shared: &Arc<Shared>) -> Result<(), Error> {
    raise(shared, |shared| &shared.stop)
}

/// The same for a measurement that looks at a flag between its rounds.
pub fn raise_on_interrupt(stop: &Arc<AtomicBool>) -> Result<(), Error> {
    raise(stop, |stop| stop)
}

fn raise<T: Send + Sync + 'static>(owner: &Arc<T>, flag: fn(&T) -> &AtomicBool) -> Result<(), Error> {
    let weak = Arc::downgrade(owner);
    ctrlc::set_handler(move || match weak.upgrade() {
        // The second one does not wait for what the first one asked to end.
        Some(owner) if flag(&owner).swap(true, Ordering::Relaxed) => terminal::abort(),
        Some(_) => {}
        None => terminal::abort(),
    })
    .map_err(|e| Error::measure(format!("cannot watch for Ctrl-C: {e}")))
}
