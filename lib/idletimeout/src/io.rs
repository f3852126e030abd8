//! A connection under an idle timeout.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::{Clock, TachClock};
use crate::idle::{Elapsed, IdleTimeout};

pin_project! {
    /// A reader, a writer, or both, whose waits fail when nothing has moved either way for the
    /// length of the timeout: with [`io::ErrorKind::TimedOut`], and [`Elapsed`] inside. It may be
    /// used further, until the next such length.
    ///
    /// It is not `Unpin`; `Box::pin` makes it so for those who ask for that, `hyper` among them.
    ///
    /// # Cancel safety
    /// That of the inner one. A read that is given up counts as waiting until the next one is done,
    /// and so does a write.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{io::ErrorKind, pin::pin, time::Duration};
    /// use idletimeout::{IdleIo, IdleTimeout};
    /// use tokio::io::AsyncReadExt;
    ///
    /// let (here, _there) = tokio::io::duplex(64);
    /// let mut connection = pin!(IdleIo::new(here, IdleTimeout::new(Duration::from_millis(2))));
    /// let mut buffer = [0; 16];
    /// assert_eq!(connection.read(&mut buffer).await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # }
    /// ```
    ///
    /// # One task
    /// The task that polled last is the one that is woken. Halves for two tasks are put under a
    /// timeout each.
    pub struct IdleIo<T, C: Clock = TachClock> {
        #[pin]
        inner: T,
        #[pin]
        idle: IdleTimeout<C>,
        // Whether each direction waits: what moves the other way is stamped then, for no new wait
        // begins.
        reading: bool,
        writing: bool,
    }
}

impl<T, C: Clock> IdleIo<T, C> {
    /// Puts `inner` under the timeout `idle`. [`IdleIo`] has an example.
    pub fn new(inner: T, idle: IdleTimeout<C>) -> Self {
        Self { inner, idle, reading: false, writing: false }
    }

    /// What is under the timeout.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// The same, to be changed in place. What is read or written there does not count.
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().inner
    }

    /// The timeout, for example to set another length.
    pub fn idle(self: Pin<&mut Self>) -> Pin<&mut IdleTimeout<C>> {
        self.project().idle
    }

    /// Takes it out from under the timeout.
    pub fn into_inner(self) -> T {
        self.inner
    }

    fn poll_with<R>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        is_read: bool,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        let this = self.project();
        let (waits, other_waits) =
            if is_read { (this.reading, *this.writing) } else { (this.writing, *this.reading) };
        let result = poll(this.inner, cx);
        *waits = result.is_pending();
        match (result, other_waits) {
            (Poll::Pending, _) => this.idle.poll_idle(cx).map(|()| Err(Elapsed(()).into())),
            (ready, true) => {
                this.idle.touch();
                ready
            }
            (ready, false) => {
                this.idle.come();
                ready
            }
        }
    }
}

impl<T: AsyncRead, C: Clock> AsyncRead for IdleIo<T, C> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.poll_with(cx, true, |inner, cx| inner.poll_read(cx, buffer))
    }
}

impl<T: AsyncWrite, C: Clock> AsyncWrite for IdleIo<T, C> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, false, |inner, cx| inner.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, false, |inner, cx| inner.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_with(cx, false, |inner, cx| inner.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_with(cx, false, |inner, cx| inner.poll_write_vectored(cx, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        Self::new(io::ErrorKind::TimedOut, elapsed)
    }
}

impl<T: fmt::Debug, C: Clock> fmt::Debug for IdleIo<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdleIo")
            .field("inner", &self.inner)
            .field("idle", &self.idle)
            .finish_non_exhaustive()
    }
}
