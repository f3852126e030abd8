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

use std::task::Waker;

use super::error::{SendError, TrySendError};
use super::ring::{Producer, ring};
pub use super::shared::Receiver;
use super::shared::Shared;
use super::transfer;

/// The sending half. Clones send into the same channel.
#[derive(Debug)]
pub struct Sender<T>(Producer<T, Shared>);

/// Makes a channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = ring(capacity, Shared::new());
    (Sender(producer), Receiver::new(consumer))
}

impl<T> Sender<T> {
    /// Sends at once, or returns the value. A value sent at the very moment the receiver is dropped
    /// is dropped too, at the latest with the last sender.
    ///
    /// # Errors
    /// If there is no room, or the receiver is gone.
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.0.shared().is_receiver_gone() {
            return Err(TrySendError::Closed(value));
        }
        self.0.push(value).map_err(TrySendError::Full)?;
        self.0.shared().sent();
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
        transfer::Send::new(self, value).await
    }
}

impl<T> transfer::Sender<T> for &Sender<T> {
    #[inline]
    fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
        Sender::try_send(self, value)
    }

    fn register(&self, ticket: &mut Option<u64>, waker: &Waker) {
        self.0.shared().wait_for_room(ticket, waker);
    }

    fn leave(&self, ticket: u64) {
        self.0.shared().stop_waiting_for_room(ticket);
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

    /// Each sender waits for room, the receiver for values. A lost wake would leave one of them
    /// waiting forever, which loom reports as a deadlock.
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
