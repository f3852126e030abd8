//! What a runtime does, many times over: a stamp after each batch, or where threads are crossed, on
//! both sides of each event.

use std::future::poll_fn;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use crate::operations::cases::{BenchRuntime, Operation};
use crate::operations::runtimes::{
    Busypoll, BusypollIdler, BusypollSlab, Executor, Idle, Idler, Local, Mpsc, Pipe, Spsc, Tokio,
    TokioIdler, TokioMpsc, Work, bridged,
};
use tach::ordered_count;

use crate::batches::{BatchPlan, Meter};

/// Counts that an operation took: the mean of each batch, or each event.
type Round = Vec<f64>;

pub fn run(operation: Operation, side: BenchRuntime, load: BatchPlan) -> io::Result<Round> {
    use Operation as O;
    match (operation, side) {
        (O::Dispatch, BenchRuntime::Busypoll) => {
            Busypoll::run(Idle::Never, dispatch::<Busypoll>(load))
        }
        (O::Dispatch, BenchRuntime::Tokio) => Tokio::run(Idle::Never, dispatch::<Tokio>(load)),
        (O::SelfWake, BenchRuntime::Busypoll) => {
            Busypoll::run(Idle::Never, spawned::<Busypoll, _>(self_wake(load)))
        }
        (O::SelfWake, BenchRuntime::Tokio) => {
            Tokio::run(Idle::Never, spawned::<Tokio, _>(self_wake(load)))
        }
        (O::LifeBoxed, BenchRuntime::Busypoll) => {
            Busypoll::run(Idle::Never, life::<Busypoll>(load))
        }
        (O::LifeBoxed, BenchRuntime::Tokio) => Tokio::run(Idle::Never, life::<Tokio>(load)),
        (O::LifeSlab, _) => BusypollSlab::run(Idle::Never, life::<BusypollSlab>(load)),
        (O::ChannelLocal, _) => Ok(channel::<Local>(load)),
        (O::ChannelMpsc, BenchRuntime::Busypoll) => Ok(channel::<Mpsc>(load)),
        (O::ChannelMpsc, BenchRuntime::Tokio) => Ok(channel::<TokioMpsc>(load)),
        (O::ChannelSpsc, _) => Ok(channel::<Spsc>(load)),
        (O::StreamMpsc, BenchRuntime::Busypoll) => stream::<Busypoll, Mpsc>(load),
        (O::StreamMpsc, BenchRuntime::Tokio) => stream::<Tokio, TokioMpsc>(load),
        (O::StreamSpsc, _) => stream::<Busypoll, Spsc>(load),
        (O::WakeBusy, BenchRuntime::Busypoll) => wake::<Busypoll>(Idle::Busy, load),
        (O::WakeBusy, BenchRuntime::Tokio) => wake::<Tokio>(Idle::Busy, load),
        (O::WakeParked, BenchRuntime::Busypoll) => wake::<Busypoll>(Idle::Parked, load),
        (O::WakeParked, BenchRuntime::Tokio) => wake::<Tokio>(Idle::Parked, load),
        (O::MessageParked, BenchRuntime::Busypoll) => message::<Busypoll, Mpsc>(load),
        (O::MessageParked, BenchRuntime::Tokio) => message::<Tokio, TokioMpsc>(load),
        (O::IdleTurn, BenchRuntime::Busypoll) => idle::<BusypollIdler>(load, false),
        (O::IdleTurn, BenchRuntime::Tokio) => idle::<TokioIdler>(load, false),
        (O::IdleTurnTimer, _) => idle::<BusypollIdler>(load, true),
        (O::TokioBridge, _) => bridged(self_wake(load)),
    }
}

/// Runs a future as a task, which is what most of a program is.
async fn spawned<E: Executor, W: Work>(work: W) -> W::Output {
    E::spawn(work).await
}

/// Tasks that are ready at once, in [`dispatch`].
const CROWD: u64 = 256;

/// What the tasks of [`dispatch`] share. One thread runs them; the atomics are there because
/// tokio's tasks must be `Send`.
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
                lock(&self.wakers).push(cx.waker().clone());
            }
            let polled = self.polled.load(Ordering::Relaxed) + 1;
            self.polled.store(polled, Ordering::Relaxed);
            if polled == 1 {
                self.first.store(ordered_count(), Ordering::Relaxed);
            } else if polled == CROWD {
                self.last.store(ordered_count(), Ordering::Relaxed);
                lock(&self.root).take().into_iter().for_each(Waker::wake);
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
            *lock(&self.root) = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
        self.last.load(Ordering::Relaxed).saturating_sub(self.first.load(Ordering::Relaxed))
    }
}

/// All tasks are woken before the first is polled; what is timed is from the first poll to the
/// last.
async fn dispatch<E: Executor>(load: BatchPlan) -> Round {
    let crowd = Arc::new(Crowd::default());
    let members: Vec<_> = (0..CROWD).map(|_| E::spawn(Arc::clone(&crowd).member())).collect();
    crowd.sweep().await;
    let wakers = std::mem::take(&mut *lock(&crowd.wakers));
    let mut round = Vec::with_capacity(load.batches as usize + 1);
    let sweeps = load.operations.div_ceil(CROWD - 1);
    for _ in 0..=load.batches {
        let mut counts = 0;
        for _ in 0..sweeps {
            crowd.polled.store(0, Ordering::Relaxed);
            wakers.iter().for_each(Waker::wake_by_ref);
            counts += crowd.sweep().await;
        }
        round.push(counts as f64 / (sweeps * (CROWD - 1)) as f64);
    }
    crowd.over.store(true, Ordering::Relaxed);
    wakers.into_iter().for_each(Waker::wake);
    for member in members {
        member.await;
    }
    round.split_off(1)
}

async fn self_wake(load: BatchPlan) -> Round {
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
    meter.costs()
}

/// Tasks that live at once, in [`life`].
const LIVES: u64 = 64;

async fn life<E: Executor>(load: BatchPlan) -> Round {
    // Whole groups: the load is what was run.
    let groups = load.operations.div_ceil(LIVES);
    let mut meter = Meter::new(BatchPlan { operations: groups * LIVES, ..load });
    let mut handles = Vec::with_capacity(LIVES as usize);
    loop {
        for _ in 0..groups {
            handles.extend((0..LIVES).map(|i| E::spawn(async move { black_box(i) })));
            for (i, handle) in (0..LIVES).zip(handles.drain(..)) {
                assert_eq!(handle.await, i, "a task gives its own output");
            }
        }
        if meter.batch() {
            return meter.costs();
        }
    }
}

const CAPACITY: usize = 64;

fn channel<P: Pipe>(load: BatchPlan) -> Round {
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let mut meter = Meter::new(load);
    loop {
        for i in 0..load.operations {
            assert!(P::try_send(&mut sender, black_box(i)), "there is room");
            assert_eq!(P::try_recv(&mut receiver), Some(i), "what was sent comes");
        }
        if meter.batch() {
            return meter.costs();
        }
    }
}

fn stream<E: Executor, P: Pipe<Sender: Send>>(load: BatchPlan) -> io::Result<Round> {
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let total = (load.batches + 1) * load.operations;
    let crossing = Crossing::default();
    let send = || {
        let is_over = || crossing.over.load(Ordering::Relaxed);
        for i in 0..total {
            while !P::try_send(&mut sender, i) {
                if is_over() {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    };
    crossing.beside(send, || {
        E::run(Idle::Busy, async move {
            let mut meter = Meter::new(load);
            let mut next = 0;
            loop {
                for _ in 0..load.operations {
                    assert_eq!(P::recv(&mut receiver).await, Some(next), "messages come in order");
                    next += 1;
                }
                if meter.batch() {
                    return meter.costs();
                }
            }
        })
    })
}

/// Where two threads meet: the one is ready for the next event, the other makes it.
#[derive(Default)]
struct Crossing {
    ready: AtomicU64,
    over: AtomicBool,
    /// When the event was made; 0 once it was taken.
    made: AtomicU64,
    waker: Mutex<Option<Waker>>,
}

impl Crossing {
    /// Runs the side with the runtime, and the other on a thread of its own, which does not outlast
    /// it.
    fn beside<T>(
        &self,
        other: impl FnOnce() + Send,
        runtime: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        /// However the runtime's side ends, the other one must not wait for it.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        std::thread::scope(|scope| {
            let _over = Over(&self.over);
            scope.spawn(other);
            runtime()
        })
    }

    /// On the thread that makes the events: waits until the other side is ready, and then until it
    /// has had `counts`. False once it is over.
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

    fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Release);
    }
}

fn wake<E: Executor>(idle: Idle, load: BatchPlan) -> io::Result<Round> {
    let crossing = Arc::new(Crossing::default());
    let wake = || {
        let mut event = 0;
        while crossing.wait(event, load.counts) {
            let waker =
                lock(&crossing.waker).take().expect("it was left before the other side was ready");
            crossing.made.store(ordered_count(), Ordering::Release);
            waker.wake();
            event += 1;
        }
    };
    let woken = Arc::clone(&crossing);
    let woken = async move {
        let mut round = Vec::with_capacity(load.batches as usize + 1);
        poll_fn(|cx| {
            let now = ordered_count();
            match woken.made.swap(0, Ordering::AcqRel) {
                0 if !round.is_empty() => return Poll::Pending,
                made => round.push(now.saturating_sub(made) as f64),
            }
            // The first is that of the first poll, and the next one warms up.
            if round.len() as u64 > load.batches + 1 {
                return Poll::Ready(());
            }
            *lock(&woken.waker) = Some(cx.waker().clone());
            woken.is_ready();
            Poll::Pending
        })
        .await;
        round.split_off(2)
    };
    crossing.beside(wake, || E::run(idle, spawned::<E, _>(woken)))
}

fn message<E: Executor, P: Pipe<Sender: Send>>(load: BatchPlan) -> io::Result<Round> {
    let crossing = Crossing::default();
    let (mut sender, mut receiver) = P::new(CAPACITY);
    let send = || {
        let mut event = 0;
        while crossing.wait(event, load.counts) && P::try_send(&mut sender, ordered_count()) {
            event += 1;
        }
    };
    let receive = async {
        let mut round = Vec::with_capacity(load.batches as usize + 1);
        for _ in 0..=load.batches {
            crossing.is_ready();
            let made = P::recv(&mut receiver).await.expect("the sender waits for us");
            round.push(ordered_count().saturating_sub(made) as f64);
        }
        round.split_off(1)
    };
    crossing.beside(send, || E::run(Idle::Parked, receive))
}

/// Another thread ends each batch: a timer of the runtime would be looked at in every turn.
fn idle<I: Idler>(load: BatchPlan, timer: bool) -> io::Result<Round> {
    let mut idler = I::new(timer)?;
    let mut batch = |_| {
        let crossing = Crossing::default();
        let (mut began, mut ended) = (0, 0);
        let wake = || {
            if crossing.wait(0, load.counts) {
                crossing.made.store(1, Ordering::Release);
                lock(&crossing.waker).take().into_iter().for_each(Waker::wake);
            }
        };
        let end = poll_fn(|cx| {
            if crossing.made.load(Ordering::Acquire) == 1 {
                ended = ordered_count();
                return Poll::Ready(());
            }
            if began == 0 {
                *lock(&crossing.waker) = Some(cx.waker().clone());
                began = ordered_count();
                crossing.is_ready();
            }
            Poll::Pending
        });
        let turns = crossing.beside(wake, || idler.turns(end))?;
        Ok(ended.saturating_sub(began) as f64 / turns as f64)
    };
    // One to warm up.
    batch(0)?;
    (0..load.batches).map(batch).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
