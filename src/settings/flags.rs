//! Metadata of the flags: which are settings, which values they accept, and which others they
//! require or exclude.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::setting::Setting;

/// The words of a command line, without switches that are given a value, such as `--svg=false`.
pub struct RawArgs {
    pub words: Vec<OsString>,
    /// The switches that were turned off.
    pub off: Vec<String>,
}

impl RawArgs {
    /// Splits `--svg=false` and `--svg=true` off, which the parser does not accept.
    pub fn new(command: &Command, built: &Command, words: Vec<OsString>) -> Self {
        let mut args = Self { words, off: Vec::new() };
        let matches = args.parse_leniently(command);
        let selected = SelectedCommand::find(built, &matches);
        let end = args.program_start();
        let mut words = Vec::new();
        for (index, word) in std::mem::take(&mut args.words).into_iter().enumerate() {
            let text = word.to_str().filter(|_| index < end);
            let assignment = text.and_then(|text| text.strip_prefix("--")?.split_once('='));
            let is_known = |name| find_setting(selected.command, name).is_some_and(is_switch);
            match assignment.filter(|(name, _)| is_known(name)) {
                Some((name, "false")) => args.off.push(name.to_owned()),
                Some((name, "true")) => words.push(format!("--{name}").into()),
                _ => words.push(word),
            }
        }
        Self { words, ..args }
    }

    /// The index at which the arguments of a measured program begin.
    fn program_start(&self) -> usize {
        self.words.iter().position(|word| word == "--").unwrap_or(self.words.len())
    }

    /// Returns the words with flags added.
    pub fn with_flags(&self, added: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let (flags, program) = self.words.split_at(self.program_start());
        flags.iter().cloned().chain(added).chain(program.iter().cloned()).collect()
    }

    /// Parses as much as possible, and ignores missing and wrong arguments.
    pub fn parse_leniently(&self, command: &Command) -> ArgMatches {
        command.clone().ignore_errors(true).try_get_matches_from(&self.words).unwrap_or_default()
    }
}

/// The innermost command of a command line.
pub struct SelectedCommand<'a> {
    /// The names of the command and of those that contain it, from the outside in.
    pub path: Vec<String>,
    pub command: &'a Command,
    /// The arguments of the command.
    pub matches: &'a ArgMatches,
}

impl<'a> SelectedCommand<'a> {
    pub fn find(built: &'a Command, matches: &'a ArgMatches) -> Self {
        let mut selected = Self { path: Vec::new(), command: built, matches };
        while let Some((name, matches)) = selected.matches.subcommand() {
            let Some(command) = selected.command.find_subcommand(name) else { break };
            selected.path.push(name.to_owned());
            (selected.command, selected.matches) = (command, matches);
        }
        selected
    }
}

/// Whether a file may set an argument.
pub fn is_setting(arg: &Arg) -> bool {
    let has_value =
        matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue);
    has_value && arg.get_long().is_some() && !arg.is_hide_set() && !arg.is_global_set()
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

/// Returns the error of a command line that has only these words, if there is one.
fn parse_error(command: &Command, path: &[String], words: Vec<OsString>) -> Option<clap::Error> {
    let names = path.iter().map(OsString::from);
    let line = std::iter::once(OsString::from("osjitter")).chain(names).chain(words);
    command.clone().try_get_matches_from(line).err()
}

/// Returns the names of the flags that a setting requires.
pub fn required_flags(command: &Command, path: &[String], setting: &Setting) -> Vec<String> {
    let always = missing_arguments(command, path, Vec::new());
    let with_setting = missing_arguments(command, path, setting.words());
    let added = with_setting.into_iter().filter(|missing| !always.contains(missing));
    // An entry has the form `--why` or `--candidate-cmd <COMMAND>`.
    added
        .filter_map(|missing| {
            Some(missing.strip_prefix("--")?.split([' ', '=']).next()?.to_owned())
        })
        .collect()
}

fn missing_arguments(command: &Command, path: &[String], words: Vec<OsString>) -> Vec<String> {
    let error = parse_error(command, path, words);
    let missing = error.filter(|e| e.kind() == ErrorKind::MissingRequiredArgument);
    match missing.as_ref().and_then(|error| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::Strings(missing)) => missing.clone(),
        Some(ContextValue::String(missing)) => vec![missing.clone()],
        _ => Vec::new(),
    }
}

/// Returns the reason why a flag does not accept the value of a setting, if it does not.
pub fn rejection_reason(command: &Command, path: &[String], setting: &Setting) -> Option<String> {
    let error = parse_error(command, path, setting.words())?;
    match error.kind() {
        // These errors concern other arguments.
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => None,
        ErrorKind::InvalidValue => Some(format!(
            "unknown value {:?}: expected {}",
            context_text(&error, ContextKind::InvalidValue),
            context_text(&error, ContextKind::ValidValue)
        )),
        kind => Some(match std::error::Error::source(&error) {
            Some(source) => source.to_string(),
            None => kind.to_string(),
        }),
    }
}

fn context_text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        _ => String::new(),
    }
}
