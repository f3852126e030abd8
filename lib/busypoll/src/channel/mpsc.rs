//! A channel with many senders and one receiver, on any threads.
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

use std::task::Waker;

use super::error::{SendError, TrySendError};
pub use super::receiver::Receiver;
use super::receiver::SharedState;
use super::ring::{Producer, ring};
use super::transfer;

/// The sending half. Clones send into the same channel. It is `Send` and `Sync` if the values are
/// `Send`.
#[derive(Debug)]
pub struct Sender<T>(Producer<T, SharedState>);

/// Creates a channel for up to `capacity` values.
///
/// # Panics
/// Panics if `capacity` is zero or more than half of `usize::MAX`.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = ring(capacity, SharedState::new());
    (Sender(producer), Receiver::new(consumer))
}

impl<T> Sender<T> {
    /// Sends a value at once, or returns it. A value that is sent while the receiver is being
    /// dropped is dropped as well, with the last sender at the latest.
    ///
    /// # Errors
    /// Returns an error if the channel is full or the receiver has been dropped.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.0.shared().is_receiver_dropped() {
            return Err(TrySendError::Closed(value));
        }
        self.0.push(value).map_err(TrySendError::Full)?;
        self.0.shared().notify_receiver();
        Ok(())
    }

    /// Sends a value as soon as the channel is not full.
    ///
    /// # Errors
    /// Returns an error if the receiver has been dropped.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been sent.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        transfer::SendFuture::new(self, value).await
    }
}

impl<T> transfer::SendHalf<T> for &Sender<T> {
    #[inline]
    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        Sender::try_send(self, value)
    }

    fn register(&self, ticket: &mut Option<u64>, waker: &Waker) {
        self.0.shared().register_waiting_sender(ticket, waker);
    }

    fn deregister(&self, ticket: u64) {
        self.0.shared().deregister_waiting_sender(ticket);
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.shared().add_sender();
        Self(self.0.clone())
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.shared().remove_sender();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::future::block_on;

    use super::channel;

    /// Runs senders that wait for the receiver, and a receiver that waits for values. A lost wake
    /// would leave a thread waiting forever, which loom reports as a deadlock.
    fn check_no_lost_wake(senders: u32, each: u32, preemptions: usize) {
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
    fn one_sender_and_receiver_alternate() {
        check_no_lost_wake(1, 2, 3);
    }

    #[test]
    fn two_senders_and_receiver_alternate() {
        check_no_lost_wake(2, 1, 2);
    }

    #[test]
    fn dropped_receiver_ends_waiting_send() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(|| {
            let (sender, receiver) = channel(1);
            sender.try_send(0).unwrap();
            // The send may succeed, since the receiver may be dropped right after the check.
            let thread = loom::thread::spawn(move || block_on(sender.send(1)).is_ok());
            drop(receiver);
            thread.join().unwrap();
        });
    }
}
