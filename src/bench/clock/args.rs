//! Arguments of `osjitter bench clock`.

use std::path::PathBuf;

use clap::Args;

use crate::render::formats::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter bench clock
  osjitter bench clock --drift 1s --drift 10s --order-reads 1_000_000_000
  osjitter bench clock --load --format json --out results/clock")]
pub struct BenchClockArgs {
    /// Threads that read at once; repeat for several [default: 1, 2, 4 and as many as CPUs]
    #[arg(long, value_name = "N", value_parser = crate::text::units::count)]
    pub threads: Vec<u64>,
    /// Compare with the operating system's clock over so long; repeat for several [default: 1s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true)]
    pub drift: Vec<String>,
    /// Reads in search of instants out of order across threads, for each clock
    #[arg(long, value_name = "N", value_parser = crate::text::units::count, default_value = "10_000_000")]
    pub order_reads: u64,
    /// Keep every CPU busy while comparing with the operating system's clock
    #[arg(long)]
    pub load: bool,
    /// Write clock.json and clock.svg into this directory
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to standard output
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Nothing on standard error but errors
    #[arg(long, short)]
    pub quiet: bool,
}
