//! TCP sockets.

use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::task::{Context, Poll};

use mio::Interest;

use super::operation::Operation;
use super::registered::{IoHandle, Readiness, Registered};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Checks whether a connection is established. If it is not yet, an event will follow.
fn check_connected(stream: &mio::net::TcpStream) -> io::Result<()> {
    if let Some(error) = stream.take_error()? {
        return Err(error);
    }
    match stream.peer_addr() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        Err(error) => Err(error),
    }
}

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
    /// Listens on an address. With port 0, the system chooses a free port. On Unix, an address can
    /// be bound again right after an earlier listener was closed (`SO_REUSEADDR`).
    ///
    /// # Errors
    /// Returns an error if the address is in use or not local, or if no descriptor is free.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        handle.register(mio::net::TcpListener::bind(addr)?, Interest::READABLE).map(Self)
    }

    /// Creates a listener from one of the standard library.
    ///
    /// # Errors
    /// Returns an error if it cannot be made non-blocking or registered.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(listener: std::net::TcpListener) -> io::Result<Self> {
        let handle = IoHandle::current();
        listener.set_nonblocking(true)?;
        handle.register(mio::net::TcpListener::from_std(listener), Interest::READABLE).map(Self)
    }

    /// Accepts the next connection. Returns it with the peer's address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call. An error concerns one connection or a lack
    /// of descriptors, and the listener stays usable. After a lack of descriptors, sleep before the
    /// next call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, no connection is lost.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        let (stream, peer) = Operation::reading(&self.0, mio::net::TcpListener::accept).await?;
        Ok((self.adopt(stream)?, peer))
    }

    /// Polls [`accept`](Self::accept).
    ///
    /// # Errors
    /// Returns the same errors as [`accept`](Self::accept).
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        self.0
            .poll_read_io(cx, mio::net::TcpListener::accept)
            .map(|accepted| accepted.and_then(|(stream, peer)| Ok((self.adopt(stream)?, peer))))
    }

    /// Registers the connection with the listener's runtime.
    fn adopt(&self, stream: mio::net::TcpStream) -> io::Result<TcpStream> {
        self.0.handle().register(stream, BOTH).map(TcpStream)
    }

    /// Returns the address on which it listens.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener").field("local_addr", &self.local_addr().ok()).finish()
    }
}

/// A TCP connection. It implements the I/O traits of tokio with the feature `tokio-compat`, and those
/// of the crate `futures-io` with the feature `futures-io`.
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
    /// Returns an error if the peer refuses the connection, the address is unreachable, or no
    /// descriptor is free.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, the attempt is abandoned.
    pub async fn connect(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        let stream = Self(handle.register(mio::net::TcpStream::connect(addr)?, BOTH)?);
        Operation::writing(&stream.0, check_connected).await?;
        Ok(stream)
    }

    /// Creates a stream from a connected one of the standard library.
    ///
    /// # Errors
    /// Returns an error if it cannot be made non-blocking or registered.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        let handle = IoHandle::current();
        stream.set_nonblocking(true)?;
        handle.register(mio::net::TcpStream::from_std(stream), BOTH).map(Self)
    }

    /// Reads the available bytes, up to the size of the buffer. A result of 0 bytes means that the
    /// peer has shut down its side, or that the buffer is empty.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been read.
    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |mut stream: &mio::net::TcpStream| stream.read(buf)).await
    }

    /// Reads without consuming. The next read returns the same bytes.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |stream: &mio::net::TcpStream| stream.peek(buf)).await
    }

    /// Reads until the buffer is full.
    ///
    /// # Errors
    /// Returns [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the peer shuts down before that,
    /// and any other error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, an unknown number of bytes may have been read.
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

    /// Writes as many bytes as the system accepts. Returns their number.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been written.
    pub async fn write(&self, buf: &[u8]) -> io::Result<usize> {
        Operation::writing(&self.0, |mut stream: &mio::net::TcpStream| stream.write(buf)).await
    }

    /// Writes several buffers in one call, as many bytes as the system accepts. Returns their
    /// number.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been written.
    pub async fn write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        Operation::writing(&self.0, |mut stream: &mio::net::TcpStream| stream.write_vectored(bufs))
            .await
    }

    /// Writes the whole buffer.
    ///
    /// # Errors
    /// Returns [`WriteZero`](io::ErrorKind::WriteZero) if the system accepts no more bytes, and any
    /// other error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, a part may have been written.
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
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if there is nothing to read, and any other
    /// error of the underlying system call.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |mut stream| stream.read(buf))
    }

    /// Writes without waiting.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if the send buffer is full, and any other
    /// error of the underlying system call.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |mut stream| stream.write(buf))
    }

    /// Waits until a read may succeed. The read may still block.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn readable(&self) -> Readiness<'_> {
        self.0.readable()
    }

    /// Waits until a write may succeed. The write may still block.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn writable(&self) -> Readiness<'_> {
        self.0.writable()
    }

    /// Polls [`read`](Self::read).
    ///
    /// # Errors
    /// Returns the same errors as [`read`](Self::read).
    pub fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.poll_read_io(cx, |mut stream| stream.read(buf))
    }

    /// Polls [`write`](Self::write).
    ///
    /// # Errors
    /// Returns the same errors as [`write`](Self::write).
    pub fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |mut stream| stream.write(buf))
    }

    /// Polls [`write_vectored`](Self::write_vectored).
    ///
    /// # Errors
    /// Returns the same errors as [`write`](Self::write).
    pub fn poll_write_vectored(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |mut stream| stream.write_vectored(bufs))
    }

    /// Shuts down one direction or both. The peer then reads 0 bytes.
    ///
    /// # Errors
    /// Returns any error of the underlying system call, such as
    /// [`NotConnected`](io::ErrorKind::NotConnected) if the peer has reset the connection.
    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.0.get_ref().shutdown(how)
    }

    /// Shuts down writing for the traits, which succeeds if the connection is already gone.
    #[cfg(any(feature = "tokio-compat", feature = "futures-io"))]
    pub(crate) fn close_write_half(&self) -> io::Result<()> {
        match self.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            result => result,
        }
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Returns the peer's address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Returns whether small writes are sent at once (`TCP_NODELAY`).
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn nodelay(&self) -> io::Result<bool> {
        self.0.get_ref().nodelay()
    }

    /// Sets whether small writes are sent at once instead of being collected (`TCP_NODELAY`).
    /// Enable this if microseconds matter.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
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
