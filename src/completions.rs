//! `osjitter completions`: prints the completion script of a shell.

use clap::Command;
use cli::completion::{self, Shell};
use cli::exit::{ExitStatus, Result};
use cli::file_io;

/// Prints the script.
pub fn run(shell: Shell, command: Command) -> Result<ExitStatus> {
    let script = completion::script(shell, command, "osjitter");
    file_io::write_output(&script, None)?;
    Ok(ExitStatus::Done)
}
