//! `timerfd` on Linux and Android.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::linux_clock::{kernel_time, timespec};
use crate::backend::Backend;

/// Arming a timer programs the CPU's timer only if no other timer of the CPU is due before, and
/// that is most of the cost of a tick in a virtual machine. An expiration programs it for the next
/// timer in any case.
pub(crate) const TIMERS_PER_QUEUE: usize = 2;
pub(crate) const WAKES_FROM_RUNTIME: bool = true;

pub(crate) fn native() -> Option<Backend> {
    Some(Backend::Timerfd)
}

/// A timer that fires once.
///
/// The runtime's poller reports its expiration, which is never read: arming resets the count, and
/// the caller compares its deadline with the clock.
#[derive(Debug)]
pub(crate) struct OneShot {
    fd: AsyncFd<OwnedFd>,
}

impl OneShot {
    pub(crate) fn new() -> io::Result<Self> {
        let fd = create_timer()?;
        // A sandbox may allow the creation and deny the arming. Disarming is the same system call.
        settime(fd.get_ref(), Duration::ZERO, Duration::ZERO)?;
        Ok(Self { fd })
    }

    pub(crate) fn arm(&mut self, deadline: Instant) -> io::Result<()> {
        set_time(self.fd.get_ref(), deadline, Duration::ZERO)
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.fd.poll_read_ready(cx))?;
        // An expiration after the poll is not lost: this clears no readiness that is newer than the
        // guard.
        guard.clear_ready();
        Poll::Ready(Ok(()))
    }
}

pub(crate) fn can_repeat(_period: Duration) -> bool {
    true
}

/// A timer that the kernel repeats.
#[derive(Debug)]
pub(crate) struct Periodic {
    fd: AsyncFd<OwnedFd>,
}

impl Periodic {
    pub(crate) fn new(first: Instant, period: Duration) -> io::Result<Self> {
        let fd = create_timer()?;
        set_time(fd.get_ref(), first, period)?;
        Ok(Self { fd })
    }

    /// Returns true: the kernel repeats on the schedule from the start.
    #[allow(clippy::unused_self, reason = "on other systems it depends on the timer's state")]
    pub(crate) fn can_take_expiration_late(&self) -> bool {
        true
    }

    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            // The count is not used, but only a read makes the kernel continue its repetition.
            let count = read_count(self.fd.get_ref());
            // A whole count was read, or there was none. Either way the next expiration is a new
            // edge for the poller.
            guard.clear_ready();
            match count {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result.map(drop)),
            }
        }
    }
}

/// Creates a disarmed timer and registers it with the current runtime.
fn create_timer() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
    // An `OwnedFd` names one open descriptor for as long as it lives, which is all that the newer,
    // unsafe constructor requires. This one exists in every tokio that we support.
    #[allow(deprecated, reason = "the replacement came with tokio 1.54")]
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Arms a timer for `first`, then for every `period` unless that is zero.
fn set_time(fd: &OwnedFd, first: Instant, period: Duration) -> io::Result<()> {
    // A value of zero would disarm the timer. One nanosecond has passed as well, so it fires at
    // once.
    settime(fd, kernel_time(first).max(Duration::from_nanos(1)), period)
}

fn settime(fd: &OwnedFd, first: Duration, period: Duration) -> io::Result<()> {
    let spec = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
    timerfd_settime(fd, TimerfdTimerFlags::ABSTIME, &spec)?;
    Ok(())
}

fn read_count(fd: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; size_of::<u64>()];
    // Linux does not interrupt a call that does not block, but a sandbox that emulates it may.
    let size = rustix::io::retry_on_intr(|| rustix::io::read(fd, &mut count))?;
    if size == count.len() {
        Ok(u64::from_ne_bytes(count))
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
