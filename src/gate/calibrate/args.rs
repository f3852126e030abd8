//! Arguments of `osjitter calibrate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use cli::file_io::Destination;
use cli::units;
use engine::program::Program;
use engine::scenario::subject_parser;
use engine::subject::SubjectInfo;
use files::subjects::{DefaultSelection, defaults_of};

use crate::gate::args::{RoundArgs, WholeRunArgs};
use crate::gate::calibrate::text::FORMATS;
use render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("whole-runs").args(["metric"]), after_help = "\
Runs one subject or program against itself, in pairs of rounds like a gate, and reports what a gate can detect on this \
machine: how much two rounds of the same subject differ, the smallest change detected at each look, and how often a gate \
is inconclusive. Pass the file to `osjitter gate --calibration FILE`, which then warns of tolerances below the noise level, \
and with `--detect 5%` chooses the number of pairs for a change of that size. With --metric, a round is a whole run.

A gate raises a false alarm in at most 0.5 % of cases by design. A measured rate is reported only from at least 100 real \
gates, which take about half an hour at 500us.

Examples:
  osjitter calibrate
  osjitter calibrate --max-time 30m --subject tokio-interval --period 1ms --out calibration.json
  osjitter calibrate --command './bench --size 4' --metric wall --metric max-rss

Exit codes: 0 done, 2 bad usage, 4 could not measure or interrupted (the pairs so far are written and marked as partial).")]
pub struct CalibrateArgs {
    /// Time to measure
    #[arg(long, alias = "time", value_name = "DURATION", value_parser = units::parse_duration, default_value = "60s", allow_hyphen_values = true)]
    pub max_time: Duration,
    /// Subject to run against itself
    #[arg(long, value_name = "SUBJECT", value_parser = subject_parser(), hide_possible_values = true, default_value = default_subject())]
    pub subject: &'static SubjectInfo,
    /// Program to run against itself, with its arguments, instead of a subject
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, conflicts_with = "subject")]
    pub command: Option<Program>,
    /// Meter to measure in programs that have several [default: the one with the period]
    #[arg(long, value_name = "NAME", requires = "command")]
    pub meter: Option<String>,
    /// Nominal period
    #[arg(long, short, value_name = "DURATION", value_parser = units::parse_period, default_value = "500us", allow_hyphen_values = true)]
    pub period: Duration,
    /// Time limit of one round of a command [default: 10 times its length plus 10s]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true, requires = "command")]
    pub max_round_time: Option<Duration>,
    #[command(flatten)]
    pub runs: WholeRunArgs,
    #[command(flatten)]
    pub rounds: RoundArgs,
    /// Calibration file to write
    #[arg(long, short, value_name = "FILE", default_value = "osjitter-calibration.json")]
    pub out: PathBuf,
    /// Replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
}

impl CalibrateArgs {
    pub fn destination(&self) -> Destination<'_> {
        Destination { path: &self.out, force: self.force }
    }
}

fn default_subject() -> &'static str {
    let mut subjects = defaults_of(DefaultSelection::Calibrate);
    subjects.next().expect("the table has a subject to calibrate with").name
}
