//! Settings of the user: a command that changes something, and a command that undoes it.
//!
//! Another process of osjitter, the helper, runs the commands. If one of the two processes is gone
//! while a change is in effect, the other one undoes it:
//!
//! - The helper undoes the change if the pipe to it closes, because osjitter has ended or was killed,
//!   and if osjitter is stopped. It first completes a command that is running, so that no command is
//!   cut off.
//! - osjitter undoes the change if the helper is killed, or is stopped while osjitter is to end. It
//!   first waits for a command of the helper that is still running.
//!
//! Processes that a command leaves in the background run until the change is undone. Then those that
//! are still in the process group of the command are ended.
//!
//! There is one proof with commands at a time on a machine: each of the two processes holds a lock,
//! which ends with it.

use std::process::ExitCode;

use crate::program::Program;

/// Name of the process that runs the commands: its argument 0.
const NAME: &str = "osjitter-trials";

/// A setting of the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialCommands {
    pub name: String,
    /// Command that changes the setting.
    pub change: Program,
    /// Command that restores the setting.
    pub undo: Program,
}

/// Runs the commands of another process if this process was started for that. Returns `None` if it
/// was not.
pub fn serve_if_started_as_one() -> Option<ExitCode> {
    if std::env::args_os().next()? != NAME {
        return None;
    }
    imp::serve(std::io::BufReader::new(std::io::stdin()), std::io::stdout());
    Some(ExitCode::SUCCESS)
}

pub use imp::{TrialProcess, end};

#[cfg(unix)]
#[path = "proof_lock.rs"]
mod proof_lock;

#[cfg(unix)]
mod imp {
    use std::fs::File;
    use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
    use std::time::{Duration, Instant};

    use cli::printable::to_printable_message;
    use cli::terminal;
    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, getppid, kill_process,
        kill_process_group, setsid, waitid,
    };

    use super::proof_lock::ProofLock;
    use super::{NAME, TrialCommands};
    use crate::machine::os::{self, SessionProcess};
    use crate::measure::child::{self, ReceiveError, program_command};
    use crate::measure::supervisor;
    use crate::measure::trial_error::{
        ChangeError, CommandError, CommandExit, HelperFate, TrialError, UndoError,
    };
    use crate::program::Program;

    /// Time limit of a command.
    const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
    /// Time for which this process waits for an undo command before it exits at a second interrupt,
    /// and after which it says that it waits.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
    /// Time for which this process waits for the end of the helper otherwise: a command, and two runs
    /// of the undo command.
    const END_TIMEOUT: Duration = Duration::from_secs(200);
    /// Time limit of the start of the helper.
    const START_TIMEOUT: Duration = Duration::from_secs(30);
    const POLL_INTERVAL: Duration = Duration::from_millis(1);
    /// Interval at which each process looks whether the other one is stopped.
    const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);
    /// Maximum number of polls for the end of killed processes.
    const MAX_POLLS: u32 = 5_000;
    /// Size of the end of the output that a message quotes.
    const QUOTE_BYTES: u64 = 400;
    /// First part of an order to change a setting. Its name and its commands follow.
    const CHANGE: &str = "change";
    /// Order to undo the change that is in effect.
    const UNDO: &str = "undo";
    /// Reply of a helper that cannot get its lock.
    const BUSY: &str = "busy";

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
                let process = helper().as_ref().map(|helper| is_stopped(&helper.process));
                if process == Some(true) && is_ending {
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

    /// Reads a part of an order, or a reply. Returns `None` at the end, and for a part that was cut.
    fn read_part(input: &mut impl BufRead) -> Option<String> {
        let mut bytes = Vec::new();
        input.read_until(0, &mut bytes).ok()?;
        (bytes.pop() == Some(0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// An order to the helper.
    enum Order {
        Change(Box<TrialCommands>),
        Undo,
    }

    /// Follows the orders until their sender is gone. Then undoes the change that is in effect.
    pub(super) fn serve(input: impl BufRead + Send + 'static, mut replies: impl Write) {
        let mut reply = |text: &str| {
            let reply = format!("{text}\0");
            let _ = replies.write_all(reply.as_bytes()).and_then(|()| replies.flush());
        };
        // A stop of all processes of a service must not prevent the undo.
        os::survive_termination();
        // A session of its own, since a terminal must not end it, and so that osjitter finds its
        // commands if this process is killed.
        let _ = setsid();
        // On Linux, so that the end of a process in the background can be awaited.
        os::adopt_children();
        let osjitter = getppid().map(|id| id.as_raw_nonzero().get().unsigned_abs());
        let Ok(_lock) = ProofLock::acquire("helper") else { return reply(BUSY) };
        let (sender, orders) = mpsc::channel();
        // The thread ends with osjitter.
        let reader = std::thread::Builder::new().spawn(move || forward_orders(input, &sender));
        if reader.is_err() {
            return;
        }
        reply("");
        let mut effective: Option<EffectiveChange> = None;
        // The error of the next order, if osjitter was stopped meanwhile.
        let mut withdrawn: Option<String> = None;
        loop {
            let order = match &effective {
                Some(_) => orders.recv_timeout(STOP_POLL_INTERVAL),
                None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let error = match order {
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    if osjitter.is_some_and(os::is_stopped)
                        && let Some(change) = effective.take()
                    {
                        let name = change.name.clone();
                        let undone = change.undo().err().map(|error| error.to_string());
                        let result = undone.unwrap_or_else(|| format!("{name} was undone"));
                        withdrawn = Some(format!(
                            "osjitter was stopped while {name} was in effect; {result}"
                        ));
                    }
                    continue;
                }
                Ok(Order::Change(commands)) => match EffectiveChange::apply(&commands) {
                    Ok(change) => {
                        effective = Some(change);
                        None
                    }
                    Err(error) => Some(error.to_string()),
                },
                Ok(Order::Undo) => {
                    let undone = effective.take().map_or(Ok(()), EffectiveChange::undo);
                    undone.err().map(|error| error.to_string())
                }
            };
            reply(&error.or(withdrawn.take()).unwrap_or_default());
        }
        if let Some(Err(error)) = effective.map(EffectiveChange::undo) {
            let _ = writeln!(io::stderr(), "osjitter: {error}");
        }
    }

    fn forward_orders(mut input: impl BufRead, orders: &Sender<Order>) {
        while let Some(part) = read_part(&mut input) {
            let order = match part == CHANGE {
                true => read_commands(&mut input).map(|commands| Order::Change(Box::new(commands))),
                false => Some(Order::Undo),
            };
            let Some(order) = order else { return };
            if orders.send(order).is_err() {
                return;
            }
        }
    }

    fn read_commands(input: &mut impl BufRead) -> Option<TrialCommands> {
        let name = read_part(input)?;
        let change = Program::parse(&read_part(input)?).ok()?;
        let undo = Program::parse(&read_part(input)?).ok()?;
        Some(TrialCommands { name, change, undo })
    }

    /// A change that is to be undone.
    struct EffectiveChange {
        name: String,
        undo: Program,
        /// The command that made the change. It has exited, but is not reaped.
        command: StartedCommand,
    }

    impl EffectiveChange {
        /// Runs the command of a change. If it fails, runs the undo command.
        fn apply(commands: &TrialCommands) -> Result<Self, ChangeError> {
            let name = commands.name.clone();
            let mut command = match StartedCommand::start(&commands.change) {
                Ok(command) => command,
                Err(error) => return Err(ChangeError { name, error, undo_error: None }),
            };
            let result = command.wait();
            let change = Self { name: name.clone(), undo: commands.undo.clone(), command };
            match result {
                Ok(()) => Ok(change),
                Err(error) => {
                    let undo_error = change.undo().err().map(Box::new);
                    Err(ChangeError { name, error, undo_error })
                }
            }
        }

        /// Runs the undo command, then ends the processes that the other command has left.
        fn undo(self) -> Result<(), UndoError> {
            // A signal to all processes of a service may end the first run.
            let result = run_undo(&self.undo).or_else(|_| run_undo(&self.undo));
            self.command.end_group();
            result.map_err(|error| UndoError { name: self.name, error })
        }
    }

    /// Runs an undo command to completion. Processes that it leaves in the background run on: they
    /// are part of the previous state.
    fn run_undo(program: &Program) -> Result<(), CommandError> {
        let mut command = StartedCommand::start(program)?;
        let result = command.wait();
        let _ = command.child.wait();
        result
    }

    /// A command of the user, as the leader of a process group.
    struct StartedCommand {
        text: String,
        child: Child,
        /// Standard output and standard error.
        output: Option<File>,
    }

    impl StartedCommand {
        fn start(program: &Program) -> Result<Self, CommandError> {
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
        fn wait(&mut self) -> Result<(), CommandError> {
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
            let _ =
                output.seek(start).and_then(|_| output.take(QUOTE_BYTES).read_to_end(&mut tail));
            to_printable_message(String::from_utf8_lossy(&tail).trim())
        }

        /// Kills the group. Its leader is not reaped, so its id belongs to no other group.
        fn kill_group(&self) {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        }

        /// Kills the group, and reaps its processes that are children of this process.
        #[allow(clippy::disallowed_methods, reason = "nothing reports when a group is empty")]
        fn end_group(&self) {
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
}

/// Other systems have no process groups.
#[cfg(not(unix))]
mod imp {
    use std::io::{self, BufRead, Write};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::TrialCommands;
    use crate::measure::trial_error::TrialError;

    pub struct TrialProcess;

    impl TrialProcess {
        pub fn start(_: &Arc<AtomicBool>) -> io::Result<Self> {
            Err(io::Error::new(io::ErrorKind::Unsupported, "not supported on this system"))
        }

        pub fn change(&mut self, _: &TrialCommands) -> Result<(), TrialError> {
            Ok(())
        }

        pub fn undo(&mut self) -> Result<(), TrialError> {
            Ok(())
        }
    }

    pub fn end() {}
    pub(super) fn serve(_: impl BufRead, _: impl Write) {}
}
