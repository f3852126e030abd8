//! Settings that are changed for the duration of a run, and their previous values.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::TypedValueParser;
use files::report::Change;

use crate::machine::os::{self, Sched};
use crate::machine::tuning_error::{TuningError, UnusableCpu};
use cli::completion::{plain_values, with_examples};
use cli::units::{format_exact_ns, to_ns};

/// Returns the parser of an argument with a scheduling class.
pub fn sched_parser() -> impl TypedValueParser<Value = Sched> {
    with_examples(|text: &str| text.parse(), || plain_values(&["fifo:50", "rr:50", "other"]))
}

/// Settings to change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// CPU to which the measuring thread is bound.
    pub cpu: Option<usize>,
    /// Scheduling class of the measuring thread.
    pub sched: Option<Sched>,
    /// Whether all memory of the process is locked.
    pub mlock: bool,
    /// Timer slack of the measuring thread.
    pub timer_slack: Option<Duration>,
}

impl Settings {
    /// Returns these settings, with `defaults` in place of missing ones.
    pub fn or(&self, defaults: &Self) -> Self {
        Self {
            cpu: self.cpu.or(defaults.cpu),
            sched: self.sched.or(defaults.sched),
            mlock: self.mlock || defaults.mlock,
            timer_slack: self.timer_slack.or(defaults.timer_slack),
        }
    }

    /// Applies the settings and returns the changes with the previous values.
    pub fn apply(&self) -> Result<Vec<Change>, TuningError> {
        let mut changes = Vec::new();
        let mut record = |what: &str, from: String, to: String| {
            changes.push(Change { what: what.to_owned(), from, to })
        };
        let unknown = || "unknown".to_owned();
        if let (Some(class @ (Sched::Fifo(_) | Sched::RoundRobin(_))), Some(_)) =
            (self.sched, self.timer_slack)
        {
            return Err(TuningError::RealTimeSlack { class });
        }
        if let Some(cpu) = self.cpu {
            let allowed = os::affinity();
            bind(cpu)?;
            let from = allowed.map_or_else(unknown, |a| format!("{a:?}"));
            record("CPU affinity of the measuring thread", from, format!("[{cpu}]"));
        }
        if let Some(slack) = self.timer_slack {
            let slack_ns = to_ns(slack);
            let from = timer_slack_ns().map_or_else(unknown, format_exact_ns);
            os::set_timer_slack_ns(slack_ns).map_err(TuningError::TimerSlack)?;
            let actual_ns = timer_slack_ns();
            if let Some(actual_ns) = actual_ns.filter(|actual_ns| *actual_ns != slack_ns) {
                let [requested, actual] = [slack_ns, actual_ns].map(format_exact_ns);
                return Err(TuningError::OtherTimerSlack { requested, actual });
            }
            record("timer slack of the measuring thread", from, format_exact_ns(slack_ns));
        }
        if self.mlock {
            lock_memory().map_err(TuningError::LockMemory)?;
            record("memory of the process", "pageable".to_owned(), "locked".to_owned());
        }
        if let Some(class) = self.sched {
            let from = os::sched().unwrap_or_else(unknown);
            os::set_sched(class).map_err(|error| TuningError::Sched { class, error })?;
            record("scheduling class of the measuring thread", from, class.to_string());
        }
        os::leave_signals_to_others();
        Ok(changes)
    }
}

/// Returns the timer slack that applies to the calling thread: none to a real-time thread, even if
/// the kernel stores one.
pub fn timer_slack_ns() -> Option<u64> {
    os::own_settings().timer_slack_ns
}

/// Locks the memory of the process, including later pages.
///
/// This starts a thread as a check, since a limit that is large enough for the current pages may be
/// too small for another stack.
pub fn lock_memory() -> io::Result<()> {
    os::lock_memory()?;
    std::thread::Builder::new().spawn(|| ()).map(drop)
}

/// Binds the calling thread, and the threads that it starts later, to one CPU.
pub fn bind(cpu: usize) -> Result<(), TuningError> {
    if let Some(allowed) = os::affinity().filter(|allowed| !allowed.contains(&cpu)) {
        return Err(TuningError::CpuNotAllowed { cpu, allowed });
    }
    os::bind(&[cpu]).map_err(|error| TuningError::Bind { cpu, error })
}

/// Checks that threads of this process can be bound to CPUs.
///
/// # Errors
///
/// Returns an error that names the first unusable CPU and the reason.
pub fn check_cpus(cpus: &[usize]) -> Result<(), TuningError> {
    let allowed = os::affinity().unwrap_or_default();
    let is_forbidden = |cpu: &&usize| !allowed.contains(cpu);
    let Some(&cpu) = cpus.iter().find(is_forbidden) else { return Ok(()) };
    let is_listed = |name: &str| {
        let list = std::fs::read_to_string(format!("/sys/devices/system/cpu/{name}")).ok()?;
        Some(os::cpu_list(&list).contains(&cpu))
    };
    let reason = match (is_listed("present"), is_listed("online")) {
        (Some(false), _) => UnusableCpu::Missing,
        (_, Some(false)) => UnusableCpu::Offline,
        (Some(true), Some(true)) => UnusableCpu::Forbidden,
        _ => UnusableCpu::MissingOrForbidden,
    };
    Err(TuningError::UnusableCpu { cpu, reason, allowed })
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
    type Err = TuningError;

    fn from_str(text: &str) -> Result<Self, TuningError> {
        let (name, priority) = text.split_once(':').unwrap_or((text, ""));
        let priority = priority.parse().ok().filter(|p| (1..=99).contains(p));
        match (name, priority) {
            ("other", None) if text == "other" => Ok(Self::Other),
            ("fifo", Some(priority)) => Ok(Self::Fifo(priority)),
            ("rr", Some(priority)) => Ok(Self::RoundRobin(priority)),
            _ => Err(TuningError::UnknownSched(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_time_threads_get_no_slack() {
        let timer_slack = Some(Duration::from_micros(20));
        for class in [Sched::Fifo(1), Sched::RoundRobin(1)] {
            let settings = Settings { sched: Some(class), timer_slack, ..Settings::default() };
            let error = settings.apply().unwrap_err();
            assert!(matches!(error, TuningError::RealTimeSlack { .. }), "{error}");
        }
    }
}
