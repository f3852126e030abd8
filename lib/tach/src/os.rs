//! The OS clock, the time that the machine was suspended, and whether the kernel uses the counter.

use std::io::Read;

use crate::source::CounterUnavailable;

/// A reading of the OS's monotonic clock.
///
/// It is [`std::time::Instant`], except in a browser or Node (`wasm32-unknown-unknown`), where std
/// has no clock. There it is the time since the origin of the page or process, as
/// `Performance.now()` reports it.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub type OsInstant = std::time::Instant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use browser::OsInstant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[allow(unsafe_code, reason = "the macro generates a call of a foreign function")]
mod browser {
    use std::ops::{Add, Sub};
    use std::time::Duration;

    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        fn performance_now() -> f64;
    }

    /// A reading of `Performance.now()`: the time since the origin of the page or process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct OsInstant(Duration);

    impl OsInstant {
        /// Returns the current time.
        #[must_use]
        pub fn now() -> Self {
            // Milliseconds, never negative. The unit that the browser rounds them to is the clock's
            // resolution.
            Self(Duration::from_nanos((performance_now() * 1e6) as u64))
        }

        /// Returns the time from `earlier` to this; `None` if `earlier` is later.
        #[must_use]
        pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
            self.0.checked_sub(earlier.0)
        }

        /// Returns the time from `earlier` to this; zero if `earlier` is later.
        #[must_use]
        pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// Returns this reading plus `duration`; `None` on overflow.
        #[must_use]
        pub fn checked_add(&self, duration: Duration) -> Option<Self> {
            self.0.checked_add(duration).map(Self)
        }

        /// Returns this reading minus `duration`; `None` if that is before the origin.
        #[must_use]
        pub fn checked_sub(&self, duration: Duration) -> Option<Self> {
            self.0.checked_sub(duration).map(Self)
        }
    }

    impl Add<Duration> for OsInstant {
        type Output = Self;

        fn add(self, duration: Duration) -> Self {
            Self(self.0 + duration)
        }
    }

    impl Sub for OsInstant {
        type Output = Duration;

        fn sub(self, earlier: Self) -> Duration {
            self.saturating_duration_since(earlier)
        }
    }
}

/// The step of the OS clock in nanoseconds. Each reading may be early by a step. The clock ticks at
/// 10 MHz on Windows and at 24 MHz on Apple's processors.
pub(crate) const STEP_NS: u64 = if cfg!(windows) {
    100
} else if cfg!(target_vendor = "apple") {
    42
} else {
    1
};

#[allow(clippy::disallowed_methods, reason = "the home of the OS clock")]
pub(crate) fn now() -> OsInstant {
    OsInstant::now()
}

/// Bounds of the time for which the machine has been suspended since it was started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SuspendedTime {
    pub(crate) min_ns: i64,
    pub(crate) max_ns: i64,
}

/// Returns how long the machine has been suspended; `None` on this platform.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64")))]
pub(crate) fn suspended_time() -> Option<SuspendedTime> {
    None
}

/// Returns how long the machine has been suspended; `None` if a clock cannot be read.
///
/// The clock that runs during a suspend is read between two readings of the clock that does not. One
/// reading is enough, because a delay makes the bounds wider and never wrong.
#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
#[allow(unsafe_code, reason = "a clock that the standard library does not offer")]
pub(crate) fn suspended_time() -> Option<SuspendedTime> {
    const MONOTONIC: i32 = 1;
    const BOOTTIME: i32 = 7;

    #[repr(C)]
    struct Timespec {
        seconds: i64,
        nanoseconds: i64,
    }

    unsafe extern "C" {
        fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    }

    fn read(clock: i32) -> Option<i64> {
        let mut time = Timespec { seconds: 0, nanoseconds: 0 };
        // SAFETY: with 64-bit pointers the kernel's and every C library's `timespec` is two 64-bit
        // integers here; the one that is pointed to outlives the call, which does nothing but write
        // it.
        let result = unsafe { clock_gettime(clock, &raw mut time) };
        (result == 0).then_some(time.seconds * 1_000_000_000 + time.nanoseconds)
    }

    let before = read(MONOTONIC)?;
    let with_suspend = read(BOOTTIME)?;
    let after = read(MONOTONIC)?;
    Some(SuspendedTime { min_ns: with_suspend - after, max_ns: with_suspend - before })
}

/// Whether the kernel of this platform reports that it has verified the counter.
pub(crate) const CAN_KERNEL_VERIFY_COUNTER: bool = cfg!(all(
    any(target_os = "linux", target_os = "android"),
    any(target_arch = "x86", target_arch = "x86_64")
));

/// Returns whether the kernel has verified the counter. On Linux on x86 this is read from the
/// kernel's clock source.
///
/// - `Ok(true)`: the kernel uses the counter. It has checked that all cores have equal counters,
///   and its vDSO reads the counter in user space as well.
/// - `Ok(false)`: on other platforms, which do not report it.
///
/// # Errors
/// Returns an error if the kernel uses another clock source, or if the clock source cannot be read.
pub(crate) fn is_verified_by_kernel() -> Result<bool, CounterUnavailable> {
    if !CAN_KERNEL_VERIFY_COUNTER {
        return Ok(false);
    }
    const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // This delays the first reading of the process, so it makes only three system calls.
    let mut name = [0; 64];
    let read = std::fs::File::open(CURRENT).and_then(|mut file| file.read(&mut name));
    let name = &name[..read.map_err(|_| CounterUnavailable::KernelSilent)?];
    match name.trim_ascii() {
        b"tsc" => Ok(true),
        other => Err(CounterUnavailable::KernelUses(String::from_utf8_lossy(other).into_owned())),
    }
}
