//! A stream under an idle timeout.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::clock::{Clock, TachClock};
use crate::idle::{Elapsed, IdleTimeout};

pin_project! {
    /// The items of a stream as `Ok`, and an `Err` whenever none has come for the length of the timeout.
    ///
    /// An item is a touch. The stream goes on after an `Err`, with another one for each further length without an item;
    /// it ends when the inner one does.
    pub struct IdleStream<S, C: Clock = TachClock> {
        #[pin]
        stream: S,
        #[pin]
        idle: IdleTimeout<C>,
    }
}

impl<S, C: Clock> IdleStream<S, C> {
    /// A stream and the timeout it is to have.
    pub fn new(stream: S, idle: IdleTimeout<C>) -> Self {
        Self { stream, idle }
    }
}

impl<S: Stream, C: Clock> Stream for IdleStream<S, C> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            this.idle.touch();
            return Poll::Ready(item.map(Ok));
        }
        this.idle.poll_idle(cx).map(|()| Some(Err(Elapsed(()))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Errors may come in between, any number of them.
        (self.stream.size_hint().0, None)
    }
}

impl<S, C: Clock> fmt::Debug for IdleStream<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleStream").field("idle", &self.idle).finish_non_exhaustive()
    }
}
