//! The timers that an interval can tick from.

use std::fmt;

/// The timer or sleep that an interval ticks from. Its text form is stable and meant for reports.
/// While a test has paused tokio's clock, intervals of tokio use tokio's timer instead.
///
/// # Examples
/// ```
/// # #[cfg(feature = "interval")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let interval = osinterval::interval(std::time::Duration::from_millis(1));
/// if interval.backend() == osinterval::Backend::TokioSleep {
///     eprintln!("no native timer here: ticks will be a millisecond late");
/// }
/// # });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Backend {
    /// `timerfd` on the monotonic clock (Linux, Android): accepts nanoseconds, and is tens of
    /// microseconds late.
    Timerfd,
    /// `EVFILT_TIMER` of kqueue. On Apple's systems it is absolute and critical, and tens of
    /// microseconds late. FreeBSD accepts nanoseconds. NetBSD, OpenBSD and DragonFly get whole
    /// milliseconds, rounded up, and count them in ticks, which last 10 ms by default.
    Kqueue,
    /// A high-resolution waitable timer (Windows 10 1803, Server 2019 and later): about half a
    /// millisecond late.
    WaitableTimer,
    /// The thread pool's timer (older Windows): late by up to the system's tick, which is 15.6 ms
    /// unless a program has set a shorter one.
    ThreadpoolTimer,
    /// tokio's own timer wheel: one to two milliseconds late.
    TokioSleep,
    /// An absolute sleep of the thread on the monotonic clock (Linux, Android), in
    /// `clock_nanosleep` or on a futex: tens of microseconds late.
    ThreadSleep,
    /// A waitable timer of the thread (older Windows): late by up to the system's tick, which is
    /// 15.6 ms unless a program has set a shorter one.
    CoarseWaitableTimer,
    /// A condition variable of std: as late as the system's sleeps are.
    Condvar,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timerfd => "timerfd",
            Self::Kqueue => "kqueue",
            Self::WaitableTimer => "waitable-timer",
            Self::ThreadpoolTimer => "threadpool-timer",
            Self::TokioSleep => "tokio-sleep",
            Self::ThreadSleep => "thread-sleep",
            Self::CoarseWaitableTimer => "coarse-waitable-timer",
            Self::Condvar => "condvar",
        })
    }
}

/// The reaction if the OS refuses a timer, for example because no descriptor is left.
///
/// Platforms without a native timer, and builds without the feature `os-native`, use tokio's timer
/// in any case.
///
/// # Examples
/// ```
/// # #[cfg(feature = "interval")]
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use osinterval::{Fallback, OsInterval};
/// let period = std::time::Duration::from_millis(1);
/// let interval = OsInterval::builder(period).fallback(Fallback::TokioSleep).build()?;
/// println!("ticking from {}", interval.backend());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fallback {
    /// Return the error.
    #[default]
    Never,
    /// Tick from tokio's timer instead; the interval's backend is then [`Backend::TokioSleep`].
    TokioSleep,
}
