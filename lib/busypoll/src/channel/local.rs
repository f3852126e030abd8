//! A channel with many senders and one receiver on one thread. It uses no atomics.
//!
//! ```
//! use busypoll::{Runtime, channel::local, spawn_boxed};
//!
//! Runtime::new()?.block_on(async {
//!     let (sender, mut receiver) = local::channel(2);
//!     let other = sender.clone();
//!     drop(spawn_boxed(async move { sender.send("hello").await }));
//!     drop(spawn_boxed(async move { other.send("world").await }));
//!     assert_eq!(receiver.recv().await, Some("hello"));
//!     assert_eq!(receiver.recv().await, Some("world"));
//!     assert_eq!(receiver.recv().await, None);
//! });
//! # Ok::<(), std::io::Error>(())
//! ```

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::error::{SendError, TryRecvError, TrySendError};
use super::transfer::{self, poll_recv};
use crate::waker_set::WakerSet;

/// A ring between two counters that only ever increase. It exists because a channel over `VecDeque`
/// is slower, as measured by `cargo bench -p busypoll --bench queues`.
///
/// The fields that every send and receive reads are cells of one word. The wakers, which are
/// foreign code, are behind a borrow that is never held while a waker is cloned, called or dropped.
struct LocalRing<T> {
    /// A power of two of slots, so that masking turns a counter into an index.
    slots: Box<[Cell<Option<T>>]>,
    /// Values received so far.
    head: Cell<usize>,
    /// Values sent so far.
    tail: Cell<usize>,
    /// Number of values below which a send has nothing to check: the capacity, but zero while the
    /// receiver waits and after it has been dropped.
    limit: Cell<usize>,
    capacity: usize,
    senders: Cell<usize>,
    receiver_dropped: Cell<bool>,
    senders_wait: Cell<bool>,
    wakers: RefCell<Wakers>,
}

#[derive(Default)]
struct Wakers {
    receiver: Option<Waker>,
    senders: WakerSet,
}

impl<T> LocalRing<T> {
    #[inline]
    fn register_receiver(&self, waker: &Waker) {
        // A waker's clone and destructor are foreign code, so they run without the borrow.
        let waker = waker.clone();
        let replaced = self.wakers.borrow_mut().receiver.replace(waker);
        self.limit.set(0);
        drop(replaced);
    }

    fn slot(&self, counter: usize) -> &Cell<Option<T>> {
        &self.slots[counter & (self.slots.len() - 1)]
    }

    #[inline]
    fn push(&self, value: T) {
        let tail = self.tail.get();
        self.slot(tail).set(Some(value));
        self.tail.set(tail.wrapping_add(1));
    }

    fn len(&self) -> usize {
        self.tail.get().wrapping_sub(self.head.get())
    }

    /// Sends a value if the channel is full, or if the receiver waits or has been dropped.
    #[cold]
    #[inline(never)]
    fn send_at_limit(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.receiver_dropped.get() {
            return Err(TrySendError::Closed(value));
        }
        if self.len() >= self.capacity {
            return Err(TrySendError::Full(value));
        }
        self.push(value);
        self.wake_receiver();
        Ok(())
    }

    /// Wakes the receiver, which has not been dropped.
    #[cold]
    fn wake_receiver(&self) {
        self.limit.set(self.capacity);
        let receiver = self.wakers.borrow_mut().receiver.take();
        receiver.into_iter().for_each(Waker::wake);
    }

    /// Wakes all senders, since any single one may be dropped before it is polled.
    #[cold]
    fn wake_senders(&self) {
        self.senders_wait.set(false);
        let senders = self.wakers.borrow_mut().senders.take_wakers();
        senders.for_each(Waker::wake);
    }
}

impl<T> fmt::Debug for LocalRing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("len", &self.len())
            .field("senders", &self.senders.get())
            .finish_non_exhaustive()
    }
}

/// The sending half. Clones send into the same channel. It is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Sender<T>(Rc<LocalRing<T>>);

/// The receiving half. It is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Receiver<T>(Rc<LocalRing<T>>);

/// Creates a channel for up to `capacity` values.
///
/// # Panics
/// Panics if `capacity` is zero or more than half of `usize::MAX`.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs a capacity of at least 1");
    let ring = Rc::new(LocalRing {
        slots: (0..capacity
            .checked_next_power_of_two()
            .expect("the capacity is larger than memory"))
            .map(|_| Cell::new(None))
            .collect(),
        head: Cell::new(0),
        tail: Cell::new(0),
        limit: Cell::new(capacity),
        capacity,
        senders: Cell::new(1),
        receiver_dropped: Cell::new(false),
        senders_wait: Cell::new(false),
        wakers: RefCell::default(),
    });
    (Sender(Rc::clone(&ring)), Receiver(ring))
}

impl<T> Sender<T> {
    /// Sends a value at once, or returns it.
    ///
    /// # Errors
    /// Returns an error if the channel is full or the receiver has been dropped.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let ring = &*self.0;
        if ring.len() >= ring.limit.get() {
            return ring.send_at_limit(value);
        }
        ring.push(value);
        Ok(())
    }

    /// Sends a value as soon as the channel is not full.
    ///
    /// # Errors
    /// Returns an error if the receiver has been dropped.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been sent.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        transfer::SendFuture::new(self, value).await
    }
}

impl<T> transfer::SendHalf<T> for &Sender<T> {
    #[inline]
    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        Sender::try_send(self, value)
    }

    fn register(&self, ticket: &mut Option<u64>, waker: &Waker) {
        let has_waker = |ticket| self.0.wakers.borrow().senders.has_waker(ticket, waker);
        if ticket.is_some_and(has_waker) {
            return;
        }
        let waker = waker.clone();
        let replaced = self.0.wakers.borrow_mut().senders.register(ticket, waker);
        self.0.senders_wait.set(true);
        drop(replaced);
    }

    fn deregister(&self, ticket: u64) {
        let removed = self.0.wakers.borrow_mut().senders.deregister(ticket);
        drop(removed);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.set(self.0.senders.get() + 1);
        Self(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let senders = self.0.senders.get() - 1;
        self.0.senders.set(senders);
        if senders == 0 && !self.0.receiver_dropped.get() {
            self.0.wake_receiver();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// Returns [`Empty`](TryRecvError::Empty) if the channel is empty, and
    /// [`Closed`](TryRecvError::Closed) if there will never be one.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let ring = &*self.0;
        let head = ring.head.get();
        let Some(value) = ring.slot(head).take() else {
            return Err(if ring.senders.get() == 0 {
                TryRecvError::Closed
            } else {
                TryRecvError::Empty
            });
        };
        ring.head.set(head.wrapping_add(1));
        if ring.senders_wait.get() {
            ring.wake_senders();
        }
        Ok(value)
    }

    /// Receives the next value. Returns `None` once the channel is empty and no sender is left.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been received.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next value.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        poll_recv(self, cx, Self::try_recv, |receiver| receiver.0.register_receiver(cx.waker()))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receiver_dropped.set(true);
        self.0.limit.set(0);
        // Before the values are dropped, since their destructors may panic.
        self.0.wake_senders();
        // The values are dropped now instead of with the last sender.
        while let Some(value) = self.0.slot(self.0.head.get()).take() {
            self.0.head.set(self.0.head.get().wrapping_add(1));
            drop(value);
        }
    }
}
