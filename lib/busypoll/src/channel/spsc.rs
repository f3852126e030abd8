//! One sender, one receiver, on any threads. The ring comes from the crate `rtrb`.
//!
//! ```
//! use busypoll::channel::spsc;
//!
//! let (mut sender, mut receiver) = spsc::channel(1);
//! let thread = std::thread::spawn(move || {
//!     busypoll::Runtime::new()?.block_on(async {
//!         for number in 0..3 {
//!             sender.send(number).await.unwrap();
//!         }
//!     });
//!     Ok::<(), std::io::Error>(())
//! });
//! busypoll::Runtime::new()?.block_on(async {
//!     for number in 0..3 {
//!         assert_eq!(receiver.recv().await, Some(number));
//!     }
//! });
//! thread.join().unwrap()?;
//! # Ok::<(), std::io::Error>(())
//! ```

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use rtrb::{Consumer, PopError, Producer, PushError, RingBuffer};

use super::error::{SendError, TryRecvError, TrySendError};
use super::waiting::{Waiter, poll_recv, poll_send};

#[derive(Debug, Default)]
struct Waiters {
    not_empty: Waiter,
    not_full: Waiter,
}

/// The sending half.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Option<Producer<T>>,
    waiters: Arc<Waiters>,
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Option<Consumer<T>>,
    waiters: Arc<Waiters>,
}

/// Makes a channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for a value");
    let (producer, consumer) = RingBuffer::new(capacity);
    let waiters = Arc::new(Waiters::default());
    (Sender { ring: Some(producer), waiters: Arc::clone(&waiters) }, Receiver { ring: Some(consumer), waiters })
}

impl<T> Sender<T> {
    /// Sends at once, or returns the value.
    ///
    /// # Errors
    /// If there is no room, or the receiver is gone.
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        let Some(ring) = &mut self.ring else { return Err(TrySendError::Closed(value)) };
        if ring.is_abandoned() {
            return Err(TrySendError::Closed(value));
        }
        match ring.push(value) {
            Ok(()) => {
                self.waiters.not_empty.notify();
                Ok(())
            }
            Err(PushError::Full(value)) => Err(TrySendError::Full(value)),
        }
    }

    /// Sends as soon as there is room.
    ///
    /// # Errors
    /// If the receiver is gone.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has not sent.
    pub async fn send(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        poll_fn(|cx| {
            poll_send(self, &mut value, |s, value| s.try_send(value), |s| s.waiters.not_full.register(cx.waker()))
        })
        .await
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The ring first: the receiver that is woken must see that it is abandoned.
        self.ring = None;
        self.waiters.not_empty.notify();
    }
}

impl<T> Receiver<T> {
    /// Receives a value if there is one.
    ///
    /// # Errors
    /// [`Empty`](TryRecvError::Empty) if there is none, [`Closed`](TryRecvError::Closed) if there will never be one.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let Some(ring) = &mut self.ring else { return Err(TryRecvError::Closed) };
        // Before the pop: what was sent before the sender went must be found.
        let abandoned = ring.is_abandoned();
        match ring.pop() {
            Ok(value) => {
                self.waiters.not_full.notify();
                Ok(value)
            }
            Err(PopError::Empty) if abandoned => Err(TryRecvError::Closed),
            Err(PopError::Empty) => Err(TryRecvError::Empty),
        }
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
        poll_recv(self, Self::try_recv, |s| s.waiters.not_empty.register(cx.waker()))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.ring = None;
        self.waiters.not_full.notify();
    }
}
