//! The timers of the OS behind a queue.

use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tokio::task::coop;

use crate::driver::catch_driver_panic;
use crate::sys;

/// The timers of a queue. Each is free, or armed for a time in nanoseconds of the queue.
#[derive(Debug)]
pub(crate) struct KernelTimers(Box<[KernelTimer]>);

#[derive(Debug)]
struct KernelTimer {
    timer: sys::OneShot,
    /// The waker that the timer calls when it fires.
    waker: Waker,
    armed_for: u64,
}

/// The time of a timer that is free: its waker may not be registered.
const FREE: u64 = u64::MAX;

impl KernelTimers {
    /// Creates free timers on the current runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let create = |_| {
            let timer = sys::OneShot::new()?;
            Ok(KernelTimer { timer, waker: Waker::noop().clone(), armed_for: FREE })
        };
        catch_driver_panic(|| (0..sys::TIMERS_PER_QUEUE).map(create).collect()).map(Self)
    }

    /// Sets the waker of each timer: that with index n calls `waker(n)` when it fires.
    pub(crate) fn set_wakers(&mut self, waker: impl Fn(usize) -> Waker) {
        self.0.iter_mut().enumerate().for_each(|(index, timer)| timer.waker = waker(index));
    }

    /// Frees a timer whose waker was called, even if that was for an earlier arming.
    pub(crate) fn free(&mut self, index: usize) {
        self.0[index].armed_for = FREE;
    }

    /// Frees all timers that have fired, and registers the wakers of the others.
    pub(crate) fn poll_fired(&mut self) -> io::Result<()> {
        self.0.iter_mut().try_for_each(KernelTimer::register_waker)
    }

    /// Returns whether a timer fires at `time` or before.
    pub(crate) fn is_armed_by(&self, time: u64) -> bool {
        self.0.iter().any(|timer| timer.armed_for <= time)
    }

    /// Ensures that a timer fires at `time` or before. The instant is the same time.
    pub(crate) fn arm_by(&mut self, time: u64, instant: Instant) -> io::Result<()> {
        if self.is_armed_by(time) {
            return Ok(());
        }
        // One that is free, or else the one that fires last.
        let last = self.0.iter_mut().max_by_key(|timer| timer.armed_for);
        last.map_or(Ok(()), |timer| timer.arm(time, instant))
    }

    /// Returns whether a timer is free.
    pub(crate) fn has_free(&self) -> bool {
        self.0.iter().any(|timer| timer.armed_for == FREE)
    }

    /// Arms a timer that is free, if there is one.
    pub(crate) fn arm_free(&mut self, time: u64, instant: Instant) -> io::Result<()> {
        let free = self.0.iter_mut().find(|timer| timer.armed_for == FREE);
        free.map_or(Ok(()), |timer| timer.arm(time, instant))
    }
}

impl KernelTimer {
    fn arm(&mut self, time: u64, instant: Instant) -> io::Result<()> {
        if self.armed_for == FREE {
            self.register_waker()?;
        }
        self.timer.arm(instant)?;
        self.armed_for = time;
        Ok(())
    }

    /// Registers the waker, and discards expirations until then.
    fn register_waker(&mut self) -> io::Result<()> {
        // The caller takes from the cooperative budget, once.
        let mut poll = pin!(coop::unconstrained(poll_fn(|cx| self.timer.poll_fired(cx))));
        let cx = &mut Context::from_waker(&self.waker);
        while let Poll::Ready(fired) = poll.as_mut().poll(cx) {
            fired?;
            self.armed_for = FREE;
        }
        Ok(())
    }
}
