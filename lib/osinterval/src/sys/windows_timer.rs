//! Waitable timers of Windows, and their resolution.
#![allow(unsafe_code)]

use std::io;
use std::ptr::null;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::{CloseHandle, ERROR_INVALID_PARAMETER, HANDLE};
use windows_sys::Win32::System::Threading::{
    CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, CreateWaitableTimerExW, SetWaitableTimer,
    TIMER_ALL_ACCESS,
};

/// Returns whether the system has high-resolution timers.
pub(super) fn has_high_resolution() -> bool {
    static SUPPORTED: OnceLock<bool> = OnceLock::new();
    if cfg!(osinterval_force_threadpool) {
        return false;
    }
    if let Some(supported) = SUPPORTED.get() {
        return *supported;
    }
    match support_from_error(TimerHandle::high_resolution().as_ref().err()) {
        Some(supported) => *SUPPORTED.get_or_init(|| supported),
        // Creating a timer now returns the error; the next call tries again.
        None => true,
    }
}

/// Returns whether the system supports high-resolution timers, from the error of creating one.
///
/// A system that is too old rejects the flag. Any other error is transient and returns `None`, so
/// that the process does not keep a worse timer for good.
fn support_from_error(error: Option<&io::Error>) -> Option<bool> {
    match error {
        None => Some(true),
        Some(error) if error.raw_os_error() == Some(ERROR_INVALID_PARAMETER.cast_signed()) => {
            Some(false)
        }
        Some(_) => None,
    }
}

/// Returns the remaining time in units of 100 ns, rounded up so that the timer is not early. It is
/// negative, which means a relative time, and at least one unit, since zero would be an absolute
/// time.
#[allow(clippy::disallowed_methods, reason = "the kernel needs the remaining time")]
pub(super) fn relative_due_time(deadline: Instant) -> i64 {
    const UNIT_NS: u128 = 100;
    let remaining: Duration = deadline.saturating_duration_since(Instant::now());
    -i64::try_from(remaining.as_nanos().div_ceil(UNIT_NS).max(1)).unwrap_or(i64::MAX)
}

/// An owned handle of a waitable timer, which may be of high resolution.
#[derive(Debug)]
pub(super) struct TimerHandle(HANDLE);

// SAFETY: a handle of a kernel object may be used and closed from any thread.
unsafe impl Send for TimerHandle {}
// SAFETY: through a shared reference the timer is only armed, which any thread may do.
unsafe impl Sync for TimerHandle {}

impl TimerHandle {
    pub(super) fn high_resolution() -> io::Result<Self> {
        Self::new(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION)
    }

    /// Creates a timer with the resolution of the system's tick.
    #[cfg(feature = "blocking")]
    pub(super) fn low_resolution() -> io::Result<Self> {
        Self::new(0)
    }

    fn new(flags: u32) -> io::Result<Self> {
        // SAFETY: no security attributes and no name: both pointers may be null.
        let handle = unsafe { CreateWaitableTimerExW(null(), null(), flags, TIMER_ALL_ACCESS) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }

    pub(super) fn raw(&self) -> HANDLE {
        self.0
    }

    /// Arms the timer to fire once, at a relative time.
    pub(super) fn set(&self, due: i64) -> io::Result<()> {
        // SAFETY: the handle is an open timer, `due` is ours and only read, and there is no
        // completion routine.
        let set = unsafe { SetWaitableTimer(self.0, &due, 0, None, null(), 0) };
        if set == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for TimerHandle {
    fn drop(&mut self) {
        // SAFETY: this is the only owner of an open handle.
        unsafe { CloseHandle(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windows_sys::Win32::Foundation::{ERROR_NO_SYSTEM_RESOURCES, ERROR_TOO_MANY_OPEN_FILES};

    #[test]
    fn only_invalid_parameter_means_unsupported() {
        let error = |code: u32| io::Error::from_raw_os_error(code.cast_signed());
        assert_eq!(support_from_error(None), Some(true));
        assert_eq!(support_from_error(Some(&error(ERROR_INVALID_PARAMETER))), Some(false));
        for transient in [ERROR_NO_SYSTEM_RESOURCES, ERROR_TOO_MANY_OPEN_FILES] {
            assert_eq!(support_from_error(Some(&error(transient))), None);
        }
    }
}
