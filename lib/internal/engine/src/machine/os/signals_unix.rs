//! Signals that would stop or end this process by default.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};

/// The signals that end a command. They would end this process by default.
pub const END_SIGNALS: [libc::c_int; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGXCPU,
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGUSR2,
];

static STOP_REQUESTED: AtomicBool = AtomicBool::new(false);

extern "C" fn request_stop(_signal: libc::c_int) {
    STOP_REQUESTED.store(true, Ordering::Relaxed);
}

extern "C" fn do_nothing(_signal: libc::c_int) {}

/// Makes a write beyond the size limit of files an error, as a write to a full disk is. By default,
/// it ends the process. Programs that this process starts are not affected.
pub fn survive_file_size_limit() {
    handle(libc::SIGXFSZ, Some(do_nothing));
}

/// Makes this process run on after a signal that asks it to end. Programs that this process starts
/// are not affected.
pub fn survive_termination() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        handle(signal, Some(do_nothing));
    }
}

/// Turns a stop by the terminal (`SIGTSTP`) into a request, so that the caller of [`stop`] can restore
/// the terminal first.
pub fn delay_stop() {
    handle(libc::SIGTSTP, Some(request_stop));
}

/// Makes a stop by the terminal take effect at once again.
pub fn stop_at_once() {
    handle(libc::SIGTSTP, None);
}

/// Returns whether a stop was requested since the last call.
pub fn take_stop_request() -> bool {
    STOP_REQUESTED.swap(false, Ordering::Relaxed)
}

/// Stops this process as the terminal does, which is without effect if no shell could continue it. The
/// stop must take effect at once. Returns when the process is continued.
pub fn stop_as_terminal() {
    // SAFETY: the default action of the signal runs no code of this process.
    unsafe { libc::raise(libc::SIGTSTP) };
}

/// Stops this process. Returns when it is continued.
pub fn stop() {
    let _ = kill_process(getpid(), Signal::STOP);
}

/// Whether the process that started this one has a signal ignored, as `nohup` has `SIGHUP`.
pub fn is_ignored(signal: libc::c_int) -> bool {
    current_action(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

/// Returns the action of a signal.
fn current_action(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the pointer is to a whole `sigaction` of ours, which the call fills and does not keep;
    // no new action is given.
    let is_known = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) } == 0;
    // SAFETY: the call succeeded, and all-zero is a valid `sigaction`: no flags and an empty mask.
    is_known.then(|| unsafe { action.assume_init() })
}

/// Installs a handler, or the default action with `None`, unless the process that started this one has
/// the signal ignored.
fn handle(signal: libc::c_int, handler: Option<extern "C" fn(libc::c_int)>) {
    let Some(mut action) = current_action(signal) else { return };
    if action.sa_sigaction == libc::SIG_IGN {
        return;
    }
    action.sa_sigaction = handler.map_or(libc::SIG_DFL, |handler| handler as libc::sighandler_t);
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: a handler is a function of the right signature that lives as long as the process, and
    // does only what is safe in one; the old action is not asked for.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_detected() {
        for action in [libc::SIG_DFL, libc::SIG_IGN] {
            // SAFETY: neither action has a handler.
            unsafe { libc::signal(libc::SIGHUP, action) };
            assert_eq!(is_ignored(libc::SIGHUP), action == libc::SIG_IGN);
        }
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    }

    #[test]
    fn file_size_signal_is_survived() {
        survive_file_size_limit();
        // SAFETY: as above.
        assert_eq!(unsafe { libc::raise(libc::SIGXFSZ) }, 0);
    }
}
