//! The file: a section for each command, a key for each flag. Each place is known, so that whatever
//! is wrong is named by line.

use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueHint};
use cli::exit::{self, usage};
use cli::suggest::did_you_mean;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::file_io;
use crate::settings::commands::{self, exclude, is_flag, is_setting, long};
use crate::settings::place;
use crate::settings::setting::{Setting, Value};

/// A larger file is none of settings: in memory it becomes some fifty times its size.
const MAX_FILE_BYTES: usize = 1 << 16;

/// What the file says of one command.
pub struct Section {
    /// The words of the command.
    pub path: Vec<String>,
    pub settings: Vec<Setting>,
}

/// Reads a file and holds every line of it against the commands.
pub fn read(file: &Path, command: &Command, built: &Command) -> exit::Result<Vec<Section>> {
    let name = place::shown(file);
    let text = file_io::read_text(file)?;
    if text.len() > MAX_FILE_BYTES {
        return Err(usage!(
            "{name}: {} KiB; settings have at most {} KiB",
            text.len().div_ceil(1 << 10),
            MAX_FILE_BYTES >> 10
        ));
    }
    let line = |at: usize| {
        text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
    };
    let table = DeTable::parse(&text).map_err(|error| {
        let place = error.span().map_or(String::new(), |span| format!(":{}", line(span.start)));
        usage!("{name}{place}: {}", error.message().trim().replace('\n', "; "))
    })?;
    let directory = Path::new(&name).parent().unwrap_or(Path::new(""));
    let reader = Reader { name: &name, directory, command, line: &line };
    let mut sections = Vec::new();
    reader.section(&mut Vec::new(), table.get_ref(), built, &mut sections)?;
    Ok(sections)
}

struct Reader<'a> {
    name: &'a str,
    /// Where the file is: its paths start there.
    directory: &'a Path,
    command: &'a Command,
    line: &'a dyn Fn(usize) -> usize,
}

impl Reader<'_> {
    fn section(
        &self,
        path: &mut Vec<String>,
        table: &DeTable<'_>,
        of: &Command,
        sections: &mut Vec<Section>,
    ) -> exit::Result<()> {
        let mut settings = Vec::new();
        for (key, value) in table {
            let (line, key) = ((self.line)(key.span().start), key.get_ref().as_ref());
            let place = format!("{}:{line}", self.name);
            if let DeValue::Table(inner) = value.get_ref() {
                let Some(command) =
                    of.get_subcommands().find(|c| c.get_name() == key && !c.is_hide_set())
                else {
                    return Err(usage!("{place}: {}", self.no_command(path, of, key)));
                };
                path.push(key.to_owned());
                self.section(path, inner, command, sections)?;
                path.pop();
                continue;
            }
            let Some(arg) = commands::setting(of, key) else {
                return Err(usage!("{place}: {}", no_key(path, of, key)));
            };
            let value = self.value(arg, value).map_err(|e| usage!("{place}: {key}: {e}"))?;
            let setting = Setting { key: key.to_owned(), value, line };
            if let Some(why) = commands::refusal(self.command, path, &setting) {
                return Err(usage!("{place}: {key}: {why}"));
            }
            settings.push(setting);
        }
        settings.sort_by_key(|setting| setting.line);
        self.agree(of, &settings)?;
        sections.push(Section { path: path.clone(), settings });
        Ok(())
    }

    /// No two settings of a section exclude each other.
    fn agree(&self, of: &Command, settings: &[Setting]) -> exit::Result<()> {
        let said = |setting: &&Setting| setting.value != Value::Flag(false);
        let args: Vec<(&Arg, &Setting)> = settings
            .iter()
            .filter(said)
            .filter_map(|s| Some((commands::setting(of, &s.key)?, s)))
            .collect();
        for (at, (arg, setting)) in args.iter().enumerate() {
            if let Some((_, first)) = args[..at].iter().find(|(other, _)| exclude(of, arg, other)) {
                let [key, other, line] = [&setting.key, &first.key, &first.line.to_string()];
                return Err(usage!(
                    "{}:{}: {key} and {other} (line {line}) exclude each other; give one",
                    self.name,
                    setting.line
                ));
            }
        }
        Ok(())
    }

    fn value(&self, arg: &Arg, value: &Spanned<DeValue<'_>>) -> Result<Value, String> {
        let several = matches!(arg.get_action(), ArgAction::Append);
        match value.get_ref() {
            DeValue::Boolean(value) if is_flag(arg) => Ok(Value::Flag(*value)),
            _ if is_flag(arg) => Err("is true or false".to_owned()),
            DeValue::Array(_) if !several => Err("takes one value, not a list".to_owned()),
            DeValue::Array(list) if list.is_empty() => {
                Err("an empty list says nothing; leave the key out".to_owned())
            }
            DeValue::Array(list) => list
                .iter()
                .map(|v| self.one(arg, v.get_ref()))
                .collect::<Result<_, _>>()
                .map(Value::Several),
            one => self.one(arg, one).map(Value::One),
        }
    }

    /// A value as a command line would have it. Paths start where the file is.
    fn one(&self, arg: &Arg, value: &DeValue<'_>) -> Result<String, String> {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| format!("{number} is too large"))?,
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => return Err(format!("takes a value, not {value}")),
            _ => return Err("takes a text or a number".to_owned()),
        };
        let is_path = matches!(
            arg.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        );
        Ok(if is_path { self.directory.join(text).to_string_lossy().into_owned() } else { text })
    }

    fn no_command(&self, path: &[String], of: &Command, key: &str) -> String {
        let names = of.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
        let full = path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
        format!(
            "there is no command for [{full}]; {}sections are named as commands are",
            did_you_mean(key, names)
        )
    }
}

fn no_key(path: &[String], of: &Command, key: &str) -> String {
    if path.is_empty() {
        return format!("{key} is in no section; put it below [run], [gate] or another command");
    }
    let keys = of.get_arguments().filter(|arg| is_setting(arg)).map(long);
    let near = did_you_mean(key, keys);
    format!(
        "[{}] has no key {key}; {near}`osjitter {} --help` lists the flags, and keys are their names",
        path.join("."),
        path.join(" ")
    )
}
