//! Runs `osjitter-counts`, which is installed next to this program and counts the operations that a
//! message causes.

use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use benchloops::timeouts::loops::Job;
use benchloops::timeouts::operation_counts::OperationCounts;
use cli::interrupt;
use engine::measure::child::{ReceiveError, receive};

const PROGRAM: &str = "osjitter-counts";
/// Time limit for a job, which needs milliseconds, or a second with very many timers.
const JOB_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `osjitter-counts`.
pub struct CountsProgram {
    child: Child,
    results: Receiver<String>,
}

/// Reason why the operations of a case were not counted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CountsError {
    /// The path of this program, next to which the other one is, is not known.
    #[error("{0}")]
    UnknownPath(#[source] Arc<io::Error>),
    #[error("cannot start {program}: {source}")]
    NotStarted { program: PathBuf, source: Arc<io::Error> },
    #[error("cannot start a thread that reads from {PROGRAM}: {0}")]
    NoReader(#[source] Arc<io::Error>),
    #[error("{PROGRAM} returned no counts")]
    NoCounts,
    #[error("{PROGRAM} returned no counts within {0:?}")]
    TimedOut(Duration),
    #[error("the bench was interrupted")]
    Interrupted,
}

/// Sends each line of the program, until one of both ends.
fn forward_lines(stdout: ChildStdout, sender: &mpsc::Sender<String>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        if sender.send(line).is_err() {
            return;
        }
    }
}

impl CountsProgram {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started.
    pub fn start() -> Result<Self, CountsError> {
        let program = std::env::current_exe().map_err(|e| CountsError::UnknownPath(Arc::new(e)))?;
        let program = program.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command
            .spawn()
            .map_err(|e| CountsError::NotStarted { program, source: Arc::new(e) })?;
        let (sender, results) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        // The thread ends with the program.
        let reader = std::thread::Builder::new().spawn(move || forward_lines(stdout, &sender));
        let program = Self { child, results };
        match reader {
            Ok(_) => Ok(program),
            Err(e) => Err(CountsError::NoReader(Arc::new(e))),
        }
    }

    /// Counts the operations of a job.
    ///
    /// # Errors
    ///
    /// Returns an error if the program returns no counts in time.
    pub fn count(&mut self, job: &Job) -> Result<OperationCounts, CountsError> {
        let job = serde_json::to_string(job).expect("plain data") + "\n";
        let written = self.child.stdin.as_mut().expect("stdin is piped").write_all(job.as_bytes());
        let line = match receive(&self.results, now(), JOB_TIMEOUT, interrupt::flag()) {
            // The same Ctrl-C may have ended the program.
            Err(_) if interrupt::has_come() => return Err(CountsError::Interrupted),
            Err(ReceiveError::TimedOut) => return Err(CountsError::TimedOut(JOB_TIMEOUT)),
            result => result.ok().filter(|_| written.is_ok()),
        };
        let counts = line.and_then(|line| serde_json::from_str(&line).ok());
        counts.ok_or(CountsError::NoCounts)
    }
}

#[allow(clippy::disallowed_methods, reason = "the time limit of a job")]
fn now() -> Instant {
    Instant::now()
}

impl Drop for CountsProgram {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
