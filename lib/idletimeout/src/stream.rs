//! A stream under an idle timeout.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use pin_project_lite::pin_project;

use crate::clock::{Clock, TachClock};
use crate::idle::{Elapsed, IdleTimeout};

pin_project! {
    /// A stream under an idle timeout. It yields the items as `Ok`, and an `Err` whenever no item
    /// has come for the length of the timeout.
    ///
    /// An item ends the silence, and the next silence begins when the stream is first polled
    /// without an item. The stream continues after an `Err`, with another `Err` for each further
    /// length without an item. It ends when the inner stream ends.
    ///
    /// # Cancel safety
    /// The stream keeps its state between polls, so dropping the future of a `next` loses nothing.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{future::poll_fn, pin::{Pin, pin}, task::{Context, Poll}, time::Duration};
    /// use futures_core::Stream;
    /// use idletimeout::{IdleStream, IdleTimeout};
    ///
    /// /// A stream without items.
    /// struct Silent;
    /// impl Stream for Silent {
    ///     type Item = u32;
    ///     fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<u32>> {
    ///         Poll::Pending
    ///     }
    /// }
    /// let mut stream = pin!(IdleStream::new(Silent, IdleTimeout::new(Duration::from_millis(2))));
    /// assert!(matches!(poll_fn(|cx| stream.as_mut().poll_next(cx)).await, Some(Err(_))));
    /// # }
    /// ```
    #[must_use = "streams do nothing unless polled"]
    pub struct IdleStream<S, C: Clock = TachClock> {
        #[pin]
        stream: S,
        #[pin]
        idle: IdleTimeout<C>,
    }
}

impl<S, C: Clock> IdleStream<S, C> {
    /// Puts `stream` under the timeout `idle`. [`IdleStream`] has an example.
    pub fn new(stream: S, idle: IdleTimeout<C>) -> Self {
        Self { stream, idle }
    }
}

impl<S: Stream, C: Clock> Stream for IdleStream<S, C> {
    type Item = Result<S::Item, Elapsed>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.project();
        if let Poll::Ready(item) = this.stream.poll_next(cx) {
            this.idle.end_silence();
            return Poll::Ready(item.map(Ok));
        }
        this.idle.poll_idle(cx).map(|()| Some(Err(Elapsed(()))))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Any number of errors may be yielded in between.
        (self.stream.size_hint().0, None)
    }
}

impl<S, C: Clock> fmt::Debug for IdleStream<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleStream").field("idle", &self.idle).finish_non_exhaustive()
    }
}
