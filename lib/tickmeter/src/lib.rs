//! A meter inside a service: how late its own loops run, and why, for whoever looks.
//!
//! A service that runs for months knows the lateness of its loops from a gauge that the next sample
//! overwrites, if at all. A [`Meter`] books every tick of a loop in a histogram, beside the time
//! that the loop's own work took: **late, or slow?** It costs tens of nanoseconds a tick, without
//! allocation, lock, system call, thread or port. Another process of the same user reads it from
//! shared memory, as `osjitter top` does, and the service does not notice.
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
//! # What is booked
//!
//! | | |
//! |---|---|
//! | lateness | wake-up minus deadline, of every tick that came |
//! | work | from a wake-up until the loop waits again |
//! | missed | ticks that had not come when the next was due; apart those that the work itself delayed |
//! | overruns | deadlines that found the loop still at work |
//! | coalesced, skipped, early | ticks that came together, never, or before their deadline |
//! | the last 128 late ticks | when, by how much, after how much work, and how much of the lateness that work explains |
//!
//! # Who reads it
//!
//! - This process: [`Meter::snapshot`], or a [`Reader`] on another thread. Two snapshots have a
//!   difference: [`Snapshot::since`]. `Exporter`, with the feature `metrics`, passes the figures on
//!   to the facade of that name.
//! - Another process of the same user, and root: [`read`], which `osjitter top` is made of.
//!
//! # Measured and gated
//!
//! Where osjitter runs the program, as `osjitter run -- ./service` and
//! `osjitter gate --baseline-cmd ./service-before --candidate-cmd ./service` do, the meter writes
//! the lateness of each tick for it, warm-up dropped; for `osjitter run --why` also when it came,
//! and how long its thread had waited for a CPU. It ends the process with exit code 0 at the tick
//! after the last that was asked for: a service that would tick for ever needs no code of its own
//! for that. It is the first meter to be registered, or the one that `OSJITTER_METER` names. A
//! program that writes the file itself (`OSJITTER_OUT`) is left alone. Without osjitter's variables
//! all of it is one branch a tick.
//!
//! # Where it is
//!
//! In a file of 71 kB, mode 0600, in a directory of the user's own: `TICKMETER_DIR`, else
//! `$XDG_RUNTIME_DIR/tickmeter`, else `/dev/shm/tickmeter-UID`. Elsewhere than on Unix, or where no
//! such directory can be had, the meter is private to its process: [`Meter::place`] says why. The
//! file is removed when the meter is dropped; those of processes that were killed are swept by the
//! next one to look. Its owner must not truncate it while the service runs: that is a fatal signal
//! to any process that maps a file.
//!
//! # Features
//!
//! None by default, and no dependency but `tach` (on Unix `libc`, to map the file). `tokio`,
//! `osinterval` and `busypoll` let [`Meter::wrap`] take the intervals of those crates; `metrics` is
//! an exporter.
#![deny(unsafe_code)]

mod book;
mod clock;
#[cfg(all(feature = "metrics", not(loom)))]
mod export;
mod layout;
#[cfg(all(unix, not(loom)))]
#[allow(unsafe_code)]
mod mapping;
mod meter;
mod page;
mod place;
pub mod read;
mod reader;
mod series;
mod snapshot;
mod sync;
mod wrap;

#[cfg(all(feature = "metrics", not(loom)))]
pub use export::Exporter;
pub use meter::{Meter, RegisterError};
pub use place::{ENV_DIRECTORY, Place, Why};
pub use reader::Reader;
pub use snapshot::{Histogram, LateTick, Snapshot};
pub use wrap::{Metered, Ticker};

// The programs of the crate's front page are compiled as documentation tests.
#[cfg(all(doctest, feature = "tokio"))]
#[doc = include_str!("../README.md")]
mod readme {}
