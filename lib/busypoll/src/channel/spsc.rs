//! One sender, one receiver, on any threads.
//!
//! The ring is the crate `rtrb`'s; what is ours is the waiting.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use rtrb::{Consumer, PopError, Producer, PushError, RingBuffer};

use super::signal::Signal;
use super::{SendError, TryRecvError, TrySendError, poll_recv, poll_send};

#[derive(Debug, Default)]
struct Signals {
    not_empty: Signal,
    not_full: Signal,
}

/// Sends into the channel.
#[derive(Debug)]
pub struct Sender<T> {
    ring: Option<Producer<T>>,
    signals: Arc<Signals>,
}

/// Receives from the channel.
#[derive(Debug)]
pub struct Receiver<T> {
    ring: Option<Consumer<T>>,
    signals: Arc<Signals>,
}

/// A channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for a value");
    let (producer, consumer) = RingBuffer::new(capacity);
    let signals = Arc::new(Signals::default());
    (Sender { ring: Some(producer), signals: Arc::clone(&signals) }, Receiver { ring: Some(consumer), signals })
}

impl<T> Sender<T> {
    /// Sends at once, or gives the value back.
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
                self.signals.not_empty.notify();
                Ok(())
            }
            Err(PushError::Full(value)) => Err(TrySendError::Full(value)),
        }
    }

    /// Sends when there is room.
    ///
    /// # Errors
    /// If the receiver is gone.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has not sent.
    pub async fn send(&mut self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        poll_fn(|cx| poll_send(self, &mut value, |s, value| s.try_send(value), |s| s.signals.not_full.wait(cx.waker())))
            .await
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // The ring first: the receiver that is woken must see that it is abandoned.
        self.ring = None;
        self.signals.not_empty.notify();
    }
}

impl<T> Receiver<T> {
    /// Receives what is there.
    ///
    /// # Errors
    /// If there is nothing, and whether there ever will be.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let Some(ring) = &mut self.ring else { return Err(TryRecvError::Closed) };
        // Before the look into the ring: what was sent before the sender went must be found.
        let abandoned = ring.is_abandoned();
        match ring.pop() {
            Ok(value) => {
                self.signals.not_full.notify();
                Ok(value)
            }
            Err(PopError::Empty) if abandoned => Err(TryRecvError::Closed),
            Err(PopError::Empty) => Err(TryRecvError::Empty),
        }
    }

    /// Receives the next value; `None` once there is nothing left and no sender.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has received nothing.
    pub async fn recv(&mut self) -> Option<T> {
        poll_fn(|cx| self.poll_recv(cx)).await
    }

    /// Polls for the next value.
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        poll_recv(self, Self::try_recv, |s| s.signals.not_empty.wait(cx.waker()))
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.ring = None;
        self.signals.not_full.notify();
    }
}
