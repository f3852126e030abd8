//! Measures how late periodic async tasks really are, and at what price.
#![deny(unsafe_code)]
// A binary has no public interface: its items are documented where they say something.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

mod changes;
mod child;
mod cli;
mod command;
mod exit;
mod export;
mod host;
mod import;
mod interrupt;
mod measure;
mod os;
mod output;
mod plan;
mod record;
mod subject;
mod units;
mod view;

use std::process::{ExitCode, Termination};

use clap::Parser;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Run(args) => command::run::run(&args),
        cli::Command::Report(args) => command::report::run(&args),
        cli::Command::Gate(args) => command::gate::run(&args),
        cli::Command::Calibrate(args) => command::calibrate::run(&args),
        cli::Command::Compare(args) => command::compare::run(&args),
        cli::Command::Merge(args) => command::merge::run(&args),
        cli::Command::List(args) => command::list::run(&args),
        cli::Command::Bench(bench) => command::bench::run(&bench),
        cli::Command::Completions { shell } => command::completions::run(shell),
    };
    match result {
        Ok(status) => status.report(),
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}
