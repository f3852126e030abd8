//! Sleeping in the kernel until an event, a wake, or a limit in nanoseconds.

use std::cell::{Ref, RefCell};
use std::io;
use std::time::{Duration, Instant};

use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
const WAKE: Token = Token(usize::MAX);
#[cfg(any(target_os = "linux", target_os = "android"))]
const TIMER: Token = Token(usize::MAX - 1);

/// The event queue. On Linux and Android with a timer descriptor in it, since `epoll_wait` knows whole milliseconds
/// only; elsewhere the queue's own limit serves (nanoseconds with kqueue, whole milliseconds, rounded up, on Windows).
#[derive(Debug)]
pub(crate) struct Driver {
    /// Borrowed mutably only for the call into the kernel.
    poll: RefCell<Poll>,
    events: RefCell<Events>,
    /// What the timer descriptor is set to.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    armed: std::cell::Cell<Option<Instant>>,
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
            poll.registry().register(&mut mio::unix::SourceFd(&timer.as_raw_fd()), TIMER, Interest::READABLE)?;
            timer
        };
        let driver = Self {
            poll: RefCell::new(poll),
            events: RefCell::new(Events::with_capacity(EVENTS)),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            armed: std::cell::Cell::new(None),
            #[cfg(any(target_os = "linux", target_os = "android"))]
            timer,
        };
        Ok((driver, waker))
    }

    pub(crate) fn register(&self, source: &mut impl Source, index: usize, interest: Interest) -> io::Result<()> {
        self.poll.borrow().registry().register(source, Token(index), interest)
    }

    pub(crate) fn deregister(&self, source: &mut impl Source) -> io::Result<()> {
        self.poll.borrow().registry().deregister(source)
    }

    /// Takes the events there are, without waiting.
    pub(crate) fn poll_now(&self) {
        self.take(Some(Duration::ZERO));
    }

    /// Waits for an event, at most until `limit`, which is so far away.
    pub(crate) fn wait(&self, limit: Option<(Instant, Duration)>) {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            self.arm(limit);
            self.take(None);
        }
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        self.take(limit.map(|(_, left)| left));
    }

    /// Sets the timer descriptor; with no limit, stops it. Setting also takes back an expiration nobody read. No system
    /// call where it is set so already.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn arm(&self, limit: Option<(Instant, Duration)>) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        let until = limit.map(|(until, _)| until);
        if self.armed.replace(until) == until {
            return;
        }
        let left = limit.map_or(Duration::ZERO, |(_, left)| left.max(Duration::from_nanos(1)));
        let value =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &Itimerspec { it_interval: zero, it_value: value })
            .expect("the kernel refused to set the runtime's timer");
    }

    fn take(&self, limit: Option<Duration>) {
        let result = self.poll.borrow_mut().poll(&mut self.events.borrow_mut(), limit);
        match result {
            Ok(()) => {}
            // A signal: the loop looks around and comes back. There are no events then.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.borrow_mut().clear(),
            Err(error) => panic!("the kernel refused to wait for events: {error}"),
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        if self.events.borrow().iter().any(|event| event.token() == TIMER) {
            self.armed.set(None);
        }
    }

    /// What was taken last, without the runtime's own: each event with the index its source was registered with.
    pub(crate) fn events(&self) -> Taken<'_> {
        Taken(self.events.borrow())
    }
}

/// The events that were taken last. While it lives, no others may be taken.
pub(crate) struct Taken<'a>(Ref<'a, Events>);

impl Taken<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.0.iter().map(|event| (event.token().0, event)).filter(|(index, _)| {
            #[cfg(any(target_os = "linux", target_os = "android"))]
            if *index == TIMER.0 {
                return false;
            }
            *index != WAKE.0
        })
    }
}
