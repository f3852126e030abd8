//! Metadata of the flags: which are settings, which values they accept, and which others they
//! exclude.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};

/// The flags that are given for one command, not for all of a project: those that permit it to do
/// what it would refuse, or to discard results, and the one that hides which settings are used.
const NO_SETTINGS: [&str; 3] = ["force", "replace", "quiet"];

/// Whether a file may set an argument.
pub fn is_setting(arg: &Arg) -> bool {
    let has_value =
        matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue);
    let long = arg.get_long().filter(|name| !NO_SETTINGS.contains(name));
    has_value && long.is_some() && !arg.is_hide_set() && !arg.is_global_set()
}

/// The name of a flag, or an empty string for a positional argument.
pub fn long_name(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

/// The name of an argument on a command line.
pub fn display_name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.to_string(), |long| format!("--{long}"))
}

/// Whether an argument is a flag without a value.
pub fn is_switch(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// Finds the argument that a key sets.
pub fn find_setting<'a>(command: &'a Command, key: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| is_setting(arg) && long_name(arg) == key)
}

/// Whether two arguments exclude each other.
pub fn are_exclusive(command: &Command, first: &Arg, second: &Arg) -> bool {
    let conflicts = |a: &Arg, b: &Arg| {
        command.get_arg_conflicts_with(a).iter().any(|excluded| excluded.get_id() == b.get_id())
    };
    first.get_id() != second.get_id() && (conflicts(first, second) || conflicts(second, first))
}

/// Returns the reason why a flag does not accept one of the values, if it does not.
pub fn rejection_reason(arg: &Arg, values: &[String]) -> Option<String> {
    // No other argument can be missing or in conflict.
    let alone = Arg::new("value")
        .long("value")
        .action(ArgAction::Append)
        .value_parser(arg.get_value_parser().clone());
    let words = values.iter().map(|value| OsString::from(format!("--value={value}")));
    let command = Command::new("setting").no_binary_name(true).arg(alone);
    let error = command.try_get_matches_from(words).err()?;
    if error.kind() == ErrorKind::InvalidValue {
        let value = context_text(&error, ContextKind::InvalidValue);
        return Some(match context_text(&error, ContextKind::ValidValue).as_str() {
            // A flag for any path or text rejects only this value.
            "" => format!("invalid value {value:?}: expected at least one character"),
            valid => format!("unknown value {value:?}: expected {valid}"),
        });
    }
    let source = std::error::Error::source(&error).map(ToString::to_string);
    Some(source.unwrap_or_else(|| error.kind().to_string()))
}

/// Returns a detail of an error, or an empty string if it has none.
pub fn context_text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}
