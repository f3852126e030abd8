//! `osjitter completions`.

use std::io::Write;

use clap::CommandFactory;

use crate::cli::Cli;
use crate::exit::{ExitStatus, Failure};

/// Writes the script to standard output.
pub fn run(shell: clap_complete::Shell) -> Result<ExitStatus, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "osjitter", &mut script);
    std::io::stdout().write_all(&script).map_err(Failure::writing)?;
    Ok(ExitStatus::Done)
}
