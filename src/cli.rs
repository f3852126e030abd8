//! The command line: structs and help text, no logic.

use clap::{Parser, Subcommand};

use crate::bench::BenchCommand;
use crate::compare::args::CompareArgs;
use crate::doctor::args::DoctorArgs;
use crate::find::args::FindArgs;
use crate::gate::args::GateArgs;
use crate::gate::calibrate::args::CalibrateArgs;
use crate::history::HistoryArgs;
use crate::list::ListArgs;
use crate::load::Stress;
use crate::merge::MergeArgs;
use crate::report::args::ReportArgs;
use crate::run::args::RunArgs;
use crate::top::TopArgs;

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
  osjitter find --goal p99=100us                 what period this machine can hold
  osjitter report results/mine/report.json
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter calibrate                             what a gate can detect on this machine
  osjitter compare before after                  how much later one run is than another
  osjitter doctor                                what makes ticks late on this machine
  osjitter bench clock
  osjitter bench timeout                         what a timeout around every wait costs
  osjitter bench dispatch                        what a runtime that does not park saves
  osjitter top                                   the metered loops of running programs, live
  osjitter list

Exit codes: 0 done or pass, 1 regressed, 2 bad usage or input, 3 inconclusive under --on-inconclusive fail, 4 not measured or interrupted.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure how late tickers are and what they cost
    Run(Box<RunArgs>),
    /// Find the shortest period that holds goals here, or the best goals of a period
    Find(Box<FindArgs>),
    /// Show a report.json, or another file of osjitter, again in any format
    Report(ReportArgs),
    /// Decide whether B is later than A, than a stored baseline, or than a limit, with a bounded false-alarm rate
    Gate(Box<GateArgs>),
    /// Find the smallest change a gate can detect here (A/A test)
    Calibrate(CalibrateArgs),
    /// Compare B with A: two reports, or two subjects of one report
    Compare(CompareArgs),
    /// Merge reports of several runs, CPUs or hosts into one, without loss
    Merge(MergeArgs),
    /// List the runs that lie in a directory, and which of them may be compared
    History(HistoryArgs),
    /// Show what makes ticks late on this machine, and what changes it
    Doctor(DoctorArgs),
    /// List the subjects, and why one is not available here
    List(ListArgs),
    /// Benchmark one part by itself
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Load the machine until standard input ends: what `run --load` starts
    #[command(hide = true)]
    Stress { load: Stress },
    /// Watch the metered loops of running programs
    Top(TopArgs),
    /// Print a completion script for a shell
    Completions { shell: clap_complete::Shell },
}
