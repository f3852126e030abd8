//! The memory of a task, which contains its future and later its result.

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

/// The reason why a task has no output.
///
/// ```
/// use busypoll::{Runtime, spawn_boxed};
///
/// Runtime::new()?.block_on(async {
///     let error = spawn_boxed(async { panic!("no more") }).await.unwrap_err();
///     assert!(error.is_panic() && !error.is_cancelled());
///     let payload = error.try_into_panic().unwrap();
///     assert_eq!(payload.downcast_ref(), Some(&"no more"));
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct JoinError {
    /// The lock is never contended. It makes the error `Sync`, as other error types require. The
    /// box makes the error one word: a result that is not copied in one piece would have to wait
    /// until its own writes reach the cache.
    payload: Option<Box<Mutex<Box<dyn Any + Send>>>>,
}

impl JoinError {
    pub(crate) fn cancelled() -> Self {
        Self { payload: None }
    }

    pub(crate) fn panicked(payload: Box<dyn Any + Send>) -> Self {
        Self { payload: Some(Box::new(Mutex::new(payload))) }
    }

    /// Returns whether the task was aborted, or its runtime dropped, before it ended.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.payload.is_none()
    }

    /// Returns whether the task panicked.
    #[must_use]
    pub fn is_panic(&self) -> bool {
        self.payload.is_some()
    }

    /// Returns the panic's payload, for [`std::panic::resume_unwind`].
    ///
    /// # Errors
    /// Returns the error itself if the task was cancelled.
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

/// The operations of the executor on a task of unknown type.
pub(crate) trait ErasedStage {
    /// Polls the future. `Ready` means that the output is stored.
    ///
    /// # Panics
    /// Panics if the future or its destructor panics. The caller must then call
    /// [`fail`](Self::fail).
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    /// Drops the future and stores the error as the result. If the destructor panics, its panic is
    /// the result.
    fn fail(self: Pin<&mut Self>, error: JoinError);
    /// Moves the result into `out`, a `Poll<Result<T, JoinError>>`.
    fn take_result(self: Pin<&mut Self>, out: &mut dyn Any);
}

pin_project! {
    #[project = StageProj]
    pub(crate) enum Stage<F: Future> {
        Running { #[pin] future: F },
        Done { result: Result<F::Output, JoinError> },
        Gone,
    }
}

impl<F: Future<Output: 'static> + 'static> ErasedStage for Stage<F> {
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The output is written directly into the stage. A copy from a place that a smaller write
        // has just changed would have to wait until that write reaches the cache.
        let StageProj::Running { future } = self.as_mut().project() else { return Poll::Ready(()) };
        future.poll(cx).map(|output| self.as_mut().set(Self::Done { result: Ok(output) }))
    }

    #[cold]
    fn fail(mut self: Pin<&mut Self>, error: JoinError) {
        // Dropping and writing are two steps, so that the stage has left `Running` even if the
        // destructor panics.
        let dropped = catch_unwind(AssertUnwindSafe(|| self.as_mut().set(Self::Gone)));
        let error = dropped.map_or_else(JoinError::panicked, |()| error);
        self.set(Self::Done { result: Err(error) });
    }

    #[inline]
    fn take_result(mut self: Pin<&mut Self>, out: &mut dyn Any) {
        if let StageProj::Done { result } = self.as_mut().project()
            && let Some(out) = out.downcast_mut::<Poll<Result<F::Output, JoinError>>>()
        {
            *out = Poll::Ready(std::mem::replace(result, Err(JoinError::cancelled())));
        }
    }
}
