//! `--print-config`: lists each setting of a command with its source.

use std::path::Path;

use clap::{Arg, ArgMatches};
use cli::exit::{ExitStatus, Result};
use cli::file_io;
use cli::printable::to_printable;
use files::file::to_indented_json;

use crate::settings::command_line::{CommandLine, SelectedCommand};
use crate::settings::config_file::Setting;
use crate::settings::flags::{is_setting, is_switch, long_name};
use crate::settings::open_file::display_path;

/// The source of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Not set anywhere.
    Default,
    /// The file of the project.
    File,
    /// The command line, which takes precedence over the file.
    CommandLine,
}

files::model! {
    /// The settings of a command, as `--print-config --format json` prints them.
    #[serde(rename = "Shown")]
    pub struct SettingsListing {
        /// `osjitter.settings/1`.
        pub schema: String,
        /// The command, such as `gate baseline add`.
        pub command: String,
        /// The file from which they were read; null without one.
        pub file: Option<String>,
        /// Each flag of the command.
        pub settings: Vec<ListedSetting>,
    }

    /// A setting.
    #[serde(rename = "Line")]
    pub struct ListedSetting {
        /// The name of its flag.
        pub key: String,
        /// The effective values, as on a command line, or `true` or `false` for a switch; empty if
        /// the command chooses.
        pub values: Vec<String>,
        /// Whether it is a switch.
        pub switch: bool,
        /// The source of the values.
        pub source: Source,
        /// The default, as the help states it.
        pub default: Option<String>,
        /// The line of the file that contains it.
        pub line: Option<usize>,
        /// Why the line of the file is not used, if it is not.
        pub unused: Option<String>,
    }
}

/// The inputs of a listing.
pub struct ListingSources<'a> {
    /// The arguments of the command line alone.
    pub line: &'a CommandLine<'a>,
    /// The arguments of the command line and the file.
    pub effective: &'a ArgMatches,
    pub file: Option<&'a Path>,
    pub settings: &'a [Setting],
}

impl ListingSources<'_> {
    fn list(&self, arg: &Arg) -> ListedSetting {
        let key = long_name(arg);
        let setting = self.settings.iter().find(|setting| setting.key == key);
        let unused = setting.and_then(|setting| setting.ignored.as_ref());
        let source = match setting {
            Some(_) if unused.is_none() => Source::File,
            _ if self.line.has(arg) => Source::CommandLine,
            _ => Source::Default,
        };
        let values = self.effective.try_get_raw(arg.get_id().as_str()).ok().flatten();
        let values = values.into_iter().flatten().map(|value| value.to_string_lossy().into_owned());
        ListedSetting {
            key: key.to_owned(),
            values: values.collect(),
            switch: is_switch(arg),
            source,
            default: default(arg),
            line: setting.map(|setting| setting.line),
            unused: unused.map(ToString::to_string),
        }
    }
}

/// A line of the printed section: a setting, and the comment after it.
struct SectionLine {
    setting: String,
    comment: String,
}

impl SettingsListing {
    pub fn new(selected: &SelectedCommand<'_>, sources: &ListingSources<'_>) -> Self {
        let settings = selected.command.get_arguments().filter(|arg| is_setting(arg));
        Self {
            schema: "osjitter.settings/1".to_owned(),
            command: selected.path.join(" "),
            file: sources.file.map(display_path),
            settings: settings.map(|arg| sources.list(arg)).collect(),
        }
    }

    /// Prints the listing in the format that is selected for the command.
    pub fn print(&self) -> Result<ExitStatus> {
        let is_json = self.settings.iter().any(|s| s.key == "format" && s.values == ["json"]);
        let text = match is_json {
            true => to_indented_json(self),
            false => to_printable(&self.format_section()),
        };
        file_io::write_output(text, None)?;
        Ok(ExitStatus::Done)
    }

    /// Formats the listing as a section that can be put into a file of settings.
    fn format_section(&self) -> String {
        let file = self.file.as_deref().unwrap_or("no osjitter.toml");
        let command = &self.command;
        let heading =
            format!("# osjitter {command}, with {file}\n[{}]\n", command.replace(' ', "."));
        let lines: Vec<SectionLine> = self.settings.iter().map(|s| self.section_line(s)).collect();
        let widths = lines.iter().map(|line| line.setting.chars().count());
        let width = widths.filter(|&n| n < 40).max().unwrap_or(0);
        lines.iter().fold(heading, |text, SectionLine { setting, comment }| {
            format!("{text}{setting:width$}  # {comment}\n")
        })
    }

    fn section_line(&self, setting: &ListedSetting) -> SectionLine {
        let value = format_values(setting);
        let location = |line: usize| format!("{}:{line}", self.file.as_deref().unwrap_or_default());
        let source = match (setting.source, setting.line) {
            (Source::File, line) => line.map_or("the file".to_owned(), location),
            (Source::CommandLine, _) => "command line".to_owned(),
            (Source::Default, _) => match &setting.default {
                Some(default) if value.is_none() => format!("default: {default}"),
                _ => "default".to_owned(),
            },
        };
        let ignored = match (&setting.unused, setting.line) {
            (Some(reason), Some(line)) => format!("; {} is not used: {reason}", location(line)),
            _ => String::new(),
        };
        let text = match value {
            Some(value) => format!("{} = {value}", setting.key),
            None => format!("# {}", setting.key),
        };
        SectionLine { setting: text, comment: source + &ignored }
    }
}

/// Formats the values of a setting as TOML, if it has any.
fn format_values(setting: &ListedSetting) -> Option<String> {
    let quote = |value: &String| toml::Value::from(value.clone()).to_string();
    match setting.values.as_slice() {
        [] => None,
        [value] if setting.switch => Some(value.clone()),
        [value] => Some(quote(value)),
        values => Some(format!("[{}]", values.iter().map(quote).collect::<Vec<_>>().join(", "))),
    }
}

/// Returns the default of an argument: the one stated at the end of its help, or that of the
/// parser.
fn default(arg: &Arg) -> Option<String> {
    if is_switch(arg) {
        return None;
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some((text, _)) =
        help.rsplit_once("[default: ").and_then(|(_, rest)| rest.split_once(']'))
    {
        return Some(text.to_owned());
    }
    let values = arg.get_default_values().iter();
    let values: Vec<_> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    if !values.is_empty() { Some(values.join(", ")) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(SettingsListing)).unwrap();
        files::model::check_schema("osjitter.settings.1.json", &schema);
    }
}
