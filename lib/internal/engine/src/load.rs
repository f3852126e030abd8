//! Loads that run during a measurement.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::TypedValueParser;
use cli::units;

use crate::load_error::LoadError;
use cli::completion::{plain_values, with_examples};

/// The load of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    None,
    /// A process of osjitter.
    Stress(Stress),
    /// Tasks on the runtime of the subject.
    Tasks(TaskLoad),
    /// A command line of the user.
    Command(String),
}

/// The work of a stress process, and its number of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stress {
    pub kind: StressKind,
    pub threads: usize,
}

/// Resource that a stress process uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StressKind {
    Cpu,
    Memory,
    Io,
    Softirq,
}

/// Tasks that repeatedly occupy their worker for the time `hold` and then yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskLoad {
    pub count: u32,
    pub hold: Duration,
}

/// Line that a stress process writes to standard output when all its threads are ready.
pub const READY_LINE: &str = "ready\n";

const STRESS_KINDS: [(&str, StressKind); 4] = [
    ("cpu", StressKind::Cpu),
    ("memory", StressKind::Memory),
    ("io", StressKind::Io),
    ("softirq", StressKind::Softirq),
];
/// Maximum number of threads. A larger number is probably a typing error.
const MAX_THREADS: usize = 1_024;
const MAX_TASKS: u32 = 100_000;
/// Maximum time for which a task occupies its worker. A longer time looks like a hang.
const MAX_HOLD: Duration = Duration::from_secs(1);

impl Load {
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// Returns the tasks, if this is a load of tasks.
    pub fn tasks(&self) -> Option<TaskLoad> {
        if let Self::Tasks(tasks) = self { Some(*tasks) } else { None }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Stress(stress) => stress.fmt(f),
            Self::Tasks(TaskLoad { count, hold }) => {
                write!(f, "tasks:{count}x{}", units::format_exact_duration(*hold))
            }
            Self::Command(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            STRESS_KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "{name}:{}", self.threads)
    }
}

impl FromStr for Load {
    type Err = LoadError;

    /// Parses `none`, `cpu:2` or `tasks:100x50us`. Any other text is a command.
    fn from_str(text: &str) -> Result<Self, LoadError> {
        let trimmed = text.trim_matches(' ');
        let (name, detail) =
            trimmed.split_once(':').map_or((trimmed, None), |(name, detail)| (name, Some(detail)));
        match (name, detail) {
            ("none", None) => Ok(Self::None),
            ("tasks", Some(detail)) => parse_tasks(detail).map(Self::Tasks),
            ("tasks", None) => Err(LoadError::NoTasks),
            _ if STRESS_KINDS.iter().any(|(known, _)| *known == name) => {
                trimmed.parse().map(Self::Stress)
            }
            _ => parse_command(text).map(Self::Command),
        }
    }
}

impl FromStr for Stress {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        let (name, threads) = match text.split_once(':') {
            Some((name, threads)) => (name, Some(threads)),
            None => (text, None),
        };
        let Some((_, kind)) = STRESS_KINDS.iter().find(|(known, _)| *known == name) else {
            return Err(LoadError::UnknownStress(text.to_owned()));
        };
        let threads = match threads {
            Some(threads) => parse_threads(name, threads)?,
            // A thread for each usable CPU. A single thread is enough for resources that CPUs
            // share.
            None if *kind == StressKind::Cpu => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
            None => 1,
        };
        Ok(Self { kind: *kind, threads })
    }
}

/// Returns the parser of an argument with a load.
pub fn load_parser() -> impl TypedValueParser<Value = Load> {
    let examples = || plain_values(&["none", "cpu", "memory", "io", "softirq"]);
    with_examples(|text: &str| text.parse(), examples)
}

/// Parses the number of threads of a load.
fn parse_threads(load: &str, text: &str) -> Result<usize, LoadError> {
    match text.parse() {
        Ok(threads @ 1..=MAX_THREADS) => Ok(threads),
        _ => Err(LoadError::InvalidThreads {
            load: load.to_owned(),
            threads: text.to_owned(),
            max: MAX_THREADS,
        }),
    }
}

/// Parses `100x50us`.
fn parse_tasks(text: &str) -> Result<TaskLoad, LoadError> {
    let invalid = || LoadError::InvalidTasks(text.to_owned());
    let (count, hold) = text.split_once('x').ok_or_else(invalid)?;
    let count = count.parse().ok().filter(|n| (1..=MAX_TASKS).contains(n)).ok_or_else(invalid)?;
    let hold = units::parse_duration_within("a hold", hold, Duration::from_nanos(100)..=MAX_HOLD)
        .map_err(LoadError::InvalidHold)?;
    Ok(TaskLoad { count, hold })
}

/// Parses a command line that is valid in an id, a title and a plan.
fn parse_command(text: &str) -> Result<String, LoadError> {
    if text.chars().any(char::is_control) {
        return Err(LoadError::ControlCharacter);
    }
    match shlex::split(text) {
        None => Err(LoadError::OpenQuote { command: text.to_owned() }),
        Some(words) if words.is_empty() => Err(LoadError::Empty),
        // A space at the end can be escaped, and other white space does not separate words in a
        // shell.
        Some(words) => {
            let trimmed = text.trim_matches(' ');
            let is_equal = shlex::split(trimmed).is_some_and(|trimmed| trimmed == words);
            Ok(if is_equal { trimmed } else { text.trim_start_matches(' ') }.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_parse_back() {
        for text in [
            "none", "cpu:2", "memory:1", "io:3", "softirq:1", "tasks:100x50us",
            "stress-ng --vm 1 'a b'", "ends-in\\ ", "\u{202f}",
        ] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        assert_eq!("memory".parse::<Load>().unwrap().to_string(), "memory:1");
        assert_eq!(" cpu:2 ".parse::<Load>(), "cpu:2".parse(), "a stress load, not a command");
        assert!(matches!(
            "cpu".parse(),
            Ok(Load::Stress(Stress { kind: StressKind::Cpu, threads: 1.. }))
        ));
        assert_eq!(
            "./cpu".parse::<Load>(),
            Ok(Load::Command("./cpu".to_owned())),
            "a path is a command"
        );
    }

    #[test]
    fn invalid_loads_are_rejected() {
        for (text, expected) in [
            ("cpu:0", "cpu:2"),
            ("cpu:9999", "1 to 1024"),
            ("io:x", "io:2"),
            ("tasks", "tasks:100x50us"),
            ("tasks:100", "tasks:100x50us"),
            ("tasks:0x50us", "tasks:100x50us"),
            ("tasks:1x50", "no unit"),
            ("tasks:1x2s", "1s"),
            ("", "is empty"),
            ("sh -c 'x", "open quote"),
            ("a\nb", "one line"),
        ] {
            let error = text.parse::<Load>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
