//! Applies the settings of scenarios for one round each.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cli::exit::{self, Error, usage};
use engine::machine::setting::SettingGuard;
use engine::measure::round_settings::RoundSettings;
use engine::measure::stop_delay::StopDelay;
use engine::measure::trial_commands::{TrialCommands, TrialProcess};
use engine::measure::trial_error::TrialError;
use engine::program::Program;
use engine::scenario::Scenario;
use files::report::Change;

use crate::doctor::prove::settings::SettingTrial;

/// The settings of the scenarios of a proof, of which at most one is in effect.
pub struct SettingSwitch {
    /// Settings by id of the scenario.
    trials: HashMap<String, SettingTrial>,
    guard: Option<SettingGuard>,
    /// The settings before the commands of the current scenario changed one.
    before: Option<RoundSettings>,
    /// Runs the commands of the user; `None` if there are none.
    process: Option<TrialProcess>,
    /// Commands that change nothing. The start of a command disturbs the caches and the frequency
    /// of the CPU just before a round, so each round of every other scenario has one as well.
    no_change: TrialCommands,
    /// A setting can affect the whole machine, and must not be in effect while this is stopped.
    _stop_delay: StopDelay,
}

impl SettingSwitch {
    /// Creates a switch. If there are commands, starts the process that runs them.
    ///
    /// # Errors
    ///
    /// Returns an error if that process cannot be started.
    pub fn new(
        trials: HashMap<String, SettingTrial>,
        stop: &Arc<AtomicBool>,
    ) -> exit::Result<Self> {
        let has_commands = trials.values().any(|trial| trial.commands.is_some());
        let process = has_commands.then(|| TrialProcess::start(stop)).transpose();
        let process = process.map_err(|error| match error.kind() {
            ErrorKind::Unsupported => usage!("--try is {error}"),
            ErrorKind::AddrInUse => Error::measure(
                "another proof with --try runs on this machine, and each would undo the settings of the other: wait until it has \
                 ended; nothing was changed",
            ),
            ErrorKind::Interrupted => Error::measure("interrupted; nothing was measured"),
            // The program finds itself there.
            ErrorKind::NotFound if cfg!(target_os = "linux") => Error::measure(
                "cannot start a process that runs --try without /proc: mount it; nothing was changed",
            ),
            _ => Error::measure(format!("cannot start a process that runs --try: {error}")),
        })?;
        let change = Program::parse("true")?;
        let (name, undo) = ("no change".to_owned(), change.clone());
        let no_change = TrialCommands { name, change, undo };
        Ok(Self {
            trials,
            guard: None,
            before: None,
            process,
            no_change,
            _stop_delay: StopDelay::begin(),
        })
    }

    /// Applies and restores the setting of each scenario once, and returns the time that this took.
    /// Without commands, it takes no time worth planning for, and is not done.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting cannot be applied or restored, or if `stop` is set.
    pub fn rehearse(
        &mut self,
        scenarios: &[Scenario],
        stop: &AtomicBool,
    ) -> exit::Result<Duration> {
        if self.process.is_none() {
            return Ok(Duration::ZERO);
        }
        let start = tach::Instant::now();
        for scenario in scenarios {
            let applied = self.apply(&scenario.id).and_then(|()| self.restore(&scenario.id));
            applied.map_err(|why| Error::measure(format!("nothing was measured: {why}")))?;
            if stop.load(Ordering::Relaxed) {
                return Err(Error::measure("interrupted; nothing was measured"));
            }
        }
        Ok(start.elapsed())
    }

    /// Applies the setting of a scenario. Call [`Self::restore`] afterwards, even after an error.
    ///
    /// # Errors
    ///
    /// Returns an error if that fails.
    pub fn apply(&mut self, id: &str) -> Result<(), SwitchError> {
        let trial = self.trials.get(id);
        if let Some(process) = &mut self.process {
            let commands = trial.and_then(|trial| trial.commands.as_ref());
            self.before = commands.map(|_| RoundSettings::read());
            process.change(commands.unwrap_or(&self.no_change)).map_err(SwitchError::Commands)?;
        }
        if let Some(trial) = trial {
            let held = trial.setting.hold();
            self.guard = Some(held.map_err(|source| SwitchError::lost(id, source))?);
        }
        Ok(())
    }

    /// Restores the setting of a scenario, if it is in effect.
    ///
    /// # Errors
    ///
    /// Returns an error if that fails, or if the undo command left a setting different from before.
    pub fn restore(&mut self, id: &str) -> Result<(), SwitchError> {
        let released = self.guard.take().map_or(Ok(()), SettingGuard::release);
        if let Some(process) = &mut self.process {
            process.undo().map_err(SwitchError::Commands)?;
        }
        released.map_err(|source| SwitchError::lost(id, source))?;
        // Otherwise all later rounds, and those without a setting, would have what is left of it.
        let changes = self.before.take().map_or_else(Vec::new, |before| before.changes());
        match (self.trials.get(id), changes.is_empty()) {
            (Some(trial), false) => {
                Err(SwitchError::NotRestored { name: trial.name.clone(), changes })
            }
            _ => Ok(()),
        }
    }
}

/// Reason why a setting could not be applied or restored.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// A command of the user failed.
    #[error("{0}")]
    Commands(#[source] TrialError),
    #[error("cannot change the setting of {scenario} any more: {source}")]
    Lost { scenario: String, source: io::Error },
    /// The undo command of the user succeeded, but did not restore these settings, unless another
    /// program changed them.
    #[error("--undo of {name} did not restore the {}, or another program changed it", list_changes(.changes))]
    NotRestored { name: String, changes: Vec<Change> },
}

impl SwitchError {
    fn lost(id: &str, source: io::Error) -> Self {
        Self::Lost { scenario: id.to_owned(), source }
    }
}

fn list_changes(changes: &[Change]) -> String {
    let describe = |Change { what, from, to }: &Change| format!("{what} (was {from}, is {to})");
    changes.iter().map(describe).collect::<Vec<_>>().join(", the ")
}
