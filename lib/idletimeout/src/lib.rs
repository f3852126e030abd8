//! A timeout that costs almost nothing while it does not fire.
//!
//! The most common timer in an async program is not periodic: it is the timeout around every
//! `recv()`, which never fires. With [`tokio::time::timeout`], each message pays for a timer. The
//! timer is created, registered in the timer wheel if the message is not ready yet, and
//! deregistered when the message comes.
//!
//! An [`IdleTimeout`] is armed once. Each message sets a flag; each wait that is not ready reads the
//! clock once. When the armed timer expires, once per timeout length, it is armed again for the rest
//! of the silence. With a [`slack`](IdleTimeout::slack), the waits read no clock either.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::{pin::pin, time::Duration};
//! use idletimeout::IdleTimeout;
//!
//! let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
//! sender.send("a message").await.unwrap();
//! let mut idle = pin!(IdleTimeout::new(Duration::from_millis(20)));
//! // The message is ready ...
//! assert_eq!(idle.as_mut().guard(receiver.recv()).await, Ok(Some("a message")));
//! // ... and no other message comes for 20 ms.
//! assert!(idle.as_mut().guard(receiver.recv()).await.is_err());
//! # }
//! ```
//!
//! # Definition of "idle for d"
//!
//! - A silence begins at the first pending wait after a wait that completed. It also begins at a
//!   [`touch`](IdleTimeout::touch), at a firing, and at the creation. It ends when a wait
//!   completes.
//! - The timeout fires when a silence has lasted for at least d, *never* earlier.
//! - The task is woken at most one timer resolution after that, as far as the machine allows.
//!   Tokio's timer wheel has a resolution of one millisecond.
//! - If the loop continues to poll after a timeout, the timeout fires again after a further d of
//!   silence.
//! - The time that the loop spends on a message does not count, as with a `timeout` around each
//!   `recv`. To count it, `touch` when the message has come.
//!
//! ```text
//!  recv()   ready        pending ........................ Elapsed
//!  loop     | at work ... |<------------- d ------------->|
//! ```
//!
//! # Choosing a slack
//!
//! | | Cost of a message | Fires after |
//! |---|---|---|
//! | no slack | a store, and one reading of the clock if the loop had to wait for the message | d |
//! | [`slack(0.1)`](IdleTimeout::slack) | a store | d to 1.1 d, while its task waits; ten checks per d wake the task |
//!
//! A wait that is not ready also compares the task's waker with the one that the timer wakes, and
//! asks tokio whether the timer has expired. With a slack, this is most of the cost of a message.
//!
//! # Choosing a type
//!
//! | | Use |
//! |---|---|
//! | [`IdleTimeout::guard`] | any wait of a loop |
//! | [`IdleIo`] | a connection: reads and writes fail if nothing has moved |
//! | `IdleStream`, with the feature `stream` | the items of a stream, and an error for each silence |
//! | [`IdleTimeout`] itself | a branch of `select!` |
//!
//! # Clocks
//!
//! | Clock | Source | Use |
//! |---|---|---|
//! | [`TachClock`], the default | the CPU counter, if it can be trusted | always, unless the next line applies |
//! | [`TokioClock`] | tokio's clock | in tests that pause the clock after the timeout was created |
//!
//! These clocks only measure elapsed time. A deadline is always on tokio's clock, and the error bound of
//! the conversion is added to the wait. So the timeout never fires early because the two clocks
//! drift apart, even if it exists for a long time. (An OS clock that is slewed, for example by NTP,
//! differs from the counter by up to its slew. On Linux that is at most 500 ppm, or a tenth if a
//! daemon changes the length of the kernel's tick, as chrony does for large offsets.)
//!
//! On Linux and Apple's systems, tokio's clock stops while the system is suspended, and the counter
//! may not. A silence that contains a suspend can then end early, by up to the length of the
//! suspend. With [`TokioClock`] it does not.
//!
//! # Threads
//!
//! All types are `Send` and `Sync` if what they contain is: the clock, its readings, the future, the
//! connection or the stream. A timeout needs the time driver of the tokio runtime in which it was
//! created, and wakes the task that polled it last.
//!
//! # Testing
//!
//! While a test has paused tokio's clock, timeouts with the default clock measure with that, so
//! hours pass at once:
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! use std::{pin::pin, time::Duration};
//! let start = tokio::time::Instant::now();
//! let mut idle = pin!(idletimeout::IdleTimeout::new(Duration::from_secs(3_600)));
//! idle.as_mut().await;
//! assert_eq!(start.elapsed(), Duration::from_secs(3_600));
//! # }
//! ```
//!
//! The clocks are compared when a timeout is created and when its timer expires. If the clock is
//! paused in between and a message comes after that, the timeout is late once, by up to its length,
//! and never early. Other implementations of [`Clock`] choose with
//! [`Clock::yields_to_paused_clock`].
#![forbid(unsafe_code)]
#![warn(clippy::must_use_candidate)]

mod clock;
mod idle;
mod io;
#[cfg(feature = "stream")]
mod stream;

pub use clock::{Clock, TachClock, TokioClock};
pub use idle::{Elapsed, Guard, IdleTimeout};
pub use io::IdleIo;
#[cfg(feature = "stream")]
pub use stream::IdleStream;

// Compiles the programs of the README as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
