//! Sleeps of a thread on Linux and Android: an absolute `clock_nanosleep`, or an absolute wait on a
//! futex if another thread can end it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::num::NonZeroU32;
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use rustix::io::Errno;
use rustix::thread::{clock_nanosleep_absolute, futex, set_current_timer_slack};
use rustix::time::ClockId;

use super::linux_clock::{kernel_time, timespec};
use crate::backend::Backend;

#[derive(Debug)]
pub(crate) struct Sleeper(());

#[allow(clippy::unused_self, reason = "the sleepers of other systems have handles")]
impl Sleeper {
    #[allow(clippy::unnecessary_wraps, reason = "as above")]
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) fn backend(&self) -> Backend {
        Backend::ThreadSleep
    }

    pub(crate) fn sleep_until(
        &self,
        word: Option<&AtomicU32>,
        deadline: Instant,
    ) -> io::Result<()> {
        let time = timespec(kernel_time(deadline));
        let _lowered_slack = LoweredSlack::new();
        let result = match word {
            None => clock_nanosleep_absolute(ClockId::Monotonic, &time),
            // Without a flag for the clock, the timeout is on the monotonic one.
            Some(word) => {
                let flags = futex::Flags::PRIVATE;
                futex::wait_bitset(word, flags, 0, Some(&time), NonZeroU32::MAX)
            }
        };
        match result {
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn wake(&self, word: &AtomicU32) {
        // The only error is that of an invalid address.
        let _ = futex::wake(word, futex::Flags::PRIVATE, 1);
    }
}

/// The minimum of timer slack in nanoseconds. Zero means that the class of the thread has none.
const MIN_SLACK_NS: u64 = 1;
/// The sleeps after which the slack of a thread is read again if it was at its minimum.
const SLEEPS_PER_CHECK: u8 = 200;

/// Restores the timer slack of the thread after a sleep.
///
/// A thread has a slack of 50 us unless it was set, by which the kernel may end a sleep later. The
/// slack is that of the thread and not of a sleep, so the other sleeps of the thread keep it.
struct LoweredSlack {
    previous_ns: Option<NonZeroU64>,
}

thread_local! {
    /// The number of sleeps of this thread until its slack is read again.
    static UNCHECKED_SLEEPS: Cell<u8> = const { Cell::new(0) };
}

impl LoweredSlack {
    fn new() -> Self {
        if let Some(remaining) = UNCHECKED_SLEEPS.get().checked_sub(1) {
            UNCHECKED_SLEEPS.set(remaining);
            return Self { previous_ns: None };
        }
        // A sandbox may deny these calls. Then the sleep has the slack of its thread.
        let slack_ns = timer_slack_ns().unwrap_or(0);
        if slack_ns <= MIN_SLACK_NS
            || set_current_timer_slack(NonZeroU64::new(MIN_SLACK_NS)).is_err()
        {
            UNCHECKED_SLEEPS.set(SLEEPS_PER_CHECK);
            return Self { previous_ns: None };
        }
        Self { previous_ns: NonZeroU64::new(slack_ns) }
    }
}

impl Drop for LoweredSlack {
    fn drop(&mut self) {
        if self.previous_ns.is_some() {
            let _ = set_current_timer_slack(self.previous_ns);
        }
    }
}

/// Returns the timer slack of the calling thread.
fn timer_slack_ns() -> Option<u64> {
    // `prctl` of libc and of rustix returns an `int`, which a slack of seconds exceeds.
    // SAFETY: the call takes no pointer, and ignores the arguments after the first.
    let slack_ns = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack_ns).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeps_keep_slack_of_thread() {
        let slack_ns = |ns| {
            set_current_timer_slack(NonZeroU64::new(ns)).unwrap();
            let during = LoweredSlack::new();
            let lowered_ns = timer_slack_ns().unwrap();
            drop(during);
            (lowered_ns, timer_slack_ns().unwrap())
        };
        for ns in [50_000, 7_000] {
            assert_eq!(slack_ns(ns), (MIN_SLACK_NS, ns));
        }
        // The lower 32 bits of these are a negative number, another slack, and the minimum.
        #[cfg(target_pointer_width = "64")]
        for ns in [3_000_000_000, 5_000_000_000, (1 << 32) + MIN_SLACK_NS] {
            assert_eq!(slack_ns(ns), (MIN_SLACK_NS, ns));
        }
        assert_eq!(slack_ns(MIN_SLACK_NS), (MIN_SLACK_NS, MIN_SLACK_NS));
        // A higher slack is found after some sleeps.
        let lowered =
            (0..=u32::from(SLEEPS_PER_CHECK)).filter(|_| slack_ns(7_000).0 == MIN_SLACK_NS);
        assert_eq!(lowered.count(), 1);
    }
}
