//! Programs that run in the background of a measurement.

use std::io::{self, PipeWriter, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{
    KILL_TIMEOUT, RunGuard, StartError, StartedRun, StderrTail, program_command, spawn_watcher,
    start_run, watch_exit,
};
use crate::machine::os;
use crate::program::Program;
use cli::exit::{self, Error};

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
    pub fn start(program: &Program) -> exit::Result<Self> {
        let mut command = program_command(program);
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut process =
            Self::spawn(command, None).map_err(|e| Error::from_io(&e, program.start_error(&e)))?;
        match process.exited.recv_timeout(COMMAND_STARTUP_TIME) {
            Err(RecvTimeoutError::Timeout) => Ok(process),
            _ => Err(Error::usage(process.describe_exit())),
        }
    }

    /// Starts a command of the user whose output goes to standard error.
    pub fn start_with_output(program: &Program) -> exit::Result<Self> {
        let mut command = program_command(program);
        command.stdout(std::io::stderr()).stderr(Stdio::inherit());
        Self::spawn(command, None).map_err(|e| Error::from_io(&e, program.start_error(&e)))
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.run.tree.id()
    }

    /// Starts another process of osjitter, and waits until it has written `ready`.
    pub fn start_self(args: &[&str], ready: &str) -> exit::Result<Self> {
        let failed = |e: io::Error| Error::measure(format!("cannot be started: {e}"));
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
        match is_ready.recv_timeout(READY_TIMEOUT) {
            Ok(()) => Ok(process),
            Err(RecvTimeoutError::Timeout) => {
                Err(Error::measure(format!("was not ready after {READY_TIMEOUT:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(Error::measure(process.describe_exit())),
        }
    }

    fn spawn(command: Command, input: Option<PipeWriter>) -> io::Result<Self> {
        let StartedRun { run, stderr, .. } = start_run(|_| Ok(command)).map_err(|e| match e {
            StartError::NoScratchDir(e) | StartError::NoProcess(e) => e,
        })?;
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

    /// Returns the reason why the program has exited, or `None` if it is running.
    pub fn exit_reason(&mut self) -> Option<String> {
        match self.exited.try_recv() {
            Err(mpsc::TryRecvError::Empty) => None,
            _ => Some(self.describe_exit()),
        }
    }

    fn describe_exit(&mut self) -> String {
        let status = self
            .run
            .end(KILL_TIMEOUT)
            .map_or_else(|e| e.to_string(), |ended| ended.status.to_string());
        let quote = self.stderr_tail.take().map_or_else(String::new, StderrTail::quote);
        format!("ended by itself, with {status}{quote}")
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
