//! `EVFILT_TIMER` of kqueue: macOS, iOS and related systems, FreeBSD, NetBSD, OpenBSD, DragonFly.
//!
//! A deadline is absolute on Apple's systems, and the remaining time on the others: see the
//! dialects below.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::kqueue_calls::open_queue;
use super::kqueue_time::{units_until, wait_for_schedule};
use crate::backend::Backend;

// The dialects. Each defines
// - `can_repeat`: whether the kernel counts a period exactly. It would repeat a rounded one ahead
//   of the schedule or behind it, by more with each tick,
// - `UNIT`: the unit of a time to wait, with its flag,
// - `ABSOLUTE`: a function to the data and flags of an absolute deadline, if the kernel supports
//   one on the monotonic clock. That of the BSDs is on the wall clock, which can be set.
#[cfg(target_vendor = "apple")]
use super::kqueue_apple as dialect;

#[cfg(target_os = "freebsd")]
mod dialect {
    use std::time::{Duration, Instant};

    pub(super) const UNIT: (Duration, u32) = (Duration::from_nanos(1), libc::NOTE_NSECONDS);
    pub(super) const ABSOLUTE: Option<fn(Instant) -> (i64, u32)> = None;

    pub(crate) fn can_repeat(period: Duration) -> bool {
        // The kernel counts parts of a second as powers of two.
        period.subsec_nanos() == 0
    }
}

#[cfg(any(target_os = "netbsd", target_os = "openbsd", target_os = "dragonfly"))]
mod dialect {
    use std::time::{Duration, Instant};

    /// A timer without a flag counts milliseconds. NetBSD 9 ignores the flags of other units.
    pub(super) const UNIT: (Duration, u32) = (Duration::from_millis(1), 0);
    pub(super) const ABSOLUTE: Option<fn(Instant) -> (i64, u32)> = None;

    pub(crate) fn can_repeat(_period: Duration) -> bool {
        false
    }
}

#[cfg(feature = "periodic")]
pub(crate) use dialect::can_repeat;
pub(crate) const TIMERS_PER_QUEUE: usize = 1;
pub(crate) const WAKES_FROM_RUNTIME: bool = true;
use dialect::{ABSOLUTE, UNIT};

pub(crate) fn native() -> Option<Backend> {
    Some(Backend::Kqueue)
}

/// The identifier of the timer, which is the only one of its queue.
const IDENT: usize = 1;
/// Whether adding a timer that is armed arms it again. DragonFly and NetBSD 9 keep its old time.
const ADD_REPLACES: bool = cfg!(not(any(target_os = "netbsd", target_os = "dragonfly")));

/// A queue with a timer that fires once, registered with the runtime's poller.
#[derive(Debug)]
pub(crate) struct OneShot {
    queue: AsyncFd<OwnedFd>,
}

impl OneShot {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: create_queue()? })
    }

    pub(crate) fn arm(&mut self, deadline: Instant) -> io::Result<()> {
        let (data, fflags) = encode_deadline(deadline);
        add_timer(self.queue.get_ref(), data, fflags, libc::EV_ADD as _, libc::EV_ONESHOT as _)
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.queue.poll_read_ready(cx))?;
        // The pending event is taken out, since a queue that stays readable makes no further edge.
        let taken = take_expiration(self.queue.get_ref());
        guard.clear_ready();
        Poll::Ready(taken.map(drop))
    }
}

/// A queue whose timer fires once, at the start, and then repeats.
#[derive(Debug)]
pub(crate) struct Periodic {
    queue: AsyncFd<OwnedFd>,
    first: Instant,
    period: Duration,
    is_repeating: bool,
}

impl Periodic {
    pub(crate) fn new(first: Instant, period: Duration) -> io::Result<Self> {
        let queue = create_queue()?;
        let (data, fflags) = encode_deadline(first);
        add_timer(queue.get_ref(), data, fflags, libc::EV_ADD as _, libc::EV_ONESHOT as _)?;
        Ok(Self { queue, first, period, is_repeating: false })
    }

    /// Returns whether the repetition has begun. Before that, taking an expiration begins it.
    pub(crate) fn can_take_expiration_late(&self) -> bool {
        self.is_repeating
    }

    /// Polls for an expiration, and begins the repetition.
    ///
    /// A repetition can only begin at the present moment, so it begins at an expiration that is
    /// taken early in its period. If the reader is late and takes it later in the period, the timer
    /// fires once more, at the next deadline of the schedule.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.queue.poll_read_ready(cx))?;
            let taken = take_expiration(self.queue.get_ref());
            guard.clear_ready();
            if taken? == 0 {
                continue;
            }
            if !self.is_repeating {
                self.begin_repetition()?;
            }
            return Poll::Ready(Ok(()));
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "the position in the period decides how the timer is armed"
    )]
    fn begin_repetition(&mut self) -> io::Result<()> {
        let late = Instant::now().saturating_duration_since(self.first);
        match wait_for_schedule(late, self.period)
            .and_then(|wait| self.first.checked_add(late)?.checked_add(wait))
        {
            Some(next) => {
                let (data, fflags) = encode_deadline(next);
                add_timer(
                    self.queue.get_ref(),
                    data,
                    fflags,
                    libc::EV_ADD as _,
                    libc::EV_ONESHOT as _,
                )
            }
            None => {
                let data = units_until(self.period, Duration::ZERO, UNIT.0);
                self.is_repeating = true;
                add_timer(self.queue.get_ref(), data, UNIT.1, libc::EV_ADD as _, 0)
            }
        }
    }
}

/// Creates a queue and registers it with the current runtime.
fn create_queue() -> io::Result<AsyncFd<OwnedFd>> {
    let fd = open_queue()?;
    // An `OwnedFd` names one open descriptor for as long as it lives, which is all that the newer,
    // unsafe constructor requires. This one exists in every tokio that we support.
    #[allow(deprecated, reason = "the replacement came with tokio 1.54")]
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Returns the data and flags of a timer that fires once, at `deadline`.
#[allow(clippy::disallowed_methods, reason = "the kernel needs the remaining time")]
fn encode_deadline(deadline: Instant) -> (i64, u32) {
    match ABSOLUTE {
        Some(absolute) => absolute(deadline),
        None => (
            units_until(deadline.saturating_duration_since(Instant::now()), Duration::ZERO, UNIT.0),
            UNIT.1,
        ),
    }
}

/// Adds or replaces the timer. The types of the flags differ between systems, so they are converted
/// here.
fn add_timer(queue: &OwnedFd, data: i64, fflags: u32, add: u32, once: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid `kevent`; some systems have more fields than those set below.
    let mut event = unsafe { std::mem::zeroed::<libc::kevent>() };
    event.ident = IDENT;
    event.filter = libc::EVFILT_TIMER as _;
    if !ADD_REPLACES {
        event.flags = libc::EV_DELETE as _;
        // Fails if no timer is armed.
        let _ = change_timer(queue, &event);
    }
    event.flags = (add | once) as _;
    event.fflags = fflags as _;
    event.data = data.try_into().unwrap_or(isize::MAX as _);
    change_timer(queue, &event)
}

fn change_timer(queue: &OwnedFd, event: &libc::kevent) -> io::Result<()> {
    // SAFETY: one event of ours is read, none is written; the descriptor is open as long as `queue`
    // lives.
    let result = unsafe { libc::kevent(queue.as_raw_fd(), event, 1, null_mut(), 0, null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes the pending event out of the queue, and returns the number of expirations since the last.
fn take_expiration(queue: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all-zero is a valid `kevent`.
    let mut event = unsafe { std::mem::zeroed::<libc::kevent>() };
    // SAFETY: all-zero is a valid `timespec`, and means not to wait.
    let at_once = unsafe { std::mem::zeroed::<libc::timespec>() };
    // SAFETY: no event is read and at most one is written, into one of ours; the descriptor is
    // open.
    let taken = unsafe { libc::kevent(queue.as_raw_fd(), null(), 0, &mut event, 1, &at_once) };
    match taken {
        ..0 => Err(io::Error::last_os_error()),
        0 => Ok(0),
        _ if event.flags as u32 & libc::EV_ERROR as u32 != 0 => {
            Err(io::Error::from_raw_os_error(i32::try_from(event.data).unwrap_or(libc::EINVAL)))
        }
        _ => Ok(u64::try_from(event.data).unwrap_or(1).max(1)),
    }
}
