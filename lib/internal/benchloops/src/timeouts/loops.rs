//! The workloads: a warm-up batch, then batches of messages that are each awaited with a timeout.
#![allow(
    clippy::disallowed_methods,
    reason = "the lateness of a timeout is read from the OS clock, like its deadline"
)]

use std::fmt;
use std::future::{Future, pending, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;

use super::guard::{Guard, Visitor};
use super::guards;
use super::tally::Tally;
use super::variant::{Clock, Variant};

/// Source of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Workload {
    /// Two tasks with a bounded channel, on as many workers as there are CPUs.
    ChannelMultiThread,
    /// Two tasks with a bounded channel, on one thread.
    ChannelCurrentThread,
    /// Only the work that a guard does for a message; nothing is polled.
    Rearm,
    /// Every message is ready at the first poll.
    Ready,
    /// Every message is ready at the second poll.
    Pending,
    /// Like `Pending`, with a message future of 16 KiB that is moved into the wait.
    Moved,
    /// Several timeouts at once, armed and polled in turn.
    Timers(usize),
    /// Several timeouts at once, each of which has expired when its next message arrives.
    Expired(usize),
    /// One message in this many never arrives; 0 for none.
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
    /// Worker threads of the runtime; `None` for a runtime of one thread.
    pub fn workers(self) -> Option<usize> {
        const MAX_WORKERS: usize = 1024;
        let cpus = || std::thread::available_parallelism().map_or(2, |n| n.get().min(MAX_WORKERS));
        (self == Self::ChannelMultiThread).then(cpus)
    }
}

/// Time after its deadline within which the last timer has expired.
const EXPIRY_MARGIN: Duration = Duration::from_millis(2);

/// A variant under a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub workload: Workload,
    /// Length of the timeout.
    pub length: Duration,
    /// Capacity of the channel.
    pub capacity: usize,
    pub variant: Variant,
    pub clock: Clock,
}

/// Observer of the messages.
pub trait Meter: Send + 'static {
    /// Returns the number of measured batches. One more batch runs first to warm up.
    fn batches(&self) -> u64;
    /// Returns the messages per batch.
    fn messages(&self) -> u64;
    /// Records the end of a batch of `messages`, without the time `excluded` in which none arrived.
    fn record_batch(&mut self, messages: u64, excluded: Duration);
    /// Records a timeout, with its lateness if it was meant to fire.
    fn record_timeout(&mut self, late_ns: Option<i64>);
}

impl Job {
    /// Runs the job on a runtime with the [workers](Workload::workers) of its workload.
    pub fn run<T: Tally, R: Meter>(self, runtime: &Runtime, meter: R) -> R {
        let visitor = JobVisitor { job: self, runtime, meter };
        guards::visit_guard::<T, _>(self.variant, self.clock, visitor)
            .expect("the variant can use the clock")
    }
}

struct JobVisitor<'a, R> {
    job: Job,
    runtime: &'a Runtime,
    meter: R,
}

impl<R: Meter> Visitor for JobVisitor<'_, R> {
    type Output = R;

    fn visit<G: Guard>(self) -> Self::Output {
        let Self { job: Job { workload, length, capacity, .. }, runtime, meter } = self;
        match workload {
            Workload::ChannelMultiThread | Workload::ChannelCurrentThread => {
                run_in_task(runtime, channel::<G, _>(length, capacity, meter))
            }
            Workload::Rearm => run_in_task(runtime, rearm::<G, _>(length, meter)),
            Workload::Ready => {
                run_in_task(runtime, messages::<G, _, _, _>(length, meter, || ready(())))
            }
            Workload::Pending => {
                let message = ReadyAtSecondPoll::default;
                run_in_task(runtime, messages::<G, _, _, _>(length, meter, message))
            }
            Workload::Moved => {
                let message = LargeMessage::default;
                run_in_task(runtime, messages::<G, _, _, _>(length, meter, message))
            }
            Workload::Timers(n) => run_in_task(runtime, timers::<G, _>(length, n, false, meter)),
            Workload::Expired(n) => run_in_task(runtime, timers::<G, _>(length, n, true, meter)),
            Workload::Fire(every) => run_in_task(runtime, firing::<G, _>(length, every, meter)),
        }
    }
}

/// Runs the work in a task, like a program: only tasks have a cooperative budget.
fn run_in_task<R: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = R> + Send + 'static,
) -> R {
    runtime.block_on(async { tokio::spawn(work).await.expect("the loop does not panic") })
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
                        break message.expect("the sender sends every awaited message");
                    }
                    None => meter.record_timeout(None),
                }
            });
        }
        meter.record_batch(meter.messages(), Duration::ZERO);
    }
    let expected = u128::from(total) * u128::from(total - 1) / 2;
    assert_eq!(u128::from(sum), expected, "every message arrived once");
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
    // Unconstrained, since a spent budget would keep timers from being registered.
    let mut turn = 0;
    unconstrained(poll_fn(|cx| arm_and_poll_all(&mut guards, cx))).await;
    for _ in 0..=meter.batches() {
        let (mut remaining, mut fired, mut excluded) = (meter.messages(), 0, Duration::ZERO);
        while remaining > 0 {
            if expire && turn == 0 {
                let start = Instant::now();
                tokio::time::sleep(length + EXPIRY_MARGIN).await;
                excluded += start.elapsed();
            }
            // A pass over the guards ends at the last one, since all of them expire again after it.
            let messages = if expire { remaining.min((n - turn) as u64) } else { remaining };
            remaining -= messages;
            let polls = poll_fn(|cx| arm_and_poll(&mut guards, &mut turn, messages, cx));
            fired += unconstrained(polls).await;
        }
        for _ in 0..fired {
            meter.record_timeout(None);
        }
        meter.record_batch(meter.messages(), excluded);
    }
    meter
}

fn arm_and_poll_all<G: Guard>(guards: &mut [Pin<Box<G>>], cx: &mut Context<'_>) -> Poll<()> {
    for guard in guards {
        guard.as_mut().arm();
        let _ = guard.as_mut().poll_armed(cx);
    }
    Poll::Ready(())
}

/// Arms and polls guards for a number of messages, from guard `turn` on. Returns how many fired.
#[inline]
fn arm_and_poll<G: Guard>(
    guards: &mut [Pin<Box<G>>],
    turn: &mut usize,
    messages: u64,
    cx: &mut Context<'_>,
) -> Poll<u64> {
    let mut fired = 0;
    for _ in 0..messages {
        let guard = &mut guards[*turn];
        guard.as_mut().arm();
        fired += u64::from(guard.as_mut().poll_armed(cx).is_ready());
        *turn = if *turn + 1 == guards.len() { 0 } else { *turn + 1 };
    }
    Poll::Ready(fired)
}

async fn firing<G: Guard, R: Meter>(length: Duration, every: u64, mut meter: R) -> R {
    let mut guard = pin!(G::new(length));
    let mut until_missing = every;
    for _ in 0..=meter.batches() {
        let (mut received, mut excluded) = (0, Duration::ZERO);
        for _ in 0..meter.messages() {
            until_missing = until_missing.saturating_sub(1);
            if every == 0 || until_missing > 0 {
                received += 1;
                if guard.as_mut().wait(ReadyAtSecondPoll::default()).await.is_none() {
                    meter.record_timeout(None);
                }
                continue;
            }
            until_missing = every;
            if G::FIRES {
                let start = Instant::now();
                guard.as_mut().begin();
                guard.as_mut().wait(pending::<()>()).await;
                let took = start.elapsed();
                excluded += took;
                meter.record_timeout(Some(took.as_nanos() as i64 - length.as_nanos() as i64));
            }
        }
        meter.record_batch(received, excluded);
    }
    meter
}

/// A message that is ready at the second poll, for which it wakes the task immediately.
#[derive(Debug, Default)]
struct ReadyAtSecondPoll {
    polled: bool,
}

impl Future for ReadyAtSecondPoll {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

const LARGE_MESSAGE_BYTES: usize = 16 * 1024;

/// A large message future, like a handler that contains its buffers.
struct LargeMessage {
    message: ReadyAtSecondPoll,
    bytes: [u8; LARGE_MESSAGE_BYTES],
}

impl Default for LargeMessage {
    fn default() -> Self {
        Self { message: ReadyAtSecondPoll::default(), bytes: [black_box(1); LARGE_MESSAGE_BYTES] }
    }
}

impl Future for LargeMessage {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        black_box(&self.bytes);
        Pin::new(&mut self.message).poll(cx)
    }
}
