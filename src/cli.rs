//! The command line: structs and help text, no logic.

use clap::{Parser, Subcommand};

use crate::bench::BenchCommand;
use crate::compare::args::CompareArgs;
use crate::gate::args::GateArgs;
use crate::gate::calibrate::args::CalibrateArgs;
use crate::list::ListArgs;
use crate::merge::MergeArgs;
use crate::report::args::ReportArgs;
use crate::run::args::RunArgs;

/// Measures how late periodic async tasks really are, and at what price.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const EXAMPLES: &str = "\
Examples:
  osjitter run --period 500us --ticks 10000      which ticker to use on this machine
  osjitter run --subject 'tokio-*' --duration 10s
  osjitter run --plan plan.toml --out results/mine
  osjitter run --period 1ms --print-plan > plan.toml
  osjitter report results/mine/report.json
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter calibrate                             what a gate can see on this machine
  osjitter compare before after                  by how much one run is later than another
  osjitter bench clock
  osjitter bench timeout                         what a timeout around every wait costs
  osjitter bench dispatch                        what a runtime that does not park saves
  osjitter list

Exit codes: 0 done or pass, 1 regressed, 3 inconclusive under --on-inconclusive fail, 2 bad usage or input, 4 something could not be measured or the run was interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure lateness and cost of one or several kinds of ticker
    Run(Box<RunArgs>),
    /// Make any table or picture again from a report.json
    Report(ReportArgs),
    /// Judge whether B is later than A, than it was, or than it may be, with a known rate of false alarms
    Gate(Box<GateArgs>),
    /// Say what a gate can see on this machine, from one subject against itself
    Calibrate(CalibrateArgs),
    /// Say by how much B is later than A, for two reports or two subjects of one
    Compare(CompareArgs),
    /// Join reports of several runs, CPUs or hosts into one, without loss
    Merge(MergeArgs),
    /// Show the subjects, which are available here, and why not
    List(ListArgs),
    /// Measure one part by itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Write a completion script for a shell to standard output
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}
