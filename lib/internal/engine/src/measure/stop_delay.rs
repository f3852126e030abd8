//! Delays a stop by the terminal (Ctrl-Z) until the end of a round.
//!
//! A stop within a round would be a late tick of the subject, and a load would run on meanwhile: it
//! has a process group of its own, which the terminal does not stop.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::machine::os;

/// Number of delays that exist.
static DELAYS: AtomicUsize = AtomicUsize::new(0);

/// Delays stops while it exists, also within another delay.
pub struct StopDelay(());

impl StopDelay {
    pub fn begin() -> Self {
        if DELAYS.fetch_add(1, Ordering::Relaxed) == 0 {
            os::delay_stop();
        }
        Self(())
    }

    /// Stops this process if a stop was requested and a shell could continue it. Returns when it is
    /// continued.
    pub fn stop_if_requested(&self) {
        if os::take_stop_request() {
            os::stop_at_once();
            os::stop_as_terminal();
            os::delay_stop();
        }
    }
}

impl Drop for StopDelay {
    fn drop(&mut self) {
        if DELAYS.fetch_sub(1, Ordering::Relaxed) == 1 {
            os::stop_at_once();
            if os::take_stop_request() {
                os::stop_as_terminal();
            }
        }
    }
}
