//! Arguments of `osjitter run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::machine::os::Sched;
use crate::machine::tuning;
use crate::render::formats::{Format, parser};
use crate::run::plan_file::PlanArgs;
use crate::scenario::{Length, Runtime, ScenarioArgs, Subjects};
use crate::text::units;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter run --period 500us --ticks 10000
  osjitter run --subject os-interval --subject nanosleep --period 250us --period 1ms
  osjitter run --runtime multi-thread:2 --cpu 1 --format json > report.json

A name may be a glob: 'tokio-*'. Several periods, subjects or runtimes make a matrix.
Results go to stdout, progress and diagnostics to stderr.")]
pub struct RunArgs {
    /// Nominal period, from 1us to 1h; repeat for several [default: 500us]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::period)]
    pub period: Vec<Duration>,
    /// Ticks to record of each subject [default: 10000]
    #[arg(long, value_name = "N", value_parser = units::count, conflicts_with = "duration")]
    pub ticks: Option<u64>,
    /// Record each subject for this long instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::duration)]
    pub duration: Option<Duration>,
    /// Recorded ticks per round [default: a tenth of the ticks, at most 250 ticks or 1s]
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub round_ticks: Option<u64>,
    /// Ticks run and dropped at the start of each round [default: 10ms, but 3 to 20 ticks]
    #[arg(long, value_name = "N")]
    pub warmup: Option<u64>,
    /// Subject to measure: a name, a glob or all; repeat for several [default: those marked * by list]
    #[arg(long, value_name = "NAME")]
    pub subject: Vec<Subjects>,
    /// Runtime of tokio subjects: current-thread, multi-thread or multi-thread:N; repeat for several [default: current-thread]
    #[arg(long, value_name = "KIND")]
    pub runtime: Vec<Runtime>,
    /// Run N of each tokio subject at once, phases spread over the period; each records all its ticks
    #[arg(long, value_name = "N", value_parser = units::count)]
    pub instances: Option<u64>,
    /// Bind the measuring thread to this CPU
    #[arg(long, value_name = "N")]
    pub cpu: Option<usize>,
    /// Scheduling class while measuring: fifo:N, rr:N or other
    #[arg(long, value_name = "CLASS")]
    pub sched: Option<Sched>,
    /// Lock all memory of the process
    #[arg(long)]
    pub mlock: bool,
    /// Timer slack of the measuring thread (Linux)
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::duration)]
    pub timer_slack: Option<Duration>,
    /// Seed of the order and the phases of rounds [default: random; the report has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Directory for the report [default: results/ and the UTC time]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Leave the individual samples out of the report
    #[arg(long)]
    pub no_samples: bool,
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json]), default_value = "table")]
    pub format: Format,
    /// Run the scenarios of a TOML plan, or repeat those of a report.json
    #[arg(long, value_name = "FILE")]
    pub plan: Option<PathBuf>,
    /// With the table, draw percentiles and a histogram of each subject
    #[arg(long)]
    pub histogram: bool,
    /// Print the effective plan as TOML and measure nothing
    #[arg(long)]
    pub print_plan: bool,
    /// No live view; otherwise a terminal shows the figures so far between rounds
    #[arg(long)]
    pub no_progress: bool,
    /// Print nothing to stderr but errors
    #[arg(long, short)]
    pub quiet: bool,
}

impl RunArgs {
    /// What they ask to be measured.
    pub fn plan_args(&self) -> PlanArgs {
        PlanArgs {
            seed: self.seed,
            samples: self.no_samples.then_some(false),
            tuning: tuning::Settings {
                cpu: self.cpu,
                sched: self.sched,
                mlock: self.mlock,
                timer_slack: self.timer_slack,
            },
            defaults: ScenarioArgs {
                subjects: Subjects::union(self.subject.iter().cloned()),
                periods: self.period.clone(),
                runtimes: self.runtime.clone(),
                length: self.ticks.map(Length::Ticks).or(self.duration.map(Length::Time)),
                round_ticks: self.round_ticks,
                warmup: self.warmup,
                instances: self.instances,
            },
            scenarios: Vec::new(),
        }
    }
}
