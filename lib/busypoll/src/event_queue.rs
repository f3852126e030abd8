//! The event queue of a runtime: sleeps in the kernel until an event, a wake, or a limit in
//! nanoseconds.
//!
//! A `ParkTimer` enforces the limit. There are two implementations, each in its own file, with the
//! same methods: `new`, which may register with the event queue; `check`, which returns an error if
//! the timer cannot be armed; `arm`, which sets the limit and returns the timeout for the wait
//! itself, if it needs one; `is_timer_token`; and `mark_expired`, called when an event with that
//! token arrives.
//!
//! If a `Ring` is requested and available, it waits instead of the timer. It has two methods:
//! `new`, which watches an event queue, and `wait`, which returns whether it may have events.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::time::Duration;

use mio::event::{Event, Source};
use mio::{Events, Interest, Poll, Token};

use crate::wait_limit::WaitLimit;

// Miri supports `epoll` but not `timerfd`.
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
#[cfg_attr(not(all(target_os = "linux", not(miri))), path = "event_queue/io_uring_stub.rs")]
#[allow(unsafe_code)]
mod ring;
use ring::Ring;

/// Maximum number of events taken from the kernel at once.
const MAX_EVENTS: usize = 256;
const WAKE_TOKEN: Token = Token(usize::MAX);

#[derive(Debug)]
pub(crate) struct EventQueue {
    /// Borrowed mutably only for the call into the kernel.
    poll: RefCell<Poll>,
    events: RefCell<Events>,
    timer: ParkTimer,
    ring: Option<Ring>,
    /// Whether the kernel may have more events than were taken last. Waiting for the next event
    /// could then block forever.
    may_have_more: Cell<bool>,
    /// Number of polls for events so far.
    poll_count: Cell<u64>,
    /// The process that made the queue. A forked child shares it with its parent.
    process: u32,
}

impl EventQueue {
    /// Creates an event queue, with a ring if `use_ring` is set and one is available. Returns it
    /// with the waker that unparks the runtime. Only a queue that `can_wait` is waited for.
    pub(crate) fn new(can_wait: bool, use_ring: bool) -> io::Result<(Self, mio::Waker)> {
        let poll = Poll::new()?;
        let waker = mio::Waker::new(poll.registry(), WAKE_TOKEN)?;
        let timer = ParkTimer::new(poll.registry())?;
        let events = RefCell::new(Events::with_capacity(MAX_EVENTS));
        let ring = if use_ring { Ring::new(&poll).ok() } else { None };
        if can_wait && ring.is_none() {
            timer.check()?;
        }
        let queue = Self {
            poll: RefCell::new(poll),
            events,
            timer,
            ring,
            may_have_more: Cell::new(false),
            poll_count: Cell::new(0),
            process: std::process::id(),
        };
        Ok((queue, waker))
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

    /// Deregisters a source, except in a forked child, whose call would also deregister the
    /// parent's.
    pub(crate) fn deregister(&self, source: &mut impl Source) -> io::Result<()> {
        if self.process != std::process::id() {
            return Ok(());
        }
        self.poll.borrow().registry().deregister(source)
    }

    /// Takes the pending events without waiting.
    pub(crate) fn poll_now(&self) {
        self.poll_kernel(Some(Duration::ZERO));
    }

    /// Waits for an event, until `limit` at most.
    pub(crate) fn wait(&self, limit: Option<WaitLimit>) {
        if let Some(ring) = &self.ring {
            if self.may_have_more.get() || ring.wait(&self.poll.borrow(), limit) {
                self.poll_now();
            } else {
                self.events.borrow_mut().clear();
            }
            return;
        }
        let timeout = self.timer.arm(limit);
        self.poll_kernel(timeout);
    }

    pub(crate) fn poll_count(&self) -> u64 {
        self.poll_count.get()
    }

    fn poll_kernel(&self, timeout: Option<Duration>) {
        self.poll_count.set(self.poll_count.get() + 1);
        let mut events = self.events.borrow_mut();
        let result = self.poll.borrow_mut().poll(&mut events, timeout);
        match result {
            Ok(()) => {}
            // A signal interrupted the wait. There are no events, and the loop makes another turn.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
            Err(error) => panic!("the kernel refused to wait for events: {error}"),
        }
        self.may_have_more.set(events.iter().count() >= MAX_EVENTS);
        if events.iter().any(|event| ParkTimer::is_timer_token(event.token())) {
            self.timer.mark_expired();
        }
    }

    /// Returns the events taken last, except for those of the runtime itself. No other events may
    /// be taken while the result lives.
    pub(crate) fn events(&self) -> SourceEvents<'_> {
        SourceEvents(self.events.borrow())
    }
}

pub(crate) struct SourceEvents<'a>(Ref<'a, Events>);

impl SourceEvents<'_> {
    /// Iterates over the events, each with the index that its source was registered with.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Event)> {
        self.0
            .iter()
            .filter(|event| {
                event.token() != WAKE_TOKEN && !ParkTimer::is_timer_token(event.token())
            })
            .map(|event| (event.token().0, event))
    }
}

#[cfg(all(test, target_os = "linux", not(any(loom, miri))))]
mod tests {
    use std::os::fd::AsRawFd;

    use mio::unix::SourceFd;

    use super::*;

    #[test]
    fn forked_child_deregisters_nothing() {
        let (mut queue, _waker) = EventQueue::new(false, false).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let descriptor = reader.as_raw_fd();
        queue.register(&mut SourceFd(&descriptor), 3, Interest::READABLE).unwrap();
        drop(writer);
        // Another process made the queue.
        let process = std::mem::replace(&mut queue.process, 0);
        queue.deregister(&mut SourceFd(&descriptor)).unwrap();
        queue.process = process;
        queue.poll_now();
        assert_eq!(queue.events().iter().map(|(index, _)| index).collect::<Vec<_>>(), [3]);
        queue.deregister(&mut SourceFd(&descriptor)).unwrap();
    }
}
