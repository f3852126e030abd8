//! Bounded channels: within the thread, and into it.
//!
//! | | From | To | Cost |
//! |---|---|---|---|
//! | [`local`] | tasks of this runtime | a task of this runtime | no atomics |
//! | [`mpsc`] | any number of threads | one receiver anywhere | a lock-free queue |
//! | [`spsc`] | one thread | another | a ring, each side with its own index |
//!
//! In all of them: when every sender is gone, the receiver gets what is left and then `None`; when the receiver is gone,
//! sending gives the value back.

pub mod local;
pub mod mpsc;
#[allow(unsafe_code)]
mod ring;
mod signal;
pub mod spsc;

use std::fmt;
use std::task::Poll;

/// Nobody will receive this value, which comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why a value was not sent at once. It comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room now.
    Full(T),
    /// The receiver is gone.
    Closed(T),
}

/// Why nothing was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// There is nothing and no sender is left.
    Closed,
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the receiver is gone")
    }
}

impl<T> std::error::Error for SendError<T> {}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the channel is full",
            Self::Closed(_) => "the receiver is gone",
        })
    }
}

impl<T> std::error::Error for TrySendError<T> {}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "the channel is empty",
            Self::Closed => "the channel is empty and no sender is left",
        })
    }
}

impl std::error::Error for TryRecvError {}

/// Sends what is there to be sent; or registers, and then looks again, since there may be room since the first look.
#[inline]
fn poll_send<C, T>(
    channel: &mut C,
    value: &mut Option<T>,
    try_send: impl Fn(&mut C, T) -> Result<(), TrySendError<T>>,
    wait: impl Fn(&mut C),
) -> Poll<Result<(), SendError<T>>> {
    for registered in [false, true] {
        let Some(taken) = value.take() else { break };
        match try_send(channel, taken) {
            Ok(()) => break,
            Err(TrySendError::Closed(back)) => return Poll::Ready(Err(SendError(back))),
            Err(TrySendError::Full(back)) => *value = Some(back),
        }
        if registered {
            return Poll::Pending;
        }
        wait(channel);
    }
    Poll::Ready(Ok(()))
}

/// Receives what is there; or registers, and then looks again, since there may be something since the first look.
#[inline]
fn poll_recv<C, T>(
    channel: &mut C,
    try_recv: impl Fn(&mut C) -> Result<T, TryRecvError>,
    wait: impl Fn(&mut C),
) -> Poll<Option<T>> {
    for registered in [false, true] {
        match try_recv(channel) {
            Ok(value) => return Poll::Ready(Some(value)),
            Err(TryRecvError::Closed) => return Poll::Ready(None),
            Err(TryRecvError::Empty) if !registered => wait(channel),
            Err(TryRecvError::Empty) => {}
        }
    }
    Poll::Pending
}
