//! One run of a user's own program: started, bounded in time, ended with everything it started, and
//! what it said.

use std::io::{self, PipeWriter, Read};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jitterstat::series;

use crate::machine::os::{self, TreeUsage};
use crate::program::Program;
use cli::exit;
use cli::printable::to_printable;

/// How long an interrupt may go unnoticed.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// How long processes may take to die, and the last of what they said to arrive.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// As much of its standard error is kept while it runs.
const STDERR_TAIL_BYTES: usize = 64 << 10;
/// As much of that as a message quotes.
const STDERR_QUOTE_BYTES: usize = 400;

/// A round that takes so many times its length, and this, hangs.
const HANGS: (u32, Duration) = (10, Duration::from_secs(10));

/// When a round that should take so long is ended by force.
pub fn hang_timeout(length: Duration) -> Duration {
    length.saturating_mul(HANGS.0).saturating_add(HANGS.1)
}

/// What is asked of one run.
#[derive(Clone, Copy, Debug)]
pub struct RunRequest {
    pub period: Duration,
    pub ticks: u64,
    pub warmup: u64,
    pub series: Series,
    /// When it is ended by force.
    pub limit: Duration,
}

/// What a run is to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Series {
    /// Whatever it has to say itself.
    Metrics,
    /// The lateness of these ticks.
    Ticks,
    /// And when each of them came.
    TicksWithTimes,
}

/// Why there is nothing to judge.
#[derive(Debug, PartialEq, Eq)]
pub enum RunFailure {
    /// The stop flag was set.
    Interrupted,
    /// There is no such program, or it cannot be started.
    NotStarted(String),
    /// It ticks at another period than it was asked to.
    OtherPeriod(String),
    /// It failed, hung, or wrote something else than was asked for.
    Failed(String),
}

impl RunFailure {
    pub fn message(self) -> Option<String> {
        match self {
            Self::Interrupted => None,
            Self::NotStarted(why) | Self::OtherPeriod(why) | Self::Failed(why) => Some(why),
        }
    }
}

/// A program that ran and exited with 0, and the directory it wrote to.
pub struct CompletedRun {
    run: RunGuard,
    /// Just before it was started: the one origin of its times.
    pub started: Instant,
    /// From `started` until it had exited.
    pub wall: Duration,
    /// What it used, with everything it started.
    pub usage: TreeUsage,
}

impl CompletedRun {
    /// Where it was to write.
    pub fn out(&self) -> PathBuf {
        self.run.scratch_path.join("series")
    }
}

/// A program that was started, and the directory it writes to.
struct Run {
    tree: os::ProcessTree,
    /// `None` once it has been removed.
    scratch: Mutex<Option<tempfile::TempDir>>,
    scratch_path: PathBuf,
}

impl Run {
    /// Ends the program with everything it started, and removes its directory. When this returns,
    /// both are done, even if another thread has begun it.
    fn clean_up(&self, limit: Duration) {
        // A process that cannot be ended was reported by the run.
        let _ = self.tree.end(limit);
        drop(self.scratch.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Owns a run: when it is dropped, nothing of the program is left.
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
        // Last: until then, the process must not end without it.
        active_runs().retain(|run| !Arc::ptr_eq(run, &self.0));
    }
}

/// All runs that are not cleaned up yet, for [`kill_all`].
static ACTIVE_RUNS: Mutex<Vec<Arc<Run>>> = Mutex::new(Vec::new());

fn active_runs() -> MutexGuard<'static, Vec<Arc<Run>>> {
    ACTIVE_RUNS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program that has just been started.
struct StartedRun {
    run: RunGuard,
    stderr: Option<ChildStderr>,
    /// Just before the start.
    started: Instant,
}

/// Reasons for which a program was not started.
enum StartError {
    NoScratchDir(io::Error),
    NoProcess(io::Error),
}

impl StartError {
    fn for_program(self, program: &Program) -> RunFailure {
        match self {
            Self::NoScratchDir(e) => RunFailure::Failed(format!("{}: {e}", program.text())),
            Self::NoProcess(e) => RunFailure::NotStarted(program.start_error(e)),
        }
    }
}

/// StartupCosts the command that `prepare` makes of the path of its directory.
///
/// The list of runs is locked from before the directory exists until the run is in it, so that an
/// interrupt finds each.
fn start_run(prepare: impl FnOnce(&Path) -> Command) -> Result<StartedRun, StartError> {
    let mut active = active_runs();
    let scratch = create_scratch_dir().map_err(StartError::NoScratchDir)?;
    let mut command = prepare(scratch.path());
    let started = now();
    let (tree, stderr) = os::ProcessTree::start(&mut command).map_err(StartError::NoProcess)?;
    let scratch_path = scratch.path().to_owned();
    let run = Arc::new(Run { tree, scratch: Mutex::new(Some(scratch)), scratch_path });
    active.push(Arc::clone(&run));
    Ok(StartedRun { run: RunGuard(run), stderr, started })
}

/// Ends the programs that are running and removes their directories, for a process that is about to
/// end before its work is done. No program can be started afterwards: a thread that tries waits for
/// the end of the process.
pub fn kill_all() {
    let active = active_runs();
    for run in active.iter() {
        run.clean_up(Duration::from_secs(1));
    }
    std::mem::forget(active);
}

/// Runs a program once.
pub fn run(
    program: &Program,
    asked: RunRequest,
    stop: &AtomicBool,
) -> Result<CompletedRun, RunFailure> {
    let fail = |what: String| RunFailure::Failed(format!("{}: {what}", program.text()));
    if stop.load(Ordering::Relaxed) {
        return Err(RunFailure::Interrupted);
    }
    let prepare = |scratch: &Path| {
        let mut command = Command::new(&program.words()[0]);
        command
            .args(&program.words()[1..])
            .env(series::ENV_PERIOD, asked.period.as_nanos().to_string())
            .env(series::ENV_TICKS, asked.ticks.to_string())
            .env(series::ENV_WARMUP, asked.warmup.to_string())
            .env(series::ENV_OUT, scratch.join("series"))
            .env_remove(series::ENV_SERIES)
            .env_remove(series::ENV_TIMES)
            .envs(
                (asked.series != Series::Metrics)
                    .then_some((series::ENV_SERIES, series::SERIES_OF_TICKS)),
            )
            .envs(
                (asked.series == Series::TicksWithTimes)
                    .then_some((series::ENV_TIMES, series::TIMES_MONOTONIC)),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    };
    let StartedRun { run, stderr, started } =
        start_run(prepare).map_err(|e| e.for_program(program))?;
    let said = stderr.map(StderrTail::listen).transpose().map_err(|e| fail(e.to_string()))?;
    let exited = wait(&run.tree, started, asked.limit, stop);
    let ended = run.tree.end(KILL_TIMEOUT).map_err(|e| fail(e.to_string()))?;
    let exited = exited.map_err(|why| match why {
        RunFailure::Failed(what) => fail(what),
        other => other,
    })?;
    if !ended.status.success() {
        return Err(fail(format!(
            "ended with {}{}",
            ended.status,
            said.map_or_else(String::new, StderrTail::quoted)
        )));
    }
    Ok(CompletedRun {
        run,
        started,
        wall: exited.saturating_duration_since(started),
        usage: ended.usage,
    })
}

#[allow(clippy::disallowed_methods, reason = "wall time of what is measured, and its limit")]
fn now() -> Instant {
    Instant::now()
}

/// Runs a command of the user's to its end, with what it started. It is not measured; what it says
/// goes to standard error.
pub fn run_to_completion(
    program: &Program,
    variables: &[(&str, String)],
    limit: Duration,
) -> Result<(), String> {
    let failed = |what: String| format!("{}: {what}", program.text());
    let prepare = |_: &Path| {
        let mut command = Command::new(&program.words()[0]);
        command.args(&program.words()[1..]).stdin(Stdio::null()).stdout(std::io::stderr());
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command
    };
    let not_started = |e: StartError| e.for_program(program).message().unwrap_or_default();
    let StartedRun { run, started, .. } = start_run(prepare).map_err(not_started)?;
    // Only a second interrupt ends it early.
    let exited = wait(&run.tree, started, limit, &AtomicBool::new(false));
    let ended = run.tree.end(KILL_TIMEOUT).map_err(|e| failed(e.to_string()))?;
    exited.map_err(|why| failed(why.message().unwrap_or_default()))?;
    if ended.status.success() {
        Ok(())
    } else {
        Err(failed(format!("ended with {}", ended.status)))
    }
}

/// Creates the directory that a program writes to.
fn create_scratch_dir() -> io::Result<tempfile::TempDir> {
    let place = std::env::temp_dir();
    let none = |e| {
        format!(
            "no temporary directory for it in {}: {}",
            place.display(),
            exit::strip_temp_path(e)
        )
    };
    tempfile::tempdir_in(&place).map_err(|e| io::Error::other(none(e)))
}

/// StartupCosts a thread that ends by itself.
fn watching(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let started = std::thread::Builder::new().spawn(run);
    started.map(drop).map_err(|e| io::Error::new(e.kind(), format!("no thread to watch it: {e}")))
}

/// Reports when the program itself has exited.
fn exit_of(tree: &os::ProcessTree) -> io::Result<mpsc::Receiver<io::Result<Instant>>> {
    let (sender, exited) = mpsc::channel();
    let exit = tree.exit_waiter();
    // It ends when the program does, at the latest when that is ended by force.
    watching(move || {
        let waited = exit();
        // Whoever asked may be gone.
        let _ = sender.send(waited.map(|()| now()));
    })?;
    Ok(exited)
}

/// How long a command may take to come to its work before the first round.
const COMMAND_STARTUP_TIME: Duration = Duration::from_millis(500);
/// How long a process of ours may take to be ready.
const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// A program that runs beside what is measured, and is ended when this goes.
pub struct BackgroundProcess {
    run: RunGuard,
    exited: mpsc::Receiver<io::Result<Instant>>,
    said: Option<StderrTail>,
    /// Where a process of ours waits for the end of its input, even if this process is killed.
    _input: Option<PipeWriter>,
}

impl BackgroundProcess {
    /// StartupCosts a command of the user's, and gives it time to come to its work.
    pub fn start(program: &Program) -> Result<Self, String> {
        let mut command = Command::new(&program.words()[0]);
        command
            .args(&program.words()[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut beside = Self::spawn(command, None).map_err(|e| program.start_error(e))?;
        match beside.exited.recv_timeout(COMMAND_STARTUP_TIME) {
            Err(RecvTimeoutError::Timeout) => Ok(beside),
            _ => Err(beside.why_ended()),
        }
    }

    /// StartupCosts a command of the user's whose output is seen: what it prints goes where messages do.
    pub fn start_with_output(program: &Program) -> Result<Self, String> {
        let mut command = Command::new(&program.words()[0]);
        command
            .args(&program.words()[1..])
            .stdin(Stdio::null())
            .stdout(std::io::stderr())
            .stderr(Stdio::inherit());
        Self::spawn(command, None).map_err(|e| program.start_error(e))
    }

    /// Number of the program's process.
    pub fn id(&self) -> u32 {
        self.run.tree.id()
    }

    /// StartupCosts a process of ours, and waits until it has written `ready`.
    pub fn start_self(args: &[&str], ready: &str) -> Result<Self, String> {
        let failed = |e: io::Error| format!("cannot be started: {e}");
        let mut command = Command::new(std::env::current_exe().map_err(failed)?);
        let (input, end) = io::pipe().map_err(failed)?;
        let (mut answer, output) = io::pipe().map_err(failed)?;
        command.args(args).stdin(input).stdout(output).stderr(Stdio::piped());
        let mut beside = Self::spawn(command, Some(end)).map_err(failed)?;
        let (sender, answered) = mpsc::channel();
        let mut text = vec![0; ready.len()];
        watching(move || {
            let _ = sender.send(answer.read_exact(&mut text).map(|()| text));
        })
        .map_err(failed)?;
        match answered.recv_timeout(READY_TIMEOUT) {
            Ok(Ok(text)) if text == ready.as_bytes() => Ok(beside),
            Err(RecvTimeoutError::Timeout) => Err(format!("was not ready after {READY_TIMEOUT:?}")),
            _ => Err(beside.why_ended()),
        }
    }

    fn spawn(command: Command, input: Option<PipeWriter>) -> io::Result<Self> {
        let StartedRun { run, stderr, .. } = start_run(|_| command).map_err(|e| match e {
            StartError::NoScratchDir(e) | StartError::NoProcess(e) => e,
        })?;
        let exited = exit_of(&run.tree)?;
        Ok(Self { exited, run, said: stderr.map(StderrTail::listen).transpose()?, _input: input })
    }

    /// Lets it stand still until [`Self::resume`], and whether it does.
    pub fn pause(&self) -> bool {
        self.run.tree.pause()
    }

    pub fn resume(&self) {
        self.run.tree.resume();
    }

    /// Why it has ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        match self.exited.try_recv() {
            Err(mpsc::TryRecvError::Empty) => None,
            _ => Some(self.why_ended()),
        }
    }

    fn why_ended(&mut self) -> String {
        let status = self
            .run
            .tree
            .end(KILL_TIMEOUT)
            .map_or_else(|e| e.to_string(), |ended| ended.status.to_string());
        let said = self.said.take().map_or_else(String::new, StderrTail::quoted);
        format!("ended by itself, with {status}{said}")
    }

    /// Ends it with all that it started: the CPU time of all of them.
    pub fn end(self) -> Option<u64> {
        self.run.tree.end(KILL_TIMEOUT).ok().map(|ended| ended.usage.cpu_ns)
    }
}

/// Waits until the program itself has exited: when that was.
fn wait(
    tree: &os::ProcessTree,
    started: Instant,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<Instant, RunFailure> {
    let exited = exit_of(tree).map_err(|e| RunFailure::Failed(e.to_string()))?;
    loop {
        match exited
            .recv_timeout(INTERRUPT_POLL_INTERVAL.min(limit.saturating_sub(started.elapsed())))
        {
            Ok(Ok(at)) => return Ok(at),
            Ok(Err(e)) => return Err(RunFailure::Failed(format!("cannot be waited for: {e}"))),
            Err(RecvTimeoutError::Disconnected) => unreachable!("the sender sends before it goes"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed) {
            return Err(RunFailure::Interrupted);
        }
        if started.elapsed() >= limit {
            return Err(RunFailure::Failed(format!(
                "was still running after {limit:?} and was ended"
            )));
        }
    }
}

/// The last of what a program says, taken while it runs, so that it never has to wait for a reader.
struct StderrTail {
    tail: Arc<Mutex<Vec<u8>>>,
    over: mpsc::Receiver<()>,
}

impl StderrTail {
    fn listen(mut stderr: ChildStderr) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(Vec::new()));
        let (sender, over) = mpsc::channel();
        let kept = Arc::clone(&tail);
        watching(move || {
            let mut chunk = vec![0; STDERR_TAIL_BYTES];
            while let Ok(n @ 1..) = stderr.read(&mut chunk) {
                keep_last(&mut kept.lock().unwrap_or_else(PoisonError::into_inner), &chunk[..n]);
            }
            drop(sender);
        })?;
        Ok(Self { tail, over })
    }

    /// Its last words. What has escaped may hold the pipe open for ever: that is not waited for.
    fn quoted(self) -> String {
        let _ = self.over.recv_timeout(KILL_TIMEOUT);
        let tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail[tail.len().saturating_sub(STDERR_QUOTE_BYTES)..]);
        let text = to_printable(text.trim());
        if text.is_empty() { String::new() } else { format!("; it said: {text}") }
    }
}

/// Appends, and forgets all but the last [`STDERR_TAIL_BYTES`].
fn keep_last(tail: &mut Vec<u8>, more: &[u8]) {
    let too_many = (tail.len() + more.len()).saturating_sub(STDERR_TAIL_BYTES);
    tail.drain(..too_many.min(tail.len()));
    tail.extend_from_slice(&more[more.len().saturating_sub(STDERR_TAIL_BYTES)..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_a_program_says_the_last_is_kept_and_no_more() {
        let mut tail = Vec::new();
        for (length, byte) in [
            (10, 0),
            (STDERR_TAIL_BYTES, 1),
            (3, 2),
            (3 * STDERR_TAIL_BYTES, 3),
            (STDERR_TAIL_BYTES - 1, 4),
        ] {
            keep_last(&mut tail, &vec![byte; length]);
            assert!(
                tail.len() <= STDERR_TAIL_BYTES
                    && tail.ends_with(&vec![byte; length.min(STDERR_TAIL_BYTES)])
            );
        }
        assert_eq!((tail.len(), tail[0]), (STDERR_TAIL_BYTES, 3));
    }
}
