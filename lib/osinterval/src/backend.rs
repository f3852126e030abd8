//! What ticks come from.

use std::fmt;

/// What an interval ticks from. Its text form is stable and meant for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `timerfd` on the monotonic clock (Linux, Android): nanoseconds in the interface, tens of microseconds in effect.
    Timerfd,
    /// `EVFILT_TIMER` of kqueue. Apple's systems: an absolute, critical timer, tens of microseconds in effect. FreeBSD and
    /// NetBSD: nanoseconds in the interface. OpenBSD and DragonFly: whole milliseconds, rounded up.
    Kqueue,
    /// A high-resolution waitable timer (Windows 10 1803, Server 2019 and later): about half a millisecond in effect.
    WaitableTimer,
    /// The thread pool's timer (older Windows): the system's tick, 15.6 ms unless some program has asked for less.
    ThreadpoolTimer,
    /// tokio's own timer wheel: one to two milliseconds in effect.
    TokioSleep,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timerfd => "timerfd",
            Self::Kqueue => "kqueue",
            Self::WaitableTimer => "waitable-timer",
            Self::ThreadpoolTimer => "threadpool-timer",
            Self::TokioSleep => "tokio-sleep",
        })
    }
}

/// What to do where the operating system refuses a timer, for example because no descriptor is left.
///
/// Platforms without a native timer, and builds without the feature `os-native`, use tokio's timer in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Return the error.
    #[default]
    Never,
    /// Tick from tokio's timer instead; [`Backend::TokioSleep`] tells that it is so.
    TokioSleep,
}
