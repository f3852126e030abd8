//! Sleeping in the kernel until an event, a wake, or a limit in nanoseconds.
//!
//! The limit is kept by a `Timer`, of which there are two kinds, each in a file of its own. It has `new`, which may register
//! with the event queue; `arm`, which sets it to a limit and gives the time that the wait itself must be limited to, if
//! any; `is`, which knows its token; and `expired`, which is told when that came.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::time::{Duration, Instant};

use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};

// Miri knows `epoll`, but not `timerfd`.
#[cfg_attr(all(any(target_os = "linux", target_os = "android"), not(miri)), path = "park/timerfd.rs")]
#[cfg_attr(not(all(any(target_os = "linux", target_os = "android"), not(miri))), path = "park/limit.rs")]
mod timer;
use timer::Timer;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
const WAKE: Token = Token(usize::MAX);

/// The event queue.
#[derive(Debug)]
pub(crate) struct Driver {
    /// Borrowed mutably only for the call into the kernel.
    poll: RefCell<Poll>,
    events: RefCell<Events>,
    timer: Timer,
    /// Calls into the kernel for events.
    looks: Cell<u64>,
}

impl Driver {
    pub(crate) fn new() -> io::Result<(Self, mio::Waker)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let timer = Timer::new(poll.registry())?;
        let events = RefCell::new(Events::with_capacity(EVENTS));
        Ok((Self { poll: RefCell::new(poll), events, timer, looks: Cell::new(0) }, waker))
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
        let limit = self.timer.arm(limit);
        self.take(limit);
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    fn take(&self, limit: Option<Duration>) {
        self.looks.set(self.looks.get() + 1);
        let mut events = self.events.borrow_mut();
        let result = self.poll.borrow_mut().poll(&mut events, limit);
        match result {
            Ok(()) => {}
            // A signal: the loop looks around and comes back. There are no events then.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            Err(error) => panic!("the kernel refused to wait for events: {error}"),
        }
        if events.iter().any(|event| Timer::is(event.token())) {
            self.timer.expired();
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
        self.0
            .iter()
            .filter(|event| event.token() != WAKE && !Timer::is(event.token()))
            .map(|event| (event.token().0, event))
    }
}
