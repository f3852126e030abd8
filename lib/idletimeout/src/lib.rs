//! A timeout that costs next to nothing while it does not fire.
//!
//! The commonest timer of an async program is the timeout around every `recv()` that never fires. With
//! [`tokio::time::timeout`] each message pays for a timer: made, registered in the timer wheel when the message is not
//! there yet, deregistered when it comes. An [`IdleTimeout`] is armed once and *touched* at each message. A touch stores
//! one stamp, and nothing else; only when the armed timer runs out before its time, once per timeout length, is it armed
//! again for what is left.
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
//! // ... and no other one comes for 20 ms.
//! assert!(idle.as_mut().guard(receiver.recv()).await.is_err());
//! # }
//! ```
//!
//! # What "idle for d" means
//!
//! - It fires when nothing has touched it for at least d: *never* before d after the last touch (or after it was made).
//! - Its task is woken at most one timer resolution after that, as far as the machine allows: tokio's wheel
//!   turns once a millisecond.
//! - Each firing begins a new period: a loop that goes on after it hears again after another d without a touch.
//! - Time that the loop spends on a message counts as idle, where a `timeout` around `recv` starts anew at each call. A loop that
//!   does not want that touches once more before it waits.
//!
//! # Clocks
//!
//! | Clock | A touch reads | Use it |
//! |---|---|---|
//! | [`TachClock`], the default | the CPU counter, where it can be trusted | in production |
//! | [`TokioClock`] | tokio's clock | in tests that pause or advance the runtime's time |
//!
//! The stamps are used to tell elapsed time only; a deadline is always in tokio's own clock, and the error bound of the
//! conversion is added to the wait. So no drift between the two clocks makes it fire early, however long it lives. (A
//! system clock that is being slewed, by NTP say, differs from the counter by up to its slew, at most 500 ppm on Linux.)
#![forbid(unsafe_code)]

mod clock;
mod idle;
#[cfg(feature = "stream")]
mod stream;

pub use clock::{Clock, TachClock, TokioClock};
pub use idle::{Elapsed, Guard, IdleTimeout};
#[cfg(feature = "stream")]
pub use stream::IdleStream;
