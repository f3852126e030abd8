//! Sleeps of a thread on Windows: a waitable timer, and an event that another thread can set. The
//! timer is of high resolution from Windows 10 1803 on.
#![allow(unsafe_code)]

use std::io;
use std::ptr::null;
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE, WAIT_FAILED};
use windows_sys::Win32::System::Threading::{
    CreateEventW, INFINITE, SetEvent, WaitForMultipleObjects,
};

use super::windows_timer::{TimerHandle, has_high_resolution, relative_due_time};
use crate::backend::Backend;

#[derive(Debug)]
pub(crate) struct Sleeper {
    timer: TimerHandle,
    event: EventHandle,
    backend: Backend,
}

impl Sleeper {
    pub(crate) fn new() -> io::Result<Self> {
        let (timer, backend) = if has_high_resolution() {
            (TimerHandle::high_resolution()?, Backend::WaitableTimer)
        } else {
            (TimerHandle::low_resolution()?, Backend::CoarseWaitableTimer)
        };
        Ok(Self { timer, event: EventHandle::new()?, backend })
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn sleep_until(&self, _: Option<&AtomicU32>, deadline: Instant) -> io::Result<()> {
        self.timer.set(relative_due_time(deadline))?;
        let handles = [self.timer.raw(), self.event.0];
        // SAFETY: both handles are open, and the array is ours and only read. A wait for the event
        // resets it.
        let result = unsafe { WaitForMultipleObjects(2, handles.as_ptr(), 0, INFINITE) };
        if result == WAIT_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    pub(crate) fn wake(&self, _word: &AtomicU32) {
        // SAFETY: the handle is an open event. The call cannot fail for such a handle.
        unsafe { SetEvent(self.event.0) };
    }
}

/// An owned handle of an event, which stays set until a wait for it.
#[derive(Debug)]
struct EventHandle(HANDLE);

// SAFETY: a handle of a kernel object may be used and closed from any thread.
unsafe impl Send for EventHandle {}
// SAFETY: through a shared reference the event is set and waited for, which any thread may do.
unsafe impl Sync for EventHandle {}

impl EventHandle {
    fn new() -> io::Result<Self> {
        // SAFETY: no security attributes and no name: both pointers may be null.
        let handle = unsafe { CreateEventW(null(), 0, 0, null()) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }
}

impl Drop for EventHandle {
    fn drop(&mut self) {
        // SAFETY: this is the only owner of an open handle.
        unsafe { CloseHandle(self.0) };
    }
}
