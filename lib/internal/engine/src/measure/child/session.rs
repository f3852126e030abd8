//! A program that runs several rounds in one process and gets them over standard input.

use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use jitterstat::series::{self, RoundReply, RoundRequest};

use super::{
    CompletedRun, KILL_TIMEOUT, ProgramExit, ProgramFault, ReceiveError, RunFailure, RunGuard,
    RunRequest, RunStep, StartedRun, StderrQuote, StderrTail, hang_timeout, measuring_command, now,
    receive, spawn_watcher, start_run, watch_exit,
};
use crate::machine::os::{self, TreeUsage};
use crate::program::Program;

/// Maximum number of bytes of a line of standard output that can be a reply.
const MAX_REPLY_BYTES: usize = 256;
/// Time for a program to exit by itself after a failed or interrupted round.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// A reply of a program.
enum Reply {
    Known(RoundReply),
    /// The text of a reply that this version does not know.
    Unknown(String),
}

/// A running program that gets its rounds over standard input.
pub struct ProgramSession {
    run: RunGuard,
    /// Standard input; `None` after it was closed.
    requests: Option<PipeWriter>,
    replies: Receiver<Reply>,
    exited: Receiver<()>,
    stderr_tail: Option<StderrTail>,
    program: Program,
}

/// A round that a program has completed.
pub struct SessionRound {
    /// Time at which the round was requested.
    pub started: Instant,
    /// Time from `started` to the reply.
    pub wall: Duration,
    /// Resources that the processes of the program used from the request to the reply; `None` if
    /// they are unknown.
    pub usage: Option<TreeUsage>,
}

/// A first run of a program, which shows whether it gets rounds over standard input.
pub struct Probe {
    /// The run, whose standard input was empty.
    pub run: CompletedRun,
    /// Whether the program reported that it is ready for rounds. Any other program has run those
    /// of its environment.
    pub takes_rounds: bool,
}

/// Runs a program once to find out whether it gets rounds over standard input.
///
/// # Errors
///
/// Returns an error if the program cannot be started, fails or exceeds its time limit, or if `stop`
/// is set.
pub fn probe(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<Probe, RunFailure> {
    let (output, replies) = listen_to_replies(program)?;
    let offer = |command: &mut Command, _: &Path| offer_rounds(command, Stdio::null(), output);
    let run = super::run_prepared(program, request, stop, offer)?;
    // A process that has escaped may keep standard output open.
    let first = replies.recv_timeout(KILL_TIMEOUT);
    Ok(Probe { run, takes_rounds: matches!(first, Ok(Reply::Known(RoundReply::Ready))) })
}

/// Offers rounds over standard input to a program.
fn offer_rounds(command: &mut Command, input: Stdio, output: PipeWriter) {
    command.env(series::ENV_ROUNDS, series::ROUNDS_FROM_STDIN).stdin(input).stdout(output);
}

/// Returns the standard output for a program, and the replies that it writes there.
fn listen_to_replies(program: &Program) -> Result<(PipeWriter, Receiver<Reply>), RunFailure> {
    let failed = |error| RunFailure::from_system(program, RunStep::Run, error);
    let (reader, output) = io::pipe().map_err(failed)?;
    let (sender, replies) = mpsc::channel();
    spawn_watcher(move || read_replies(reader, &sender)).map_err(failed)?;
    Ok((output, replies))
}

/// Sends the replies among the lines of standard output until it is closed.
fn read_replies(output: PipeReader, replies: &Sender<Reply>) {
    let mut output = BufReader::new(output);
    let mut line = Vec::new();
    while let Ok(chunk @ [_, ..]) = output.fill_buf() {
        let length = chunk.len();
        for &byte in chunk {
            if byte == b'\n' {
                send_reply(&line, replies);
                line.clear();
            } else if line.len() < MAX_REPLY_BYTES {
                line.push(byte);
            }
        }
        output.consume(length);
    }
}

fn send_reply(line: &[u8], replies: &Sender<Reply>) {
    let line = String::from_utf8_lossy(line);
    if let Some(reply) = RoundReply::parse(&line) {
        let unknown = |text: &str| Reply::Unknown(text.to_owned());
        // The receiver is dropped when the session ends.
        let _ = replies.send(reply.map_or_else(unknown, Reply::Known));
    }
}

impl ProgramSession {
    /// Starts a program and waits until it is ready, at most for the time limit of the request.
    ///
    /// # Errors
    ///
    /// Returns an error if the program cannot be started, exits or is not ready in time.
    pub fn start(
        program: &Program,
        request: RunRequest,
        stop: &AtomicBool,
    ) -> Result<Self, RunFailure> {
        let failed = |error| RunFailure::from_system(program, RunStep::Run, error);
        let (input, requests) = io::pipe().map_err(failed)?;
        let (output, replies) = listen_to_replies(program)?;
        let prepare = |scratch: &Path| {
            let mut command = measuring_command(program, request, scratch)?;
            offer_rounds(&mut command, input.into(), output);
            Ok(command)
        };
        let StartedRun { aside: _aside, run, stderr, started } = start_run(prepare)
            .map_err(|error| RunFailure::from_system(program, RunStep::Start, error))?;
        let stderr_tail = stderr.map(StderrTail::listen).transpose();
        let mut session = Self {
            exited: watch_exit(&run.tree).map_err(failed)?.exited,
            stderr_tail: stderr_tail.map_err(failed)?,
            run,
            requests: Some(requests),
            replies,
            program: program.clone(),
        };
        session.wait_for(RoundReply::Ready, started, request.limit, stop)?;
        Ok(session)
    }

    /// Returns the id of the program's process.
    pub fn process(&self) -> u32 {
        self.run.tree.id()
    }

    /// Returns the path to which the program writes each round.
    pub fn output_path(&self) -> PathBuf {
        self.run.series_path()
    }

    /// Requests a round and waits until the program reports that it is written.
    ///
    /// # Errors
    ///
    /// Returns an error if the program has exited, writes an unknown reply or exceeds the time
    /// limit of the request, or if `stop` is set. The program is ended then.
    pub fn run_round(
        &mut self,
        request: RunRequest,
        stop: &AtomicBool,
    ) -> Result<SessionRound, RunFailure> {
        if stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        let _aside = os::SteppedAside::begin();
        if !matches!(self.exited.try_recv(), Err(mpsc::TryRecvError::Empty)) {
            return Err(self.fail_with_exit(None));
        }
        match std::fs::remove_file(self.output_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                let error = Arc::new(error);
                return Err(self.fail(|stderr| ProgramFault::KeptSeries { error, stderr }));
            }
            _ => {}
        }
        let line = RoundRequest { ticks: request.ticks, warmup: request.warmup };
        let before = os::ProcessUsage::read(self.run.tree.id());
        let started = now();
        let written = self.requests.as_mut().map(|requests| writeln!(requests, "{line}"));
        if !matches!(written, Some(Ok(()))) {
            return Err(self.fail_with_exit(None));
        }
        self.wait_for(RoundReply::Done, started, request.limit, stop)?;
        let wall = started.elapsed();
        let after = os::ProcessUsage::read(self.run.tree.id());
        let usage = after.zip(before).and_then(|(after, before)| after.since(&before));
        Ok(SessionRound { started, wall, usage })
    }

    /// Closes standard input after the last round, and waits until the program has exited. Returns
    /// the number of processes that it left running, and that were killed.
    ///
    /// # Errors
    ///
    /// Returns an error if the program fails or does not exit in time, or if `stop` is set.
    pub fn finish(mut self, stop: &AtomicBool) -> Result<u64, RunFailure> {
        let _aside = os::SteppedAside::begin();
        self.requests = None;
        let limit = hang_timeout(Duration::ZERO);
        match receive(&self.exited, now(), limit, stop) {
            // The watcher sends before it ends.
            Ok(()) | Err(ReceiveError::Disconnected) => {}
            Err(ReceiveError::Interrupted) => {
                let _ = self.run.end(KILL_TIMEOUT);
                return Err(RunFailure::Interrupted);
            }
            Err(ReceiveError::TimedOut) => {
                let _ = self.run.end(KILL_TIMEOUT);
                let program = self.program.text().to_owned();
                return Err(RunFailure::TimedOut { program, limit, expected: None });
            }
        }
        let failed = |error| RunFailure::from_system(&self.program, RunStep::Run, error);
        let exit = self.run.end(KILL_TIMEOUT).map_err(failed)?;
        if !exit.status.success() {
            let status = exit.status;
            return Err(self.fail(|stderr| ProgramFault::ExitStatus { status, stderr }));
        }
        Ok(exit.usage.killed_processes)
    }

    /// Waits for a reply.
    fn wait_for(
        &mut self,
        expected: RoundReply,
        started: Instant,
        limit: Duration,
        stop: &AtomicBool,
    ) -> Result<(), RunFailure> {
        match receive(&self.replies, started, limit, stop) {
            Ok(Reply::Known(reply)) if reply == expected => Ok(()),
            Ok(reply) => {
                let reply = match reply {
                    Reply::Known(reply) => reply.to_string(),
                    Reply::Unknown(text) => text,
                };
                Err(self.fail(|stderr| ProgramFault::WrongReply { reply, expected, stderr }))
            }
            Err(ReceiveError::Disconnected) => Err(self.fail_with_exit(Some(expected))),
            Err(ReceiveError::Interrupted) => {
                let _ = self.run.end(KILL_TIMEOUT);
                Err(RunFailure::Interrupted)
            }
            Err(ReceiveError::TimedOut) => {
                let _ = self.run.end(KILL_TIMEOUT);
                let program = self.program.text().to_owned();
                Err(RunFailure::TimedOut { program, limit, expected: Some(expected) })
            }
        }
    }

    /// Ends the program and creates its failure, with the end of standard error.
    pub fn fail(&mut self, fault: impl FnOnce(StderrQuote) -> ProgramFault) -> RunFailure {
        // A process that cannot be ended does not change the reason.
        let _ = self.run.end(KILL_TIMEOUT);
        let stderr = self.stderr_tail.take().map(StderrTail::quote).unwrap_or_default();
        RunFailure::new(&self.program, fault(stderr))
    }

    /// Creates the failure of a program that has exited or closed its standard output, instead of
    /// writing the expected reply.
    fn fail_with_exit(&mut self, expected: Option<RoundReply>) -> RunFailure {
        let _ = self.exited.recv_timeout(EXIT_TIMEOUT);
        let exit = ProgramExit::new(self.run.end(KILL_TIMEOUT));
        self.fail(|stderr| ProgramFault::EndedEarly { expected, exit, stderr })
    }
}

impl Drop for ProgramSession {
    /// Closes standard input, so that the program exits by itself. The run ends it otherwise.
    fn drop(&mut self) {
        let _aside = os::SteppedAside::begin();
        self.requests = None;
        let _ = self.exited.recv_timeout(EXIT_TIMEOUT);
    }
}
