//! Settings of the user: a command that changes something, and a command that undoes it.
//!
//! Another process of osjitter runs the commands. If the pipe to it closes while a change is in
//! effect, it undoes the change, so that nothing stays changed even if this process is killed. It
//! first completes a command that is running, so that no command is cut off by the kill.
//!
//! Processes that a command leaves in the background run until the change is undone. Then the
//! process ends those that are still in the process group of the command.

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
    imp::serve(std::io::stdin().lock(), std::io::stdout());
    Some(ExitCode::SUCCESS)
}

pub use imp::{TrialProcess, end};

#[cfg(unix)]
mod imp {
    use std::fs::File;
    use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Seek, SeekFrom, Write};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::time::{Duration, Instant};

    use cli::printable::to_printable_message;
    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, kill_process_group, waitid,
    };

    use super::{NAME, TrialCommands};
    use crate::machine::os;
    use crate::measure::child::program_command;
    use crate::measure::supervisor;
    use crate::measure::trial_error::{
        ChangeError, CommandError, CommandExit, TrialError, UndoError,
    };
    use crate::program::Program;

    /// Time limit of a command.
    const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
    /// Time for which this process waits for an undo command before it exits.
    const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
    const POLL_INTERVAL: Duration = Duration::from_millis(1);
    /// Maximum number of polls for the end of killed processes.
    const MAX_POLLS: u32 = 5_000;
    /// Size of the end of the output that a message quotes.
    const QUOTE_BYTES: u64 = 400;
    /// First part of an order to change a setting. Its name and its commands follow.
    const CHANGE: &str = "change";
    /// Order to undo the change that is in effect.
    const UNDO: &str = "undo";

    /// The other process, and the pipe that ends it.
    struct Helper {
        process: Child,
        orders: PipeWriter,
    }

    static HELPER: Mutex<Option<Helper>> = Mutex::new(None);

    fn helper() -> MutexGuard<'static, Option<Helper>> {
        HELPER.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Undoes the change that is in effect, and ends the other process. Does nothing without one.
    pub fn end() {
        let ended = helper().take();
        if let Some(Helper { process, orders }) = ended {
            drop(orders);
            supervisor::wait_briefly(process, EXIT_TIMEOUT);
        }
    }

    /// Runs commands in another process. A change that is in effect when this is dropped is undone.
    pub struct TrialProcess {
        replies: BufReader<PipeReader>,
        /// Command that undoes the latest change.
        undo: String,
    }

    impl TrialProcess {
        /// Starts the other process. There is at most one. Start it before the programs that a
        /// [`os::ProcessTree`] ends.
        ///
        /// # Errors
        ///
        /// Returns an error if no process can be started.
        pub fn start() -> io::Result<Self> {
            let path = supervisor::executable().ok_or(io::ErrorKind::NotFound)?;
            let (input, orders) = io::pipe()?;
            let (replies, output) = io::pipe()?;
            let mut command = Command::new(path);
            // A group of its own, since Ctrl-C must not end it.
            command.arg0(NAME).process_group(0).stdin(input).stdout(output);
            let process = command.spawn()?;
            *helper() = Some(Helper { process, orders });
            Ok(Self { replies: BufReader::new(replies), undo: String::new() })
        }

        /// Changes a setting.
        ///
        /// # Errors
        ///
        /// Returns an error if the command fails. The undo command has run then.
        pub fn change(&mut self, commands: &TrialCommands) -> Result<(), TrialError> {
            let TrialCommands { name, change, undo } = commands;
            undo.text().clone_into(&mut self.undo);
            self.request(&[CHANGE, name, change.text(), undo.text()])
        }

        /// Undoes the change that is in effect. Does nothing if there is none.
        ///
        /// # Errors
        ///
        /// Returns an error if the undo command fails.
        pub fn undo(&mut self) -> Result<(), TrialError> {
            self.request(&[UNDO])
        }

        /// Sends an order and waits for the reply. An interrupt can [`end`] the process meanwhile.
        fn request(&mut self, parts: &[&str]) -> Result<(), TrialError> {
            let order: Vec<u8> =
                parts.iter().flat_map(|part| part.bytes().chain(std::iter::once(0))).collect();
            if let Some(Helper { orders, .. }) = &mut *helper() {
                // A process that has ended does not reply.
                let _ = orders.write_all(&order);
            }
            match read_part(&mut self.replies).as_deref() {
                Some("") => Ok(()),
                Some(error) => Err(TrialError::Reported(error.to_owned())),
                None => Err(TrialError::ProcessKilled { undo: self.undo.clone() }),
            }
        }
    }

    impl Drop for TrialProcess {
        fn drop(&mut self) {
            end();
        }
    }

    /// Reads a part of an order, or a reply. Returns `None` at the end, and for a part that was cut.
    fn read_part(input: &mut impl BufRead) -> Option<String> {
        let mut bytes = Vec::new();
        input.read_until(0, &mut bytes).ok()?;
        (bytes.pop() == Some(0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Follows the orders until their sender is gone. Then undoes the change that is in effect.
    pub(super) fn serve(mut input: impl BufRead, mut replies: impl Write) {
        // A stop of all processes of a service must not prevent the undo.
        os::survive_termination();
        // On Linux, so that the end of a process in the background can be awaited.
        os::adopt_children();
        let mut effective: Option<EffectiveChange> = None;
        while let Some(order) = read_part(&mut input) {
            let error = if order == CHANGE {
                let Some(commands) = read_commands(&mut input) else { break };
                match EffectiveChange::apply(&commands) {
                    Ok(change) => {
                        effective = Some(change);
                        None
                    }
                    Err(error) => Some(error.to_string()),
                }
            } else {
                let undone = effective.take().map_or(Ok(()), EffectiveChange::undo);
                undone.err().map(|error| error.to_string())
            };
            let reply = error.unwrap_or_default() + "\0";
            let _ = replies.write_all(reply.as_bytes()).and_then(|()| replies.flush());
        }
        if let Some(Err(error)) = effective.map(EffectiveChange::undo) {
            let _ = writeln!(io::stderr(), "osjitter: {error}");
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

    use super::TrialCommands;
    use crate::measure::trial_error::TrialError;

    pub struct TrialProcess;

    impl TrialProcess {
        pub fn start() -> io::Result<Self> {
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
