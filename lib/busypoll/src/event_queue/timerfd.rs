//! A park timer for Linux and Android: a `timerfd` among the events, because the timeout of
//! `epoll_wait` is in whole milliseconds.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::wait_limit::WaitLimit;

const TIMER_TOKEN: Token = Token(usize::MAX - 1);

#[derive(Debug)]
pub(super) struct ParkTimer {
    descriptor: OwnedFd,
    /// The deadline that the timer is set to.
    armed_deadline: Cell<Option<Instant>>,
}

impl ParkTimer {
    pub(super) fn new(registry: &Registry) -> io::Result<Self> {
        let descriptor = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        registry.register(
            &mut SourceFd(&descriptor.as_raw_fd()),
            TIMER_TOKEN,
            Interest::READABLE,
        )?;
        Ok(Self { descriptor, armed_deadline: Cell::new(None) })
    }

    /// Returns an error if the timer cannot be armed: a sandbox may allow the creation and deny the
    /// arming.
    pub(super) fn check(&self) -> io::Result<()> {
        // Stopping it is the same system call.
        self.set(Duration::ZERO)
    }

    /// Sets the timer, or stops it without a limit. Either also clears an expiration that was
    /// not read. Makes no system call if nothing changes.
    pub(super) fn arm(&self, limit: Option<WaitLimit>) -> Option<Duration> {
        let deadline = limit.map(|limit| limit.deadline);
        if self.armed_deadline.replace(deadline) == deadline {
            return None;
        }
        let remaining =
            limit.map_or(Duration::ZERO, |limit| limit.remaining.max(Duration::from_nanos(1)));
        self.set(remaining).expect("the kernel refused to set the runtime's timer");
        None
    }

    /// Sets the timer, or stops it if `remaining` is zero.
    fn set(&self, remaining: Duration) -> io::Result<()> {
        let value = Timespec {
            tv_sec: i64::try_from(remaining.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: remaining.subsec_nanos().into(),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )?;
        Ok(())
    }

    pub(super) fn is_timer_token(token: Token) -> bool {
        token == TIMER_TOKEN
    }

    pub(super) fn mark_expired(&self) {
        self.armed_deadline.set(None);
    }
}
