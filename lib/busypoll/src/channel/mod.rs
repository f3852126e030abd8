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
mod signal;
pub mod spsc;

use std::fmt;

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
