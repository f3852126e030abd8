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
    /// Moves the result into `out`, an `Option<Result<T, JoinError>>`.
    fn take(self: Pin<&mut Self>, out: &mut dyn Any);
}

pin_project! {
    #[project = StageProj]
    #[project_replace = StageOwned]
    pub(crate) enum Stage<F: Future> {
        Running { #[pin] future: F },
        Done { result: Result<F::Output, JoinError> },
        Gone,
    }
}

impl<F: Future> Stage<F> {
    /// Replaces the future by its result. A panic of the future's destructor becomes the result.
    fn finish(mut self: Pin<&mut Self>, result: Result<F::Output, JoinError>) {
        if !std::mem::needs_drop::<F>() {
            self.set(Self::Done { result });
            return;
        }
        // Dropping and writing are two steps: whatever the destructor does, the stage is no longer `Running`.
        let dropped = catch_unwind(AssertUnwindSafe(|| self.as_mut().set(Self::Gone)));
        let result = match dropped {
            Ok(()) => result,
            Err(payload) => Err(JoinError::panicked(payload)),
        };
        self.set(Self::Done { result });
    }
}

impl<F> TaskCell for Stage<F>
where
    F: Future + 'static,
    F::Output: 'static,
{
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let StageProj::Running { future } = self.as_mut().project() else { return Poll::Ready(()) };
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::panicked(payload)),
        };
        self.finish(result);
        Poll::Ready(())
    }

    fn cancel(self: Pin<&mut Self>) {
        self.finish(Err(JoinError::cancelled()));
    }

    fn take(mut self: Pin<&mut Self>, out: &mut dyn Any) {
        if let StageOwned::Done { result } = self.as_mut().project_replace(Self::Gone)
            && let Some(out) = out.downcast_mut::<Option<Result<F::Output, JoinError>>>()
        {
            *out = Some(result);
        }
    }
}

/// A task wherever it lives.
pub(crate) enum Stored {
    Boxed(Pin<Box<dyn TaskCell>>),
    Slab(PinnedSlot),
}

impl Stored {
    pub(crate) fn as_mut(&mut self) -> Pin<&mut dyn TaskCell> {
        match self {
            Self::Boxed(cell) => cell.as_mut(),
            Self::Slab(cell) => cell.as_mut(),
        }
    }
}
