//! Completion of arguments by shells: examples of values, and the scripts.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, Command, ValueHint};
pub use clap_complete::Shell;

/// Parser of an argument of which a shell can complete some values. Others are accepted as well.
#[derive(Clone, Debug)]
pub struct ExampleParser<F> {
    parse: F,
    examples: fn() -> Vec<PossibleValue>,
}

/// Returns a parser of values with these examples for completion.
pub fn with_examples<F, T, E>(parse: F, examples: fn() -> Vec<PossibleValue>) -> ExampleParser<F>
where
    F: Fn(&str) -> Result<T, E>,
{
    ExampleParser { parse, examples }
}

impl<F, T, E> TypedValueParser for ExampleParser<F>
where
    F: Fn(&str) -> Result<T, E> + Clone + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Value = T;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let parse = self.parse.clone();
        StringValueParser::new().try_map(move |text| parse(&text)).parse_ref(cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.examples)().into_iter()))
    }
}

/// Returns values without a description.
pub fn plain_values<'a>(names: impl IntoIterator<Item = &'a &'static str>) -> Vec<PossibleValue> {
    names.into_iter().map(|name| PossibleValue::new(*name)).collect()
}

/// Returns the script that completes the arguments of a command in a shell.
pub fn script(shell: Shell, command: Command, name: &str) -> Vec<u8> {
    let mut command = with_value_hints(command);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    script
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
