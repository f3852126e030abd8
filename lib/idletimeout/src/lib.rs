//! A timeout that costs next to nothing while it does not fire.
//!
//! The most common timer in an async program isn't periodic at all: it's the timeout around every
//! `recv()`, which never fires. With [`tokio::time::timeout`] each message pays for a timer:
//! created, registered in the timer wheel if the message is not there yet, deregistered when it
//! comes. An [`IdleTimeout`] is armed once. A message that comes sets a flag; a wait that finds
//! none there takes one stamp. When the armed timer expires, once per timeout length, it is armed
//! again for what is left of the silence. With a [`slack`](IdleTimeout::slack) not even a stamp is
//! taken.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::{pin::pin, time::Duration};
//! use idletimeout::IdleTimeout;
//!
//! let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
//! sender.send("a message").await.unwrap();
//! let mut idle = pin!(IdleTimeout::new(Duration::from_millis(20)));
//! // The message is there ...
//! assert_eq!(idle.as_mut().guard(receiver.recv()).await, Ok(Some("a message")));
//! // ... and no other comes for 20 ms.
//! assert!(idle.as_mut().guard(receiver.recv()).await.is_err());
//! # }
//! ```
//!
//! # What "idle for d" means
//!
//! - A silence begins when a wait finds nothing there, the first one after a wait that completed;
//!   and at a [`touch`](IdleTimeout::touch), a firing, or the creation. It ends when a wait
//!   completes.
//! - It fires when a silence has lasted for at least d, *never* earlier.
//! - Its task is woken at most one timer resolution after that, as far as the machine allows:
//!   tokio's wheel turns once a millisecond.
//! - If the loop keeps polling after a timeout, the timeout fires again after a further d of
//!   silence.
//! - The time that the loop spends on a message does not count, as with a `timeout` around each
//!   `recv`. To have it count, `touch` when the message has come.
//!
//! ```text
//!  recv()   ready        pending ........................ Elapsed
//!  loop     | at work ... |<------------- d ------------->|
//! ```
//!
//! # Which one
//!
//! | | A message costs | Fires after |
//! |---|---|---|
//! | as it is | a store; one reading of the clock if the loop had to wait for it | d |
//! | [`slack(0.1)`](IdleTimeout::slack) | a store | d to 1.1 d, while its task waits; ten looks per d wake it |
//!
//! # Around what
//!
//! | | |
//! |---|---|
//! | [`IdleTimeout::guard`] | any wait of a loop |
//! | [`IdleIo`] | a connection: reads and writes that fail when nothing moved |
//! | `IdleStream`, with the feature `stream` | the items of a stream, and an error for each silence |
//! | [`IdleTimeout`] itself | a branch of `select!` |
//!
//! # Clocks
//!
//! | Clock | A stamp reads | Use it |
//! |---|---|---|
//! | [`TachClock`], the default | the CPU counter, where it can be trusted | in production |
//! | [`TokioClock`] | tokio's clock | in tests that pause or advance the runtime's clock |
//!
//! Stamps only measure elapsed time; a deadline is always on tokio's own clock, and the error bound
//! of the conversion is added to the wait. So no drift between the two clocks makes it fire early,
//! however long it lives. (An OS clock that is being slewed, by NTP say, differs from the counter
//! by up to its slew, at most 500 ppm on Linux.)
#![forbid(unsafe_code)]

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

// The programs of the crate's front page are compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
