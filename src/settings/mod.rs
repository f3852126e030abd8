//! Reads `osjitter.toml`, the defaults of a project.
//!
//! Settings that the command line does not exclude become flags at its end, so they are accepted
//! and rejected like flags, and an argument can require one of them.

mod command_line;
pub mod config_file;
mod discovery;
mod flags;
mod listing;
pub mod open_file;
#[cfg(unix)]
mod ownership;

use std::cmp::Reverse;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Arg, ArgMatches, Command};
use cli::exit::{self, ExitStatus};
use cli::terminal;

pub use crate::settings::command_line::exit_with;
use crate::settings::command_line::{CommandLine, SelectedCommand, innermost};
use crate::settings::config_file::{IgnoreReason, Setting};
use crate::settings::flags::{are_exclusive, display_name, find_setting, long_name};
use crate::settings::listing::{ListingSources, SettingsListing};
use crate::settings::open_file::display_path;

/// The arguments of every command that select the file.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Settings of the project")]
pub struct SettingsArgs {
    /// Read defaults from this file [default: the nearest osjitter.toml in this or a parent
    /// directory, up to the repository or home]
    #[arg(long, global = true, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Ignore osjitter.toml
    #[arg(long, global = true, conflicts_with = "config")]
    pub no_config: bool,
    /// Print the settings of this command and their sources, then exit
    #[arg(long, global = true)]
    pub print_config: bool,
}

/// The keys of the settings that this process uses.
static USED_KEYS: OnceLock<Vec<String>> = OnceLock::new();

/// Returns whether a flag such as `--histogram` comes from the file. A default of a project is no
/// mistake if a format or a kind of file has no use for it.
pub fn is_from_file(flag: &str) -> bool {
    let key = flag.trim_start_matches('-');
    USED_KEYS.get().is_some_and(|keys| keys.iter().any(|used| used == key))
}

/// The keys that flags of the command line exclude, each with the flag.
static EXCLUDED_KEYS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// Returns the flag of the command line that excludes the value of a flag in the file.
pub fn excluding_flag(flag: &str) -> Option<&'static str> {
    let key = flag.trim_start_matches('-');
    let excluded = EXCLUDED_KEYS.get()?.iter().find(|(excluded, _)| excluded == key);
    excluded.map(|(_, by)| by.as_str())
}

/// The request of a command line.
pub enum Request {
    /// Run a command with these arguments.
    Command(Box<ArgMatches>),
    /// `--print-config`, which is already done.
    PrintConfig(ExitStatus),
}

/// Reads a command line together with the settings of the project. With a plan, the settings
/// `plan_keys` are not taken from the project.
///
/// Ends the process for help, for the version, and for errors of the command line alone.
///
/// # Errors
/// Returns an error if the file of settings is missing or invalid.
pub fn read(command: &Command, words: Vec<OsString>, plan_keys: &[&str]) -> exit::Result<Request> {
    let mut built = command.clone();
    built.build();
    let line = CommandLine::parse(command, words);
    let selected = SelectedCommand::find(&built, &line.matches);
    let typed = innermost(&line.matches);
    let file = match selected.command.is_hide_set() {
        true => None,
        false => discovery::find(typed)?,
    };
    let path = file.as_ref().map(|file| file.path.clone());
    let mut settings = match file {
        Some(file) => select_settings(config_file::read(file, &built)?, &selected)?,
        None => Vec::new(),
    };
    let command = selected.command;
    let is_used = |setting: &Setting| ignore_reason(setting, command, &line, &[]).is_none();
    // The plan may be named by the file as well.
    let has_plan = settings.iter().any(|setting| setting.key == "plan" && is_used(setting))
        || command.get_arguments().any(|arg| long_name(arg) == "plan" && line.has(arg));
    let plan_keys = if has_plan { plan_keys } else { &[] };
    for setting in &mut settings {
        setting.ignored = ignore_reason(setting, command, &line, plan_keys);
    }
    let complete = line.complete(&mut settings);
    if typed.get_flag("print_config") {
        let effective = complete.unwrap_or_else(|_| line.parse_leniently(&settings));
        let (effective, file) = (innermost(&effective), path.as_deref());
        let sources = ListingSources { line: &line, effective, file, settings: &settings };
        return SettingsListing::new(&selected, &sources).print().map(Request::PrintConfig);
    }
    let complete = complete.unwrap_or_else(|error| exit_with(&error));
    let excluded = settings.iter().filter_map(|setting| match &setting.ignored {
        Some(IgnoreReason::ExcludedBy { flag }) => Some((setting.key.clone(), flag.clone())),
        _ => None,
    });
    EXCLUDED_KEYS.get_or_init(|| excluded.collect());
    let used = settings.iter().filter(|setting| setting.ignored.is_none());
    let keys = USED_KEYS.get_or_init(|| used.map(|setting| setting.key.clone()).collect());
    if let Some(path) = path.filter(|_| !keys.is_empty()) {
        let quiet = innermost(&complete).try_get_one::<bool>("quiet");
        let (file, list) = (display_path(&path), keys.join(", "));
        let message = format!("using {file}: {list} (disable with --no-config)");
        terminal::note(matches!(quiet, Ok(Some(true))), &message);
    }
    Ok(Request::Command(Box::new(complete)))
}

/// Returns the settings of a command: those of its section, and those of the sections that contain
/// it if the command has the same flag.
fn select_settings(
    mut settings: Vec<Setting>,
    selected: &SelectedCommand<'_>,
) -> exit::Result<Vec<Setting>> {
    settings.sort_by_key(|setting| (Reverse(setting.section.len()), setting.line));
    let mut inherited: Vec<Setting> = Vec::new();
    for setting in settings {
        let is_set = inherited.iter().any(|inner| inner.key == setting.key);
        if selected.path.starts_with(&setting.section)
            && let Some(arg) = find_setting(selected.command, &setting.key)
            && !is_set
        {
            // The flag of an inner command can accept fewer values.
            setting.check_value(arg)?;
            inherited.push(setting);
        }
    }
    Ok(inherited)
}

/// Returns the reason why a setting is not used: the command line contains or excludes it, or a
/// plan defines its key.
fn ignore_reason(
    setting: &Setting,
    command: &Command,
    line: &CommandLine<'_>,
    plan_keys: &[&str],
) -> Option<IgnoreReason> {
    let arg = find_setting(command, &setting.key)?;
    if line.has(arg) {
        return Some(IgnoreReason::OnCommandLine);
    }
    if plan_keys.contains(&setting.key.as_str()) {
        return Some(IgnoreReason::InPlan);
    }
    let typed: Vec<&Arg> = command.get_arguments().filter(|arg| line.has(arg)).collect();
    let excluded = typed.iter().find(|other| are_exclusive(command, arg, other));
    excluded.map(|other| IgnoreReason::ExcludedBy { flag: display_name(other) })
}
