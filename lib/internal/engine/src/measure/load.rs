//! The loads of a plan: started before it, paused but in the rounds of their scenarios, ended with
//! it.
//!
//! A load is started once and not for each round: a command may take longer to come to its work
//! than a round takes. Where the platform cannot pause it, it is ended after each round and started
//! anew.

use std::time::{Duration, Instant};

use files::report;

use crate::load::{Load, READY_LINE};
use crate::measure::child::BackgroundProcess;
use crate::measure::round::MeasuredRound;
use crate::program::Program;
use crate::scenario::Scenario;
use cli::exit::{self, Error};

/// Every load of a plan, once.
#[derive(Default)]
pub struct Loads(Vec<Running>);

/// One load, and what it has come to so far.
struct Running {
    load: Load,
    process: Option<BackgroundProcess>,
    /// `None` where some of it is not known.
    cpu_ns: Option<u64>,
    active: Duration,
}

impl Loads {
    /// StartupCosts the loads of these scenarios, and leaves them paused.
    ///
    /// # Errors
    /// One cannot be started, or ends at once.
    pub fn start(scenarios: &[Scenario]) -> exit::Result<Self> {
        let mut loads = Self::default();
        for Scenario { load, .. } in scenarios {
            if load.is_none() || loads.0.iter().any(|known| known.load == *load) {
                continue;
            }
            let mut new = Running {
                load: load.clone(),
                process: None,
                cpu_ns: Some(0),
                active: Duration::ZERO,
            };
            new.resume().map_err(|why| {
                Error::usage(format!("--load {load}: {why}; nothing was measured"))
            })?;
            new.pause();
            loads.0.push(new);
        }
        Ok(loads)
    }

    /// Measures a round beside its load.
    ///
    /// # Errors
    /// That of the round, or the load ended by itself: then the round was not measured beside it.
    pub fn during(
        &mut self,
        load: &Load,
        measure: impl FnOnce() -> Result<MeasuredRound, String>,
    ) -> Result<MeasuredRound, String> {
        let Some(running) = self.0.iter_mut().find(|known| known.load == *load) else {
            return measure();
        };
        let failed = |why: String| format!("its load {load} {why}");
        running.resume().map_err(failed)?;
        let began = now();
        let round = measure();
        running.active += began.elapsed();
        if let Ok(round) = &round {
            running.add(Some(round.cost.load_cpu_ns));
        }
        let ended = running.process.as_mut().and_then(BackgroundProcess::ended);
        running.pause();
        ended.map_or(round, |why| Err(failed(why)))
    }

    /// Ends them all: what each took of the machine.
    pub fn end(self) -> Vec<report::Load> {
        let ended = |mut running: Running| {
            running.end();
            report::Load {
                load: running.load.to_string(),
                cpu_ns: running.cpu_ns,
                active_ns: u64::try_from(running.active.as_nanos()).unwrap_or(u64::MAX),
            }
        };
        self.0.into_iter().map(ended).collect()
    }
}

impl Running {
    fn resume(&mut self) -> Result<(), String> {
        match (&self.process, &self.load) {
            (Some(process), _) => process.resume(),
            (None, Load::None | Load::Tasks(_)) => {}
            (None, Load::Stress(stress)) => {
                self.process = Some(BackgroundProcess::start_self(
                    &["stress", &stress.to_string()],
                    READY_LINE,
                )?);
            }
            (None, Load::Command(text)) => {
                let program = Program::parse(text)?;
                // What is misspelt looks like a command.
                program.check_exists().map_err(|why| {
                    format!(
                        "{why}; beside commands there are none, cpu, memory, io, softirq and tasks"
                    )
                })?;
                self.process = Some(BackgroundProcess::start(&program)?);
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
            self.add(process.end());
        }
    }

    fn add(&mut self, cpu_ns: Option<u64>) {
        self.cpu_ns = self.cpu_ns.zip(cpu_ns).map(|(all, more)| all + more);
    }
}

#[allow(clippy::disallowed_methods, reason = "how long a load was to run")]
fn now() -> Instant {
    Instant::now()
}
