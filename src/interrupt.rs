//! Ctrl-C, for every command that measures.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cli::exit::{self, Error};
use engine::measure::{child, long_wait};

use crate::terminal;

/// From here on an interrupt sets the flag, which ends the measurement in order; a second one ends
/// the process, and the program that it runs.
pub fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> exit::Result<()> {
    let is_second = second(stop);
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

/// Whether an interrupt is not the first one, which only asks to end. That holds after the
/// measurement, too, while its result is written, and whatever else has ended it.
fn second(stop: &Arc<AtomicBool>) -> impl Fn() -> bool + Send + 'static {
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
    fn the_first_interrupt_after_a_measurement_does_not_cost_its_result() {
        let stop: Arc<AtomicBool> = Arc::default();
        let is_second = second(&stop);
        stop.store(true, Ordering::Relaxed);
        drop(stop);
        assert_eq!([is_second(), is_second(), is_second()], [false, true, true]);
    }
}
