//! Which sources the kernel watches, and who waits for each.
//!
//! Readiness is edge-triggered: an event says "try again", and holds until a try would block. An event that comes too
//! often, or to the next source in the same place, costs a try and nothing else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use mio::Interest;
use mio::event::Source;

use crate::clock::now;
use crate::park::Driver;

/// One in so many operations yields, so that no peer can keep a task running for ever.
const OPERATIONS_PER_YIELD: u32 = 128;

#[derive(Debug)]
pub(crate) struct Reactor {
    driver: Driver,
    places: RefCell<Places>,
    registered: Cell<usize>,
    operations: Cell<u32>,
    event_time: Cell<Option<Instant>>,
    closed: Cell<bool>,
}

#[derive(Debug, Default)]
struct Places {
    entries: Vec<Option<Rc<Entry>>>,
    free: Vec<usize>,
}

/// What is known of one source.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) read: Direction,
    pub(crate) write: Direction,
}

/// Whether an operation may succeed, and who waits until it may.
#[derive(Debug)]
pub(crate) struct Direction {
    ready: Cell<bool>,
    /// Of the `poll_` methods, which cannot tell when they are no longer interested.
    polled: RefCell<Option<Waker>>,
    /// Of futures, which take theirs back when dropped. In order of arrival.
    waiting: RefCell<VecDeque<(u64, Waker)>>,
    tickets: Cell<u64>,
}

impl Default for Direction {
    fn default() -> Self {
        // Ready until a try says otherwise: the first one costs no event.
        Self { ready: Cell::new(true), polled: RefCell::default(), waiting: RefCell::default(), tickets: Cell::new(0) }
    }
}

impl Direction {
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
        let known = ticket.and_then(|ticket| waiting.iter_mut().find(|(number, _)| *number == ticket));
        if let Some((_, known)) = known {
            let replaced = (!known.will_wake(waker)).then(|| std::mem::replace(known, waker.clone()));
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

    /// Ready now: wakes whoever waits. No cell is borrowed while a waker runs.
    fn wake(&self) {
        self.ready.set(true);
        let polled = self.polled.borrow_mut().take();
        if let Some(polled) = polled {
            polled.wake();
        }
        // Those there are now; who registers meanwhile waits for the next event.
        let count = self.waiting.borrow().len();
        for _ in 0..count {
            let first = self.waiting.borrow_mut().pop_front();
            let Some((_, first)) = first else { break };
            first.wake();
        }
    }
}

impl Reactor {
    pub(crate) fn new(driver: Driver) -> Rc<Self> {
        Rc::new(Self {
            driver,
            places: RefCell::default(),
            registered: Cell::new(0),
            operations: Cell::new(0),
            event_time: Cell::new(None),
            closed: Cell::new(false),
        })
    }

    pub(crate) fn register(&self, source: &mut impl Source, interest: Interest) -> io::Result<(usize, Rc<Entry>)> {
        let entry = Rc::new(Entry::default());
        // The place first, the source after: its code is foreign, and no cell is borrowed while it runs.
        let index = self.take_place(&entry);
        match self.driver.register(source, index, interest) {
            Ok(()) => Ok((index, entry)),
            Err(error) => {
                self.give_back(index);
                Err(error)
            }
        }
    }

    pub(crate) fn deregister(&self, source: &mut impl Source, index: usize) -> io::Result<()> {
        let result = self.driver.deregister(source);
        self.give_back(index);
        result
    }

    fn take_place(&self, entry: &Rc<Entry>) -> usize {
        let mut places = self.places.borrow_mut();
        let index = places.free.pop().unwrap_or(places.entries.len());
        if index == places.entries.len() {
            places.entries.push(None);
            // Room for all, so that a source's end never allocates.
            let more = places.entries.len() - places.free.len();
            places.free.reserve(more);
        }
        places.entries[index] = Some(Rc::clone(entry));
        self.registered.set(self.registered.get() + 1);
        index
    }

    fn give_back(&self, index: usize) {
        let entry = {
            let mut places = self.places.borrow_mut();
            places.free.push(index);
            places.entries[index].take()
        };
        self.registered.set(self.registered.get() - 1);
        // Last: wakers may be in it, whose destructors are foreign code.
        drop(entry);
    }

    /// How many sources are registered.
    pub(crate) fn registered(&self) -> usize {
        self.registered.get()
    }

    pub(crate) fn looks(&self) -> u64 {
        self.driver.looks()
    }

    pub(crate) fn event_time(&self) -> Option<Instant> {
        self.event_time.get()
    }

    /// True for one in so many operations, which must then yield.
    pub(crate) fn must_yield(&self) -> bool {
        let operations = (self.operations.get() + 1) % OPERATIONS_PER_YIELD;
        self.operations.set(operations);
        operations == 0
    }

    /// Takes the events there are, without waiting. No system call while nothing is registered.
    #[inline]
    pub(crate) fn poll_now(&self) {
        if self.registered.get() > 0 {
            self.driver.poll_now();
            self.dispatch();
        }
    }

    /// Waits for an event or a wake, at most until `limit`, which is so far away.
    pub(crate) fn wait(&self, limit: Option<(Instant, std::time::Duration)>) {
        self.driver.wait(limit);
        self.dispatch();
    }

    fn dispatch(&self) {
        let taken = self.driver.events();
        let mut stamped = false;
        for (index, event) in taken.iter() {
            if !std::mem::replace(&mut stamped, true) {
                self.event_time.set(Some(now()));
            }
            let entry = self.places.borrow().entries.get(index).cloned().flatten();
            let Some(entry) = entry else { continue };
            // An error or a hang-up is news for both directions: the next try says what it is.
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                entry.read.wake();
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                entry.write.wake();
            }
        }
    }

    /// Nobody will take events any more: whoever waits learns it.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let entries: Vec<_> = self.places.borrow().entries.iter().flatten().cloned().collect();
        for entry in entries {
            entry.read.wake();
            entry.write.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
