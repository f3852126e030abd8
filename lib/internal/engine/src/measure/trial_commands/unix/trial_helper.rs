//! The helper: the process that runs the commands.

use std::io::{self, BufRead, Write};
use std::sync::mpsc::{self, RecvTimeoutError};

use rustix::process::{getppid, setsid};

use super::orders::{BUSY, Order, STOP_POLL_INTERVAL, forward_orders};
use super::proof_lock::ProofLock;
use super::started_command::{StartedCommand, run_undo};
use crate::machine::os;
use crate::measure::trial_commands::TrialCommands;
use crate::measure::trial_error::{ChangeError, UndoError};
use crate::program::Program;

/// Follows the orders until their sender is gone. Then undoes the change that is in effect.
pub fn serve(input: impl BufRead + Send + 'static, mut replies: impl Write) {
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
    os::continue_at_parent_death();
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
                    withdrawn =
                        Some(format!("osjitter was stopped while {name} was in effect; {result}"));
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
