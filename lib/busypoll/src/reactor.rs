//! Which sources the kernel watches, and the wakers of those who wait for each.
//!
//! Readiness is edge-triggered: an event means "try again", and holds until a try would block. An
//! event that comes too often, or to the next source in the same slot, costs a try and nothing
//! else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use mio::Interest;
use mio::event::Source;

use crate::clock::now;
use crate::event_queue::EventQueue;

#[derive(Debug)]
pub(crate) struct Reactor {
    events: EventQueue,
    slots: RefCell<Slots>,
    registered: Cell<usize>,
    event_time: Cell<Option<Instant>>,
    closed: Cell<bool>,
}

#[derive(Debug, Default)]
struct Slots {
    registrations: Vec<Option<Rc<Registration>>>,
    free: Vec<usize>,
}

/// What the reactor knows about one source.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    pub(crate) read: ReadyState,
    pub(crate) write: ReadyState,
}

/// Whether an operation may succeed, and the wakers to call once it may.
#[derive(Debug)]
pub(crate) struct ReadyState {
    ready: Cell<bool>,
    /// Of the `poll_` methods, which cannot withdraw their interest.
    polled: RefCell<Option<Waker>>,
    /// Of futures, which withdraw theirs when dropped. In order of arrival.
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    tickets: Cell<u64>,
}

impl Default for ReadyState {
    fn default() -> Self {
        // Ready until a try proves otherwise: the first one needs no event.
        Self {
            ready: Cell::new(true),
            polled: RefCell::default(),
            waiting: RefCell::default(),
            tickets: Cell::new(0),
        }
    }
}

impl ReadyState {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.get()
    }

    pub(crate) fn would_block(&self) {
        self.ready.set(false);
    }

    /// Registers the waker of a `poll_` method in place of the one before.
    pub(crate) fn poll_with(&self, waker: &Waker) {
        let replaced = {
            let mut polled = self.polled.borrow_mut();
            if polled.as_ref().is_some_and(|known| known.will_wake(waker)) {
                return;
            }
            polled.replace(waker.clone())
        };
        // A waker's destructor is foreign code: not while the cell is borrowed.
        drop(replaced);
    }

    /// Registers a future's waker, or replaces its earlier one.
    pub(crate) fn wait_with(&self, ticket: &mut Option<u64>, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        let known =
            ticket.and_then(|ticket| waiting.iter_mut().find(|(number, _)| *number == ticket));
        if let Some((_, known)) = known {
            let replaced =
                (!known.will_wake(waker)).then(|| std::mem::replace(known, waker.clone()));
            drop(waiting);
            drop(replaced);
            return;
        }
        let number = self.tickets.get();
        self.tickets.set(number + 1);
        *ticket = Some(number);
        waiting.push_back((number, waker.clone()));
    }

    pub(crate) fn forget(&self, ticket: u64) {
        let removed = {
            let mut waiting = self.waiting.borrow_mut();
            let at = waiting.iter().position(|(number, _)| *number == ticket);
            at.and_then(|at| waiting.remove(at))
        };
        drop(removed);
    }

    /// No cell is borrowed while a waker runs.
    fn wake(&self) {
        self.ready.set(true);
        let polled = self.polled.borrow_mut().take();
        if let Some(polled) = polled {
            polled.wake();
        }
        // Those that wait now; who registers meanwhile waits for the next event.
        let count = self.waiting.borrow().len();
        for _ in 0..count {
            let first = self.waiting.borrow_mut().pop_front();
            let Some((_, first)) = first else { break };
            first.wake();
        }
    }
}

impl Reactor {
    pub(crate) fn new(events: EventQueue) -> Rc<Self> {
        Rc::new(Self {
            events,
            slots: RefCell::default(),
            registered: Cell::new(0),
            event_time: Cell::new(None),
            closed: Cell::new(false),
        })
    }

    pub(crate) fn register(
        &self,
        source: &mut impl Source,
        interest: Interest,
    ) -> io::Result<(usize, Rc<Registration>)> {
        let registration = Rc::new(Registration::default());
        // The slot first, the source after: its code is foreign, and no cell is borrowed while it
        // runs.
        let index = self.allocate(&registration);
        match self.events.register(source, index, interest) {
            Ok(()) => Ok((index, registration)),
            Err(error) => {
                self.free(index);
                Err(error)
            }
        }
    }

    pub(crate) fn deregister(&self, source: &mut impl Source, index: usize) -> io::Result<()> {
        let result = self.events.deregister(source);
        self.free(index);
        result
    }

    fn allocate(&self, registration: &Rc<Registration>) -> usize {
        let mut slots = self.slots.borrow_mut();
        let index = slots.free.pop().unwrap_or(slots.registrations.len());
        if index == slots.registrations.len() {
            slots.registrations.push(None);
            // Room for all, so that a source's end never allocates.
            let more = slots.registrations.len() - slots.free.len();
            slots.free.reserve(more);
        }
        slots.registrations[index] = Some(Rc::clone(registration));
        self.registered.set(self.registered.get() + 1);
        index
    }

    fn free(&self, index: usize) {
        let registration = {
            let mut slots = self.slots.borrow_mut();
            slots.free.push(index);
            slots.registrations[index].take()
        };
        self.registered.set(self.registered.get() - 1);
        // Last: wakers may be in it, whose destructors are foreign code.
        drop(registration);
    }

    pub(crate) fn registered(&self) -> usize {
        self.registered.get()
    }

    pub(crate) fn parks_on_ring(&self) -> bool {
        self.events.has_ring()
    }

    pub(crate) fn polls(&self) -> u64 {
        self.events.polls()
    }

    pub(crate) fn event_time(&self) -> Option<Instant> {
        self.event_time.get()
    }

    /// Takes the events there are, without waiting. No system call while nothing is registered.
    #[inline]
    pub(crate) fn poll_now(&self) {
        if self.registered.get() > 0 {
            self.events.poll_now();
            self.dispatch();
        }
    }

    /// Waits for an event or a wake, at most until `limit`, given as an instant and as the time
    /// left.
    pub(crate) fn wait(&self, limit: Option<(Instant, Duration)>) {
        self.events.wait(limit);
        self.dispatch();
    }

    fn dispatch(&self) {
        let events = self.events.events();
        let mut stamped = false;
        for (index, event) in events.iter() {
            if !std::mem::replace(&mut stamped, true) {
                self.event_time.set(Some(now()));
            }
            let registration = self.slots.borrow().registrations.get(index).cloned().flatten();
            let Some(registration) = registration else { continue };
            // An error or a hang-up concerns both directions: the next try returns what it is.
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                registration.read.wake();
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                registration.write.wake();
            }
        }
    }

    /// Nobody will take events any more: wakes whoever waits for one, to find that out.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let registrations: Vec<_> =
            self.slots.borrow().registrations.iter().flatten().cloned().collect();
        for registration in registrations {
            registration.read.wake();
            registration.write.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
