//! The handle of a spawned task.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::executor::Executor;
use crate::stage::JoinError;
use crate::task::Task;

/// The handle of a spawned task, which returns the task's output when awaited. Dropping the handle
/// detaches the task: it continues to run, and its output is dropped when it ends.
///
/// ```
/// use busypoll::{Runtime, spawn_boxed, yield_now};
/// use std::future::pending;
///
/// Runtime::new()?.block_on(async {
///     let task = spawn_boxed(async { 6 * 7 });
///     assert!(!task.is_finished());
///     yield_now().await;
///     assert!(task.is_finished());
///     assert_eq!(task.await.unwrap(), 42);
///
///     spawn_boxed(pending::<()>()).abort();
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// A handle is neither `Send` nor `Sync`.
///
/// # Panics
/// Panics if polled again after it returned its output.
///
/// # Cancel safety
/// Polling the handle through `&mut` loses nothing.
#[must_use = "a handle that is dropped detaches its task; make that explicit with `drop`"]
pub struct JoinHandle<T> {
    executor: Rc<Executor>,
    task: Option<Rc<Task>>,
    output: PhantomData<fn() -> T>,
}

impl<T> JoinHandle<T> {
    /// Creates a handle. `T` must be the output of the task's future.
    #[inline]
    pub(crate) fn new(executor: Rc<Executor>, task: Rc<Task>) -> Self {
        Self { executor, task: Some(task), output: PhantomData }
    }

    /// Returns whether the task has ended, for whatever reason. Never blocks.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.task.as_ref().is_none_or(|task| !task.is_live())
    }

    /// Drops the task's future at its next turn, without polling it again. Does nothing if the task
    /// has ended.
    pub fn abort(self) {
        if let Some(task) = &self.task {
            self.executor.abort(task);
        }
    }
}

impl<T: 'static> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task =
            self.task.as_ref().expect("a JoinHandle was polled after it returned its output");
        let mut out: Poll<Self::Output> = Poll::Pending;
        if self.executor.poll_join(task, cx.waker(), &mut out) {
            self.task = None;
            if out.is_pending() {
                // The runtime has been dropped, along with the result.
                out = Poll::Ready(Err(JoinError::cancelled()));
            }
        }
        out
    }
}

impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            self.executor.detach(task);
        }
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("finished", &self.is_finished()).finish()
    }
}
