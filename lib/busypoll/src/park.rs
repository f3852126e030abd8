//! Sleeping in the kernel until an event, a wake, or a limit in nanoseconds.

use std::io;
use std::time::Duration;

use mio::{Events, Poll, Token};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
const WAKE: Token = Token(usize::MAX);
#[cfg(any(target_os = "linux", target_os = "android"))]
const TIMER: Token = Token(usize::MAX - 1);

/// The event queue. On Linux and Android with a timer descriptor in it, since `epoll_wait` knows whole milliseconds
/// only; elsewhere the queue's own limit serves (nanoseconds with kqueue, whole milliseconds, rounded up, on Windows).
#[derive(Debug)]
pub(crate) struct Driver {
    poll: Poll,
    events: Events,
    registered: usize,
    #[cfg(any(target_os = "linux", target_os = "android"))]
    timer: std::os::fd::OwnedFd,
}

impl Driver {
    pub(crate) fn new() -> io::Result<(Self, mio::Waker)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let timer = {
            use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
            use std::os::fd::AsRawFd;
            let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            poll.registry().register(&mut mio::unix::SourceFd(&timer.as_raw_fd()), TIMER, mio::Interest::READABLE)?;
            timer
        };
        let driver = Self {
            poll,
            events: Events::with_capacity(EVENTS),
            registered: 0,
            #[cfg(any(target_os = "linux", target_os = "android"))]
            timer,
        };
        Ok((driver, waker))
    }

    /// Takes the events there are, without waiting. No system call while nothing is registered.
    pub(crate) fn poll_now(&mut self) {
        if self.registered > 0 {
            self.take_events(Some(Duration::ZERO));
        }
    }

    /// Waits for an event, at most for `limit`.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        let limit = {
            self.arm(limit);
            None
        };
        self.take_events(limit);
    }

    /// Sets the timer descriptor; with none, stops it. Setting also takes back an expiration nobody read.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn arm(&self, limit: Option<Duration>) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let limit = limit.map_or(Duration::ZERO, |limit| limit.max(Duration::from_nanos(1)));
        let value = Timespec {
            tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: limit.subsec_nanos().into(),
        };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })
            .expect("the kernel refused to set the runtime's timer");
    }

    fn take_events(&mut self, limit: Option<Duration>) {
        match self.poll.poll(&mut self.events, limit) {
            Ok(()) => {}
            // A signal: the loop looks around and comes back.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("the kernel refused to wait for events: {error}"),
        }
    }
}
