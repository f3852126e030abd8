//! Programs that run in the background of a measurement.

use std::io::{self, PipeWriter, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use cli::interrupt;

use super::{
    BackgroundError, EarlyExit, KILL_TIMEOUT, ProgramExit, ReceiveError, RunGuard, StartedRun,
    StderrTail, now, program_command, receive, spawn_watcher, start_run, watch_exit,
};
use crate::machine::os;
use crate::program::Program;

/// Time for a command to start up before the first round.
const COMMAND_STARTUP_TIME: Duration = Duration::from_millis(500);
/// Timeout for a process of osjitter to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A program that runs in the background of a measurement. It is ended when this is dropped.
pub struct BackgroundProcess {
    run: RunGuard,
    exited: mpsc::Receiver<()>,
    stderr_tail: Option<StderrTail>,
    /// Standard input of a process of osjitter, which exits when this end is closed, even if this
    /// process is killed.
    _input: Option<PipeWriter>,
}

impl BackgroundProcess {
    /// Starts a command of the user, and waits until it had time to start up.
    pub fn start(program: &Program) -> Result<Self, BackgroundError> {
        let mut command = program_command(program);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process = Self::spawn_program(program, command)?;
        match receive(&process.exited, now(), COMMAND_STARTUP_TIME, interrupt::flag()) {
            Err(ReceiveError::TimedOut) => Ok(process),
            Err(ReceiveError::Interrupted) => Err(BackgroundError::Interrupted),
            _ => Err(BackgroundError::CommandEnded(process.early_exit())),
        }
    }

    /// Starts a command of the user whose output goes to standard error.
    pub fn start_with_output(program: &Program) -> Result<Self, BackgroundError> {
        let mut command = program_command(program);
        command.stdout(std::io::stderr()).stderr(Stdio::inherit());
        Self::spawn_program(program, command)
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.run.tree.id()
    }

    /// Starts another process of osjitter, and waits until it has written `ready`.
    pub fn start_self(args: &[&str], ready: &str) -> Result<Self, BackgroundError> {
        let failed = |error: io::Error| BackgroundError::HelperNotStarted(Arc::new(error));
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        let (input, end) = io::pipe().map_err(failed)?;
        let (mut reader, output) = io::pipe().map_err(failed)?;
        command.args(args).stdin(input).stdout(output).stderr(Stdio::piped());
        let mut process = Self::spawn(command, Some(end)).map_err(failed)?;
        let (sender, is_ready) = mpsc::channel();
        let expected = ready.as_bytes().to_vec();
        spawn_watcher(move || {
            let mut text = vec![0; expected.len()];
            if reader.read_exact(&mut text).is_ok() && text == expected {
                let _ = sender.send(());
            }
        })
        .map_err(failed)?;
        match receive(&is_ready, now(), READY_TIMEOUT, interrupt::flag()) {
            Ok(()) => Ok(process),
            Err(ReceiveError::Interrupted) => Err(BackgroundError::Interrupted),
            Err(ReceiveError::TimedOut) => Err(BackgroundError::HelperNotReady(READY_TIMEOUT)),
            Err(ReceiveError::Disconnected) => {
                Err(BackgroundError::HelperEnded(process.early_exit()))
            }
        }
    }

    fn spawn_program(program: &Program, command: Command) -> Result<Self, BackgroundError> {
        Self::spawn(command, None).map_err(|error| BackgroundError::CommandNotStarted {
            command: program.text().to_owned(),
            error: Arc::new(error),
        })
    }

    fn spawn(command: Command, input: Option<PipeWriter>) -> io::Result<Self> {
        let StartedRun { run, stderr, .. } = start_run(|_| Ok(command))?;
        let exited = watch_exit(&run.tree)?.exited;
        Ok(Self {
            exited,
            run,
            stderr_tail: stderr.map(StderrTail::listen).transpose()?,
            _input: input,
        })
    }

    /// Pauses the program until [`Self::resume`]. Returns false if the platform cannot pause it.
    pub fn pause(&self) -> bool {
        self.run.tree.pause()
    }

    pub fn resume(&self) {
        self.run.tree.resume();
    }

    /// Returns the exit of the program, or `None` if it is running.
    pub fn try_exit(&mut self) -> Option<EarlyExit> {
        match self.exited.try_recv() {
            Err(mpsc::TryRecvError::Empty) => None,
            _ => Some(self.early_exit()),
        }
    }

    fn early_exit(&mut self) -> EarlyExit {
        let exit = ProgramExit::new(self.run.end(KILL_TIMEOUT));
        let stderr = self.stderr_tail.take().map(StderrTail::quote).unwrap_or_default();
        EarlyExit { exit, stderr }
    }

    /// Returns the CPU time that its running processes have used so far, if the platform reports it.
    pub fn cpu_ns(&self) -> Option<u64> {
        os::ProcessUsage::read(self.run.tree.id()).map(|usage| usage.cpu_ns())
    }

    /// Ends the program with everything that it started. Returns the CPU time of all of them.
    pub fn end(self) -> Option<u64> {
        self.run.end(KILL_TIMEOUT).ok().map(|ended| ended.usage.cpu_ns)
    }
}
