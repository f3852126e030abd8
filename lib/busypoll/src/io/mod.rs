//! Sockets, and any other event source that the crate `mio` can watch.
//!
//! | | |
//! |---|---|
//! | [`TcpListener`], [`TcpStream`] | connections |
//! | [`UdpSocket`] | datagrams |
//! | [`Registered`], through [`IoHandle::register`] | any [`Source`] of `mio` |
//!
//! Sockets accept addresses instead of names, because a name lookup would block every task of the
//! thread. Resolve names beforehand or on another thread.
//!
//! With feature `futures-io`, [`TcpStream`] implements the traits of that crate. With feature
//! `tokio-compat`, it implements tokio's I/O traits.
//!
//! # Polling for events
//! An operation is tried at once. If it succeeds, it costs its own system call and nothing else. An
//! operation that would block waits for an event. A spinning thread polls for events every
//! [`io_every_turns`](crate::Builder::io_every_turns) turns, and never while no source is
//! registered. An event wakes a parked thread.
//!
//! # Fairness
//! Operations spend from the [budget](crate#guarantees) of the task's poll, so that a task yields
//! even if its peer always has more to send.
//!
//! # Out of file descriptors
//! If no file descriptor is free, creating a socket, accepting a connection and building a runtime
//! return the system's error. Nothing panics. A connection that could not be accepted stays in the
//! listener's queue: sleep, then call `accept` again, which returns the connection once a
//! descriptor is free.
//!
//! # Sharing a socket
//! Sockets stay on the thread of their runtime: they are neither `Send` nor `Sync`. All operations take `&self`, so that tasks can share a socket with `Rc`. Any number of tasks may
//! wait for the same socket. An event wakes all of them, and the first task that is polled gets the
//! data. The `poll_*` methods keep only the waker of the last call for each direction.
//!
//! # Sockets without a runtime
//! A socket may outlive its runtime. Operations that need not wait still work. An operation that
//! would have to wait fails with [`ErrorKind::NotConnected`](std::io::ErrorKind::NotConnected).
//!
//! # Socket options
//! For an option without a method in this crate, use the descriptor (`AsFd`, on Windows
//! `AsRawSocket`), or set it on a socket of the standard library before `from_std`.
//!
//! # Cancel safety
//! Dropping the future of a single operation (`read`, `write`, `accept`, `send`, `recv`, …) before
//! it is ready has no effect. `read_exact` and `write_all` repeat an operation and may have
//! completed a part.

#[cfg(feature = "net")]
mod as_fd;
#[cfg(all(feature = "futures-io", feature = "net"))]
mod futures_io;
#[cfg(feature = "net")]
mod operation;
mod registered;
#[cfg(feature = "net")]
mod tcp;
#[cfg(feature = "net")]
mod udp;

pub use mio::Interest;
pub use mio::event::Source;
pub use registered::{IoHandle, Readiness, Registered};
#[cfg(feature = "net")]
pub use tcp::{TcpListener, TcpStream};
#[cfg(feature = "net")]
pub use udp::UdpSocket;
