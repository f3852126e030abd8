//! Measures how late periodic async tasks really are, and at what price.
#![deny(unsafe_code)]
// A binary has no public interface: an item is documented where there is something to add to its name.
#![allow(missing_docs, missing_debug_implementations, unreachable_pub)]

// The command line, and the rooms: each command has its arguments, its work and its text in one place.
mod bench;
mod cli;
mod compare;
mod completions;
mod gate;
mod list;
mod merge;
mod report;
mod run;

// What several rooms need: measuring, other people's formats, a report drawn.
mod interop;
mod interrupt;
mod measure;
mod render;
mod scenario;

// What these stand on: what is measured and on what, pictures, text, files, how a command ends.
mod exit;
mod files;
mod machine;
mod picture;
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
