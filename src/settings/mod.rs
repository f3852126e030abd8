//! Reads `osjitter.toml`, the defaults of a project.
//!
//! Values of the file become arguments before the command line is parsed, so they are accepted and
//! rejected like flags.

mod config_file;
mod discovery;
mod flags;
mod listing;
mod setting;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use cli::exit::{self, ExitStatus};

use crate::settings::config_file::Section;
use crate::settings::flags::{RawArgs, SelectedCommand, long_name};
use crate::settings::listing::{ListingSources, SettingsListing};
use crate::settings::setting::{FilteredSettings, IgnoredSetting, Setting, Value};
use crate::terminal;

/// The arguments of every command that select the file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings of the project")]
pub struct SettingsArgs {
    /// Take defaults from this file [default: osjitter.toml here or above, as far as the repository
    /// or home reaches]
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Take defaults from no file
    #[arg(long, global = true, conflicts_with = "config")]
    pub no_config: bool,
    /// Print each setting of this command and where it comes from, and do nothing else
    #[arg(long, global = true)]
    pub print_config: bool,
}

/// An argument that names another file which defines some settings completely, so that these are
/// not taken from the project.
pub struct PlanOverride {
    pub command: &'static str,
    /// The argument that names the file.
    pub flag: &'static str,
    /// The settings that the file defines.
    pub settings: &'static [&'static str],
}

/// The request of a command line.
pub enum Request {
    /// Run a command with these arguments.
    Command(Box<ArgMatches>),
    /// `--print-config`, which is already done.
    PrintConfig(ExitStatus),
}

/// Reads a command line together with the settings of the project.
///
/// Ends the process for help, for the version, and for errors of the command line alone.
///
/// # Errors
/// Returns an error if the file of settings is missing or invalid.
pub fn read(
    command: &Command,
    words: Vec<OsString>,
    overrides: &[PlanOverride],
) -> exit::Result<Request> {
    let mut built = command.clone();
    built.build();
    let args = RawArgs::new(command, &built, words);
    let (typed, error) = parse_typed(command, &args);
    let selected = SelectedCommand::find(&built, &typed);
    if selected.command.is_hide_set() {
        let matches = error.map_or(typed.clone(), |error| error.exit());
        return Ok(Request::Command(Box::new(matches)));
    }
    let file = discovery::find(selected.matches)?;
    let sections = match &file {
        Some(file) => config_file::read(file, command, &built)?,
        None => Vec::new(),
    };
    let filter = SettingFilter { root: command, selected: &selected, off: &args.off, overrides };
    let settings = filter.apply(settings_for(&sections, &selected));
    let words = args.with_flags(settings.used.iter().flat_map(|setting| setting.words()));
    let complete = command.clone().try_get_matches_from(&words);
    if selected.matches.get_flag("print_config") {
        let args = RawArgs { words, off: args.off };
        let effective = complete.unwrap_or_else(|_| args.parse_leniently(command));
        let sources = ListingSources {
            typed: &selected,
            effective: SelectedCommand::find(&built, &effective).matches,
            off: &args.off,
            file: file.as_deref(),
            settings: &settings,
        };
        return SettingsListing::new(&sources).print().map(Request::PrintConfig);
    }
    let complete = complete.unwrap_or_else(|error| error.exit());
    let effective = SelectedCommand::find(&built, &complete).matches;
    if let Some(file) = file.filter(|_| !settings.used.is_empty()) {
        announce_settings(&file, &settings, is_quiet(effective));
    }
    Ok(Request::Command(Box::new(complete)))
}

/// Parses the command line without the file. Returns the error if a required argument is missing,
/// which may still come from the file.
fn parse_typed(command: &Command, args: &RawArgs) -> (ArgMatches, Option<clap::Error>) {
    match command.clone().try_get_matches_from(&args.words) {
        Ok(typed) => (typed, None),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            (args.parse_leniently(command), Some(error))
        }
        Err(error) => error.exit(),
    }
}

fn announce_settings(file: &Path, settings: &FilteredSettings<'_>, quiet: bool) {
    let keys: Vec<&str> = settings.used.iter().map(|setting| setting.key.as_str()).collect();
    let (file, keys) = (discovery::display_path(file), keys.join(", "));
    terminal::note(quiet, &format!("using {file}: {keys} (disable with --no-config)"));
}

fn is_quiet(matches: &ArgMatches) -> bool {
    matches.try_get_one::<bool>("quiet").ok().flatten().copied().unwrap_or(false)
}

/// Returns the settings of a command: those of its section, and those of the sections that contain
/// it if the command has the same flag.
fn settings_for<'a>(sections: &'a [Section], selected: &SelectedCommand<'_>) -> Vec<&'a Setting> {
    let SelectedCommand { path, command, .. } = selected;
    let mut settings: Vec<&Setting> = Vec::new();
    for depth in (1..=path.len()).rev() {
        let enclosing = sections.iter().filter(|section| section.path[..] == path[..depth]);
        for setting in enclosing.flat_map(|section| &section.settings) {
            let is_set = settings.iter().any(|inner| inner.key == setting.key);
            if !is_set && flags::find_setting(command, &setting.key).is_some() {
                settings.push(setting);
            }
        }
    }
    settings
}

/// Decides which settings are used with a command line.
struct SettingFilter<'a> {
    root: &'a Command,
    selected: &'a SelectedCommand<'a>,
    /// The switches that the command line turns off.
    off: &'a [String],
    overrides: &'a [PlanOverride],
}

impl SettingFilter<'_> {
    /// Ignores settings that the command line contains, excludes or overrides, and those that
    /// require a missing argument.
    fn apply<'s>(&self, settings: Vec<&'s Setting>) -> FilteredSettings<'s> {
        let typed: Vec<&Arg> =
            self.selected.command.get_arguments().filter(|arg| self.is_typed(arg)).collect();
        let (mut used, mut ignored) = (Vec::new(), Vec::new());
        for setting in settings {
            match self.ignore_reason(setting, &typed) {
                Some(reason) => ignored.push(IgnoredSetting { setting, reason }),
                None => used.push(setting),
            }
        }
        // A setting can require another one, so removing one may make others unusable.
        while let Some((index, flag)) = self.find_unmet(&used, &typed) {
            let reason = format!("needs --{flag}");
            ignored.push(IgnoredSetting { setting: used.remove(index), reason });
        }
        FilteredSettings { used, ignored }
    }

    fn is_typed(&self, arg: &Arg) -> bool {
        let source = self.selected.matches.value_source(arg.get_id().as_str());
        source == Some(ValueSource::CommandLine) || self.off.iter().any(|n| n == long_name(arg))
    }

    fn ignore_reason(&self, setting: &Setting, typed: &[&Arg]) -> Option<String> {
        let SelectedCommand { path, command, .. } = self.selected;
        let arg = flags::find_setting(command, &setting.key)
            .expect("the file was checked when it was read");
        let is_named = |name: &str| typed.iter().any(|arg| long_name(arg) == name);
        if is_named(&setting.key) {
            return Some("set on the command line".to_owned());
        }
        let applies = |o: &&PlanOverride| {
            *path == [o.command] && is_named(o.flag) && o.settings.contains(&setting.key.as_str())
        };
        if let Some(plan) = self.overrides.iter().find(applies) {
            return Some(format!("overridden by --{}", plan.flag));
        }
        let excluded = typed.iter().find(|other| flags::are_exclusive(command, arg, other));
        excluded.map(|other| format!("excluded by {}", flags::display_name(other)))
    }

    /// Finds a setting that requires a missing flag, and the flag.
    fn find_unmet(&self, used: &[&Setting], typed: &[&Arg]) -> Option<(usize, String)> {
        let is_set = |s: &&Setting, name: &str| s.key == name && s.value != Value::Switch(false);
        let is_present = |name: &str| {
            typed.iter().any(|arg| long_name(arg) == name) || used.iter().any(|s| is_set(s, name))
        };
        used.iter().enumerate().find_map(|(index, setting)| {
            let required = flags::required_flags(self.root, &self.selected.path, setting);
            Some((index, required.into_iter().find(|name| !is_present(name))?))
        })
    }
}
