//! Bounded channels: within the thread, and into it.
//!
//! | | From | To | Cost |
//! |---|---|---|---|
//! | [`local`] | tasks of this runtime | a task of this runtime | no atomics |
//! | [`mpsc`] | any number of threads | one receiver on any thread | a lock-free queue |
//! | [`spsc`] | one thread | another | a ring, each side with its own index |
//!
//! All of them work in any runtime, or without one. Once every sender is gone, the receiver gets what is left, then
//! `None`. Once the receiver is gone, sending returns the value in an error.
//!
//! ```
//! use busypoll::channel::{TryRecvError, TrySendError, mpsc};
//!
//! let (sender, mut receiver) = mpsc::channel(1);
//! busypoll::Runtime::new()?.block_on(async {
//!     let thread = std::thread::spawn(move || {
//!         sender.try_send("hello").unwrap();
//!         // No room until the receiver takes it.
//!         matches!(sender.try_send("again"), Ok(()) | Err(TrySendError::Full("again")))
//!     });
//!     assert_eq!(receiver.recv().await, Some("hello"));
//!     assert!(thread.join().unwrap());
//!     let _ = receiver.try_recv();
//!     assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
//! });
//! # Ok::<(), std::io::Error>(())
//! ```

mod error;
pub mod local;
pub mod mpsc;
#[allow(unsafe_code)]
mod ring;
pub mod spsc;
mod waiting;

pub use error::{SendError, TryRecvError, TrySendError};
