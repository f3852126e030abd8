//! `osjitter completions`: prints the completion script of a shell.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Arg, Command, ValueHint};
use cli::exit::{Error, ExitStatus, Result};

/// Prints the script.
pub fn run(shell: clap_complete::Shell, command: Command) -> Result<ExitStatus> {
    let mut command = with_value_hints(command);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "osjitter", &mut script);
    std::io::stdout().write_all(&script).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}

/// States what the values of options are, as far as their parsers do not: a shell offers files for
/// values of an unknown kind, even for numbers.
fn with_value_hints(command: Command) -> Command {
    command.mut_args(with_value_hint).mut_subcommands(with_value_hints)
}

fn with_value_hint(argument: Arg) -> Arg {
    let is_unknown = argument.get_value_hint() == ValueHint::Unknown;
    if argument.is_positional() || !argument.get_action().takes_values() || !is_unknown {
        return argument;
    }
    let name = argument.get_value_names().and_then(|names| names.first()).map(|name| name.as_str());
    // A limit has too many values to list; examples show its form.
    let examples: &[&'static str] = match name {
        Some("NAME=LIMIT") => &["p99=100us", "missed=0.1%", "cpu=10%"],
        Some("PATH=VALUE") => &["p99=200us", "missed=0.1%", "cpu_ns_per_tick=9us"],
        Some("[NAME:]LIMIT") => &["p99=2ms", "max=20ms", "missed=1%"],
        _ => &[],
    };
    if !examples.is_empty() {
        return argument.value_parser(PossibleValuesParser::new(examples));
    }
    let hint = match name {
        Some("COMMAND") => ValueHint::CommandString,
        Some("FILE" | "PATH") => ValueHint::AnyPath,
        Some("DIR") => ValueHint::DirPath,
        _ => ValueHint::Other,
    };
    argument.value_hint(hint)
}
