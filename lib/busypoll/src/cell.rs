//! A future and, later, its output, in one place.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::join::JoinError;
use crate::slab::PinnedSlot;

/// What the executor can do with a task without knowing its type.
pub(crate) trait TaskCell {
    /// Polls the future. `Ready` means that the output, or the panic, is stored.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    /// Drops the future and stores the cancellation as the result.
    fn cancel(self: Pin<&mut Self>);
    /// Moves the result into `out`, a `Poll<Result<T, JoinError>>`.
    fn take(self: Pin<&mut Self>, out: &mut dyn Any);
}

pin_project! {
    #[project = StageProj]
    pub(crate) enum Stage<F: Future> {
        Running { #[pin] future: F },
        Done { result: Result<F::Output, JoinError> },
        Gone,
    }
}

impl<F: Future> Stage<F> {
    /// Replaces whatever is there by what stands for no output. A panic of its destructor is in place of the error.
    #[cold]
    fn fail(mut self: Pin<&mut Self>, error: JoinError) {
        // Dropping and writing are two steps: whatever the destructor does, the stage is no longer `Running`.
        let dropped = catch_unwind(AssertUnwindSafe(|| self.as_mut().set(Self::Gone)));
        let error = dropped.map_or_else(JoinError::panicked, |()| error);
        self.set(Self::Done { result: Err(error) });
    }
}

impl<F> TaskCell for Stage<F>
where
    F: Future + 'static,
    F::Output: 'static,
{
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // The output is written where it stays, inside of this: copied from where a smaller write has just been, it
        // would have to wait for that write to reach the cache.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            let StageProj::Running { future } = self.as_mut().project() else { return Poll::Ready(()) };
            future.poll(cx).map(|output| self.as_mut().set(Self::Done { result: Ok(output) }))
        }));
        polled.unwrap_or_else(|payload| {
            self.fail(JoinError::panicked(payload));
            Poll::Ready(())
        })
    }

    fn cancel(self: Pin<&mut Self>) {
        self.fail(JoinError::cancelled());
    }

    #[inline]
    fn take(mut self: Pin<&mut Self>, out: &mut dyn Any) {
        if let StageProj::Done { result } = self.as_mut().project()
            && let Some(out) = out.downcast_mut::<Poll<Result<F::Output, JoinError>>>()
        {
            *out = Poll::Ready(std::mem::replace(result, Err(JoinError::cancelled())));
        }
    }
}

/// A task wherever it lives.
pub(crate) enum Stored {
    Boxed(Pin<Box<dyn TaskCell>>),
    Slab(PinnedSlot),
}

impl Stored {
    #[inline]
    pub(crate) fn as_mut(&mut self) -> Pin<&mut dyn TaskCell> {
        match self {
            Self::Boxed(cell) => cell.as_mut(),
            Self::Slab(cell) => cell.as_mut(),
        }
    }
}
