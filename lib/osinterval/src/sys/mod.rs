//! The OS's timers: one file per kernel, one of which is selected below.
//!
//! Every file provides:
//!
//! - `native() -> Option<Backend>`: the kind of timer, or `None` if the platform has no native one.
//! - `OneShot::new() -> io::Result<OneShot>`: a disarmed timer, registered with the current
//!   runtime. The caller has checked that there is one.
//! - `OneShot::arm(&mut self, deadline: Instant) -> io::Result<()>`: arms the timer to fire once,
//!   not before `deadline`, at once if that has passed. Replaces an earlier arming, and discards an
//!   expiration that was not polled yet.
//! - `OneShot::poll_fired(&mut self, cx) -> Poll<io::Result<()>>`: ready if the timer has fired
//!   since the last call, perhaps by an earlier arming; otherwise pending, with the waker
//!   registered for the next expiration. The caller compares the deadline with the clock.
//! - `Periodic::new(first: Instant, period: Duration) -> io::Result<Periodic>` and
//!   `Periodic::poll_expired(&mut self, cx) -> Poll<io::Result<()>>`: ready if at least one period
//!   has ended since the last call. The caller counts them by the clock. Only used if
//!   `KERNEL_PERIODIC` is true.
//! - `Periodic::can_take_expiration_late(&self) -> bool`: whether the caller may deliver a tick
//!   before it calls `poll_expired` for the expiration of that tick, without shifting the ticks
//!   that follow.
//!
//! A backend only makes system calls. Deadlines, policy and the comparison with the clock belong to
//! the modules that use it.
//!
//! Linux is called through rustix, so its backend has no unsafe code. kqueue is called through
//! libc, because rustix has no absolute or critical timers, and truncates 500 us to zero seconds.
#![cfg_attr(
    not(feature = "periodic"),
    allow(dead_code, reason = "each feature uses a part of a backend")
)]

mod kqueue_time;

// The ladder of backends. If no condition is true, the module is `stub.rs`, the file of its name.
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
mod stub;

pub(crate) use selected::*;
use stub as selected;
