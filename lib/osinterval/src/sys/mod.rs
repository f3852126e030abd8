//! The OS's timers and sleeps: one file of each per kernel, which are selected below.
//!
//! Every file of timers, for tokio's intervals, provides:
//!
//! - `native() -> Option<Backend>`: the kind of timer, or `None` if the platform has no native one.
//! - `OneShot::new() -> io::Result<OneShot>`: a disarmed timer, registered with the current
//!   runtime. The caller has checked that there is one. Returns an error if a sandbox denies a
//!   system call that arming needs, so that the caller can fall back.
//! - `OneShot::arm(&mut self, deadline: Instant) -> io::Result<()>`: arms the timer to fire once,
//!   not before `deadline`, at once if that has passed. Replaces an earlier arming, and discards an
//!   expiration that was not polled yet.
//! - `OneShot::poll_fired(&mut self, cx) -> Poll<io::Result<()>>`: ready if the timer has fired
//!   since the last call, perhaps by an earlier arming; otherwise pending, with the waker
//!   registered for the next expiration. The caller compares the deadline with the clock.
//! - `Periodic::new(first: Instant, period: Duration) -> io::Result<Periodic>` and
//!   `Periodic::poll_expired(&mut self, cx) -> Poll<io::Result<()>>`: ready if at least one period
//!   has ended since the last call. The caller counts them by the clock. Only used if `can_repeat`
//!   is true.
//! - `can_repeat(period: Duration) -> bool`: whether the kernel repeats a timer with this period on
//!   the schedule, without rounding the period.
//! - `Periodic::can_take_expiration_late(&self) -> bool`: whether the caller may deliver a tick
//!   before it calls `poll_expired` for the expiration of that tick, without shifting the ticks
//!   that follow.
//!
//! - `TIMERS_PER_QUEUE: usize`: how many timers a queue arms at the same time, each for one of its
//!   next deadlines. More than one if that makes arming cheaper.
//! - `WAKES_FROM_RUNTIME: bool`: whether a timer calls its waker on a thread of the runtime, and
//!   without a lock.
//!
//! Every file of sleepers, for intervals without a runtime, provides a `Sleeper`, which is `Send` and
//! `Sync`:
//!
//! - `Sleeper::new() -> io::Result<Sleeper>`.
//! - `Sleeper::backend(&self) -> Backend`: the kind of sleep.
//! - `Sleeper::sleep_until(&self, word: Option<&AtomicU32>, deadline: Instant) -> io::Result<()>`:
//!   puts the thread to sleep until `deadline`, or until `wake`. It also returns at once if the word
//!   was changed from zero before a call of `wake` that the sleep misses. Without a word there is no
//!   thread that calls `wake`. It may return at any time for no reason: the caller compares the word
//!   and the clock again. Only one thread at a time calls it.
//! - `Sleeper::wake(&self, word: &AtomicU32)`: ends the sleep after the caller has changed the word.
//!
//! A backend only makes system calls. Deadlines, policy and the comparison with the clock belong to
//! the modules that use it.
//!
//! Linux is called through rustix, so its backend has no unsafe code. kqueue is called through
//! libc, because rustix has no absolute or critical timers, and truncates 500 us to zero seconds.
#![cfg_attr(
    not(all(feature = "os-native", feature = "interval", feature = "periodic")),
    allow(dead_code, reason = "each feature uses a part of a backend")
)]

mod kqueue_time;

// What timers and sleepers of one system share.
#[cfg(all(
    target_vendor = "apple",
    any(feature = "blocking", feature = "os-native"),
    not(any(loom, osinterval_force_fallback))
))]
mod kqueue_apple;
#[cfg(all(
    any(
        all(target_vendor = "apple", feature = "blocking"),
        all(
            any(
                target_vendor = "apple",
                target_os = "freebsd",
                target_os = "netbsd",
                target_os = "openbsd",
                target_os = "dragonfly"
            ),
            feature = "os-native",
            any(feature = "interval", feature = "periodic")
        )
    ),
    not(any(loom, osinterval_force_fallback))
))]
mod kqueue_calls;
#[cfg(all(
    any(target_os = "linux", target_os = "android"),
    any(feature = "blocking", feature = "os-native"),
    not(any(loom, osinterval_force_fallback))
))]
mod linux_clock;
#[cfg(all(
    windows,
    any(feature = "blocking", feature = "os-native"),
    not(any(loom, osinterval_force_fallback))
))]
mod windows_timer;

// The ladder of sleepers. If no condition is true, the module is `sleeper_condvar.rs`.
#[cfg(feature = "blocking")]
#[cfg_attr(loom, path = "sleeper_model.rs")]
#[cfg_attr(
    not(any(loom, osinterval_force_fallback)),
    cfg_attr(any(target_os = "linux", target_os = "android"), path = "sleeper_linux.rs"),
    cfg_attr(target_vendor = "apple", path = "sleeper_apple.rs"),
    cfg_attr(windows, path = "sleeper_windows.rs")
)]
mod sleeper_condvar;

#[cfg(feature = "blocking")]
pub(crate) use sleeper_condvar::Sleeper;

// The ladder of timers. If no condition is true, the module is `stub.rs`, the file of its name.
#[cfg(any(feature = "interval", feature = "periodic"))]
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

#[cfg(any(feature = "interval", feature = "periodic"))]
pub(crate) use selected::*;
#[cfg(any(feature = "interval", feature = "periodic"))]
use stub as selected;
