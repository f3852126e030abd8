//! A channel with one sender and one receiver, on any threads.
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

use std::task::Waker;

use super::error::{SendError, TrySendError};
pub use super::receiver::Receiver;
use super::receiver::SharedState;
use super::ring::{SoleProducer, sole_ring};
use super::transfer;

/// The sending half. It is `Send` and `Sync` if the values are `Send`.
#[derive(Debug)]
pub struct Sender<T>(SoleProducer<T, SharedState>);

/// Creates a channel for up to `capacity` values.
///
/// # Panics
/// Panics if `capacity` is zero or more than half of `usize::MAX`.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (producer, consumer) = sole_ring(capacity, SharedState::new());
    (Sender(producer), Receiver::new(consumer))
}

impl<T> Sender<T> {
    /// Sends a value at once, or returns it. A value that is sent while the receiver is being
    /// dropped is dropped as well, with the sender at the latest.
    ///
    /// # Errors
    /// Returns an error if the channel is full or the receiver has been dropped.
    #[inline]
    pub fn try_send(&mut self, value: T) -> Result<(), TrySendError<T>> {
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
    pub async fn send(&mut self, value: T) -> Result<(), SendError<T>> {
        transfer::SendFuture::new(self, value).await
    }
}

impl<T> transfer::SendHalf<T> for &mut Sender<T> {
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

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.0.shared().remove_sender();
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::future::block_on;

    use super::channel;

    fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(preemptions);
        model.max_branches = 10_000;
        model.check(check);
    }

    #[test]
    fn sender_and_receiver_alternate() {
        model(3, || {
            let (mut sender, mut receiver) = channel(1);
            let thread = loom::thread::spawn(move || {
                for value in 0..2 {
                    block_on(sender.send(value)).unwrap();
                }
            });
            for value in 0..2 {
                assert_eq!(block_on(receiver.recv()), Some(value));
            }
            assert_eq!(block_on(receiver.recv()), None);
            thread.join().unwrap();
        });
    }

    #[test]
    fn values_sent_before_close_are_received() {
        model(3, || {
            let (mut sender, mut receiver) = channel(2);
            let thread = loom::thread::spawn(move || {
                (0..2).for_each(|value| sender.try_send(value).unwrap())
            });
            let mut next = 0;
            loop {
                match receiver.try_recv() {
                    Ok(value) => {
                        assert_eq!(value, next);
                        next += 1;
                    }
                    Err(super::super::TryRecvError::Empty) => loom::thread::yield_now(),
                    Err(super::super::TryRecvError::Closed) => break,
                }
            }
            assert_eq!(next, 2);
            thread.join().unwrap();
        });
    }

    #[test]
    fn dropped_receiver_ends_waiting_send() {
        model(3, || {
            let (mut sender, receiver) = channel(1);
            sender.try_send(0).unwrap();
            // The send may succeed, since the receiver may be dropped right after the check.
            let thread = loom::thread::spawn(move || block_on(sender.send(1)).is_ok());
            drop(receiver);
            thread.join().unwrap();
        });
    }

    #[test]
    fn cancelled_send_races_with_receive() {
        model(3, || {
            let (mut sender, mut receiver) = channel(1);
            sender.try_send(0).unwrap();
            let thread = loom::thread::spawn(move || {
                let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
                let sent = {
                    let mut send = std::pin::pin!(sender.send(1));
                    send.as_mut().poll(&mut cx).is_ready()
                };
                (sender, sent)
            });
            assert_eq!(receiver.try_recv(), Ok(0));
            let (sender, sent) = thread.join().unwrap();
            assert_eq!(receiver.try_recv().is_ok(), sent);
            drop(sender);
        });
    }
}
