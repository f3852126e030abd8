//! Sockets, and any other event source that the crate `mio` can watch.
//!
//! | | |
//! |---|---|
//! | [`TcpListener`], [`TcpStream`] | connections |
//! | [`UdpSocket`] | datagrams |
//! | [`Registered`], through [`IoHandle::register`] | any [`Source`] of `mio` |
//!
//! Sockets take addresses, not names: a name lookup blocks, which would stop every task of the
//! thread. Resolve names beforehand, or on another thread.
//!
//! With feature `futures-io`, [`TcpStream`] implements the traits of that crate; with
//! `tokio-compat`, tokio's.
//!
//! # When the kernel is asked
//! An operation is tried at once; if it succeeds, it costs its own system call and no more. Only
//! one that would block waits for an event. A spinning thread asks for events every
//! [`io_every_turns`](crate::Builder::io_every_turns) turns, and never while no source is
//! registered. A parked thread is woken by an event.
//!
//! # Fairness
//! A peer that always has more to send must not keep a task from yielding: operations take from the
//! [budget](crate#guarantees) of the task's poll.
//!
//! # Out of file descriptors
//! Creating a socket, accepting, and building a runtime then return the system's error; nothing
//! panics. A connection that could not be accepted stays in the listener's queue: sleep, then call
//! `accept` again, which returns it once a descriptor is free.
//!
//! # Sharing a socket
//! All operations take `&self`; share a socket between tasks with `Rc`. Any number of tasks may
//! wait for the same socket: all of them are woken, and the first one polled gets what there is.
//! The `poll_` methods keep one waker for each direction, that of the last call.
//!
//! # After the runtime
//! A socket may outlive its runtime. Operations that need not wait keep working; one that would
//! have to wait fails with [`ErrorKind::NotConnected`](std::io::ErrorKind::NotConnected).
//!
//! # Socket options
//! Set what has no method here through the descriptor (`AsFd`, on Windows `AsRawSocket`), or on a
//! socket of the standard library before `from_std`.
//!
//! # Cancel safety
//! Dropping the future of a single operation (`read`, `write`, `accept`, `send`, `recv`, …) before
//! it is ready does nothing. `read_exact` and `write_all`, which repeat one, may have done a part.

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
