//! `osjitter completions`: prints the completion script of a shell.

use std::io::Write;

use clap::Command;
use cli::completion::{self, Shell};
use cli::exit::{Error, ExitStatus, Result};

/// Prints the script.
pub fn run(shell: Shell, command: Command) -> Result<ExitStatus> {
    let script = completion::script(shell, command, "osjitter");
    std::io::stdout().write_all(&script).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}
