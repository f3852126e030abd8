//! What may run beside a subject while it is measured.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use cli::units;

/// One load; a scenario has exactly one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Load {
    #[default]
    None,
    /// A process of our own.
    Stress(Stress),
    /// Tasks on the subject's own runtime.
    Tasks(Tasks),
    /// A command line of the user's.
    Command(String),
}

/// What a process of our own does, on so many threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stress {
    pub kind: StressKind,
    pub threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StressKind {
    Cpu,
    Memory,
    Io,
    Softirq,
}

/// Tasks that each hold their worker for a time and then yield, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tasks {
    pub count: u32,
    pub hold: Duration,
}

/// What a process of ours writes to stdout as soon as all its threads have what they need.
pub const READY_LINE: &str = "ready\n";

const KINDS: [(&str, StressKind); 4] = [
    ("cpu", StressKind::Cpu),
    ("memory", StressKind::Memory),
    ("io", StressKind::Io),
    ("softirq", StressKind::Softirq),
];
/// More threads than this are a slip of the keyboard.
const MAX_THREADS: usize = 1_024;
const MAX_TASKS: u32 = 100_000;
/// A worker held for longer than this is a program that hangs.
const MAX_HOLD: Duration = Duration::from_secs(1);

impl Load {
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }

    /// The tasks, where it is made of tasks.
    pub fn tasks(&self) -> Option<Tasks> {
        if let Self::Tasks(tasks) = self { Some(*tasks) } else { None }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Stress(stress) => stress.fmt(f),
            Self::Tasks(Tasks { count, hold }) => {
                write!(f, "tasks:{count}x{}", units::format_exact_duration(*hold))
            }
            Self::Command(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Stress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KINDS.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        write!(f, "{name}:{}", self.threads)
    }
}

impl FromStr for Load {
    type Err = String;

    /// Reads `none`, `cpu:2`, `tasks:100x50us`; anything else is a command.
    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim_matches(' ');
        let (name, detail) =
            trimmed.split_once(':').map_or((trimmed, None), |(name, detail)| (name, Some(detail)));
        match (name, detail) {
            ("none", None) => Ok(Self::None),
            ("tasks", Some(detail)) => tasks(detail).map(Self::Tasks),
            ("tasks", None) => {
                Err("tasks need a number and a time, as in tasks:100x50us".to_owned())
            }
            _ if KINDS.iter().any(|(known, _)| *known == name) => trimmed.parse().map(Self::Stress),
            _ => command(text).map(Self::Command),
        }
    }
}

impl FromStr for Stress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, threads) =
            text.split_once(':').map_or((text, None), |(name, n)| (name, Some(n)));
        let (_, kind) = KINDS
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| format!("no load {text:?}"))?;
        let threads = match threads {
            // One for each CPU that this process may use; one is enough of what CPUs share.
            None if *kind == StressKind::Cpu => {
                std::thread::available_parallelism().map_or(1, usize::from)
            }
            None => 1,
            Some(n) => {
                let number = n.parse().ok().filter(|n| (1..=MAX_THREADS).contains(n));
                number.ok_or_else(|| {
                    format!(
                        "{name}:{n} is no load; give 1 to {MAX_THREADS} threads, as in {name}:2"
                    )
                })?
            }
        };
        Ok(Self { kind: *kind, threads })
    }
}

/// Reads `100x50us`.
fn tasks(text: &str) -> Result<Tasks, String> {
    let bad = || {
        format!(
            "tasks:{text} is no load; give a number and how long each holds its worker, as in tasks:100x50us"
        )
    };
    let (count, hold) = text.split_once('x').ok_or_else(bad)?;
    let count = count.parse().ok().filter(|n| (1..=MAX_TASKS).contains(n)).ok_or_else(bad)?;
    let hold = units::parse_duration_within("a hold", hold, Duration::from_nanos(100)..=MAX_HOLD)?;
    Ok(Tasks { count, hold })
}

/// A command line that can stand in an id, a title and a plan.
fn command(text: &str) -> Result<String, String> {
    if text.chars().any(char::is_control) {
        return Err(
            "a load is one line without control characters; put more into a script".to_owned()
        );
    }
    match shlex::split(text) {
        None => Err(format!("the command {text:?} has an open quote")),
        Some(words) if words.is_empty() => {
            Err("an empty load is nothing to run; `none` measures without".to_owned())
        }
        // A space outside may be one that is escaped; other white space is no blank to a shell.
        Some(words) => {
            let trimmed = text.trim_matches(' ');
            let is_same = shlex::split(trimmed).is_some_and(|trimmed| trimmed == words);
            Ok(if is_same { trimmed } else { text.trim_start_matches(' ') }.to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_reads_back() {
        for text in [
            "none",
            "cpu:2",
            "memory:1",
            "io:3",
            "softirq:1",
            "tasks:100x50us",
            "stress-ng --vm 1 'a b'",
            "ends-in\\ ",
            "\u{202f}",
        ] {
            assert_eq!(text.parse::<Load>().unwrap().to_string(), text);
        }
        assert_eq!("memory".parse::<Load>().unwrap().to_string(), "memory:1");
        assert_eq!(" cpu:2 ".parse::<Load>(), "cpu:2".parse(), "no command of that name");
        assert!(matches!(
            "cpu".parse(),
            Ok(Load::Stress(Stress { kind: StressKind::Cpu, threads: 1.. }))
        ));
        assert_eq!(
            "./cpu".parse::<Load>(),
            Ok(Load::Command("./cpu".to_owned())),
            "a path is a program"
        );
    }

    #[test]
    fn what_is_no_load_is_refused_with_an_example() {
        for (text, says) in [
            ("cpu:0", "cpu:2"),
            ("cpu:9999", "1 to 1024"),
            ("io:x", "io:2"),
            ("tasks", "tasks:100x50us"),
            ("tasks:100", "tasks:100x50us"),
            ("tasks:0x50us", "tasks:100x50us"),
            ("tasks:1x50", "no unit"),
            ("tasks:1x2s", "1s"),
            ("", "empty load"),
            ("sh -c 'x", "open quote"),
            ("a\nb", "one line"),
        ] {
            let error = text.parse::<Load>().unwrap_err();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
