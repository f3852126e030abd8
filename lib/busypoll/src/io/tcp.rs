//! TCP.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

use mio::Interest;

use super::operation::Operation;
use super::registered::{IoHandle, Readiness, Registered};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Accepts TCP connections.
///
/// ```
/// use busypoll::io::{TcpListener, TcpStream};
/// use busypoll::{Runtime, spawn_boxed};
///
/// let mut runtime = Runtime::new()?;
/// runtime.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
///     let addr = listener.local_addr()?;
///     let server = spawn_boxed(async move {
///         let (stream, _peer) = listener.accept().await?;
///         stream.write_all(b"hello").await
///     });
///     let mut greeting = [0; 5];
///     TcpStream::connect(addr).await?.read_exact(&mut greeting).await?;
///     assert_eq!(&greeting, b"hello");
///     server.await.unwrap()?;
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpListener(pub(super) Registered<mio::net::TcpListener>);

impl TcpListener {
    /// Listens on an address; port 0 lets the system choose one. On Unix an address can be bound
    /// again right after an earlier listener closed (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// If the address is in use or not local, or no descriptor is free.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        handle.register(mio::net::TcpListener::bind(addr)?, Interest::READABLE).map(Self)
    }

    /// Makes one from a listener of the standard library.
    ///
    /// # Errors
    /// If it cannot be made non-blocking or registered.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        let handle = IoHandle::current();
        listener.set_nonblocking(true)?;
        handle.register(mio::net::TcpListener::from_std(listener), Interest::READABLE).map(Self)
    }

    /// Accepts the next connection; returns it and the peer's address.
    ///
    /// # Errors
    /// Those of the system. They concern one connection, or a lack of descriptors: the listener
    /// stays usable. After the latter, sleep before calling it again.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, no connection is lost.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Operation::reading(&self.0, mio::net::TcpListener::accept).await?;
        Ok((self.adopt(stream)?, peer))
    }

    /// Polls [`accept`](Self::accept).
    ///
    /// # Errors
    /// As [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.0
            .poll_read_io(cx, mio::net::TcpListener::accept)
            .map(|accepted| accepted.and_then(|(stream, peer)| Ok((self.adopt(stream)?, peer))))
    }

    /// Registers the connection with the listener's runtime.
    fn adopt(&self, stream: mio::net::TcpStream) -> io::Result<TcpStream> {
        self.0.handle().register(stream, BOTH).map(TcpStream)
    }

    /// The address it listens on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local_addr", &self.local_addr().ok()).finish()
    }
}

/// A TCP connection.
///
/// ```
/// use busypoll::io::{TcpListener, TcpStream};
/// use std::io::{ErrorKind, IoSlice};
/// use std::net::Shutdown;
///
/// busypoll::Runtime::new()?.block_on(async {
///     let listener = TcpListener::bind("127.0.0.1:0".parse().unwrap())?;
///     let client = TcpStream::connect(listener.local_addr()?).await?;
///     let (server, peer) = listener.accept().await?;
///     assert_eq!((client.local_addr()?, client.peer_addr()?), (peer, server.local_addr()?));
///
///     let mut buf = [0; 16];
///     client.set_nodelay(true)?;
///     assert!(client.nodelay()?);
///     assert_eq!(server.try_read(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
///     client.write_vectored(&[IoSlice::new(b"hel"), IoSlice::new(b"lo")]).await?;
///     server.readable().await?;
///     assert_eq!(server.peek(&mut buf).await?, 5);
///     assert_eq!(server.read(&mut buf).await?, 5);
///
///     client.shutdown(Shutdown::Write)?;
///     assert_eq!(server.read(&mut buf).await?, 0);
///     server.writable().await?;
///     assert_eq!(server.try_write(b"bye")?, 3);
///     let read = std::future::poll_fn(|cx| client.poll_read(cx, &mut buf)).await?;
///     assert_eq!(&buf[..read], b"bye");
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct TcpStream(pub(super) Registered<mio::net::TcpStream>);

impl TcpStream {
    /// Connects to an address.
    ///
    /// # Errors
    /// If nobody listens there, the address is unreachable, or no descriptor is free.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it abandons the attempt.
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        let stream = Self(handle.register(mio::net::TcpStream::connect(addr)?, BOTH)?);
        Operation::writing(&stream.0, |stream: &mio::net::TcpStream| {
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Ok(_) => Ok(()),
                // Still under way: an event will follow.
                Err(error) if error.kind() == io::ErrorKind::NotConnected => {
                    Err(io::ErrorKind::WouldBlock.into())
                }
                Err(error) => Err(error),
            }
        })
        .await?;
        Ok(stream)
    }

    /// Makes one from a connected stream of the standard library.
    ///
    /// # Errors
    /// If it cannot be made non-blocking or registered.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        let handle = IoHandle::current();
        stream.set_nonblocking(true)?;
        handle.register(mio::net::TcpStream::from_std(stream), BOTH).map(Self)
    }

    /// Reads what is there, up to the buffer's size. 0 bytes mean that the peer has shut down its
    /// side, or that the buffer is empty.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has read nothing.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |mut stream: &mio::net::TcpStream| stream.read(buf)).await
    }

    /// Reads without consuming: the next read returns the same bytes.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropping it changes nothing.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |stream: &mio::net::TcpStream| stream.peek(buf)).await
    }

    /// Reads until the buffer is full.
    ///
    /// # Errors
    /// Those of the system, and [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the peer shuts
    /// down before that.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it may have read a part: how much is lost.
    pub async fn read_exact(&self, buf: &mut [u8]) -> io::Result<()> {
        let mut filled = 0;
        while filled < buf.len() {
            match self.read(&mut buf[filled..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                more => filled += more,
            }
        }
        Ok(())
    }

    /// Writes as much as there is room for; returns how much that was.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has written nothing.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Operation::writing(&self.0, |mut stream: &mio::net::TcpStream| stream.write(buf)).await
    }

    /// Writes several buffers in one call, as much as there is room for; returns how much that was.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has written nothing.
    pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Operation::writing(&self.0, |mut stream: &mio::net::TcpStream| stream.write_vectored(bufs))
            .await
    }

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// Those of the system, and [`WriteZero`](io::ErrorKind::WriteZero) if the system accepts no
    /// more bytes.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it may have written a part.
    pub async fn write_all(&self, mut buf: &[u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match self.write(buf).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                written => buf = &buf[written..],
            }
        }
        Ok(())
    }

    /// Reads without waiting.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |mut stream| stream.read(buf))
    }

    /// Writes without waiting.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |mut stream| stream.write(buf))
    }

    /// Waits until a read may succeed. It still may not.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn readable(&self) -> Readiness<'_> {
        self.0.readable()
    }

    /// Waits until a write may succeed. It still may not.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn writable(&self) -> Readiness<'_> {
        self.0.writable()
    }

    /// Polls [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read_io(cx, |mut stream| stream.read(buf))
    }

    /// Polls [`write`](Self::write).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |mut stream| stream.write(buf))
    }

    /// Polls [`write_vectored`](Self::write_vectored).
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |mut stream| stream.write_vectored(bufs))
    }

    /// Shuts down one direction, or both: the peer then reads 0 bytes.
    ///
    /// # Errors
    /// Those of the system.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.get_ref().shutdown(how)
    }

    /// The address of this end.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Those of the system.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.get_ref().nodelay()
    }

    /// Sends small writes at once instead of gathering them (`TCP_NODELAY`). Whoever counts
    /// microseconds wants this.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        self.0.get_ref().set_nodelay(nodelay)
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local_addr", &self.local_addr().ok())
            .field("peer_addr", &self.peer_addr().ok())
            .finish()
    }
}
