//! The timers of a runtime and their wakers, ordered by deadline and cancelled in O(log n).

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::task::Waker;
use std::time::Instant;

/// A deadline, and a sequence number that distinguishes equal deadlines and keeps them in order of
/// registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TimerKey {
    deadline: Instant,
    number: u64,
}

#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    waiting: RefCell<BTreeMap<TimerKey, Waker>>,
    /// The first deadline. It is cached outside the tree because every turn reads it.
    next_deadline: Cell<Option<Instant>>,
    next_number: Cell<u64>,
    /// The time at which timers last fired.
    fired_at: Cell<Option<Instant>>,
    closed: Cell<bool>,
}

impl TimerQueue {
    #[inline]
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.next_deadline.get()
    }

    /// Returns whether `deadline` had been reached when timers last fired. Does not read the clock.
    #[inline]
    pub(crate) fn is_past(&self, deadline: Instant) -> bool {
        self.fired_at.get() >= Some(deadline)
    }

    /// Registers a waker, in place of the earlier registration `key` if that is still waiting.
    pub(crate) fn register(
        &self,
        key: Option<TimerKey>,
        deadline: Instant,
        waker: &Waker,
    ) -> TimerKey {
        let is_known = |known: &Waker| known.will_wake(waker);
        match key {
            Some(key) if key.deadline != deadline => self.cancel(key),
            Some(key) if self.waiting.borrow().get(&key).is_some_and(is_known) => return key,
            _ => {}
        }
        // A waker's clone and destructor are foreign code, so they run without the borrow.
        let waker = waker.clone();
        let key =
            key.filter(|key| key.deadline == deadline).unwrap_or_else(|| self.new_key(deadline));
        let replaced = self.waiting.borrow_mut().insert(key, waker);
        if self.next_deadline.get().is_none_or(|next| deadline < next) {
            self.next_deadline.set(Some(deadline));
        }
        drop(replaced);
        key
    }

    pub(crate) fn cancel(&self, key: TimerKey) {
        let removed = {
            let mut waiting = self.waiting.borrow_mut();
            let removed = waiting.remove(&key);
            if removed.is_some() && self.next_deadline.get() == Some(key.deadline) {
                self.next_deadline.set(waiting.first_key_value().map(|(first, _)| first.deadline));
            }
            removed
        };
        drop(removed);
    }

    /// Moves the registration `key`, if it is still waiting, to an earlier deadline.
    pub(crate) fn advance(&self, key: TimerKey, deadline: Instant) -> TimerKey {
        if deadline >= key.deadline {
            return key;
        }
        let mut waiting = self.waiting.borrow_mut();
        let Some(waker) = waiting.remove(&key) else { return key };
        let key = self.new_key(deadline);
        waiting.insert(key, waker);
        self.next_deadline.set(waiting.first_key_value().map(|(first, _)| first.deadline));
        key
    }

    fn new_key(&self, deadline: Instant) -> TimerKey {
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        TimerKey { deadline, number }
    }

    /// Wakes all timers that are due at `now`, in order of their deadlines. Returns their number.
    #[inline]
    pub(crate) fn fire(&self, now: Instant) -> usize {
        self.fired_at.set(Some(now));
        if self.next_deadline.get().is_some_and(|next| next <= now) {
            self.fire_due(now)
        } else {
            0
        }
    }

    /// Closes the queue: no timer will fire any more. Wakes every waiting task, which then panics
    /// at its next poll.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        self.next_deadline.set(None);
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_values().for_each(Waker::wake);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    fn fire_due(&self, now: Instant) -> usize {
        let mut fired = 0;
        while self.next_deadline.get().is_some_and(|next| next <= now) {
            let due = {
                let mut waiting = self.waiting.borrow_mut();
                let due = waiting.pop_first();
                self.next_deadline.set(waiting.first_key_value().map(|(first, _)| first.deadline));
                due
            };
            if let Some((_, waker)) = due {
                waker.wake();
                fired += 1;
            }
        }
        fired
    }
}
