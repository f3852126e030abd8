//! A single-threaded async runtime that does not park.
//!
//! The thread that drives the runtime spins over a run queue, over timers, and over an inbox for
//! wakes from other threads. A task that becomes ready is polled without a system call, a context
//! switch or a wake-up latency in between. The price is a whole core, whether anything happens or
//! not.
//!
//! ```
//! use std::time::{Duration, Instant};
//! use busypoll::{Runtime, time};
//!
//! let mut runtime = Runtime::new()?;
//! runtime.block_on(async {
//!     let mut interval = time::interval(Duration::from_micros(500));
//!     for _ in 0..3 {
//!         let deadline = interval.tick().await;
//!         println!("{:?} late", Instant::now() - deadline);
//!     }
//! });
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! [`spawn_boxed`] starts more tasks on the same thread. `examples/` contains an echo server, a
//! control loop with a cancelled child, and two threads connected by channels.
//!
//! # When not to use it
//!
//! - **When in doubt.** tokio is the right runtime for almost every program. This one is for a
//!   thread that has a core to itself and must react within a microsecond.
//! - On a machine with fewer free cores than spinning threads, in a container with a CPU quota, or
//!   on battery. A spinning thread that is preempted is later than a thread that slept. Use
//!   [`Parking::Park`] on such machines: the same runtime, but its thread sleeps.
//! - For tasks that compute for a long time between two awaits. There is one thread, and nothing
//!   preempts a task: a task that never yields stops all other tasks and all timers.
//! - For code that is already written for tokio. tokio's sockets and timers need a tokio runtime in
//!   addition to this one (feature `tokio-compat`). The thread of that runtime parks, which loses
//!   the benefit of this crate.
//! - For many connections that each do little. A single core that polls for events from time to
//!   time does not serve ten thousand clients well.
//!
//! # Guarantees
//!
//! - **Wakers are thread-safe.** A waker can be used on any thread, even after its task has ended
//!   or its runtime has been dropped. A waker owns no part of its task: the memory of a task is
//!   freed on the runtime's thread.
//! - **Timers are never early** and never rounded. Dropping a timer cancels it.
//! - **An idle socket costs no system call**, except for one poll for events every
//!   [`io_every_turns`](Builder::io_every_turns) turns. Without a socket there are no such polls:
//!   see [`io`].
//! - **Turns are bounded.** A turn of the loop checks the timers, the wakes from other threads and
//!   the root future, and polls at most [`tasks_per_turn`](Builder::tasks_per_turn) tasks. At most
//!   [`io_every_turns`](Builder::io_every_turns) turns pass between two polls for events, and a
//!   turn accepts a bounded number of wakes from other threads.
//! - **A task that always has input yields.** Each poll of a task has a budget of 128 operations on
//!   channels, timers and sockets that are ready at once. The next operation yields first. Apart
//!   from this budget, nothing limits the duration of a single poll. After 128 operations in one
//!   poll that had to yield, it is refilled, since a task may itself run another runtime.
//!
//! # Threads
//!
//! - A runtime, its tasks and all that belongs to it stay on one thread: handles, claims, resources,
//!   timers, sockets and the halves of [`channel::local`] are neither `Send` nor `Sync`.
//! - Wakers, [`CancellationToken`]s and the halves of [`channel::mpsc`] and [`channel::spsc`] are
//!   `Send` and `Sync`, the latter if their values are `Send`. They connect the tasks of a runtime
//!   with other threads.
//!
//! # When things go wrong
//!
//! - **A task panics**: only that task ends, and its handle returns the panic. If the future given
//!   to `block_on` panics, `block_on` panics, and the runtime stays usable. With `panic = "abort"`,
//!   neither panic is caught.
//! - **A task never yields**: everything else on the thread waits until it does.
//! - **Other threads wake tasks without end**: everything else continues. A task is queued once,
//!   however often it is woken.
//! - **There are too many tasks**: spawning into a full slab of fixed size panics, and claiming a
//!   slot returns `None`. Otherwise the limit is the memory, or four billion tasks.
//! - **No file descriptor is free**: the operation that needs one returns an
//!   [`io::Error`](std::io::Error); see [`io`].
//! - **The runtime is dropped**: its tasks are dropped on its thread, their handles report a
//!   cancellation, and their wakers do nothing. The same holds for a task that is spawned later, by
//!   the destructor of a resource or with a [`SlabClaim`]. A socket or timer that outlives the runtime works
//!   as long as it need not wait. If it would have to wait, a socket returns an error and a timer
//!   panics.
//! - **The process forks**: the child shares the event queue with its parent. Build the runtime after
//!   the fork. A child that drops its copy of a runtime or socket leaves the parent's registered.
//!
//! # Features
//!
//! - `net` (default): TCP and UDP.
//! - `signal` (default): `ShutdownSignal`, on Unix.
//! - `tokio-compat`: runs futures that need the context of a tokio runtime; implements tokio's I/O
//!   traits for streams.
//! - `futures-io`: implements the traits of the crate `futures-io` for streams.
//!
//! # Platforms
//!
//! Unix and Windows. A spinning thread keeps deadlines to within a turn of its loop on every
//! platform. A parked thread sets its timer to the exact nanosecond on Linux, Android and systems
//! with kqueue, and to the next millisecond on Windows. Targets without 64-bit atomics, such as
//! `armv5te-*`, `powerpc-*` and `mipsel-*` of Linux, are not supported.
#![deny(unsafe_code)]
#![warn(clippy::must_use_candidate)]

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
mod reactor;
mod remote_wake;
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
mod timer_lead;
mod timer_queue;
mod wait_limit;
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
