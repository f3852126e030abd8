//! A single-threaded async runtime that does not park.
//!
//! The thread that drives it spins: over its run queue, its timers, and an inbox for wakes from
//! other threads. A task that becomes ready is polled without a system call, a context switch or a
//! wake-up latency in between. The price is a whole core, all the time, whether anything happens or
//! not.
//!
//! # When not to use it
//!
//! - **When in doubt.** tokio is the right runtime for almost every program; this one is for the
//!   one thread that has a core to itself and whose next microsecond matters.
//! - On a machine with fewer free cores than spinning threads, in a container with a CPU quota, on
//!   battery: a spinning thread that is preempted is later than one that slept. Use
//!   [`Parking::Park`] there: the same runtime, but it sleeps.
//! - For tasks that compute long between two awaits: there is one thread and nothing preempts. A
//!   task that never yields stops all others, and every timer.
//! - For code already written for tokio: its sockets and timers need a tokio runtime beside this
//!   one (feature `tokio-compat`), whose thread parks, so you lose what this crate is for.
//! - For many connections that each do little: one core that checks for events from time to time is
//!   not what serves ten thousand clients.
//!
//! # Guarantees
//!
//! - **Wakers are thread-safe.** Use them on any thread, keep them after their task has ended or
//!   the runtime is gone. They own no part of the task: its memory is freed on the runtime's
//!   thread.
//! - **Timers are never early**, never rounded, and cancelled when dropped.
//! - **An idle socket costs no system call** beyond one check for events every so many turns;
//!   without a socket there is none at all: see [`io`].
//! - **Turns are bounded.** Between two checks of the timers, of wakes from other threads and of
//!   the root future there are at most [`tasks_per_turn`](Builder::tasks_per_turn) polls of tasks,
//!   between two checks for events at most [`io_every_turns`](Builder::io_every_turns) turns, and a
//!   turn takes a bounded number of wakes from other threads.
//! - **A task that is always fed yields.** In one poll, a task has a budget of 128 operations on
//!   channels, timers and sockets that are ready at once; the next one yields first. Nothing else
//!   bounds a single poll but its task.
//!
//! # When things go wrong
//!
//! - **A task panics**: only that task ends; its handle returns the panic. If the future given to
//!   `block_on` panics, `block_on` does, and the runtime stays usable. With `panic = "abort"`,
//!   neither is caught.
//! - **A task never yields**: everything else on the thread waits until it does.
//! - **Other threads wake without end**: everything else continues; a task is queued once, however
//!   often it is woken.
//! - **Too many tasks**: spawning into a full slab of fixed size panics, and claiming a slot
//!   returns `None`. Otherwise memory is the limit, and four billion.
//! - **No file descriptor is free**: what needed one returns an [`io::Error`](std::io::Error); see
//!   [`io`].
//! - **The runtime is dropped**: tasks are dropped on its thread, their handles report that they
//!   were cancelled, wakers do nothing, and where they would have to wait, sockets that live on
//!   fail and timers panic.
//!
//! # Features
//!
//! - `net` (default): TCP and UDP.
//! - `signal` (default): `ShutdownSignal`. Unix.
//! - `tokio-compat`: runs futures that need a tokio runtime around them; tokio's I/O traits on
//!   streams.
//! - `futures-io`: the traits of that crate on streams.
//!
//! # Platforms
//!
//! Unix and Windows. A spinning thread keeps deadlines to within a turn of its loop everywhere. A
//! parked thread asks for the exact nanosecond on Linux, Android and where there is kqueue, and for
//! the next millisecond on Windows.
//!
//! # Examples
//!
//! `examples/` has an echo server, a control loop with a cancelled child, and two threads connected
//! by a channel.
//!
//! ```
//! use std::time::Duration;
//! use busypoll::{Runtime, spawn_boxed, time};
//!
//! let mut runtime = Runtime::new()?;
//! let sum = runtime.block_on(async {
//!     let one = spawn_boxed(async {
//!         time::sleep(Duration::from_micros(500)).await;
//!         1
//!     });
//!     one.await.unwrap() + 1
//! });
//! assert_eq!(sum, 2);
//! # Ok::<(), std::io::Error>(())
//! ```
#![deny(unsafe_code)]

mod announced;
mod budget;
mod cache_padded;
mod cancel;
pub mod channel;
mod clock;
#[cfg(feature = "tokio-compat")]
pub mod compat;
mod context;
mod event_queue;
mod executor;
mod inbox;
pub mod io;
mod join;
mod lead;
mod reactor;
mod resources;
mod run_queue;
mod runtime;
mod shutdown;
#[allow(unsafe_code)]
mod slab;
mod spawn;
mod stage;
mod sync;
mod task;
pub mod time;
mod timer_queue;
mod waker;
mod waker_set;

pub use cancel::{CancellationToken, Cancelled, DropGuard};
pub use join::JoinHandle;
pub use resources::Resources;
pub use runtime::{Builder, ParkBackend, Parking, Runtime};
pub use shutdown::Drained;
#[cfg(all(unix, feature = "signal"))]
pub use shutdown::ShutdownSignal;
pub use spawn::{SlabClaim, spawn_boxed, spawn_slab, try_claim_slab, yield_now};
pub use stage::JoinError;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
