//! The receiving half of the channels between threads, and the state that both halves share. Both
//! are the same for a single sender and for many.

use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

use super::error::TryRecvError;
use super::ring::Consumer;
use super::transfer::poll_recv;
use super::waiters::{Waiter, Waiters};
use crate::cache_padded::CachePadded;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, loom_fence};

/// The state of a channel, except for its values.
#[derive(Debug)]
pub(crate) struct SharedState {
    senders: AtomicUsize,
    receiver_dropped: AtomicBool,
    not_empty: CachePadded<Waiter>,
    not_full: CachePadded<Waiters>,
}

impl SharedState {
    /// Creates the state of a channel with one sender.
    pub(crate) fn new() -> Self {
        Self {
            senders: AtomicUsize::new(1),
            receiver_dropped: AtomicBool::new(false),
            not_empty: CachePadded(Waiter::default()),
            not_full: CachePadded(Waiters::default()),
        }
    }

    pub(crate) fn add_sender(&self) {
        self.senders.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_sender(&self) {
        if self.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.not_empty.0.notify_after_swap();
        }
    }

    #[inline]
    pub(crate) fn is_receiver_dropped(&self) -> bool {
        loom_fence();
        self.receiver_dropped.load(Ordering::SeqCst)
    }

    /// Wakes the receiver after a value was pushed.
    #[inline]
    pub(crate) fn notify_receiver(&self) {
        self.not_empty.0.notify_after_swap();
    }

    /// Registers a sender that found the channel full.
    pub(crate) fn register_waiting_sender(&self, ticket: &mut Option<u64>, waker: &Waker) {
        self.not_full.0.register(ticket, waker);
    }

    pub(crate) fn deregister_waiting_sender(&self, ticket: u64) {
        self.not_full.0.deregister(ticket);
    }
}

/// The receiving half. It is `Send` and `Sync` if the values are `Send`.
#[derive(Debug)]
pub struct Receiver<T>(Consumer<T, SharedState>);

impl<T> Receiver<T> {
    pub(crate) fn new(consumer: Consumer<T, SharedState>) -> Self {
        Self(consumer)
    }

    /// Receives a value if there is one.
    ///
    /// # Errors
    /// Returns [`Empty`](TryRecvError::Empty) if the channel is empty, and
    /// [`Closed`](TryRecvError::Closed) if there will never be one.
    #[inline]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(value) = self.0.pop() {
            self.0.shared().not_full.0.notify_after_swap();
            return Ok(value);
        }
        loom_fence();
        if self.0.shared().senders.load(Ordering::SeqCst) > 0 {
            return Err(TryRecvError::Empty);
        }
        // The last sender may have been dropped after the first attempt. The values that it sent
        // before are visible now, since the load acquires the release of its drop.
        self.0.pop().ok_or(TryRecvError::Closed)
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
        let polled =
            poll_recv(self, cx, Self::try_recv, |s| s.0.shared().not_empty.0.register(cx.waker()));
        if polled.is_pending() && !self.0.is_unclaimed() {
            // A sender is in the middle of sending, and may have checked for a waiter before this
            // receiver was registered.
            #[cfg(loom)]
            loom::thread::yield_now();
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.shared().receiver_dropped.swap(true, Ordering::SeqCst);
        // Before the values are dropped, since their destructors may panic.
        self.0.shared().not_full.0.notify_after_swap();
        while self.0.pop().is_some() {}
    }
}
