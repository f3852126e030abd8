//! Reads `osjitter.toml`: a section for each command, a key for each flag.
//!
//! Every error names the line that causes it.

use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueHint};
use cli::exit::{self, usage};
use cli::suggest::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file_io;
use crate::settings::discovery;
use crate::settings::flags::{self, are_exclusive, is_setting, is_switch, long_name};
use crate::settings::setting::{Setting, Value};

/// The size of the largest file of settings. In memory, TOML needs some fifty times its size.
const MAX_FILE_BYTES: usize = 1 << 16;

/// The settings of one command.
pub struct Section {
    /// The names of the command and of those that contain it.
    pub path: Vec<String>,
    pub settings: Vec<Setting>,
}

/// Reads a file and checks every line of it.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large or is not valid TOML, or if it
/// contains an unknown section, an unknown key, an invalid value or settings that exclude each
/// other.
pub fn read(file: &Path, command: &Command, built: &Command) -> exit::Result<Vec<Section>> {
    let name = discovery::display_path(file);
    let text = file_io::read_text(file)?;
    if text.len() > MAX_FILE_BYTES {
        return Err(usage!(
            "{name}: {} KiB; settings have at most {} KiB",
            text.len().div_ceil(1 << 10),
            MAX_FILE_BYTES >> 10
        ));
    }
    let reader = SectionReader {
        name: &name,
        text: &text,
        directory: Path::new(&name).parent().unwrap_or(Path::new("")),
        command,
    };
    let table = DeTable::parse(&text).map_err(|error| {
        let line = error.span().map(|span| reader.line_number(span.start));
        let line = line.map_or(String::new(), |line| format!(":{line}"));
        usage!("{name}{line}: {}", error.message().trim().replace('\n', "; "))
    })?;
    let mut sections = Vec::new();
    reader.read_section(&mut Vec::new(), table.get_ref(), built, &mut sections)?;
    Ok(sections)
}

struct SectionReader<'a> {
    name: &'a str,
    text: &'a str,
    /// The directory of the file, to which its paths are relative.
    directory: &'a Path,
    command: &'a Command,
}

impl SectionReader<'_> {
    fn line_number(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|&&b| b == b'\n').count() + 1
    }

    /// Reads a table and the tables in it.
    fn read_section(
        &self,
        path: &mut Vec<String>,
        table: &DeTable<'_>,
        command: &Command,
        sections: &mut Vec<Section>,
    ) -> exit::Result<()> {
        let mut settings = Vec::new();
        for (key, value) in table {
            let line = self.line_number(key.span().start);
            let (key, location) = (key.get_ref().as_ref(), format!("{}:{line}", self.name));
            if let DeValue::Table(inner) = value.get_ref() {
                let Some(subcommand) = find_subcommand(command, key) else {
                    let why = describe_unknown_section(path, command, key);
                    return Err(usage!("{location}: {why}"));
                };
                path.push(key.to_owned());
                self.read_section(path, inner, subcommand, sections)?;
                path.pop();
                continue;
            }
            let Some(arg) = flags::find_setting(command, key) else {
                return Err(usage!("{location}: {}", describe_unknown_key(path, command, key)));
            };
            let value =
                self.read_value(arg, value).map_err(|e| usage!("{location}: {key}: {e}"))?;
            let setting = Setting { key: key.to_owned(), value, line };
            if let Some(why) = flags::rejection_reason(self.command, path, &setting) {
                return Err(usage!("{location}: {key}: {why}"));
            }
            settings.push(setting);
        }
        settings.sort_by_key(|setting| setting.line);
        self.check_conflicts(command, &settings)?;
        sections.push(Section { path: path.clone(), settings });
        Ok(())
    }

    /// Checks that no two settings of a section exclude each other.
    fn check_conflicts(&self, command: &Command, settings: &[Setting]) -> exit::Result<()> {
        let enabled = settings.iter().filter(|setting| setting.value != Value::Switch(false));
        let args: Vec<(&Arg, &Setting)> =
            enabled.filter_map(|s| Some((flags::find_setting(command, &s.key)?, s))).collect();
        for (index, (arg, setting)) in args.iter().enumerate() {
            let conflict =
                args[..index].iter().find(|(other, _)| are_exclusive(command, arg, other));
            if let Some((_, first)) = conflict {
                return Err(usage!(
                    "{}:{}: {} and {} (line {}) exclude each other; give one",
                    self.name,
                    setting.line,
                    setting.key,
                    first.key,
                    first.line
                ));
            }
        }
        Ok(())
    }

    fn read_value(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
        let accepts_list = matches!(arg.get_action(), ArgAction::Append);
        match value.get_ref() {
            DeValue::Boolean(value) if is_switch(arg) => Ok(Value::Switch(*value)),
            _ if is_switch(arg) => Err("expected true or false".to_owned()),
            DeValue::Array(_) if !accepts_list => Err("expected one value, not a list".to_owned()),
            DeValue::Array(list) if list.is_empty() => {
                Err("expected at least one value; leave the key out for the default".to_owned())
            }
            DeValue::Array(list) => {
                let values = list.iter().map(|value| self.read_scalar(arg, value.get_ref()));
                values.collect::<Result<_, _>>().map(Value::List)
            }
            scalar => self.read_scalar(arg, scalar).map(Value::Scalar),
        }
    }

    /// Converts a value to its text on a command line. Paths are relative to the file's directory.
    fn read_scalar(&self, arg: &Arg, value: &DeValue<'_>) -> Result<String, String> {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| format!("{number} is too large"))?,
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => return Err(format!("expected a value, not {value}")),
            _ => return Err("expected a text or a number".to_owned()),
        };
        let is_path = matches!(
            arg.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        );
        Ok(if is_path { self.directory.join(text).to_string_lossy().into_owned() } else { text })
    }
}

fn find_subcommand<'a>(command: &'a Command, name: &str) -> Option<&'a Command> {
    command.get_subcommands().find(|c| c.get_name() == name && !c.is_hide_set())
}

fn describe_unknown_section(path: &[String], command: &Command, key: &str) -> String {
    let names = command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
    let section = path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
    let suggestion = did_you_mean(key, names);
    format!("unknown section [{section}]; {suggestion}sections have the names of commands")
}

fn describe_unknown_key(path: &[String], command: &Command, key: &str) -> String {
    if path.is_empty() {
        return format!("{key} is in no section; put it below [run], [gate] or another command");
    }
    let keys = command.get_arguments().filter(|arg| is_setting(arg)).map(long_name);
    let suggestion = did_you_mean(key, keys);
    format!(
        "unknown key {key} in [{}]; {suggestion}`osjitter {} --help` lists the flags, whose names are the keys",
        path.join("."),
        path.join(" ")
    )
}
