//! Many intervals, one timer.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use cadence::MissedTickBehavior;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::backend::{Backend, Fallback};
use crate::schedule::{Schedule, interval_surface};
use crate::timer::{Timer, add_or_far, real_now};

/// Length of a slot unless set otherwise.
const DEFAULT_RESOLUTION: Duration = Duration::from_micros(100);

/// Any number of intervals from one timer of the OS.
///
/// An [`OsInterval`](crate::OsInterval) has a timer and a descriptor of its own, and wakes the runtime for itself. That
/// is right for a few; a thousand of them cost more than tokio's wheel, and descriptors limit their number. A group has
/// one timer. It divides time into slots of its *resolution*, and serves all deadlines of a slot together, at its end: a
/// tick is up to the resolution later than it might be, and never early.
///
/// Each slot in which something is due wakes the thread once. Where deadlines are spread evenly, that is what a group
/// costs: longer slots are cheaper and later. Where many deadlines coincide it costs less than tokio's wheel.
/// `scripts/peers-osinterval.sh` of the project measures both beside tokio's.
///
/// A clone is the same group. A task on the runtime on which the group was made serves its timer; it ends with the last
/// clone and the last interval.
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// let group = osinterval::IntervalGroup::new()?;
/// let mut fast = group.interval(Duration::from_millis(1));
/// let mut slow = group.interval(Duration::from_millis(3));
/// tokio::join!(fast.tick(), slow.tick());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct IntervalGroup {
    group: Arc<Group>,
}

/// Settings for an [`IntervalGroup`]; starts at [`IntervalGroup::builder`].
///
/// # Examples
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// use std::time::Duration;
/// use osinterval::{Fallback, IntervalGroup};
/// let half_a_millisecond = Duration::from_micros(500);
/// let group = IntervalGroup::builder().resolution(half_a_millisecond).fallback(Fallback::TokioSleep).build()?;
/// assert_eq!(group.resolution(), half_a_millisecond);
/// println!("ticking from {}", group.backend());
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct GroupBuilder {
    resolution: Duration,
    fallback: Fallback,
}

impl GroupBuilder {
    /// The length of a slot: how much later a tick may come to be served together with others. 100 us unless set; at
    /// least 1 ns.
    pub fn resolution(mut self, resolution: Duration) -> Self {
        self.resolution = resolution.max(Duration::from_nanos(1));
        self
    }

    /// What to do where the OS refuses a timer; the error is returned unless set.
    pub fn fallback(mut self, fallback: Fallback) -> Self {
        self.fallback = fallback;
        self
    }

    /// Creates the group on the current tokio runtime. [`GroupBuilder`] has an example.
    ///
    /// # Errors
    /// As [`Builder::build`](crate::Builder::build).
    pub fn build(self) -> io::Result<IntervalGroup> {
        let timer = Timer::new(self.fallback)?;
        let shared = Arc::new(Shared {
            native: timer.is_native(),
            backend: timer.backend(),
            origin: timer.now(),
            resolution: self.resolution,
            state: Mutex::new(State {
                timer,
                slots: BTreeMap::new(),
                members: Vec::new(),
                vacant: Vec::new(),
                spare: Vec::new(),
                failed: false,
            }),
        });
        let driver = tokio::spawn(drive(Arc::clone(&shared))).abort_handle();
        Ok(IntervalGroup { group: Arc::new(Group { shared, driver }) })
    }
}

impl IntervalGroup {
    /// A group with slots of 100 us.
    ///
    /// # Errors
    /// As [`Builder::build`](crate::Builder::build).
    pub fn new() -> io::Result<Self> {
        Self::builder().build()
    }

    /// Starts the settings of a group; [`GroupBuilder`] has an example.
    pub fn builder() -> GroupBuilder {
        GroupBuilder { resolution: DEFAULT_RESOLUTION, fallback: Fallback::default() }
    }

    /// An interval of this group that ticks at once, then every `period`. [`IntervalGroup`] has an example.
    ///
    /// # Panics
    /// If `period` is zero.
    #[track_caller]
    pub fn interval(&self, period: Duration) -> GroupInterval {
        self.interval_at(self.group.shared.now().into(), period)
    }

    /// An interval of this group that ticks at `start`, then every `period`.
    ///
    /// # Panics
    /// If `period` is zero.
    ///
    /// # Examples
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// use std::time::Duration;
    /// let group = osinterval::IntervalGroup::new()?;
    /// let start = tokio::time::Instant::now() + Duration::from_millis(5);
    /// let mut interval = group.interval_at(start, Duration::from_millis(1));
    /// assert_eq!(interval.tick().await, start);
    /// # std::io::Result::Ok(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> GroupInterval {
        assert!(!period.is_zero(), "`period` must be non-zero");
        let schedule = Schedule {
            deadline: start,
            period,
            behavior: MissedTickBehavior::default(),
            tolerance: cadence::DEFAULT_TOLERANCE,
            missed: 0,
        };
        let member = self.group.shared.lock().join();
        GroupInterval { group: Arc::clone(&self.group), member, schedule }
    }

    /// The length of a slot: how much later than its deadline a tick may be served.
    pub fn resolution(&self) -> Duration {
        self.group.shared.resolution
    }

    /// What the group ticks from.
    pub fn backend(&self) -> Backend {
        self.group.shared.backend
    }
}

/// An interval of an [`IntervalGroup`], with the surface of [`OsInterval`](crate::OsInterval).
#[derive(Debug)]
pub struct GroupInterval {
    group: Arc<Group>,
    member: usize,
    schedule: Schedule,
}

interval_surface!(GroupInterval, "group.interval", "let group = osinterval::IntervalGroup::new()?;");

impl GroupInterval {
    /// Polls for the next tick. Ready with its deadline once that has come; otherwise the task is woken at the end of the
    /// slot of that deadline, or earlier if a `reset` method moves it. A tick takes from tokio's cooperative budget.
    ///
    /// # Panics
    /// If the runtime on which the group was made is shutting down.
    ///
    /// # Examples
    /// See [`GroupInterval::tick`], which awaits it.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let budget = ready!(tokio::task::coop::poll_proceed(cx));
        let now = self.now();
        if now < self.schedule.deadline.into_std() {
            if let Err(error) = self.group.shared.wait(self.member, self.schedule.deadline.into_std(), cx.waker()) {
                panic!("the timer of a group failed; is its runtime shutting down? {error}");
            }
            return Poll::Pending;
        }
        budget.made_progress();
        Poll::Ready(self.schedule.observe(now))
    }

    /// What the group ticks from.
    pub fn backend(&self) -> Backend {
        self.group.shared.backend
    }

    fn now(&self) -> std::time::Instant {
        self.group.shared.now()
    }

    fn rearm(&mut self) -> io::Result<()> {
        self.group.shared.relist(self.member, self.schedule.deadline.into_std())
    }
}

impl Drop for GroupInterval {
    fn drop(&mut self) {
        let waker = self.group.shared.lock().leave(self.member);
        // Dropping a waker may run anything: not under the lock.
        drop(waker);
    }
}

/// The shared part and the task that serves it; the task ends with the last owner of this.
#[derive(Debug)]
struct Group {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

impl Drop for Group {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

#[derive(Debug)]
struct Shared {
    native: bool,
    backend: Backend,
    /// End of slot 0.
    origin: std::time::Instant,
    resolution: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    timer: Timer,
    /// Members that wait, by the slot at whose end they are woken. A member is listed at most once, and never after it
    /// has moved on or gone: deadlines may be hours away, and lists must not grow until then.
    slots: BTreeMap<u64, Vec<usize>>,
    members: Vec<Member>,
    /// Places in `members` that are free.
    vacant: Vec<usize>,
    /// Emptied lists, to be filled again: in a steady state nothing is allocated.
    spare: Vec<Vec<usize>>,
    /// The timer failed, or its runtime is gone: nobody would be woken.
    failed: bool,
}

#[derive(Debug, Default)]
struct Member {
    /// Where it is listed, if it is.
    listed: Option<Listed>,
    waker: Option<Waker>,
}

#[derive(Clone, Copy, Debug)]
struct Listed {
    slot: u64,
    /// Place in the list of that slot.
    at: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> std::time::Instant {
        if self.native { real_now() } else { Instant::now().into_std() }
    }

    /// The slot at whose end a deadline has passed.
    fn slot_of(&self, deadline: std::time::Instant) -> u64 {
        let after = deadline.saturating_duration_since(self.origin).as_nanos();
        u64::try_from(after.div_ceil(self.resolution.as_nanos())).unwrap_or(u64::MAX)
    }

    /// The end of a slot.
    fn slot_end(&self, slot: u64, now: std::time::Instant) -> std::time::Instant {
        const NANOS: u128 = 1_000_000_000;
        let after = self.resolution.as_nanos().saturating_mul(u128::from(slot));
        let after = Duration::new(u64::try_from(after / NANOS).unwrap_or(u64::MAX), (after % NANOS) as u32);
        add_or_far(self.origin, after, now)
    }

    /// The member waits for its deadline.
    fn wait(&self, member: usize, deadline: std::time::Instant, waker: &Waker) -> io::Result<()> {
        let slot = self.slot_of(deadline);
        let mut state = self.lock();
        if state.failed {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let place = &mut state.members[member];
        let previous = match &place.waker {
            Some(known) if known.will_wake(waker) => None,
            _ => place.waker.replace(waker.clone()),
        };
        // Listed for that slot or an earlier one: it is woken then, and asks again. So however often a deadline is put
        // off, a member is listed once.
        let early_enough = place.listed.is_some_and(|listed| listed.slot <= slot);
        let result = if early_enough { Ok(()) } else { self.enlist(&mut state, member, slot) };
        drop(state);
        drop(previous);
        result
    }

    /// The member's deadline has moved: if it waits, it is woken at the new one.
    fn relist(&self, member: usize, deadline: std::time::Instant) -> io::Result<()> {
        let slot = self.slot_of(deadline);
        let mut state = self.lock();
        let place = &state.members[member];
        let early_enough = place.listed.is_none_or(|listed| listed.slot <= slot);
        if place.waker.is_none() || early_enough { Ok(()) } else { self.enlist(&mut state, member, slot) }
    }

    fn enlist(&self, state: &mut State, member: usize, slot: u64) -> io::Result<()> {
        let first = state.slots.first_key_value().is_none_or(|(first, _)| slot < *first);
        state.list(member, slot);
        // Armed for a later slot, or for none: the driver is woken earlier.
        if first { state.timer.bring_forward(self.slot_end(slot, self.now())) } else { Ok(()) }
    }
}

impl State {
    fn join(&mut self) -> usize {
        self.vacant.pop().unwrap_or_else(|| {
            self.members.push(Member::default());
            self.members.len() - 1
        })
    }

    fn leave(&mut self, member: usize) -> Option<Waker> {
        self.unlist(member);
        self.vacant.push(member);
        self.members[member].waker.take()
    }

    /// Lists a member for a slot, and for no other.
    fn list(&mut self, member: usize, slot: u64) {
        self.unlist(member);
        let list = self.slots.entry(slot).or_insert_with(|| self.spare.pop().unwrap_or_default());
        self.members[member].listed = Some(Listed { slot, at: list.len() });
        list.push(member);
    }

    fn unlist(&mut self, member: usize) {
        let Some(Listed { slot, at }) = self.members[member].listed.take() else { return };
        let Entry::Occupied(mut entry) = self.slots.entry(slot) else { return };
        let list = entry.get_mut();
        list.swap_remove(at);
        // The last of the list has taken its place.
        if let Some(&moved) = list.get(at) {
            self.members[moved].listed = Some(Listed { slot, at });
        }
        if list.is_empty() {
            let list = entry.remove();
            self.keep_spare(list);
        }
    }

    /// Keeps an emptied list for the next slot. A few are enough: slots come one after the other.
    fn keep_spare(&mut self, list: Vec<usize>) {
        const SPARE: usize = 128;
        if self.spare.len() < SPARE {
            self.spare.push(list);
        }
    }

    /// Moves the wakers of all slots up to `now` into `due`.
    fn take_due(&mut self, now: u64, due: &mut Vec<Waker>) {
        while let Some(entry) = self.slots.first_entry().filter(|entry| *entry.key() <= now) {
            let mut list = entry.remove();
            for member in list.drain(..) {
                let place = &mut self.members[member];
                place.listed = None;
                due.extend(place.waker.take());
            }
            self.keep_spare(list);
        }
    }
}

/// Serves the timer of a group until it is aborted.
async fn drive(shared: Arc<Shared>) {
    /// Marks the group as failed when the driver ends, for whatever reason.
    struct FailOnDrop<'a>(&'a Shared);
    impl Drop for FailOnDrop<'_> {
        fn drop(&mut self) {
            let mut state = self.0.lock();
            state.failed = true;
            let wakers: Vec<Waker> = state.members.iter_mut().filter_map(|m| m.waker.take()).collect();
            drop(state);
            wakers.into_iter().for_each(Waker::wake);
        }
    }
    let fail_on_drop = FailOnDrop(&shared);
    let mut due = Vec::new();
    let _: io::Result<()> = poll_fn(|cx| {
        let mut state = shared.lock();
        let result = loop {
            let now = shared.now();
            // A slot has ended when its end has passed: rounding down.
            let passed = now.saturating_duration_since(shared.origin).as_nanos() / shared.resolution.as_nanos();
            state.take_due(u64::try_from(passed).unwrap_or(u64::MAX), &mut due);
            let next = state.slots.first_key_value().map(|(slot, _)| *slot);
            let until = next.map_or_else(|| add_or_far(now, Duration::MAX, now), |slot| shared.slot_end(slot, now));
            match state.timer.poll_until(cx, until) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => break Poll::Ready(Err(error)),
                Poll::Pending => break Poll::Pending,
            }
        };
        drop(state);
        due.drain(..).for_each(Waker::wake);
        result
    })
    .await;
    drop(fail_on_drop);
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Polls once, with a waker that does nothing.
    fn poll(interval: &mut GroupInterval) -> Poll<Instant> {
        interval.poll_tick(&mut Context::from_waker(Waker::noop()))
    }

    /// Every list is that of its members and no list is empty; returns how many are listed.
    fn listed(group: &IntervalGroup) -> usize {
        let state = group.group.shared.lock();
        for (&slot, list) in &state.slots {
            assert!(!list.is_empty());
            for (at, &member) in list.iter().enumerate() {
                let listed = state.members[member].listed.expect("who is in a list knows where");
                assert_eq!((listed.slot, listed.at), (slot, at));
            }
        }
        let known = state.members.iter().filter(|member| member.listed.is_some()).count();
        assert_eq!(known, state.slots.values().map(Vec::len).sum::<usize>());
        known
    }

    #[tokio::test]
    async fn who_is_gone_is_not_listed_until_a_deadline_hours_away() {
        let group = IntervalGroup::new().unwrap();
        let start = Instant::from_std(real_now()) + HOUR;
        for i in 0..1_000 {
            let mut interval = group.interval_at(start + Duration::from_millis(i), HOUR);
            assert!(poll(&mut interval).is_pending());
            assert_eq!(listed(&group), 1);
        }
        assert_eq!(listed(&group), 0);
        // Out of the middle, the front and the end of one list.
        let mut together: Vec<_> = (0..10).map(|_| group.interval_at(start, HOUR)).collect();
        assert!(together.iter_mut().all(|interval| poll(interval).is_pending()));
        for left in (0..10).rev() {
            drop(together.swap_remove(left * 7 % together.len()));
            assert_eq!(listed(&group), left);
        }
    }

    #[tokio::test]
    async fn resets_back_and_forth_leave_one_entry() {
        let group = IntervalGroup::new().unwrap();
        let mut interval = group.interval_at(Instant::from_std(real_now()) + HOUR, HOUR);
        for i in 0..1_000 {
            assert!(poll(&mut interval).is_pending());
            // Nearer each time, then far away again.
            interval.reset_after(HOUR / 2 + Duration::from_millis(1_000 - i));
            assert_eq!(listed(&group), 1);
            interval.reset_immediately();
            assert!(listed(&group) <= 1);
            assert!(poll(&mut interval).is_ready());
            // Lets the driver serve what is due, and gives the budget back.
            tokio::task::yield_now().await;
        }
    }
}
