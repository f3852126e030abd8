//! Settings of the user: a command that changes something, and a command that undoes it.
//!
//! Another process of osjitter, the helper, runs the commands. If one of the two processes is gone
//! while a change is in effect, the other one undoes it:
//!
//! - The helper undoes the change if the pipe to it closes, because osjitter has ended or was
//!   killed, and if osjitter is stopped. It first completes a command that is running, so that no
//!   command is cut off.
//! - osjitter undoes the change if the helper is killed, or is stopped while osjitter is to end. It
//!   first waits for a command of the helper that is still running.
//!
//! Processes that a command leaves in the background run until the change is undone. Then those
//! that are still in the process group of the command are ended.
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
use unix as imp;

#[cfg(unix)]
mod unix {
    mod orders;
    mod proof_lock;
    mod started_command;
    mod trial_helper;
    mod trial_process;

    pub(super) use trial_helper::serve;
    pub use trial_process::{TrialProcess, end};
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
