//! Windows: a high-resolution waitable timer (Windows 10 1803, Server 2019 and later), otherwise
//! the thread pool's timer.
//!
//! Both wake the task through a callback on a thread of the system's pool. A callback reports only
//! that the timer fired, perhaps by an earlier arming. The caller compares its deadline with the
//! clock.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::io;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{
    CloseThreadpoolTimer, CloseThreadpoolWait, CreateThreadpoolTimer, CreateThreadpoolWait,
    DisassociateCurrentThreadFromCallback, PTP_CALLBACK_INSTANCE, PTP_TIMER, PTP_WAIT,
    SetThreadpoolTimer, SetThreadpoolWait, WaitForThreadpoolTimerCallbacks,
    WaitForThreadpoolWaitCallbacks,
};

use super::windows_timer::{TimerHandle, has_high_resolution, relative_due_time};
use crate::backend::Backend;

pub(crate) const TIMERS_PER_QUEUE: usize = 1;
pub(crate) const WAKES_FROM_RUNTIME: bool = false;

/// Returns the kind of timer. It is determined by creating one, once per process unless that fails
/// for a transient reason.
pub(crate) fn native() -> Option<Backend> {
    Some(if has_high_resolution() { Backend::WaitableTimer } else { Backend::ThreadpoolTimer })
}

/// The state that the callback and the task share.
#[derive(Debug, Default)]
struct SharedState {
    fired: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl SharedState {
    /// Records that the timer has fired, and returns the waker to call.
    fn fire(&self) -> Option<Waker> {
        self.fired.store(true, Ordering::Release);
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.fired.swap(false, Ordering::Acquire) {
            return Poll::Ready(());
        }
        let mut waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        // `fire` sets the flag before it takes the lock, so either this reads the flag, or `fire`
        // finds the waker.
        if self.fired.swap(false, Ordering::Acquire) {
            return Poll::Ready(());
        }
        match &mut *waker {
            Some(stored) if stored.will_wake(cx.waker()) => {}
            stored => *stored = Some(cx.waker().clone()),
        }
        Poll::Pending
    }
}

#[derive(Debug)]
pub(crate) struct OneShot {
    // Dropped first. No callback uses `shared` after that.
    timer: Timer,
    shared: Arc<SharedState>,
}

#[derive(Debug)]
enum Timer {
    Waitable { wait: PoolWait, handle: TimerHandle },
    Pool(PoolTimer),
}

impl OneShot {
    pub(crate) fn new() -> io::Result<Self> {
        let shared = Arc::new(SharedState::default());
        let context = Arc::as_ptr(&shared);
        let timer = if has_high_resolution() {
            let handle = TimerHandle::high_resolution()?;
            Timer::Waitable { wait: PoolWait::new(context)?, handle }
        } else {
            Timer::Pool(PoolTimer::new(context)?)
        };
        Ok(Self { timer, shared })
    }

    pub(crate) fn arm(&mut self, deadline: Instant) -> io::Result<()> {
        // An expiration that was not polled yet belongs to an earlier arming.
        self.shared.fired.store(false, Ordering::Relaxed);
        let due = relative_due_time(deadline);
        match &mut self.timer {
            Timer::Waitable { wait, handle } => {
                handle.set(due)?;
                // SAFETY: both objects are open; a wait that is still registered is replaced.
                unsafe { SetThreadpoolWait(wait.0, handle.raw(), null()) };
            }
            Timer::Pool(timer) => {
                let bits = due.cast_unsigned();
                let due =
                    FILETIME { dwLowDateTime: bits as u32, dwHighDateTime: (bits >> 32) as u32 };
                // SAFETY: the timer is open, and `due` is ours and only read; no period, no window
                // to be late in.
                unsafe { SetThreadpoolTimer(timer.0, &due, 0, 0) };
            }
        }
        Ok(())
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.poll(cx).map(Ok)
    }
}

/// A registered wait of the thread pool.
#[derive(Debug)]
struct PoolWait(PTP_WAIT);

// SAFETY: an object of the thread pool may be used and closed from any thread.
unsafe impl Send for PoolWait {}
// SAFETY: through a shared reference nothing is done with it.
unsafe impl Sync for PoolWait {}

impl PoolWait {
    /// `context` must outlive the wait.
    fn new(context: *const SharedState) -> io::Result<Self> {
        // SAFETY: the callback takes the context for a `SharedState`, which it is; no environment
        // means the default pool.
        let wait =
            unsafe { CreateThreadpoolWait(Some(wait_fired), context.cast_mut().cast(), null()) };
        if wait == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(wait)) }
    }
}

impl Drop for PoolWait {
    fn drop(&mut self) {
        // SAFETY: the wait is open and this is its only owner. It is unregistered, callbacks that
        // have not begun are cancelled, and those under way are waited for until they call the
        // waker, so that none sees a freed context.
        unsafe {
            SetThreadpoolWait(self.0, null_mut(), null());
            WaitForThreadpoolWaitCallbacks(self.0, 1);
            CloseThreadpoolWait(self.0);
        }
    }
}

/// A timer of the thread pool.
#[derive(Debug)]
struct PoolTimer(PTP_TIMER);

// SAFETY: an object of the thread pool may be used and closed from any thread.
unsafe impl Send for PoolTimer {}
// SAFETY: through a shared reference nothing is done with it.
unsafe impl Sync for PoolTimer {}

impl PoolTimer {
    /// `context` must outlive the timer.
    fn new(context: *const SharedState) -> io::Result<Self> {
        // SAFETY: the callback takes the context for a `SharedState`, which it is; no environment
        // means the default pool.
        let timer =
            unsafe { CreateThreadpoolTimer(Some(timer_fired), context.cast_mut().cast(), null()) };
        if timer == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(timer)) }
    }
}

impl Drop for PoolTimer {
    fn drop(&mut self) {
        // SAFETY: as for `PoolWait`: disarmed, cancelled or waited for, closed, by the only owner.
        unsafe {
            SetThreadpoolTimer(self.0, null(), 0, 0);
            WaitForThreadpoolTimerCallbacks(self.0, 1);
            CloseThreadpoolTimer(self.0);
        }
    }
}

unsafe extern "system" fn wait_fired(
    instance: PTP_CALLBACK_INSTANCE,
    context: *mut c_void,
    _: PTP_WAIT,
    _: u32,
) {
    // SAFETY: the context is the `SharedState` of the `OneShot` that owns the wait, which is alive
    // until no callback of it counts. The instance is that of this callback.
    unsafe { wake_task(instance, context.cast::<SharedState>()) };
}

unsafe extern "system" fn timer_fired(
    instance: PTP_CALLBACK_INSTANCE,
    context: *mut c_void,
    _: PTP_TIMER,
) {
    // SAFETY: as in `wait_fired`.
    unsafe { wake_task(instance, context.cast::<SharedState>()) };
}

/// Wakes the task of a timer that has fired.
///
/// A waker runs any code. It may drop the timer, or need a lock of a thread that drops it, and that
/// waits for the callbacks. So this one no longer counts when it calls the waker.
///
/// # Safety
/// `instance` must be that of the running callback, and `shared` alive as long as this counts as a
/// callback.
unsafe fn wake_task(instance: PTP_CALLBACK_INSTANCE, shared: *const SharedState) {
    // SAFETY: the state is alive, as the caller ensures, and is not used after the next call.
    let waker = unsafe { &*shared }.fire();
    // SAFETY: the instance is that of the running callback.
    unsafe { DisassociateCurrentThreadFromCallback(instance) };
    if let Some(waker) = waker {
        waker.wake();
    }
}

pub(crate) fn can_repeat(_period: Duration) -> bool {
    false
}

/// The kernel's periodic mode, which is not used: it does not count the periods that a late reader
/// has missed.
#[derive(Debug)]
pub(crate) enum Periodic {}

impl Periodic {
    pub(crate) fn new(_first: Instant, _period: Duration) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn can_take_expiration_late(&self) -> bool {
        match *self {}
    }

    pub(crate) fn poll_expired(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match *self {}
    }
}
