//! Bounded channels within a thread and between threads.
//!
//! | | From | To | Cost |
//! |---|---|---|---|
//! | [`local`] | tasks of this runtime | a task of this runtime | no atomics |
//! | [`mpsc`] | any number of threads | one receiver on any thread | a lock-free queue |
//! | [`spsc`] | one thread | another thread | the same queue, without contention between senders |
//!
//! All channels work in any runtime, or without a runtime. After the last sender has been dropped,
//! the receiver gets the remaining values, then `None`. After the receiver has been dropped,
//! sending returns the value in an error.
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
mod receiver;
#[allow(unsafe_code)]
mod ring;
pub mod spsc;
mod transfer;
mod waiters;

pub use error::{SendError, TryRecvError, TrySendError};
