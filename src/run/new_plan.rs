//! `osjitter new-plan`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use cli::exit::{self, ExitStatus};

use crate::{file_io, terminal};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter new-plan plan.toml
  osjitter new-plan > plan.toml
  osjitter run --plan plan.toml

The plan can be run as it is, and has every key that a plan may have, each with a line that explains it.")]
pub struct NewPlanArgs {
    /// The file to write, which must not be there yet [default: stdout]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// A plan that explains itself.
pub const PLAN: &str = include_str!("new-plan.toml");

pub fn run(args: &NewPlanArgs) -> exit::Result<ExitStatus> {
    match &args.file {
        None => file_io::deliver(PLAN, None)?,
        Some(file) => {
            file_io::write_new(file, PLAN.as_bytes())?;
            terminal::note(false, &format!("written: {}; osjitter run --plan {0}", file.display()));
        }
    }
    Ok(ExitStatus::Done)
}
