//! `EVFILT_TIMER` of kqueue: macOS, iOS and their kin, FreeBSD, NetBSD, OpenBSD, DragonFly.
//!
//! On Apple's systems the deadline is absolute, on the clock of `mach_absolute_time` (which is the one below
//! `std::time::Instant`), and critical, so that it is not put off to be served together with others. Elsewhere it is the
//! time left, since the absolute mode of those kernels means the wall clock, which can be set.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::{null, null_mut};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

#[cfg_attr(not(target_vendor = "apple"), allow(unused_imports, reason = "absolute deadlines are Apple's"))]
use super::kqueue_time::{grid_wait, ticks, units_until};
use crate::backend::Backend;

/// Where the kernel's own repetition has nanoseconds: elsewhere whole milliseconds would bend a period of 500 us.
pub(crate) const KERNEL_PERIODIC: bool = cfg!(any(target_vendor = "apple", target_os = "freebsd"));

pub(crate) fn native() -> Option<Backend> {
    Some(Backend::Kqueue)
}

/// The only timer of its queue.
const IDENT: usize = 1;

/// The unit of a time to wait, and the flag that names it.
#[cfg(any(target_os = "freebsd", target_os = "netbsd"))]
const UNIT: (Duration, u32) = (Duration::from_nanos(1), libc::NOTE_NSECONDS);
#[cfg(target_vendor = "apple")]
const UNIT: (Duration, u32) = (Duration::from_nanos(1), libc::NOTE_NSECONDS | libc::NOTE_CRITICAL);
/// Milliseconds are what a timer without a flag counts in.
#[cfg(not(any(target_os = "freebsd", target_os = "netbsd", target_vendor = "apple")))]
const UNIT: (Duration, u32) = (Duration::from_millis(1), 0);

/// A queue with one timer in it, seen through the runtime's poller.
#[derive(Debug)]
pub(crate) struct OneShot {
    queue: AsyncFd<OwnedFd>,
}

impl OneShot {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self { queue: registered()? })
    }

    pub(crate) fn arm(&mut self, deadline: Instant) -> io::Result<()> {
        let (data, fflags) = one_shot(deadline);
        add(self.queue.get_ref(), data, fflags, libc::EV_ADD as _, libc::EV_ONESHOT as _)
    }

    pub(crate) fn poll_fired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut guard = ready!(self.queue.poll_read_ready(cx))?;
        // What is pending is taken out: a queue that stays readable makes no further edge.
        let taken = take(self.queue.get_ref());
        guard.clear_ready();
        Poll::Ready(taken.map(drop))
    }
}

/// A queue whose timer first fires once, at the start, and then repeats.
#[derive(Debug)]
pub(crate) struct Periodic {
    queue: AsyncFd<OwnedFd>,
    first: Instant,
    period: Duration,
    repeating: bool,
}

impl Periodic {
    pub(crate) fn new(first: Instant, period: Duration) -> io::Result<Self> {
        let queue = registered()?;
        let (data, fflags) = one_shot(first);
        add(queue.get_ref(), data, fflags, libc::EV_ADD as _, libc::EV_ONESHOT as _)?;
        Ok(Self { queue, first, period, repeating: false })
    }

    /// A repetition can only begin now. So it does at an expiration that is seen early in its period; one that is seen
    /// late in it, because the reader came late, is followed by another single one at the next time of the schedule.
    pub(crate) fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.queue.poll_read_ready(cx))?;
            let taken = take(self.queue.get_ref());
            guard.clear_ready();
            if taken? == 0 {
                continue;
            }
            if !self.repeating {
                self.go_on()?;
            }
            return Poll::Ready(Ok(()));
        }
    }

    #[allow(clippy::disallowed_methods, reason = "where in the period we are decides what the kernel is told")]
    fn go_on(&mut self) -> io::Result<()> {
        let late = Instant::now().saturating_duration_since(self.first);
        match grid_wait(late, self.period).and_then(|wait| self.first.checked_add(late)?.checked_add(wait)) {
            Some(next) => {
                let (data, fflags) = one_shot(next);
                add(self.queue.get_ref(), data, fflags, libc::EV_ADD as _, libc::EV_ONESHOT as _)
            }
            None => {
                let data = units_until(self.period, Duration::ZERO, UNIT.0);
                self.repeating = true;
                add(self.queue.get_ref(), data, UNIT.1, libc::EV_ADD as _, 0)
            }
        }
    }
}

fn registered() -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the call takes no argument.
    let fd = unsafe { libc::kqueue() };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above has just made this descriptor, and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: the descriptor is open; the call takes no pointer. A child of fork does not inherit a queue; one made by
    // exec must not either.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // An `OwnedFd` names one open descriptor for as long as it lives, which is all that the newer, unsafe constructor
    // asks for; this one exists in every tokio that we support.
    #[allow(deprecated, reason = "the replacement came with tokio 1.54")]
    AsyncFd::with_interest(fd, Interest::READABLE)
}

/// Data and flags of a timer for one deadline.
#[cfg(target_vendor = "apple")]
fn one_shot(deadline: Instant) -> (i64, u32) {
    let at = i64::try_from(mach_time(deadline)).unwrap_or(i64::MAX);
    (at, libc::NOTE_MACHTIME | libc::NOTE_ABSOLUTE | libc::NOTE_CRITICAL)
}

/// Data and flags of a timer for one deadline.
#[cfg(not(target_vendor = "apple"))]
#[allow(clippy::disallowed_methods, reason = "the time left is told to the kernel")]
fn one_shot(deadline: Instant) -> (i64, u32) {
    let now = Instant::now();
    (units_until(deadline.saturating_duration_since(now), Duration::ZERO, UNIT.0), UNIT.1)
}

/// Adds or replaces the timer. The flags' types differ from system to system; the constants' own types are kept.
fn add(queue: &OwnedFd, data: i64, fflags: u32, add: u32, once: u32) -> io::Result<()> {
    // SAFETY: all-zero is a valid `kevent`; some systems have more fields than those set below.
    let mut event = unsafe { std::mem::zeroed::<libc::kevent>() };
    event.ident = IDENT;
    event.filter = libc::EVFILT_TIMER as _;
    event.flags = (add | once) as _;
    event.fflags = fflags as _;
    event.data = data.try_into().unwrap_or(isize::MAX as _);
    // SAFETY: one event of ours is read, none is written; the descriptor is open as long as `queue` lives.
    let result = unsafe { libc::kevent(queue.as_raw_fd(), &event, 1, null_mut(), 0, null()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes the pending expiration out of the queue, and returns how many it stands for.
fn take(queue: &OwnedFd) -> io::Result<u64> {
    // SAFETY: all-zero is a valid `kevent`.
    let mut event = unsafe { std::mem::zeroed::<libc::kevent>() };
    // SAFETY: all-zero is a valid `timespec`, and means not to wait.
    let at_once = unsafe { std::mem::zeroed::<libc::timespec>() };
    // SAFETY: no event is read and at most one is written, into one of ours; the descriptor is open.
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

/// `mach_absolute_time` at `instant`, never less than the truth.
#[cfg(target_vendor = "apple")]
#[allow(deprecated, reason = "libc's declarations, so that no further crate is needed")]
fn mach_time(instant: Instant) -> u64 {
    use std::sync::OnceLock;

    struct Line {
        origin: Instant,
        ticks_at_origin: u64,
        numer: u32,
        denom: u32,
    }

    #[allow(clippy::disallowed_methods, reason = "pairing the clocks is reading them")]
    fn measure() -> Line {
        const READS: usize = 16;
        let mut base = libc::mach_timebase_info { numer: 0, denom: 0 };
        // SAFETY: the structure is ours, and the call fills it.
        unsafe { libc::mach_timebase_info(&mut base) };
        let (numer, denom) = (base.numer.max(1), base.denom.max(1));
        let origin = Instant::now();
        // Each pair bounds the ticks at the origin from above; a pause between its reads only makes that bound loose.
        let bound = |_| {
            let since = origin.elapsed();
            // SAFETY: the call takes no argument and reads a clock.
            let now = unsafe { libc::mach_absolute_time() };
            let whole = u64::try_from(since.as_nanos() * u128::from(denom) / u128::from(numer)).unwrap_or(0);
            now.saturating_sub(whole)
        };
        let ticks_at_origin = (0..READS).map(bound).min().unwrap_or(u64::MAX);
        Line { origin, ticks_at_origin, numer, denom }
    }

    static LINE: OnceLock<Line> = OnceLock::new();
    let line = LINE.get_or_init(measure);
    match instant.checked_duration_since(line.origin) {
        Some(after) => line.ticks_at_origin.saturating_add(ticks(after, line.numer, line.denom)),
        // Before the first timer of the process: it fires at once.
        None => line.ticks_at_origin,
    }
}
