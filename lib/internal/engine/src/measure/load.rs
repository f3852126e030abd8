//! The loads of a plan.
//!
//! A load is started before the first round, paused except during the rounds of its scenarios, and
//! ended after the last one. It is not started for each round, since the start of a command can
//! take longer than a round. If the platform cannot pause it, it is ended after each round and
//! restarted.

use std::time::{Duration, Instant};

use files::report;

use crate::load::{Load, READY_LINE};
use crate::measure::child::BackgroundProcess;
use crate::measure::load_failure::LoadFailure;
use crate::measure::round::RoundResult;
use crate::measure::round_error::RoundError;
use crate::measure::stop_delay::StopDelay;
use crate::program::Program;
use crate::scenario::Scenario;
use cli::exit;
use cli::units::to_ns;

/// The loads of a plan, without duplicates.
#[derive(Default)]
pub struct Loads(Vec<RunningLoad>);

/// A load, and its use of resources so far.
struct RunningLoad {
    load: Load,
    process: Option<BackgroundProcess>,
    /// CPU time while the load was active; `None` if a part of it is unknown.
    cpu_ns: Option<u64>,
    /// CPU time of the process before its first round, which is the cost of its start.
    startup_ns: u64,
    /// Time for which the load could run: the rounds of its scenarios. It is paused otherwise.
    active: Duration,
}

impl Loads {
    /// Starts the loads of some scenarios and pauses them.
    ///
    /// # Errors
    ///
    /// Returns an error if a load cannot be started or exits immediately.
    pub fn start(scenarios: &[Scenario]) -> exit::Result<Self> {
        let _until_paused = StopDelay::begin();
        let mut loads = Self::default();
        for Scenario { load, .. } in scenarios {
            if load.is_none() || loads.0.iter().any(|known| known.load == *load) {
                continue;
            }
            let mut running = RunningLoad {
                load: load.clone(),
                process: None,
                cpu_ns: Some(0),
                startup_ns: 0,
                active: Duration::ZERO,
            };
            running
                .resume()
                .map_err(exit::Error::from)
                .map_err(|e| e.context(format!("nothing was measured: --load {load}")))?;
            running.pause();
            let startup_ns = running.process.as_ref().and_then(BackgroundProcess::cpu_ns);
            running.startup_ns = startup_ns.unwrap_or(0);
            loads.0.push(running);
        }
        Ok(loads)
    }

    /// Measures a number of rounds that run at once under a load. Returns their results, which are
    /// errors if the load cannot be resumed or exited during the rounds.
    pub fn during(
        &mut self,
        load: &Load,
        count: usize,
        measure: impl FnOnce() -> Vec<RoundResult>,
    ) -> Vec<RoundResult> {
        let Some(running) = self.0.iter_mut().find(|known| known.load == *load) else {
            return measure();
        };
        let failed = |failure: &LoadFailure| {
            Err(RoundError::Load { load: load.clone(), failure: failure.clone() })
        };
        // The load runs from within `resume` until within `pause`.
        let began = now();
        if let Err(failure) = running.resume() {
            return (0..count).map(|_| failed(&failure)).collect();
        }
        let mut rounds = measure();
        for round in rounds.iter().flatten() {
            running.add_cpu_time(Some(round.cost.load_cpu_ns));
        }
        let ended = running.process.as_mut().and_then(BackgroundProcess::try_exit);
        running.pause();
        running.active += began.elapsed();
        if let Some(exit) = ended {
            rounds.fill_with(|| failed(&LoadFailure::Ended(exit.clone())));
        }
        rounds
    }

    /// Ends all loads and returns their use of resources.
    pub fn end(self) -> Vec<report::Load> {
        let mut ended = Vec::with_capacity(self.0.len());
        for mut running in self.0 {
            running.end();
            ended.push(report::Load {
                load: running.load.to_string(),
                cpu_ns: running.cpu_ns,
                active_ns: to_ns(running.active),
            });
        }
        ended
    }
}

impl RunningLoad {
    fn resume(&mut self) -> Result<(), LoadFailure> {
        match (&self.process, &self.load) {
            (Some(process), _) => process.resume(),
            (None, Load::None | Load::Tasks(_)) => {}
            (None, Load::Stress(stress)) => {
                let arguments = ["stress", &stress.to_string()];
                let started = BackgroundProcess::start_self(&arguments, READY_LINE);
                self.process = Some(started.map_err(LoadFailure::NotStarted)?);
            }
            (None, Load::Command(text)) => {
                let program = Program::parse(text).map_err(LoadFailure::InvalidCommand)?;
                program.check_exists().map_err(LoadFailure::MissingCommand)?;
                let started = BackgroundProcess::start(&program);
                self.process = Some(started.map_err(LoadFailure::NotStarted)?);
            }
        }
        Ok(())
    }

    fn pause(&mut self) {
        if self.process.as_ref().is_some_and(|process| !process.pause()) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(process) = self.process.take() {
            let startup_ns = std::mem::take(&mut self.startup_ns);
            self.add_cpu_time(process.end().map(|ns| ns.saturating_sub(startup_ns)));
        }
    }

    fn add_cpu_time(&mut self, cpu_ns: Option<u64>) {
        self.cpu_ns = self.cpu_ns.zip(cpu_ns).map(|(sum, more)| sum + more);
    }
}

#[allow(clippy::disallowed_methods, reason = "the time for which a load runs")]
fn now() -> Instant {
    Instant::now()
}
