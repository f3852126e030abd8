//! Arguments of `osjitter bench timeout`.

use std::path::PathBuf;

use clap::Args;

use crate::render::formats::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Variants:  baseline, timeout, sleep, reused-sleep, reused-boxed-sleep, idle-timeout
Clocks:    tokio, tach; quanta in a build with that feature
Workloads: channel-multi-thread, channel-current-thread, rearm, ready, pending, moved, timers, fire

Examples:
  osjitter bench timeout
  osjitter bench timeout --workload channel-current-thread --rounds 100
  osjitter bench timeout --variant idle-timeout --clock tach --workload timers --timers 100000
  osjitter bench timeout --workload channel-multi-thread --reference

Names may be globs; the baseline always runs.")]
pub struct BenchTimeoutArgs {
    /// Ways to put a timeout around a wait; repeat for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub variant: Vec<String>,
    /// Clocks they read; repeat for several [default: tokio and tach, where that is possible]
    #[arg(long, value_name = "NAME")]
    pub clock: Vec<String>,
    /// What the messages are like; repeat for several [default: all]
    #[arg(long, value_name = "NAME")]
    pub workload: Vec<String>,
    /// Length of the timeout, from 10us to 10s; repeat for several [default: 10s, and shorter ones where it matters]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub length: Vec<String>,
    /// Timeouts at once in the workload timers, up to 100000; repeat for several [default: 1, 1000, 100000]
    #[arg(long, value_name = "N")]
    pub timers: Vec<u64>,
    /// Share of messages that never come in the workload fire; repeat for several [default: 1%, 100%]
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true)]
    pub fire: Vec<String>,
    /// Capacity of the channel
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub capacity: u64,
    /// Rounds; in each, every variant runs once, in random order
    #[arg(long, value_name = "N", default_value_t = crate::bench::timeout::plan::DEFAULT_ROUNDS)]
    pub rounds: u64,
    /// How long a variant runs in a round, from 1ms to 10s [default: 10ms]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub round_time: Option<String>,
    /// Seed of the order [default: drawn, and kept in the report]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Directory for the report and the pictures [default: none is written]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Print the published figures of bench-tokio-timeout beside ours
    #[arg(long)]
    pub reference: bool,
    /// Say what the variants, clocks and workloads are, and which combination cannot be; measure nothing
    #[arg(long)]
    pub list: bool,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
