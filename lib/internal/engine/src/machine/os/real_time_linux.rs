//! Real-time threads that must not be the only ones to react.
//!
//! A real-time thread that never waits takes its CPU from all threads of the same or a lower
//! priority. A thread that waits for it, or for a signal, is therefore a normal one on any CPU.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

use rustix::process::Pid;

use crate::machine::os::signals::END_SIGNALS;
use crate::machine::os::types::Sched;
use crate::machine::os::{Scheduling, affinity, bind, set_sched};

/// CPUs of this process before a thread of it was bound.
static CPUS: OnceLock<Option<Vec<usize>>> = OnceLock::new();

/// Returns the CPUs of this process before a thread of it was bound. Call it before the first is.
pub(super) fn unbound_cpus() -> Option<&'static [usize]> {
    CPUS.get_or_init(affinity).as_deref()
}

/// A real-time thread that runs as a normal one on any CPU while it waits for a program.
#[derive(Debug)]
pub struct SteppedAside {
    scheduling: Scheduling,
    cpus: Vec<usize>,
}

impl SteppedAside {
    /// Makes the calling thread a normal one until the value is dropped. `None` if it is one, or
    /// cannot be.
    pub fn begin() -> Option<Self> {
        if !is_real_time(None) {
            return None;
        }
        let before = Self { scheduling: Scheduling::now().ok()?, cpus: affinity()? };
        set_sched(Sched::Other).ok()?;
        // It is normal, even if it cannot leave its CPU.
        let _ = unbound_cpus().map(bind);
        set_end_signals(libc::SIG_UNBLOCK);
        Some(before)
    }

    /// Starts the command with the previous scheduling of this thread on its previous CPUs.
    pub fn give_to(&self, command: &mut Command) {
        let (scheduling, cpus) = (self.scheduling, self.cpus.clone());
        let adopt = move || bind(&cpus).and_then(|()| scheduling.restore());
        // SAFETY: between fork and exec, the function makes two system calls with values of its own.
        // It neither allocates nor locks, also when a call fails: its error is a number.
        unsafe { command.pre_exec(adopt) };
    }
}

impl Drop for SteppedAside {
    /// The verification of the round finds a setting that could not be restored.
    fn drop(&mut self) {
        set_end_signals(libc::SIG_BLOCK);
        let _ = bind(&self.cpus);
        let _ = self.scheduling.restore();
    }
}

/// Leaves the signals that end a command to other threads, if the calling thread is a real-time one.
/// The threads and programs that it starts do the same.
pub fn leave_signals_to_others() {
    if is_real_time(None) {
        set_end_signals(libc::SIG_BLOCK);
    }
}

/// Makes all threads of this process normal.
pub fn end_real_time() {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for thread in ids.filter_map(Pid::from_raw).filter(|thread| is_real_time(Some(*thread))) {
        let parameter = MaybeUninit::<libc::sched_param>::zeroed();
        // SAFETY: all-zero is a valid `sched_param`, which is ours and only read. The call fails
        // for a thread that has ended.
        unsafe {
            libc::sched_setscheduler(thread.as_raw_pid(), libc::SCHED_OTHER, parameter.as_ptr())
        };
    }
}

/// Returns whether a thread, or the calling one, has a real-time class.
fn is_real_time(thread: Option<Pid>) -> bool {
    // SAFETY: the call takes no pointer; thread 0 is the calling one.
    let policy = unsafe { libc::sched_getscheduler(Pid::as_raw(thread)) };
    // An error is -1, which has all bits set.
    let class = policy & !libc::SCHED_RESET_ON_FORK;
    policy >= 0 && [libc::SCHED_FIFO, libc::SCHED_RR].contains(&class)
}

/// Blocks or unblocks the signals that end a command, in the calling thread.
fn set_end_signals(how: libc::c_int) {
    let mut signals = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the first call initializes the set, which is ours; the others add valid signals to it,
    // and read it. The previous mask is not asked for.
    unsafe {
        libc::sigemptyset(signals.as_mut_ptr());
        for signal in END_SIGNALS {
            libc::sigaddset(signals.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, signals.as_ptr(), std::ptr::null_mut());
    }
}
