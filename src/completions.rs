//! `osjitter completions`.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::exit::{Error, ExitStatus};

/// Writes the script to standard output.
pub fn run(shell: clap_complete::Shell) -> Result<ExitStatus, Error> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "osjitter", &mut script);
    std::io::stdout().write_all(&script).map_err(Error::writing)?;
    Ok(ExitStatus::Done)
}
