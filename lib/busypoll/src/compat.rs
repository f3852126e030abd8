//! Support for futures that depend on tokio. Feature `tokio-compat`.
//!
//! Tokio's channels and locks (`tokio::sync`), and the handles of tasks on a tokio runtime, can be
//! awaited in this runtime directly. A future that must be polled inside a tokio runtime, such as
//! tokio's sockets and timers, needs [`with_tokio`].
//!
//! Another thread must drive the tokio runtime: one of its own workers (`new_multi_thread`), or a
//! thread inside its `block_on`. The events of the tokio runtime arrive here as wakes from that
//! thread.
//!
//! With feature `net`, [`TcpStream`](crate::io::TcpStream) also implements tokio's `AsyncRead` and
//! `AsyncWrite`. As with tokio's stream, `poll_shutdown` succeeds if the connection is already gone.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::runtime::Handle;

pin_project! {
    /// The future returned by [`with_tokio`]. It is `Send` and `Sync` if the future inside is.
    ///
    /// # Cancel safety
    /// Dropping it drops the future inside, in the context of the tokio runtime.
    #[must_use = "futures do nothing unless polled"]
    pub struct WithTokio<F> {
        // `None` once the future has ended or is being dropped.
        #[pin]
        future: Option<F>,
        handle: Handle,
    }

    impl<F> PinnedDrop for WithTokio<F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let _inside = this.handle.enter();
            this.future.set(None);
        }
    }
}

/// Runs a future on this thread, and polls and drops it inside the context of a tokio runtime.
/// Tasks that it spawns with `tokio::spawn` run on the tokio runtime.
///
/// ```
/// use busypoll::{Runtime, compat::with_tokio};
/// use std::time::Duration;
///
/// let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
/// let handle = tokio.handle().clone();
/// Runtime::new()?.block_on(with_tokio(&handle, async {
///     tokio::time::sleep(Duration::from_millis(1)).await;
/// }));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Panics
/// Panics if polled again after it returned its output.
pub fn with_tokio<F: Future>(handle: &Handle, future: F) -> WithTokio<F> {
    WithTokio { future: Some(future), handle: handle.clone() }
}

impl<F: Future> Future for WithTokio<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let mut this = self.project();
        let _inside = this.handle.enter();
        let future =
            this.future.as_mut().as_pin_mut().expect("polled after it returned its output");
        // Returning the value of `poll` would copy `Pending` with the size of an output.
        let Poll::Ready(output) = future.poll(cx) else { return Poll::Pending };
        this.future.set(None);
        Poll::Ready(output)
    }
}

impl<F> fmt::Debug for WithTokio<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WithTokio").field("ended", &self.future.is_none()).finish_non_exhaustive()
    }
}

#[cfg(feature = "net")]
mod streams {
    use std::io::{self, IoSlice};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

    use crate::io::TcpStream;

    impl AsyncRead for TcpStream {
        fn poll_read(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let read = Self::poll_read(&self, cx, buf.initialize_unfilled());
            read.map(|result| result.map(|n| buf.advance(n)))
        }
    }

    impl AsyncWrite for TcpStream {
        fn poll_write(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            Self::poll_write(&self, cx, buf)
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            bufs: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            Self::poll_write_vectored(&self, cx, bufs)
        }

        fn is_write_vectored(&self) -> bool {
            true
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(self.close_write_half())
        }
    }
}
