//! The schedule of rounds, the loop, and the accounting around it.
//!
//! During a round only the subject runs. Everything else, conversion and progress included, happens between rounds.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jitterstat::recorder::{RawSample, Recorder};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tach::{Anchor, Conversion};

use crate::machine::os::{self, Usage};
use crate::scenario::{Plan, Runtime, Scenario};
use crate::subject::{self, Booking, Schedule, Subject, Ticker, Visitor};

/// From ready to the first deadline, before the random phase: room to arm the timer and to fall asleep.
const LEAD: Duration = Duration::from_millis(2);
/// And so much for each instance, the making of which takes a system call or two.
const LEAD_PER_INSTANCE: Duration = Duration::from_micros(20);
/// The random phase spans a period, but at least this: tokio's wheel turns once a millisecond.
pub const LEAST_PHASE: Duration = Duration::from_millis(1);
/// Rounds longer than this count their ticks for whoever shows progress.
const COUNTED_ROUND: Duration = Duration::from_secs(1);

/// The only words a round shares with other threads.
#[derive(Debug, Default)]
pub struct Shared {
    /// Set to stop at the current tick.
    pub stop: AtomicBool,
    /// Ticks of the current round, in rounds over a second.
    pub ticks: AtomicU64,
}

/// One measured round of one scenario.
#[derive(Debug)]
pub struct MeasuredRound {
    /// Which round.
    pub index: u64,
    /// Place within the round's order.
    pub slot: u64,
    /// The random part of the start.
    pub phase: Duration,
    /// What each instance did; at least one.
    pub instances: Vec<Instance>,
    /// What the round cost.
    pub cost: Cost,
    /// What the ticks came from.
    pub backend: String,
    /// Rate of the counter over this round.
    pub rate_hz: f64,
    /// Error bound of the conversion of this round.
    pub error_bound_ns: u64,
    /// Whether it was stopped before its last tick.
    pub stopped: bool,
}

/// What one of the tickers of a round did.
#[derive(Debug)]
pub struct Instance {
    /// Deadline of tick 0.
    pub start: Instant,
    /// The samples, in nanoseconds.
    pub samples: RoundSamples,
    /// Ticks that ran, warm-up included: what the cost is shared among.
    pub ticks_run: u64,
}

/// What a round cost, from the moment its runtime was ready to its last tick.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// CPU time of the process.
    pub cpu_ns: Option<u64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
    /// Time the process's threads waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Time the hypervisor took from all CPUs.
    pub steal_ns: Option<u64>,
}

/// What happens between rounds.
pub trait Observer {
    /// A round is about to run.
    fn before(&mut self, scenario: &Scenario, index: u64);
    /// A round is over, measured or not.
    fn after(&mut self, scenario: &Scenario, result: Result<MeasuredRound, String>);
    /// Whether the observer knows enough: asked before each round.
    fn knows_enough(&self) -> bool {
        false
    }
}

/// Runs the plan: in every round each scenario once, back to back, in an order drawn at random.
pub fn run(plan: &Plan, shared: &Arc<Shared>, observer: &mut impl Observer) {
    let mut random = SmallRng::seed_from_u64(plan.seed);
    let most = plan.scenarios.iter().map(Scenario::rounds).max().unwrap_or(0);
    let mut failed = vec![false; plan.scenarios.len()];
    for index in 0..most {
        let mut order: Vec<usize> = (0..plan.scenarios.len()).filter(|&i| index < plan.scenarios[i].rounds()).collect();
        order.shuffle(&mut random);
        // One draw for all subjects of a round, so that they meet the same phase of tokio's wheel.
        let phase_share: f64 = random.random();
        for (slot, &i) in order.iter().enumerate() {
            if shared.stop.load(Ordering::Relaxed) || observer.knows_enough() {
                return;
            }
            if failed[i] {
                continue;
            }
            let scenario = &plan.scenarios[i];
            let phase = scenario.period.max(LEAST_PHASE).mul_f64(phase_share);
            let ticks = scenario.ticks_of_round(index);
            observer.before(scenario, index);
            let round = OneRound { scenario, ticks, phase, start: None, run_on: 0, shared };
            let result = round.measure().map(|round| MeasuredRound { index, slot: slot as u64, ..round });
            failed[i] = result.is_err();
            observer.after(scenario, result);
        }
    }
}

pub struct OneRound<'a> {
    pub scenario: &'a Scenario,
    pub ticks: u64,
    pub phase: Duration,
    /// Deadline of tick 0; where there is none, soon after its runtime is ready.
    pub start: Option<Instant>,
    /// Ticks to run after the last one that is recorded.
    pub run_on: u64,
    pub shared: &'a Arc<Shared>,
}

impl OneRound<'_> {
    pub fn measure(self) -> Result<MeasuredRound, String> {
        let name = self.scenario.subject.name;
        subject::with(name, self).unwrap_or_else(|| Err(format!("no subject {name:?}")))
    }
}

impl Visitor for OneRound<'_> {
    type Output = Result<MeasuredRound, String>;

    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>,
    {
        let runtime = self.scenario.runtime.unwrap_or(Runtime::CurrentThread);
        self.run(|job| on_tokio::<S>(job, runtime))
    }

    fn on_busypoll<S: Subject>(self) -> Self::Output {
        self.run(on_busypoll::<S>)
    }

    fn on_thread<S: Subject>(self) -> Self::Output {
        self.run(on_thread::<S>)
    }
}

impl OneRound<'_> {
    fn run(self, place: impl FnOnce(Job) -> io::Result<RawRound>) -> Result<MeasuredRound, String> {
        let grid =
            Grid { period_ns: self.scenario.period_ns(), first_tick: self.scenario.warmup_ticks, ticks: self.ticks };
        let total = grid.first_tick + grid.ticks + self.run_on;
        let capacity = usize::try_from(total).map_err(|_| "more ticks than memory holds".to_owned())?;
        let recorders = (0..self.scenario.instances)
            .map(|_| Recorder::try_with_capacity(capacity))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| "not enough memory for its samples".to_owned())?;
        let job = Job {
            period: self.scenario.period,
            phase: self.phase,
            start: self.start,
            last_tick: total - 1,
            counted: self.scenario.period * u32::try_from(total).unwrap_or(u32::MAX) > COUNTED_ROUND,
            recorders,
            shared: Arc::clone(self.shared),
        };
        finish(place(job).map_err(|error| reason(&error))?, grid, self.phase)
    }
}

/// Why a round could not be measured, with what helps where that is known.
fn reason(error: &io::Error) -> String {
    let hint = if os::is_out_of_descriptors(error) { "; raise the limit, for example with ulimit -n 1024" } else { "" };
    format!("{error}{hint}")
}

/// What a round needs to run; moved onto the thread or task that runs it.
struct Job {
    period: Duration,
    phase: Duration,
    start: Option<Instant>,
    last_tick: u64,
    counted: bool,
    /// One for each instance.
    recorders: Vec<Recorder>,
    shared: Arc<Shared>,
}

/// What a round leaves behind, before anything is converted.
struct RawRound {
    tracks: Vec<Track>,
    anchors: (Anchor, Anchor),
    cost: Cost,
    backend: String,
}

/// The recording of one instance.
struct Track {
    start: Instant,
    recorder: Recorder,
    stopped: bool,
}

fn on_thread<S: Subject>(job: Job) -> io::Result<RawRound> {
    // A control blocks in its wait, so its future is ready at the first poll.
    let mut future = pin!(drive::<S>(job));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

fn on_busypoll<S: Subject>(job: Job) -> io::Result<RawRound> {
    let result = busypoll::Runtime::new()?.block_on(async { busypoll::spawn_boxed(drive::<S>(job)).await });
    result.map_err(|error| io::Error::other(error.to_string()))?
}

fn on_tokio<S>(job: Job, runtime: Runtime) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let mut builder = match runtime {
        Runtime::CurrentThread => tokio::runtime::Builder::new_current_thread(),
        Runtime::MultiThread(workers) => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(workers);
            builder
        }
    };
    let runtime = builder.enable_all().on_thread_unpark(|| UNPARKED.set(Some(tach::count()))).build()?;
    let result = runtime.block_on(async {
        match job.recorders.len() {
            1 => tokio::spawn(drive::<S>(job)).await,
            _ => tokio::spawn(drive_many::<S>(job)).await,
        }
    });
    result.map_err(io::Error::other)?
}

thread_local! {
    /// When this thread's runtime last came back from its park; taken by the wake-up that follows.
    static UNPARKED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// One round: accounting around the loop.
async fn drive<S: Subject>(job: Job) -> io::Result<RawRound> {
    let (round, loops) = Opened::new::<S>(job)?;
    let mut tracks = Vec::with_capacity(loops.len());
    for one in loops {
        tracks.push(one.await?);
    }
    Ok(round.close(tracks))
}

/// The same around as many loops as there are instances, a task each.
async fn drive_many<S>(job: Job) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let (round, loops) = Opened::new::<S>(job)?;
    let mut tracks = Vec::with_capacity(loops.len());
    let tasks: Vec<_> = loops.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        tracks.push(task.await.map_err(io::Error::other)??);
    }
    Ok(round.close(tracks))
}

/// The accounting of a round that runs.
struct Opened {
    before: Snapshot,
    start_anchor: Anchor,
    backend: String,
}

impl Opened {
    /// With the loops that are to run, one for each instance.
    #[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
    fn new<S: Subject>(job: Job) -> io::Result<(Self, Vec<impl Future<Output = io::Result<Track>>>)> {
        let Job { period, phase, start, last_tick, counted, recorders, shared } = job;
        shared.ticks.store(0, Ordering::Relaxed);
        let instances = u32::try_from(recorders.len()).map_err(io::Error::other)?;
        let before = Snapshot::take();
        let start_anchor = Anchor::take();
        let start = start.unwrap_or_else(|| Instant::now() + LEAD + LEAD_PER_INSTANCE * instances + phase);
        let spread = |i: u32| Schedule { start: start + period * i / instances, period };
        let schedules: Vec<Schedule> = (0..instances).map(spread).collect();
        let tickers = S::tickers(&schedules)?;
        let backend = tickers.first().map_or(String::new(), Ticker::backend);
        let limits = Limits { last_tick, counted, parks_until_due: S::PARKS_UNTIL_DUE };
        UNPARKED.set(None);
        let loops = schedules.iter().zip(tickers).zip(recorders).map(|((schedule, ticker), recorder)| {
            let track = Track { start: schedule.start, recorder, stopped: false };
            ticking(ticker, track, limits, Arc::clone(&shared))
        });
        Ok((Self { before, start_anchor, backend }, loops.collect()))
    }

    fn close(self, tracks: Vec<Track>) -> RawRound {
        let end_anchor = Anchor::take();
        let cost = Snapshot::take().since(&self.before);
        RawRound { tracks, anchors: (self.start_anchor, end_anchor), cost, backend: self.backend }
    }
}

/// When a loop ends, and what it does beside ticking.
#[derive(Clone, Copy)]
struct Limits {
    last_tick: u64,
    counted: bool,
    parks_until_due: bool,
}

/// The loop itself.
async fn ticking<T: Ticker>(ticker: T, mut track: Track, limits: Limits, shared: Arc<Shared>) -> io::Result<Track> {
    let mut ticker = pin!(ticker);
    loop {
        ticker.as_mut().begin();
        let event = poll_fn(|cx| ticker.as_mut().poll_wait(cx)).await?;
        let wake_count = tach::ordered_count();
        let Booking { tick, expirations } = ticker.as_mut().book(event);
        let unpark_count = UNPARKED.take().filter(|_| limits.parks_until_due);
        track.recorder.push(RawSample { tick, expirations, wake_count, unpark_count });
        if tick >= limits.last_tick {
            return Ok(track);
        }
        if limits.counted {
            shared.ticks.store(tick + 1, Ordering::Relaxed);
        }
        if shared.stop.load(Ordering::Relaxed) {
            track.stopped = true;
            return Ok(track);
        }
    }
}

/// Turns counts into nanoseconds on the grid.
fn finish(raw: RawRound, grid: Grid, phase: Duration) -> Result<MeasuredRound, String> {
    let (first, last) = &raw.anchors;
    let conversion = Conversion::between(first, last).ok_or("the clock did not advance over the round")?;
    let instances = raw.tracks.iter().map(|track| instance(track, &conversion, grid));
    Ok(MeasuredRound {
        index: 0,
        slot: 0,
        phase,
        instances: instances.collect::<Result<_, _>>()?,
        cost: raw.cost,
        backend: raw.backend,
        rate_hz: conversion.rate_hz(),
        error_bound_ns: conversion.error_bound_ns(),
        stopped: raw.tracks.iter().any(|track| track.stopped),
    })
}

fn instance(track: &Track, conversion: &Conversion, grid: Grid) -> Result<Instance, String> {
    let ns = |count: u64| conversion.ns_since(count, track.start);
    let samples = track.recorder.samples().iter();
    let wakeups: Vec<Wakeup> = samples
        .map(|s| Wakeup {
            tick: s.tick,
            expirations: s.expirations,
            wake_ns: ns(s.wake_count),
            unpark_ns: s.unpark_count.map(ns),
        })
        .collect();
    let ticks_run = wakeups.last().map_or(0, |w| w.tick + 1).min(grid.first_tick + grid.ticks);
    // A round that was stopped asked only for what it came to.
    let asked = if track.stopped { ticks_run.saturating_sub(grid.first_tick) } else { grid.ticks };
    let samples = RoundSamples::book(Grid { ticks: asked, ..grid }, &wakeups).map_err(|e| e.to_string())?;
    Ok(Instance { start: track.start, samples, ticks_run })
}

struct Snapshot {
    usage: Usage,
    run_queue_ns: Option<u64>,
    steal_ns: Option<u64>,
}

impl Snapshot {
    fn take() -> Self {
        Self { usage: os::usage(), run_queue_ns: os::run_queue_ns(), steal_ns: os::steal_ns() }
    }

    fn since(&self, before: &Self) -> Cost {
        let delta = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Cost {
            cpu_ns: delta(self.usage.cpu_ns, before.usage.cpu_ns),
            switches_voluntary: delta(self.usage.switches_voluntary, before.usage.switches_voluntary),
            switches_involuntary: delta(self.usage.switches_involuntary, before.usage.switches_involuntary),
            run_queue_ns: delta(self.run_queue_ns, before.run_queue_ns),
            steal_ns: delta(self.steal_ns, before.steal_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Length, ScenarioArgs};

    /// Allocations of one round of a subject, on the thread that runs it.
    fn allocations(subject: &'static subject::Entry, ticks: u64) -> u64 {
        let args = ScenarioArgs {
            subjects: vec![subject],
            length: Some(Length::Ticks(ticks)),
            round_ticks: Some(ticks),
            periods: vec![Duration::from_micros(100)],
            ..ScenarioArgs::default()
        };
        let shared = Arc::new(Shared::default());
        let visitor = LoopOnly { scenario: &args.only().unwrap(), shared: &shared };
        subject::with(subject.name, visitor).expect("a subject of that name")
    }

    /// Runs the loop of a round without what comes after it, and counts.
    struct LoopOnly<'a> {
        scenario: &'a Scenario,
        shared: &'a Arc<Shared>,
    }

    impl Visitor for LoopOnly<'_> {
        type Output = u64;

        fn on_tokio<S>(self) -> u64
        where
            S: Subject<Ticker: Ticker<Event: Send> + Send>,
        {
            self.count(|job| on_tokio::<S>(job, Runtime::CurrentThread))
        }

        fn on_busypoll<S: Subject>(self) -> u64 {
            self.count(on_busypoll::<S>)
        }

        fn on_thread<S: Subject>(self) -> u64 {
            self.count(on_thread::<S>)
        }
    }

    impl LoopOnly<'_> {
        fn count(self, place: impl FnOnce(Job) -> io::Result<RawRound>) -> u64 {
            let ticks = self.scenario.ticks;
            let job = Job {
                period: self.scenario.period,
                phase: Duration::ZERO,
                start: None,
                last_tick: ticks - 1,
                counted: true,
                recorders: vec![Recorder::with_capacity(usize::try_from(ticks).unwrap())],
                shared: Arc::clone(self.shared),
            };
            let mut pushed = 0;
            let counted = allocation_counter::measure(|| {
                pushed = place(job).unwrap().tracks[0].recorder.samples().len();
            });
            assert!(pushed > 0, "the loop ran");
            counted.count_total
        }
    }

    #[test]
    fn a_tick_allocates_nothing() {
        for entry in subject::ALL.iter().filter(|e| subject::availability(e.name).is_ok()) {
            // What a process allocates once is allocated here.
            allocations(entry, 2);
            // Set-up and tear-down are the same in both rounds: what is more would be the ticks'. Only the accounting
            // around the loop varies, with the number of threads that other tests run just then.
            let same = (0..20).any(|_| allocations(entry, 10) == allocations(entry, 500));
            assert!(same, "{} allocates while it ticks", entry.name);
        }
    }
}
