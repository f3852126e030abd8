//! `timerfd` on Linux and Android.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::backend::Backend;

pub(crate) const KERNEL_PERIODIC: bool = true;

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
        Ok(Self { fd: create_timer()? })
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
    let value = timespec(kernel_time(first).max(Duration::from_nanos(1)));
    let spec = Itimerspec { it_interval: timespec(period), it_value: value };
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

/// Converts a time on the kernel's clock to its field types; saturates if they are narrow.
fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        // Below 10^9, so it fits the field on every target.
        tv_nsec: time.subsec_nanos() as _,
    }
}

/// Returns an upper bound of the kernel's clock at `instant`: a timer armed with it does not fire
/// early.
fn kernel_time(instant: Instant) -> Duration {
    static LINE: OnceLock<ClockLine> = OnceLock::new();
    LINE.get_or_init(ClockLine::measure).kernel_time(instant)
}

/// The line that maps `std::time::Instant` to the kernel's clock. Both have the same rate on this
/// platform, so one point is enough, which is measured once per process.
#[derive(Clone, Copy, Debug)]
struct ClockLine {
    origin: Instant,
    /// The kernel's clock at `origin`: an upper bound.
    kernel_at_origin: Duration,
}

impl ClockLine {
    /// Pairs that are read: enough that one of them is not interrupted.
    const PAIRS: usize = 16;

    #[allow(clippy::disallowed_methods, reason = "the clocks have to be read to be paired")]
    fn measure() -> Self {
        let origin = Instant::now();
        let reads = std::array::from_fn::<_, { Self::PAIRS }, _>(|_| {
            (Instant::now().saturating_duration_since(origin), kernel_now())
        });
        Self { origin, kernel_at_origin: kernel_at_origin(&reads) }
    }

    fn kernel_time(&self, instant: Instant) -> Duration {
        match instant.checked_duration_since(self.origin) {
            Some(after) => self.kernel_at_origin.saturating_add(after),
            None => {
                self.kernel_at_origin.saturating_sub(self.origin.saturating_duration_since(instant))
            }
        }
    }
}

/// Returns the least upper bound of the kernel's clock at the origin, from pairs of a time since
/// the origin and the kernel's clock read *after* it. Each pair is an upper bound; a pause between
/// its two reads only makes the bound loose.
fn kernel_at_origin(reads: &[(Duration, Duration)]) -> Duration {
    reads.iter().map(|(since, kernel)| kernel.saturating_sub(*since)).min().unwrap_or(Duration::MAX)
}

fn kernel_now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn torn_pair_does_not_shift_clock() {
        let us = Duration::from_micros;
        // The kernel's clock was 1,000 us at the origin; the first pair was torn apart by 3 ms.
        let reads = [(us(0), us(4_000)), (us(3_010), us(4_011)), (us(3_020), us(4_023))];
        assert_eq!(kernel_at_origin(&reads), us(1_001));
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test compares the line with the clocks")]
    fn line_is_never_below_clock() {
        let line = ClockLine::measure();
        for _ in 0..1_000 {
            let kernel = kernel_now();
            let later = Instant::now();
            // The kernel's clock at `later` was at least `kernel`.
            assert!(line.kernel_time(later) >= kernel);
        }
        let past = line.origin.checked_sub(Duration::from_millis(1));
        assert!(past.is_none_or(|past| line.kernel_time(past) < line.kernel_time(line.origin)));
    }
}
