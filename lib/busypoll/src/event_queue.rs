//! Sleeping in the kernel until an event, a wake, or a limit in nanoseconds.
//!
//! A `ParkTimer` keeps the limit. There are two, each in a file of its own, with the same methods:
//! `new`, which may register with the event queue; `arm`, which sets the limit and returns the
//! timeout for the wait itself, if it needs one; `is`, which recognizes its token; and `expired`,
//! called when that token came.
//!
//! Where a `Ring` is asked for and can be had, it waits in the timer's place: `new`, on the
//! descriptor of the event queue, and `wait`, until there may be events or the limit is reached,
//! which returns whether there may be events.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::time::{Duration, Instant};

use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};

// Miri knows `epoll`, but not `timerfd`.
#[cfg_attr(
    all(any(target_os = "linux", target_os = "android"), not(miri)),
    path = "event_queue/timerfd.rs"
)]
#[cfg_attr(
    not(all(any(target_os = "linux", target_os = "android"), not(miri))),
    path = "event_queue/poll_timeout.rs"
)]
mod park_timer;
use park_timer::ParkTimer;

#[cfg_attr(all(target_os = "linux", not(miri)), path = "event_queue/io_uring.rs")]
#[cfg_attr(not(all(target_os = "linux", not(miri))), path = "event_queue/no_io_uring.rs")]
#[allow(unsafe_code)]
mod ring;
use ring::Ring;

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
const WAKE: Token = Token(usize::MAX);

#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Borrowed mutably only for the call into the kernel.
    poll: RefCell<Poll>,
    events: RefCell<Events>,
    timer: ParkTimer,
    ring: Option<Ring>,
    /// The kernel may have more events than were taken last: who waits for the next one could wait
    /// in vain.
    more: Cell<bool>,
    /// How often the kernel was asked for events.
    polls: Cell<u64>,
}

impl EventQueue {
    /// With a ring, where that is asked for and can be had.
    pub(crate) fn new(on_ring: bool) -> io::Result<(Self, mio::Waker)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE)?;
        let timer = ParkTimer::new(poll.registry())?;
        let events = RefCell::new(Events::with_capacity(EVENTS));
        let ring = if on_ring { Ring::new(&poll).ok() } else { None };
        let (polls, more) = (Cell::new(0), Cell::new(false));
        Ok((Self { poll: RefCell::new(poll), events, timer, ring, more, polls }, waker))
    }

    pub(crate) fn has_ring(&self) -> bool {
        self.ring.is_some()
    }

    pub(crate) fn register(
        &self,
        source: &mut impl Source,
        index: usize,
        interest: Interest,
    ) -> io::Result<()> {
        self.poll.borrow().registry().register(source, Token(index), interest)
    }

    pub(crate) fn deregister(&self, source: &mut impl Source) -> io::Result<()> {
        self.poll.borrow().registry().deregister(source)
    }

    /// Takes the events there are, without waiting.
    pub(crate) fn poll_now(&self) {
        self.take(Some(Duration::ZERO));
    }

    /// Waits for an event, at most until `limit`, given as an instant and as the time left.
    pub(crate) fn wait(&self, limit: Option<(Instant, Duration)>) {
        if let Some(ring) = &self.ring {
            if self.more.get() || ring.wait(limit) {
                self.poll_now();
            } else {
                self.events.borrow_mut().clear();
            }
            return;
        }
        let timeout = self.timer.arm(limit);
        self.take(timeout);
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.get()
    }

    fn take(&self, timeout: Option<Duration>) {
        self.polls.set(self.polls.get() + 1);
        let mut events = self.events.borrow_mut();
        let result = self.poll.borrow_mut().poll(&mut events, timeout);
        match result {
            Ok(()) => {}
            // By a signal: the loop makes another turn. There are no events then.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            Err(error) => panic!("the kernel refused to wait for events: {error}"),
        }
        self.more.set(events.iter().count() >= EVENTS);
        if events.iter().any(|event| ParkTimer::is(event.token())) {
            self.timer.expired();
        }
    }

    /// The events taken last, without the runtime's own. While they live, no others may be taken.
    pub(crate) fn events(&self) -> SourceEvents<'_> {
        SourceEvents(self.events.borrow())
    }
}

pub(crate) struct SourceEvents<'a>(Ref<'a, Events>);

impl SourceEvents<'_> {
    /// Each with the index its source was registered with.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.0
            .iter()
            .filter(|event| event.token() != WAKE && !ParkTimer::is(event.token()))
            .map(|event| (event.token().0, event))
    }
}
