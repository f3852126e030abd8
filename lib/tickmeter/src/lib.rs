//! A meter inside a service: measures how late the service's own loops are, and why.
//!
//! A [`Meter`] records the lateness of every tick of a loop in a histogram, and in another one the
//! time that the loop's own work took. So it shows whether a loop is **late or slow**. It costs
//! tens of nanoseconds per tick, and needs no allocation, lock, system call, thread or port, except
//! that the first tick allocates its memory. Other processes of the same user read the meter from
//! shared memory without disturbing the service, as `osjitter top` does.
//!
//! ```
//! # #[cfg(feature = "tokio")] {
//! # tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
//! use std::time::Duration;
//! use tickmeter::Meter;
//!
//! let period = Duration::from_millis(10);
//! let meter = Meter::register("control-loop", period)?;
//! let mut interval = meter.wrap(tokio::time::interval(period)); // feature "tokio"
//! # for _ in 0..2 {
//! interval.tick().await;
//! # }
//! let snapshot = interval.meter().snapshot();
//! println!("{} ticks, p99 {:?}", snapshot.ticks, snapshot.lateness.quantile(0.99));
//! # Ok::<(), tickmeter::RegisterError>(()) }).unwrap(); }
//! ```
//!
//! # Records
//!
//! | Record | Meaning |
//! |---|---|
//! | lateness | wake-up minus deadline, for every tick that came |
//! | work | time from a wake-up until the loop waits again |
//! | missed | ticks that had not come when the next was due; those delayed by the work itself are also counted separately |
//! | overruns | deadlines at which the loop was still at work, except while it catches up after a late wake-up |
//! | coalesced, skipped, early | ticks that came together, never, or before their deadline |
//! | the last 128 late ticks | time, lateness, the work before, and the part of the lateness that the work explains |
//!
//! # Readers
//!
//! - This process reads a meter with [`Meter::snapshot`], or with a [`Reader`] on another thread.
//!   [`Snapshot::since`] returns the difference of two snapshots. `Exporter`, with the feature
//!   `metrics`, passes the records to the `metrics` facade.
//! - Other processes of the same user, and root, read a meter with the module [`read`], as
//!   `osjitter top` does.
//!
//! # Threads
//!
//! All types are `Send` and `Sync`. A meter records one loop, so its methods that record take
//! `&mut self`. Other threads read it through a [`Reader`].
//!
//! # Measuring and gating a service
//!
//! If osjitter runs the program, as `osjitter run -- ./service` and
//! `osjitter gate --base-cmd ./service-before --candidate-cmd ./service` do, the meter drops
//! the warm-up and writes the lateness of each tick for osjitter. For `osjitter run --why` it also
//! writes the time of each tick and how long its thread had waited for a CPU. At the tick after the
//! last requested one, it ends the process with exit code 0. So a service that would tick forever
//! needs no extra code to be measured.
//!
//! The meter with the requested period (`--period`) is used; `--meter` or `OSJITTER_METER` selects
//! one by name. If several meters match, or none of several, the process fails with a list of its
//! meters. The only meter of a process is used at any period, which osjitter then compares with the
//! requested one. A program that writes the file itself (`OSJITTER_OUT`) is left alone. Without
//! osjitter's environment variables, all of this costs one branch per tick.
//!
//! osjitter starts the program once per round. A program that takes its rounds from [`rounds`] is
//! started once for all rounds of `osjitter run`.
//!
//! # Files
//!
//! A meter is a file of 72 kB with mode 0400, in a private directory of the user: `TICKMETER_DIR`, or
//! else the first that can be used of `$XDG_RUNTIME_DIR/tickmeter`, `/run/user/UID/tickmeter` and
//! `/dev/shm/tickmeter-UID`. If none of them can be used, and on systems other than Unix, the meter is
//! private to its process; [`Meter::place`] contains the reason. The file needs one page of memory
//! until the first tick, which allocates the rest. If the file system is full by then, the meter
//! removes its file and becomes private.
//!
//! The file is removed when the meter is dropped, and when a measurement by osjitter ends the process.
//! A forked child that drops its copy of a meter leaves the file to its parent. Files of killed
//! processes are removed by [`read::sweep`], which `osjitter top` and `osjitter monitor` call, and by
//! each registration, which examines a few files.
//!
//! Never truncate a file while its service runs: the next tick would end the service by a signal
//! (`SIGBUS`). The mode keeps its owner from doing so by mistake, and other users from doing so at all.
//!
//! # Features
//!
//! No feature is enabled by default. The only dependencies are then `tach` and, on Unix, `rustix` and
//! `libc` to map the file.
//!
//! | Feature | Effect |
//! |---|---|
//! | `tokio`, `osinterval`, `busypoll` | [`Meter::wrap`] accepts the intervals of that crate |
//! | `metrics` | adds the exporter |
//! | `stream` | implements `futures_core::Stream` for [`Metered`] |
//! | `serde` | implements `Serialize` and `Deserialize` for [`Snapshot`], [`Histogram`] and [`LateTick`] |
//! | `tracing` | emits an event of the crate `tracing` for a late tick |
//! | `stacks` | adds the module `stacks`: the functions that hold a loop while its tick is overdue, on Linux |
//!
//! An event has the level `WARN`, the target `tickmeter`, and the fields `meter`, `number`,
//! `lateness_ns`, `work_ns`, `overrun_ns` and `suppressed`. A meter emits at most one event per
//! second, and `suppressed` is the number of late ticks since the last one. The subscriber runs on
//! the loop's thread after the tick is recorded, so its time counts as the loop's work.
//!
//! ```
//! use std::time::{Duration, Instant};
//! # let deadline = Instant::now();
//! let (period, late_from) = (Duration::from_millis(10), Duration::from_millis(2));
//! let mut meter = tickmeter::Meter::register_with("traced-loop", period, late_from)?;
//! // With the feature `tracing`, this is an event if the tick is at least 2 ms late.
//! meter.tick(deadline);
//! # Ok::<(), tickmeter::RegisterError>(())
//! ```
//!
//! A meter needs 64-bit atomics, since processes share its words without a lock: there is no meter
//! on targets such as `armv5te-*`, `powerpc-*` and `mipsel-*` of Linux.
#![deny(unsafe_code)]
#![warn(clippy::must_use_candidate)]

#[cfg(not(target_has_atomic = "64"))]
compile_error!(
    "tickmeter does not support this target: armv5te, powerpc, mipsel and others have no 64-bit atomics, with which \
     processes share the words of a meter"
);

#[cfg(all(unix, not(loom)))]
#[allow(unsafe_code)]
mod calls;
mod clock;
mod directory;
#[cfg(all(feature = "metrics", not(loom)))]
mod exporter;
#[cfg(feature = "serde")]
mod histogram_serde;
#[cfg(feature = "tracing")]
mod late_events;
mod layout;
#[cfg(all(unix, not(loom)))]
#[allow(unsafe_code)]
mod mapping;
mod measured_meter;
mod meter;
mod metered_interval;
mod names;
mod page;
mod publication;
pub mod read;
mod reader;
mod rounds;
mod series_writer;
mod snapshot;
#[cfg(feature = "stacks")]
pub mod stacks;
mod storage;
mod sync;

#[cfg(all(feature = "metrics", not(loom)))]
pub use exporter::Exporter;
pub use meter::{Meter, RegisterError};
pub use metered_interval::{Metered, Ticker};
pub use reader::Reader;
pub use rounds::{Round, Rounds, rounds};
pub use snapshot::{Histogram, LateTick, Snapshot};
pub use storage::{ENV_DIRECTORY, Place, Why};

// Compiles the programs in README.md as documentation tests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
mod readme {}
