//! Registered event sources, and the two ways to wait for them.

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

/// The event queue of a runtime. The sockets of this crate use it implicitly; other sources must be
/// registered explicitly.
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
/// A handle is neither `Send` nor `Sync`.
#[derive(Clone)]
pub struct IoHandle(Rc<Reactor>);

impl IoHandle {
    /// Returns the event queue of the runtime that runs on this thread.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    #[must_use]
    pub fn current() -> Self {
        Self(Rc::clone(&context::current().reactor))
    }

    /// Registers a source with the kernel. The source must be in non-blocking mode, as the sources
    /// of `mio` are.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses, or if the source is already registered.
    pub fn register<S: Source>(
        &self,
        mut source: S,
        interest: Interest,
    ) -> io::Result<Registered<S>> {
        let (index, registration) = self.0.register(&mut source, interest)?;
        Ok(Registered { source: Some(source), reactor: Rc::clone(&self.0), index, registration })
    }

    /// Returns the number of registered sources. A spinning runtime makes no system call while no
    /// source is registered.
    #[must_use]
    pub fn registered(&self) -> usize {
        self.0.registered()
    }

    /// Returns the number of polls for events so far, including those that waited.
    #[must_use]
    pub fn event_polls(&self) -> u64 {
        self.0.poll_count()
    }

    /// Returns the time at which the last events were taken from the kernel. All tasks that these
    /// events wake see the same time. `None` before the first event of a source.
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

/// A source that is registered with a runtime by [`IoHandle::register`]. Dropping it deregisters
/// and drops the source. It is neither `Send` nor `Sync`.
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
    /// `None` only while this is dropped.
    source: Option<S>,
    reactor: Rc<Reactor>,
    index: usize,
    registration: Rc<Registration>,
}

impl<S: Source> Registered<S> {
    /// Returns the source. Use [`try_io`](Self::try_io) for an operation that may block, so that a
    /// later wait waits for a new event.
    #[must_use]
    pub fn get_ref(&self) -> &S {
        self.source.as_ref().expect("the source is there until the drop")
    }

    #[cfg(feature = "net")]
    pub(super) fn handle(&self) -> IoHandle {
        IoHandle(Rc::clone(&self.reactor))
    }

    /// Deregisters the source and returns it.
    ///
    /// # Errors
    /// Returns an error if the kernel refuses.
    pub fn deregister(mut self) -> io::Result<S> {
        let mut source = self.source.take().expect("the source is there until the drop");
        self.reactor.deregister(&mut source, self.index).map(|()| source)
    }

    /// Waits until a read may succeed. The read may still block: call it through
    /// [`try_io`](Self::try_io), and wait again if it does.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn readable(&self) -> Readiness<'_> {
        self.readiness(Direction::Read)
    }

    /// Waits until a write may succeed. The write may still block: call it through
    /// [`try_io`](Self::try_io), and wait again if it does.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn writable(&self) -> Readiness<'_> {
        self.readiness(Direction::Write)
    }

    /// Calls an operation on the source. If it would block, the next [`readable`](Self::readable)
    /// or [`writable`](Self::writable) waits for a new event.
    ///
    /// # Errors
    /// Returns the operation's error, including [`WouldBlock`](io::ErrorKind::WouldBlock).
    pub fn try_io<R>(
        &self,
        interest: Interest,
        operation: impl FnOnce(&S) -> io::Result<R>,
    ) -> io::Result<R> {
        let result = operation(self.get_ref());
        if matches!(&result, Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
            if interest.is_readable() {
                self.registration.read.clear_ready();
            }
            if interest.is_writable() {
                self.registration.write.clear_ready();
            }
        }
        result
    }

    /// Polls an operation that reads: calls it, and registers the waker if it would block. Only the
    /// last waker is kept.
    ///
    /// # Errors
    /// Returns the operation's error, or an error if it would block and the runtime has been
    /// dropped.
    pub fn poll_read_io<R>(
        &self,
        cx: &mut Context<'_>,
        operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        self.poll_io(Direction::Read, cx, None, operation)
    }

    /// Polls an operation that writes: calls it, and registers the waker if it would block. Only
    /// the last waker is kept.
    ///
    /// # Errors
    /// Returns the operation's error, or an error if it would block and the runtime has been
    /// dropped.
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

    /// Polls an operation. A future passes a ticket, with which it can deregister its waker; a
    /// `poll_*` method does not.
    pub(super) fn poll_io<R>(
        &self,
        direction: Direction,
        cx: &mut Context<'_>,
        ticket: Option<&mut Option<u64>>,
        mut operation: impl FnMut(&S) -> io::Result<R>,
    ) -> Poll<io::Result<R>> {
        let state = self.state(direction);
        if !state.is_ready() && self.reactor.is_closed() {
            // No event will report that the source has become ready since, but the operation does.
            state.set_ready();
        }
        if state.is_ready() {
            ready!(budget::poll_proceed(cx));
        }
        while state.is_ready() {
            match operation(self.get_ref()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => state.clear_ready(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => {
                    budget::spend();
                    return Poll::Ready(done);
                }
            }
        }
        if self.reactor.is_closed() {
            return Poll::Ready(Err(runtime_dropped_error()));
        }
        match ticket {
            Some(ticket) => state.register_future_waker(ticket, cx.waker()),
            None => state.register_poll_waker(cx.waker()),
        }
        Poll::Pending
    }
}

fn runtime_dropped_error() -> io::Error {
    io::Error::new(io::ErrorKind::NotConnected, "the runtime of this source has been dropped")
}

impl<S: Source> Drop for Registered<S> {
    fn drop(&mut self) {
        if let Some(source) = &mut self.source {
            // An error means that the kernel no longer watches the source.
            let _ = self.reactor.deregister(source, self.index);
        }
    }
}

impl<S: Source + fmt::Debug> fmt::Debug for Registered<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registered").field(self.get_ref()).finish()
    }
}

/// The future returned by [`Registered::readable`] and [`Registered::writable`]. It is neither `Send`
/// nor `Sync`.
///
/// # Cancel safety
/// Dropping the future loses no readiness.
#[must_use = "futures do nothing unless polled"]
pub struct Readiness<'a> {
    state: &'a ReadyState,
    reactor: &'a Reactor,
    ticket: Option<u64>,
}

impl Future for Readiness<'_> {
    type Output = io::Result<()>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.state.is_ready() {
            ready!(budget::poll_proceed(cx));
            budget::spend();
            return Poll::Ready(Ok(()));
        }
        if self.reactor.is_closed() {
            return Poll::Ready(Err(runtime_dropped_error()));
        }
        let this = &mut *self;
        this.state.register_future_waker(&mut this.ticket, cx.waker());
        Poll::Pending
    }
}

impl Drop for Readiness<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            self.state.deregister_waker(ticket);
        }
    }
}

impl fmt::Debug for Readiness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness").field("ready", &self.state.is_ready()).finish()
    }
}
