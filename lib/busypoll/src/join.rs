//! The end of a task, seen from outside.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use crate::core::Core;
use crate::task::Task;

/// Why a task has no output.
pub struct JoinError {
    /// The lock is never contended: it makes the error `Sync`, as error types of others expect it. In a box of its own,
    /// and so one word: a result that is not copied in one piece waits for its own writes to reach the cache.
    payload: Option<Box<Mutex<Box<dyn Any + Send>>>>,
}

impl JoinError {
    pub(crate) fn cancelled() -> Self {
        Self { payload: None }
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: Some(Box::new(Mutex::new(payload))) }
    }

    /// Whether the task was aborted, or its runtime dropped, before it ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.payload.is_none()
    }

    /// Whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.payload.is_some()
    }

    /// What it panicked with, for [`std::panic::resume_unwind`]; the error itself if it did not panic.
    ///
    /// # Errors
    /// If the task was cancelled.
    pub fn try_into_panic(self) -> Result<Box<dyn Any + Send>, Self> {
        let payload = self.payload.ok_or(Self { payload: None })?;
        Ok(payload.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_panic() { "JoinError::Panic" } else { "JoinError::Cancelled" })
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_panic() { "the task panicked" } else { "the task was cancelled" })
    }
}

impl std::error::Error for JoinError {}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> Self {
        Self::other(error)
    }
}

/// Awaits the output of a task. Dropped, it detaches: the task runs on, and its output is dropped when it ends.
///
/// It belongs to the runtime's thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::JoinHandle<()>>();
/// ```
///
/// ```compile_fail,E0277
/// fn sync<T: Sync>() {}
/// sync::<busypoll::JoinHandle<()>>();
/// ```
///
/// # Cancel safety
/// Polling it through `&mut` loses nothing.
///
/// # Panics
/// Polled again after it gave its output.
#[must_use = "a handle that is dropped detaches its task; say so with `drop`"]
pub struct JoinHandle<T> {
    core: Rc<Core>,
    task: Option<Rc<Task>>,
    output: PhantomData<fn() -> T>,
}

impl<T> JoinHandle<T> {
    pub(crate) fn new(core: Rc<Core>, task: Rc<Task>) -> Self {
        Self { core, task: Some(task), output: PhantomData }
    }

    /// Whether the task has ended, by whatever cause. Never blocks.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.is_live())
    }

    /// Has the task's future dropped when its turn comes, without polling it again. A task that has ended is not affected.
    pub fn abort(self) {
        if let Some(task) = &self.task {
            self.core.abort(task);
        }
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.task.as_ref().expect("a JoinHandle was polled after it gave its output");
        let mut out: Poll<Self::Output> = Poll::Pending;
        if self.core.join(task, cx.waker(), &mut out) {
            self.task = None;
            if out.is_pending() {
                // Nothing was left: its runtime has been dropped.
                out = Poll::Ready(Err(JoinError::cancelled()));
            }
        }
        out
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            self.core.detach(task);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
