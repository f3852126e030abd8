//! What the commands say of themselves: which flags are settings, what each accepts, needs and
//! excludes.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::settings::setting::Setting;

/// A command line, with flags that were switched off taken out: `--svg=false`.
pub struct Asked {
    pub words: Vec<OsString>,
    /// The flags that were.
    pub off: Vec<String>,
}

impl Asked {
    pub fn of(command: &Command, built: &Command, words: Vec<OsString>) -> Self {
        let mut asked = Self { words, off: Vec::new() };
        let matches = asked.as_far(command);
        let (_, of, _) = innermost(built, &matches);
        let end = asked.end();
        let mut kept = Vec::new();
        for (at, word) in std::mem::take(&mut asked.words).into_iter().enumerate() {
            let flag = word
                .to_str()
                .filter(|_| at < end)
                .and_then(|w| w.strip_prefix("--")?.split_once('='));
            let flag = flag.filter(|(name, _)| setting(of, name).is_some_and(is_flag));
            match flag {
                Some((name, "false")) => asked.off.push(name.to_owned()),
                Some((name, "true")) => kept.push(format!("--{name}").into()),
                _ => kept.push(word),
            }
        }
        Self { words: kept, ..asked }
    }

    /// Where a program's own arguments begin.
    fn end(&self) -> usize {
        self.words.iter().position(|word| word == "--").unwrap_or(self.words.len())
    }

    /// The words with others added.
    pub fn with(&self, more: impl Iterator<Item = OsString>) -> Vec<OsString> {
        let (flags, program) = self.words.split_at(self.end());
        flags.iter().cloned().chain(more).chain(program.iter().cloned()).collect()
    }

    /// What can be understood of them, whatever is missing or wrong.
    pub fn as_far(&self, command: &Command) -> ArgMatches {
        command.clone().ignore_errors(true).try_get_matches_from(&self.words).unwrap_or_default()
    }
}

/// The command that was asked for, the way to it, and what was given to it.
pub fn innermost<'a>(
    built: &'a Command,
    matches: &'a ArgMatches,
) -> (Vec<String>, &'a Command, &'a ArgMatches) {
    let (mut path, mut of, mut own) = (Vec::new(), built, matches);
    while let Some((name, inner)) = own.subcommand() {
        let Some(command) = of.find_subcommand(name) else { break };
        path.push(name.to_owned());
        (of, own) = (command, inner);
    }
    (path, of, own)
}

/// Whether a file may set an argument.
pub fn is_setting(arg: &Arg) -> bool {
    let action =
        matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue);
    action && arg.get_long().is_some() && !arg.is_hide_set() && !arg.is_global_set()
}

/// The name of an argument that has one.
pub fn long(arg: &Arg) -> &str {
    arg.get_long().unwrap_or_default()
}

/// An argument as people write it.
pub fn name(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.to_string(), |long| format!("--{long}"))
}

pub fn is_flag(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::SetTrue)
}

/// The argument that a key sets.
pub fn setting<'a>(of: &'a Command, key: &str) -> Option<&'a Arg> {
    of.get_arguments().find(|arg| is_setting(arg) && long(arg) == key)
}

/// Whether two arguments exclude each other.
pub fn exclude(of: &Command, one: &Arg, other: &Arg) -> bool {
    let says = |a: &Arg, b: &Arg| {
        of.get_arg_conflicts_with(a).iter().any(|excluded| excluded.get_id() == b.get_id())
    };
    one.get_id() != other.get_id() && (says(one, other) || says(other, one))
}

/// What a command line of this setting alone is refused for.
fn alone(command: &Command, path: &[String], words: Vec<OsString>) -> Option<clap::Error> {
    let line = [OsString::from("osjitter")]
        .into_iter()
        .chain(path.iter().map(OsString::from))
        .chain(words);
    command.clone().try_get_matches_from(line).err()
}

/// Names of the flags without which this setting means nothing.
pub fn needs(command: &Command, path: &[String], setting: &Setting) -> Vec<String> {
    let missing = |words| {
        let error =
            alone(command, path, words).filter(|e| e.kind() == ErrorKind::MissingRequiredArgument);
        match error.as_ref().and_then(|error| error.get(ContextKind::InvalidArg)) {
            Some(ContextValue::Strings(missing)) => missing.clone(),
            Some(ContextValue::String(missing)) => vec![missing.clone()],
            _ => Vec::new(),
        }
    };
    let anyway = missing(Vec::new());
    let added = missing(setting.words()).into_iter().filter(|missing| !anyway.contains(missing));
    // As in `--why`, `--candidate-cmd <COMMAND>`.
    added
        .filter_map(|missing| {
            Some(missing.strip_prefix("--")?.split([' ', '=']).next()?.to_owned())
        })
        .collect()
}

/// Why a flag does not accept a value, if it does not.
pub fn refusal(command: &Command, path: &[String], setting: &Setting) -> Option<String> {
    let error = alone(command, path, setting.words())?;
    match error.kind() {
        // That is about what else there is.
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => None,
        ErrorKind::InvalidValue => {
            let text = |kind| match error.get(kind) {
                Some(ContextValue::String(text)) => text.clone(),
                Some(ContextValue::Strings(texts)) => texts.join(", "),
                _ => String::new(),
            };
            Some(format!(
                "{:?} is none of {}",
                text(ContextKind::InvalidValue),
                text(ContextKind::ValidValue)
            ))
        }
        _ => Some(match std::error::Error::source(&error) {
            Some(source) => source.to_string(),
            None => error.kind().to_string(),
        }),
    }
}
