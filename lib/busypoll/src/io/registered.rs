//! A source that a runtime watches, and the two ways to wait for it.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use mio::Interest;
use mio::event::Source;

use crate::budget;
use crate::context;
use crate::reactor::{Reactor, ReadyState, Registration};

/// A runtime's event queue. This crate's sockets find it by themselves; register other sources with
/// it.
///
/// ```
/// # #[cfg(any(target_os = "linux", target_os = "android"))] {
/// use busypoll::io::{Interest, IoHandle};
/// use std::io::Read;
/// use std::os::fd::AsRawFd;
///
/// busypoll::Runtime::new()?.block_on(async {
///     // A pipe of the standard library, watched by its descriptor.
///     let (mut reader, writer) = std::io::pipe()?;
///     let descriptor = reader.as_raw_fd();
///     let watched = IoHandle::current().register(mio::unix::SourceFd(&descriptor), Interest::READABLE)?;
///     drop(writer);
///     watched.readable().await?;
///     assert_eq!(reader.read(&mut [0; 1])?, 0);
///     assert_eq!(IoHandle::current().registered(), 1);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// It belongs to the runtime's thread:
///
/// ```compile_fail,E0277
/// fn send<T: Send>() {}
/// send::<busypoll::io::IoHandle>();
/// ```
#[derive(Clone)]
pub struct IoHandle(Rc<Reactor>);

impl IoHandle {
    /// The event queue of the runtime that runs on this thread.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    #[must_use]
    pub fn current() -> Self {
        Self(Rc::clone(&context::current().reactor))
    }

    /// Has the kernel watch a source. It must be in non-blocking mode, as the sources of `mio` are.
    ///
    /// # Errors
    /// If the kernel refuses, or the source is registered already.
    pub fn register<S: Source>(
        &self,
        mut source: S,
        interest: Interest,
    ) -> io::Result<Registered<S>> {
        let (index, registration) = self.0.register(&mut source, interest)?;
        Ok(Registered { source: Some(source), reactor: Rc::clone(&self.0), index, registration })
    }

    /// How many sources are registered. While there is none, a spinning runtime makes no system
    /// call.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.0.registered()
    }

    /// How many times the kernel was asked for events so far, with or without waiting for one.
    #[must_use]
    pub fn event_polls(&self) -> u64 {
        self.0.polls()
    }

    /// When the last events came from the kernel: one clock reading for all the tasks they wake.
    /// `None` before the first event of a source.
    #[must_use]
    pub fn event_time(&self) -> Option<Instant> {
        self.0.event_time()
    }
}

impl fmt::Debug for IoHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoHandle").field("registered", &self.registered()).finish()
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A source that a runtime watches, made by [`IoHandle::register`]. Dropping it ends that and drops
/// the source.
///
/// ```
/// # #[cfg(feature = "net")] {
/// use busypoll::io::{Interest, IoHandle};
/// use std::io::ErrorKind;
///
/// busypoll::Runtime::new()?.block_on(async {
///     let socket = mio::net::UdpSocket::bind("127.0.0.1:0".parse().unwrap())?;
///     let addr = socket.local_addr()?;
///     let socket = IoHandle::current().register(socket, Interest::READABLE | Interest::WRITABLE)?;
///     let mut buf = [0; 16];
///     let early = socket.try_io(Interest::READABLE, |socket| socket.recv_from(&mut buf));
///     assert_eq!(early.unwrap_err().kind(), ErrorKind::WouldBlock);
///
///     socket.writable().await?;
///     socket.get_ref().send_to(b"hello", addr)?;
///     let (length, _) = std::future::poll_fn(|cx| socket.poll_read_io(cx, |socket| socket.recv_from(&mut buf))).await?;
///     assert_eq!(&buf[..length], b"hello");
///     let _unwatched: mio::net::UdpSocket = socket.deregister()?;
///     Ok::<(), std::io::Error>(())
/// })?;
/// # }
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Registered<S: Source> {
    /// `None` only while dropped.
    source: Option<S>,
    reactor: Rc<Reactor>,
    index: usize,
    registration: Rc<Registration>,
}

impl<S: Source> Registered<S> {
    /// The source. For an operation that may block, use [`try_io`](Self::try_io): it notes when to
    /// wait for an event.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        self.source.as_ref().expect("the source is there until the drop")
    }

    #[cfg(feature = "net")]
    pub(super) fn handle(&self) -> IoHandle {
        IoHandle(Rc::clone(&self.reactor))
    }

    /// Stops watching and returns the source.
    ///
    /// # Errors
    /// If the kernel refuses to stop watching.
    pub fn deregister(mut self) -> io::Result<S> {
        let mut source = self.source.take().expect("the source is there until the drop");
        self.reactor.deregister(&mut source, self.index).map(|()| source)
    }

    /// Waits until a read may succeed. It still may not: try it with [`try_io`](Self::try_io), and
    /// wait again.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn readable(&self) -> Readiness<'_> {
        self.readiness(Direction::Read)
    }

    /// Waits until a write may succeed. It still may not: try it with [`try_io`](Self::try_io), and
    /// wait again.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn writable(&self) -> Readiness<'_> {
        self.readiness(Direction::Write)
    }

    /// Tries an operation on the source. If it would block, [`readable`](Self::readable) or
    /// [`writable`](Self::writable) waits for the next event from then on.
    ///
    /// # Errors
    /// Those of the operation, including [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        let result = operation(self.get_ref());
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            if interest.is_readable() {
                self.registration.read.would_block();
            }
            if interest.is_writable() {
                self.registration.write.would_block();
            }
        }
        result
    }

    /// Polls an operation that reads: tries it, and registers the waker if it would block. Only the
    /// last waker is kept.
    ///
    /// # Errors
    /// Those of the operation, and if the runtime is gone.
    pub fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(Direction::Read, cx, None, operation)
    }

    /// Polls an operation that writes: tries it, and registers the waker if it would block. Only
    /// the last waker is kept.
    ///
    /// # Errors
    /// Those of the operation, and if the runtime is gone.
    pub fn poll_write_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(Direction::Write, cx, None, operation)
    }

    fn readiness(&self, direction: Direction) -> Readiness<'_> {
        Readiness { state: self.state(direction), reactor: &self.reactor, ticket: None }
    }

    pub(super) fn state(&self, direction: Direction) -> &ReadyState {
        match direction {
            Direction::Read => &self.registration.read,
            Direction::Write => &self.registration.write,
        }
    }

    /// With a ticket, for a future, which withdraws its waker; without, for a `poll_` method.
    pub(super) fn poll_io<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        ticket: Option<&mut Option<u64>>,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let state = self.state(direction);
        if state.is_ready() {
            ready!(budget::poll_proceed(cx));
        }
        while state.is_ready() {
            match operation(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.would_block(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    budget::spend();
                    return Poll::Ready(done);
                }
            }
        }
        if self.reactor.is_closed() {
            return Poll::Ready(Err(runtime_gone()));
        }
        match ticket {
            Some(ticket) => state.wait_with(ticket, cx.waker()),
            None => state.poll_with(cx.waker()),
        }
        Poll::Pending
    }
}

fn runtime_gone() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the runtime that watched this source is gone")
}

impl<S: Source> Drop for Registered<S> {
    fn drop(&mut self) {
        if let Some(source) = &mut self.source {
            // A kernel that no longer knows the source does not watch it either.
            let _ = self.reactor.deregister(source, self.index);
        }
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(self.get_ref()).finish()
    }
}

/// The future of [`Registered::readable`] and [`Registered::writable`].
#[must_use = "futures do nothing unless polled"]
pub struct Readiness<'a> {
    state: &'a ReadyState,
    reactor: &'a Reactor,
    ticket: Option<u64>,
}

impl Future for Readiness<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.reactor.is_closed() {
            return Poll::Ready(Err(runtime_gone()));
        }
        if self.state.is_ready() {
            ready!(budget::poll_proceed(cx));
            budget::spend();
            return Poll::Ready(Ok(()));
        }
        let this = &mut *self;
        this.state.wait_with(&mut this.ticket, cx.waker());
        Poll::Pending
    }
}

impl Drop for Readiness<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.state.forget(ticket);
        }
    }
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("ready", &self.state.is_ready()).finish()
    }
}
