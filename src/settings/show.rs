//! `--print-config`: each setting of a command, and where it comes from.

use std::io::Write;
use std::path::Path;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use cli::exit::{Error, ExitStatus, Result};
use cli::printable::to_printable;

use crate::file_io::model;
use crate::settings::commands::{is_flag, is_setting, long};
use crate::settings::place::shown;
use crate::settings::setting::{Setting, Unused, Value};

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Nobody has set it.
    Default,
    /// The file of the project.
    File,
    /// The command line, which beats the file.
    CommandLine,
}

model! {
    /// The settings of a command, as `--print-config --format json` prints them.
    pub struct Shown {
        /// `osjitter.settings/1`.
        pub schema: String,
        /// The command, as in `gate baseline add`.
        pub command: String,
        /// The file they were read from; null without one.
        pub file: Option<String>,
        /// Each flag of the command.
        pub settings: Vec<Line>,
    }

    /// A setting.
    pub struct Line {
        /// The name of its flag.
        pub key: String,
        /// The value that holds, one or several as on a command line, `true` or `false` for a
        /// switch; empty where the command chooses.
        pub values: Vec<String>,
        /// Whether it is a switch.
        pub switch: bool,
        /// Where that comes from.
        pub source: Source,
        /// What the command chooses where nobody does, as its help says.
        pub default: Option<String>,
        /// Where the file has it.
        pub line: Option<usize>,
        /// Why the line of the file is not used, if it is not.
        pub unused: Option<String>,
    }
}

impl Shown {
    /// By what was typed alone, and by that and the file.
    pub fn new(
        path: &[String],
        file: Option<&Path>,
        of: &Command,
        [typed, all]: [&ArgMatches; 2],
        off: &[String],
        (used, unused): (&[&Setting], &[Unused<'_>]),
    ) -> Self {
        let line = |arg: &Arg| {
            let by_file = used.iter().find(|s| s.key == long(arg));
            let left_out = unused.iter().find(|u| u.setting.key == long(arg));
            let is_off = off.iter().any(|name| name == long(arg));
            let is_typed = is_off
                || typed.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine);
            let source = match by_file {
                Some(_) => Source::File,
                None if is_typed => Source::CommandLine,
                None => Source::Default,
            };
            Line {
                key: long(arg).to_owned(),
                values: values(arg, all, by_file.copied()),
                switch: is_flag(arg),
                source,
                default: default(arg),
                line: by_file.map(|s| s.line).or(left_out.map(|u| u.setting.line)),
                unused: left_out.map(|u| u.why.clone()),
            }
        };
        Self {
            schema: "osjitter.settings/1".to_owned(),
            command: path.join(" "),
            file: file.map(shown),
            settings: of.get_arguments().filter(|arg| is_setting(arg)).map(line).collect(),
        }
    }

    /// In the format that the command itself was asked for.
    pub fn print(&self) -> Result<ExitStatus> {
        let is_json = self.settings.iter().any(|s| s.key == "format" && s.values == ["json"]);
        let text = match is_json {
            true => serde_json::to_string_pretty(self).expect("plain data") + "\n",
            false => to_printable(&self.text()),
        };
        std::io::stdout().write_all(text.as_bytes()).map_err(Error::from_stdout)?;
        Ok(ExitStatus::Done)
    }

    /// As a section of the file, which it may become.
    fn text(&self) -> String {
        let none = || "no osjitter.toml".to_owned();
        let heading = format!(
            "# osjitter {}, with {}\n",
            self.command,
            self.file.clone().unwrap_or_else(none)
        );
        let lines: Vec<[String; 2]> = self.settings.iter().map(|line| self.line(line)).collect();
        let width = lines
            .iter()
            .map(|[left, _]| left.chars().count())
            .filter(|&n| n < 40)
            .max()
            .unwrap_or(0);
        let section = format!("[{}]\n", self.command.replace(' ', "."));
        lines.iter().fold(heading + &section, |text, [left, right]| {
            format!("{text}{left:width$}  # {right}\n")
        })
    }

    /// What the file would say, and where it comes from.
    fn line(&self, line: &Line) -> [String; 2] {
        let quoted = |value: &String| toml::Value::from(value.clone()).to_string();
        let value = match line.values.as_slice() {
            [] => None,
            [one] if line.switch => Some(one.clone()),
            [one] => Some(quoted(one)),
            several => {
                Some(format!("[{}]", several.iter().map(quoted).collect::<Vec<_>>().join(", ")))
            }
        };
        let place = |at: usize| format!("{}:{at}", self.file.as_deref().unwrap_or_default());
        let source = match (line.source, line.line) {
            (Source::File, at) => at.map_or("the file".to_owned(), place),
            (Source::CommandLine, _) => "command line".to_owned(),
            (Source::Default, _) => match &line.default {
                Some(default) if value.is_none() => format!("default: {default}"),
                _ => "default".to_owned(),
            },
        };
        let unused = match (&line.unused, line.line) {
            (Some(why), Some(at)) => format!("; {} is not used: {why}", place(at)),
            _ => String::new(),
        };
        let left = match value {
            Some(value) => format!("{} = {value}", line.key),
            None => format!("# {}", line.key),
        };
        [left, source + &unused]
    }
}

/// What holds, as a command line would say it.
fn values(arg: &Arg, all: &ArgMatches, by_file: Option<&Setting>) -> Vec<String> {
    match by_file.map(|setting| &setting.value) {
        Some(Value::Flag(flag)) => vec![flag.to_string()],
        _ if is_flag(arg) => vec![all.get_flag(arg.get_id().as_str()).to_string()],
        _ => match all.try_get_raw(arg.get_id().as_str()) {
            Ok(Some(values)) => values.map(|value| value.to_string_lossy().into_owned()).collect(),
            _ => Vec::new(),
        },
    }
}

/// What is in effect where nobody says anything: known to the parser, or in words at the end of the
/// help.
fn default(arg: &Arg) -> Option<String> {
    if is_flag(arg) {
        return None;
    }
    let known = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy().into_owned())
        .collect::<Vec<_>>();
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let words = help
        .rsplit_once("[default: ")
        .and_then(|(_, rest)| Some(rest.split_once(']')?.0.to_owned()));
    words.or_else(|| (!known.is_empty()).then(|| known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schema_is_of_this_model() {
        let schema = serde_json::to_value(schemars::schema_for!(Shown)).unwrap();
        crate::file_io::check_schema("osjitter.settings.1.json", &schema);
    }
}
