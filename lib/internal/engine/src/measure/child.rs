//! Child processes: runs of a user's program, and programs in the background.
//!
//! A program has a time limit, and is ended with everything that it has started.

mod background;
mod background_error;
mod observed_run;
mod run_failure;
mod session;
mod stderr_tail;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cli::interrupt;
use cli::printable::to_printable;
use jitterstat::series;

use crate::machine::os::{self, ProcessTreeExit, StartedTree, TreeUsage};
use crate::measure::benches::{BenchRequest, CriterionServer, ENV_CRITERION_PORT, STDOUT_NAME};
use crate::measure::scratch::ScratchDirectory;
use crate::measure::supervisor;
use crate::program::Program;
use stderr_tail::{StderrQuote, StderrTail};

pub use background::BackgroundProcess;
pub use background_error::{BackgroundError, EarlyExit};
pub use observed_run::{MIN_READ_LENGTH, read_settings};
pub use run_failure::{ProgramExit, ProgramFault, RunFailure, RunStep};
pub use session::{Probe, ProgramSession, SessionRound, probe};

/// Variables of [`remove_repository`].
const REPOSITORY_VARIABLES: [&str; 14] = [
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_OBJECT_DIRECTORY",
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_GRAFT_FILE",
    "GIT_INDEX_FILE",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_REPLACE_REF_BASE",
    "GIT_PREFIX",
    "GIT_SHALLOW_FILE",
    "GIT_COMMON_DIR",
    "GIT_INTERNAL_SUPER_PREFIX",
];
/// Interval at which interrupts are polled.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Timeout for killed processes to exit, and for their last output to arrive.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// Name of the series that a program writes, in the directory of a run.
const SERIES_NAME: &str = "series";
/// Size of the end of standard output that a message quotes.
const MAX_QUOTE_BYTES: u64 = 400;
/// A round hangs if it takes longer than its length times this factor, plus the minimum.
const HANG_FACTOR: u32 = 10;
/// Time limit of a round of no length.
const MIN_HANG_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the time limit of a round with an expected length.
pub fn hang_timeout(length: Duration) -> Duration {
    length.saturating_mul(HANG_FACTOR).saturating_add(MIN_HANG_TIMEOUT)
}

/// A request to run a program.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    pub period: Duration,
    pub ticks: u64,
    pub warmup: u64,
    pub series: Series,
    /// Time limit of the run.
    pub limit: Duration,
}

/// Kind of series that the program is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Metrics of the program.
    Metrics,
    /// Benchmarks, which their harness writes to standard output or to the directory of Criterion.
    Benches,
    /// Lateness of the ticks.
    Ticks,
    /// Lateness and time of the ticks.
    TicksWithTimes,
}

/// A run that exited with 0, and the directory to which it wrote.
pub struct CompletedRun {
    run: RunGuard,
    /// Time just before the start, which is the origin of all times.
    pub started: Instant,
    /// Time from `started` to the exit.
    pub wall: Duration,
    /// Resources of the program and everything that it started.
    pub usage: TreeUsage,
    stderr_tail: Option<StderrTail>,
}

impl CompletedRun {
    /// Returns the number of processes that the program left running, and that were killed.
    pub fn killed_processes(&self) -> u64 {
        self.usage.killed_processes
    }

    /// Returns the id of the program's process.
    pub fn process(&self) -> u32 {
        self.run.tree.id()
    }

    /// Quotes the end of standard error.
    pub fn quote_stderr(self) -> StderrQuote {
        self.stderr_tail.map(StderrTail::quote).unwrap_or_default()
    }

    /// Returns the path to which the program was told to write.
    pub fn output_path(&self) -> PathBuf {
        self.run.series_path()
    }

    /// Returns the directory to which a run of benchmarks was told to write.
    pub fn directory(&self) -> &Path {
        &self.run.scratch_path
    }
}

/// A running program, and the directory to which it writes.
struct Run {
    tree: os::ProcessTree,
    /// The directory; `None` after it was removed.
    scratch: Mutex<Option<ScratchDirectory>>,
    scratch_path: PathBuf,
}

impl Run {
    /// Returns the path to which the program was told to write.
    fn series_path(&self) -> PathBuf {
        self.scratch_path.join(SERIES_NAME)
    }

    /// Ends the program with everything that it started.
    fn end(&self, timeout: Duration) -> io::Result<ProcessTreeExit> {
        let exit = self.tree.end(timeout)?;
        supervisor::unregister_group(self.tree.id());
        Ok(exit)
    }

    /// Leaves what the program, which has exited, started running. Returns its exit status.
    #[cfg(unix)]
    fn leave(&self) -> io::Result<ExitStatus> {
        let status = self.tree.leave()?;
        supervisor::unregister_group(self.tree.id());
        Ok(status)
    }

    /// Ends what the program, which has exited, started: its job would end that anyway. Returns its
    /// exit status.
    #[cfg(not(unix))]
    fn leave(&self) -> io::Result<ExitStatus> {
        Ok(self.end(KILL_TIMEOUT)?.status)
    }

    /// Ends the program with everything that it started, and removes its directory.
    ///
    /// Both are done when this returns, even if another thread has started the cleanup.
    fn clean_up(&self, timeout: Duration) {
        // The run has already reported a process that cannot be ended.
        let _ = self.end(timeout);
        drop(self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Owner of a run, which ends the program when it is dropped.
struct RunGuard(Arc<Run>);

impl std::ops::Deref for RunGuard {
    type Target = Run;

    fn deref(&self) -> &Run {
        &self.0
    }
}

impl Drop for RunGuard {
    fn drop(&mut self) {
        self.clean_up(KILL_TIMEOUT);
        // Remove the run last: `kill_all` must find it until it is cleaned up.
        active_runs().retain(|run| !Arc::ptr_eq(run, &self.0));
    }
}

/// All runs that are not cleaned up, for [`kill_all`].
static ACTIVE_RUNS: Mutex<Vec<Arc<Run>>> = Mutex::new(Vec::new());

fn active_runs() -> MutexGuard<'static, Vec<Arc<Run>>> {
    ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that has just been started.
struct StartedRun {
    run: RunGuard,
    stderr: Option<ChildStderr>,
    /// Time just before the start.
    started: Instant,
    /// A real-time thread stays normal until the program has ended or waits. It is dropped last.
    aside: Option<os::SteppedAside>,
}

/// Starts the command that `prepare` creates from the path of the directory.
///
/// The list of runs is locked from before the directory exists until the run is in the list, so
/// that an interrupt finds every run.
fn start_run(prepare: impl FnOnce(&Path) -> io::Result<Command>) -> io::Result<StartedRun> {
    let aside = os::SteppedAside::begin();
    let mut active = active_runs();
    supervisor::start()?;
    let scratch = ScratchDirectory::new()?;
    let mut command = prepare(scratch.path())?;
    supervisor::register_program(scratch.path(), &mut command);
    if let Some(aside) = &aside {
        aside.give_to(&mut command);
    }
    let StartedTree { tree, stderr, started } = os::ProcessTree::start(&mut command)?;
    supervisor::register_group(tree.id());
    let scratch_path = scratch.path().to_owned();
    let run = Arc::new(Run { tree, scratch: Mutex::new(Some(scratch)), scratch_path });
    active.push(Arc::clone(&run));
    Ok(StartedRun { aside, run: RunGuard(run), stderr, started })
}

/// Ends all running programs and removes their directories, before this process exits early.
///
/// No program can be started afterwards: a thread that tries blocks until the process exits.
pub fn kill_all() {
    let active = active_runs();
    for run in active.iter() {
        run.clean_up(Duration::from_secs(1));
    }
    std::mem::forget(active);
}

/// Runs a program once.
///
/// # Errors
///
/// Returns an error if the program cannot be started, fails or exceeds its time limit, or if `stop`
/// is set.
pub fn run(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
) -> Result<CompletedRun, RunFailure> {
    run_prepared(program, request, stop, |_, _| ())
}

/// Runs benchmarks once. Criterion reports to the server, if there is one.
///
/// # Errors
///
/// Returns an error if [`run`] does.
pub fn run_benches(
    program: &Program,
    request: RunRequest,
    benches: &BenchRequest,
    server: Option<&CriterionServer>,
    stop: &AtomicBool,
) -> Result<CompletedRun, RunFailure> {
    let request = RunRequest { series: Series::Benches, ..request };
    run_prepared(program, request, stop, |command, scratch| {
        command.envs(benches.variables(scratch)).args(benches.output_arguments(scratch));
        match server {
            Some(server) => command.env(ENV_CRITERION_PORT, server.port().to_string()),
            None => command.env_remove(ENV_CRITERION_PORT),
        };
    })
}

/// Like [`run`]; `adjust` changes the command before it is started.
fn run_prepared(
    program: &Program,
    request: RunRequest,
    stop: &AtomicBool,
    adjust: impl FnOnce(&mut Command, &Path),
) -> Result<CompletedRun, RunFailure> {
    if stop.load(Ordering::Relaxed) {
        return Err(RunFailure::Interrupted);
    }
    let prepare = |scratch: &Path| {
        let mut command = measuring_command(program, request, scratch)?;
        adjust(&mut command, scratch);
        Ok(command)
    };
    let StartedRun { aside: _aside, run, stderr, started } = start_run(prepare)
        .map_err(|error| RunFailure::from_system(program, RunStep::Start, error))?;
    let failed = |error| RunFailure::from_system(program, RunStep::Run, error);
    let tail = stderr.map(StderrTail::listen).transpose().map_err(failed)?;
    let exited = wait_for_exit(program, &run.tree, started, request.limit, stop);
    let exit = run.end(KILL_TIMEOUT).map_err(failed)?;
    let exited = exited?;
    if !exit.status.success() {
        let (status, stderr) = (exit.status, tail.map(StderrTail::quote).unwrap_or_default());
        let fault = match request.series {
            Series::Benches => {
                let stdout = quote_tail(&run.scratch_path.join(STDOUT_NAME));
                ProgramFault::Harness { status, stderr, stdout, cause: None }
            }
            _ => ProgramFault::ExitStatus { status, stderr },
        };
        return Err(RunFailure::new(program, fault));
    }
    let wall = exited.saturating_duration_since(started);
    Ok(CompletedRun { run, started, wall, usage: exit.usage, stderr_tail: tail })
}

/// Quotes the end of a file that a program wrote, as far as it can be read.
fn quote_tail(path: &Path) -> String {
    let read_tail = || {
        let mut file = os::open_regular(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MAX_QUOTE_BYTES)))?;
        let mut tail = Vec::new();
        file.take(MAX_QUOTE_BYTES).read_to_end(&mut tail)?;
        Ok::<Vec<u8>, io::Error>(tail)
    };
    let tail = read_tail().unwrap_or_default();
    to_printable(&String::from_utf8_lossy(&tail).trim().replace('\t', " "))
}

/// Creates the command of a measured run.
///
/// # Errors
///
/// Returns an error if the file for its standard output cannot be created.
fn measuring_command(
    program: &Program,
    request: RunRequest,
    scratch: &Path,
) -> io::Result<Command> {
    let mut command = program_command(program);
    command
        .env(series::ENV_PERIOD, request.period.as_nanos().to_string())
        .env(series::ENV_TICKS, request.ticks.to_string())
        .env(series::ENV_WARMUP, request.warmup.to_string())
        .env(series::ENV_OUT, scratch.join(SERIES_NAME))
        .env_remove(series::ENV_SERIES)
        .env_remove(series::ENV_TIMES)
        .env_remove(series::ENV_ROUNDS)
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    if let Some(meter) = program.meter() {
        command.env(series::ENV_METER, meter);
    }
    match request.series {
        Series::Metrics => {}
        Series::Benches => {
            command.stdout(File::create(scratch.join(STDOUT_NAME))?);
        }
        Series::Ticks => {
            command.env(series::ENV_SERIES, series::SERIES_OF_TICKS);
        }
        Series::TicksWithTimes => {
            command.env(series::ENV_SERIES, series::SERIES_OF_TICKS);
            command.env(series::ENV_TIMES, series::TIMES_MONOTONIC);
        }
    }
    Ok(command)
}

/// Creates the command of a program, without standard input.
pub(super) fn program_command(program: &Program) -> Command {
    let mut command = Command::new(&program.words()[0]);
    command.args(&program.words()[1..]).stdin(Stdio::null());
    if let Some(directory) = program.directory() {
        command.current_dir(directory);
        remove_repository(&mut command);
    }
    command
}

/// Removes the variables with which git passes a repository to hooks and aliases. In another directory,
/// git would use this repository all the same, and write to the index of a commit in progress. These
/// are the variables that `git rev-parse --local-env-vars` lists, without those of `git -c`: like git
/// itself for submodules, a tool keeps the settings of the user.
pub fn remove_repository(command: &mut Command) {
    for name in REPOSITORY_VARIABLES {
        command.env_remove(name);
    }
}

#[allow(clippy::disallowed_methods, reason = "wall time of a run, and its limit")]
fn now() -> Instant {
    Instant::now()
}

/// Runs a command of the user to completion, with everything that it starts.
///
/// The command is not measured. Its output goes to standard error.
///
/// # Errors
///
/// Returns an error if the command cannot be started, fails or exceeds the time limit.
pub fn run_to_completion(
    program: &Program,
    variables: &[(&str, String)],
    limit: Duration,
) -> Result<(), RunFailure> {
    let mut command = program_command(program);
    command.stdout(std::io::stderr());
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let StartedRun { aside: _aside, run, started, .. } = start_run(|_| Ok(command))
        .map_err(|error| RunFailure::from_system(program, RunStep::Start, error))?;
    // An interrupt does not end the command while the run is measured.
    let exited = wait_for_exit(program, &run.tree, started, limit, &AtomicBool::new(false));
    let exit = run
        .end(KILL_TIMEOUT)
        .map_err(|error| RunFailure::from_system(program, RunStep::Run, error))?;
    exited?;
    let (status, stderr) = (exit.status, StderrQuote::default());
    match status.success() {
        true => Ok(()),
        false => Err(RunFailure::new(program, ProgramFault::ExitStatus { status, stderr })),
    }
}

/// Destination of the standard error of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStderr {
    /// The standard error of this process.
    Inherited,
    Captured,
}

/// Runs a tool that prepares a measurement, such as cargo, and returns its output. An interrupt ends
/// the tool with everything that it started. On a terminal, that interrupts it instead. A process that
/// a tool leaves running, such as the server of a compiler cache, is not ended. The command is used up.
///
/// # Errors
///
/// Returns an error if the tool cannot be started, or is interrupted.
pub fn run_tool(command: &mut Command, stderr: ToolStderr) -> io::Result<Output> {
    const STDERR_NAME: &str = "stderr";
    if io::stdin().is_terminal() || io::stderr().is_terminal() {
        // The tool may ask for a password, which only a process of this group can read: the terminal
        // would stop any other one. It interrupts the tool as well.
        let stderr = match stderr {
            ToolStderr::Inherited => Stdio::inherit(),
            ToolStderr::Captured => Stdio::piped(),
        };
        return command.stdin(Stdio::null()).stderr(stderr).output();
    }
    let prepare = |scratch: &Path| {
        let mut command = std::mem::replace(command, Command::new(""));
        command.stdin(Stdio::null()).stdout(File::create(scratch.join(STDOUT_NAME))?);
        match stderr {
            ToolStderr::Inherited => command.stderr(Stdio::inherit()),
            ToolStderr::Captured => command.stderr(File::create(scratch.join(STDERR_NAME))?),
        };
        Ok(command)
    };
    let StartedRun { aside: _aside, run, started, .. } = start_run(prepare)?;
    let exited = watch_exit(&run.tree)?.exited;
    let is_complete = receive(&exited, started, Duration::MAX, interrupt::flag()).is_ok();
    if !is_complete {
        run.end(KILL_TIMEOUT)?;
        return Err(io::ErrorKind::Interrupted.into());
    }
    let status = run.leave()?;
    let read = |name: &str| std::fs::read(run.scratch_path.join(name));
    let stdout = read(STDOUT_NAME)?;
    // It is in no file if it is inherited.
    let stderr = read(STDERR_NAME).unwrap_or_default();
    Ok(Output { status, stdout, stderr })
}

/// Starts a thread, which is detached unless it is joined.
fn spawn_watcher<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let run_normal = || {
        os::become_normal();
        run()
    };
    let started = std::thread::Builder::new().spawn(run_normal);
    started.map_err(|error| io::Error::new(error.kind(), NoWatcher(error)))
}

#[derive(Debug, thiserror::Error)]
#[error("cannot start the watcher thread: {0}")]
struct NoWatcher(#[source] io::Error);

/// A thread that waits for the exit of a program.
struct ExitWatch {
    /// Returns the time of the exit.
    thread: JoinHandle<io::Result<Instant>>,
    /// Receives a message when the program itself has exited.
    exited: Receiver<()>,
}

/// Starts a thread that waits for the exit of a program.
fn watch_exit(tree: &os::ProcessTree) -> io::Result<ExitWatch> {
    let (sender, exited) = mpsc::channel();
    let wait = tree.exit_waiter();
    // The thread ends with the program, which has a time limit. The receiver may be dropped before.
    let thread = spawn_watcher(move || {
        let exit = wait().map(|()| now());
        let _ = sender.send(());
        exit
    })?;
    Ok(ExitWatch { thread, exited })
}

/// Reason why no message was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveError {
    /// The stop flag was set.
    Interrupted,
    TimedOut,
    /// The sender was dropped.
    Disconnected,
}

/// Waits for a message until `limit` has passed since `started`, or `stop` is set.
///
/// # Errors
///
/// Returns an error if there was no message until then, or if the sender was dropped.
pub fn receive<T>(
    messages: &Receiver<T>,
    started: Instant,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<T, ReceiveError> {
    loop {
        let remaining = limit.saturating_sub(started.elapsed());
        match messages.recv_timeout(INTERRUPT_POLL_INTERVAL.min(remaining)) {
            Ok(message) => return Ok(message),
            Err(RecvTimeoutError::Disconnected) => return Err(ReceiveError::Disconnected),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(ReceiveError::Interrupted);
        }
        if started.elapsed() >= limit {
            return Err(ReceiveError::TimedOut);
        }
    }
}

/// Waits until the program itself has exited, and returns the time of the exit.
fn wait_for_exit(
    program: &Program,
    tree: &os::ProcessTree,
    started: Instant,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Instant, RunFailure> {
    let watch =
        watch_exit(tree).map_err(|error| RunFailure::from_system(program, RunStep::Run, error))?;
    match receive(&watch.exited, started, limit, stop) {
        Ok(()) => watch
            .thread
            .join()
            .expect("it has sent its last message")
            .map_err(|error| RunFailure::from_system(program, RunStep::WaitForExit, error)),
        Err(ReceiveError::Interrupted) => Err(RunFailure::Interrupted),
        Err(ReceiveError::TimedOut) => {
            let program = program.text().to_owned();
            Err(RunFailure::TimedOut { program, limit, expected: None })
        }
        Err(ReceiveError::Disconnected) => unreachable!("the sender sends before it is dropped"),
    }
}
