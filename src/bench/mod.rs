//! `osjitter bench`: one part by itself, one file a part.

pub mod clock;
pub mod dispatch;
pub mod timeout;

use clap::Subcommand;

use crate::exit::{Error, ExitStatus};

#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// What reading a clock costs here, how fine and how true it is, and which to use
    Clock(clock::args::BenchClockArgs),
    /// What a timeout around every wait costs while it does not fire, and what cheaper ways there are
    Timeout(Box<timeout::args::BenchTimeoutArgs>),
    /// What polls, wakes, tasks and channels cost in a runtime that does not park, beside tokio
    Dispatch(dispatch::args::BenchDispatchArgs),
}

/// Runs it.
pub fn run(command: &BenchCommand) -> Result<ExitStatus, Error> {
    match command {
        BenchCommand::Clock(args) => clock::run(args),
        BenchCommand::Timeout(args) => timeout::run(args),
        BenchCommand::Dispatch(args) => dispatch::run(args),
    }
}
