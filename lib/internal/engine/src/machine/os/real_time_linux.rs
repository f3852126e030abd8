//! Real-time threads that must not be the only ones to react.
//!
//! A real-time thread that never waits takes its CPU from all threads of the same or a lower
//! priority. A thread that waits for it, or for a signal, is therefore a normal one on any CPU.

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Pid;

use crate::machine::os::imp::{policy, set_policy};
use crate::machine::os::signals::END_SIGNALS;
use crate::machine::os::{Scheduling, affinity, bind, bind_thread};

/// CPUs of this process before a thread of it was bound.
static CPUS: OnceLock<Option<Vec<usize>>> = OnceLock::new();
/// Whether a thread may take its real-time class again.
static CAN_RESTORE: OnceLock<bool> = OnceLock::new();
/// Whether threads have left the signals that end a command to others.
static HAS_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Returns the CPUs of this process before a thread of it was bound. Call it before the first is.
pub(super) fn unbound_cpus() -> Option<&'static [usize]> {
    CPUS.get_or_init(affinity).as_deref()
}

/// A real-time thread that runs as a normal one on any CPU while it waits for a program.
#[derive(Debug)]
pub struct SteppedAside {
    scheduling: Scheduling,
    is_inherited: bool,
    cpus: Vec<usize>,
    signals: SignalMask,
}

impl SteppedAside {
    /// Makes the calling thread a normal one until the value is dropped. `None` if it is one, or
    /// could not become a real-time one again.
    pub fn begin() -> Option<Self> {
        let policy = policy(None).filter(|policy| is_real_time(*policy));
        let Some(policy) = policy else {
            // It has become normal, and need not leave the signals to others.
            if HAS_BLOCKED.load(Ordering::Relaxed) {
                SignalMask::change(libc::SIG_UNBLOCK);
            }
            return None;
        };
        let (scheduling, cpus) = (Scheduling::now().ok()?, affinity()?);
        if !*CAN_RESTORE.get_or_init(|| can_restore(policy, scheduling)) {
            return None;
        }
        lower(policy)?;
        let is_inherited = policy & libc::SCHED_RESET_ON_FORK == 0;
        Some(Self {
            scheduling,
            is_inherited,
            cpus,
            signals: SignalMask::change(libc::SIG_UNBLOCK),
        })
    }

    /// Starts the command with the scheduling that it would inherit from this thread otherwise.
    pub fn give_to(&self, command: &mut Command) {
        let (scheduling, cpus) = (self.scheduling, self.cpus.clone());
        let is_inherited = self.is_inherited;
        let adopt = move || {
            bind(&cpus)?;
            if is_inherited { scheduling.restore() } else { Ok(()) }
        };
        // SAFETY: between fork and exec, the function makes two system calls with values of its own,
        // and reads `CPUS`, which `begin` has initialized. It neither allocates nor waits for a lock,
        // also when a call fails: its error is a number.
        unsafe { command.pre_exec(adopt) };
    }
}

impl Drop for SteppedAside {
    /// The verification of the round finds a setting that could not be restored.
    fn drop(&mut self) {
        self.signals.restore();
        let _ = bind(&self.cpus);
        let _ = self.scheduling.restore();
    }
}

/// Makes the calling thread a normal one on any CPU, which handles the signals that end a command. It
/// does not become a real-time one again.
pub fn become_normal() {
    if let Some(policy) = policy(None).filter(|policy| is_real_time(*policy)) {
        lower(policy);
    }
    SignalMask::change(libc::SIG_UNBLOCK);
}

/// Makes the calling thread a normal one on any CPU; `None` if it is not permitted.
fn lower(policy: libc::c_int) -> Option<()> {
    set_policy(None, normal(policy), 0).ok()?;
    // It is normal, even if it cannot leave its CPU.
    let _ = unbound_cpus().map(bind);
    Some(())
}

/// Returns whether a normal thread may take this real-time class, which this process may have only
/// inherited. Another thread tries it.
fn can_restore(policy: libc::c_int, scheduling: Scheduling) -> bool {
    let restore = move || lower(policy).is_some() && scheduling.restore().is_ok();
    let thread = std::thread::Builder::new().spawn(restore);
    thread.is_ok_and(|thread| thread.join().unwrap_or(false))
}

/// Leaves the signals that end a command to other threads, if the calling thread is a real-time one.
/// The threads that it starts do the same.
pub fn leave_signals_to_others() {
    if policy(None).is_some_and(is_real_time) {
        HAS_BLOCKED.store(true, Ordering::Relaxed);
        SignalMask::change(libc::SIG_BLOCK);
    }
}

/// Makes all threads of this process normal, and lets those that were real-time ones leave their CPU.
pub fn end_real_time() {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let ids = threads.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for thread in ids.filter_map(Pid::from_raw) {
        let real_time = policy(Some(thread)).filter(|policy| is_real_time(*policy));
        // The calls fail for a thread that has ended.
        if let Some(policy) = real_time
            && set_policy(Some(thread), normal(policy), 0).is_ok()
        {
            let _ = unbound_cpus().map(|cpus| bind_thread(Some(thread), cpus));
        }
    }
}

/// Returns whether a policy is a real-time class.
fn is_real_time(policy: libc::c_int) -> bool {
    [libc::SCHED_FIFO, libc::SCHED_RR].contains(&(policy & !libc::SCHED_RESET_ON_FORK))
}

/// Returns the normal policy. Without privileges, a thread cannot lose the flag.
fn normal(policy: libc::c_int) -> libc::c_int {
    libc::SCHED_OTHER | policy & libc::SCHED_RESET_ON_FORK
}

/// The signals that a thread blocks.
#[derive(Clone, Copy)]
struct SignalMask(libc::sigset_t);

impl std::fmt::Debug for SignalMask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SignalMask").finish_non_exhaustive()
    }
}

impl SignalMask {
    /// Blocks or unblocks the signals that end a command, in the calling thread. Returns the mask
    /// before.
    fn change(how: libc::c_int) -> Self {
        let mut signals = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the first call initializes the set, which is ours; the others add valid signals to
        // it, read it, and write the previous mask into a set of ours. All-zero is a valid set.
        unsafe {
            libc::sigemptyset(signals.as_mut_ptr());
            for signal in END_SIGNALS {
                libc::sigaddset(signals.as_mut_ptr(), signal);
            }
            libc::pthread_sigmask(how, signals.as_ptr(), before.as_mut_ptr());
            Self(before.assume_init())
        }
    }

    /// Sets the mask of the calling thread.
    fn restore(&self) {
        // SAFETY: the mask is a valid set and only read; the previous one is not asked for.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}
