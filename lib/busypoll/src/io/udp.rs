//! UDP sockets.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use mio::Interest;

use super::operation::Operation;
use super::registered::{IoHandle, Readiness, Registered};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Sends and receives datagrams. A datagram arrives completely or not at all. A datagram that is
/// longer than the buffer is truncated (on Windows this is an error).
///
/// ```
/// use busypoll::io::UdpSocket;
/// use std::io::ErrorKind;
///
/// busypoll::Runtime::new()?.block_on(async {
///     let anywhere = "127.0.0.1:0".parse().unwrap();
///     let (first, second) = (UdpSocket::bind(anywhere)?, UdpSocket::bind(anywhere)?);
///     let mut buf = [0; 16];
///
///     first.send_to(b"hello", second.local_addr()?).await?;
///     let (length, from) = second.recv_from(&mut buf).await?;
///     assert_eq!((&buf[..length], from), (&b"hello"[..], first.local_addr()?));
///
///     first.connect(second.local_addr()?)?;
///     second.connect(from)?;
///     assert_eq!(first.try_recv(&mut buf).unwrap_err().kind(), ErrorKind::WouldBlock);
///     second.send(b"hi").await?;
///     assert_eq!(first.recv(&mut buf).await?, 2);
///     assert_eq!(second.peer_addr()?, from);
///     Ok::<(), std::io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct UdpSocket(pub(super) Registered<mio::net::UdpSocket>);

impl UdpSocket {
    /// Binds a socket to an address. With port 0, the system chooses a free port.
    ///
    /// # Errors
    /// Returns an error if the address is in use or not local, or if no descriptor is free.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        handle.register(mio::net::UdpSocket::bind(addr)?, BOTH).map(Self)
    }

    /// Creates a socket from one of the standard library.
    ///
    /// # Errors
    /// Returns an error if it cannot be made non-blocking or registered.
    ///
    /// # Panics
    /// Panics outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        let handle = IoHandle::current();
        socket.set_nonblocking(true)?;
        handle.register(mio::net::UdpSocket::from_std(socket), BOTH).map(Self)
    }

    /// Sets the address to which [`send`](Self::send) sends. The socket then receives only from
    /// this address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        self.0.get_ref().connect(addr)
    }

    /// Sends a datagram to the connected address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call, including one caused by an earlier
    /// datagram.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been sent.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        Operation::writing(&self.0, |socket: &mio::net::UdpSocket| socket.send(buf)).await
    }

    /// Sends a datagram to an address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call, including one caused by an earlier
    /// datagram.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, nothing has been sent.
    pub async fn send_to(&self, buf: &[u8], to: SocketAddr) -> io::Result<usize> {
        Operation::writing(&self.0, |socket: &mio::net::UdpSocket| socket.send_to(buf, to)).await
    }

    /// Receives a datagram from the connected address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, no datagram is lost.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |socket: &mio::net::UdpSocket| socket.recv(buf)).await
    }

    /// Receives a datagram. Returns its length and the sender's address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    ///
    /// # Cancel safety
    /// If the future is dropped before it is ready, no datagram is lost.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Operation::reading(&self.0, |socket: &mio::net::UdpSocket| socket.recv_from(buf)).await
    }

    /// Sends a datagram to the connected address without waiting.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if the send buffer is full, and any other
    /// error of the underlying system call.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |socket| socket.send(buf))
    }

    /// Sends a datagram to an address without waiting.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if the send buffer is full, and any other
    /// error of the underlying system call.
    pub fn try_send_to(&self, buf: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |socket| socket.send_to(buf, to))
    }

    /// Receives a datagram from the connected address without waiting.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has arrived, and any other
    /// error of the underlying system call.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |socket| socket.recv(buf))
    }

    /// Receives a datagram without waiting. Returns its length and the sender's address.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](io::ErrorKind::WouldBlock) if no datagram has arrived, and any other
    /// error of the underlying system call.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.try_io(Interest::READABLE, |socket| socket.recv_from(buf))
    }

    /// Polls [`recv_from`](Self::recv_from).
    ///
    /// # Errors
    /// Returns the same errors as [`recv_from`](Self::recv_from).
    pub fn poll_recv_from(
        &self,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll_read_io(cx, |socket| socket.recv_from(buf))
    }

    /// Polls [`send_to`](Self::send_to).
    ///
    /// # Errors
    /// Returns the same errors as [`send_to`](Self::send_to).
    pub fn poll_send_to(
        &self,
        cx: &mut Context<'_>,
        buf: &[u8],
        to: SocketAddr,
    ) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |socket| socket.send_to(buf, to))
    }

    /// Waits until a receive may succeed. The receive may still block.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn readable(&self) -> Readiness<'_> {
        self.0.readable()
    }

    /// Waits until a send may succeed. The send may still block.
    ///
    /// # Errors
    /// Returns an error if no earlier event has made it ready and the runtime has been dropped.
    pub fn writable(&self) -> Readiness<'_> {
        self.0.writable()
    }

    /// Returns the address to which the socket is bound.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Returns the connected address.
    ///
    /// # Errors
    /// Returns [`NotConnected`](io::ErrorKind::NotConnected) if the socket is not connected, and any
    /// other error of the underlying system call.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Sets whether the socket may send to broadcast addresses.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.0.get_ref().set_broadcast(on)
    }

    /// Joins a multicast group on the interface with this address.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.get_ref().join_multicast_v4(group, interface)
    }

    /// Joins a multicast group on the interface with this index.
    ///
    /// # Errors
    /// Returns any error of the underlying system call.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.get_ref().join_multicast_v6(group, interface)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local_addr", &self.local_addr().ok()).finish()
    }
}
