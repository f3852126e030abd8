//! `osjitter new-plan`: writes a commented plan.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use cli::exit::{self, ExitStatus};
use cli::file_io;
use cli::file_io::Destination;
use cli::terminal;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter new-plan plan.toml
  osjitter new-plan > plan.toml
  osjitter run --plan plan.toml

The plan can be run unchanged. It contains every key that a plan may have, each with a comment that explains it.")]
pub struct NewPlanArgs {
    /// File to create [default: stdout]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Replace an existing file
    #[arg(long, requires = "file")]
    pub force: bool,
}

/// The commented plan.
pub const PLAN: &str = include_str!("new-plan.toml");

/// Writes the plan.
pub fn run(args: &NewPlanArgs) -> exit::Result<ExitStatus> {
    match &args.file {
        None => file_io::write_output(PLAN, None)?,
        Some(file) => {
            let destination = Destination { path: file, force: args.force };
            destination.check_file()?;
            destination.write_file(PLAN.as_bytes())?;
            if !destination.is_stdout() {
                let file = file.display();
                terminal::note(false, &format!("written: {file}; osjitter run --plan {file}"));
            }
        }
    }
    Ok(ExitStatus::Done)
}
