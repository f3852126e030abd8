//! Reasons why a run of a program has no result.

use std::error::Error;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use cli::exit;
use cli::time::{format_time, format_unsigned_time};
use cli::units::{format_exact_duration, format_exact_ns, format_rounded_duration};
use cli::words::pluralize;
use files::file::FileError;
use jitterstat::series::{self, RoundReply, SeriesError};

use super::stderr_tail::StderrQuote;
use crate::machine::os::ProcessTreeExit;
use crate::measure::benches::{BenchOutputError, KnownCause};
use crate::measure::metric_error::MetricError;
use crate::program::Program;

/// Reason why a run has no result.
#[derive(Clone, Debug)]
pub enum RunFailure {
    /// The stop flag was set.
    Interrupted,
    /// The program does not exist or cannot be started.
    NotStarted { program: String, error: Arc<io::Error> },
    /// The system has no processes, files or memory left, so the program may be right.
    NoResources { program: String, error: SystemError },
    /// The program does not tick at the requested period.
    WrongPeriod { program: String, actual_ns: u64, expected: Duration },
    /// The program wrote another number of ticks than requested.
    WrongTickCount { program: String, actual: u64, expected: u64 },
    /// The program was ended at its time limit.
    TimedOut {
        program: String,
        limit: Duration,
        /// Reply that was expected in this time; `None` if the program was expected to exit.
        expected: Option<RoundReply>,
    },
    /// The program failed, or did not write the requested series.
    Failed { program: String, fault: ProgramFault },
}

/// Step of a run in which the system reported an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStep {
    Start,
    /// Anything from the start to the exit.
    Run,
    WaitForExit,
    ReadSeries,
    ReadMetrics,
}

/// Error of the system in a step of a run.
#[derive(Clone, Debug, thiserror::Error)]
pub struct SystemError {
    step: RunStep,
    #[source]
    error: Arc<io::Error>,
}

/// Failure of a program that was started.
#[derive(Clone, Debug)]
pub enum ProgramFault {
    System(SystemError),
    ExitStatus {
        status: ExitStatus,
        stderr: StderrQuote,
    },
    /// A program of benchmarks failed.
    Harness {
        status: ExitStatus,
        stderr: StderrQuote,
        /// End of standard output, to which some harnesses write their errors.
        stdout: String,
        cause: Option<KnownCause>,
    },
    /// The program ended before its last round.
    EndedEarly {
        /// Reply that was expected; `None` between two rounds.
        expected: Option<RoundReply>,
        exit: ProgramExit,
        stderr: StderrQuote,
    },
    WrongReply {
        reply: String,
        expected: RoundReply,
        stderr: StderrQuote,
    },
    /// The series of the previous round cannot be removed.
    KeptSeries {
        error: Arc<io::Error>,
        stderr: StderrQuote,
    },
    NoSeries {
        stderr: StderrQuote,
    },
    InvalidSeries(Arc<SeriesError>),
    LargeSeries {
        max_bytes: u64,
        ticks: u64,
    },
    LargeMetrics {
        max_bytes: u64,
    },
    InvalidReport(Arc<FileError>),
    /// The report has no subject, or several.
    SubjectCount(usize),
    /// The program reports more CPU time than it used.
    ImpossibleCpuTime {
        reported_ns: u64,
        used_ns: u64,
    },
    /// A tick is later than the whole run was long.
    ImpossibleLateness {
        lateness_ns: i64,
        run_ns: i64,
    },
    Benches {
        error: BenchOutputError,
        cause: Option<KnownCause>,
    },
    Metric(MetricError),
}

/// Exit of a program that should have continued to run.
#[derive(Clone, Debug)]
pub enum ProgramExit {
    Status(ExitStatus),
    /// The program cannot be ended, so its status is not known.
    Unknown(Arc<io::Error>),
}

impl RunFailure {
    /// Returns the message for the user, or `None` for an interrupt.
    pub fn message(self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            failure => Some(failure.to_string()),
        }
    }

    /// Creates the failure of a program.
    pub fn new(program: &Program, fault: ProgramFault) -> Self {
        Self::Failed { program: program.text().to_owned(), fault }
    }

    /// Adds the known cause of the failure of a harness, if `find_cause` finds it in what the harness
    /// wrote.
    pub fn with_cause(mut self, find_cause: impl FnOnce(&str) -> Option<KnownCause>) -> Self {
        if let Self::Failed { fault: ProgramFault::Harness { stderr, stdout, cause, .. }, .. } =
            &mut self
        {
            *cause = find_cause(&format!("{stderr}\n{stdout}"));
        }
        self
    }

    /// Converts an error of the system.
    pub fn from_system(program: &Program, step: RunStep, error: io::Error) -> Self {
        let (program, error) = (program.text().to_owned(), Arc::new(error));
        match step {
            _ if exit::is_out_of_resources(&error) => {
                Self::NoResources { program, error: SystemError { step, error } }
            }
            RunStep::Start => Self::NotStarted { program, error },
            _ => Self::Failed { program, fault: ProgramFault::System(SystemError { step, error }) },
        }
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::NotStarted { program, error } => write!(f, "cannot start {program}: {error}"),
            Self::NoResources { program, error } if error.step == RunStep::Start => {
                write!(f, "cannot start {program}: {error}")
            }
            Self::NoResources { program, error } => write!(f, "{program}: {error}"),
            Self::WrongPeriod { program, actual_ns, expected } => {
                let actual = format_exact_ns(*actual_ns);
                write!(
                    f,
                    "{program}: ran at a period of {actual}, expected {}; add --period {actual}, or let the program use {}",
                    format_exact_duration(*expected),
                    series::ENV_PERIOD
                )
            }
            Self::WrongTickCount { program, actual, expected } => {
                write!(f, "{program}: wrote {}, expected {expected}", pluralize(*actual, "tick"))
            }
            Self::TimedOut { program, limit, expected } => {
                let limit = format_rounded_duration(*limit);
                match expected {
                    Some(reply) => {
                        write!(f, "{program}: wrote no `{reply}` within {limit} and was ended")
                    }
                    None => {
                        write!(f, "{program}: was still running after {limit} and was ended")
                    }
                }
            }
            Self::Failed { program, fault } => write!(f, "{program}: {fault}"),
        }
    }
}

impl Error for RunFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::NotStarted { error, .. } => Some(&**error),
            Self::NoResources { error, .. } => Some(error),
            Self::Failed { fault, .. } => Some(fault),
            _ => None,
        }
    }
}

/// A program that cannot be measured is a mistake in the command line.
impl From<RunFailure> for exit::Error {
    fn from(failure: RunFailure) -> Self {
        match failure {
            RunFailure::Interrupted | RunFailure::NoResources { .. } => {
                Self::measure(failure.to_string())
            }
            _ => Self::usage(failure.to_string()),
        }
    }
}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, error) = (series::ENV_OUT, &self.error);
        match self.step {
            RunStep::Start | RunStep::Run => write!(f, "{error}"),
            RunStep::WaitForExit => write!(f, "cannot be waited for: {error}"),
            RunStep::ReadSeries => write!(f, "{name}: it cannot be read: {error}"),
            RunStep::ReadMetrics => write!(f, "{name} cannot be read: {error}"),
        }
    }
}

impl fmt::Display for ProgramFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = series::ENV_OUT;
        match self {
            Self::System(error) => error.fmt(f),
            Self::ExitStatus { status, stderr } => write!(f, "ended with {status}{stderr}"),
            Self::Harness { status, stderr, stdout, cause } => {
                write!(f, "ended with {status}")?;
                if let Some(cause) = cause {
                    write!(f, "; {cause}")?;
                }
                write!(f, "{stderr}")?;
                if stdout.is_empty() { Ok(()) } else { write!(f, "; stdout: {stdout}") }
            }
            Self::EndedEarly { expected: Some(reply), exit, stderr } => {
                write!(f, "ended without `{reply}`, with {exit}{stderr}")
            }
            Self::EndedEarly { expected: None, exit, stderr } => {
                write!(f, "ended between two rounds, with {exit}{stderr}")
            }
            Self::WrongReply { reply, expected, stderr } => {
                write!(f, "replied {reply:?}, expected `{expected}`{stderr}")
            }
            Self::KeptSeries { error, stderr } => {
                write!(f, "its series cannot be removed: {error}{stderr}")
            }
            Self::NoSeries { stderr } => write!(f, "wrote nothing to {name}{stderr}"),
            Self::InvalidSeries(error) => write!(f, "{name}: {error}"),
            Self::LargeSeries { max_bytes, ticks } => write!(
                f,
                "wrote more than {max_bytes} bytes to {name}, the maximum for {}",
                pluralize(*ticks, "tick")
            ),
            Self::LargeMetrics { max_bytes } => {
                write!(f, "wrote more than {} MiB to {name}", max_bytes >> 20)
            }
            Self::InvalidReport(error) => write!(f, "{name}: {error}"),
            Self::SubjectCount(subjects) => {
                write!(f, "{name} contains a report of {subjects} subjects; expected one")
            }
            Self::ImpossibleCpuTime { reported_ns, used_ns } => write!(
                f,
                "wrote a CPU time of {}, but used only {}",
                format_unsigned_time(*reported_ns),
                format_unsigned_time(*used_ns)
            ),
            Self::ImpossibleLateness { lateness_ns, run_ns } => write!(
                f,
                "wrote a lateness of {}, but ran for only {}",
                format_time(*lateness_ns),
                format_time(*run_ns)
            ),
            Self::Benches { error, cause: None } => error.fmt(f),
            Self::Benches { error, cause: Some(cause) } => write!(f, "{error}; {cause}"),
            Self::Metric(error) => error.fmt(f),
        }
    }
}

impl Error for ProgramFault {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::System(error) => error.source(),
            Self::EndedEarly { exit: ProgramExit::Unknown(error), .. }
            | Self::KeptSeries { error, .. } => Some(&**error),
            Self::InvalidSeries(error) => Some(&**error),
            Self::InvalidReport(error) => Some(&**error),
            Self::Benches { error, .. } => error.source(),
            Self::Metric(error) => error.source(),
            _ => None,
        }
    }
}

impl ProgramExit {
    pub(super) fn new(ended: io::Result<ProcessTreeExit>) -> Self {
        match ended {
            Ok(exit) => Self::Status(exit.status),
            Err(error) => Self::Unknown(Arc::new(error)),
        }
    }
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => status.fmt(f),
            Self::Unknown(error) => error.fmt(f),
        }
    }
}
