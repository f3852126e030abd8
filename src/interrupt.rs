//! Handles Ctrl-C and the other signals that end a command.
//!
//! The signals are SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal), SIGQUIT (Ctrl-\), and
//! those of limits and timers, which end a process by default: SIGXCPU, SIGALRM, SIGUSR1 and
//! SIGUSR2. On Windows, they are Ctrl-C, Ctrl-Break and the end of the console.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use cli::exit::{self, Error};
use cli::file_io;
use cli::terminal;
use engine::machine::os;
use engine::measure::{child, long_wait, supervisor, trial_commands};

/// Maximum time to remove temporary files, which may be on a disk that does not respond.
const REMOVAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for the measurement to react to an interrupt with the class of its threads.
const REACTION_TIMEOUT: Duration = Duration::from_secs(2);

/// The measurement that the next interrupt stops. Without one, an interrupt ends the process.
static MEASUREMENT: StopRequest = StopRequest(Mutex::new(None));

/// The result of installing the handler.
static HANDLER: OnceLock<io::Result<()>> = OnceLock::new();

/// The flag that stops a measurement, until it has been used.
struct StopRequest(Mutex<Option<Arc<AtomicBool>>>);

impl StopRequest {
    fn replace(&self, stop: Option<Arc<AtomicBool>>) -> Option<Arc<AtomicBool>> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), stop)
    }

    /// Sets the flag. Returns false if there is none, or if it was used before.
    ///
    /// The first interrupt may come after the measurement, while its result is written. It must not
    /// end the process even if the flag was already set for another reason.
    fn stop(&self) -> bool {
        let stop = self.replace(None);
        if let Some(stop) = &stop {
            stop.store(true, Ordering::SeqCst);
        }
        stop.is_some()
    }
}

/// Installs the handler for interrupts. Until [`stop_on_interrupt`] is called, an interrupt ends
/// the process.
pub fn install() {
    HANDLER.get_or_init(watch_signals);
}

/// Starts a thread that handles the signals.
#[cfg(unix)]
fn watch_signals() -> io::Result<()> {
    use nix::sys::signal::{SigSet, Signal};
    use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
    use signal_hook::iterator::Signals;
    use std::sync::mpsc;
    // A command that `nohup` started survives its terminal.
    let is_handled = |&signal: &i32| [SIGINT, SIGTERM].contains(&signal) || !os::is_ignored(signal);
    let handled: Vec<i32> = os::END_SIGNALS.into_iter().filter(is_handled).collect();
    // A process that was started by one that waits for signals may have inherited its mask. This is
    // the main thread, whose mask all others inherit.
    let unblocked: SigSet = handled.iter().filter_map(|&s| Signal::try_from(s).ok()).collect();
    unblocked.thread_unblock()?;
    let (sender, receiver) = mpsc::channel::<Signals>();
    let watch = move || {
        let Ok(mut signals) = receiver.recv() else { return };
        // It reacts even if osjitter was started with a real-time class.
        os::become_normal();
        for signal in signals.forever() {
            // SIGQUIT asks for the end at once. By default, it would leave programs and temporary
            // files behind.
            if signal == SIGQUIT { end_process() } else { handle_interrupt() }
        }
    };
    // Starts before the signals are caught: without the thread, they keep their default effect.
    std::thread::Builder::new().name("signals".to_owned()).spawn(watch)?;
    let _ = sender.send(Signals::new(handled)?);
    Ok(())
}

#[cfg(windows)]
fn watch_signals() -> io::Result<()> {
    ctrlc::set_handler(handle_interrupt).map_err(|e| match e {
        ctrlc::Error::System(e) => e,
        e => io::Error::other(e),
    })
}

/// Makes the next interrupt set `stop`, which ends the measurement and keeps its result. A second
/// one ends the process.
///
/// # Errors
/// Returns an error if interrupts cannot be handled.
pub fn stop_on_interrupt(stop: &Arc<AtomicBool>) -> exit::Result<()> {
    install();
    if let Some(Err(why)) = HANDLER.get() {
        let message = format!("cannot watch for Ctrl-C: {why}; nothing was measured");
        return Err(Error::measure(message));
    }
    MEASUREMENT.replace(Some(Arc::clone(stop)));
    Ok(())
}

fn handle_interrupt() {
    cli::interrupt::record();
    if MEASUREMENT.stop() {
        long_wait::wake_all();
        end_real_time_later();
    } else {
        end_process();
    }
}

/// Makes all threads normal while the process runs on: a real-time thread that never waits can keep the
/// measurement from noticing the interrupt.
fn end_real_time_later() {
    let end = || {
        // A thread that waited for a program becomes a real-time one again.
        loop {
            #[allow(clippy::disallowed_methods, reason = "nothing reports a starved thread")]
            std::thread::sleep(REACTION_TIMEOUT);
            os::end_real_time();
        }
    };
    // Without the thread, a second interrupt ends the process.
    let _ = std::thread::Builder::new().spawn(end);
}

/// Ends the process with everything that it started, and without temporary files.
fn end_process() {
    child::kill_all();
    terminal::run_within(file_io::remove_temporaries, REMOVAL_TIMEOUT);
    abort();
}

/// Ends the process immediately with exit code 4.
#[allow(clippy::exit, reason = "a second interrupt must not wait for the measurement")]
pub fn abort() {
    terminal::restore();
    trial_commands::end();
    supervisor::end();
    std::process::exit(4);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_interrupt_only_stops() {
        let request = StopRequest(Mutex::new(None));
        assert!(!request.stop(), "nothing is measured");
        let stop = Arc::new(AtomicBool::new(false));
        request.replace(Some(Arc::clone(&stop)));
        assert_eq!([request.stop(), request.stop(), request.stop()], [true, false, false]);
        assert!(stop.load(Ordering::Relaxed));
        // The flag may be set before, for example because a reader has closed standard output.
        request.replace(Some(stop));
        assert!(request.stop());
    }
}
