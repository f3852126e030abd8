//! `osjitter bench`: one part by itself, one file a part.

mod clock;
mod dispatch;
mod timeout;

use crate::cli::BenchCommand;
use crate::exit::{ExitStatus, Failure};

/// Runs it.
pub fn run(command: &BenchCommand) -> Result<ExitStatus, Failure> {
    match command {
        BenchCommand::Clock(args) => clock::run(args),
        BenchCommand::Timeout(args) => timeout::run(args),
        BenchCommand::Dispatch(args) => dispatch::run(args),
    }
}
