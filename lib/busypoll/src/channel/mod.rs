//! Bounded channels: within the thread, and into it.
//!
//! | | From | To | Cost |
//! |---|---|---|---|
//! | [`local`] | tasks of this runtime | a task of this runtime | no atomics |
//! | [`mpsc`] | any number of threads | one receiver on any thread | a lock-free queue |
//! | [`spsc`] | one thread | another | the same queue, without the contest for a place |
//!
//! All of them work in any runtime, or without one. Once every sender is gone, the receiver gets
//! what is left, then `None`. Once the receiver is gone, sending returns the value in an error.
//!
//! ```
//! use busypoll::channel::{TryRecvError, TrySendError, local};
//!
//! let (sender, mut receiver) = local::channel(1);
//! assert_eq!(sender.try_send("hello"), Ok(()));
//! assert_eq!(sender.try_send("again"), Err(TrySendError::Full("again")));
//! assert_eq!(receiver.try_recv(), Ok("hello"));
//! assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
//! drop(sender);
//! assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
//! ```

mod error;
pub mod local;
pub mod mpsc;
#[allow(unsafe_code)]
mod ring;
mod shared;
pub mod spsc;
mod transfer;
mod waiting;

pub use error::{SendError, TryRecvError, TrySendError};
