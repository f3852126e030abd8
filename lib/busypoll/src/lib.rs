//! A single-threaded async runtime that does not park.
//!
//! The thread that drives it spins: over its run queue, its timers, and an inbox for the wakes of other threads. A task
//! that becomes ready is polled without a system call, a context switch or a wake-up latency in between. The price is a
//! whole core, all the time, whether anything happens or not.
//!
//! # When not to use it
//!
//! - **When in doubt.** tokio is the right runtime for almost every program; this one is for the single thread that has
//!   a core to itself and whose next microsecond matters.
//! - On a machine with fewer free cores than spinning threads, in a container with a CPU quota, on battery: a spinning
//!   thread that is preempted is later than one that slept. [`Parking::Park`] is the same runtime for those.
//! - For work that computes long between two awaits: there is one thread and nothing preempts. A task that never yields
//!   stops every other one, and every timer.
//! - For what already is written for tokio. Its sockets and timers need a tokio runtime beside this one (feature
//!   `tokio-compat`), whose thread then parks: what this crate is for is lost on that way.
//! - For many connections that each do little. A readiness queue that is looked at from time to time, on one core, is not
//!   what serves ten thousand clients.
//!
//! # What to rely on
//!
//! - **Wakers are real.** They are `Send` and `Sync`, may be used from any thread, kept after their task has ended and
//!   used after the runtime is gone. They own no part of the task: its memory is freed on the runtime's thread.
//! - **Timers are never early**, are not rounded, and are cancelled when dropped.
//! - **Sockets cost no system call while idle** beyond one look at the kernel's events every so many turns, and none at
//!   all while there is no socket: see [`io`].
//! - **Turns are bounded.** Between two looks at timers, at the wakes of other threads and at the root there are at most
//!   [`tasks_per_turn`](Builder::tasks_per_turn) polls of tasks, between two looks at events at most
//!   [`io_every_turns`](Builder::io_every_turns) turns; a turn takes as many wakes of other threads as there were at its
//!   beginning. Nothing bounds a single poll but its task.
//!
//! # When things go wrong
//!
//! - **A task panics**: it ends alone; its handle gives the panic. A panic of the future given to `block_on` goes to the
//!   caller of `block_on`, and the runtime stays usable. With `panic = "abort"`, neither is caught.
//! - **A task never yields**: everything else on the thread waits until it does.
//! - **Other threads wake without end**: everything else goes on; a task is queued once, however often it is woken.
//! - **Too many tasks**: a slab of a fixed size says that it is full; otherwise memory is the limit, and four billion.
//! - **No file descriptor is free**: an [`io::Error`](std::io::Error) from what needed one; see [`io`].
//! - **The runtime is dropped**: tasks are dropped on its thread, their handles say that they were cancelled, wakers do
//!   nothing, sockets that live on fail where they would have to wait.
//!
//! # Features
//!
//! - `net` (default): TCP and UDP.
//! - `signal` (default): `ShutdownSignal`. Unix.
//! - `tokio-compat`: what looks for a tokio runtime can run here; tokio's traits on streams.
//! - `futures-io`: the traits of that crate on streams.
//!
//! # Platforms
//!
//! Unix and Windows. While parked, deadlines are kept to the nanosecond asked for on Linux, Android and where there is
//! kqueue, to the next millisecond on Windows; while spinning, to a turn of the loop everywhere.
//!
//! # Examples
//!
//! `examples/` has an echo server, a control loop with a cancelled child, and two threads over channels.
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

pub use cancel::{CancellationToken, Cancelled, DropGuard};
pub use join::JoinHandle;
pub use resources::Resources;
pub use runtime::{Builder, Parking, Runtime};
pub use shutdown::Drained;
#[cfg(all(unix, feature = "signal"))]
pub use shutdown::ShutdownSignal;
pub use spawn::{SlabClaim, spawn_boxed, spawn_slab, try_claim_slab, yield_now};
pub use stage::JoinError;
