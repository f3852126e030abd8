//! One round: what is asked of it, and what becomes of its counts when it has ended.
//!
//! During a round only the subject runs. Everything else, conversion and progress included, happens
//! between rounds.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use jitterstat::recorder::{RawSample, Recorder};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use tach::{Anchor, Conversion};

use crate::machine::os;
use crate::measure::cost::Cost;
use crate::measure::executor::{on_busypoll, on_thread, on_tokio};
use crate::measure::late_watch::{LateWatch, RoundWatch};
use crate::measure::panics::catch_panic;
use crate::measure::program;
use crate::measure::runtime_load::LoadCpuTime;
use crate::measure::tick_loop::{RawRound, Recording, RoundSetup};
use crate::measure::why::{self, Profiler, RoundDiagnosis};
use crate::program::Program;
use crate::scenario::{Runtime, Scenario};
use crate::subject::target::Target;
use crate::subject::ticker::{Subject, Ticker};
use crate::subject::{self, OnBusypoll, RuntimeKind, SubjectInfo, Visitor, script};

/// One measured round of one scenario.
#[derive(Debug)]
pub struct MeasuredRound {
    pub index: u64,
    /// RuntimeKind within the round's order.
    pub slot: u64,
    /// The random part of the start.
    pub phase: Duration,
    /// What each instance did; at least one.
    pub instances: Vec<Instance>,
    /// What the round cost.
    pub cost: Cost,
    /// What the ticks came from, where that is known.
    pub backend: Option<String>,
    /// How counts became time; a program of the user's has a clock of its own.
    pub clock: Option<RoundClock>,
    /// Whether it was stopped before its last tick.
    pub stopped: bool,
    /// Why its ticks were late, where it was asked: such a round is in no other figure.
    pub diagnosis: Option<RoundDiagnosis>,
}

/// The conversion of one round.
#[derive(Clone, Copy, Debug)]
pub struct RoundClock {
    /// Rate of the counter over this round.
    pub rate_hz: f64,
    pub error_bound_ns: u64,
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

/// A round to be measured.
pub struct RoundRequest<'a> {
    pub scenario: &'a Scenario,
    /// Which round of the scenario.
    pub index: u64,
    /// RuntimeKind within the round's order.
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
    /// Where it is asked why its ticks are late.
    pub why: Option<&'a Profiler>,
    /// Where late ticks are noticed while they come.
    pub late: Option<&'a Arc<LateWatch>>,
}

impl RoundRequest<'_> {
    pub fn measure(self) -> Result<MeasuredRound, String> {
        match &self.scenario.subject {
            Target::Program(own) => self.start(own),
            Target::Builtin(SubjectInfo { name, runtime_kind: RuntimeKind::Script, .. }) => {
                self.play(name)
            }
            Target::Builtin(SubjectInfo { name, .. }) => subject::visit_by_name(name, self)
                .unwrap_or_else(|| Err(format!("no subject {name:?}"))),
        }
    }
}

impl Visitor for RoundRequest<'_> {
    type Output = Result<MeasuredRound, String>;

    fn on_tokio<S>(self) -> Self::Output
    where
        S: Subject<Ticker: Ticker<Event: Send> + Send>,
    {
        self.run(on_tokio::<S>)
    }

    fn on_busypoll<S: OnBusypoll>(self) -> Self::Output {
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

    fn run(self, place: fn(RoundSetup) -> io::Result<RawRound>) -> Result<MeasuredRound, String> {
        let grid = self.grid();
        let total = grid.first_tick + grid.ticks + self.run_on;
        let capacity =
            usize::try_from(total).map_err(|_| "more ticks than memory holds".to_owned())?;
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
            runtime: self.scenario.runtime.unwrap_or(Runtime::CurrentThread),
            tasks: self.scenario.load.tasks(),
            stop: Arc::clone(self.stop),
            held: LoadCpuTime::default(),
            watch: self.why.map(|session| session.begin(capacity, self.scenario.period)),
            late: self.late.map(|watch| RoundWatch {
                watch: Arc::clone(watch),
                scenario_id: Arc::from(self.scenario.id.as_str()),
                recorded: grid.first_tick..grid.first_tick.saturating_add(grid.ticks),
            }),
        };
        let watch = setup.watch.clone();
        let raw = catch_panic(|| place(setup))?.map_err(|error| reason(&error))?;
        let (first, last) = &raw.anchors;
        steady(first, last)?;
        let conversion =
            Conversion::between(first, last).ok_or("the clock did not advance over the round")?;
        let instance = |recording: &Recording| {
            booked(recording.start, &wakeups(recording, &conversion), grid, recording.stopped)
        };
        let why = self.why.zip(watch).map(|(session, watch)| {
            let instances: Vec<why::Ticks> = raw.recordings.iter().map(Recording::ticks).collect();
            let (waits, steal_ns) = (raw.waits, raw.cost.steal_ns);
            let alone = instances.len() == 1 && self.scenario.load.tasks().is_none();
            let ended = why::FinishedRound {
                index: self.index,
                grid,
                conversion,
                waits,
                instances: &instances,
                alone,
                steal_ns,
            };
            why::diagnose(session, &watch, &ended)
        });
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: self.phase,
            instances: raw.recordings.iter().map(instance).collect::<Result<_, _>>()?,
            cost: raw.cost,
            backend: Some(raw.backend),
            clock: Some(RoundClock {
                rate_hz: conversion.rate_hz(),
                error_bound_ns: conversion.error_bound_ns(),
            }),
            stopped: raw.recordings.iter().any(|recording| recording.stopped),
            diagnosis: why,
        })
    }

    /// A round in a process of its own, which measured itself.
    fn start(self, own: &Program) -> Result<MeasuredRound, String> {
        let grid = self.grid();
        let asked = self.why.map(|session| (session, self.index));
        let program::Round { start, samples, cost, why } =
            program::round(own, grid, self.stop, asked)?;
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: Duration::ZERO,
            // One tick is taken off with the start.
            instances: vec![Instance {
                start,
                samples,
                ticks_run: (grid.first_tick + grid.ticks - 1).max(1),
            }],
            cost,
            backend: None,
            clock: None,
            stopped: false,
            diagnosis: why,
        })
    }

    /// A round made from the script: no loop runs, the accounting is the same.
    #[allow(clippy::disallowed_methods, reason = "the start of a grid that nothing waits for")]
    fn play(self, name: &str) -> Result<MeasuredRound, String> {
        let (scenario, grid) = (self.scenario, self.grid());
        let offset = self.index * scenario.round_ticks;
        let played = script::replay(&scenario.id, name, self.index, offset, grid)?;
        let start = self.start.unwrap_or_else(|| Instant::now() + self.phase);
        let instance = |i: u64| {
            let start = start + Duration::from_nanos(grid.period_ns * i / scenario.instances);
            booked(start, &played.wakeups, grid, played.stopped)
        };
        let instances: Vec<Instance> =
            (0..scenario.instances).map(instance).collect::<Result<_, _>>()?;
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
                window_ns: grid.period_ns * (grid.first_tick + grid.ticks),
                ..Cost::default()
            },
            backend: Some(played.backend),
            clock: Some(RoundClock { rate_hz: 1e9, error_bound_ns: 0 }),
            stopped: played.stopped,
            diagnosis: self
                .why
                .map(|_| RoundDiagnosis::none(self.index, "a script has no threads")),
        })
    }
}

/// How far counter and kernel clock may come apart over a round: more than any rate is off, and any
/// read delayed.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(20);
const STEP_PER_LENGTH: f64 = 0.02;

/// Refuses a round over which the kernel's clock jumped: lateness against it would be the jump.
fn steady(first: &Anchor, last: &Anchor) -> Result<(), String> {
    static RATE_HZ: OnceLock<f64> = OnceLock::new();
    let rate_hz = *RATE_HZ.get_or_init(|| tach::info().rate_hz);
    let counted = last.count().saturating_sub(first.count()) as f64 / rate_hz;
    let forward = last.std().checked_duration_since(first.std()).map(|time| time.as_secs_f64());
    let stated =
        forward.unwrap_or_else(|| -first.std().saturating_duration_since(last.std()).as_secs_f64());
    no_jump(counted, stated)
}

/// The same of lengths in seconds, by the CPU counter and by the kernel's clock.
fn no_jump(counted: f64, stated: f64) -> Result<(), String> {
    let jump = stated - counted;
    if jump.abs() <= MAX_CLOCK_STEP.as_secs_f64() + counted.abs() * STEP_PER_LENGTH {
        return Ok(());
    }
    Err(format!(
        "the clock jumped by {jump:+.3} s within a round: it took {counted:.3} s by the CPU counter, and {stated:.3} s by the \
         kernel's clock"
    ))
}

/// Why a round could not be measured, with what helps where that is known.
fn reason(error: &io::Error) -> String {
    let hint = if os::is_out_of_descriptors(error) {
        "; raise the limit, for example with ulimit -n 1024"
    } else {
        ""
    };
    format!("{error}{hint}")
}

/// Turns counts into nanoseconds on the grid.
fn wakeups(recording: &Recording, conversion: &Conversion) -> Vec<Wakeup> {
    let ns = |count: u64| conversion.ns_since(count, recording.start);
    let wakeup = |s: &RawSample| Wakeup {
        tick: s.tick,
        expirations: s.expirations,
        wake_ns: ns(s.wake_count),
        unpark_ns: s.unpark_count.map(|count| ns(count.get())),
    };
    recording.recorder.samples().iter().map(wakeup).collect()
}

fn booked(
    start: Instant,
    wakeups: &[Wakeup],
    grid: Grid,
    stopped: bool,
) -> Result<Instance, String> {
    let ticks_run = wakeups.last().map_or(0, |w| w.tick + 1).min(grid.first_tick + grid.ticks);
    // Of a round that was stopped, only the ticks it ran count.
    let asked = if stopped { ticks_run.saturating_sub(grid.first_tick) } else { grid.ticks };
    let samples = RoundSamples::from_wakeups(Grid { ticks: asked, ..grid }, wakeups)
        .map_err(|e| e.to_string())?;
    Ok(Instance { start, samples, ticks_run })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Length, ScenarioArgs};
    use crate::subject::ticker::Schedule;

    #[test]
    fn what_neighbour_tasks_use_is_not_the_subjects_cost() {
        let of = |load: &str| {
            let args = ScenarioArgs {
                subjects: vec![crate::scenario::parse_subject("tokio-interval").unwrap()],
                length: Some(Length::Ticks(20)),
                periods: vec![Duration::from_millis(1)],
                loads: vec![load.parse().unwrap()],
                ..ScenarioArgs::default()
            };
            let scenario = args.single_scenario().unwrap();
            let (index, slot, ticks, phase) = (0, 0, 20, Duration::ZERO);
            let stop = Arc::default();
            let round = RoundRequest {
                scenario: &scenario,
                index,
                slot,
                ticks,
                phase,
                start: None,
                run_on: 0,
                stop: &stop,
                why: None,
                late: None,
            };
            let before = os::usage().cpu_ns;
            let cost = round.measure().unwrap().cost;
            (cost, os::usage().cpu_ns.zip(before).map(|(now, before)| now - before))
        };
        assert_eq!(of("none").0.load_cpu_ns, 0);
        let (beside, of_process) = of("tasks:4x500us");
        assert!(beside.load_cpu_ns > 0);
        // Of the process's time, nothing is booked twice.
        assert!(
            beside.cpu_ns.unwrap() + beside.load_cpu_ns <= of_process.unwrap(),
            "{beside:?} {of_process:?}"
        );
    }

    #[test]
    fn a_clock_that_jumps_is_noticed_and_one_that_runs_is_not() {
        for (counted, stated) in [(0.130, 0.130), (0.130, 0.149), (60.0, 60.9), (1e-6, 0.0)] {
            assert_eq!(no_jump(counted, stated), Ok(()), "{counted} {stated}");
        }
        for (counted, stated, says) in
            [(0.13, 3600.13, "+3600.000 s"), (0.13, -3599.87, "-3600.000 s"), (0.13, 0.0, "-0.130")]
        {
            let error = no_jump(counted, stated).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    /// Ticks at once, and panics at the third.
    struct GivesUp(u64);

    impl Ticker for GivesUp {
        type Event = ();

        fn poll_wait(
            self: std::pin::Pin<&mut Self>,
            next: u64,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            assert!(next < self.0, "as a driver does");
            std::task::Poll::Ready(Ok(()))
        }

        fn backend(&self) -> String {
            String::new()
        }
    }

    impl Subject for GivesUp {
        const PARKS_UNTIL_DUE: bool = false;
        type Ticker = Self;

        fn ticker(_: Schedule) -> io::Result<Self> {
            Ok(Self(2))
        }
    }

    #[test]
    fn a_runtime_that_panics_ends_its_round_and_not_the_run() {
        let subject = subject::ALL.iter().find(|e| e.name == "spin").expect("it is in the table");
        let args = ScenarioArgs { subjects: vec![subject], ..ScenarioArgs::default() };
        let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
        let request = |ticks| {
            let phase = Duration::ZERO;
            let (start, why) = (None, None);
            RoundRequest {
                scenario: &scenario,
                index: 0,
                slot: 0,
                ticks,
                phase,
                start,
                run_on: 0,
                stop: &stop,
                why,
                late: None,
            }
        };
        for ended in [request(5).on_thread::<GivesUp>(), request(5).on_tokio::<GivesUp>()] {
            let reason = ended.unwrap_err();
            assert!(reason.contains("as a driver does"), "{reason}");
        }
    }
}
