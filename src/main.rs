//! Measures how late periodic async tasks really are, and at what price.
#![deny(unsafe_code)]
// A binary has no public interface: its items are documented where they say something.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

mod bench;
mod cli;
mod compare;
mod completions;
mod exit;
mod files;
mod gate;
mod interop;
mod interrupt;
mod list;
mod machine;
mod measure;
mod merge;
mod picture;
mod render;
mod report;
mod run;
mod scenario;
mod subject;
mod terminal;
mod text;

use std::process::{ExitCode, Termination};

use clap::{CommandFactory, Parser};

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Run(args) => run::run(&args),
        cli::Command::Report(args) => report::run(&args),
        cli::Command::Gate(args) => gate::run(&args),
        cli::Command::Calibrate(args) => gate::calibrate::run(&args),
        cli::Command::Compare(args) => compare::run(&args),
        cli::Command::Merge(args) => merge::run(&args),
        cli::Command::List(args) => list::run(&args),
        cli::Command::Bench(bench) => bench::run(&bench),
        cli::Command::Completions { shell } => completions::run(shell, cli::Cli::command()),
    };
    match result {
        Ok(status) => status.report(),
        Err(failure) => {
            terminal::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}
