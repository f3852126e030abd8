//! A command of the user that changes a setting, or undoes a change.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use cli::printable::to_printable_message;
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
};

use crate::measure::child::program_command;
use crate::measure::trial_error::{CommandError, CommandExit};
use crate::program::Program;

/// Time limit of a command.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the end of a process is checked.
pub const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of polls for the end of killed processes.
const MAX_POLLS: u32 = 5_000;
/// Size of the end of the output that a message quotes.
const QUOTE_BYTES: u64 = 400;

/// Runs an undo command to completion. Processes that it leaves in the background run on: they
/// are part of the previous state.
pub fn run_undo(program: &Program) -> Result<(), CommandError> {
    let mut command = StartedCommand::start(program)?;
    let result = command.wait();
    let _ = command.child.wait();
    result
}

/// A command of the user, as the leader of a process group.
pub struct StartedCommand {
    text: String,
    child: Child,
    /// Standard output and standard error.
    output: Option<File>,
}

impl StartedCommand {
    pub fn start(program: &Program) -> Result<Self, CommandError> {
        // A pipe would have to be read for as long as a process in the background has it open.
        let output = tempfile::tempfile().ok();
        let stdio = || {
            let file = output.as_ref().and_then(|file| file.try_clone().ok());
            file.map_or_else(Stdio::null, Stdio::from)
        };
        let mut command = program_command(program);
        command.process_group(0).stdout(stdio()).stderr(stdio());
        let text = program.text().to_owned();
        match command.spawn() {
            Ok(child) => Ok(Self { text, child, output }),
            Err(error) => Err(CommandError::NotStarted { command: text, error }),
        }
    }

    /// Waits until the program has exited, and does not reap it: its id remains that of its
    /// group. Kills the group after the time limit.
    #[allow(clippy::disallowed_methods, reason = "a wait with a time limit")]
    pub fn wait(&mut self) -> Result<(), CommandError> {
        let id = Pid::from_child(&self.child);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        let started = Instant::now();
        loop {
            match waitid(WaitId::Pid(id), options) {
                Ok(Some(status)) => return self.check_status(&status),
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => {
                    let (command, error) = (self.text.clone(), error.into());
                    return Err(CommandError::Wait { command, error });
                }
            }
            if started.elapsed() > COMMAND_TIMEOUT {
                self.kill_group();
                let (command, limit) = (self.text.clone(), COMMAND_TIMEOUT);
                return Err(CommandError::TimedOut { command, limit });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn check_status(&mut self, status: &WaitIdStatus) -> Result<(), CommandError> {
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => return Ok(()),
            (Some(code), _) => CommandExit::Code(code),
            (None, signal) => CommandExit::Signal(signal.unwrap_or(0)),
        };
        let (command, output) = (self.text.clone(), self.output_tail());
        Err(CommandError::Failed { command, exit, output })
    }

    /// Returns the end of the output.
    fn output_tail(&mut self) -> String {
        let Some(output) = &mut self.output else { return String::new() };
        let mut tail = Vec::new();
        let length = output.metadata().map_or(0, |meta| meta.len());
        let start = SeekFrom::Start(length.saturating_sub(QUOTE_BYTES));
        let _ = output.seek(start).and_then(|_| output.take(QUOTE_BYTES).read_to_end(&mut tail));
        to_printable_message(String::from_utf8_lossy(&tail).trim())
    }

    /// Kills the group. Its leader is not reaped, so its id belongs to no other group.
    fn kill_group(&self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }

    /// Kills the group, and reaps its processes that are children of this process.
    #[allow(clippy::disallowed_methods, reason = "nothing reports when a group is empty")]
    pub fn end_group(&self) {
        self.kill_group();
        let leader = Pid::from_child(&self.child);
        for _ in 0..MAX_POLLS {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            match waitid(WaitId::Pgid(Some(leader)), options) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => std::thread::sleep(POLL_INTERVAL),
                Err(_) => return,
            }
        }
    }
}
