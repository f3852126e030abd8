//! The operations that are measured, with the same code for both runtimes. They share no trait, so
//! a macro generates the code.
//!
//! Each function measures once and returns the mean of many operations in nanoseconds. For
//! operations between threads, it returns the median.

use std::cell::Cell;
use std::future::poll_fn;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tach::ordered_count;

use crate::{Clock, median};

pub const OPS: u64 = 20_000;
/// Number of tasks that are ready at the same time when dispatch is measured.
const CROWD: u64 = 64;
/// Number of tasks that exist at the same time when their lives are measured.
const LIVES: u64 = 64;
const CAPACITY: usize = 64;
/// Time for which a runtime is idle.
const IDLE: Duration = Duration::from_millis(5);

/// The names and descriptions of the operations.
pub const OPERATIONS: [(&str, &str); 15] = [
    ("dispatch", "from one task's poll to the next one's, 64 ready, without wakes"),
    ("self-wake", "a spawned task that wakes itself: wake, queue and poll"),
    ("life-boxed", "spawn, one poll, end and join of a task on the heap, 64 at a time"),
    ("life-slab", "the same in preallocated memory"),
    ("life-slab-one", "the same, one at a time: the root waits for each"),
    ("channel-local", "try_send and try_recv within the thread"),
    ("channel-mpsc", "the same, many senders, any threads"),
    ("channel-spsc", "the same, one sender, any thread"),
    ("stream-mpsc", "a message of a stream from another thread, many senders"),
    ("stream-spsc", "the same, one sender"),
    ("tokio-bridge", "a task that wakes itself inside the context of a tokio runtime"),
    ("wake-busy", "from wake on another thread to the root's poll, the runtime awake"),
    ("wake-parked", "the same, the runtime asleep"),
    ("idle-turn", "a turn in which nothing is ready, with a socket watched"),
    ("idle-turn-timer", "the same, with a timer that is not due"),
];

/// State that two threads share: one announces that it is ready for the next event, the other makes
/// the event.
#[derive(Default)]
pub struct Crossing {
    pub ready: AtomicU64,
    pub over: AtomicBool,
    pub made: AtomicU64,
    pub waker: Mutex<Option<Waker>>,
}

impl Crossing {
    /// Makes an event after a gap whenever the other side is ready, until `over` is set.
    pub fn events(&self, gap_counts: u64) {
        for event in 0.. {
            while self.ready.load(Ordering::Acquire) <= event {
                if self.over.load(Ordering::Relaxed) {
                    return;
                }
                std::hint::spin_loop();
            }
            let since = ordered_count();
            while ordered_count() - since < gap_counts {
                std::hint::spin_loop();
            }
            let waker =
                self.waker.lock().unwrap().take().expect("the waker is stored before `ready`");
            self.made.store(ordered_count(), Ordering::Release);
            waker.wake();
        }
    }
}

/// Waits for the events on the root task, and returns the counts from each event to the poll.
pub async fn woken(crossing: Arc<Crossing>, events: usize) -> Vec<u64> {
    let mut counts = Vec::with_capacity(events + 1);
    let mut polled = false;
    poll_fn(|cx| {
        let now = ordered_count();
        let made = crossing.made.swap(0, Ordering::AcqRel);
        if std::mem::replace(&mut polled, true) {
            if made == 0 {
                return Poll::Pending;
            }
            counts.push(now.saturating_sub(made));
            if counts.len() > events {
                crossing.over.store(true, Ordering::Relaxed);
                return Poll::Ready(());
            }
        }
        *crossing.waker.lock().unwrap() = Some(cx.waker().clone());
        crossing.ready.fetch_add(1, Ordering::Release);
        Poll::Pending
    })
    .await;
    // The first event is the warm-up.
    counts.split_off(1)
}

/// Waits until another thread makes an event, without work for the runtime in between. Returns the
/// counts of the wait.
pub async fn left_alone(crossing: Arc<Crossing>) -> u64 {
    let mut began = 0;
    poll_fn(|cx| {
        if crossing.made.load(Ordering::Acquire) != 0 {
            crossing.over.store(true, Ordering::Relaxed);
            return Poll::Ready(ordered_count() - began);
        }
        if began == 0 {
            *crossing.waker.lock().unwrap() = Some(cx.waker().clone());
            began = ordered_count();
            crossing.ready.fetch_add(1, Ordering::Release);
        }
        Poll::Pending
    })
    .await
}

/// Returns the mean time of an operation since the counter was `began`, in nanoseconds.
pub fn mean(clock: Clock, began: u64, operations: u64) -> f64 {
    clock.ns(ordered_count() - began) / operations as f64
}

#[derive(Default)]
pub struct Crowd {
    pub wakers: std::cell::RefCell<Vec<Waker>>,
    pub root: Cell<Option<Waker>>,
    pub polled: Cell<u64>,
    pub first: Cell<u64>,
    pub last: Cell<u64>,
    pub over: Cell<bool>,
}

impl Crowd {
    pub async fn member(self: Rc<Self>) {
        let mut known = false;
        poll_fn(|cx| {
            if self.over.get() {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut known, true) {
                self.wakers.borrow_mut().push(cx.waker().clone());
            }
            self.polled.set(self.polled.get() + 1);
            if self.polled.get() == 1 {
                self.first.set(ordered_count());
            } else if self.polled.get() == CROWD {
                self.last.set(ordered_count());
                self.root.take().into_iter().for_each(Waker::wake);
            }
            Poll::Pending
        })
        .await;
    }

    /// Returns the time per task from the first poll to the last. All tasks are woken before the
    /// first poll.
    pub async fn sweeps(self: Rc<Self>, clock: Clock) -> f64 {
        self.all_polled().await;
        let wakers = self.wakers.take();
        let mut counts = 0;
        let sweeps = OPS / (CROWD - 1);
        for _ in 0..sweeps {
            self.polled.set(0);
            wakers.iter().for_each(Waker::wake_by_ref);
            self.all_polled().await;
            counts += self.last.get() - self.first.get();
        }
        self.over.set(true);
        wakers.into_iter().for_each(Waker::wake);
        clock.ns(counts) / (sweeps * (CROWD - 1)) as f64
    }

    async fn all_polled(&self) {
        poll_fn(|cx| {
            if self.polled.get() == CROWD {
                return Poll::Ready(());
            }
            self.root.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

/// Returns a future that wakes itself at each of its polls.
fn wake_itself() -> impl Future<Output = ()> {
    let mut left = OPS;
    poll_fn(move |cx| {
        if left == 0 {
            return Poll::Ready(());
        }
        left -= 1;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
}

pub fn members() -> u64 {
    CROWD
}

macro_rules! side {
    ($name:ident, $runtime:ident, busy $busy:ident, parked $parked:ident, turns $turns:path, bridge $bridge:path, $listener:path, $timeout:path) => {
        pub mod $name {
            use super::*;
            use ::$runtime as rt;

            async fn dispatch(clock: Clock) -> f64 {
                let crowd = Rc::new(Crowd::default());
                let tasks: Vec<_> =
                    (0..members()).map(|_| rt::spawn_boxed(Rc::clone(&crowd).member())).collect();
                let cost = crowd.sweeps(clock).await;
                for task in tasks {
                    let _ = task.await;
                }
                cost
            }

            async fn self_wakes(clock: Clock) -> f64 {
                let began = ordered_count();
                let _ = rt::spawn_boxed(wake_itself()).await;
                mean(clock, began, OPS)
            }

            async fn bridged_self_wakes(clock: Clock) -> f64 {
                let began = ordered_count();
                let _ = rt::spawn_boxed($bridge(wake_itself())).await;
                mean(clock, began, OPS)
            }

            macro_rules! lives {
                ($spawn:path, $at_once:expr) => {
                    async |clock: Clock| {
                        let began = ordered_count();
                        let mut handles = Vec::with_capacity($at_once as usize);
                        for _ in 0..OPS / $at_once {
                            handles
                                .extend((0..$at_once).map(|i| $spawn(async move { black_box(i) })));
                            for handle in handles.drain(..) {
                                let _ = black_box(handle.await);
                            }
                        }
                        mean(clock, began, OPS / $at_once * $at_once)
                    }
                };
            }

            macro_rules! channel {
                ($channel:ident) => {
                    async |clock: Clock| {
                        #[allow(unused_mut)]
                        let (mut sender, mut receiver) =
                            rt::channel::$channel::channel::<u64>(CAPACITY);
                        let began = ordered_count();
                        for i in 0..OPS {
                            let _ = black_box(sender.try_send(black_box(i)));
                            let _ = black_box(receiver.try_recv());
                        }
                        mean(clock, began, OPS)
                    }
                };
            }

            macro_rules! stream {
                ($channel:ident) => {
                    async |clock: Clock| {
                        #[allow(unused_mut)]
                        let (mut sender, mut receiver) =
                            rt::channel::$channel::channel::<u64>(CAPACITY);
                        let thread = std::thread::spawn(move || {
                            for i in 0..OPS + 1 {
                                while sender.try_send(i).is_err() {
                                    std::hint::spin_loop();
                                }
                            }
                        });
                        // The first message comes once the thread has started.
                        let _ = receiver.recv().await;
                        let began = ordered_count();
                        for _ in 0..OPS {
                            let _ = black_box(receiver.recv().await);
                        }
                        let cost = mean(clock, began, OPS);
                        thread.join().expect("the sender does not panic");
                        cost
                    }
                };
            }

            fn wakes(runtime: &mut rt::Runtime, clock: Clock, parked: bool) -> f64 {
                let (events, gap) = if parked {
                    (50, Duration::from_micros(100))
                } else {
                    (1_000, Duration::from_micros(2))
                };
                let crossing = Arc::new(Crossing::default());
                let counts = std::thread::scope(|scope| {
                    scope.spawn(|| crossing.events(clock.counts(gap)));
                    let root = woken(Arc::clone(&crossing), events);
                    if parked { runtime.$parked(root) } else { runtime.$busy(root) }
                });
                median(counts.into_iter().map(|c| clock.ns(c)).collect())
            }

            fn idle(runtime: &mut rt::Runtime, clock: Clock, timer: bool) -> f64 {
                let crossing = Arc::new(Crossing::default());
                let before = $turns(runtime);
                let counts = std::thread::scope(|scope| {
                    scope.spawn(|| crossing.events(clock.counts(IDLE)));
                    let alone = left_alone(Arc::clone(&crossing));
                    runtime.$busy(async move {
                        // The socket is registered, as in a typical program.
                        let _watched = <$listener>::bind("127.0.0.1:0".parse().unwrap());
                        match timer {
                            true => $timeout(Duration::from_secs(3600), alone).await.ok(),
                            false => Some(alone.await),
                        }
                    })
                });
                clock.ns(counts.expect("an hour is enough")) / ($turns(runtime) - before) as f64
            }

            /// Measures each operation once, in the order of `OPERATIONS`. `asleep` is a second
            /// runtime for the parked operation, if a runtime parks only if it was built for it.
            pub fn round(
                runtime: &mut rt::Runtime,
                asleep: Option<&mut rt::Runtime>,
                clock: Clock,
            ) -> Vec<f64> {
                let mut round = runtime.$busy(async move {
                    vec![
                        dispatch(clock).await,
                        self_wakes(clock).await,
                        lives!(rt::spawn_boxed, LIVES)(clock).await,
                        lives!(rt::spawn_slab, LIVES)(clock).await,
                        lives!(rt::spawn_slab, 1)(clock).await,
                        channel!(local)(clock).await,
                        channel!(mpsc)(clock).await,
                        channel!(spsc)(clock).await,
                        stream!(mpsc)(clock).await,
                        stream!(spsc)(clock).await,
                        bridged_self_wakes(clock).await,
                    ]
                });
                round.push(wakes(runtime, clock, false));
                round.push(match asleep {
                    Some(asleep) => wakes(asleep, clock, true),
                    None => wakes(runtime, clock, true),
                });
                round.extend([idle(runtime, clock, false), idle(runtime, clock, true)]);
                round
            }
        }
    };
}

side!(ours, busypoll, busy block_on, parked block_on, turns busypoll::Runtime::turns, bridge crate::our_bridge, busypoll::io::TcpListener, busypoll::time::timeout);
side!(theirs, nexus_async_rt, busy block_on_busy, parked block_on, turns crate::their_turns, bridge crate::their_bridge, nexus_async_rt::TcpListener, nexus_async_rt::timeout);
