//! Arguments of `osjitter doctor`.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;
use engine::load::{Load, load_parser};
use engine::program::Program;
use engine::scenario::{Subjects, SubjectsParser};

use crate::doctor::prove::user_settings::NamedCommand;
use crate::doctor::text::FORMATS;
use render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter doctor                                list the causes of late ticks on this machine
  osjitter doctor --cpu 3 --format json
  osjitter doctor --prove                        measure the effect of each setting
  osjitter doctor --import hw.txt                include the result of hwlatdetect
  osjitter doctor --prove --subject tokio-sleep-reused --period 1ms --max-time 2m
  osjitter doctor --prove --load cpu:2           the same under load
  osjitter doctor --prove --try 'performance=cpupower frequency-set -g performance' \\
    --undo 'cpupower frequency-set -g powersave'

Root is not required; unreadable settings and missing permissions are listed. Commands for settings are printed, not run. \
--prove changes only settings of its own process and restores them after each round.

--try runs a command of yours before each round of its setting, without a shell, and --undo runs one after it. The \
setting is also undone on an interrupt, and even if osjitter is killed. With --try, the built-in settings are left out \
unless --built-in is given; one control row applies no setting. The exit code is 4 if a command fails or does not \
restore a setting that is read, if a setting cannot be measured, or if the control row shows a change.")]
pub struct DoctorArgs {
    /// CPU to examine if CPUs differ [default: the last one allowed]
    #[arg(long, value_name = "N", value_parser = units::parse_index)]
    pub cpu: Option<usize>,
    /// Measure the effect of each setting that this process may change for itself
    #[arg(long)]
    pub prove: bool,
    #[command(flatten)]
    pub proof: ProveArgs,
    /// Include the result of another tool; repeat for several: cyclictest --json, oslat --json,
    /// jitterdebugger, hwlatdetect, rtla's hist mode, Xenomai's latency
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub import: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Read /proc, /sys and /dev below this directory: for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub root: PathBuf,
}

/// Arguments of a proof.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Subject to measure with --prove; repeat for several [default: os-interval and
    /// tokio-interval]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, requires = "prove")]
    pub subject: Vec<Subjects>,
    /// Measure a setting of yours with --prove: its name, and the command that applies it; repeat
    /// for several
    #[arg(id = "try", long = "try", value_name = "NAME=COMMAND", value_parser = NamedCommand::from_str, requires = "prove")]
    pub tries: Vec<NamedCommand>,
    /// Command that undoes the --try before it, after each of its rounds; repeat for several
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, requires = "try")]
    pub undo: Vec<Program>,
    /// Measure the built-in settings in addition to those of --try
    #[arg(long, requires = "try")]
    pub built_in: bool,
    /// Load to run alongside the subjects: cpu:2, memory, io, softirq, tasks:100x50us or a command
    /// (with --prove)
    #[arg(long, value_name = "LOAD", default_value_t, value_parser = load_parser(), hide_possible_values = true, requires = "prove")]
    pub load: Load,
    /// Nominal period (with --prove) [default: 500us]
    #[arg(long, short, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, requires = "prove")]
    pub period: Option<Duration>,
    /// Time limit of --prove, after at least 12 rounds
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, requires = "prove", default_value = "90s")]
    pub max_time: Duration,
    /// Random seed for round order and phase [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, requires = "prove")]
    pub seed: Option<u64>,
    /// Print only errors to stderr
    #[arg(long, short)]
    pub quiet: bool,
}
