//! Periodic ticks, sleeps and timeouts for tokio from the OS's own timers, in the shape of
//! `tokio::time`, and periodic ticks for a thread without a runtime.
//!
//! tokio keeps time in a wheel that turns once a millisecond, so a tick of
//! `tokio::time::Interval` is 1 to 2 ms late at any period. A kernel timer is tens of
//! microseconds late. Switching is mostly a change of import:
//!
//! ```
//! use std::time::Duration;
//!
//! # #[cfg(feature = "interval")]
//! # async fn example() {
//! let mut interval = osinterval::interval(Duration::from_micros(500));
//! for _ in 0..10 {
//!     let deadline = interval.tick().await;
//!     assert!(deadline <= tokio::time::Instant::now());
//! }
//! # }
//! # #[cfg(feature = "interval")]
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(example());
//! ```
//!
//! | Platform | Timers for tokio | [`Backend`] |
//! |---|---|---|
//! | Linux, Android | `timerfd`, armed for an absolute time | [`Backend::Timerfd`] |
//! | macOS, iOS and related systems | kqueue, absolute and critical | [`Backend::Kqueue`] |
//! | FreeBSD, NetBSD, OpenBSD, DragonFly | kqueue, the remaining time | [`Backend::Kqueue`] |
//! | Windows 10 1803, Server 2019 and later | a high-resolution waitable timer | [`Backend::WaitableTimer`] |
//! | older Windows | the thread pool's timer | [`Backend::ThreadpoolTimer`] |
//! | anything else, or without the feature `os-native` | tokio's own timer | [`Backend::TokioSleep`] |
//!
//! - `OsInterval` makes two system calls per tick on Linux: one arms a timer, the runtime waits in
//!   the other. It supports every missed-tick behaviour of tokio's interval, with the same meaning.
//!   With `Precision::spin()` nine ticks in ten are tens of nanoseconds late, and the p99 is
//!   microseconds or tens of them, at the cost of a few per cent of one core.
//! - `sleep` and `timeout` wait once.
//! - Any number of intervals, sleeps and timeouts share the timer of their runtime.
//! - `IntervalGroup` has a timer of its own, and serves deadlines together to within a resolution
//!   you set.
//! - `blocking::Interval` blocks a thread until each tick, without tokio.
//! - Each of these intervals can follow the clock of a device, whose events `steer` reports.
//! - `PeriodicInterval` leaves the repetition to the kernel, and reports at each tick how many
//!   periods have passed.
//!
//! # Never early
//!
//! No tick, sleep or timeout completes before its deadline: after every wake-up the deadline is
//! compared with the clock. The time from the deadline to the completion depends on the kernel's
//! timer, the scheduler, and the other work of the runtime.
//!
//! # Clocks
//!
//! Deadlines are on tokio's clock, which in production is the kernel's monotonic clock, the one
//! behind [`std::time::Instant`]. That clock stops while the system is suspended.
//!
//! # Testing
//!
//! If a test pauses tokio's clock, with `start_paused` or `tokio::time::pause`, all timers of this
//! crate except those of `blocking` follow it, as tokio's do. Hours pass at once, in the same order:
//!
//! ```
//! # #[cfg(feature = "interval")]
//! #[tokio::main(flavor = "current_thread", start_paused = true)]
//! async fn main() {
//!     use std::time::Duration;
//!     let hour = Duration::from_secs(3_600);
//!     let start = tokio::time::Instant::now();
//!     let mut interval = osinterval::interval(hour);
//!     for k in 0..24 {
//!         assert_eq!(interval.tick().await, start + hour * k);
//!     }
//!     let answer = osinterval::timeout(hour, std::future::pending::<()>()).await;
//!     assert!(answer.is_err());
//!     assert_eq!(start.elapsed(), hour * 24);
//! }
//! # #[cfg(not(feature = "interval"))]
//! # fn main() {}
//! ```
//!
//! In a test, use `#[tokio::test(start_paused = true)]`. It needs tokio's feature `test-util` in
//! the dev-dependencies, and no setting of this crate. A build without that feature contains
//! nothing for paused clocks. With it, a timer compares tokio's clock with the real one at each
//! poll. If the clocks differ, a sleep of tokio replaces the kernel's timer, with its resolution of
//! one millisecond.
//!
//! - Timers that were made before `pause` follow the paused clock, and so do tasks that already
//!   wait. Waits of less than 2 ms are the exception: the kernel wakes those tasks after the real
//!   time, and then they follow the paused clock.
//! - A simulated runtime needs no I/O driver (`enable_time` is enough) if its clock is paused when
//!   the timer is made.
//! - On a paused clock a timer of this crate is one of tokio: it is rounded to the same millisecond,
//!   and each call wakes the same tasks before it returns.
//! - After `tokio::time::resume`, tokio's clock continues with an offset to the real one. Timers
//!   follow it in real time, but with the resolution of tokio's.
//! - `Precision::Spin` behaves as `Precision::Os`, since spinning does not advance a paused clock.
//! - [`Backend`] names the timer that is used while the clock is the real one.
//! - The runtime needs its time driver (`enable_all`). Without it, waiting on a paused clock is an
//!   error, or panics as tokio's timers do. With `test-util`, a timer that waits on such a runtime
//!   catches that panic once, whose message is printed.
//! - The order of timers that are due at the same instant is undefined, as it is with tokio's.
//!
//! # Threads, cancellation, panics, fork
//!
//! All types are `Send` and `Sync`, except that a timeout is so only if its future is. Intervals,
//! groups and sleeps may move to another thread or runtime. They tick or complete only while the
//! runtime on which they were created is running. Those of `blocking` need no runtime.
//!
//! Ticks and sleeps are cancel safe: dropping a pending `tick` loses no tick, and dropping a sleep
//! frees its place in the queue. A timeout is cancel safe if its future is. Each function documents
//! its panics. A process that forks shares its timers with its child, so create them after the
//! fork.
//!
//! # The runtime's shared timer
//!
//! The first interval, sleep or timeout on a runtime creates a timer and a task that serves it; both
//! last as long as the runtime. A sleep may be awaited on any runtime. It completes only while the
//! runtime that owns its timer is running; a current-thread runtime runs only within `block_on`.
//! Once that runtime has shut down, tasks that still wait are woken and panic. If you need another
//! runtime or lifetime, create an `IntervalGroup`, which has a timer of its own.
//!
//! # Features
//!
//! `blocking` (the module of that name), `interval` (`OsInterval`, `IntervalGroup`, sleeps and
//! timeouts), `periodic` (`PeriodicInterval`) and `os-native` (the OS's timers for tokio) are on by
//! default; `stream` implements `Stream` for intervals, and `serde` implements `Serialize` and
//! `Deserialize` for `Expirations`. Only `interval` and `periodic` depend on tokio.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(unsafe_code)]
#![warn(clippy::must_use_candidate)]

mod backend;
#[cfg(feature = "blocking")]
pub mod blocking;
#[cfg(any(feature = "interval", feature = "periodic"))]
mod clock;
#[cfg(any(feature = "blocking", feature = "interval"))]
mod discipline;
#[cfg(any(feature = "interval", feature = "periodic"))]
mod driver;
#[cfg(feature = "periodic")]
mod expirations;
#[cfg(all(feature = "periodic", feature = "serde"))]
mod expirations_serde;
#[cfg(feature = "interval")]
mod group;
#[cfg(feature = "interval")]
mod heap;
#[cfg(feature = "interval")]
mod interval;
#[cfg(feature = "interval")]
mod kernel_timers;
#[cfg(any(feature = "interval", feature = "periodic"))]
mod pause_watch;
#[cfg(feature = "periodic")]
mod periodic;
#[cfg(any(feature = "blocking", feature = "interval"))]
mod precision;
#[cfg(feature = "interval")]
mod queue;
#[cfg(any(feature = "blocking", feature = "interval", feature = "periodic"))]
mod real_clock;
#[cfg(feature = "interval")]
mod runtime_queue;
#[cfg(any(feature = "blocking", feature = "interval"))]
mod schedule;
#[cfg(feature = "interval")]
mod sleep;
#[cfg(any(feature = "blocking", feature = "interval", feature = "periodic"))]
mod sys;
#[cfg(all(test, feature = "interval"))]
mod test_waker;
#[cfg(feature = "interval")]
mod timeout;
#[cfg(any(feature = "interval", feature = "periodic"))]
mod timer;

pub use backend::{Backend, Fallback};
#[cfg(any(feature = "blocking", feature = "interval"))]
pub use discipline::Steering;
#[cfg(feature = "periodic")]
pub use expirations::Expirations;
#[cfg(feature = "interval")]
pub use group::{GroupBuilder, GroupInterval, IntervalGroup};
#[cfg(feature = "interval")]
pub use interval::{
    IntervalBuilder, IntervalTimer, MissedTickBehavior, OsInterval, interval, interval_at,
};
#[cfg(feature = "periodic")]
pub use periodic::PeriodicInterval;
#[cfg(any(feature = "blocking", feature = "interval"))]
pub use precision::{Precision, Spin};
#[cfg(feature = "interval")]
pub use sleep::{Sleep, sleep, sleep_until};
#[cfg(feature = "interval")]
pub use timeout::{Elapsed, Timeout, timeout, timeout_at};

// Compiles the programs of the README as documentation tests.
#[cfg(all(doctest, feature = "blocking", feature = "interval"))]
#[doc = include_str!("../README.md")]
mod readme {}
