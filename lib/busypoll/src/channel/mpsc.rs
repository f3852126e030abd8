//! Many senders, one receiver, on any threads.
//!
//! ```
//! use busypoll::channel::mpsc;
//!
//! let (sender, mut receiver) = mpsc::channel(16);
//! for id in 0..2 {
//!     let sender = sender.clone();
//!     std::thread::spawn(move || sender.try_send(id).unwrap());
//! }
//! drop(sender);
//! let sum = busypoll::Runtime::new()?.block_on(async {
//!     let mut sum = 0;
//!     while let Some(id) = receiver.recv().await {
//!         sum += id;
//!     }
//!     sum
//! });
//! assert_eq!(sum, 1);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::future::poll_fn;
use std::task::{Context, Poll};

use super::error::{SendError, TryRecvError, TrySendError};
use super::ring::{Consumer, Producer, ring};
use super::waiting::{Waiter, Waiters, poll_recv, poll_send};
use crate::cache_padded::CachePadded;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, loom_fence};

#[derive(Debug)]
struct Shared {
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
    not_empty: CachePadded<Waiter>,
    not_full: CachePadded<Waiters>,
}

/// The sending half. Clones send into the same channel.
#[derive(Debug)]
pub struct Sender<T>(Producer<T, Shared>);

/// The receiving half.
#[derive(Debug)]
pub struct Receiver<T>(Consumer<T, Shared>);

/// Makes a channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let shared = Shared {
        senders: AtomicUsize::new(1),
        receiver_gone: AtomicBool::new(false),
        not_empty: CachePadded(Waiter::default()),
        not_full: CachePadded(Waiters::default()),
    };
    let (producer, consumer) = ring(capacity, shared);
    (Sender(producer), Receiver(consumer))
}

impl<T> Sender<T> {
    /// Sends at once, or returns the value. A value sent at the very moment the receiver is dropped is dropped too, at the
    /// latest with the last sender.
    ///
    /// # Errors
    /// If there is no room, or the receiver is gone.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let shared = self.0.shared();
        loom_fence();
        if shared.receiver_gone.load(Ordering::SeqCst) {
            return Err(TrySendError::Closed(value));
        }
        self.0.push(value).map_err(TrySendError::Full)?;
        shared.not_empty.0.notify_after_swap();
        Ok(())
    }

    /// Sends as soon as there is room.
    ///
    /// # Errors
    /// If the receiver is gone.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has not sent.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        poll_fn(|cx| {
            let register = |s: &mut &Self| s.0.shared().not_full.0.register(cx.waker());
            poll_send(&mut &*self, &mut value, |s, value| s.try_send(value), register)
        })
        .await
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.shared().senders.fetch_add(1, Ordering::Relaxed);
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let shared = self.0.shared();
        if shared.senders.fetch_sub(1, Ordering::SeqCst) == 1 {
            shared.not_empty.0.notify_after_swap();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// [`Empty`](TryRecvError::Empty) if there is none, [`Closed`](TryRecvError::Closed) if there will never be one.
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
        // The last sender may have gone after the first try: what it sent before is there now.
        self.0.pop().ok_or(TryRecvError::Closed)
    }

    /// Receives the next value; `None` once the channel is empty and no sender is left.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has received nothing.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next value.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let polled = poll_recv(self, Self::try_recv, |s| s.0.shared().not_empty.0.register(cx.waker()));
        if polled.is_pending() && !self.0.is_unclaimed() {
            // A sender is in the middle of sending, and may have looked for a waiter before there was one.
            #[cfg(loom)]
            loom::thread::yield_now();
            cx.waker().wake_by_ref();
        }
        polled
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.shared().receiver_gone.swap(true, Ordering::SeqCst);
        while self.0.pop().is_some() {}
        self.0.shared().not_full.0.notify_after_swap();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::future::block_on;

    use super::channel;

    /// Each sender waits for room, the receiver for values. A lost wake would leave one of them waiting forever, which
    /// loom reports as a deadlock.
    fn nobody_waits_for_ever(senders: u32, each: u32, preemptions: usize) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 10_000;
        model.check(move || {
            let (sender, mut receiver) = channel(1);
            let threads: Vec<_> = (0..senders)
                .map(|_| {
                    let sender = sender.clone();
                    loom::thread::spawn(move || {
                        for value in 0..each {
                            block_on(sender.send(value)).unwrap();
                        }
                    })
                })
                .collect();
            drop(sender);
            let mut got = 0;
            while block_on(receiver.recv()).is_some() {
                got += 1;
            }
            assert_eq!(got, senders * each);
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    fn one_sender_and_the_receiver_wait_for_each_other() {
        nobody_waits_for_ever(1, 2, 3);
    }

    #[test]
    fn two_senders_and_the_receiver_wait_for_each_other() {
        nobody_waits_for_ever(2, 1, 2);
    }

    #[test]
    fn a_sender_does_not_wait_for_a_receiver_that_goes() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (sender, receiver) = channel(1);
            sender.try_send(0).unwrap();
            // Sent or not: the receiver may go right after it was looked for.
            let thread = loom::thread::spawn(move || block_on(sender.send(1)).is_ok());
            drop(receiver);
            thread.join().unwrap();
        });
    }
}
