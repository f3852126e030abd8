//! `osjitter.toml`: what a project has settled for all who measure it. Its values become arguments,
//! before the command line is read: whatever a flag accepts, refuses or excludes holds for them
//! too.

mod commands;
mod file;
mod place;
mod setting;
mod show;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use cli::exit::{self, ExitStatus};

use crate::settings::commands::{Asked, is_setting, long};
use crate::settings::file::Section;
use crate::settings::setting::{Setting, Unused, Value};
use crate::terminal;

/// Where to look for settings, on every command.
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

/// What another file says of a command in full: where an argument names one, these settings of the
/// project are not used.
pub struct Stated {
    pub command: &'static str,
    pub by: &'static str,
    pub settings: &'static [&'static str],
}

/// What a command line came to.
pub enum Line {
    Run(Box<ArgMatches>),
    Answered(ExitStatus),
}

/// Reads a command line together with the settings of the project. What is wrong with the command
/// line alone ends the process, as do help and version.
pub fn read(command: &Command, words: Vec<OsString>, stated: &[Stated]) -> exit::Result<Line> {
    let mut built = command.clone();
    built.build();
    let asked = Asked::of(command, &built, words);
    let (typed, incomplete) = match command.clone().try_get_matches_from(&asked.words) {
        Ok(typed) => (typed, None),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            (asked.as_far(command), Some(error))
        }
        Err(error) => error.exit(),
    };
    let (path, of, own) = commands::innermost(&built, &typed);
    if of.is_hide_set() {
        return Ok(Line::Run(Box::new(incomplete.map_or(typed.clone(), |error| error.exit()))));
    }
    let file = place::find(own)?;
    let sections = match &file {
        Some(file) => file::read(file, command, &built)?,
        None => Vec::new(),
    };
    let settings = of_command(&sections, &path, of);
    let (used, unused) = sort_out(settings, command, of, &path, own, &asked.off, stated);
    let words = asked.with(used.iter().flat_map(|setting| setting.words()));
    let complete = command.clone().try_get_matches_from(&words);
    if own.get_flag("print_config") {
        let asked = Asked { words, off: asked.off };
        let all = complete.unwrap_or_else(|_| asked.as_far(command));
        let (_, _, all) = commands::innermost(&built, &all);
        let shown =
            show::Shown::new(&path, file.as_deref(), of, [own, all], &asked.off, (&used, &unused));
        return shown.print().map(Line::Answered);
    }
    let complete = complete.unwrap_or_else(|error| error.exit());
    let (_, _, all) = commands::innermost(&built, &complete);
    if let (Some(file), false) = (&file, used.is_empty() || quiet(all)) {
        let keys: Vec<&str> = used.iter().map(|setting| setting.key.as_str()).collect();
        terminal::note(
            false,
            &format!(
                "settings: {} ({}); --no-config leaves it out",
                place::shown(file),
                keys.join(", ")
            ),
        );
    }
    Ok(Line::Run(Box::new(complete)))
}

fn quiet(matches: &ArgMatches) -> bool {
    matches.try_get_one::<bool>("quiet").ok().flatten().copied().unwrap_or(false)
}

/// The settings of a command: of its own section, and of those it stands in as far as it has the
/// same flag.
fn of_command<'a>(sections: &'a [Section], path: &[String], of: &Command) -> Vec<&'a Setting> {
    let mut settings: Vec<&Setting> = Vec::new();
    for depth in (1..=path.len()).rev() {
        for setting in
            sections.iter().filter(|s| s.path[..] == path[..depth]).flat_map(|s| &s.settings)
        {
            let known = settings.iter().any(|inner| inner.key == setting.key);
            if !known && of.get_arguments().any(|arg| is_setting(arg) && long(arg) == setting.key) {
                settings.push(setting);
            }
        }
    }
    settings
}

/// Which settings are used beside what was typed: not what was typed itself, nor what it excludes,
/// nor what needs something that is not there.
fn sort_out<'a>(
    settings: Vec<&'a Setting>,
    command: &Command,
    of: &Command,
    path: &[String],
    typed: &ArgMatches,
    off: &[String],
    stated: &[Stated],
) -> (Vec<&'a Setting>, Vec<Unused<'a>>) {
    let is_typed = |arg: &Arg| {
        typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine)
            || off.contains(&long(arg).to_owned())
    };
    let typed: Vec<&Arg> = of.get_arguments().filter(|arg| is_typed(arg)).collect();
    let named = |name: &str| typed.iter().any(|arg| long(arg) == name);
    let (mut used, mut unused) = (Vec::new(), Vec::new());
    for setting in settings {
        let arg = commands::setting(of, &setting.key).expect("it was checked when it was read");
        let file = stated
            .iter()
            .find(|s| path == [s.command] && named(s.by) && s.settings.contains(&long(arg)));
        let excluded = typed.iter().find(|other| commands::exclude(of, arg, other));
        let why = match (named(long(arg)), file, excluded) {
            (true, ..) => Some("the command line has it".to_owned()),
            (_, Some(stated), _) => Some(format!("--{} says it", stated.by)),
            (.., Some(other)) => Some(format!("excluded by {}", commands::name(other))),
            _ => None,
        };
        match why {
            Some(why) => unused.push(Unused { setting, why }),
            None => used.push(setting),
        }
    }
    // What one setting needs may be another one that was left out.
    loop {
        let there = |name: &str| {
            named(name)
                || used.iter().any(|s: &&Setting| s.key == name && s.value != Value::Flag(false))
        };
        let lacking = used.iter().enumerate().find_map(|(at, setting)| {
            let lacks =
                commands::needs(command, path, setting).into_iter().find(|name| !there(name))?;
            Some((at, lacks))
        });
        let Some((at, lacks)) = lacking else { return (used, unused) };
        unused.push(Unused { setting: used.remove(at), why: format!("needs --{lacks}") });
    }
}
