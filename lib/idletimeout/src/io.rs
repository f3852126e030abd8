//! A connection under an idle timeout.

use std::fmt;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::clock::{Clock, TachClock};
use crate::idle::{Elapsed, IdleTimeout};

pin_project! {
    /// A reader, a writer, or both, under an idle timeout. Its waits fail if nothing has moved in
    /// either direction for the length of the timeout. The error has the kind
    /// [`io::ErrorKind::TimedOut`] and contains [`Elapsed`]. The connection remains usable, and
    /// fails again after another such length.
    ///
    /// A read or a write moves something if it transfers at least one byte, reports the end of the
    /// data, or returns an error. A flush or a shutdown does so if it had to wait, or if something was
    /// written since the last one, which the inner writer may have kept until then. Any other flush
    /// does not count, nor does a read or a write with an empty buffer.
    ///
    /// It is not `Unpin`. Use `Box::pin` for libraries that require `Unpin`, such as `hyper`.
    ///
    /// # Cancel safety
    /// It is cancel safe if the inner reader or writer is. A cancelled read counts as waiting until
    /// the next read completes. A cancelled write does so until the next write, flush or shutdown
    /// completes.
    ///
    /// # Examples
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// use std::{io::ErrorKind, pin::pin, time::Duration};
    /// use idletimeout::{IdleIo, IdleTimeout};
    /// use tokio::io::AsyncReadExt;
    ///
    /// let (local, _remote) = tokio::io::duplex(64);
    /// let mut connection = pin!(IdleIo::new(local, IdleTimeout::new(Duration::from_millis(2))));
    /// let mut buffer = [0; 16];
    /// assert_eq!(connection.read(&mut buffer).await.unwrap_err().kind(), ErrorKind::TimedOut);
    /// # }
    /// ```
    ///
    /// # One task
    /// Only the task that polled last is woken. If two tasks use the two halves of a connection,
    /// put each half under a timeout of its own.
    #[must_use = "a connection does nothing unless it is polled"]
    pub struct IdleIo<T, C: Clock = TachClock> {
        #[pin]
        inner: T,
        #[pin]
        idle: IdleTimeout<C>,
        // Whether each direction has a pending wait. While it does, traffic in the other direction
        // is stamped, because no new wait begins.
        read_is_pending: bool,
        write_is_pending: bool,
        // Whether something was written, or a flush or a shutdown was pending, since the last one
        // that was ready.
        has_unflushed: bool,
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Read,
    Write,
}

impl<T, C: Clock> IdleIo<T, C> {
    /// Puts `inner` under the timeout `idle`. [`IdleIo`] has an example.
    pub fn new(inner: T, idle: IdleTimeout<C>) -> Self {
        Self { inner, idle, read_is_pending: false, write_is_pending: false, has_unflushed: false }
    }

    /// Returns the inner reader or writer.
    #[must_use]
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns the inner reader or writer for changes in place. Reads and writes through it do not
    /// count.
    #[must_use]
    pub fn get_pin_mut(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.project().inner
    }

    /// Returns the timeout, for example to set another length.
    #[must_use]
    pub fn idle(self: Pin<&mut Self>) -> Pin<&mut IdleTimeout<C>> {
        self.project().idle
    }

    /// Returns the inner reader or writer and drops the timeout.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.inner
    }

    /// Polls the inner reader or writer, and the timeout if that is pending. `has_moved` returns
    /// whether a ready result ends the silence.
    fn poll_with<R>(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        direction: Direction,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<R>>,
        has_moved: impl FnOnce(&R) -> bool,
    ) -> Poll<io::Result<R>> {
        let this = self.project();
        let (is_pending, is_other_pending) = match direction {
            Direction::Read => (this.read_is_pending, *this.write_is_pending),
            Direction::Write => (this.write_is_pending, *this.read_is_pending),
        };
        let result = poll(this.inner, cx);
        *is_pending = result.is_pending();
        match &result {
            Poll::Pending => {
                ready!(this.idle.poll_idle(cx));
                // The wait ends with this error.
                *is_pending = false;
                return Poll::Ready(Err(Elapsed(()).into()));
            }
            Poll::Ready(Ok(value)) if !has_moved(value) => {}
            Poll::Ready(_) if is_other_pending => this.idle.touch(),
            Poll::Ready(_) => this.idle.end_silence(),
        }
        result
    }

    fn poll_write_with(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let result = self.as_mut().poll_with(cx, Direction::Write, poll, |written| *written > 0);
        *self.project().has_unflushed |= matches!(result, Poll::Ready(Ok(1..)));
        result
    }

    /// Polls a flush or a shutdown, which may have moved what was written before.
    fn poll_flush_with(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut T>, &mut Context<'_>) -> Poll<io::Result<()>>,
    ) -> Poll<io::Result<()>> {
        let (had_unflushed, mut has_unflushed) = (self.has_unflushed, false);
        let poll_inner = |inner: Pin<&mut T>, cx: &mut Context<'_>| {
            let result = poll(inner, cx);
            has_unflushed = result.is_pending();
            result
        };
        let result = self.as_mut().poll_with(cx, Direction::Write, poll_inner, |()| had_unflushed);
        *self.project().has_unflushed = has_unflushed;
        result
    }
}

impl<T: AsyncRead, C: Clock> AsyncRead for IdleIo<T, C> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Without bytes, a read into a buffer with room reports the end of the data.
        let has_room = buffer.remaining() > 0;
        let poll = |inner: Pin<&mut T>, cx: &mut Context<'_>| inner.poll_read(cx, buffer);
        self.poll_with(cx, Direction::Read, poll, |()| has_room)
    }
}

impl<T: AsyncWrite, C: Clock> AsyncWrite for IdleIo<T, C> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |inner, cx| inner.poll_write(cx, bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_with(cx, T::poll_flush)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush_with(cx, T::poll_shutdown)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_with(cx, |inner, cx| inner.poll_write_vectored(cx, slices))
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
