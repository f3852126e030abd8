//! One round: the loop, and the accounting around it.
//!
//! During a round only the subject runs. Everything else, conversion and progress included, happens between rounds.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jitterstat::recorder::{RawSample, Recorder};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use tach::{Anchor, Conversion};

use crate::machine::os::{self, Usage};
use crate::scenario::{Runtime, Scenario};
use crate::subject::ticker::{Delivered, Schedule, Subject, Ticker};
use crate::subject::{self, Entry, Place, Visitor, scripted};

/// From ready to the first deadline, before the random phase: room to arm the timer and to fall asleep.
const LEAD: Duration = Duration::from_millis(2);
/// And so much for each instance, the making of which takes a system call or two.
const LEAD_PER_INSTANCE: Duration = Duration::from_micros(20);

/// One measured round of one scenario.
#[derive(Debug)]
pub struct MeasuredRound {
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

/// A round to be measured.
pub struct RoundRequest<'a> {
    pub scenario: &'a Scenario,
    /// Which round of the scenario.
    pub index: u64,
    /// Place within the round's order.
    pub slot: u64,
    pub ticks: u64,
    /// The random part of the start.
    pub phase: Duration,
    /// Deadline of tick 0; where there is none, soon after its runtime is ready.
    pub start: Option<Instant>,
    /// Ticks to run after the last one that is recorded.
    pub run_on: u64,
    /// Set to stop at the current tick: the only word a round shares with other threads.
    pub stop: &'a Arc<AtomicBool>,
}

impl RoundRequest<'_> {
    pub fn measure(self) -> Result<MeasuredRound, String> {
        let Entry { name, place, .. } = *self.scenario.subject;
        match place {
            Place::Script => self.play(),
            _ => subject::with(name, self).unwrap_or_else(|| Err(format!("no subject {name:?}"))),
        }
    }
}

impl Visitor for RoundRequest<'_> {
    type Output = Result<MeasuredRound, String>;

    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>,
    {
        let runtime = self.scenario.runtime.unwrap_or(Runtime::CurrentThread);
        self.run(|setup| on_tokio::<S>(setup, runtime))
    }

    fn on_busypoll<S: Subject>(self) -> Self::Output {
        self.run(on_busypoll::<S>)
    }

    fn on_thread<S: Subject>(self) -> Self::Output {
        self.run(on_thread::<S>)
    }
}

impl RoundRequest<'_> {
    fn grid(&self) -> Grid {
        let Scenario { warmup_ticks, .. } = *self.scenario;
        Grid { period_ns: self.scenario.period_ns(), first_tick: warmup_ticks, ticks: self.ticks }
    }

    fn run(self, place: impl FnOnce(RoundSetup) -> io::Result<RawRound>) -> Result<MeasuredRound, String> {
        let grid = self.grid();
        let total = grid.first_tick + grid.ticks + self.run_on;
        let capacity = usize::try_from(total).map_err(|_| "more ticks than memory holds".to_owned())?;
        let recorders = (0..self.scenario.instances)
            .map(|_| Recorder::try_with_capacity(capacity))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| "not enough memory for its samples".to_owned())?;
        let setup = RoundSetup {
            period: self.scenario.period,
            phase: self.phase,
            start: self.start,
            last_tick: total - 1,
            recorders,
            stop: Arc::clone(self.stop),
        };
        let raw = place(setup).map_err(|error| reason(&error))?;
        let (first, last) = &raw.anchors;
        let conversion = Conversion::between(first, last).ok_or("the clock did not advance over the round")?;
        let instance =
            |recording: &Recording| booked(recording.start, &wakeups(recording, &conversion), grid, recording.stopped);
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: self.phase,
            instances: raw.recordings.iter().map(instance).collect::<Result<_, _>>()?,
            cost: raw.cost,
            backend: raw.backend,
            rate_hz: conversion.rate_hz(),
            error_bound_ns: conversion.error_bound_ns(),
            stopped: raw.recordings.iter().any(|recording| recording.stopped),
        })
    }

    /// A round made from the script: no loop runs, the accounting is the same.
    #[allow(clippy::disallowed_methods, reason = "the start of a grid that nothing waits for")]
    fn play(self) -> Result<MeasuredRound, String> {
        let (scenario, grid) = (self.scenario, self.grid());
        let offset = self.index * scenario.round_ticks;
        let played = scripted::play(&scenario.id, scenario.subject.name, self.index, offset, grid)?;
        let start = self.start.unwrap_or_else(|| Instant::now() + self.phase);
        let instance = |i: u64| {
            let start = start + Duration::from_nanos(grid.period_ns * i / scenario.instances);
            booked(start, &played.wakeups, grid, played.stopped)
        };
        let instances: Vec<Instance> = (0..scenario.instances).map(instance).collect::<Result<_, _>>()?;
        let ticks: u64 = instances.iter().map(|i| i.ticks_run).sum();
        self.stop.fetch_or(played.stopped, Ordering::Relaxed);
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: self.phase,
            instances,
            cost: Cost {
                cpu_ns: played.cpu_ns_per_tick.map(|ns| ns * ticks),
                switches_voluntary: played.switches_per_tick.map(|n| n * ticks),
                switches_involuntary: played.switches_per_tick.map(|_| 0),
                run_queue_ns: played.run_queue_ns,
                steal_ns: played.steal_ns,
            },
            backend: played.backend,
            rate_hz: 1e9,
            error_bound_ns: 0,
            stopped: played.stopped,
        })
    }
}

/// Why a round could not be measured, with what helps where that is known.
fn reason(error: &io::Error) -> String {
    let hint = if os::is_out_of_descriptors(error) { "; raise the limit, for example with ulimit -n 1024" } else { "" };
    format!("{error}{hint}")
}

/// What a round needs to run; moved onto the thread or task that runs it.
struct RoundSetup {
    period: Duration,
    phase: Duration,
    start: Option<Instant>,
    last_tick: u64,
    /// One for each instance.
    recorders: Vec<Recorder>,
    stop: Arc<AtomicBool>,
}

/// What a round leaves behind, before anything is converted.
struct RawRound {
    recordings: Vec<Recording>,
    anchors: (Anchor, Anchor),
    cost: Cost,
    backend: String,
}

/// What one instance did, before anything is converted.
struct Recording {
    start: Instant,
    recorder: Recorder,
    stopped: bool,
}

fn on_thread<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    // A control blocks in its wait, so its future is ready at the first poll.
    let mut future = pin!(drive::<S>(setup));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return result;
        }
    }
}

fn on_busypoll<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    let result = busypoll::Runtime::new()?.block_on(async { busypoll::spawn_boxed(drive::<S>(setup)).await });
    result.map_err(|error| io::Error::other(error.to_string()))?
}

fn on_tokio<S>(setup: RoundSetup, runtime: Runtime) -> io::Result<RawRound>
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
        match setup.recorders.len() {
            1 => tokio::spawn(drive::<S>(setup)).await,
            _ => tokio::spawn(drive_many::<S>(setup)).await,
        }
    });
    result.map_err(io::Error::other)?
}

thread_local! {
    /// When this thread's runtime last came back from its park; taken by the wake-up that follows.
    static UNPARKED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// One round: accounting around the loop.
async fn drive<S: Subject>(setup: RoundSetup) -> io::Result<RawRound> {
    let (round, loops) = RunningRound::new::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    for one in loops {
        recordings.push(one.await?);
    }
    Ok(round.close(recordings))
}

/// The same around as many loops as there are instances, a task each.
async fn drive_many<S>(setup: RoundSetup) -> io::Result<RawRound>
where
    S: Subject<Ticker: Ticker<Event: Send> + Send>,
{
    let (round, loops) = RunningRound::new::<S>(setup)?;
    let mut recordings = Vec::with_capacity(loops.len());
    let tasks: Vec<_> = loops.into_iter().map(tokio::spawn).collect();
    for task in tasks {
        recordings.push(task.await.map_err(io::Error::other)??);
    }
    Ok(round.close(recordings))
}

/// The accounting of a round that runs.
struct RunningRound {
    before: Snapshot,
    start_anchor: Anchor,
    backend: String,
}

impl RunningRound {
    /// With the loops that are to run, one for each instance.
    #[allow(clippy::disallowed_methods, reason = "the start of the grid is read here")]
    fn new<S: Subject>(setup: RoundSetup) -> io::Result<(Self, Vec<impl Future<Output = io::Result<Recording>>>)> {
        let RoundSetup { period, phase, start, last_tick, recorders, stop } = setup;
        let instances = u32::try_from(recorders.len()).map_err(io::Error::other)?;
        let before = Snapshot::take();
        let start_anchor = Anchor::take();
        let start = start.unwrap_or_else(|| Instant::now() + LEAD + LEAD_PER_INSTANCE * instances + phase);
        let spread = |i: u32| Schedule { start: start + period * i / instances, period };
        let schedules: Vec<Schedule> = (0..instances).map(spread).collect();
        let tickers = S::tickers(&schedules)?;
        let backend = tickers.first().map_or(String::new(), Ticker::backend);
        let settings = LoopSettings { last_tick, parks_until_due: S::PARKS_UNTIL_DUE };
        UNPARKED.set(None);
        let loops = schedules.iter().zip(tickers).zip(recorders).map(|((schedule, ticker), recorder)| {
            let recording = Recording { start: schedule.start, recorder, stopped: false };
            ticking(ticker, recording, settings, Arc::clone(&stop))
        });
        Ok((Self { before, start_anchor, backend }, loops.collect()))
    }

    fn close(self, recordings: Vec<Recording>) -> RawRound {
        let end_anchor = Anchor::take();
        let cost = Snapshot::take().since(&self.before);
        RawRound { recordings, anchors: (self.start_anchor, end_anchor), cost, backend: self.backend }
    }
}

/// When a loop ends, and what its wake-ups mean.
#[derive(Clone, Copy)]
struct LoopSettings {
    last_tick: u64,
    parks_until_due: bool,
}

async fn ticking<T: Ticker>(
    ticker: T,
    mut recording: Recording,
    settings: LoopSettings,
    stop: Arc<AtomicBool>,
) -> io::Result<Recording> {
    let mut ticker = pin!(ticker);
    let mut next = 0;
    loop {
        ticker.as_mut().begin(next);
        let event = poll_fn(|cx| ticker.as_mut().poll_wait(next, cx)).await?;
        let wake_count = tach::ordered_count();
        let Delivered { tick, expirations } = ticker.as_mut().delivered(event, next);
        let unpark_count = UNPARKED.take().filter(|_| settings.parks_until_due);
        recording.recorder.push(RawSample { tick, expirations, wake_count, unpark_count });
        if tick >= settings.last_tick {
            return Ok(recording);
        }
        if stop.load(Ordering::Relaxed) {
            recording.stopped = true;
            return Ok(recording);
        }
        next = tick + 1;
    }
}

/// Turns counts into nanoseconds on the grid.
fn wakeups(recording: &Recording, conversion: &Conversion) -> Vec<Wakeup> {
    let ns = |count: u64| conversion.ns_since(count, recording.start);
    let wakeup = |s: &RawSample| Wakeup {
        tick: s.tick,
        expirations: s.expirations,
        wake_ns: ns(s.wake_count),
        unpark_ns: s.unpark_count.map(ns),
    };
    recording.recorder.samples().iter().map(wakeup).collect()
}

fn booked(start: Instant, wakeups: &[Wakeup], grid: Grid, stopped: bool) -> Result<Instance, String> {
    let ticks_run = wakeups.last().map_or(0, |w| w.tick + 1).min(grid.first_tick + grid.ticks);
    // Of a round that was stopped, only the ticks it ran count.
    let asked = if stopped { ticks_run.saturating_sub(grid.first_tick) } else { grid.ticks };
    let samples = RoundSamples::from_wakeups(Grid { ticks: asked, ..grid }, wakeups).map_err(|e| e.to_string())?;
    Ok(Instance { start, samples, ticks_run })
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
        let visitor = LoopOnly { scenario: &args.only().unwrap() };
        subject::with(subject.name, visitor).expect("a subject of that name")
    }

    /// Runs the loop of a round without what comes after it, and counts.
    struct LoopOnly<'a> {
        scenario: &'a Scenario,
    }

    impl Visitor for LoopOnly<'_> {
        type Output = u64;

        fn on_tokio<S>(self) -> u64
        where
            S: Subject<Ticker: Ticker<Event: Send> + Send>,
        {
            self.count(|setup| on_tokio::<S>(setup, Runtime::CurrentThread))
        }

        fn on_busypoll<S: Subject>(self) -> u64 {
            self.count(on_busypoll::<S>)
        }

        fn on_thread<S: Subject>(self) -> u64 {
            self.count(on_thread::<S>)
        }
    }

    impl LoopOnly<'_> {
        fn count(self, place: impl FnOnce(RoundSetup) -> io::Result<RawRound>) -> u64 {
            let ticks = self.scenario.ticks;
            let setup = RoundSetup {
                period: self.scenario.period,
                phase: Duration::ZERO,
                start: None,
                last_tick: ticks - 1,
                recorders: vec![Recorder::with_capacity(usize::try_from(ticks).unwrap())],
                stop: Arc::default(),
            };
            let mut pushed = 0;
            let counted = allocation_counter::measure(|| {
                pushed = place(setup).unwrap().recordings[0].recorder.samples().len();
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
