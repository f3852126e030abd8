//! The futures of sending and receiving, which are the same for all channels: try, register the
//! waker, and try again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use super::error::{SendError, TryRecvError, TrySendError};
use crate::budget;

/// The sending half of a channel.
pub(crate) trait SendHalf<T> {
    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>>;
    /// Registers a waker to call once the channel may not be full, in place of the earlier one of
    /// that ticket.
    fn register(&self, ticket: &mut Option<u64>, waker: &Waker);
    /// Removes the waker of that ticket.
    fn deregister(&self, ticket: u64);
}

/// The future that sends one value. Dropping it deregisters its waker.
pub(crate) struct SendFuture<T, S: SendHalf<T>> {
    sender: S,
    value: Option<T>,
    ticket: Option<u64>,
}

impl<T, S: SendHalf<T>> SendFuture<T, S> {
    pub(crate) fn new(sender: S, value: T) -> Self {
        Self { sender, value: Some(value), ticket: None }
    }
}

// The value is moved and never pinned.
impl<T, S: SendHalf<T>> Unpin for SendFuture<T, S> {}

impl<T, S: SendHalf<T>> Future for SendFuture<T, S> {
    type Output = Result<(), SendError<T>>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        ready!(budget::poll_proceed(cx));
        let this = &mut *self;
        for registered in [false, true] {
            let Some(taken) = this.value.take() else { break };
            match this.sender.try_send(taken) {
                Ok(()) => break,
                Err(TrySendError::Closed(back)) => {
                    budget::spend();
                    return Poll::Ready(Err(SendError(back)));
                }
                Err(TrySendError::Full(back)) => this.value = Some(back),
            }
            if registered {
                return Poll::Pending;
            }
            // The receiver may have taken a value since the first attempt.
            this.sender.register(&mut this.ticket, cx.waker());
        }
        budget::spend();
        Poll::Ready(Ok(()))
    }
}

impl<T, S: SendHalf<T>> Drop for SendFuture<T, S> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.sender.deregister(ticket);
        }
    }
}

/// Receives a value, or registers the waker and tries again, since a value may have arrived in the
/// meantime.
#[inline]
pub(crate) fn poll_recv<C, T>(
    channel: &mut C,
    cx: &Context<'_>,
    try_recv: impl Fn(&mut C) -> Result<T, TryRecvError>,
    register: impl Fn(&mut C),
) -> Poll<Option<T>> {
    ready!(budget::poll_proceed(cx));
    for registered in [false, true] {
        let received = match try_recv(channel) {
            Ok(value) => Some(value),
            Err(TryRecvError::Closed) => None,
            Err(TryRecvError::Empty) if registered => break,
            Err(TryRecvError::Empty) => {
                register(channel);
                continue;
            }
        };
        budget::spend();
        return Poll::Ready(received);
    }
    Poll::Pending
}
