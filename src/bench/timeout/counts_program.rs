//! Asks the program beside this one what a message asks for.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use benchloops::timeouts::loops::Job;
use benchloops::timeouts::operation_counts::OperationCounts;

const PROGRAM: &str = "osjitter-counts";
/// It takes milliseconds, and with very many timers a second.
const COUNTER_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Counter {
    child: Child,
    answers: Receiver<String>,
}

impl Counter {
    /// # Errors
    /// Why it cannot be started.
    pub fn start() -> Result<Self, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let program = program.with_file_name(format!("{PROGRAM}{}", std::env::consts::EXE_SUFFIX));
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child =
            command.spawn().map_err(|e| format!("cannot start {}: {e}", program.display()))?;
        let (sender, answers) = mpsc::channel();
        let stdout = child.stdout.take().expect("it is piped");
        // Ends with the program.
        let read = move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        };
        let reads = std::thread::Builder::new().spawn(read);
        let counter = Self { child, answers };
        reads
            .map(|_| counter)
            .map_err(|e| format!("cannot read from {PROGRAM}: no thread for it: {e}"))
    }

    /// # Errors
    /// Why a job was not counted.
    pub fn count(&mut self, job: &Job) -> Result<OperationCounts, String> {
        let job = serde_json::to_string(job).expect("plain data") + "\n";
        let written = self.child.stdin.as_mut().expect("it is piped").write_all(job.as_bytes());
        let answer = self.answers.recv_timeout(COUNTER_TIMEOUT).ok().filter(|_| written.is_ok());
        let counted = answer.and_then(|line| serde_json::from_str(&line).ok());
        counted.ok_or_else(|| format!("{PROGRAM} did not answer"))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
