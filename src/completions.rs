//! `osjitter completions`: prints the completion script of a shell.

use std::io::Write;

use cli::exit::{Error, ExitStatus, Result};

/// Prints the script.
pub fn run(shell: clap_complete::Shell, mut command: clap::Command) -> Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "osjitter", &mut script);
    std::io::stdout().write_all(&script).map_err(Error::from_stdout)?;
    Ok(ExitStatus::Done)
}
