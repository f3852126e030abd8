//! The loops of `osjitter bench dispatch`: what a runtime does many times over, with a stamp after each batch, or where
//! threads are crossed, on both sides of each event.

use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use tach::{Anchor, Conversion, ordered_count};

use crate::bench::dispatch::plan::{BATCHES, Operation, Plan, Side, cells};
use crate::bench::dispatch::subject::{
    Busypoll, BusypollIdler, BusypollSlab, Executor, Idle, Idler, Local, Mpsc, Pipe, Spsc, Tokio, TokioIdler,
    TokioMpsc, bridged,
};

/// Counts an operation took: the mean of each batch, or each event.
pub type Round = Vec<f64>;

/// Who gets what was measured.
pub trait Observer {
    /// Before an operation runs.
    fn before(&mut self, operation: Operation, side: Side, round: u64);
    /// After it.
    fn round(&mut self, operation: Operation, side: Side, round: Round);
}

/// Runs the plan until `stop`, and gives the counter's rate over that time.
pub fn run(plan: &Plan, stop: &AtomicBool, observer: &mut impl Observer) -> io::Result<f64> {
    let started = Anchor::take();
    let mut random = SmallRng::seed_from_u64(plan.seed);
    let counts = Rate::guess();
    let mut jobs = Vec::new();
    for (operation, side) in cells(plan) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        observer.before(operation, side, 0);
        jobs.push((operation, side, load(plan, operation, side, counts)?));
    }
    for round in 0..plan.rounds {
        // The runtimes of an operation one after the other, in random order: they are compared within the round.
        let mut operations = plan.operations.clone();
        operations.shuffle(&mut random);
        for operation in operations {
            let mut order: Vec<_> = jobs.iter().filter(|(o, ..)| *o == operation).collect();
            order.shuffle(&mut random);
            // A round is kept whole or not at all.
            let mut results = Vec::new();
            for &&(operation, side, load) in &order {
                if stop.load(Ordering::Relaxed) {
                    return counts.until_now(&started);
                }
                observer.before(operation, side, round);
                results.push((side, measure(operation, side, load)?));
            }
            for (side, result) in results {
                observer.round(operation, side, result);
            }
        }
    }
    counts.until_now(&started)
}

/// Counts a second.
#[derive(Clone, Copy)]
struct Rate(f64);

impl Rate {
    /// Good enough to know how many operations take a while.
    fn guess() -> Self {
        Self(tach::info().rate_hz.max(1.0))
    }

    fn counts(self, duration: Duration) -> u64 {
        (duration.as_secs_f64() * self.0) as u64
    }

    fn until_now(self, started: &Anchor) -> io::Result<f64> {
        let conversion = Conversion::between(started, &Anchor::take());
        conversion.map(|c| c.rate_hz()).ok_or_else(|| io::Error::other("the clock did not advance"))
    }
}

/// How much of an operation is run: a batch to warm up, then the others.
#[derive(Clone, Copy, Debug)]
struct Load {
    batches: u64,
    operations: u64,
    /// For those that are left alone for a while in place of doing so many.
    counts: u64,
}

/// Most operations of a batch: what costs less than this allows is known well enough.
const MAX_BATCH: u64 = 10_000_000;

/// How many operations fill a batch's share of the round, or how many events the round.
fn load(plan: &Plan, operation: Operation, side: Side, rate: Rate) -> io::Result<Load> {
    const FIRST: u64 = 256;
    let share = rate.counts(plan.round_time / BATCHES as u32);
    if let Some(gap) = operation.gap() {
        // An event takes about as long as the gap before it, or less.
        let events = plan.round_time.as_nanos() / (gap.as_nanos() * 3 / 2);
        return Ok(Load { batches: (events as u64).max(1), operations: 1, counts: rate.counts(gap) });
    }
    let mut operations = FIRST;
    loop {
        let load = Load { batches: 1, operations, counts: share };
        let took = measure(operation, side, load)?[0] * operations as f64;
        let wanted = share as f64 / took.max(1.0) * operations as f64;
        if took >= share as f64 / 8.0 || operations >= MAX_BATCH {
            return Ok(Load { batches: BATCHES, operations: (wanted as u64).clamp(1, MAX_BATCH), counts: share });
        }
        operations = (wanted as u64 / 4).clamp(operations * 2, operations * 16).min(MAX_BATCH);
    }
}

fn measure(operation: Operation, side: Side, load: Load) -> io::Result<Round> {
    use Operation as O;
    match (operation, side) {
        (O::Dispatch, Side::Busypoll) => Busypoll::run(Idle::Never, dispatch::<Busypoll>(load)),
        (O::Dispatch, Side::Tokio) => Tokio::run(Idle::Never, dispatch::<Tokio>(load)),
        (O::SelfWake, Side::Busypoll) => Busypoll::run(Idle::Never, Busypoll::spawn_inside(self_wake(load))),
        (O::SelfWake, Side::Tokio) => Tokio::run(Idle::Never, Tokio::spawn_inside(self_wake(load))),
        (O::LifeBoxed, Side::Busypoll) => Busypoll::run(Idle::Never, life::<Busypoll>(load)),
        (O::LifeBoxed, Side::Tokio) => Tokio::run(Idle::Never, life::<Tokio>(load)),
        (O::LifeSlab, _) => BusypollSlab::run(Idle::Never, life::<BusypollSlab>(load)),
        (O::ChannelLocal, _) => Ok(channel::<Local>(load)),
        (O::ChannelMpsc, Side::Busypoll) => Ok(channel::<Mpsc>(load)),
        (O::ChannelMpsc, Side::Tokio) => Ok(channel::<TokioMpsc>(load)),
        (O::ChannelSpsc, _) => Ok(channel::<Spsc>(load)),
        (O::StreamMpsc, Side::Busypoll) => stream::<Busypoll, Mpsc>(load),
        (O::StreamMpsc, Side::Tokio) => stream::<Tokio, TokioMpsc>(load),
        (O::StreamSpsc, _) => stream::<Busypoll, Spsc>(load),
        (O::WakeBusy, Side::Busypoll) => wake::<Busypoll>(Idle::Busy, load),
        (O::WakeBusy, Side::Tokio) => wake::<Tokio>(Idle::Busy, load),
        (O::WakeParked, Side::Busypoll) => wake::<Busypoll>(Idle::Parked, load),
        (O::WakeParked, Side::Tokio) => wake::<Tokio>(Idle::Parked, load),
        (O::MessageParked, Side::Busypoll) => message::<Busypoll, Mpsc>(load),
        (O::MessageParked, Side::Tokio) => message::<Tokio, TokioMpsc>(load),
        (O::IdleTurn, Side::Busypoll) => idle::<BusypollIdler>(load, false),
        (O::IdleTurn, Side::Tokio) => idle::<TokioIdler>(load, false),
        (O::IdleTurnTimer, _) => idle::<BusypollIdler>(load, true),
        (O::TokioBridge, _) => bridged(self_wake(load)),
    }
}

/// Runs a future as a task, which is what most of a program is.
trait SpawnInside: Executor {
    async fn spawn_inside<F>(future: F) -> F::Output
    where
        F: Future<Output: Send> + Send + 'static,
    {
        Self::spawn(future).await
    }
}

impl<E: Executor> SpawnInside for E {}

/// Stamps after each batch; the first is the warm-up.
struct Meter {
    load: Load,
    last: Option<u64>,
    round: Round,
}

impl Meter {
    fn new(load: Load) -> Self {
        Self { load, last: None, round: Vec::with_capacity(load.batches as usize) }
    }

    /// A batch is over. True once all are.
    fn batch(&mut self) -> bool {
        let now = ordered_count();
        if let Some(last) = self.last {
            self.round.push(now.saturating_sub(last) as f64 / self.load.operations as f64);
        }
        self.last = Some(ordered_count());
        self.round.len() as u64 == self.load.batches
    }
}

/// Tasks that are ready at once, in [`dispatch`].
const CROWD: u64 = 256;

/// What the tasks of [`dispatch`] share. One thread runs them; the atomics are there because tokio's tasks must be `Send`.
#[derive(Default)]
struct Crowd {
    wakers: Mutex<Vec<Waker>>,
    root: Mutex<Option<Waker>>,
    polled: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
    over: AtomicBool,
}

impl Crowd {
    async fn member(self: Arc<Self>) {
        let mut known = false;
        poll_fn(|cx| {
            if self.over.load(Ordering::Relaxed) {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut known, true) {
                self.wakers.lock().unwrap_or_else(PoisonError::into_inner).push(cx.waker().clone());
            }
            let polled = self.polled.load(Ordering::Relaxed) + 1;
            self.polled.store(polled, Ordering::Relaxed);
            if polled == 1 {
                self.first.store(ordered_count(), Ordering::Relaxed);
            } else if polled == CROWD {
                self.last.store(ordered_count(), Ordering::Relaxed);
                let root = self.root.lock().unwrap_or_else(PoisonError::into_inner).take();
                root.into_iter().for_each(Waker::wake);
            }
            Poll::Pending
        })
        .await;
    }

    /// Until all have been polled once; the counts from the first poll to the last.
    async fn sweep(&self) -> u64 {
        poll_fn(|cx| {
            if self.polled.load(Ordering::Relaxed) == CROWD {
                return Poll::Ready(());
            }
            *self.root.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        self.last.load(Ordering::Relaxed).saturating_sub(self.first.load(Ordering::Relaxed))
    }
}

/// All tasks are woken before the first is polled; what is timed is from the first poll to the last.
async fn dispatch<E: Executor>(load: Load) -> Round {
    let crowd = Arc::new(Crowd::default());
    let members: Vec<_> = (0..CROWD).map(|_| E::spawn(Arc::clone(&crowd).member())).collect();
    crowd.sweep().await;
    let wakers = std::mem::take(&mut *crowd.wakers.lock().unwrap_or_else(PoisonError::into_inner));
    let mut round = Vec::new();
    let sweeps = load.operations.div_ceil(CROWD - 1);
    for batch in 0..=load.batches {
        let mut counts = 0;
        for _ in 0..sweeps {
            crowd.polled.store(0, Ordering::Relaxed);
            wakers.iter().for_each(Waker::wake_by_ref);
            counts += crowd.sweep().await;
        }
        if batch > 0 {
            round.push(counts as f64 / (sweeps * (CROWD - 1)) as f64);
        }
    }
    crowd.over.store(true, Ordering::Relaxed);
    wakers.into_iter().for_each(Waker::wake);
    for member in members {
        member.await;
    }
    round
}

async fn self_wake(load: Load) -> Round {
    let mut meter = Meter::new(load);
    meter.batch();
    let mut left = load.operations;
    poll_fn(|cx| {
        if left == 0 {
            left = load.operations;
            if meter.batch() {
                return Poll::Ready(());
            }
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    meter.round
}

/// Tasks that live at once, in [`life`].
const LIVES: u64 = 64;

async fn life<E: Executor>(load: Load) -> Round {
    // Whole groups: the load is what was run.
    let groups = load.operations.div_ceil(LIVES);
    let mut meter = Meter::new(Load { operations: groups * LIVES, ..load });
    let mut handles = Vec::with_capacity(LIVES as usize);
    loop {
        for _ in 0..groups {
            handles.extend((0..LIVES).map(|i| E::spawn(async move { black_box(i) })));
            for (i, handle) in (0..LIVES).zip(handles.drain(..)) {
                assert_eq!(handle.await, i, "a task gives its own output");
            }
        }
        if meter.batch() {
            return meter.round;
        }
    }
}

const CAPACITY: usize = 64;

fn channel<P: Pipe>(load: Load) -> Round {
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let mut meter = Meter::new(load);
    loop {
        for i in 0..load.operations {
            assert!(P::try_send(&mut sender, black_box(i)), "there is room");
            assert_eq!(P::try_recv(&mut receiver), Some(i), "what was sent comes");
        }
        if meter.batch() {
            return meter.round;
        }
    }
}

fn stream<E: Executor, P: Pipe<Sender: Send>>(load: Load) -> io::Result<Round> {
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let total = (load.batches + 1) * load.operations;
    let crossing = Crossing::default();
    std::thread::scope(|scope| {
        let _over = Over(&crossing);
        let crossing = &crossing;
        scope.spawn(move || {
            for i in 0..total {
                while !P::try_send(&mut sender, i) {
                    if crossing.over.load(Ordering::Relaxed) {
                        return;
                    }
                    std::hint::spin_loop();
                }
            }
        });
        E::run(Idle::Busy, async move {
            let mut meter = Meter::new(load);
            let mut next = 0;
            loop {
                for _ in 0..load.operations {
                    assert_eq!(P::recv(&mut receiver).await, Some(next), "messages come in order");
                    next += 1;
                }
                if meter.batch() {
                    return meter.round;
                }
            }
        })
    })
}

/// Where two threads meet: the one says that it is ready for the next event, the other makes it.
#[derive(Default)]
struct Crossing {
    ready: AtomicU64,
    over: AtomicBool,
    /// When the event was made; 0 once it was taken.
    made: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Crossing {
    /// On the thread that makes the events: waits until the other side is ready, and then until it has had `counts`.
    /// False once it is over.
    fn wait(&self, event: u64, counts: u64) -> bool {
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

    fn say_ready(&self) {
        self.ready.fetch_add(1, Ordering::Release);
    }
}

/// However the runtime's side ends, the other one must not wait for it.
struct Over<'a>(&'a Crossing);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
    }
}

fn wake<E: Executor>(idle: Idle, load: Load) -> io::Result<Round> {
    let crossing = Arc::new(Crossing::default());
    std::thread::scope(|scope| {
        let _over = Over(&crossing);
        scope.spawn(|| {
            let mut event = 0;
            while crossing.wait(event, load.counts) {
                let waker = crossing.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
                let waker = waker.expect("it was left before the other side was ready");
                crossing.made.store(ordered_count(), Ordering::Release);
                waker.wake();
                event += 1;
            }
        });
        let crossing = Arc::clone(&crossing);
        E::run(
            idle,
            E::spawn_inside(async move {
                let mut round = Vec::with_capacity(load.batches as usize + 1);
                poll_fn(|cx| {
                    let now = ordered_count();
                    match crossing.made.swap(0, Ordering::AcqRel) {
                        0 if !round.is_empty() => return Poll::Pending,
                        made => round.push(now.saturating_sub(made) as f64),
                    }
                    // The first is that of the first poll, and the next one warms up.
                    if round.len() as u64 > load.batches + 1 {
                        return Poll::Ready(());
                    }
                    *crossing.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
                    crossing.say_ready();
                    Poll::Pending
                })
                .await;
                round.drain(..2);
                round
            }),
        )
    })
}

fn message<E: Executor, P: Pipe<Sender: Send>>(load: Load) -> io::Result<Round> {
    let crossing = Crossing::default();
    let (mut sender, mut receiver) = P::new(CAPACITY);
    std::thread::scope(|scope| {
        let _over = Over(&crossing);
        let crossing = &crossing;
        scope.spawn(move || {
            let mut event = 0;
            while crossing.wait(event, load.counts) && P::try_send(&mut sender, ordered_count()) {
                event += 1;
            }
        });
        E::run(Idle::Parked, async move {
            let mut round = Vec::with_capacity(load.batches as usize);
            for event in 0..=load.batches {
                crossing.say_ready();
                let made = P::recv(&mut receiver).await.expect("the sender waits for us");
                let took = ordered_count().saturating_sub(made);
                if event > 0 {
                    round.push(took as f64);
                }
            }
            round
        })
    })
}

/// Another thread ends each batch: a timer of the runtime would be looked at in every turn.
fn idle<I: Idler>(load: Load, timer: bool) -> io::Result<Round> {
    let mut idler = I::new(timer)?;
    let mut round = Vec::new();
    for batch in 0..=load.batches {
        let crossing = Crossing::default();
        let (mut began, mut ended) = (0, 0);
        let turns = std::thread::scope(|scope| {
            let _over = Over(&crossing);
            scope.spawn(|| {
                if crossing.wait(0, load.counts) {
                    crossing.made.store(1, Ordering::Release);
                    let waker = crossing.waker.lock().unwrap_or_else(PoisonError::into_inner).take();
                    waker.into_iter().for_each(Waker::wake);
                }
            });
            let end = poll_fn(|cx| {
                if crossing.made.load(Ordering::Acquire) == 1 {
                    ended = ordered_count();
                    return Poll::Ready(());
                }
                if began == 0 {
                    *crossing.waker.lock().unwrap_or_else(PoisonError::into_inner) = Some(cx.waker().clone());
                    began = ordered_count();
                    crossing.say_ready();
                }
                Poll::Pending
            });
            idler.turns(pin!(end))
        })?;
        if batch > 0 {
            round.push(ended.saturating_sub(began) as f64 / turns as f64);
        }
    }
    Ok(round)
}

/// Cost of one reading of the counter, in counts.
pub fn counts_per_read() -> f64 {
    const READS: u32 = 5_000;
    let go = |_| {
        let start = ordered_count();
        for _ in 0..READS {
            black_box(ordered_count());
        }
        ordered_count().saturating_sub(start) as f64 / f64::from(READS)
    };
    // The least of several goes: one that was interrupted is longer, never shorter.
    (0..20).map(go).fold(f64::INFINITY, f64::min)
}
