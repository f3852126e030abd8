//! Handles Ctrl-C for every command that measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cli::exit::{self, Error};
use engine::measure::{child, long_wait};

use crate::terminal;

/// Installs a handler for interrupts.
///
/// The first interrupt sets `stop`, which ends the measurement and keeps its result. A second one
/// kills the measured program and ends the process.
///
/// # Errors
/// Returns an error if the handler cannot be installed.
pub fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let is_second = interrupt_counter(stop);
    ctrlc::set_handler(move || {
        if is_second() {
            child::kill_all();
            terminal::abort();
        }
        long_wait::wake_all();
    })
    .map_err(|e| {
        let why = match e {
            ctrlc::Error::System(e) => e.to_string(),
            e => e.to_string(),
        };
        Error::measure(format!("cannot watch for Ctrl-C: {why}; nothing was measured"))
    })
}

/// Returns a function to be called for each interrupt, which sets `stop` and returns whether there
/// was an interrupt before.
///
/// The first interrupt may come after the measurement, while its result is written. It must not end
/// the process even if `stop` was already set for another reason.
fn interrupt_counter(stop: &Arc<AtomicBool>) -> impl Fn() -> bool + Send + 'static {
    let stop = Arc::clone(stop);
    let interrupted = AtomicBool::new(false);
    move || {
        stop.store(true, Ordering::SeqCst);
        interrupted.swap(true, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_interrupt_never_aborts() {
        let stop: Arc<AtomicBool> = Arc::default();
        let is_second = interrupt_counter(&stop);
        stop.store(true, Ordering::Relaxed);
        drop(stop);
        assert_eq!([is_second(), is_second(), is_second()], [false, true, true]);
    }
}
