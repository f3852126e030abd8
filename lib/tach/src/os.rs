//! What the OS is asked for: its clock, and whether it trusts the counter.

use std::io::Read;

use crate::source::WhyNotCounter;

/// A moment of the OS's monotonic clock.
///
/// It is [`std::time::Instant`], except in a browser or Node (`wasm32-unknown-unknown`), which has
/// none: there it is the time since the origin of the page or process that `Performance.now()`
/// reports.
#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub type OsInstant = std::time::Instant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use browser::OsInstant;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
#[allow(unsafe_code, reason = "what the macro makes of a foreign function")]
mod browser {
    use std::ops::{Add, Sub};
    use std::time::Duration;

    use wasm_bindgen::prelude::wasm_bindgen;

    #[wasm_bindgen]
    extern "C" {
        #[wasm_bindgen(js_namespace = performance, js_name = now)]
        fn performance_now() -> f64;
    }

    /// A moment of `Performance.now()`: time since the origin of the page or process.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct OsInstant(Duration);

    impl OsInstant {
        /// The current time.
        #[must_use]
        pub fn now() -> Self {
            // Milliseconds, never negative; whatever the browser rounds them to is the clock's
            // resolution.
            Self(Duration::from_nanos((performance_now() * 1e6) as u64))
        }

        /// Time from `earlier` to this; `None` if `earlier` is later.
        #[must_use]
        pub fn checked_duration_since(&self, earlier: Self) -> Option<Duration> {
            self.0.checked_sub(earlier.0)
        }

        /// Time from `earlier` to this; zero if `earlier` is later.
        #[must_use]
        pub fn saturating_duration_since(&self, earlier: Self) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// This moment plus `duration`; `None` on overflow.
        #[must_use]
        pub fn checked_add(&self, duration: Duration) -> Option<Self> {
            self.0.checked_add(duration).map(Self)
        }

        /// This moment minus `duration`; `None` if that lies before the origin.
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

/// The step of that clock in nanoseconds, by which each of its readings may be early: 10 MHz on
/// Windows, 24 MHz on Apple's own processors.
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

/// How many nanoseconds the machine has been suspended since it was started, at least and at most;
/// `None` where nobody says.
#[cfg(not(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64")))]
pub(crate) fn suspended_ns() -> Option<[i64; 2]> {
    None
}

/// As elsewhere. The clock that counts while the machine sleeps is read between two readings of the
/// one that does not.
#[cfg(all(any(target_os = "linux", target_os = "android"), target_pointer_width = "64"))]
#[allow(unsafe_code, reason = "a clock that the standard library does not offer")]
pub(crate) fn suspended_ns() -> Option<[i64; 2]> {
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

    let read = |clock| {
        let mut time = Timespec { seconds: 0, nanoseconds: 0 };
        // SAFETY: with 64-bit pointers the kernel's and every C library's `timespec` is two 64-bit
        // integers here; the one that is pointed to outlives the call, which does nothing but write
        // it.
        let result = unsafe { clock_gettime(clock, &raw mut time) };
        (result == 0).then_some(time.seconds * 1_000_000_000 + time.nanoseconds)
    };
    let (before, with_sleep, after) = (read(MONOTONIC)?, read(BOOTTIME)?, read(MONOTONIC)?);
    Some([with_sleep - after, with_sleep - before])
}

/// Whether the kernel trusts the counter, on Linux by the clock source it keeps its own time with:
/// `Ok(true)` if it uses the counter, and so has checked that all cores agree on it, and reads it
/// in user space itself (in the vDSO); `Ok(false)` if there is no kernel to ask.
pub(crate) fn kernel_trusts_counter() -> Result<bool, WhyNotCounter> {
    if !cfg!(all(
        any(target_os = "linux", target_os = "android"),
        any(target_arch = "x86", target_arch = "x86_64")
    )) {
        return Ok(false);
    }
    const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // Three system calls: this is asked before the first reading.
    let mut name = [0; 64];
    let read = std::fs::File::open(CURRENT).and_then(|mut file| file.read(&mut name));
    let name = &name[..read.map_err(|_| WhyNotCounter::KernelSilent)?];
    match name.trim_ascii() {
        b"tsc" => Ok(true),
        other => Err(WhyNotCounter::KernelUses(String::from_utf8_lossy(other).into_owned())),
    }
}
