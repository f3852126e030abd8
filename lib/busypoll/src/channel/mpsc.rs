//! Many senders, one receiver, on any threads.
//!
//! The queue is the crate `crossbeam-queue`'s; what is ours is the waiting and the closing.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use crossbeam_queue::ArrayQueue;

use super::signal::Signal;
use super::{SendError, TryRecvError, TrySendError};

#[derive(Debug)]
struct Shared<T> {
    queue: ArrayQueue<T>,
    senders: AtomicUsize,
    receiver_gone: AtomicBool,
    not_empty: Signal,
    /// Whether `full` may hold somebody: looked at after each receive, in place of the lock.
    anyone_waits: AtomicBool,
    full: Mutex<Vec<Waker>>,
}

impl<T> Shared<T> {
    /// Wakes all senders that wait for room: one of them alone could have been dropped since.
    fn notify_senders(&self) {
        fence(Ordering::SeqCst);
        if self.anyone_waits.load(Ordering::Relaxed) {
            let waiting = {
                let mut full = self.full.lock().unwrap_or_else(PoisonError::into_inner);
                self.anyone_waits.store(false, Ordering::Relaxed);
                std::mem::take(&mut *full)
            };
            waiting.into_iter().for_each(Waker::wake);
        }
    }
}

/// Sends into the channel. Clones send into the same one.
#[derive(Debug)]
pub struct Sender<T>(Arc<Shared<T>>);

/// Receives from the channel.
#[derive(Debug)]
pub struct Receiver<T>(Arc<Shared<T>>);

/// A channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for a value");
    let shared = Arc::new(Shared {
        queue: ArrayQueue::new(capacity),
        senders: AtomicUsize::new(1),
        receiver_gone: AtomicBool::new(false),
        not_empty: Signal::default(),
        anyone_waits: AtomicBool::new(false),
        full: Mutex::default(),
    });
    (Sender(Arc::clone(&shared)), Receiver(shared))
}

impl<T> Sender<T> {
    /// Sends at once, or gives the value back. A value sent in the very moment in which the receiver goes is dropped.
    ///
    /// # Errors
    /// If there is no room, or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        if self.0.receiver_gone.load(Ordering::Acquire) {
            return Err(TrySendError::Closed(value));
        }
        self.0.queue.push(value).map_err(TrySendError::Full)?;
        self.0.not_empty.notify();
        Ok(())
    }

    /// Sends when there is room.
    ///
    /// # Errors
    /// If the receiver is gone.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has not sent.
    pub async fn send(&self, value: T) -> Result<(), SendError<T>> {
        let mut value = Some(value);
        poll_fn(|cx| {
            for registered in [false, true] {
                let Some(taken) = value.take() else { return Poll::Ready(Ok(())) };
                match self.try_send(taken) {
                    Ok(()) => return Poll::Ready(Ok(())),
                    Err(TrySendError::Closed(back)) => return Poll::Ready(Err(SendError(back))),
                    Err(TrySendError::Full(back)) => value = Some(back),
                }
                if !registered {
                    let mut full = self.0.full.lock().unwrap_or_else(PoisonError::into_inner);
                    if !full.iter().any(|known| known.will_wake(cx.waker())) {
                        full.push(cx.waker().clone());
                    }
                    self.0.anyone_waits.store(true, Ordering::Relaxed);
                    drop(full);
                    fence(Ordering::SeqCst);
                }
            }
            Poll::Pending
        })
        .await
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.senders.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.senders.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.not_empty.notify();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives what is there.
    ///
    /// # Errors
    /// If there is nothing, and whether there ever will be.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(value) = self.0.queue.pop() {
            self.0.notify_senders();
            return Ok(value);
        }
        if self.0.senders.load(Ordering::Acquire) > 0 {
            return Err(TryRecvError::Empty);
        }
        // The last sender went after the first look: what it sent before is there now.
        self.0.queue.pop().ok_or(TryRecvError::Closed)
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
        for registered in [false, true] {
            match self.try_recv() {
                Ok(value) => return Poll::Ready(Some(value)),
                Err(TryRecvError::Closed) => return Poll::Ready(None),
                Err(TryRecvError::Empty) if !registered => self.0.not_empty.wait(cx.waker()),
                Err(TryRecvError::Empty) => {}
            }
        }
        Poll::Pending
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.0.receiver_gone.store(true, Ordering::Release);
        while self.0.queue.pop().is_some() {}
        self.0.notify_senders();
    }
}
