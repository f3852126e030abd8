//! Many senders, one receiver, one thread: no atomics.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::{SendError, TryRecvError, TrySendError};

#[derive(Debug)]
struct State<T> {
    items: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receiver_gone: bool,
    receiver: Option<Waker>,
    waiting: VecDeque<Waker>,
}

/// Sends into the channel. Clones send into the same one.
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::channel::local::Sender<u8>>();
/// ```
#[derive(Debug)]
pub struct Sender<T>(Rc<RefCell<State<T>>>);

/// Receives from the channel.
#[derive(Debug)]
pub struct Receiver<T>(Rc<RefCell<State<T>>>);

/// A channel with room for `capacity` values.
///
/// # Panics
/// If `capacity` is zero.
#[must_use]
pub fn channel<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(capacity > 0, "a channel needs room for a value");
    let state = Rc::new(RefCell::new(State {
        items: VecDeque::with_capacity(capacity),
        capacity,
        senders: 1,
        receiver_gone: false,
        receiver: None,
        waiting: VecDeque::new(),
    }));
    (Sender(Rc::clone(&state)), Receiver(state))
}

impl<T> Sender<T> {
    /// Sends at once, or gives the value back.
    ///
    /// # Errors
    /// If there is no room, or the receiver is gone.
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let receiver = {
            let mut state = self.0.borrow_mut();
            if state.receiver_gone {
                return Err(TrySendError::Closed(value));
            }
            if state.items.len() == state.capacity {
                return Err(TrySendError::Full(value));
            }
            state.items.push_back(value);
            state.receiver.take()
        };
        if let Some(receiver) = receiver {
            receiver.wake();
        }
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
            let Some(taken) = value.take() else { return Poll::Ready(Ok(())) };
            match self.try_send(taken) {
                Ok(()) => Poll::Ready(Ok(())),
                Err(TrySendError::Closed(back)) => Poll::Ready(Err(SendError(back))),
                Err(TrySendError::Full(back)) => {
                    value = Some(back);
                    let mut state = self.0.borrow_mut();
                    if !state.waiting.iter().any(|known| known.will_wake(cx.waker())) {
                        state.waiting.push_back(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.0.borrow_mut().senders += 1;
        Self(Rc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let receiver = {
            let mut state = self.0.borrow_mut();
            state.senders -= 1;
            if state.senders == 0 { state.receiver.take() } else { None }
        };
        if let Some(receiver) = receiver {
            receiver.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// Receives what is there.
    ///
    /// # Errors
    /// If there is nothing, and whether there ever will be.
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        let (item, waiting) = {
            let mut state = self.0.borrow_mut();
            match state.items.pop_front() {
                // All that wait, not the first: it may have been dropped since, and its turn would be lost with it.
                Some(item) if state.waiting.is_empty() => return Ok(item),
                Some(item) => (item, std::mem::take(&mut state.waiting)),
                None if state.senders == 0 => return Err(TryRecvError::Closed),
                None => return Err(TryRecvError::Empty),
            }
        };
        waiting.into_iter().for_each(Waker::wake);
        Ok(item)
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
        match self.try_recv() {
            Ok(item) => Poll::Ready(Some(item)),
            Err(TryRecvError::Closed) => Poll::Ready(None),
            Err(TryRecvError::Empty) => {
                let old = self.0.borrow_mut().receiver.replace(cx.waker().clone());
                drop(old);
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let (items, waiting) = {
            let mut state = self.0.borrow_mut();
            state.receiver_gone = true;
            (std::mem::take(&mut state.items), std::mem::take(&mut state.waiting))
        };
        drop(items);
        waiting.into_iter().for_each(Waker::wake);
    }
}
