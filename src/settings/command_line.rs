//! The command line, and the settings that complete it.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::slice;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use cli::exit::Error;
use cli::terminal;

use crate::settings::config_file::{IgnoreReason, Setting};
use crate::settings::flags::{context_text, display_name};

/// A command line without the file.
pub struct CommandLine<'a> {
    command: &'a Command,
    /// The words, without the values of switches.
    words: Vec<OsString>,
    /// The switches that are turned off, as by `--svg=false`.
    off: Vec<String>,
    pub matches: ArgMatches,
    /// The missing arguments, which may still come from the file.
    missing: Vec<String>,
}

/// Prints help, the version or an error of the command line, and ends the process. Unlike
/// [`clap::Error::exit`], it reports that help cannot be printed.
#[allow(clippy::exit, reason = "the parser ends the process as well")]
pub fn exit_with(error: &clap::Error) -> ! {
    let printed = error.print().and_then(|()| io::stdout().flush());
    let code = match printed {
        Err(unprinted) if !error.use_stderr() => {
            let unprinted = Error::from_stdout(unprinted);
            terminal::failure(&unprinted);
            unprinted.code().into()
        }
        _ => error.exit_code(),
    };
    std::process::exit(code)
}

impl<'a> CommandLine<'a> {
    /// Parses the words. Ends the process for help, for the version, and for errors except missing
    /// arguments.
    pub fn parse(command: &'a Command, words: Vec<OsString>) -> Self {
        let (off, missing, matches) = (Vec::new(), Vec::new(), ArgMatches::default());
        let mut line = Self { command, words, off, matches, missing };
        let mut parsed = line.parse_with(&[]);
        while let Err(error) = &parsed
            && (line.split_switch(error) || line.expand_json(error))
        {
            parsed = line.parse_with(&[]);
        }
        line.matches = match parsed {
            Ok(matches) => matches,
            Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
                line.missing = missing_arguments(&error);
                line.parse_leniently(&[])
            }
            Err(error) => exit_with(&line.with_program_tip(line.with_format_tip(error))),
        };
        line
    }

    /// Splits off the value of a switch, as in `--svg=false`, if the parser has rejected one.
    fn split_switch(&mut self, error: &clap::Error) -> bool {
        let flag = context_text(error, ContextKind::InvalidArg);
        let value = context_text(error, ContextKind::InvalidValue);
        let rejected = OsString::from(format!("{flag}={value}"));
        match (self.words.iter().position(|word| *word == rejected), value.as_str()) {
            (Some(index), "true") => self.words[index] = flag.into(),
            (Some(index), "false") => {
                self.words.remove(index);
                self.off.push(flag);
            }
            _ => return false,
        }
        true
    }

    /// Replaces `--json` by `--format=json` if the parser does not know it, and the command has
    /// that format.
    fn expand_json(&mut self, error: &clap::Error) -> bool {
        let index = self.words.iter().position(|word| word == "--json");
        match index.filter(|_| self.unknown_format(error).as_deref() == Some("json")) {
            Some(index) => {
                self.words[index] = "--format=json".into();
                true
            }
            None => false,
        }
    }

    /// Returns the format of the selected command after which an unknown flag is named.
    fn unknown_format(&self, error: &clap::Error) -> Option<String> {
        let flag = context_text(error, ContextKind::InvalidArg);
        let name = flag.trim_start_matches('-');
        let is_format = error.kind() == ErrorKind::UnknownArgument
            && self.with_selected(|selected| offers_format(selected, name));
        is_format.then(|| name.to_owned())
    }

    fn with_selected<T>(&self, read: impl FnOnce(&Command) -> T) -> T {
        let mut built = self.command.clone();
        built.build();
        let matches = self.parse_leniently(&[]);
        read(SelectedCommand::find(&built, &matches).command)
    }

    /// Adds a tip to the error about an unknown flag that is the name of a format, such as `--svg`.
    fn with_format_tip(&self, mut error: clap::Error) -> clap::Error {
        if let Some(name) = self.unknown_format(&error) {
            // A file for a single picture, and a directory for several.
            let has_flag = |arg: &Arg| arg.get_long() == Some("out");
            let has_out = self.with_selected(|selected| selected.get_arguments().any(has_flag));
            let out = if name == "svg" && has_out { " --out PATH" } else { "" };
            let tip = format!("use '--format {name}{out}'").into();
            error.remove(ContextKind::SuggestedArg);
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        } else if error.kind() == ErrorKind::UnknownArgument {
            // The advice to write the flag behind `--`, where it would be a file or a program.
            error.remove(ContextKind::Suggested);
        }
        error
    }

    /// Adds a tip to the error about a program at a place where the selected command does not
    /// expect one.
    fn with_program_tip(&self, mut error: clap::Error) -> clap::Error {
        let flag_or_word = context_text(&error, ContextKind::InvalidArg);
        let is_program = match error.kind() {
            ErrorKind::InvalidSubcommand => error.get(ContextKind::SuggestedSubcommand).is_none(),
            ErrorKind::UnknownArgument => {
                let is_flag = flag_or_word.starts_with('-');
                !is_flag || ["--cmd", "--command", "--program"].contains(&flag_or_word.as_str())
            }
            // A word after options is taken for a subcommand that conflicts with them.
            ErrorKind::ArgumentConflict => {
                let word = context_text(&error, ContextKind::InvalidSubcommand);
                !word.is_empty()
                    && self.with_selected(|selected| selected.find_subcommand(&word).is_none())
            }
            _ => false,
        };
        let usage = self.with_selected(|selected| {
            let takes_two = |arg: &Arg| arg.get_long() == Some("candidate-cmd");
            if selected.get_arguments().any(takes_two) {
                Some("--base-cmd OLD --candidate-cmd NEW")
            } else if selected.get_positionals().any(Arg::is_last_set) {
                Some("-- PROGRAM")
            } else {
                None
            }
        });
        if let Some(usage) = usage.filter(|_| is_program) {
            let tip = format!("programs are given as '{usage}'").into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
        error
    }

    /// Whether an argument of the selected command is on the command line.
    pub fn has(&self, arg: &Arg) -> bool {
        let source = innermost(&self.matches).value_source(arg.get_id().as_str());
        source == Some(ValueSource::CommandLine) || self.off.contains(&display_name(arg))
    }

    /// Parses the line together with the settings that are not ignored. Ignores those that require
    /// a missing argument.
    pub fn complete(&self, settings: &mut [Setting]) -> Result<ArgMatches, clap::Error> {
        let mut complete = self.parse_with(settings);
        // A setting can require another one, so ignoring one may make others unusable.
        while let Err(error) = &complete
            && let Some((index, argument)) = self.find_unusable(settings, error)
        {
            settings[index].ignored = Some(IgnoreReason::MissingArgument { argument });
            complete = self.parse_with(settings);
        }
        complete
    }

    /// Finds a setting that requires an argument that an error reports as missing.
    fn find_unusable(&self, settings: &[Setting], error: &clap::Error) -> Option<(usize, String)> {
        let missing = missing_arguments(error);
        let is_missing = |arg: &String| missing.contains(arg) && !self.missing.contains(arg);
        settings.iter().enumerate().find_map(|(index, setting)| {
            let required = missing_arguments(&self.parse_with(slice::from_ref(setting)).err()?);
            Some((index, required.into_iter().find(is_missing)?))
        })
    }

    fn parse_with(&self, settings: &[Setting]) -> Result<ArgMatches, clap::Error> {
        self.command.clone().try_get_matches_from(self.words_with(settings))
    }

    /// Parses as much as possible, and ignores missing arguments.
    pub fn parse_leniently(&self, settings: &[Setting]) -> ArgMatches {
        let command = self.command.clone().ignore_errors(true);
        command.try_get_matches_from(self.words_with(settings)).unwrap_or_default()
    }

    /// Returns the words with the settings, which come before the arguments of a measured program.
    fn words_with(&self, settings: &[Setting]) -> Vec<OsString> {
        let end = self.words.iter().position(|word| word == "--").unwrap_or(self.words.len());
        let used = settings.iter().filter(|setting| setting.ignored.is_none());
        let mut words = self.words.clone();
        words.splice(end..end, used.flat_map(Setting::words));
        words
    }
}

/// Whether a command has a format with this name.
fn offers_format(command: &Command, name: &str) -> bool {
    let format = command.get_arguments().find(|arg| arg.get_long() == Some("format"));
    let formats = format.map(Arg::get_possible_values).unwrap_or_default();
    formats.iter().any(|format| format.get_name() == name)
}

/// Returns the names of the arguments that an error reports as missing.
fn missing_arguments(error: &clap::Error) -> Vec<String> {
    // An argument has the form `--why` or `--calibration <FILE>`; one of a group is in brackets.
    let name = |argument: &String| {
        let name = argument.trim_start_matches('<').split([' ', '>']).next();
        name.unwrap_or_default().to_owned()
    };
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::MissingRequiredArgument, Some(ContextValue::Strings(missing))) => {
            missing.iter().map(name).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the arguments of the innermost command.
pub fn innermost(mut matches: &ArgMatches) -> &ArgMatches {
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches
}

/// The innermost command of a command line.
pub struct SelectedCommand<'a> {
    /// The names of the command and of those that contain it, from the outside in.
    pub path: Vec<String>,
    pub command: &'a Command,
}

impl<'a> SelectedCommand<'a> {
    pub fn find(built: &'a Command, mut matches: &ArgMatches) -> Self {
        let mut selected = Self { path: Vec::new(), command: built };
        while let Some((name, inner)) = matches.subcommand()
            && let Some(command) = selected.command.find_subcommand(name)
        {
            selected.path.push(name.to_owned());
            (selected.command, matches) = (command, inner);
        }
        selected
    }
}
