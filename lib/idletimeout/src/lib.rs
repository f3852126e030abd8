//! A timeout that costs next to nothing while it does not fire.
//!
//! The most common timer in an async program isn't periodic at all: it's the timeout around every `recv()`, which never
//! fires. With [`tokio::time::timeout`] each message pays for a timer: created, registered in the timer wheel if the
//! message is not there yet, deregistered when it comes. An [`IdleTimeout`] is armed once and *touched* at each message. A
//! touch stores one stamp and does nothing else. When the armed timer expires, once per timeout length, it is armed again
//! for what is left since the last touch.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use std::{pin::pin, time::Duration};
//! use idletimeout::IdleTimeout;
//!
//! let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
//! sender.send("a message").await.unwrap();
//! let mut idle = pin!(IdleTimeout::new(Duration::from_millis(20)));
//! // The message is there, and touches the timeout ...
//! assert_eq!(idle.as_mut().guard(receiver.recv()).await, Ok(Some("a message")));
//! // ... and no other comes for 20 ms.
//! assert!(idle.as_mut().guard(receiver.recv()).await.is_err());
//! # }
//! ```
//!
//! # What "idle for d" means
//!
//! - It fires when nothing has touched it for at least d: *never* before d after the last touch (or its creation).
//! - Its task is woken at most one timer resolution after that, as far as the machine allows: tokio's wheel turns once a
//!   millisecond.
//! - If the loop keeps polling after a timeout, the timeout fires again after a further d without a touch.
//! - The time that the loop spends on a message counts as idle, where a `timeout` around `recv` starts anew at each call. To
//!   exclude it, touch once more before waiting.
//!
//! # Clocks
//!
//! | Clock | A touch reads | Use it |
//! |---|---|---|
//! | [`TachClock`], the default | the CPU counter, where it can be trusted | in production |
//! | [`TokioClock`] | tokio's clock | in tests that pause or advance the runtime's clock |
//!
//! Stamps only measure elapsed time; a deadline is always on tokio's own clock, and the error bound of the conversion is
//! added to the wait. So no drift between the two clocks makes it fire early, however long it lives. (An OS clock that is
//! being slewed, by NTP say, differs from the counter by up to its slew, at most 500 ppm on Linux.)
#![forbid(unsafe_code)]

mod clock;
mod idle;
#[cfg(feature = "stream")]
mod stream;

pub use clock::{Clock, TachClock, TokioClock};
pub use idle::{Elapsed, Guard, IdleTimeout};
#[cfg(feature = "stream")]
pub use stream::IdleStream;

// The programs of the crate's front page are compiled as documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
