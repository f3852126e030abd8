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
/// Room for a whole stream, so that the queue is never full.
const AMPLE: usize = 8192;

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
    receiver_gone: AtomicBool,
    not_empty: CachePadded<Waiter>,
    not_full: CachePadded<Waiter>,
}

impl ArrayChannel {
    fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self {
            queue: ArrayQueue::new(capacity),
            senders: AtomicUsize::new(1),
            receiver_gone: AtomicBool::new(false),
            not_empty: CachePadded(Waiter::default()),
            not_full: CachePadded(Waiter::default()),
        })
    }

    fn try_send(&self, value: u64) -> bool {
        let sent = !self.receiver_gone.load(Ordering::Acquire) && self.queue.push(value).is_ok();
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

/// An `spsc` channel over the ring of `rtrb`.
struct RtrbSender {
    ring: rtrb::Producer<u64>,
    waiters: Arc<[CachePadded<Waiter>; 2]>,
}

struct RtrbReceiver {
    ring: rtrb::Consumer<u64>,
    waiters: Arc<[CachePadded<Waiter>; 2]>,
}

fn rtrb_channel(capacity: usize) -> (RtrbSender, RtrbReceiver) {
    let (producer, consumer) = rtrb::RingBuffer::new(capacity);
    let waiters = Arc::new([CachePadded(Waiter::default()), CachePadded(Waiter::default())]);
    (
        RtrbSender { ring: producer, waiters: Arc::clone(&waiters) },
        RtrbReceiver { ring: consumer, waiters },
    )
}

impl RtrbSender {
    fn try_send(&mut self, value: u64) -> bool {
        let sent = !self.ring.is_abandoned() && self.ring.push(value).is_ok();
        if sent {
            self.waiters[0].0.notify();
        }
        sent
    }
}

impl RtrbReceiver {
    fn try_recv(&mut self) -> Option<u64> {
        let value = self.ring.pop().ok();
        if value.is_some() {
            self.waiters[1].0.notify();
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
fn timed(operations: u64, run: impl FnOnce()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_nanos() as f64 / operations as f64
}

/// Pushes and pops batches on one thread, as a turn of the run loop would.
fn alternate(mut push: impl FnMut(u64), mut pop: impl FnMut() -> Option<u64>) -> f64 {
    const BATCH: u64 = 8;
    timed(OPERATIONS, || {
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
fn check(is_empty: impl Fn() -> bool) -> f64 {
    timed(OPERATIONS, || (0..OPERATIONS).for_each(|_| assert!(black_box(is_empty()))))
}

/// Receives every value from another thread, which waits only while the queue is full.
fn stream(mut push: impl FnMut(u64) -> bool + Send, mut pop: impl FnMut() -> Option<u64>) -> f64 {
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
        timed(STREAMED, || {
            for _ in 0..STREAMED {
                while pop().is_none() {
                    spin_loop();
                }
            }
        })
    })
}

struct Rounds(usize);

impl Rounds {
    fn row(
        &self,
        operation: &str,
        other: &str,
        mut ours: impl FnMut() -> f64,
        mut theirs: impl FnMut() -> f64,
    ) {
        let mut ns: [Vec<f64>; 2] = Default::default();
        for round in 0..self.0 {
            for turn in 0..2 {
                let side = (round + turn) % 2;
                ns[side].push(if side == 0 { ours() } else { theirs() });
            }
        }
        let [(ours, ours_least), (theirs, theirs_least)] = ns.map(|mut ns| {
            ns.sort_unstable_by(f64::total_cmp);
            (ns[ns.len() / 2], ns[0])
        });
        println!(
            "{operation:<36}{ours:>9.1}{theirs:>9.1}{:>7.2}{ours_least:>9.1}{theirs_least:>9.1}{:>7.2}  {other}",
            ours / theirs,
            ours_least / theirs_least
        );
    }
}

fn main() {
    // Without the argument of `cargo bench`, a single round only tests the program.
    let rounds = Rounds(if std::env::args().any(|word| word == "--bench") { 201 } else { 1 });
    println!(
        "{:<36}{:>9}{:>9}{:>7}{:>9}{:>9}{:>7}  other",
        "ns: median, then least of rounds", "ours", "other", "ratio", "ours", "other", "ratio"
    );

    let (ours, theirs) = (Inbox::new(), SegInbox::new());
    let seg = "crossbeam SegQueue";
    rounds.row(
        "inbox: push and pop",
        seg,
        || alternate(|n| assert!(!ours.push(n)), || ours.pop()),
        || alternate(|n| assert!(!theirs.push(n)), || theirs.queue.pop()),
    );
    rounds.row(
        "inbox: check whether it is empty",
        seg,
        || check(|| black_box(&ours).is_empty()),
        || check(|| black_box(&theirs).queue.is_empty()),
    );
    rounds.row(
        "inbox: from another thread",
        seg,
        || {
            let push = |n| {
                let _ = ours.push(n);
                true
            };
            stream(push, || ours.pop())
        },
        || {
            let push = |n| {
                let _ = theirs.push(n);
                true
            };
            stream(push, || theirs.queue.pop())
        },
    );

    let array = "crossbeam ArrayQueue";
    let ((sender, mut receiver), theirs) = (mpsc::channel(CAPACITY), ArrayChannel::new(CAPACITY));
    rounds.row(
        "mpsc: try_send and try_recv",
        array,
        || alternate(|n| sender.try_send(n).unwrap(), || receiver.try_recv().ok()),
        || alternate(|n| assert!(theirs.try_send(n)), || theirs.try_recv()),
    );
    for (operation, capacity) in
        [("mpsc: from another thread", AMPLE), ("mpsc: the same, at times full", CAPACITY)]
    {
        let ((sender, mut receiver), theirs) =
            (mpsc::channel(capacity), ArrayChannel::new(capacity));
        rounds.row(
            operation,
            array,
            || stream(|n| sender.try_send(n).is_ok(), || receiver.try_recv().ok()),
            || stream(|n| theirs.try_send(n), || theirs.try_recv()),
        );
    }
    let ((producer, mut consumer), theirs) =
        (channel::ring::ring(CAPACITY, ()), ArrayQueue::new(CAPACITY));
    rounds.row(
        "mpsc, its ring alone: push and pop",
        array,
        || alternate(|n| producer.push(n).unwrap(), || consumer.pop()),
        || alternate(|n| theirs.push(n).unwrap(), || theirs.pop()),
    );

    let rtrb = "rtrb";
    let (mut ours, mut theirs) = (spsc::channel(CAPACITY), rtrb_channel(CAPACITY));
    rounds.row(
        "spsc: try_send and try_recv",
        rtrb,
        || alternate(|n| ours.0.try_send(n).unwrap(), || ours.1.try_recv().ok()),
        || alternate(|n| assert!(theirs.0.try_send(n)), || theirs.1.try_recv()),
    );
    for (operation, capacity) in
        [("spsc: from another thread", AMPLE), ("spsc: the same, at times full", CAPACITY)]
    {
        let (mut ours, mut theirs) = (spsc::channel(capacity), rtrb_channel(capacity));
        rounds.row(
            operation,
            rtrb,
            || stream(|n| ours.0.try_send(n).is_ok(), || ours.1.try_recv().ok()),
            || stream(|n| theirs.0.try_send(n), || theirs.1.try_recv()),
        );
    }

    let ((sender, mut receiver), theirs) = (local::channel(CAPACITY), DequeChannel::new());
    rounds.row(
        "local: try_send and try_recv",
        "std VecDeque",
        || alternate(|n| sender.try_send(n).unwrap(), || receiver.try_recv().ok()),
        || alternate(|n| theirs.try_send(n).unwrap(), || theirs.try_recv().ok()),
    );
}
