//! The workloads: a warm-up batch, then batches of messages, each through a guarded wait.
#![allow(
    clippy::disallowed_methods,
    reason = "how late a timeout fires is read from the OS clock, as its deadline is"
)]

use std::fmt;
use std::future::{Future, pending, poll_fn, ready};
use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;

use super::guard::{Guard, Visitor};
use super::guards;
use super::tally::Tally;
use super::variant::{Clock, Variant};

/// What the messages are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// Two tasks and a bounded channel between them, on as many workers as there are CPUs.
    ChannelMultiThread,
    /// The same on one thread.
    ChannelCurrentThread,
    /// Nothing but what a message makes a guard do; nothing is polled.
    Rearm,
    /// Every message is there at the first poll.
    Ready,
    /// No message is there at the first poll; every one is at the second.
    Pending,
    /// The same, with a message future of 16 KiB that is moved into the wait.
    Moved,
    /// So many timeouts at once, each armed and polled in turn.
    Timers(usize),
    /// So many timeouts at once, each past its length whenever the next message comes.
    Expired(usize),
    /// One in so many messages never comes; 0 for none.
    Fire(u64),
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ChannelMultiThread => f.write_str("channel-multi-thread"),
            Self::ChannelCurrentThread => f.write_str("channel-current-thread"),
            Self::Rearm => f.write_str("rearm"),
            Self::Ready => f.write_str("ready"),
            Self::Pending => f.write_str("pending"),
            Self::Moved => f.write_str("moved"),
            Self::Timers(n) => write!(f, "timers:{n}"),
            Self::Expired(n) => write!(f, "expired:{n}"),
            Self::Fire(0) => f.write_str("fire:0%"),
            Self::Fire(every) => write!(f, "fire:{}%", 100.0 / *every as f64),
        }
    }
}

impl Workload {
    /// Worker threads of its runtime; `None` for that of one thread.
    pub fn workers(self) -> Option<usize> {
        const MAX_WORKERS: usize = 1024;
        let cpus = || std::thread::available_parallelism().map_or(2, |n| n.get().min(MAX_WORKERS));
        (self == Self::ChannelMultiThread).then(cpus)
    }
}

/// Within this after its length the last timer has expired.
const AFTER_EXPIRY: Duration = Duration::from_millis(2);

/// A variant in a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub workload: Workload,
    /// Of the timeout.
    pub length: Duration,
    /// Of the channel.
    pub capacity: usize,
    pub variant: Variant,
    pub clock: Clock,
}

/// Who looks on while messages go by.
pub trait Meter: Send + 'static {
    /// Batches that count, after one that warms up.
    fn batches(&self) -> u64;
    /// Messages of each batch.
    fn messages(&self) -> u64;
    /// A batch is over, in which so many messages came; the time `apart` went by while none did.
    fn record_batch(&mut self, came: u64, apart: Duration);
    /// A timeout fired; so late, where it was meant to.
    fn record_timeout(&mut self, late_ns: Option<i64>);
}

impl Job {
    pub fn run<T: Tally, R: Meter>(self, meter: R) -> io::Result<R> {
        guards::visit_guard::<T, _>(self.variant, self.clock, Run { job: self, meter })
            .expect("only what is possible is asked for")
    }
}

struct Run<R> {
    job: Job,
    meter: R,
}

impl<R: Meter> Visitor for Run<R> {
    type Output = io::Result<R>;

    fn visit<G: Guard>(self) -> Self::Output {
        let Self { job: Job { workload, length, capacity, .. }, meter } = self;
        // Behind a pointer: a runtime's machinery would be compiled for each of a hundred types.
        let work: Work<R> = match workload {
            Workload::ChannelMultiThread | Workload::ChannelCurrentThread => {
                Box::pin(channel::<G, _>(length, capacity, meter))
            }
            Workload::Rearm => Box::pin(rearm::<G, _>(length, meter)),
            Workload::Ready => Box::pin(messages::<G, _, _, _>(length, meter, || ready(()))),
            Workload::Pending => {
                Box::pin(messages::<G, _, _, _>(length, meter, AtSecondPoll::default))
            }
            Workload::Moved => Box::pin(messages::<G, _, _, _>(length, meter, Big::default)),
            Workload::Timers(n) => Box::pin(timers::<G, _>(length, n, false, meter)),
            Workload::Expired(n) => Box::pin(timers::<G, _>(length, n, true, meter)),
            Workload::Fire(every) => Box::pin(firing::<G, _>(length, every, meter)),
        };
        spawned(work, workload.workers())
    }
}

type Work<R> = Pin<Box<dyn Future<Output = R> + Send>>;

/// In a task, as a program would: only tasks have a cooperative budget.
fn spawned<R: Send + 'static>(work: Work<R>, workers: Option<usize>) -> io::Result<R> {
    let runtime = match workers {
        None => tokio::runtime::Builder::new_current_thread().enable_time().build()?,
        Some(workers) => tokio::runtime::Builder::new_multi_thread()
            .worker_threads(workers)
            .enable_time()
            .build()?,
    };
    Ok(runtime.block_on(async { tokio::spawn(work).await.expect("the loop does not panic") }))
}

async fn send(sender: mpsc::Sender<u64>, total: u64) {
    for i in 0..total {
        if sender.send(i).await.is_err() {
            break;
        }
    }
}

async fn channel<G: Guard, R: Meter>(length: Duration, capacity: usize, mut meter: R) -> R {
    let (sender, mut receiver) = mpsc::channel::<u64>(capacity);
    let total = (meter.batches() + 1) * meter.messages();
    let sending = tokio::spawn(send(sender, total));
    let mut guard = pin!(G::new(length));
    let mut sum = 0_u64;
    for _ in 0..=meter.batches() {
        for _ in 0..meter.messages() {
            sum = sum.wrapping_add(loop {
                match guard.as_mut().wait(receiver.recv()).await {
                    Some(message) => {
                        break message.expect("the sender sends as many as are awaited");
                    }
                    None => meter.record_timeout(None),
                }
            });
        }
        meter.record_batch(meter.messages(), Duration::ZERO);
    }
    let expected = u128::from(total) * u128::from(total - 1) / 2;
    assert_eq!(u128::from(sum), expected, "every message came once");
    sending.await.expect("the sender does not panic");
    meter
}

async fn rearm<G: Guard, R: Meter>(length: Duration, mut meter: R) -> R {
    let mut guard = pin!(G::new(length));
    guard.as_mut().arm();
    poll_fn(|cx| Poll::Ready(black_box(guard.as_mut().poll_armed(cx).is_ready()))).await;
    for _ in 0..=meter.batches() {
        for _ in 0..meter.messages() {
            black_box(guard.as_mut()).arm();
        }
        meter.record_batch(meter.messages(), Duration::ZERO);
    }
    meter
}

async fn messages<G, F, M, R>(length: Duration, mut meter: R, mut message: F) -> R
where
    G: Guard,
    F: FnMut() -> M + Send,
    M: Future<Output = ()> + Send,
    R: Meter,
{
    let mut guard = pin!(G::new(length));
    for _ in 0..=meter.batches() {
        for _ in 0..meter.messages() {
            if guard.as_mut().wait(message()).await.is_none() {
                meter.record_timeout(None);
            }
        }
        meter.record_batch(meter.messages(), Duration::ZERO);
    }
    meter
}

async fn timers<G: Guard, R: Meter>(length: Duration, n: usize, expire: bool, mut meter: R) -> R {
    let mut guards: Vec<Pin<Box<G>>> = (0..n).map(|_| Box::pin(G::new(length))).collect();
    // Unconstrained: a spent budget would keep timers from being registered, and the loop does not
    // wait for anything.
    let mut turn = 0;
    unconstrained(poll_fn(|cx| {
        for guard in &mut guards {
            guard.as_mut().arm();
            let _ = guard.as_mut().poll_armed(cx);
        }
        Poll::Ready(())
    }))
    .await;
    for _ in 0..=meter.batches() {
        let (mut left, mut fired, mut apart) = (meter.messages(), 0, Duration::ZERO);
        while left > 0 {
            if expire && turn == 0 {
                let start = Instant::now();
                tokio::time::sleep(length + AFTER_EXPIRY).await;
                apart += start.elapsed();
            }
            // Up to the last guard, after which all of them expire again.
            let messages = if expire { left.min((n - turn) as u64) } else { left };
            left -= messages;
            fired += unconstrained(poll_fn(|cx| {
                let mut fired = 0;
                for _ in 0..messages {
                    let guard = &mut guards[turn];
                    guard.as_mut().arm();
                    fired += u64::from(guard.as_mut().poll_armed(cx).is_ready());
                    turn = if turn + 1 == n { 0 } else { turn + 1 };
                }
                Poll::Ready(fired)
            }))
            .await;
        }
        (0..fired).for_each(|_| meter.record_timeout(None));
        meter.record_batch(meter.messages(), apart);
    }
    meter
}

async fn firing<G: Guard, R: Meter>(length: Duration, every: u64, mut meter: R) -> R {
    let mut guard = pin!(G::new(length));
    let mut to_come = every;
    for _ in 0..=meter.batches() {
        let (mut came, mut apart) = (0, Duration::ZERO);
        for _ in 0..meter.messages() {
            to_come = to_come.saturating_sub(1);
            if every == 0 || to_come > 0 {
                came += 1;
                if guard.as_mut().wait(AtSecondPoll::default()).await.is_none() {
                    meter.record_timeout(None);
                }
                continue;
            }
            to_come = every;
            if G::FIRES {
                let start = Instant::now();
                guard.as_mut().begin();
                guard.as_mut().wait(pending::<()>()).await;
                let took = start.elapsed();
                apart += took;
                meter.record_timeout(Some(took.as_nanos() as i64 - length.as_nanos() as i64));
            }
        }
        meter.record_batch(came, apart);
    }
    meter
}

/// Not there at the first poll; there at the second, which it asks for at once.
#[derive(Debug, Default)]
struct AtSecondPoll {
    polled: bool,
}

impl Future for AtSecondPoll {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

const BIG: usize = 16 * 1024;

/// The same, and large: what a handler with its buffers inside is.
struct Big {
    message: AtSecondPoll,
    bytes: [u8; BIG],
}

impl Default for Big {
    fn default() -> Self {
        Self { message: AtSecondPoll::default(), bytes: [black_box(1); BIG] }
    }
}

impl Future for Big {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        black_box(&self.bytes);
        Pin::new(&mut self.message).poll(cx)
    }
}
