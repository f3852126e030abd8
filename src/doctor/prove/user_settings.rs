//! Settings of the user: pairs of `--try` and `--undo`.

use std::str::FromStr;

use cli::exit::{self, Error, usage};
use engine::measure::trial_commands::TrialCommands;
use engine::program::{Program, parse_program_name};
use engine::program_error::ProgramError;

/// A command with the name of the setting that it changes: `performance=cpupower ...`.
#[derive(Clone, Debug)]
pub struct NamedCommand {
    name: String,
    program: Program,
}

impl FromStr for NamedCommand {
    type Err = NamedCommandError;

    fn from_str(text: &str) -> Result<Self, NamedCommandError> {
        let Some((name, command)) = text.split_once('=') else {
            return Err(NamedCommandError::MissingName { text: text.to_owned() });
        };
        let name = parse_program_name(name).map_err(NamedCommandError::Part)?;
        let program = Program::parse(command).map_err(NamedCommandError::Part)?;
        Ok(Self { name, program })
    }
}

/// Reason why a text is not a command with a name.
#[derive(Debug, thiserror::Error)]
pub enum NamedCommandError {
    #[error(
        "{text:?} has no name: expected NAME=COMMAND, such as performance=cpupower frequency-set -g performance"
    )]
    MissingName { text: String },
    /// The name or the command is invalid.
    #[error("{0}")]
    Part(#[source] ProgramError),
}

/// Pairs each command with the one that undoes it: the first with the first, and so on.
///
/// # Errors
///
/// Returns an error if a command has no partner, or does not exist.
pub fn pair(changes: &[NamedCommand], undos: &[Program]) -> exit::Result<Vec<TrialCommands>> {
    if let Some(change) = changes.get(undos.len()) {
        return Err(usage!("--try {} has no --undo; give one after each --try", change.name));
    }
    if changes.len() < undos.len() {
        return Err(usage!(
            "{} --undo, but {} --try; give one of each",
            undos.len(),
            changes.len()
        ));
    }
    let mut pairs = Vec::new();
    for (NamedCommand { name, program }, undo) in changes.iter().zip(undos) {
        for command in [program, undo] {
            let exists = command.check_exists();
            exists.map_err(|error| Error::from(error).context(format!("--try {name}")))?;
        }
        let (name, change, undo) = (name.clone(), program.clone(), undo.clone());
        pairs.push(TrialCommands { name, change, undo });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> NamedCommand {
        text.parse().unwrap()
    }

    #[test]
    fn names_end_at_first_sign() {
        let command = named("a-b=env X=1 true");
        assert_eq!((command.name.as_str(), command.program.text()), ("a-b", "env X=1 true"));
        for (text, expected) in [
            ("cpupower frequency-set", "expected NAME=COMMAND"),
            ("cpupower -g x=y", "invalid name"),
            ("=true", "invalid name"),
            ("x=", "empty command"),
            ("x=echo 0 > /sys/y", "sh -c"),
        ] {
            let error = text.parse::<NamedCommand>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn commands_are_paired_in_order() {
        let undo = |text| Program::parse(text).unwrap();
        let pairs = pair(&[named("a=true"), named("b=true")], &[undo("true 1"), undo("true 2")]);
        let pairs = pairs.unwrap();
        let shown = pairs.iter().map(|pair| (pair.name.as_str(), pair.undo.text()));
        assert_eq!(shown.collect::<Vec<_>>(), [("a", "true 1"), ("b", "true 2")]);
        for (changes, undos, expected) in [
            (&[named("a=true"), named("b=true")][..], &[undo("true")][..], "--try b has no --undo"),
            (&[named("a=true")], &[undo("true"), undo("true")], "2 --undo, but 1 --try"),
            (&[named("a=true")], &[undo("/no/such")], "--try a: cannot start /no/such"),
        ] {
            let error = pair(changes, undos).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
