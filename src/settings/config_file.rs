//! Reads `osjitter.toml`: a section for each command, a key for each flag.
//!
//! Every error names the line that causes it.

use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, ValueHint};
use cli::exit::{self, usage};
use cli::file_io::{self, TextReader};
use cli::suggest::did_you_mean;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::settings::flags::{
    are_exclusive, find_setting, is_setting, is_switch, long_name, rejection_reason,
};
use crate::settings::open_file::{OpenFile, display_path};

/// The size of the largest file of settings. In memory, TOML needs some fifty times its size.
const MAX_FILE_BYTES: u64 = 1 << 16;

/// A line of the file.
pub struct Setting {
    /// The names of its command and of those that contain it.
    pub section: Vec<String>,
    pub key: String,
    pub value: Value,
    pub line: usize,
    /// The file and the line.
    location: String,
    /// The reason why the command line does not use it, if it does not.
    pub ignored: Option<IgnoreReason>,
}

/// Reason why a setting is not used.
#[derive(Clone, Debug)]
pub enum IgnoreReason {
    OnCommandLine,
    InPlan,
    ExcludedBy { flag: String },
    MissingArgument { argument: String },
}

impl fmt::Display for IgnoreReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnCommandLine => f.write_str("set on the command line"),
            Self::InPlan => f.write_str("overridden by --plan"),
            Self::ExcludedBy { flag } => write!(f, "excluded by {flag}"),
            Self::MissingArgument { argument } => write!(f, "needs {argument}"),
        }
    }
}

/// The value of a setting.
pub enum Value {
    Switch(bool),
    Texts(Vec<String>),
}

/// Reason why a value is not one of its flag.
#[derive(Clone, Debug, thiserror::Error)]
enum ValueError {
    #[error("expected true or false")]
    NoSwitch,
    /// The value is a switch, and the flag is not.
    #[error("expected a value, not {0}")]
    UnexpectedSwitch(bool),
    #[error("expected one value, not a list")]
    SeveralValues,
    #[error("expected at least one value; leave the key out for the default")]
    EmptyList,
    #[error("{number} is too large")]
    TooLarge { number: String },
    #[error("expected a text or a number")]
    NoText,
}

impl Setting {
    /// Converts the setting to words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let key = &self.key;
        match &self.value {
            Value::Switch(true) => vec![format!("--{key}").into()],
            Value::Switch(false) => Vec::new(),
            Value::Texts(texts) => texts.iter().map(|t| format!("--{key}={t}").into()).collect(),
        }
    }

    /// Checks that a flag accepts the value.
    pub fn check_value(&self, arg: &Arg) -> exit::Result<()> {
        let Value::Texts(texts) = &self.value else { return Ok(()) };
        match rejection_reason(arg, texts) {
            Some(reason) => Err(usage!("{}: {}: {reason}", self.location, self.key)),
            None => Ok(()),
        }
    }
}

/// Reads the settings of a file and checks every line of it.
///
/// # Errors
/// Returns an error if the file cannot be read, is too large or is not valid TOML, or if it
/// contains an unknown section, an unknown key, an invalid value or settings that exclude each
/// other.
pub fn read(file: OpenFile, command: &Command) -> exit::Result<Vec<Setting>> {
    let name = display_path(&file.path);
    // A device or a pipe may have no end.
    let reader = TextReader::new(file.opened).map(|reader| reader.take(MAX_FILE_BYTES + 1));
    let bytes = file_io::read_all(reader, &file.path)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(usage!(
            "{name}: is larger than {} KiB, the size of the largest file of settings",
            MAX_FILE_BYTES >> 10
        ));
    }
    let text = file_io::decode(bytes, &file.path)?;
    let directory = Path::new(&name).parent().unwrap_or(Path::new(""));
    let reader = SectionReader { name: &name, text: &text, directory };
    let table = DeTable::parse(&text).map_err(|error| {
        let location = error.span().map_or(name.clone(), |span| reader.location(span.start));
        usage!("{location}: {}", error.message().trim().replace('\n', "; "))
    })?;
    let mut settings = Vec::new();
    reader.read_section(&mut Vec::new(), table.get_ref(), command, &mut settings)?;
    Ok(settings)
}

struct SectionReader<'a> {
    name: &'a str,
    text: &'a str,
    /// The directory of the file, to which its paths are relative.
    directory: &'a Path,
}

impl SectionReader<'_> {
    fn line_number(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        before.iter().filter(|&&b| b == b'\n').count() + 1
    }

    fn location(&self, offset: usize) -> String {
        format!("{}:{}", self.name, self.line_number(offset))
    }

    /// Reads a table and the tables in it.
    fn read_section(
        &self,
        path: &mut Vec<String>,
        table: &DeTable<'_>,
        command: &Command,
        settings: &mut Vec<Setting>,
    ) -> exit::Result<()> {
        let mut section = Vec::new();
        for (key, value) in table {
            let DeValue::Table(inner) = value.get_ref() else {
                section.push(self.read_setting(path, key, value, command)?);
                continue;
            };
            let is_named = |c: &&Command| c.get_name() == key.get_ref() && !c.is_hide_set();
            let Some(subcommand) = command.get_subcommands().find(is_named) else {
                let why = describe_unknown_section(path, command, key.get_ref());
                return Err(usage!("{}: {why}", self.location(key.span().start)));
            };
            path.push(key.get_ref().to_string());
            self.read_section(path, inner, subcommand, settings)?;
            path.pop();
        }
        section.sort_by_key(|setting| setting.line);
        check_conflicts(command, &section)?;
        settings.append(&mut section);
        Ok(())
    }

    fn read_setting(
        &self,
        path: &[String],
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        command: &Command,
    ) -> exit::Result<Setting> {
        let location = self.location(key.span().start);
        let Some(arg) = find_setting(command, key.get_ref()) else {
            let why = describe_unknown_key(path, command, key.get_ref());
            return Err(usage!("{location}: {why}"));
        };
        let value = self.read_value(arg, value.get_ref());
        let setting = Setting {
            section: path.to_vec(),
            key: key.get_ref().to_string(),
            value: value.map_err(|why| usage!("{location}: {}: {why}", key.get_ref()))?,
            line: self.line_number(key.span().start),
            location,
            ignored: None,
        };
        setting.check_value(arg)?;
        Ok(setting)
    }

    fn read_value(&self, arg: &Arg, value: &DeValue<'_>) -> Result<Value, ValueError> {
        let accepts_list = matches!(arg.get_action(), ArgAction::Append);
        match value {
            DeValue::Boolean(value) if is_switch(arg) => Ok(Value::Switch(*value)),
            _ if is_switch(arg) => Err(ValueError::NoSwitch),
            DeValue::Array(_) if !accepts_list => Err(ValueError::SeveralValues),
            DeValue::Array(list) if list.is_empty() => Err(ValueError::EmptyList),
            DeValue::Array(list) => {
                let texts = list.iter().map(|value| self.read_scalar(arg, value.get_ref()));
                texts.collect::<Result<_, _>>().map(Value::Texts)
            }
            scalar => Ok(Value::Texts(vec![self.read_scalar(arg, scalar)?])),
        }
    }

    /// Converts a value to its text on a command line. Paths are relative to the file's directory.
    fn read_scalar(&self, arg: &Arg, value: &DeValue<'_>) -> Result<String, ValueError> {
        let text = match value {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
                .map(|number| number.to_string())
                .map_err(|_| ValueError::TooLarge { number: number.to_string() })?,
            DeValue::Float(number) => number.as_str().to_owned(),
            DeValue::Boolean(value) => return Err(ValueError::UnexpectedSwitch(*value)),
            _ => return Err(ValueError::NoText),
        };
        let is_path = matches!(
            arg.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        );
        Ok(if is_path { self.directory.join(text).to_string_lossy().into_owned() } else { text })
    }
}

/// Checks that no two settings of a section exclude each other.
fn check_conflicts(command: &Command, settings: &[Setting]) -> exit::Result<()> {
    let enabled = settings.iter().filter(|s| !matches!(s.value, Value::Switch(false)));
    let args: Vec<(&Arg, &Setting)> =
        enabled.filter_map(|s| Some((find_setting(command, &s.key)?, s))).collect();
    for (index, (arg, setting)) in args.iter().enumerate() {
        let mut earlier = args[..index].iter();
        if let Some((_, first)) = earlier.find(|(other, _)| are_exclusive(command, arg, other)) {
            let Setting { location, key, .. } = setting;
            let first = format!("{} (line {})", first.key, first.line);
            return Err(usage!("{location}: {key} and {first} exclude each other; give one"));
        }
    }
    Ok(())
}

fn describe_unknown_section(path: &[String], command: &Command, key: &str) -> String {
    let names = command.get_subcommands().filter(|c| !c.is_hide_set()).map(Command::get_name);
    let section = path.iter().map(String::as_str).chain([key]).collect::<Vec<_>>().join(".");
    let suggestion = did_you_mean(key, names);
    format!("unknown section [{section}]; {suggestion}sections have the names of commands")
}

fn describe_unknown_key(path: &[String], command: &Command, key: &str) -> String {
    if path.is_empty() {
        return format!(
            "{key} is outside any section; put it below [run], [gate] or another command"
        );
    }
    let section = path.join(".");
    if command.get_arguments().any(|arg| long_name(arg) == key && !arg.is_hide_set()) {
        return format!(
            "invalid key {key} in [{section}]: --{key} is given on the command line only"
        );
    }
    let keys = command.get_arguments().filter(|arg| is_setting(arg)).map(long_name);
    let suggestion = did_you_mean(key, keys);
    format!(
        "unknown key {key} in [{section}]; {suggestion}`osjitter {} --help` lists the flags, whose names are the keys",
        path.join(" ")
    )
}
