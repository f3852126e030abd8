//! Arguments of `osjitter doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;
use engine::scenario::{Subjects, SubjectsParser};

use crate::doctor::text::FORMATS;
use crate::render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter doctor                                what makes ticks late on this machine
  osjitter doctor --cpu 3 --format json
  osjitter doctor --prove                        measure what each setting would do
  osjitter doctor --import hw.txt                with what hwlatdetect has found
  osjitter doctor --prove --subject tokio-sleep-reused --period 1ms --max-time 2m

No root is needed; what cannot be read, or is not permitted, is named. Commands are printed, never run: --prove changes \
settings of its own process only, puts them back after each round, and leaves nothing behind, however it ends.")]
pub struct DoctorArgs {
    /// The CPU to ask about where CPUs differ [default: the last one allowed]
    #[arg(long, value_name = "N", value_parser = units::parse_index)]
    pub cpu: Option<usize>,
    /// Try each setting that this process may change for itself, and measure what it does
    #[arg(long)]
    pub prove: bool,
    #[command(flatten)]
    pub proof: ProveArgs,
    /// Read what another tool has measured here: cyclictest --json, oslat --json, jitterdebugger,
    /// hwlatdetect, rtla's hist mode; repeat for several
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub import: Vec<PathBuf>,
    /// What to print to stdout
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
    /// Write here instead of stdout
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub out: Option<PathBuf>,
    /// Read /proc, /sys and /dev below this directory: for tests
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub root: PathBuf,
}

/// How a proof is measured.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// With --prove, the subject to try them with; repeat for several [default: os-interval and
    /// tokio-interval]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, requires = "prove")]
    pub subject: Vec<Subjects>,
    /// With --prove, the nominal period [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, requires = "prove")]
    pub period: Option<Duration>,
    /// With --prove, the longest it may take
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, requires = "prove", default_value = "90s")]
    pub max_time: Duration,
    /// With --prove, the seed of the order and the phases of rounds [default: random; the JSON has
    /// it]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, requires = "prove")]
    pub seed: Option<u64>,
    /// Nothing on stderr but errors
    #[arg(long, short)]
    pub quiet: bool,
}
