//! What is changed on the machine while it is measured, and what it was before.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use files::report::Change;

use crate::machine::os::{self, Sched};
use cli::exit::{self, usage};

/// What is asked to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// To bind the measuring thread to.
    pub cpu: Option<usize>,
    /// Scheduling class of the measuring thread.
    pub sched: Option<Sched>,
    /// Whether all memory of the process is locked.
    pub mlock: bool,
    /// Timer slack of the measuring thread.
    pub timer_slack: Option<Duration>,
}

impl Settings {
    /// These where they state something, `other` where they do not.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            cpu: self.cpu.or(other.cpu),
            sched: self.sched.or(other.sched),
            mlock: self.mlock || other.mlock,
            timer_slack: self.timer_slack.or(other.timer_slack),
        }
    }

    /// Makes the changes, and returns them with what was there before.
    pub fn apply(&self) -> exit::Result<Vec<Change>> {
        let mut changes = Vec::new();
        let mut changed = |what: &str, from: String, to: String| {
            changes.push(Change { what: what.to_owned(), from, to })
        };
        let unknown = || "unknown".to_owned();
        if let Some(cpu) = self.cpu {
            let allowed = os::affinity();
            bind(cpu)?;
            let from = allowed.map_or_else(unknown, |a| format!("{a:?}"));
            changed("CPU affinity of the measuring thread", from, format!("[{cpu}]"));
        }
        if let Some(slack) = self.timer_slack {
            let slack_ns = u64::try_from(slack.as_nanos()).unwrap_or(u64::MAX);
            let from = os::timer_slack_ns().map_or_else(unknown, |ns| format!("{ns} ns"));
            os::set_timer_slack_ns(slack_ns)
                .map_err(|e| usage!("cannot set the timer slack: {e}; nothing was run"))?;
            changed("timer slack of the measuring thread", from, format!("{slack_ns} ns"));
        }
        if self.mlock {
            lock_memory().map_err(|e| {
                usage!("cannot lock memory: {e}; it needs CAP_IPC_LOCK or a larger ulimit -l; nothing was run")
            })?;
            changed("memory of the process", "pageable".to_owned(), "locked".to_owned());
        }
        if let Some(class) = self.sched {
            let from = os::sched().unwrap_or_else(unknown);
            os::set_sched(class).map_err(|e| {
                usage!("cannot run as {class}: {e}; it needs {}; nothing was run", os::SCHED_NEEDS)
            })?;
            changed("scheduling class of the measuring thread", from, class.to_string());
        }
        Ok(changes)
    }
}

/// Locks the memory of the process, with room for what it needs later: a limit that the pages of
/// today fit may have none for the stack of one more thread.
pub fn lock_memory() -> io::Result<()> {
    os::lock_memory().and_then(|()| std::thread::Builder::new().spawn(|| ())).map(drop)
}

/// Binds the calling thread, and those it starts, to one CPU.
pub fn bind(cpu: usize) -> exit::Result<()> {
    if let Some(allowed) = os::affinity().filter(|allowed| !allowed.contains(&cpu)) {
        let list: Vec<String> = allowed.iter().map(usize::to_string).collect();
        let list = list.join(", ");
        return Err(usage!(
            "CPU {cpu} is not there or not allowed; this process may use {list}; nothing was run"
        ));
    }
    os::bind(&[cpu]).map_err(|e| usage!("cannot bind to CPU {cpu}: {e}; nothing was run"))
}

impl fmt::Display for Sched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Other => f.write_str("other"),
            Self::Fifo(priority) => write!(f, "fifo:{priority}"),
            Self::RoundRobin(priority) => write!(f, "rr:{priority}"),
        }
    }
}

impl FromStr for Sched {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, priority) = text.split_once(':').unwrap_or((text, ""));
        let priority = priority.parse().ok().filter(|p| (1..=99).contains(p));
        match (name, priority) {
            ("other", None) if text == "other" => Ok(Self::Other),
            ("fifo", Some(priority)) => Ok(Self::Fifo(priority)),
            ("rr", Some(priority)) => Ok(Self::RoundRobin(priority)),
            _ => Err(format!(
                "unknown scheduling class {text:?}; use other, fifo:N or rr:N with a priority from 1 to 99"
            )),
        }
    }
}
