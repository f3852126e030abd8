//! Datagrams.

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll};

use mio::Interest;

use super::operation::Operation;
use super::registered::{IoHandle, Readiness, Registered};

const BOTH: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// Sends and receives datagrams, each whole or not at all. One that is longer than the buffer it is received into is cut
/// (on Windows an error).
pub struct UdpSocket(pub(super) Registered<mio::net::UdpSocket>);

impl UdpSocket {
    /// A socket on an address. Port 0 lets the system choose one.
    ///
    /// # Errors
    /// If the address is taken or not ours, or no descriptor is free.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    pub fn bind(addr: SocketAddr) -> io::Result<Self> {
        let handle = IoHandle::current();
        handle.register(mio::net::UdpSocket::bind(addr)?, BOTH).map(Self)
    }

    /// Takes over a socket of the standard library.
    ///
    /// # Errors
    /// If it cannot be made non-blocking or watched.
    ///
    /// # Panics
    /// Outside [`block_on`](crate::Runtime::block_on).
    pub fn from_std(socket: std::net::UdpSocket) -> io::Result<Self> {
        let handle = IoHandle::current();
        socket.set_nonblocking(true)?;
        handle.register(mio::net::UdpSocket::from_std(socket), BOTH).map(Self)
    }

    /// Sets whom [`send`](Self::send) sends to, and takes datagrams from there only.
    ///
    /// # Errors
    /// Those of the system.
    pub fn connect(&self, addr: SocketAddr) -> io::Result<()> {
        self.0.get_ref().connect(addr)
    }

    /// Sends a datagram to whom it is connected with.
    ///
    /// # Errors
    /// Those of the system, of earlier datagrams too.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has sent nothing.
    pub async fn send(&self, buf: &[u8]) -> io::Result<usize> {
        Operation::writing(&self.0, |socket: &mio::net::UdpSocket| socket.send(buf)).await
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Those of the system, of earlier datagrams too.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, it has sent nothing.
    pub async fn send_to(&self, buf: &[u8], to: SocketAddr) -> io::Result<usize> {
        Operation::writing(&self.0, |socket: &mio::net::UdpSocket| socket.send_to(buf, to)).await
    }

    /// Receives a datagram from whom it is connected with.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, no datagram is lost.
    pub async fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        Operation::reading(&self.0, |socket: &mio::net::UdpSocket| socket.recv(buf)).await
    }

    /// Receives a datagram, and who sent it.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, no datagram is lost.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        Operation::reading(&self.0, |socket: &mio::net::UdpSocket| socket.recv_from(buf)).await
    }

    /// Sends a datagram now to whom it is connected with.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room.
    pub fn try_send(&self, buf: &[u8]) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |socket| socket.send(buf))
    }

    /// Sends a datagram now.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is no room.
    pub fn try_send_to(&self, buf: &[u8], to: SocketAddr) -> io::Result<usize> {
        self.0.try_io(Interest::WRITABLE, |socket| socket.send_to(buf, to))
    }

    /// Receives a datagram that is there, from whom it is connected with.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none.
    pub fn try_recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.0.try_io(Interest::READABLE, |socket| socket.recv(buf))
    }

    /// Receives a datagram that is there, and who sent it.
    ///
    /// # Errors
    /// Those of the system; [`WouldBlock`](io::ErrorKind::WouldBlock) if there is none.
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, SocketAddr)> {
        self.0.try_io(Interest::READABLE, |socket| socket.recv_from(buf))
    }

    /// Polls for a datagram, and who sent it.
    ///
    /// # Errors
    /// As [`recv_from`](Self::recv_from).
    pub fn poll_recv_from(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<(usize, SocketAddr)>> {
        self.0.poll_read_io(cx, |socket| socket.recv_from(buf))
    }

    /// Polls the sending of a datagram.
    ///
    /// # Errors
    /// As [`send_to`](Self::send_to).
    pub fn poll_send_to(&self, cx: &mut Context<'_>, buf: &[u8], to: SocketAddr) -> Poll<io::Result<usize>> {
        self.0.poll_write_io(cx, |socket| socket.send_to(buf, to))
    }

    /// Waits until a datagram may be there. It still may not.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn readable(&self) -> Readiness<'_> {
        self.0.readable()
    }

    /// Waits until a datagram may be sent. It still may not.
    ///
    /// # Errors
    /// If the runtime is gone.
    pub fn writable(&self) -> Readiness<'_> {
        self.0.writable()
    }

    /// The address it is on.
    ///
    /// # Errors
    /// Those of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().local_addr()
    }

    /// Whom it is connected with.
    ///
    /// # Errors
    /// Those of the system; [`NotConnected`](io::ErrorKind::NotConnected) if nobody.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.0.get_ref().peer_addr()
    }

    /// Allows sending to broadcast addresses.
    ///
    /// # Errors
    /// Those of the system.
    pub fn set_broadcast(&self, on: bool) -> io::Result<()> {
        self.0.get_ref().set_broadcast(on)
    }

    /// Receives what is sent to a group, through the interface with an address.
    ///
    /// # Errors
    /// Those of the system.
    pub fn join_multicast_v4(&self, group: &Ipv4Addr, interface: &Ipv4Addr) -> io::Result<()> {
        self.0.get_ref().join_multicast_v4(group, interface)
    }

    /// Receives what is sent to a group, through the interface with a number.
    ///
    /// # Errors
    /// Those of the system.
    pub fn join_multicast_v6(&self, group: &Ipv6Addr, interface: u32) -> io::Result<()> {
        self.0.get_ref().join_multicast_v6(group, interface)
    }
}

impl fmt::Debug for UdpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UdpSocket").field("local_addr", &self.local_addr().ok()).finish()
    }
}
