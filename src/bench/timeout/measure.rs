//! The loops of `osjitter bench timeout`: a warm-up batch, then batches with one clock reading after each.
#![allow(
    clippy::disallowed_methods,
    reason = "batches are timed with the OS clock: one reading for thousands of messages"
)]

use std::future::{Future, pending, poll_fn, ready};
use std::hint::black_box;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use tokio::sync::mpsc;
use tokio::task::coop::unconstrained;

use crate::bench::timeout::counter_reads::Counter;
use crate::bench::timeout::plan::{BATCHES, Cell, Combination, Plan, Workload};
use crate::bench::timeout::subject::{Counting, NoTally, Variant, Visitor};
use crate::bench::timeout::{allocations, subject};
use crate::scenario::Runtime;

/// Messages of a run: a warm-up batch, and then batches that are timed.
#[derive(Clone, Copy, Debug)]
struct Load {
    messages: u64,
    batches: u64,
}

/// One variant in one round.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Cost of a message of each batch; empty where every message was one that never comes.
    pub ns_per_message: Vec<f64>,
    /// Timeouts that fired.
    pub fired: u64,
    /// Of those that were meant to: from when they were due until the task ran.
    pub lateness_ns: Vec<i64>,
}

/// What was counted while some messages went by.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    pub messages: u64,
    /// `None` where the counter cannot be made to trap.
    pub counter_reads: Option<u64>,
    pub made: u64,
    pub registered: u64,
    pub allocations: u64,
    pub bytes_kept: i64,
}

/// Who gets what was measured.
pub trait Observer {
    /// Before a variant runs.
    fn before(&mut self, cell: &Cell, combination: &Combination, round: u64);
    /// After a round.
    fn round(&mut self, cell: usize, combination: usize, round: Round);
    /// After the counted run.
    fn counted(&mut self, cell: usize, combination: usize, counted: Counted);
}

/// Runs the plan until `stop`.
pub fn run(plan: &Plan, stop: &AtomicBool, observer: &mut impl Observer) -> io::Result<()> {
    let mut random = SmallRng::seed_from_u64(plan.seed);
    let mut loads = Vec::new();
    for (c, cell) in plan.cells.iter().enumerate() {
        for (v, combination) in plan.combinations.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            observer.before(cell, combination, 0);
            loads.push(calibrate(plan, cell, combination)?);
            observer.counted(c, v, count(plan, cell, combination)?);
        }
    }
    for round in 0..plan.rounds {
        let mut cells: Vec<usize> = (0..plan.cells.len()).collect();
        cells.shuffle(&mut random);
        for c in cells {
            let mut order: Vec<usize> = (0..plan.combinations.len()).collect();
            order.shuffle(&mut random);
            // A round is kept whole or not at all: overhead is the difference within it.
            let mut results = Vec::new();
            for v in order {
                if stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                observer.before(&plan.cells[c], &plan.combinations[v], round);
                let load = loads[c * plan.combinations.len() + v];
                results.push((v, measure(plan, &plan.cells[c], &plan.combinations[v], load)?));
            }
            for (v, result) in results {
                observer.round(c, v, result);
            }
        }
    }
    Ok(())
}

/// Most messages of a batch: what costs less than this allows is known well enough.
const MAX_BATCH: u64 = 10_000_000;

/// How many messages fill a batch's share of the round.
fn calibrate(plan: &Plan, cell: &Cell, combination: &Combination) -> io::Result<Load> {
    const FIRST: u64 = 64;
    let target = plan.round_time / BATCHES as u32;
    // One that fires is a batch; without one, as many messages as take the time.
    if let Workload::Fire(every @ 1..) = cell.workload {
        return Ok(Load { messages: every, batches: BATCHES });
    }
    let mut messages = FIRST;
    loop {
        let round = measure(plan, cell, combination, Load { messages, batches: 1 })?;
        let took = Duration::from_secs_f64(round.ns_per_message[0] * messages as f64 / 1e9);
        let wanted = target.as_secs_f64() / took.as_secs_f64().max(1e-9) * messages as f64;
        if took >= target / 8 || messages >= MAX_BATCH {
            return Ok(Load { messages: (wanted as u64).clamp(1, MAX_BATCH), batches: BATCHES });
        }
        messages = (wanted as u64 / 4).clamp(messages * 2, messages * 16).min(MAX_BATCH);
    }
}

fn measure(plan: &Plan, cell: &Cell, combination: &Combination, load: Load) -> io::Result<Round> {
    let job = Job { cell: *cell, capacity: plan.capacity, load, probe: None };
    let run = subject::with::<NoTally, _>(combination.variant, combination.clock, job);
    Ok(run.expect("the plan holds only combinations that are")?.0)
}

fn count(plan: &Plan, cell: &Cell, combination: &Combination) -> io::Result<Counted> {
    const MESSAGES: u64 = 2_000;
    let messages = if cell.workload == Workload::Fire(1) { MESSAGES / 100 } else { MESSAGES };
    let job = Job {
        cell: *cell,
        capacity: plan.capacity,
        load: Load { messages, batches: 1 },
        probe: Some(Probe { alone: cell.runtime() == Runtime::CurrentThread }),
    };
    let run = subject::with::<Counting, _>(combination.variant, combination.clock, job);
    Ok(run.expect("the plan holds only combinations that are")?.1)
}

/// Counts between warm-up and end.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// The loop's thread is the only one.
    alone: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Start {
    made: u64,
    registered: u64,
    reads: u64,
}

impl Probe {
    fn start() -> Start {
        let (made, registered) = Counting::so_far();
        allocations::start();
        Start { made, registered, reads: Counter::so_far() }
    }

    fn stop(start: Start, messages: u64) -> Counted {
        let reads = Counter::so_far() - start.reads;
        let (allocations, bytes_kept) = allocations::stop();
        let (made, registered) = Counting::so_far();
        Counted {
            messages,
            counter_reads: Some(reads),
            made: made - start.made,
            registered: registered - start.registered,
            allocations,
            bytes_kept,
        }
    }
}

/// Stamps after each batch, counts if asked to, and turns it all into costs.
struct Meter {
    load: Load,
    probe: Option<Probe>,
    /// From the end of the warm-up on, where the loop has the only thread: set-up is slow while every reading traps.
    trap: Option<Counter>,
    start: Start,
    counted: Counted,
    last: Option<Instant>,
    /// Of the current batch, not to be counted as the cost of messages.
    apart: Duration,
    round: Round,
}

impl Meter {
    fn new(load: Load, probe: Option<Probe>) -> Self {
        let round = Round { ns_per_message: Vec::with_capacity(load.batches as usize), ..Round::default() };
        Self {
            load,
            probe,
            trap: None,
            start: Start::default(),
            counted: Counted::default(),
            last: None,
            apart: Duration::ZERO,
            round,
        }
    }

    /// A batch of so many messages that came is over; the first is the warm-up.
    fn batch(&mut self, messages: u64) {
        let warmed_up = self.last.is_some();
        if self.probe.is_some() && warmed_up {
            self.counted = Probe::stop(self.start, self.load.messages);
            self.counted.counter_reads = self
                .counted
                .counter_reads
                .filter(|_| self.trap.take().is_some() || self.probe.is_some_and(|p| !p.alone));
        }
        let now = Instant::now();
        let apart = std::mem::take(&mut self.apart);
        match self.last {
            None => {
                self.round.fired = 0;
                self.round.lateness_ns.clear();
            }
            Some(last) if messages > 0 => {
                let took = now.saturating_duration_since(last).saturating_sub(apart);
                self.round.ns_per_message.push(took.as_nanos() as f64 / messages as f64);
            }
            Some(_) => {}
        }
        self.last = Some(Instant::now());
        if self.probe.is_some() && !warmed_up {
            self.trap = self.probe.filter(|p| p.alone).and_then(|_| Counter::start());
            self.start = Probe::start();
        }
    }
}

/// A workload to be run with some variant.
struct Job {
    cell: Cell,
    capacity: usize,
    load: Load,
    probe: Option<Probe>,
}

impl Visitor for Job {
    type Output = io::Result<(Round, Counted)>;

    fn visit<V: Variant>(self) -> Self::Output {
        // Before the runtime: its threads inherit the trap, and are gone before it is taken away.
        let trap = self.probe.filter(|p| !p.alone).and_then(|_| Counter::start());
        let runtime = match self.cell.runtime() {
            Runtime::CurrentThread => tokio::runtime::Builder::new_current_thread().enable_time().build()?,
            Runtime::MultiThread(workers) => {
                tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_time().build()?
            }
        };
        let Self { cell, capacity, load, probe } = self;
        let meter = Meter::new(load, probe);
        let meter = runtime.block_on(async move {
            let length = cell.length;
            // In a task, as a program would: only tasks have a cooperative budget.
            let task = match cell.workload {
                Workload::Channel(_) => tokio::spawn(channel::<V>(length, capacity, meter)),
                Workload::Rearm => tokio::spawn(rearm::<V>(length, meter)),
                Workload::Ready => tokio::spawn(messages::<V, _, _>(length, meter, || ready(()))),
                Workload::Pending => tokio::spawn(messages::<V, _, _>(length, meter, AtSecondPoll::default)),
                Workload::Moved => tokio::spawn(messages::<V, _, _>(length, meter, Big::default)),
                Workload::Timers(n) => tokio::spawn(timers::<V>(length, n, meter)),
                Workload::Fire(every) => tokio::spawn(firing::<V>(length, every, meter)),
            };
            task.await.expect("the loop does not panic")
        });
        drop(runtime);
        let trapped = trap.is_some() || probe.is_some_and(|p| p.alone);
        let counter_reads = meter.counted.counter_reads.filter(|_| trapped);
        Ok((meter.round, Counted { counter_reads, ..meter.counted }))
    }
}

async fn channel<V: Variant>(length: Duration, capacity: usize, mut meter: Meter) -> Meter {
    let (sender, mut receiver) = mpsc::channel::<u64>(capacity);
    let total = (meter.load.batches + 1) * meter.load.messages;
    let sending = tokio::spawn(async move {
        for i in 0..total {
            if sender.send(i).await.is_err() {
                break;
            }
        }
    });
    let mut variant = pin!(V::new(length));
    let mut sum = 0_u64;
    for _ in 0..=meter.load.batches {
        for _ in 0..meter.load.messages {
            sum = sum.wrapping_add(loop {
                match variant.as_mut().wait(receiver.recv()).await {
                    Some(message) => break message.expect("the sender sends as many as are awaited"),
                    None => meter.round.fired += 1,
                }
            });
        }
        meter.batch(meter.load.messages);
    }
    let expected = u128::from(total) * u128::from(total - 1) / 2;
    assert_eq!(u128::from(sum), expected, "every message came once");
    sending.await.expect("the sender does not panic");
    meter
}

async fn rearm<V: Variant>(length: Duration, mut meter: Meter) -> Meter {
    let mut variant = pin!(V::new(length));
    variant.as_mut().arm();
    poll_fn(|cx| Poll::Ready(black_box(variant.as_mut().poll_armed(cx).is_ready()))).await;
    for _ in 0..=meter.load.batches {
        for _ in 0..meter.load.messages {
            black_box(variant.as_mut()).arm();
        }
        meter.batch(meter.load.messages);
    }
    meter
}

async fn messages<V, F, M>(length: Duration, mut meter: Meter, mut message: F) -> Meter
where
    V: Variant,
    F: FnMut() -> M + Send,
    M: Future<Output = ()> + Send,
{
    let mut variant = pin!(V::new(length));
    for _ in 0..=meter.load.batches {
        for _ in 0..meter.load.messages {
            if variant.as_mut().wait(message()).await.is_none() {
                meter.round.fired += 1;
            }
        }
        meter.batch(meter.load.messages);
    }
    meter
}

async fn timers<V: Variant>(length: Duration, n: usize, mut meter: Meter) -> Meter {
    let mut variants: Vec<Pin<Box<V>>> = (0..n).map(|_| Box::pin(V::new(length))).collect();
    // Unconstrained: a spent budget would keep timers from being registered, and the loop does not wait for anything.
    let mut turn = 0;
    unconstrained(poll_fn(|cx| {
        for variant in &mut variants {
            variant.as_mut().arm();
            let _ = variant.as_mut().poll_armed(cx);
        }
        Poll::Ready(())
    }))
    .await;
    for _ in 0..=meter.load.batches {
        let fired = unconstrained(poll_fn(|cx| {
            let mut fired = 0;
            for _ in 0..meter.load.messages {
                let variant = &mut variants[turn];
                variant.as_mut().arm();
                fired += u64::from(variant.as_mut().poll_armed(cx).is_ready());
                turn = if turn + 1 == n { 0 } else { turn + 1 };
            }
            Poll::Ready(fired)
        }))
        .await;
        meter.round.fired += fired;
        meter.batch(meter.load.messages);
    }
    meter
}

async fn firing<V: Variant>(length: Duration, every: u64, mut meter: Meter) -> Meter {
    let mut variant = pin!(V::new(length));
    let mut to_come = every;
    for _ in 0..=meter.load.batches {
        let mut came = 0;
        for _ in 0..meter.load.messages {
            to_come = to_come.saturating_sub(1);
            if every == 0 || to_come > 0 {
                came += 1;
                if variant.as_mut().wait(AtSecondPoll::default()).await.is_none() {
                    meter.round.fired += 1;
                }
                continue;
            }
            to_come = every;
            if V::FIRES {
                let start = Instant::now();
                variant.as_mut().begin();
                let fired = variant.as_mut().wait(pending::<()>()).await.is_none();
                let took = start.elapsed();
                meter.apart += took;
                meter.round.fired += u64::from(fired);
                meter.round.lateness_ns.push(took.as_nanos() as i64 - length.as_nanos() as i64);
            }
        }
        meter.batch(came);
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

/// Cost of one reading of a clock, the least of several goes: a go that was interrupted is longer, never shorter.
pub fn ns_per_read<T>(mut read: impl FnMut() -> T) -> f64 {
    const GOES: u32 = 20;
    const READS: u32 = 5_000;
    let go = |_| {
        let start = Instant::now();
        for _ in 0..READS {
            black_box(read());
        }
        start.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    (0..GOES).map(go).fold(f64::INFINITY, f64::min)
}
