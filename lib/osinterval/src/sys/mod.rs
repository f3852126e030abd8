//! The OS's timers, one file a kernel, chosen once below.
//!
//! Every file provides, with the same meaning:
//!
//! - `native() -> Option<Backend>`: which timer it is, or `None` where there is nothing native.
//! - `OneShot::new() -> io::Result<OneShot>`: a disarmed timer, registered with the current
//!   runtime, which is known to exist.
//! - `OneShot::arm(&mut self, deadline: Instant) -> io::Result<()>`: to fire once, not before
//!   `deadline`, at once if that has passed. Replaces whatever was armed, and forgets an expiration
//!   that was not seen yet.
//! - `OneShot::poll_fired(&mut self, cx) -> Poll<io::Result<()>>`: ready when something fired since
//!   the last call, perhaps an earlier arming; pending with the waker registered for the next
//!   expiration otherwise. The caller asks the clock.
//! - `Periodic::new(first: Instant, period: Duration) -> io::Result<Periodic>` and
//!   `Periodic::poll_expired(&mut self, cx) -> Poll<io::Result<()>>`: ready when at least one
//!   period has ended since the last call; how many, the caller asks the clock. Only where
//!   `KERNEL_PERIODIC` is true.
//! - `Periodic::may_be_taken_late(&self) -> bool`: whether the caller may deliver a tick before it
//!   calls `poll_expired` for the expiration behind it, without a shift of those that follow.
//!
//! A backend only talks to its kernel: deadlines, policy and the check against the clock live above
//! it.
#![cfg_attr(
    not(feature = "periodic"),
    allow(dead_code, reason = "one feature uses a part of a backend")
)]

mod kqueue_time;

// The ladder. Where no rung holds, the module is the file of its own name.
#[cfg_attr(
    all(feature = "os-native", not(osinterval_force_fallback)),
    cfg_attr(any(target_os = "linux", target_os = "android"), path = "timerfd.rs"),
    cfg_attr(
        any(
            target_vendor = "apple",
            target_os = "freebsd",
            target_os = "netbsd",
            target_os = "openbsd",
            target_os = "dragonfly"
        ),
        path = "kqueue.rs"
    ),
    cfg_attr(windows, path = "windows.rs")
)]
mod none;

use none as selected;
pub(crate) use selected::*;
