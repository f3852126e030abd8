//! The event sources that the kernel watches, and the wakers of the tasks that wait for them.
//!
//! Readiness is edge-triggered: an event means that an operation may succeed, until one would
//! block. A spurious event, or one that reaches the next source with the same index, costs one
//! failed operation and nothing else.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::task::Waker;
use std::time::Instant;

use mio::Interest;
use mio::event::Source;

use crate::clock::now;
use crate::event_queue::EventQueue;
use crate::wait_limit::WaitLimit;

#[derive(Debug)]
pub(crate) struct Reactor {
    events: EventQueue,
    table: RefCell<RegistrationTable>,
    registered_count: Cell<usize>,
    event_time: Cell<Option<Instant>>,
    closed: Cell<bool>,
}

#[derive(Debug, Default)]
struct RegistrationTable {
    registrations: Vec<Option<Rc<Registration>>>,
    free: Vec<usize>,
}

/// The readiness of one source in both directions.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    pub(crate) read: ReadyState,
    pub(crate) write: ReadyState,
}

/// Whether an operation may succeed, and the wakers to call when it may.
#[derive(Debug)]
pub(crate) struct ReadyState {
    ready: Cell<bool>,
    /// Waker registered by the `poll_*` methods, which cannot deregister it.
    poll_waker: RefCell<Option<Waker>>,
    /// Wakers of futures in order of arrival. A future deregisters its waker when dropped.
    future_wakers: RefCell<VecDeque<(u64, Waker)>>,
    next_ticket: Cell<u64>,
}

impl Default for ReadyState {
    fn default() -> Self {
        // A source counts as ready until an operation would block, so the first one needs no event.
        Self {
            ready: Cell::new(true),
            poll_waker: RefCell::default(),
            future_wakers: RefCell::default(),
            next_ticket: Cell::new(0),
        }
    }
}

impl ReadyState {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.get()
    }

    pub(crate) fn set_ready(&self) {
        self.ready.set(true);
    }

    pub(crate) fn clear_ready(&self) {
        self.ready.set(false);
    }

    /// Registers the waker of a `poll_*` method in place of the previous one.
    pub(crate) fn register_poll_waker(&self, waker: &Waker) {
        if self.poll_waker.borrow().as_ref().is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        // A waker's clone and destructor are foreign code, so they run without the borrow.
        let waker = waker.clone();
        let replaced = self.poll_waker.borrow_mut().replace(waker);
        drop(replaced);
    }

    /// Registers the waker of a future, or replaces its earlier one.
    pub(crate) fn register_future_waker(&self, ticket: &mut Option<u64>, waker: &Waker) {
        let is_known =
            |(number, known): &(u64, Waker)| *ticket == Some(*number) && known.will_wake(waker);
        if ticket.is_some() && self.future_wakers.borrow().iter().any(is_known) {
            return;
        }
        let waker = waker.clone();
        let mut waiting = self.future_wakers.borrow_mut();
        if let Some((_, known)) = waiting.iter_mut().find(|(number, _)| *ticket == Some(*number)) {
            let replaced = std::mem::replace(known, waker);
            drop(waiting);
            drop(replaced);
            return;
        }
        let number = self.next_ticket.get();
        self.next_ticket.set(number + 1);
        *ticket = Some(number);
        waiting.push_back((number, waker));
    }

    pub(crate) fn deregister_waker(&self, ticket: u64) {
        let removed = {
            let mut waiting = self.future_wakers.borrow_mut();
            let at = waiting.iter().position(|(number, _)| *number == ticket);
            at.and_then(|at| waiting.remove(at))
        };
        drop(removed);
    }

    /// Wakes all waiting tasks. No cell is borrowed while a waker runs.
    fn wake(&self) {
        self.set_ready();
        let polled = self.poll_waker.borrow_mut().take();
        if let Some(polled) = polled {
            polled.wake();
        }
        // Wakes only those that wait now. A future that registers in the meantime waits for the
        // next event.
        let count = self.future_wakers.borrow().len();
        for _ in 0..count {
            let first = self.future_wakers.borrow_mut().pop_front();
            let Some((_, first)) = first else { break };
            first.wake();
        }
    }
}

impl Reactor {
    pub(crate) fn new(events: EventQueue) -> Rc<Self> {
        Rc::new(Self {
            events,
            table: RefCell::default(),
            registered_count: Cell::new(0),
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
        // The registration comes first and the source second: the code of the source is foreign,
        // and no cell may be borrowed while it runs.
        let index = self.add_registration(&registration);
        match self.events.register(source, index, interest) {
            Ok(()) => Ok((index, registration)),
            Err(error) => {
                self.remove_registration(index);
                Err(error)
            }
        }
    }

    pub(crate) fn deregister(&self, source: &mut impl Source, index: usize) -> io::Result<()> {
        let result = self.events.deregister(source);
        self.remove_registration(index);
        result
    }

    fn add_registration(&self, registration: &Rc<Registration>) -> usize {
        let mut table = self.table.borrow_mut();
        let index = table.free.pop().unwrap_or(table.registrations.len());
        if index == table.registrations.len() {
            table.registrations.push(None);
            // `free` has capacity for all indices, so that dropping a source never allocates.
            let more = table.registrations.len() - table.free.len();
            table.free.reserve(more);
        }
        table.registrations[index] = Some(Rc::clone(registration));
        self.registered_count.set(self.registered_count.get() + 1);
        index
    }

    fn remove_registration(&self, index: usize) {
        let registration = {
            let mut table = self.table.borrow_mut();
            table.free.push(index);
            table.registrations[index].take()
        };
        self.registered_count.set(self.registered_count.get() - 1);
        // Dropped last, because it may contain wakers, whose destructors are foreign code.
        drop(registration);
    }

    pub(crate) fn registered(&self) -> usize {
        self.registered_count.get()
    }

    pub(crate) fn parks_on_ring(&self) -> bool {
        self.events.has_ring()
    }

    pub(crate) fn poll_count(&self) -> u64 {
        self.events.poll_count()
    }

    pub(crate) fn event_time(&self) -> Option<Instant> {
        self.event_time.get()
    }

    /// Takes the pending events without waiting. Makes no system call while no source is
    /// registered.
    #[inline]
    pub(crate) fn poll_now(&self) {
        if self.registered_count.get() > 0 {
            self.events.poll_now();
            self.dispatch();
        }
    }

    /// Waits for an event or a wake, until `limit` at most.
    pub(crate) fn wait(&self, limit: Option<WaitLimit>) {
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
            let registration = self.table.borrow().registrations.get(index).cloned().flatten();
            let Some(registration) = registration else { continue };
            // An error or a hang-up concerns both directions. The next operation returns it.
            if event.is_readable() || event.is_read_closed() || event.is_error() {
                registration.read.wake();
            }
            if event.is_writable() || event.is_write_closed() || event.is_error() {
                registration.write.wake();
            }
        }
    }

    /// Closes the reactor, which will take no more events. Wakes every waiting task, whose
    /// operation then returns an error.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let registrations: Vec<_> =
            self.table.borrow().registrations.iter().flatten().cloned().collect();
        for registration in registrations {
            registration.read.wake();
            registration.write.wake();
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }
}
