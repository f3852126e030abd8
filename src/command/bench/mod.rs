//! `osjitter bench`: one file a bench.

pub mod timeout;

use clap::Subcommand;

use crate::exit::{ExitStatus, Failure};

/// The benches.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// What a timeout around every wait costs while it does not fire, and what cheaper ways there are
    Timeout(timeout::Args),
}

/// Runs one of them.
pub fn run(bench: &Bench) -> Result<ExitStatus, Failure> {
    match bench {
        Bench::Timeout(args) => timeout::run(args),
    }
}
