//! Linux and Android: a `timerfd` among the events, since the timeout of `epoll_wait` is in whole
//! milliseconds.

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

const TOKEN: Token = Token(usize::MAX - 1);

#[derive(Debug)]
pub(super) struct ParkTimer {
    descriptor: OwnedFd,
    /// The instant it is set to.
    armed: Cell<Option<Instant>>,
}

impl ParkTimer {
    pub(super) fn new(registry: &Registry) -> io::Result<Self> {
        let descriptor = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        registry.register(&mut SourceFd(&descriptor.as_raw_fd()), TOKEN, Interest::READABLE)?;
        Ok(Self { descriptor, armed: Cell::new(None) })
    }

    /// Sets it; without a limit, stops it. Either also clears an expiration that nobody read. No
    /// system call if nothing changes.
    pub(super) fn arm(&self, limit: Option<(Instant, Duration)>) -> Option<Duration> {
        let until = limit.map(|(until, _)| until);
        if self.armed.replace(until) == until {
            return None;
        }
        let left = limit.map_or(Duration::ZERO, |(_, left)| left.max(Duration::from_nanos(1)));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(
            &self.descriptor,
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval: zero, it_value: value },
        )
        .expect("the kernel refused to set the runtime's timer");
        None
    }

    pub(super) fn is(token: Token) -> bool {
        token == TOKEN
    }

    pub(super) fn expired(&self) {
        self.armed.set(None);
    }
}
