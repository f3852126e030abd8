//! Compares the queues of this crate with the established queues that could replace them. Run it
//! with `cargo bench -p busypoll --bench queues`.
//!
//! Both sides of a row run in every round, in alternating order, so that a disturbance affects
//! both. A ratio below 1 means that the queue of this crate is faster. On a machine that is not
//! quiet, use the minimum and not the median.
#![allow(clippy::print_stdout, reason = "a measuring program prints")]
#![allow(clippy::disallowed_methods, reason = "a measuring program reads the clock")]

// The queues are private, so this program compiles their sources as well.
#[allow(dead_code, unused_imports, unreachable_pub, reason = "not all of it is measured")]
#[path = "../src/cache_padded.rs"]
mod cache_padded;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "not all of it is measured")]
#[path = "../src/channel"]
mod channel {
    pub(crate) mod error;
    pub(crate) mod ring;
    pub(crate) mod waiters;
}
#[allow(dead_code, unused_imports, unreachable_pub, reason = "not all of it is measured")]
#[path = "../src/inbox.rs"]
mod inbox;
#[allow(dead_code, unused_imports, unreachable_pub, reason = "not all of it is measured")]
#[path = "../src/sync.rs"]
mod sync;
#[allow(dead_code, reason = "not all of it is measured")]
#[path = "../src/waker_set.rs"]
mod waker_set;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::hint::{black_box, spin_loop};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

use busypoll::channel::{local, mpsc, spsc};
use crossbeam_queue::{ArrayQueue, SegQueue};

use cache_padded::CachePadded;
use channel::waiters::Waiter;
use inbox::Inbox;

const OPERATIONS: u64 = 20_000;
const STREAMED: u64 = 5_000;
const CAPACITY: usize = 256;
/// Large enough for a whole stream, so that the queue is never full.
const STREAM_CAPACITY: usize = 8192;

/// An inbox over crossbeam's unbounded queue, with the same protocol for parking.
struct SegInbox {
    queue: SegQueue<u64>,
    parked: CachePadded<AtomicBool>,
}

impl SegInbox {
    fn new() -> Self {
        Self { queue: SegQueue::new(), parked: CachePadded(AtomicBool::new(false)) }
    }

    fn push(&self, number: u64) -> bool {
        self.queue.push(number);
        self.parked.0.swap(false, Ordering::AcqRel)
    }
}

/// An `mpsc` channel over crossbeam's bounded queue. Its notification does not depend on the
/// queue's memory order.
struct ArrayChannel {
    queue: ArrayQueue<u64>,
    senders: AtomicUsize,
    receiver_dropped: AtomicBool,
    not_empty: CachePadded<Waiter>,
    not_full: CachePadded<Waiter>,
}

impl ArrayChannel {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: ArrayQueue::new(capacity),
            senders: AtomicUsize::new(1),
            receiver_dropped: AtomicBool::new(false),
            not_empty: CachePadded(Waiter::default()),
            not_full: CachePadded(Waiter::default()),
        })
    }

    fn try_send(&self, value: u64) -> bool {
        let sent = !self.receiver_dropped.load(Ordering::Acquire) && self.queue.push(value).is_ok();
        if sent {
            self.not_empty.0.notify();
        }
        sent
    }

    fn try_recv(&self) -> Option<u64> {
        let value = self.queue.pop();
        if value.is_some() {
            self.not_full.0.notify();
        } else if self.senders.load(Ordering::Acquire) == 0 {
            return self.queue.pop();
        }
        value
    }
}

/// The waiters of an `spsc` channel over the ring of `rtrb`.
struct RtrbWaiters {
    not_empty: CachePadded<Waiter>,
    not_full: CachePadded<Waiter>,
}

/// The sender of an `spsc` channel over the ring of `rtrb`.
struct RtrbSender {
    ring: rtrb::Producer<u64>,
    waiters: Arc<RtrbWaiters>,
}

struct RtrbReceiver {
    ring: rtrb::Consumer<u64>,
    waiters: Arc<RtrbWaiters>,
}

fn rtrb_channel(capacity: usize) -> (RtrbSender, RtrbReceiver) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let waiters = Arc::new(RtrbWaiters {
        not_empty: CachePadded(Waiter::default()),
        not_full: CachePadded(Waiter::default()),
    });
    (
        RtrbSender { ring: producer, waiters: Arc::clone(&waiters) },
        RtrbReceiver { ring: consumer, waiters },
    )
}

impl RtrbSender {
    fn try_send(&mut self, value: u64) -> bool {
        let sent = !self.ring.is_abandoned() && self.ring.push(value).is_ok();
        if sent {
            self.waiters.not_empty.0.notify();
        }
        sent
    }
}

impl RtrbReceiver {
    fn try_recv(&mut self) -> Option<u64> {
        let value = self.ring.pop().ok();
        if value.is_some() {
            self.waiters.not_full.0.notify();
        } else if self.ring.is_abandoned() {
            std::sync::atomic::fence(Ordering::Acquire);
            return self.ring.pop().ok();
        }
        value
    }
}

/// A `local` channel over the standard library's queue.
struct DequeChannel {
    queue: RefCell<VecDeque<u64>>,
    limit: Cell<usize>,
    senders: Cell<usize>,
    receiver_waits: Cell<bool>,
    senders_wait: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
}

impl DequeChannel {
    fn new() -> Rc<Self> {
        Rc::new(Self {
            queue: RefCell::new(VecDeque::with_capacity(CAPACITY)),
            limit: Cell::new(CAPACITY),
            senders: Cell::new(1),
            receiver_waits: Cell::new(false),
            senders_wait: Cell::new(false),
            wakers: RefCell::default(),
        })
    }

    #[cold]
    fn wake(&self) {
        let wakers = std::mem::take(&mut *self.wakers.borrow_mut());
        wakers.into_iter().for_each(Waker::wake);
    }

    fn try_send(&self, value: u64) -> Result<(), u64> {
        let mut queue = self.queue.borrow_mut();
        if queue.len() >= self.limit.get() {
            return Err(value);
        }
        queue.push_back(value);
        drop(queue);
        if self.receiver_waits.get() {
            self.wake();
        }
        Ok(())
    }

    fn try_recv(&self) -> Result<u64, bool> {
        let value = self.queue.borrow_mut().pop_front();
        let Some(value) = value else { return Err(self.senders.get() == 0) };
        if self.senders_wait.get() {
            self.wake();
        }
        Ok(value)
    }
}

/// Returns the nanoseconds per operation.
fn measure(operations: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// Pushes and pops batches on one thread, as a turn of the run loop would.
fn measure_batches(mut push: impl FnMut(u64), mut pop: impl FnMut() -> Option<u64>) -> f64 {
    const BATCH: u64 = 8;
    measure(OPERATIONS, || {
        for batch in 0..OPERATIONS / BATCH {
            for i in 0..BATCH {
                push(black_box(batch + i));
            }
            for _ in 0..BATCH {
                assert!(black_box(pop()).is_some());
            }
        }
    })
}

/// Checks whether an empty queue is empty.
fn measure_check(is_empty: impl Fn() -> bool) -> f64 {
    measure(OPERATIONS, || (0..OPERATIONS).for_each(|_| assert!(black_box(is_empty()))))
}

/// Receives every value from another thread, which waits only while the queue is full.
fn measure_stream(
    mut push: impl FnMut(u64) -> bool + Send,
    mut pop: impl FnMut() -> Option<u64>,
) -> f64 {
    let (ready, go) = (AtomicBool::new(false), AtomicBool::new(false));
    let wait_for = |flag: &AtomicBool| {
        while !flag.load(Ordering::Acquire) {
            spin_loop();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            ready.store(true, Ordering::Release);
            wait_for(&go);
            for value in 0..STREAMED {
                while !push(value) {
                    spin_loop();
                }
            }
        });
        wait_for(&ready);
        go.store(true, Ordering::Release);
        measure(STREAMED, || {
            for _ in 0..STREAMED {
                while pop().is_none() {
                    spin_loop();
                }
            }
        })
    })
}

/// The measurements of one side of a row, in nanoseconds.
#[derive(Default)]
struct Samples(Vec<f64>);

impl Samples {
    fn sort(&mut self) {
        self.0.sort_unstable_by(f64::total_cmp);
    }

    /// Returns the median of sorted samples.
    fn median(&self) -> f64 {
        self.0[self.0.len() / 2]
    }

    /// Returns the minimum of sorted samples.
    fn min(&self) -> f64 {
        self.0[0]
    }
}

struct Rounds(usize);

impl Rounds {
    /// Measures and prints one row: a queue of this crate and an established queue.
    fn print_row(
        &self,
        operation: &str,
        other_name: &str,
        mut measure_busypoll: impl FnMut() -> f64,
        mut measure_other: impl FnMut() -> f64,
    ) {
        let (mut busypoll, mut other) = (Samples::default(), Samples::default());
        for round in 0..self.0 {
            if round % 2 == 0 {
                busypoll.0.push(measure_busypoll());
                other.0.push(measure_other());
            } else {
                other.0.push(measure_other());
                busypoll.0.push(measure_busypoll());
            }
        }
        busypoll.sort();
        other.sort();
        println!(
            "{operation:<36}{:>9.1}{:>9.1}{:>7.2}{:>9.1}{:>9.1}{:>7.2}  {other_name}",
            busypoll.median(),
            other.median(),
            busypoll.median() / other.median(),
            busypoll.min(),
            other.min(),
            busypoll.min() / other.min()
        );
    }
}

fn measure_inbox(rounds: &Rounds) {
    const OTHER: &str = "crossbeam SegQueue";
    let (inbox, other) = (Inbox::new(), SegInbox::new());
    rounds.print_row(
        "inbox: push and pop",
        OTHER,
        || measure_batches(|n| assert!(!inbox.push(n)), || inbox.pop()),
        || measure_batches(|n| assert!(!other.push(n)), || other.queue.pop()),
    );
    rounds.print_row(
        "inbox: check whether it is empty",
        OTHER,
        || measure_check(|| black_box(&inbox).is_empty()),
        || measure_check(|| black_box(&other).queue.is_empty()),
    );
    let push_inbox = |n| {
        let _ = inbox.push(n);
        true
    };
    let push_other = |n| {
        let _ = other.push(n);
        true
    };
    rounds.print_row(
        "inbox: from another thread",
        OTHER,
        || measure_stream(push_inbox, || inbox.pop()),
        || measure_stream(push_other, || other.queue.pop()),
    );
}

fn measure_mpsc(rounds: &Rounds) {
    const OTHER: &str = "crossbeam ArrayQueue";
    let (sender, mut receiver) = mpsc::channel(CAPACITY);
    let other = ArrayChannel::new(CAPACITY);
    rounds.print_row(
        "mpsc: try_send and try_recv",
        OTHER,
        || measure_batches(|n| sender.try_send(n).unwrap(), || receiver.try_recv().ok()),
        || measure_batches(|n| assert!(other.try_send(n)), || other.try_recv()),
    );
    for (operation, capacity) in [
        ("mpsc: from another thread", STREAM_CAPACITY),
        ("mpsc: the same, at times full", CAPACITY),
    ] {
        let (sender, mut receiver) = mpsc::channel(capacity);
        let other = ArrayChannel::new(capacity);
        rounds.print_row(
            operation,
            OTHER,
            || measure_stream(|n| sender.try_send(n).is_ok(), || receiver.try_recv().ok()),
            || measure_stream(|n| other.try_send(n), || other.try_recv()),
        );
    }
    let (producer, mut consumer) = channel::ring::ring(CAPACITY, ());
    let other = ArrayQueue::new(CAPACITY);
    rounds.print_row(
        "mpsc, its ring alone: push and pop",
        OTHER,
        || measure_batches(|n| producer.push(n).unwrap(), || consumer.pop()),
        || measure_batches(|n| other.push(n).unwrap(), || other.pop()),
    );
}

fn measure_spsc(rounds: &Rounds) {
    const OTHER: &str = "rtrb";
    let (mut sender, mut receiver) = spsc::channel(CAPACITY);
    let (mut other_sender, mut other_receiver) = rtrb_channel(CAPACITY);
    rounds.print_row(
        "spsc: try_send and try_recv",
        OTHER,
        || measure_batches(|n| sender.try_send(n).unwrap(), || receiver.try_recv().ok()),
        || measure_batches(|n| assert!(other_sender.try_send(n)), || other_receiver.try_recv()),
    );
    for (operation, capacity) in [
        ("spsc: from another thread", STREAM_CAPACITY),
        ("spsc: the same, at times full", CAPACITY),
    ] {
        let (mut sender, mut receiver) = spsc::channel(capacity);
        let (mut other_sender, mut other_receiver) = rtrb_channel(capacity);
        rounds.print_row(
            operation,
            OTHER,
            || measure_stream(|n| sender.try_send(n).is_ok(), || receiver.try_recv().ok()),
            || measure_stream(|n| other_sender.try_send(n), || other_receiver.try_recv()),
        );
    }
}

fn measure_local(rounds: &Rounds) {
    let (sender, mut receiver) = local::channel(CAPACITY);
    let other = DequeChannel::new();
    rounds.print_row(
        "local: try_send and try_recv",
        "std VecDeque",
        || measure_batches(|n| sender.try_send(n).unwrap(), || receiver.try_recv().ok()),
        || measure_batches(|n| other.try_send(n).unwrap(), || other.try_recv().ok()),
    );
}

fn main() {
    // Without the argument of `cargo bench`, a single round only tests the program.
    let is_bench = std::env::args().any(|argument| argument == "--bench");
    let rounds = Rounds(if is_bench { 201 } else { 1 });
    println!(
        "{:<36}{:>9}{:>9}{:>7}{:>9}{:>9}{:>7}  other",
        "ns: median, then minimum of rounds",
        "busypoll",
        "other",
        "ratio",
        "busypoll",
        "other",
        "ratio"
    );
    measure_inbox(&rounds);
    measure_mpsc(&rounds);
    measure_spsc(&rounds);
    measure_local(&rounds);
}
