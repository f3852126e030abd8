//! A round: its request, its measurement and its result.
//!
//! During a round only the subject runs. Everything else, including conversion and progress,
//! happens between rounds.

mod clock_step;
mod round_samples;
#[cfg(test)]
mod tests;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use files::report::Change;
use jitterstat::recorder::Recorder;
use jitterstat::sample::{Grid, RoundSamples};
use tach::Conversion;

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

use clock_step::check_clock_step;
use round_samples::{convert_wakeups, drop_apparent_earliness, samples_on_grid};

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
            setting_changes: raw
                .recordings
                .iter()
                .filter_map(|r| r.setting_change.clone())
                .collect(),
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
fn verified(mut round: MeasuredRound, settings: Option<&RoundSettings>) -> MeasuredRound {
    round.setting_changes.extend(settings.map(RoundSettings::changes).unwrap_or_default());
    round
}
