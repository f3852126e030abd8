//! Sleeps of a thread on macOS, iOS and related systems: a kqueue with an absolute, critical timer
//! and an event that another thread can trigger. One system call arms the timer and waits.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::sync::atomic::AtomicU32;
use std::time::Instant;

use super::kqueue_apple::absolute_time;
use super::kqueue_calls::open_queue;
use crate::backend::Backend;

/// The identifiers of the timer and of the event. They are of different filters.
const IDENT: usize = 1;

#[derive(Debug)]
pub(crate) struct Sleeper {
    queue: OwnedFd,
}

impl Sleeper {
    pub(crate) fn new() -> io::Result<Self> {
        let sleeper = Self { queue: open_queue()? };
        // The event is cleared when a sleep returns it, and remembered until then.
        sleeper.change(libc::EVFILT_USER, libc::EV_ADD | libc::EV_CLEAR, 0)?;
        Ok(sleeper)
    }

    #[allow(clippy::unused_self, reason = "the sleepers of other systems are of several kinds")]
    pub(crate) fn backend(&self) -> Backend {
        Backend::Kqueue
    }

    pub(crate) fn sleep_until(&self, _: Option<&AtomicU32>, deadline: Instant) -> io::Result<()> {
        let (data, fflags) = absolute_time(deadline);
        let flags = libc::EV_ADD | libc::EV_ONESHOT;
        let timer = new_event(libc::EVFILT_TIMER, flags, fflags, data);
        let mut event = new_event(0, 0, 0, 0);
        // SAFETY: one event of ours is read, and at most one is written into another of ours; the
        // queue is open. Without a timeout the call waits for an event.
        let count =
            unsafe { libc::kevent(self.queue.as_raw_fd(), &timer, 1, &mut event, 1, null()) };
        if count < 0 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(error) };
        }
        if event.flags & libc::EV_ERROR != 0 {
            return Err(io::Error::from_raw_os_error(
                i32::try_from(event.data).unwrap_or(libc::EINVAL),
            ));
        }
        Ok(())
    }

    pub(crate) fn wake(&self, _word: &AtomicU32) {
        // The event exists as long as the queue, so the call cannot fail.
        let _ = self.change(libc::EVFILT_USER, 0, libc::NOTE_TRIGGER);
    }

    fn change(&self, filter: i16, flags: u16, fflags: u32) -> io::Result<()> {
        let event = new_event(filter, flags, fflags, 0);
        // SAFETY: one event of ours is read, none is written; the queue is open.
        let result =
            unsafe { libc::kevent(self.queue.as_raw_fd(), &event, 1, null_mut(), 0, null()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

fn new_event(filter: i16, flags: u16, fflags: u32, data: i64) -> libc::kevent {
    libc::kevent {
        ident: IDENT,
        filter,
        flags,
        fflags,
        data: isize::try_from(data).unwrap_or(isize::MAX),
        udata: null_mut(),
    }
}
