//! Runs `osjitter-counts`, which is installed next to this program and counts the operations that a
//! message causes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use benchloops::timeouts::loops::Job;
use benchloops::timeouts::operation_counts::OperationCounts;

const PROGRAM: &str = "osjitter-counts";
/// Time limit for a job, which needs milliseconds, or a second with very many timers.
const JOB_TIMEOUT: Duration = Duration::from_secs(60);

/// A running `osjitter-counts`.
pub struct CountsProgram {
    child: Child,
    results: Receiver<String>,
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
    pub fn start() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let program = program.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let (sender, results) = mpsc::channel();
        let stdout = child.stdout.take().expect("stdout is piped");
        // The thread ends with the program.
        let reader = std::thread::Builder::new().spawn(move || forward_lines(stdout, &sender));
        let program = Self { child, results };
        reader
            .map(|_| program)
            .map_err(|e| format!("cannot start a thread that reads from {PROGRAM}: {e}"))
    }

    /// Counts the operations of a job.
    ///
    /// # Errors
    ///
    /// Returns an error if the program returns no counts in time.
    pub fn count(&mut self, job: &Job) -> Result<OperationCounts, String> {
        let job = serde_json::to_string(job).expect("plain data") + "\n";
        let written = self.child.stdin.as_mut().expect("stdin is piped").write_all(job.as_bytes());
        let result = self.results.recv_timeout(JOB_TIMEOUT).ok().filter(|_| written.is_ok());
        let counts = result.and_then(|line| serde_json::from_str(&line).ok());
        counts.ok_or_else(|| format!("{PROGRAM} returned no counts"))
    }
}

impl Drop for CountsProgram {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
