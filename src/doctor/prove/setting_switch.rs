//! Applies the settings of scenarios for one round each.

use std::collections::HashMap;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use engine::machine::setting::{Setting, SettingGuard};
use engine::measure::trial_commands::{TrialCommands, TrialProcess};
use engine::program::Program;
use engine::scenario::Scenario;

/// A command that changes nothing.
const NO_CHANGE: &str = "true";

/// The settings of the scenarios of a proof, of which at most one is in effect.
pub struct SettingSwitch {
    /// Settings of this process by id of the scenario.
    settings: HashMap<String, Setting>,
    guard: Option<SettingGuard>,
    /// Settings of the user; `None` if there are none.
    commands: Option<CommandSwitch>,
}

/// The settings of the user.
///
/// The start of a command disturbs the caches and the frequency of the CPU just before a round.
/// Therefore each round of every other scenario has a command as well, which changes nothing.
struct CommandSwitch {
    /// Commands by id of the scenario.
    commands: HashMap<String, TrialCommands>,
    no_change: TrialCommands,
    process: TrialProcess,
}

impl SettingSwitch {
    /// Creates a switch. If there are commands, starts the process that runs them.
    ///
    /// # Errors
    ///
    /// Returns an error if that process cannot be started.
    pub fn new(
        settings: HashMap<String, Setting>,
        commands: HashMap<String, TrialCommands>,
    ) -> exit::Result<Self> {
        let commands = match commands.is_empty() {
            true => None,
            false => Some(CommandSwitch::start(commands)?),
        };
        Ok(Self { settings, guard: None, commands })
    }

    /// Applies and restores the setting of each scenario once, and returns the time that this took.
    /// Without commands, it takes no time worth planning for, and is not done.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting cannot be applied or restored.
    pub fn rehearse(&mut self, scenarios: &[Scenario]) -> exit::Result<Duration> {
        if self.commands.is_none() {
            return Ok(Duration::ZERO);
        }
        let start = tach::Instant::now();
        for scenario in scenarios {
            let applied = self.apply(&scenario.id).and_then(|()| self.restore(&scenario.id));
            applied.map_err(|why| Error::measure(format!("nothing was measured: {why}")))?;
        }
        Ok(start.elapsed())
    }

    /// Applies the setting of a scenario. Call [`Self::restore`] afterwards, even after an error.
    ///
    /// # Errors
    ///
    /// Returns the message for the user if that fails.
    pub fn apply(&mut self, id: &str) -> Result<(), String> {
        if let Some(CommandSwitch { commands, no_change, process }) = &mut self.commands {
            process.change(commands.get(id).unwrap_or(no_change))?;
        }
        if let Some(setting) = self.settings.get(id) {
            self.guard = Some(setting.hold().map_err(|error| describe(id, &error))?);
        }
        Ok(())
    }

    /// Restores the setting of a scenario, if it is in effect.
    ///
    /// # Errors
    ///
    /// Returns the message for the user if that fails.
    pub fn restore(&mut self, id: &str) -> Result<(), String> {
        let released = self.guard.take().map_or(Ok(()), SettingGuard::release);
        if let Some(switch) = &mut self.commands {
            switch.process.undo()?;
        }
        released.map_err(|error| describe(id, &error))
    }
}

fn describe(id: &str, error: &std::io::Error) -> String {
    format!("cannot change the setting of {id} any more: {error}")
}

impl CommandSwitch {
    fn start(commands: HashMap<String, TrialCommands>) -> exit::Result<Self> {
        let command = Program::parse(NO_CHANGE).map_err(Error::usage)?;
        let (name, undo) = ("no change".to_owned(), command.clone());
        let no_change = TrialCommands { name, change: command, undo };
        let process = TrialProcess::start().map_err(|error| match error.kind() {
            std::io::ErrorKind::Unsupported => usage!("--try is {error}"),
            _ => Error::measure(format!("cannot start a process that runs --try: {error}")),
        })?;
        Ok(Self { commands, no_change, process })
    }
}
