//! A round: its request, its measurement and its result.
//!
//! During a round only the subject runs. Everything else, including conversion and progress,
//! happens between rounds.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use files::report::Change;
use jitterstat::recorder::{RawSample, Recorder};
use jitterstat::sample::{Grid, RoundSamples, Wakeup};
use tach::{Anchor, Conversion};

use crate::measure::child::ProgramSession;
use crate::measure::cost::{Cost, CostScope, TickUsage, UsageTicks};
use crate::measure::late_watch::{LateWatch, RoundWatch};
use crate::measure::long_wait::LongWait;
use crate::measure::program::{self, MeasuredProgram};
use crate::measure::round_error::RoundError;
use crate::measure::round_settings::RoundSettings;
use crate::measure::runtime_load::LoadCpuTime;
use crate::measure::subject_loops::SubjectLoops;
use crate::measure::tick_loop::{RawRound, Recording, RoundSetup};
use crate::measure::why::{
    self, FinishedRound, InstanceWakeups, Profiler, RoundDiagnosis, RoundProfiler, Unavailable,
};
use crate::panics::catch_panic;
use crate::program::Program;
use crate::scenario::{Runtime, Scenario};
use crate::subject::target::Target;
use crate::subject::{WaitKind, script};

/// A measured round of a scenario.
#[derive(Debug)]
pub struct MeasuredRound {
    pub index: u64,
    /// Position of the scenario within the round.
    pub slot: u64,
    /// Random part of the start.
    pub phase: Duration,
    /// Results of the instances, of which there is at least one.
    pub instances: Vec<Instance>,
    /// Costs of the round.
    pub cost: Cost,
    /// Timer that produced the ticks, if known.
    pub backend: Option<String>,
    /// Conversion of counts to time; `None` for programs, which have their own clock.
    pub clock: Option<RoundClock>,
    /// Whether the round was stopped before its last tick.
    pub stopped: bool,
    /// Diagnosis of late ticks, if the round was profiled. A profiled round is excluded from all
    /// other results.
    pub diagnosis: Option<RoundDiagnosis>,
    /// Settings that were others after the round than expected. The round is excluded then.
    pub setting_changes: Vec<Change>,
}

/// A measured round, or the reason why there is none.
pub type RoundResult = Result<MeasuredRound, RoundError>;

/// The conversion of one round.
#[derive(Clone, Copy, Debug)]
pub struct RoundClock {
    /// Rate of the counter during this round.
    pub rate_hz: f64,
    pub error_bound_ns: u64,
}

/// Result of one ticker of a round.
#[derive(Debug)]
pub struct Instance {
    /// Deadline of tick 0.
    pub start: Instant,
    /// The samples, in nanoseconds.
    pub samples: RoundSamples,
    /// Ticks in the window of the usage, over which it is distributed.
    pub cost_ticks: u64,
}

/// A round to measure.
pub struct RoundRequest<'a> {
    pub scenario: &'a Scenario,
    /// Index of the round within the scenario.
    pub index: u64,
    /// Position of the scenario within the round.
    pub slot: u64,
    pub ticks: u64,
    /// Random part of the start.
    pub phase: Duration,
    /// Deadline of tick 0. Unless set, it is shortly after the runtime is ready.
    pub start: Option<Instant>,
    /// Ticks to run after the last recorded one.
    pub run_on: u64,
    /// Flag that stops the round at the current tick. It is the only state that a round shares with
    /// other threads.
    pub stop: &'a Arc<AtomicBool>,
    /// Profiler, if the round is profiled.
    pub profiler: Option<&'a Profiler>,
    /// Detection of late ticks during the round.
    pub late_watch: Option<&'a Arc<LateWatch>>,
    /// Settings of the measuring thread, which are verified after the round.
    pub settings: Option<&'a RoundSettings>,
}

impl RoundRequest<'_> {
    /// Measures the round.
    ///
    /// # Errors
    ///
    /// Returns the reason if the round cannot be measured.
    pub fn measure(self) -> RoundResult {
        let settings = self.settings;
        let round = self.measure_unverified()?;
        Ok(verified(round, settings))
    }

    fn measure_unverified(self) -> RoundResult {
        match &self.scenario.subject {
            Target::Program(program) => {
                let profiled = self.profiler.map(|profiler| (profiler, self.index));
                let measured = program::measure_round(program, self.grid(), self.stop, profiled)?;
                Ok(self.program_round(measured))
            }
            Target::Builtin(subject) => match SubjectLoops::find(subject) {
                Some(loops) => self.measure_subject(subject.wait_kind, loops.run_round),
                None => self.measure_scripted(subject.name),
            },
        }
    }

    fn grid(&self) -> Grid {
        let Scenario { warmup_ticks, .. } = *self.scenario;
        Grid { period_ns: self.scenario.period_ns(), first_tick: warmup_ticks, ticks: self.ticks }
    }

    /// Measures a round of a built-in subject with the loop that is compiled for it.
    pub(super) fn measure_subject(
        self,
        wait_kind: WaitKind,
        run_round: fn(RoundSetup) -> io::Result<RawRound>,
    ) -> RoundResult {
        let grid = self.grid();
        let setup = self.setup(grid, wait_kind)?;
        let recorder = setup.profiler.clone();
        let raw = catch_panic(|| run_round(setup))?
            .map_err(|error| RoundError::Subject(Arc::new(error)))?;
        let (start, end) = (&raw.start_anchor, &raw.end_anchor);
        check_clock_step(start, end)?;
        let conversion = Conversion::between(start, end).ok_or(RoundError::ClockStopped)?;
        let mut instances = Vec::with_capacity(raw.recordings.len());
        for recording in &raw.recordings {
            let wakeups = convert_wakeups(recording, &conversion);
            let mut samples = samples_on_grid(&wakeups, grid, recording.stopped)?;
            drop_apparent_earliness(&mut samples.lateness_ns, conversion.error_bound_ns());
            let cost_ticks =
                raw.usage.as_ref().map_or(0, |span| recording.ticks_between(&span.counts()));
            instances.push(Instance { start: recording.start, samples, cost_ticks });
        }
        let usage = raw.usage.as_ref().map(|span| span.usage(&conversion)).unwrap_or_default();
        let diagnosis = self.profiler.zip(recorder).map(|(profiler, recorder)| {
            self.diagnose(profiler, &recorder, &raw, wait_kind, conversion)
        });
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: self.phase,
            instances,
            cost: Cost { usage, ..raw.cost },
            backend: Some(raw.backend),
            clock: Some(RoundClock {
                rate_hz: conversion.rate_hz(),
                error_bound_ns: conversion.error_bound_ns(),
            }),
            stopped: raw.recordings.iter().any(|recording| recording.stopped),
            diagnosis,
            setting_changes: Vec::new(),
        })
    }

    /// Prepares the round, including the memory for its samples.
    fn setup(&self, grid: Grid, wait_kind: WaitKind) -> Result<RoundSetup, RoundError> {
        let total = grid.first_tick + grid.ticks + self.run_on;
        let capacity = usize::try_from(total).map_err(|_| RoundError::TooManyTicks)?;
        let recorders = (0..self.scenario.instances).map(|_| Recorder::try_with_capacity(capacity));
        let recorders = recorders.collect::<Result<_, _>>().map_err(|_| RoundError::NoMemory)?;
        let (period, runtime) = (self.scenario.period, self.scenario.runtime);
        let cost_scope = match (self.start, runtime) {
            (None, _) => CostScope::Process,
            // Rounds with a common start are measured at once.
            (Some(_), Some(Runtime::MultiThread(_))) => CostScope::SomeThreads,
            (Some(_), _) => CostScope::Thread,
        };
        let late_watch = self.late_watch.map(|watch| RoundWatch {
            watch: Arc::clone(watch),
            scenario_id: Arc::from(self.scenario.id.as_str()),
            recorded: grid.first_tick..grid.first_tick.saturating_add(grid.ticks),
        });
        Ok(RoundSetup {
            period,
            phase: self.phase,
            start: self.start,
            last_tick: total - 1,
            wait_kind,
            recorders,
            runtime: runtime.unwrap_or(Runtime::CurrentThread),
            tasks: self.scenario.load.tasks(),
            stop: Arc::clone(self.stop),
            cost_scope,
            usage_ticks: UsageTicks::new(grid.first_tick, grid.ticks, LongWait::applies(period)),
            load_cpu: LoadCpuTime::default(),
            profiler: self.profiler.map(|profiler| profiler.begin(capacity, period)),
            late_watch,
        })
    }

    fn diagnose(
        &self,
        profiler: &Profiler,
        recorder: &RoundProfiler,
        raw: &RawRound,
        wait_kind: WaitKind,
        conversion: Conversion,
    ) -> RoundDiagnosis {
        let instances: Vec<InstanceWakeups> =
            raw.recordings.iter().map(Recording::thread_wakeups).collect();
        let round = FinishedRound {
            index: self.index,
            grid: self.grid(),
            conversion,
            wait_kind,
            instances: &instances,
            is_alone: instances.len() == 1 && self.scenario.load.tasks().is_none(),
            steal_ns: raw.cost.steal_ns,
        };
        why::diagnose(profiler, recorder, &round)
    }

    /// Measures a round of a program that gets its rounds over standard input.
    ///
    /// # Errors
    ///
    /// Returns the reason if the round cannot be measured.
    pub fn measure_in_session(
        self,
        program: &Program,
        session: &mut ProgramSession,
    ) -> RoundResult {
        let grid = self.grid();
        let measured = program::measure_session_round(program, session, grid, self.stop)?;
        Ok(verified(self.program_round(measured), self.settings))
    }

    fn program_round(&self, measured: MeasuredProgram) -> MeasuredRound {
        let MeasuredProgram { start, samples, cost, cost_ticks, diagnosis } = measured;
        MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: Duration::ZERO,
            instances: vec![Instance { start, samples, cost_ticks }],
            cost,
            backend: None,
            clock: None,
            stopped: false,
            diagnosis,
            setting_changes: Vec::new(),
        }
    }

    /// Replays a round of the script. No loop runs, but the evaluation is that of a real round.
    #[allow(clippy::disallowed_methods, reason = "the start of a grid without a loop")]
    fn measure_scripted(self, name: &str) -> RoundResult {
        let (scenario, grid) = (self.scenario, self.grid());
        let offset = self.index * scenario.round_ticks;
        let replayed = script::replay(&scenario.id, name, self.index, offset, grid)
            .map_err(RoundError::Script)?;
        let start = self.start.unwrap_or_else(|| Instant::now() + self.phase);
        let mut instances = Vec::new();
        for i in 0..scenario.instances {
            let start = start + Duration::from_nanos(grid.period_ns * i / scenario.instances);
            let samples = samples_on_grid(&replayed.wakeups, grid, replayed.stopped)?;
            let cost_ticks = samples.grid.ticks;
            instances.push(Instance { start, samples, cost_ticks });
        }
        let ticks: u64 = instances.iter().map(|i| i.cost_ticks).sum();
        self.stop.fetch_or(replayed.stopped, Ordering::Relaxed);
        Ok(MeasuredRound {
            index: self.index,
            slot: self.slot,
            phase: self.phase,
            instances,
            cost: Cost {
                usage: TickUsage {
                    window_ns: Some(grid.period_ns * ticks / scenario.instances.max(1)),
                    cpu_ns: replayed.cpu_ns_per_tick.map(|ns| ns * ticks),
                    switches_voluntary: replayed.switches_per_tick.map(|n| n * ticks),
                    switches_involuntary: replayed.switches_per_tick.map(|_| 0),
                },
                run_queue_ns: replayed.run_queue_ns,
                steal_ns: replayed.steal_ns,
                window_ns: grid.period_ns * (grid.first_tick + grid.ticks),
                ..Cost::default()
            },
            backend: Some(replayed.backend),
            clock: Some(RoundClock { rate_hz: 1e9, error_bound_ns: 0 }),
            stopped: replayed.stopped,
            diagnosis: self
                .profiler
                .map(|_| RoundDiagnosis::unavailable(self.index, &Unavailable::NoThreads)),
            setting_changes: Vec::new(),
        })
    }
}

/// Returns a round with the settings that have changed, as seen by the thread that measured it.
fn verified(round: MeasuredRound, settings: Option<&RoundSettings>) -> MeasuredRound {
    let setting_changes = settings.map(RoundSettings::changes).unwrap_or_default();
    MeasuredRound { setting_changes, ..round }
}

/// Maximum difference between the counter and the kernel's clock over a round, in addition to
/// [`MAX_CLOCK_DRIFT`]. Delayed readings cause smaller differences.
const MAX_CLOCK_STEP: Duration = Duration::from_millis(20);
/// Maximum difference as a share of the length of a round, which is more than the error of any
/// rate.
const MAX_CLOCK_DRIFT: f64 = 0.02;

/// Checks that the kernel's clock did not jump during a round, since its lateness would include the
/// jump.
fn check_clock_step(start: &Anchor, end: &Anchor) -> Result<(), RoundError> {
    static RATE_HZ: OnceLock<f64> = OnceLock::new();
    let rate_hz = *RATE_HZ.get_or_init(|| tach::info().rate_hz);
    let counter_s = end.count().saturating_sub(start.count()) as f64 / rate_hz;
    let forward =
        end.os_instant().checked_duration_since(start.os_instant()).map(|time| time.as_secs_f64());
    let kernel_s = forward.unwrap_or_else(|| {
        -start.os_instant().saturating_duration_since(end.os_instant()).as_secs_f64()
    });
    compare_clocks(counter_s, kernel_s)
}

/// Compares the lengths of a round by the CPU counter and by the kernel's clock, in seconds.
fn compare_clocks(counter_s: f64, kernel_s: f64) -> Result<(), RoundError> {
    let jump = kernel_s - counter_s;
    if jump.abs() <= MAX_CLOCK_STEP.as_secs_f64() + counter_s.abs() * MAX_CLOCK_DRIFT {
        return Ok(());
    }
    Err(RoundError::ClockJumped { counter_s, kernel_s })
}

/// Converts the counts of a recording to nanoseconds on the grid.
fn convert_wakeups(recording: &Recording, conversion: &Conversion) -> Vec<Wakeup> {
    let ns = |count: u64| conversion.ns_since(count, recording.start);
    let samples = recording.recorder.samples();
    let mut wakeups = Vec::with_capacity(samples.len());
    for &RawSample { tick, expirations, wake_count, unpark_count } in samples {
        let unpark_ns = unpark_count.map(|count| ns(count.get()));
        wakeups.push(Wakeup { tick, expirations, wake_ns: ns(wake_count), unpark_ns });
    }
    wakeups
}

/// Returns the samples of an instance from its wake-ups.
fn samples_on_grid(
    wakeups: &[Wakeup],
    grid: Grid,
    stopped: bool,
) -> Result<RoundSamples, RoundError> {
    let ticks_run = wakeups.last().map_or(0, |w| w.tick + 1).min(grid.first_tick + grid.ticks);
    // A stopped round contains only the ticks that ran.
    let ticks = if stopped { ticks_run.saturating_sub(grid.first_tick) } else { grid.ticks };
    RoundSamples::from_wakeups(Grid { ticks, ..grid }, wakeups).map_err(RoundError::InvalidWakeups)
}

/// Counts ticks as on time that seem early by at most the error bound of the conversion.
fn drop_apparent_earliness(lateness_ns: &mut [i64], error_bound_ns: u64) {
    for lateness_ns in lateness_ns {
        if *lateness_ns < 0 && lateness_ns.unsigned_abs() <= error_bound_ns {
            *lateness_ns = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::machine::os;
    use crate::measure::executor::{run_on_thread, run_on_tokio};
    use crate::scenario::{Length, ScenarioArgs};
    use crate::subject::ticker::{Schedule, Subject, Ticker};
    use cli::units::to_ns;
    use files::subjects::SPINNING_CONTROL;

    #[test]
    fn load_tasks_are_not_subject_cost() {
        // More than tokio lets a task do at once, so that the load runs even if all ticks are late.
        const TICKS: u64 = 200;
        let costs = |load: &str| {
            let args = ScenarioArgs {
                subjects: vec![crate::scenario::parse_subject("tokio-interval").unwrap()],
                length: Some(Length::Ticks(TICKS)),
                round_ticks: Some(TICKS),
                periods: vec![Duration::from_millis(1)],
                loads: vec![load.parse().unwrap()],
                ..ScenarioArgs::default()
            };
            let scenario = args.single_scenario().unwrap();
            let (index, slot, ticks, phase) = (0, 0, TICKS, Duration::ZERO);
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
                profiler: None,
                late_watch: None,
                settings: None,
            };
            let before = os::usage().cpu_ns;
            let cost = round.measure().unwrap().cost;
            (cost, os::usage().cpu_ns.zip(before).map(|(now, before)| now - before))
        };
        assert_eq!(costs("none").0.load_cpu_ns, 0);
        let (loaded, process_ns) = costs("tasks:4x500us");
        assert!(loaded.load_cpu_ns > 0);
        // No CPU time of the process counts twice.
        assert!(
            loaded.usage.cpu_ns.unwrap() + loaded.load_cpu_ns <= process_ns.unwrap(),
            "{loaded:?} {process_ns:?}"
        );
    }

    #[test]
    fn earliness_within_clock_error_is_none() {
        let mut lateness_ns = [-201, -200, -1, 0, 150];
        drop_apparent_earliness(&mut lateness_ns, 200);
        assert_eq!(lateness_ns, [-201, 0, 0, 0, 150]);
    }

    #[test]
    fn clock_jumps_are_detected() {
        for (counter_s, kernel_s) in [(0.130, 0.130), (0.130, 0.149), (60.0, 60.9), (1e-6, 0.0)] {
            assert!(compare_clocks(counter_s, kernel_s).is_ok(), "{counter_s} {kernel_s}");
        }
        for (counter_s, kernel_s, expected) in
            [(0.13, 3600.13, "+3600.000 s"), (0.13, -3599.87, "-3600.000 s"), (0.13, 0.0, "-0.130")]
        {
            let error = compare_clocks(counter_s, kernel_s).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    /// CPU time that each tick of a [`BurningTicker`] uses, except those of the warm-up.
    const BURNT: Duration = Duration::from_millis(5);

    thread_local! {
        /// CPU time that each tick has used, as its thread counted it.
        static BURNT_NS: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// Uses CPU time on this thread. Returns how much.
    fn burn(cpu_time: Duration) -> u64 {
        let before = os::thread_cpu_ns().unwrap();
        loop {
            let burnt_ns = os::thread_cpu_ns().unwrap() - before;
            if burnt_ns >= to_ns(cpu_time) {
                return burnt_ns;
            }
        }
    }

    /// A ticker that uses CPU time in each wait, and ten times as much when it is created and in
    /// its warm-up.
    struct BurningTicker(Schedule);

    impl Subject for BurningTicker {
        type Ticker = Self;

        fn ticker(schedule: Schedule) -> io::Result<Self> {
            burn(10 * BURNT);
            Ok(Self(schedule))
        }
    }

    impl Ticker for BurningTicker {
        type Event = ();

        #[allow(clippy::disallowed_methods, reason = "a ticker that sleeps until its deadline")]
        fn poll_wait(
            self: std::pin::Pin<&mut Self>,
            next: u64,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<io::Result<()>> {
            let factor = if next < WARMUP_TICKS { 10 } else { 1 };
            let burnt_ns = burn(BURNT * factor);
            BURNT_NS.with_borrow_mut(|burnt| burnt.push(burnt_ns));
            let deadline = self.0.deadline(next);
            std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
            std::task::Poll::Ready(Ok(()))
        }

        fn backend(&self) -> String {
            String::new()
        }
    }

    const WARMUP_TICKS: u64 = 2;

    /// Measures a round of a burning ticker on this thread. Returns it with the CPU time of each
    /// tick.
    #[allow(clippy::disallowed_methods, reason = "a common start limits the costs to a thread")]
    fn measure_burning(ticks: u64) -> (MeasuredRound, Vec<u64>) {
        let args = ScenarioArgs {
            subjects: vec![crate::scenario::parse_subject("nanosleep").unwrap()],
            length: Some(Length::Ticks(ticks)),
            round_ticks: Some(ticks),
            warmup: Some(WARMUP_TICKS),
            periods: vec![2 * BURNT],
            ..ScenarioArgs::default()
        };
        let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
        let request = RoundRequest {
            scenario: &scenario,
            index: 0,
            slot: 0,
            ticks,
            phase: Duration::ZERO,
            start: Some(Instant::now()),
            run_on: 2,
            stop: &stop,
            profiler: None,
            late_watch: None,
            settings: None,
        };
        BURNT_NS.take();
        let round =
            request.measure_subject(WaitKind::Sleep, run_on_thread::<BurningTicker>).unwrap();
        (round, BURNT_NS.take())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cost_is_that_of_recorded_ticks() {
        assert_cost_is_burnt(|| {
            let (round, burnt_ns) = measure_burning(10);
            let usage = round.cost.usage;
            let ticks = round.instances[0].cost_ticks;
            assert_eq!(ticks, 9, "from the first recorded tick to the last one");
            assert!(usage.cpu_ns <= usage.window_ns, "{usage:?}");
            let first = WARMUP_TICKS as usize;
            let expected_ns: u64 = burnt_ns[first + 1..first + 10].iter().sum();
            usage.cpu_ns.unwrap() as f64 / expected_ns as f64
        });
    }

    /// Checks the ratio of the reported CPU time to that which the ticks used. A hypervisor may
    /// charge the time that it took to the few microseconds around a tick, but not each time.
    fn assert_cost_is_burnt(measure_ratio: impl Fn() -> f64) {
        let mut ratios = Vec::new();
        while ratios.len() < 10 {
            let ratio = measure_ratio();
            assert!(ratio >= 1.0, "{ratio}");
            if ratio < 1.02 {
                return;
            }
            ratios.push(ratio);
        }
        panic!("{ratios:?}");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn cost_of_single_tick_excludes_warmup() {
        assert_cost_is_burnt(|| {
            let (round, burnt_ns) = measure_burning(1);
            let expected_ns = burnt_ns[WARMUP_TICKS as usize];
            assert_eq!(round.instances[0].cost_ticks, 1);
            round.cost.usage.cpu_ns.unwrap() as f64 / expected_ns as f64
        });
    }

    /// A ticker that ticks immediately, and panics at the third tick.
    struct PanickingTicker(u64);

    impl Ticker for PanickingTicker {
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

    impl Subject for PanickingTicker {
        const PARKS_UNTIL_DUE: bool = false;
        type Ticker = Self;

        fn ticker(_: Schedule) -> io::Result<Self> {
            Ok(Self(2))
        }
    }

    #[test]
    fn panics_end_only_their_round() {
        let args = ScenarioArgs { subjects: vec![SPINNING_CONTROL], ..ScenarioArgs::default() };
        let (scenario, stop) = (args.single_scenario().unwrap(), Arc::default());
        let request = |ticks| {
            let phase = Duration::ZERO;
            let start = None;
            RoundRequest {
                scenario: &scenario,
                index: 0,
                slot: 0,
                ticks,
                phase,
                start,
                run_on: 0,
                stop: &stop,
                profiler: None,
                late_watch: None,
                settings: None,
            }
        };
        for run_round in [run_on_thread::<PanickingTicker>, run_on_tokio::<PanickingTicker>] {
            let result = request(5).measure_subject(WaitKind::Spin, run_round);
            let reason = result.unwrap_err().to_string();
            assert!(reason.contains("as a driver does"), "{reason}");
        }
    }
}
