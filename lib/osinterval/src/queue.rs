//! The engine of a group: one timer, everyone who waits for it, and the task that wakes them.

use std::fmt;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::AbortHandle;

use crate::backend::{Backend, Fallback};
use crate::heap::{NOWHERE, Waits};
use crate::precision::{Lead, Precision};
use crate::timer::{Timer, add_or_far, real_now, spin_until};

/// Wakes everyone who waits, at its time, from one timer. A task on the runtime on which it was
/// made serves it, until the last owner is gone.
///
/// Times are nanoseconds since its origin, at the ends of slots.
pub(crate) struct TimerQueue {
    native: bool,
    backend: Backend,
    /// End of slot 0.
    origin: Instant,
    resolution: Duration,
    /// The same in nanoseconds.
    slot: u64,
    /// Whether waits end in spinning on the clock; then `state` has a lead.
    precise: bool,
    /// Nobody serves it any more.
    ended: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// `None` once the timer has failed or its runtime is gone: nobody would be woken. Then nobody
    /// is kept either, and places mean nothing.
    timer: Option<Timer>,
    /// What the timer has failed with.
    failure: Option<(io::ErrorKind, String)>,
    waits: Waits,
    /// The latest time that anyone read from the clock.
    seen: u64,
    /// In the precise mode: how long before its time everybody is woken.
    lead: Option<Lead>,
    driver: Option<AbortHandle>,
}

/// One who may wait. Whoever has one ends it with [`TimerQueue::cancel`].
#[derive(Debug)]
pub(crate) struct Wait {
    place: usize,
    /// The end of the slot that it waits for.
    due: u64,
}

impl Wait {
    pub(crate) const fn new() -> Self {
        Self { place: NOWHERE, due: 0 }
    }
}

impl TimerQueue {
    /// # Errors
    /// As [`Builder::build`](crate::Builder::build).
    pub(crate) fn new(
        resolution: Duration,
        precision: Precision,
        fallback: Fallback,
    ) -> io::Result<Arc<Self>> {
        Ok(Self::on(Timer::new(fallback)?, resolution, precision))
    }

    fn on(timer: Timer, resolution: Duration, precision: Precision) -> Arc<Self> {
        let lead = match precision {
            // Without a period there is no share of it.
            Precision::Spin(spin) if timer.is_native() => {
                Some(Lead::new(spin.share(1.0), Duration::MAX))
            }
            _ => None,
        };
        let queue = Arc::new(Self {
            native: timer.is_native(),
            backend: timer.backend(),
            origin: timer.now(),
            resolution,
            slot: nanos(resolution),
            precise: lead.is_some(),
            ended: AtomicBool::new(false),
            state: Mutex::new(State {
                timer: Some(timer),
                failure: None,
                waits: Waits::default(),
                seen: 0,
                lead,
                driver: None,
            }),
        });
        let driver = tokio::spawn(drive(Served(Arc::downgrade(&queue)))).abort_handle();
        let mut state = queue.lock();
        // A runtime that is shutting down has dropped the task already, and `driver` would keep a
        // part of it.
        state.driver = state.timer.is_some().then_some(driver);
        drop(state);
        queue
    }

    /// Whether those who wait are woken.
    pub(crate) fn is_served(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    pub(crate) fn backend(&self) -> Backend {
        self.backend
    }

    pub(crate) fn resolution(&self) -> Duration {
        self.resolution
    }

    /// The clock that it follows.
    pub(crate) fn now(&self) -> Instant {
        if self.native { real_now() } else { tokio::time::Instant::now().into_std() }
    }

    /// Ready once the slot of `deadline` has ended; otherwise the task is woken then. In the
    /// precise mode, ready once `deadline` has come; the task is woken before, and the last poll
    /// spins.
    ///
    /// # Errors
    /// If the timer has failed, or its runtime is gone.
    pub(crate) fn poll(
        &self,
        wait: &mut Wait,
        deadline: Instant,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let due = self.slot_end(deadline);
        let ready = if wait.place == NOWHERE {
            self.begin(wait, due, cx)
        } else {
            self.go_on(wait, due, cx)
        };
        if self.precise && matches!(ready, Poll::Ready(Ok(()))) {
            spin_until(deadline, || self.now());
        }
        ready
    }

    fn begin(&self, wait: &mut Wait, due: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Cloning and dropping a waker may run anything: not under the lock.
        let waker = cx.waker().clone();
        let state = self.lock();
        if state.timer.is_none() {
            return Poll::Ready(Err(state.gone()));
        }
        self.enlist(state, wait, due, waker)
    }

    fn enlist(
        &self,
        mut state: MutexGuard<'_, State>,
        wait: &mut Wait,
        due: u64,
        waker: Waker,
    ) -> Poll<io::Result<()>> {
        let time = state.wake_up(due);
        if time <= state.seen {
            drop(state);
            drop(waker);
            return Poll::Ready(Ok(()));
        }
        wait.place = state.waits.insert(time, waker);
        wait.due = due;
        // The clock is asked by the first only. If the time of another has come, so has that of the
        // first, and the timer is about to fire.
        if state.waits.is_first(wait.place) {
            if time <= self.look(&mut state) {
                let waker = state.waits.remove(wait.place);
                wait.place = NOWHERE;
                drop(state);
                drop(waker);
                return Poll::Ready(Ok(()));
            }
            self.bring_forward(&mut state, time)?;
        }
        Poll::Pending
    }

    fn go_on(&self, wait: &mut Wait, due: u64, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let moved = due != wait.due;
        let mut fresh = moved.then(|| cx.waker().clone());
        loop {
            let mut state = self.lock();
            if state.timer.is_none() {
                return Poll::Ready(Err(state.gone()));
            }
            if state.waits.has_fired(wait.place) {
                if !moved {
                    self.learn_lead(&mut state, wait.place);
                }
                state.waits.remove(wait.place);
                wait.place = NOWHERE;
                return match fresh {
                    // Its time had come, and it waits for another now: an interval, once more.
                    Some(waker) if moved => self.enlist(state, wait, due, waker),
                    _ => Poll::Ready(Ok(())),
                };
            }
            let known = state.waits.waker(wait.place);
            let replaced = if known.as_ref().is_some_and(|known| known.will_wake(cx.waker())) {
                None
            } else if let Some(fresh) = fresh.take() {
                known.replace(fresh)
            } else {
                drop(state);
                fresh = Some(cx.waker().clone());
                continue;
            };
            let moved = self.move_to(&mut state, wait, due);
            drop(state);
            drop(replaced);
            return match moved {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            };
        }
    }

    /// The deadline has moved: if a task waits, it is woken at the new one.
    pub(crate) fn reset(&self, wait: &mut Wait, deadline: Instant) -> io::Result<()> {
        if wait.place == NOWHERE {
            return Ok(());
        }
        let due = self.slot_end(deadline);
        let mut state = self.lock();
        if state.timer.is_none() {
            wait.place = NOWHERE;
        } else if state.waits.has_fired(wait.place) {
            // The task has been woken and not come yet; when it does it waits anew.
            state.waits.remove(wait.place);
            wait.place = NOWHERE;
        } else {
            self.move_to(&mut state, wait, due)?;
        }
        Ok(())
    }

    /// The task is there, and may find by itself that its deadline has come.
    pub(crate) fn arrived(&self, wait: &mut Wait) {
        if !self.precise || wait.place == NOWHERE {
            return;
        }
        let mut state = self.lock();
        if state.timer.is_some() && state.waits.has_fired(wait.place) {
            self.learn_lead(&mut state, wait.place);
            state.waits.remove(wait.place);
            wait.place = NOWHERE;
        }
    }

    /// Nobody waits any longer.
    pub(crate) fn cancel(&self, wait: &mut Wait) {
        if wait.place == NOWHERE {
            return;
        }
        let mut state = self.lock();
        let waker = if state.timer.is_some() { state.waits.remove(wait.place) } else { None };
        wait.place = NOWHERE;
        drop(state);
        drop(waker);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn move_to(&self, state: &mut State, wait: &mut Wait, due: u64) -> io::Result<()> {
        if wait.due == due {
            return Ok(());
        }
        wait.due = due;
        let time = state.wake_up(due);
        state.waits.move_to(wait.place, time);
        if state.waits.is_first(wait.place) { self.bring_forward(state, time) } else { Ok(()) }
    }

    /// The first has changed. Armed for a later time, or for none, the timer is armed for this one.
    fn bring_forward(&self, state: &mut State, time: u64) -> io::Result<()> {
        let time = self.instant(time);
        state.timer.as_mut().map_or(Ok(()), |timer| timer.bring_forward(time))
    }

    /// A task has come because its time had: in the precise mode the lead learns from how late.
    fn learn_lead(&self, state: &mut State, place: usize) {
        if self.precise {
            let late = self.look(state).saturating_sub(state.waits.time(place));
            if let Some(lead) = &mut state.lead {
                lead.observe(Duration::from_nanos(late));
            }
        }
    }

    /// Reads the clock.
    fn look(&self, state: &mut State) -> u64 {
        state.seen = nanos(self.now().saturating_duration_since(self.origin));
        state.seen
    }

    /// The end of the slot in which a deadline lies: when it has passed.
    fn slot_end(&self, deadline: Instant) -> u64 {
        let after = nanos(deadline.saturating_duration_since(self.origin));
        if self.slot <= 1 {
            after
        } else {
            after.checked_next_multiple_of(self.slot).unwrap_or(u64::MAX)
        }
    }

    fn instant(&self, time: u64) -> Instant {
        add_or_far(self.origin, Duration::from_nanos(time), self.origin)
    }
}

impl State {
    /// When to wake whoever waits until `due`.
    fn wake_up(&self, due: u64) -> u64 {
        self.lead.as_ref().map_or(due, |lead| due.saturating_sub(nanos(lead.get())))
    }

    /// Why there is no timer.
    fn gone(&self) -> io::Error {
        match &self.failure {
            Some((kind, why)) => io::Error::new(*kind, why.clone()),
            None => io::Error::new(
                io::ErrorKind::NotConnected,
                "the timer of the group is gone; is its runtime shutting down?",
            ),
        }
    }
}

impl Drop for TimerQueue {
    fn drop(&mut self) {
        if let Some(driver) = self.lock().driver.take() {
            driver.abort();
        }
    }
}

impl fmt::Debug for TimerQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { backend, resolution, .. } = self;
        f.debug_struct("TimerQueue")
            .field("backend", backend)
            .field("resolution", resolution)
            .finish_non_exhaustive()
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000_000).saturating_add(duration.subsec_nanos().into())
}

/// A queue that has a task to serve it. When that ends, for whatever reason, nobody would be woken
/// any more: all are told now, and what belongs to the runtime is given back.
struct Served(Weak<TimerQueue>);

impl Drop for Served {
    fn drop(&mut self) {
        let Some(queue) = self.0.upgrade() else { return };
        queue.ended.store(true, Ordering::Relaxed);
        let mut state = queue.lock();
        let (timer, driver) = (state.timer.take(), state.driver.take());
        let waits = std::mem::take(&mut state.waits);
        drop(state);
        drop((timer, driver));
        waits.into_wakers().for_each(Waker::wake);
    }
}

/// Serves a queue until it is dropped.
async fn drive(served: Served) {
    // One thread runs both this task and those that it wakes: they come first, the timer is armed
    // for the next of them afterwards, and what has come due in the meantime costs no wake-up of
    // its own. Among several threads that would wake another one, to come and take this task.
    let after_them = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
    let mut due = Vec::new();
    let _: io::Result<()> = poll_fn(|cx| {
        let Some(queue) = served.0.upgrade() else { return Poll::Ready(Ok(())) };
        loop {
            let result = queue.turn(cx, &mut due);
            if let Poll::Ready(Err(error)) = &result {
                queue.lock().failure = Some((error.kind(), error.to_string()));
            }
            if due.is_empty() {
                return result;
            }
            due.drain(..).for_each(Waker::wake);
            if after_them {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
    })
    .await;
}

impl TimerQueue {
    /// Takes those whose time has come; if there are none, waits for the first that is left.
    fn turn(&self, cx: &mut Context<'_>, due: &mut Vec<Waker>) -> Poll<io::Result<()>> {
        /// As many are woken before any of them runs.
        const BATCH: usize = 256;
        let state = &mut *self.lock();
        loop {
            let now = self.look(state);
            state.waits.take_due(now, BATCH, due);
            let Some(timer) = &mut state.timer else { return Poll::Ready(Err(state.gone())) };
            if !due.is_empty() {
                timer.forget();
                return Poll::Pending;
            }
            let result = match state.waits.first() {
                Some(first) => timer.poll_until(cx, self.instant(first)),
                None => timer.poll_idle(cx),
            };
            match result {
                Poll::Ready(Ok(())) => {}
                result => return result,
            }
        }
    }
}

#[cfg(test)]
impl TimerQueue {
    /// One that follows tokio's clock, which a test can set.
    pub(crate) fn on_tokios_clock(resolution: Duration) -> Arc<Self> {
        Self::on(Timer::tokio().expect("on a runtime"), resolution, Precision::Os)
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waits.check()
    }
}
