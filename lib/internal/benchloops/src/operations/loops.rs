//! The loops over the operations of a runtime.
//!
//! Most loops take a time stamp after each batch. Operations that cross threads take one on both
//! sides of each event.

use std::future::poll_fn;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::operations::cases::{BenchRuntime, Operation};
use crate::operations::runtimes::{
    Busypoll, BusypollIdler, BusypollSlab, Channel, Executor, IdleMode, Idler, Local, Mpsc, Spsc,
    Tokio, TokioIdler, TokioMpsc, Work, run_bridged,
};
use tach::ordered_count;

use crate::batches::{BatchPlan, Meter};

/// Counts per operation: the mean of each batch, or one value per event.
type Round = Vec<f64>;

/// Runs a round of an operation on a runtime.
///
/// If `stop` is set, the round of an operation across threads ends early: on a busy machine, each of
/// its events waits until both threads have had a CPU.
///
/// # Errors
///
/// Returns an error if the runtime or a thread cannot be created.
pub fn run(
    operation: Operation,
    side: BenchRuntime,
    plan: BatchPlan,
    stop: &Arc<AtomicBool>,
) -> io::Result<Round> {
    use Operation as O;
    match (operation, side) {
        (O::Dispatch, BenchRuntime::Busypoll) => {
            Busypoll::run(IdleMode::Never, dispatch::<Busypoll>(plan))
        }
        (O::Dispatch, BenchRuntime::Tokio) => Tokio::run(IdleMode::Never, dispatch::<Tokio>(plan)),
        (O::SelfWake, BenchRuntime::Busypoll) => {
            Busypoll::run(IdleMode::Never, spawned::<Busypoll, _>(self_wake(plan)))
        }
        (O::SelfWake, BenchRuntime::Tokio) => {
            Tokio::run(IdleMode::Never, spawned::<Tokio, _>(self_wake(plan)))
        }
        (O::LifeBoxed, BenchRuntime::Busypoll) => {
            Busypoll::run(IdleMode::Never, life::<Busypoll>(plan))
        }
        (O::LifeBoxed, BenchRuntime::Tokio) => Tokio::run(IdleMode::Never, life::<Tokio>(plan)),
        (O::LifeSlab, _) => BusypollSlab::run(IdleMode::Never, life::<BusypollSlab>(plan)),
        (O::ChannelLocal, _) => Ok(channel::<Local>(plan)),
        (O::ChannelMpsc, BenchRuntime::Busypoll) => Ok(channel::<Mpsc>(plan)),
        (O::ChannelMpsc, BenchRuntime::Tokio) => Ok(channel::<TokioMpsc>(plan)),
        (O::ChannelSpsc, _) => Ok(channel::<Spsc>(plan)),
        (O::StreamMpsc, BenchRuntime::Busypoll) => stream::<Busypoll, Mpsc>(plan, stop),
        (O::StreamMpsc, BenchRuntime::Tokio) => stream::<Tokio, TokioMpsc>(plan, stop),
        (O::StreamSpsc, _) => stream::<Busypoll, Spsc>(plan, stop),
        (O::WakeBusy, BenchRuntime::Busypoll) => wake::<Busypoll>(IdleMode::Busy, plan, stop),
        (O::WakeBusy, BenchRuntime::Tokio) => wake::<Tokio>(IdleMode::Busy, plan, stop),
        (O::WakeParked, BenchRuntime::Busypoll) => wake::<Busypoll>(IdleMode::Parked, plan, stop),
        (O::WakeParked, BenchRuntime::Tokio) => wake::<Tokio>(IdleMode::Parked, plan, stop),
        (O::MessageParked, BenchRuntime::Busypoll) => message::<Busypoll, Mpsc>(plan, stop),
        (O::MessageParked, BenchRuntime::Tokio) => message::<Tokio, TokioMpsc>(plan, stop),
        (O::IdleTurn, BenchRuntime::Busypoll) => idle::<BusypollIdler>(plan, false, stop),
        (O::IdleTurn, BenchRuntime::Tokio) => idle::<TokioIdler>(plan, false, stop),
        (O::IdleTurnTimer, _) => idle::<BusypollIdler>(plan, true, stop),
        (O::TokioBridge, _) => run_bridged(self_wake(plan)),
    }
}

/// Runs a future as a task, like most of the code of a program.
async fn spawned<E: Executor, W: Work>(work: W) -> W::Output {
    E::spawn(work).await
}

/// Tasks that are ready at the same time in [`dispatch`].
const DISPATCHED_TASKS: u64 = 256;

/// State that the tasks of [`dispatch`] share.
///
/// One thread runs all of them. The fields are atomic because tokio's tasks must be `Send`.
#[derive(Default)]
struct CrowdState {
    wakers: Mutex<Vec<Waker>>,
    root: Mutex<Option<Waker>>,
    polled: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    over: AtomicBool,
}

impl CrowdState {
    async fn member(self: Arc<Self>) {
        let mut known = false;
        poll_fn(|cx| self.poll_member(&mut known, cx)).await;
    }

    /// Polls a task, which is registered in its first poll.
    #[inline]
    fn poll_member(&self, known: &mut bool, cx: &Context<'_>) -> Poll<()> {
        if self.over.load(Ordering::Relaxed) {
            return Poll::Ready(());
        }
        if !std::mem::replace(known, true) {
            lock(&self.wakers).push(cx.waker().clone());
        }
        let polled = self.polled.load(Ordering::Relaxed) + 1;
        self.polled.store(polled, Ordering::Relaxed);
        if polled == 1 {
            self.first.store(ordered_count(), Ordering::Relaxed);
        } else if polled == DISPATCHED_TASKS {
            self.last.store(ordered_count(), Ordering::Relaxed);
            lock(&self.root).take().into_iter().for_each(Waker::wake);
        }
        Poll::Pending
    }

    /// Waits until all tasks have been polled once. Returns the counts from the first poll to the
    /// last.
    async fn sweep(&self) -> u64 {
        poll_fn(|cx| self.poll_sweep(cx)).await;
        self.last.load(Ordering::Relaxed).saturating_sub(self.first.load(Ordering::Relaxed))
    }

    #[inline]
    fn poll_sweep(&self, cx: &Context<'_>) -> Poll<()> {
        if self.polled.load(Ordering::Relaxed) == DISPATCHED_TASKS {
            return Poll::Ready(());
        }
        *lock(&self.root) = Some(cx.waker().clone());
        Poll::Pending
    }
}

/// Measures from the first poll to the last of tasks that were all woken beforehand.
async fn dispatch<E: Executor>(plan: BatchPlan) -> Round {
    let crowd = Arc::new(CrowdState::default());
    let members: Vec<_> =
        (0..DISPATCHED_TASKS).map(|_| E::spawn(Arc::clone(&crowd).member())).collect();
    crowd.sweep().await;
    let wakers = std::mem::take(&mut *lock(&crowd.wakers));
    let mut round = Vec::with_capacity(plan.batches as usize + 1);
    let sweeps = plan.operations.div_ceil(DISPATCHED_TASKS - 1);
    for _ in 0..=plan.batches {
        let mut counts = 0;
        for _ in 0..sweeps {
            crowd.polled.store(0, Ordering::Relaxed);
            wakers.iter().for_each(Waker::wake_by_ref);
            counts += crowd.sweep().await;
        }
        round.push(counts as f64 / (sweeps * (DISPATCHED_TASKS - 1)) as f64);
    }
    crowd.over.store(true, Ordering::Relaxed);
    wakers.into_iter().for_each(Waker::wake);
    for member in members {
        member.await;
    }
    round.split_off(1)
}

async fn self_wake(plan: BatchPlan) -> Round {
    let mut meter = Meter::new(plan);
    meter.finish_batch();
    let mut remaining = plan.operations;
    poll_fn(|cx| poll_self_wake(&mut meter, &mut remaining, cx)).await;
    meter.costs()
}

#[inline]
fn poll_self_wake(meter: &mut Meter, remaining: &mut u64, cx: &Context<'_>) -> Poll<()> {
    if *remaining == 0 {
        *remaining = meter.plan().operations;
        if meter.finish_batch() {
            return Poll::Ready(());
        }
    }
    *remaining -= 1;
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Tasks that exist at the same time in [`life`].
const LIVE_TASKS: u64 = 64;

async fn life<E: Executor>(plan: BatchPlan) -> Round {
    // The plan is rounded up to whole groups, so that the costs are per operation that was run.
    let groups = plan.operations.div_ceil(LIVE_TASKS);
    let mut meter = Meter::new(BatchPlan { operations: groups * LIVE_TASKS, ..plan });
    let mut handles = Vec::with_capacity(LIVE_TASKS as usize);
    loop {
        for _ in 0..groups {
            handles.extend((0..LIVE_TASKS).map(|i| E::spawn(async move { black_box(i) })));
            for (i, handle) in (0..LIVE_TASKS).zip(handles.drain(..)) {
                assert_eq!(handle.await, i, "a task gives its own output");
            }
        }
        if meter.finish_batch() {
            return meter.costs();
        }
    }
}

const CAPACITY: usize = 64;

fn channel<P: Channel>(plan: BatchPlan) -> Round {
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let mut meter = Meter::new(plan);
    loop {
        for i in 0..plan.operations {
            assert!(P::try_send(&mut sender, black_box(i)), "the channel has a free slot");
            assert_eq!(P::try_recv(&mut receiver), Some(i), "what was sent comes");
        }
        if meter.finish_batch() {
            return meter.costs();
        }
    }
}

fn stream<E: Executor, P: Channel<Sender: Send>>(
    plan: BatchPlan,
    stop: &Arc<AtomicBool>,
) -> io::Result<Round> {
    let (mut sender, receiver) = P::new(CAPACITY);
    let total = (plan.batches + 1) * plan.operations;
    let crossing = Crossing::new(stop);
    crossing.run_both(
        || send_all::<P>(&mut sender, total, &crossing.over),
        || E::run(IdleMode::Busy, receive_all::<P>(receiver, plan, stop)),
    )
}

/// Sends consecutive numbers as fast as the channel accepts them.
fn send_all<P: Channel>(sender: &mut P::Sender, total: u64, over: &AtomicBool) {
    for i in 0..total {
        while !P::try_send(sender, i) {
            if over.load(Ordering::Relaxed) {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

async fn receive_all<P: Channel>(
    mut receiver: P::Receiver,
    plan: BatchPlan,
    stop: &AtomicBool,
) -> Round {
    let mut meter = Meter::new(plan);
    let mut next = 0;
    loop {
        for _ in 0..plan.operations {
            assert_eq!(P::recv(&mut receiver).await, Some(next), "messages come in order");
            next += 1;
        }
        if meter.finish_batch() || stop.load(Ordering::Relaxed) {
            return meter.costs();
        }
    }
}

/// Synchronisation of two threads: one prepares for the next event, the other causes it.
#[derive(Default)]
struct Crossing {
    ready: AtomicU64,
    over: AtomicBool,
    /// Count at which the event was caused; 0 after it was handled.
    caused_at: AtomicU64,
    waker: Mutex<Option<Waker>>,
    /// Set by the user to end the round early.
    stop: Arc<AtomicBool>,
}

impl Crossing {
    fn new(stop: &Arc<AtomicBool>) -> Self {
        Self { stop: Arc::clone(stop), ..Self::default() }
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Runs `runtime` on this thread and `event_source` on another one, which ends before this
    /// function returns.
    fn run_both<T>(
        &self,
        event_source: impl FnOnce() + Send,
        runtime: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        /// Ends the event source even if the runtime panics.
        struct OverGuard<'a>(&'a AtomicBool);
        impl Drop for OverGuard<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let _guard = OverGuard(&self.over);
            std::thread::Builder::new().spawn_scoped(scope, event_source)?;
            runtime()
        })
    }

    /// Waits until the runtime is ready for `event`, and then for `counts` of the clock.
    ///
    /// Called by the thread that causes the events. Returns false after the last event.
    fn wait_until_ready(&self, event: u64, counts: u64) -> bool {
        while self.ready.load(Ordering::Acquire) <= event {
            if self.over.load(Ordering::Relaxed) {
                return false;
            }
            std::hint::spin_loop();
        }
        let since = ordered_count();
        while ordered_count().saturating_sub(since) < counts {
            std::hint::spin_loop();
        }
        true
    }

    fn announce_ready(&self) {
        self.ready.fetch_add(1, Ordering::Release);
    }

    /// Wakes the runtime each time that it is ready.
    fn wake_runtime(&self, plan: BatchPlan) {
        let mut event = 0;
        while self.wait_until_ready(event, plan.counts) {
            let waker = lock(&self.waker)
                .take()
                .expect("the waker was stored before the runtime was ready");
            self.caused_at.store(ordered_count(), Ordering::Release);
            waker.wake();
            event += 1;
        }
    }

    /// Records the time since the wake, and gets ready for the next one.
    #[inline]
    fn poll_woken(&self, round: &mut Round, batches: u64, cx: &Context<'_>) -> Poll<()> {
        let now = ordered_count();
        match self.caused_at.swap(0, Ordering::AcqRel) {
            0 if !round.is_empty() => return Poll::Pending,
            made => round.push(now.saturating_sub(made) as f64),
        }
        // The first value is of the first poll, and the second one warms up.
        if round.len() as u64 > batches + 1 || self.is_stopped() {
            return Poll::Ready(());
        }
        *lock(&self.waker) = Some(cx.waker().clone());
        self.announce_ready();
        Poll::Pending
    }

    /// Ends a batch of an idle runtime after `counts` of the clock.
    fn end_idle_batch(&self, counts: u64) {
        if self.wait_until_ready(0, counts) {
            self.caused_at.store(1, Ordering::Release);
            lock(&self.waker).take().into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for the end of a batch of an idle runtime, whose first poll begins it.
    #[inline]
    fn poll_end(&self, began: &mut u64, ended: &mut u64, cx: &Context<'_>) -> Poll<()> {
        if self.caused_at.load(Ordering::Acquire) == 1 {
            *ended = ordered_count();
            return Poll::Ready(());
        }
        if *began == 0 {
            *lock(&self.waker) = Some(cx.waker().clone());
            *began = ordered_count();
            self.announce_ready();
        }
        Poll::Pending
    }
}

fn wake<E: Executor>(idle: IdleMode, plan: BatchPlan, stop: &Arc<AtomicBool>) -> io::Result<Round> {
    let crossing = Arc::new(Crossing::new(stop));
    let woken = measure_wakes(Arc::clone(&crossing), plan.batches);
    crossing.run_both(|| crossing.wake_runtime(plan), || E::run(idle, spawned::<E, _>(woken)))
}

/// Measures the time from each wake to the poll that follows it.
async fn measure_wakes(crossing: Arc<Crossing>, batches: u64) -> Round {
    let mut round = Vec::with_capacity(batches as usize + 1);
    poll_fn(|cx| crossing.poll_woken(&mut round, batches, cx)).await;
    round.split_off(round.len().min(2))
}

fn message<E: Executor, P: Channel<Sender: Send>>(
    plan: BatchPlan,
    stop: &Arc<AtomicBool>,
) -> io::Result<Round> {
    let crossing = Crossing::new(stop);
    let (mut sender, receiver) = P::new(CAPACITY);
    let receive = measure_messages::<P>(receiver, &crossing, plan.batches);
    crossing.run_both(
        || send_times::<P>(&mut sender, &crossing, plan),
        || E::run(IdleMode::Parked, receive),
    )
}

/// Sends the time of sending whenever the receiver waits.
fn send_times<P: Channel>(sender: &mut P::Sender, crossing: &Crossing, plan: BatchPlan) {
    let mut event = 0;
    while crossing.wait_until_ready(event, plan.counts) && P::try_send(sender, ordered_count()) {
        event += 1;
    }
}

/// Measures the time from sending each message to receiving it.
async fn measure_messages<P: Channel>(
    mut receiver: P::Receiver,
    crossing: &Crossing,
    batches: u64,
) -> Round {
    let mut round = Vec::with_capacity(batches as usize + 1);
    for _ in 0..=batches {
        if crossing.is_stopped() {
            break;
        }
        crossing.announce_ready();
        let made = P::recv(&mut receiver).await.expect("the sender waits for the receiver");
        round.push(ordered_count().saturating_sub(made) as f64);
    }
    round.split_off(round.len().min(1))
}

/// Measures turns of an idle runtime.
///
/// Another thread ends each batch, since a timer of the runtime would be checked in every turn.
fn idle<I: Idler>(plan: BatchPlan, timer: bool, stop: &AtomicBool) -> io::Result<Round> {
    let mut idler = I::new(timer)?;
    // The first batch warms up.
    idle_batch(&mut idler, plan)?;
    let batches = (0..plan.batches).take_while(|_| !stop.load(Ordering::Relaxed));
    batches.map(|_| idle_batch(&mut idler, plan)).collect()
}

/// Returns the counts of a turn of an idle runtime, in a batch of turns.
fn idle_batch<I: Idler>(idler: &mut I, plan: BatchPlan) -> io::Result<f64> {
    let crossing = Crossing::default();
    let (mut began, mut ended) = (0_u64, 0_u64);
    let end = poll_fn(|cx| crossing.poll_end(&mut began, &mut ended, cx));
    let turns =
        crossing.run_both(|| crossing.end_idle_batch(plan.counts), || idler.run_until(end))?;
    Ok(ended.saturating_sub(began) as f64 / turns as f64)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
