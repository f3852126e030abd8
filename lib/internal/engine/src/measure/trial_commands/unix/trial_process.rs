//! The process that orders the changes: it starts the helper, and undoes a change in its place if
//! the helper is gone.

use std::io::{self, BufReader, PipeReader, PipeWriter, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use cli::terminal;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};

use super::orders::{CHANGE, STOP_POLL_INTERVAL, UNDO, read_part};
use super::proof_lock::ProofLock;
use super::started_command::{COMMAND_TIMEOUT, POLL_INTERVAL, run_undo};
use crate::machine::os::{self, SessionProcess};
use crate::measure::child::{self, ReceiveError};
use crate::measure::supervisor;
use crate::measure::trial_commands::{NAME, TrialCommands};
use crate::measure::trial_error::{HelperFate, TrialError, UndoError};

/// Time for which this process waits for an undo command before it exits at a second interrupt,
/// and after which it says that it waits.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which this process waits for the end of the helper otherwise: a command, and two runs
/// of the undo command.
const END_TIMEOUT: Duration = Duration::from_secs(200);
/// Time after which a stopped helper is replaced, although nothing was interrupted.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit of the start of the helper.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The other process, and the pipe that ends it.
struct Helper {
    process: Child,
    orders: PipeWriter,
}

static HELPER: Mutex<Option<Helper>> = Mutex::new(None);
/// The change that was ordered, and is not known to be undone.
static IN_EFFECT: Mutex<Option<TrialCommands>> = Mutex::new(None);

fn helper() -> MutexGuard<'static, Option<Helper>> {
    HELPER.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_effect() -> MutexGuard<'static, Option<TrialCommands>> {
    IN_EFFECT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Undoes the change that is in effect, and ends the helper. Does nothing without one.
///
/// If that takes long, prints what is still in effect and returns. The helper completes the undo.
pub fn end() {
    end_within(EXIT_TIMEOUT);
}

#[allow(clippy::disallowed_methods, reason = "a wait with a time limit")]
fn end_within(limit: Duration) {
    let started = Instant::now();
    // Another thread holds the lock while it undoes a change.
    let mut state = loop {
        match HELPER.try_lock() {
            Ok(state) => break state,
            Err(TryLockError::Poisoned(error)) => break error.into_inner(),
            Err(TryLockError::WouldBlock) if started.elapsed() > limit => {
                return warn_of_change();
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(POLL_INTERVAL),
        }
    };
    let Some(Helper { mut process, orders }) = state.take() else { return };
    drop(orders);
    let lost = loop {
        match process.try_wait() {
            Ok(Some(status)) if status.success() => break None,
            Ok(Some(_)) | Err(_) => break Some(HelperFate::Killed),
            Ok(None) if is_stopped(&process) => {
                let _ = kill_process(Pid::from_child(&process), Signal::KILL);
                break Some(HelperFate::Stopped);
            }
            Ok(None) if started.elapsed() > limit => return warn_of_change(),
            Ok(None) => std::thread::sleep(POLL_INTERVAL),
        }
    };
    match lost.map(|fate| recover(&process, fate)) {
        // The helper has undone it, or has said that it cannot.
        None => *in_effect() = None,
        Some(error @ TrialError::NotRecovered { .. }) => terminal::warning(&error.to_string()),
        Some(_) => {}
    }
}

/// Prints the change that is in effect, and how to undo it.
fn warn_of_change() {
    if let Some(TrialCommands { name, undo, .. }) = &*in_effect() {
        terminal::warning(&format!(
            "{name} is still in effect: another process of osjitter undoes it as soon as it can; the command is: {}",
            undo.text()
        ));
    }
}

/// Returns whether a child process is stopped.
fn is_stopped(process: &Child) -> bool {
    let options = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let status = waitid(WaitId::Pid(Pid::from_child(process)), options);
    status.is_ok_and(|status| status.is_some_and(|status| status.stopped()))
}

/// Undoes the change that is in effect, if there is one, in place of the helper. Describes the
/// result.
fn recover(helper: &Child, fate: HelperFate) -> TrialError {
    let Some(TrialCommands { name, undo, .. }) = in_effect().clone() else {
        return TrialError::Lost(fate);
    };
    let session = helper.id();
    wait_for_commands(session);
    let result = run_undo(&undo).or_else(|_| run_undo(&undo));
    // What the command of the change has left holds the setting.
    for process in os::session_processes(session) {
        kill_session_group(process);
    }
    *in_effect() = None;
    match result {
        Ok(()) => TrialError::Recovered(fate, name),
        Err(error) => {
            let (error, undo) = (UndoError { name, error }.to_string(), undo.text().to_owned());
            TrialError::NotRecovered { fate, error, undo }
        }
    }
}

/// Waits until the command of a helper that is gone has ended. It is the leader of a group in the
/// session of the helper. Kills it after the time limit.
#[allow(clippy::disallowed_methods, reason = "a wait with a time limit")]
fn wait_for_commands(session: u32) {
    let started = Instant::now();
    loop {
        let processes = os::session_processes(session);
        let commands = processes.into_iter().filter(|p| p.id == p.group && p.id != session);
        let commands: Vec<SessionProcess> = commands.collect();
        if commands.is_empty() {
            return;
        }
        for command in commands {
            if started.elapsed() > COMMAND_TIMEOUT {
                kill_session_group(command);
            } else if command.is_stopped
                && let Some(group) = group_id(command)
            {
                let _ = kill_process_group(group, Signal::CONT);
            }
        }
        if started.elapsed() > COMMAND_TIMEOUT {
            return;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn group_id(process: SessionProcess) -> Option<Pid> {
    i32::try_from(process.group).ok().and_then(Pid::from_raw)
}

fn kill_session_group(process: SessionProcess) {
    // It fails for a group that is gone.
    let _ = group_id(process).map(|group| kill_process_group(group, Signal::KILL));
}

/// Runs commands in another process. A change that is in effect when this is dropped is undone.
pub struct TrialProcess {
    replies: Receiver<String>,
    /// Set if the proof is to end.
    stop: Arc<AtomicBool>,
    _lock: ProofLock,
}

impl TrialProcess {
    /// Starts the helper. There is at most one. Start it before the programs that a
    /// [`os::ProcessTree`] ends. `stop` is set when the proof is to end.
    ///
    /// # Errors
    ///
    /// Returns an error if no process can be started, or if another one runs on this machine
    /// ([`io::ErrorKind::AddrInUse`]), or if `stop` is set
    /// ([`io::ErrorKind::Interrupted`]).
    #[allow(clippy::disallowed_methods, reason = "the time limit of the start")]
    pub fn start(stop: &Arc<AtomicBool>) -> io::Result<Self> {
        let lock = ProofLock::acquire("osjitter")?;
        let path = supervisor::executable().ok_or(io::ErrorKind::NotFound)?;
        let (input, orders) = io::pipe()?;
        let (output, helper_output) = io::pipe()?;
        let mut command = Command::new(path);
        command.arg0(NAME).stdin(input).stdout(helper_output);
        let process = command.spawn()?;
        drop(command);
        *helper() = Some(Helper { process, orders });
        let (sender, replies) = mpsc::channel();
        // The thread ends with the helper.
        std::thread::Builder::new().spawn(move || forward_replies(output, &sender))?;
        let trials = Self { replies, stop: Arc::clone(stop), _lock: lock };
        let reply = child::receive(&trials.replies, Instant::now(), START_TIMEOUT, stop);
        let error = match reply.as_deref() {
            Ok("") => return Ok(trials),
            Ok(_) => io::ErrorKind::AddrInUse.into(),
            Err(ReceiveError::Interrupted) => io::ErrorKind::Interrupted.into(),
            Err(_) => io::Error::other("it does not start"),
        };
        // Nothing is in effect that has to be awaited for long.
        end();
        Err(error)
    }

    /// Changes a setting.
    ///
    /// # Errors
    ///
    /// Returns an error if the command fails. The undo command has run then.
    pub fn change(&mut self, commands: &TrialCommands) -> Result<(), TrialError> {
        let TrialCommands { name, change, undo } = commands;
        *in_effect() = Some(commands.clone());
        let changed = self.request(&[CHANGE, name, change.text(), undo.text()]);
        if matches!(changed, Err(TrialError::Reported(_))) {
            *in_effect() = None;
        }
        changed
    }

    /// Undoes the change that is in effect. Does nothing if there is none.
    ///
    /// # Errors
    ///
    /// Returns an error if the undo command fails.
    pub fn undo(&mut self) -> Result<(), TrialError> {
        let undone = self.request(&[UNDO]);
        if matches!(undone, Ok(()) | Err(TrialError::Reported(_))) {
            *in_effect() = None;
        }
        undone
    }

    /// Sends an order and waits for the reply. An interrupt can [`end`] the helper meanwhile.
    #[allow(clippy::disallowed_methods, reason = "the length of a wait")]
    fn request(&self, parts: &[&str]) -> Result<(), TrialError> {
        let order: Vec<u8> =
            parts.iter().flat_map(|part| part.bytes().chain(std::iter::once(0))).collect();
        if let Some(Helper { orders, .. }) = &mut *helper() {
            // A process that has ended does not reply.
            let _ = orders.write_all(&order);
        }
        let started = Instant::now();
        let mut has_warned = false;
        let mut stopped_since: Option<Instant> = None;
        loop {
            match self.replies.recv_timeout(STOP_POLL_INTERVAL).as_deref() {
                Ok("") => return Ok(()),
                Ok(error) => return Err(TrialError::Reported(error.to_owned())),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(take_over(HelperFate::Killed));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let is_ending = self.stop.load(Ordering::Relaxed);
            let is_helper_stopped =
                helper().as_ref().is_some_and(|helper| is_stopped(&helper.process));
            stopped_since = is_helper_stopped.then(|| stopped_since.unwrap_or_else(Instant::now));
            if stopped_since.is_some_and(|since| is_ending || since.elapsed() > STOP_TIMEOUT) {
                return Err(take_over(HelperFate::Stopped));
            }
            if started.elapsed() > EXIT_TIMEOUT && is_ending && !has_warned {
                has_warned = true;
                warn_of_change();
            }
        }
    }
}

/// Undoes the change that is in effect, since the helper is gone or stopped.
///
/// A stopped helper is killed: it would follow its last order whenever it is continued.
fn take_over(fate: HelperFate) -> TrialError {
    let mut state = helper();
    let Some(Helper { mut process, orders }) = state.take() else {
        return TrialError::Interrupted;
    };
    match fate {
        HelperFate::Killed => drop(process.wait()),
        HelperFate::Stopped => {
            let _ = kill_process(Pid::from_child(&process), Signal::KILL);
        }
    }
    drop(orders);
    // The lock is held until the change is undone.
    let error = recover(&process, fate);
    drop(state);
    error
}

impl Drop for TrialProcess {
    fn drop(&mut self) {
        end_within(END_TIMEOUT);
    }
}

fn forward_replies(output: PipeReader, replies: &Sender<String>) {
    let mut output = BufReader::new(output);
    while let Some(reply) = read_part(&mut output) {
        if replies.send(reply).is_err() {
            return;
        }
    }
}
