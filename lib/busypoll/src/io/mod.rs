//! Sockets, and any other source of events that the crate `mio` can watch.
//!
//! | | |
//! |---|---|
//! | [`TcpListener`], [`TcpStream`] | connections |
//! | [`UdpSocket`] | datagrams |
//! | [`Registered`], through [`IoHandle::register`] | any [`Source`] of `mio` |
//!
//! Sockets take addresses, not names: looking one up blocks, which would stop every task of the thread. Look it up
//! before, or on another thread.
//!
//! With feature `futures-io`, [`TcpStream`] has the traits of that crate; with `tokio-compat`, those of tokio.
//!
//! # When the kernel is asked
//! An operation is tried at once, and costs its own system call and no more when it succeeds. Only one that would block
//! waits for an event. While the thread spins, events are taken every
//! [`io_every_turns`](crate::Builder::io_every_turns) turns, and never while no source is registered. While it is parked,
//! an event wakes it.
//!
//! # Fairness
//! A peer that always has more to give must not keep a task from yielding: one in 128 operations that could go ahead at
//! once yields first, whether it would have succeeded or failed.
//!
//! # Out of file descriptors
//! Creating a socket, accepting, and building a runtime then return the system's error, and nothing panics. A connection
//! that could not be accepted stays in the listener's queue: the next `accept` tries again, and gets it once a
//! descriptor is free. Sleep in between.
//!
//! # Several at once
//! All operations take `&self`; share a socket between tasks with `Rc`. Any number of tasks may wait for the same socket;
//! all of them are woken, and who comes first gets what there is. The `poll_` methods keep one waker for each direction,
//! that of the last call.
//!
//! # After the runtime
//! A socket may outlive its runtime. It keeps working as far as no waiting is needed; an operation that would have to
//! wait fails with [`ErrorKind::NotConnected`](std::io::ErrorKind::NotConnected) instead.
//!
//! # Options of a socket
//! What has no method here can be set through the descriptor (`AsFd`, on Windows `AsRawSocket`), or on a socket of the
//! standard library before `from_std`.
//!
//! # Cancel safety
//! A future of a single operation (`read`, `write`, `accept`, `send`, `recv`, …) that is dropped before it is ready has
//! done nothing, and no longer waits. Those made of several (`read_exact`, `write_all`) may have done a part.

#[cfg(feature = "net")]
mod attempt;
#[cfg(all(feature = "futures-io", feature = "net"))]
mod futures;
#[cfg(feature = "net")]
mod raw;
mod reactor;
mod registered;
#[cfg(feature = "net")]
mod tcp;
#[cfg(feature = "net")]
mod udp;

pub use mio::Interest;
pub use mio::event::Source;
pub(crate) use reactor::Reactor;
pub use registered::{IoHandle, Readiness, Registered};
#[cfg(feature = "net")]
pub use tcp::{TcpListener, TcpStream};
#[cfg(feature = "net")]
pub use udp::UdpSocket;
