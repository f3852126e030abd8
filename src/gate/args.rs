//! The arguments of `osjitter gate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use cli::units;
use engine::measure::metric::MetricSpec;
use engine::program::Program;
use engine::scenario::{Runtime, parse_subject};
use engine::subject::SubjectInfo;
use files::gate::limit::{PathError, Quantity, SummaryPath};

use crate::gate::formats::FORMATS;
use crate::render::formats::{Format, parser};

/// Pairs of rounds that a test takes at most: more are half an hour at the default period.
pub const MAX_PAIRS: u64 = 6400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnInconclusive {
    /// Exit with 0, and print a loud note
    Pass,
    /// Exit with 3
    Fail,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    group = ArgGroup::new("command").args(["candidate_cmd"]),
    after_help = "\
Examples:
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter gate --a os-interval --b os-interval-group --period 500us --duet
  osjitter gate --a tokio-interval --b os-interval --calibration osjitter-calibration.json --see 5%
  osjitter gate --baseline-cmd './old --flag' --candidate-cmd './new --flag' --out gate
  osjitter gate --baseline-cmd './old --flag' --candidate-cmd './new --flag' --metric wall --metric max-rss
  osjitter gate --baseline-cmd ./old --candidate-cmd ./new --metric wall --calibration osjitter-calibration.json --see 2%
  osjitter gate baseline add os-interval.json --subject os-interval --period 500us
  osjitter gate --baseline os-interval.json --subject os-interval --period 500us
  osjitter gate --max p99=200us --max missed=0.1% --subject os-interval --period 500us --ticks 10000
  osjitter gate --max jitter_spread.p99=80us --report report.json

A command is started anew for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP, OSJITTER_PERIOD_NS \
and OSJITTER_OUT set. It writes the line `osjitter.series/1 period_ns=500000` to that file, then one lateness in nanoseconds per \
line. A program with a meter of tickmeter does so by itself, and is ended when its ticks are over.

With --metric, a round is a whole run of any program, by its wall time, the CPU time and the largest memory of all its \
processes, or by numbers that it writes to that file: the line `osjitter.series/1`, then `metric NAME UNIT \
lower|higher`, then `NAME VALUE` lines, above zero. Of several values a run, p50 and p99 are judged. The metrics of a \
gate share its rate of false alarms.

The gate looks at 50, 100, 200 and 400 pairs of rounds and stops as soon as it can decide; over all looks, at most \
0.5 % of gates raise a false alarm. Several tests (--a, --b and --period repeated) share that rate. Do not re-run a \
failed gate until it passes: every retry raises the error rate. Raise --max-pairs instead.

A limit is broken if the 99 % confidence interval over rounds lies above it, kept if no part of it does, and \
otherwise inconclusive; it takes at least 10 rounds. The largest value (max) has no interval: its limit holds for \
the ticks of that run.

Exit codes: 0 pass or inconclusive, 1 regressed or a limit broken, 2 bad usage or input, 3 inconclusive under \
--on-inconclusive fail, 4 could not measure or interrupted."
)]
pub struct GateArgs {
    #[command(subcommand)]
    pub action: Option<GateAction>,
    /// Subject to compare against; repeat for several tests
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject, requires = "b", conflicts_with_all = ["baseline_cmd", "candidate_cmd"], help_heading = "Two sides")]
    pub a: Vec<&'static SubjectInfo>,
    /// Subject to judge; one for each --a
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject, requires = "a", help_heading = "Two sides")]
    pub b: Vec<&'static SubjectInfo>,
    /// Run both subjects at once on one CPU, half a period apart: decides sooner, for differences
    /// only
    #[arg(long, requires = "a", help_heading = "Two sides")]
    pub duet: bool,
    /// Program to compare against, with its arguments
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, requires = "candidate_cmd", help_heading = "Two sides")]
    pub baseline_cmd: Option<Program>,
    /// Program to judge, with its arguments
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, requires = "baseline_cmd", help_heading = "Two sides")]
    pub candidate_cmd: Option<Program>,
    /// What to call the program compared against, for example its commit [default: the command]
    #[arg(long, value_name = "NAME", requires = "baseline_cmd", help_heading = "Two sides")]
    pub baseline_name: Option<String>,
    /// What to call the program to judge [default: the command]
    #[arg(long, value_name = "NAME", requires = "candidate_cmd", help_heading = "Two sides")]
    pub candidate_name: Option<String>,
    #[command(flatten)]
    pub runs: WholeRunArgs,
    /// Most pairs of rounds, at least 24; the last look is taken there [default: 400; 200 with
    /// --baseline or --duet]
    #[arg(long, alias = "max-rounds", value_name = "N", value_parser = pairs)]
    pub max_pairs: Option<u64>,
    /// Stop after this long; looks that would come later are not taken
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_time: Option<Duration>,
    /// Time limit of one round of a command [default: ten times its length, and 10s]
    #[arg(long, alias = "round-time-limit", value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true, help_heading = "Two sides")]
    pub max_round_time: Option<Duration>,
    /// Limit on a number of a summary: p99=200us, jitter_spread.p99=80us, missed=0.1%,
    /// cpu_ns_per_tick=9us; repeatable
    #[arg(long, value_name = "PATH=VALUE", value_parser = limit, help_heading = "Limits")]
    pub max: Vec<Limit>,
    /// Check the limits against this report instead of measuring
    #[arg(long, value_name = "FILE", requires = "max", help_heading = "Limits")]
    pub report: Option<PathBuf>,
    /// Judge a session of the subject, beside a control, by the sessions stored in this file
    #[arg(long, value_name = "FILE", help_heading = "Stored sessions")]
    pub baseline: Option<PathBuf>,
    /// Use a baseline of another machine anyway, and record a warning
    #[arg(long, requires = "baseline", help_heading = "Stored sessions")]
    pub force: bool,
    /// Subject of --baseline and --max; of a report, its name or id
    #[arg(long, value_name = "SUBJECT")]
    pub subject: Option<String>,
    /// Ticks to measure for limits [default: 10000]
    #[arg(long, value_name = "N", value_parser = units::parse_count, requires = "max", conflicts_with = "report", help_heading = "Limits")]
    pub ticks: Option<u64>,
    /// Plan the pairs that see a change as small as this, by --calibration: 5% at p50 or of each
    /// --metric, or p99=30%; repeatable
    #[arg(long, value_name = "PERCENT", value_parser = seen, requires = "calibration", conflicts_with_all = ["max_pairs", "duet", "baseline"], help_heading = "Two sides")]
    pub see: Vec<Tolerance>,
    /// File of osjitter calibrate: warns of a tolerance below the noise level of this machine
    #[arg(long, value_name = "FILE")]
    pub calibration: Option<PathBuf>,
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// What an inconclusive gate means for the exit code
    #[arg(long, value_enum, default_value = "pass")]
    pub on_inconclusive: OnInconclusive,
    /// Directory for verdict.json [default: results/ and a UTC stamp]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// What to write to stdout
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
}

/// How whole runs of a program are measured.
#[derive(Clone, Debug, Args)]
pub struct WholeRunArgs {
    /// Judge whole runs of a command by this instead of lateness: wall, cpu, instructions, max-rss,
    /// or what it writes, such as throughput or latency:p99; repeatable
    #[arg(long, value_name = "METRIC", value_parser = MetricSpec::parse, requires = "command", help_heading = "Whole runs")]
    pub metric: Vec<MetricSpec>,
    /// Command to run before each run, outside of its time
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, requires = "metric", help_heading = "Whole runs")]
    pub prepare: Option<Program>,
    /// Runs of each side before the first pair; they are dropped
    #[arg(long, value_name = "N", value_parser = warmup_runs, default_value = "1", help_heading = "Whole runs")]
    pub warmup_runs: u64,
    /// Refuse to judge wall, cpu or instructions of shorter runs: starting a process would be much
    /// of them
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, default_value = "10ms", allow_hyphen_values = true, help_heading = "Whole runs")]
    pub min_run_time: Duration,
}

/// How rounds are run and judged.
#[derive(Clone, Debug, Args)]
pub struct JudgedArgs {
    /// Nominal period; repeat for a test at each [default: 500us]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_period, allow_hyphen_values = true, help_heading = "Rounds")]
    pub period: Vec<Duration>,
    #[command(flatten)]
    pub rounds: RoundArgs,
    /// Tolerated rise, for example p50=20% and p99=50% [default: these; of --metric, 5%, and 20% of
    /// a tail percentile]
    #[arg(long, value_name = "NAME=PERCENT", value_parser = tolerance, help_heading = "Tolerance")]
    pub tolerance: Vec<Tolerance>,
    /// A rise by less than this is always tolerated
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, default_value = "1us", allow_hyphen_values = true, help_heading = "Tolerance")]
    pub floor: Duration,
}

/// How rounds are run.
#[derive(Clone, Debug, Args)]
pub struct RoundArgs {
    /// Runtime of tokio subjects
    #[arg(long, value_name = "KIND", help_heading = "Rounds")]
    pub runtime: Option<Runtime>,
    /// Recorded ticks of a round [default: 250, and at most 1s]
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Rounds")]
    pub round_ticks: Option<u64>,
    /// Leading ticks of each round that are dropped [default: 10ms, from 3 to 20 ticks]
    #[arg(long, value_name = "N", value_parser = units::parse_number, help_heading = "Rounds")]
    pub warmup: Option<u64>,
    /// CPU to bind both sides to [default: one allowed CPU for subjects, none for commands]
    #[arg(long, value_name = "N", value_parser = units::parse_index, help_heading = "Rounds")]
    pub cpu: Option<usize>,
    /// Seed of the order [default: drawn, and kept in the file]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, help_heading = "Rounds")]
    pub seed: Option<u64>,
    /// Write nothing to stderr but errors and warnings
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, Subcommand)]
pub enum GateAction {
    /// Store reference sessions, for when the old program can't be run
    Baseline {
        #[command(subcommand)]
        action: BaselineAction,
    },
}

#[derive(Debug, Subcommand)]
pub enum BaselineAction {
    /// Measure a session and add it to a file
    Add(Box<BaselineAddArgs>),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter gate baseline add os-interval.json --subject os-interval --period 500us
  osjitter gate baseline add os-interval.json

A session is 200 pairs of rounds of the subject and of a control, a bare thread that sleeps: later sessions are \
compared by how much the subject was later than its control. Three sessions at different hours are worth more \
than one; the file keeps the last ten. A session that is worse than those of the file, or inconclusive, is not \
added. A baseline file holds one subject at one period, from one machine.

Exit codes: 0 added, 1 not added as it is worse, 2 bad usage or input, 3 not added as it is inconclusive, 4 could not \
measure or interrupted.")]
pub struct BaselineAddArgs {
    /// The file; created if missing
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Subject to measure [default: that of the file]
    #[arg(long, value_name = "SUBJECT", value_parser = parse_subject)]
    pub subject: Option<&'static SubjectInfo>,
    /// Drop the stored sessions and start over with this one
    #[arg(long)]
    pub replace: bool,
    /// Pairs of rounds, at least 24 [default: 200]
    #[arg(long, alias = "max-rounds", value_name = "N", value_parser = pairs)]
    pub max_pairs: Option<u64>,
    #[command(flatten)]
    pub judged: JudgedArgs,
}

fn pairs(text: &str) -> Result<u64, String> {
    units::parse_number_within(text, 24..=MAX_PAIRS)
}

fn warmup_runs(text: &str) -> Result<u64, String> {
    units::parse_number_within(text, 1..=1000)
}

/// A tolerated rise.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// A percentile of lateness, or a metric; empty where any may be meant.
    pub name: String,
    /// As a share: 0.2 for 20 %.
    pub rise: f64,
}

/// Reads `p50=20%`.
pub fn tolerance(text: &str) -> Result<Tolerance, String> {
    let bad = || format!("no tolerance {text:?}; write p50=20% or p99=50%");
    let (name, value) =
        text.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
    Ok(Tolerance { name: name.to_owned(), rise: rise(value).ok_or_else(bad)? })
}

/// Reads `20%`.
fn rise(text: &str) -> Option<f64> {
    let percent = text.strip_suffix('%')?.trim().parse::<f64>().ok()?;
    (percent > 0.0 && percent.is_finite()).then_some(percent / 100.0)
}

/// Reads `5%`, which has no name, or `p99=30%`.
fn seen(text: &str) -> Result<Tolerance, String> {
    let found = if text.contains('=') {
        tolerance(text)
    } else {
        rise(text).map(|rise| Tolerance { name: String::new(), rise }).ok_or_else(String::new)
    };
    found.map_err(|_| format!("no change {text:?}; write 5% or p99=30%"))
}

/// A limit on a number of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub path: SummaryPath,
    /// In the unit of its quantity.
    pub most: f64,
}

/// Reads `p99=200us`.
pub fn limit(text: &str) -> Result<Limit, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("no limit {text:?}; write for example p99=200us"))?;
    let name = name.trim();
    let path = SummaryPath::find(name).map_err(|error| match error {
        PathError::OfTheLength => format!("{name} is how long a run was, not how good; it has no limit"),
        PathError::Unknown => match nearest(name).as_slice() {
            [] => format!(
                "a summary has no {name:?}; there are p50, p90, p99, p99_9, max, missed, cpu_ns_per_tick and more"
            ),
            near => format!("a summary has no {name:?}; the nearest are {}", near.join(", ")),
        },
    })?;
    let most = value_of(path.quantity(), value.trim())?;
    Ok(Limit { path, most })
}

/// Below this, two names have nothing to do with each other.
const ALIKE: f64 = 0.8;

/// Up to three paths that look like it, as far as a path is long, the most alike first.
fn nearest(name: &str) -> Vec<String> {
    let name: &str = &name.chars().take(64).collect::<String>();
    let short = |full: &str| {
        full.strip_prefix("lateness_ns.").map_or_else(|| full.replace("_ns.", "."), str::to_owned)
    };
    let alike =
        |full: &str| strsim::jaro_winkler(full, name).max(strsim::jaro_winkler(&short(full), name));
    let all = SummaryPath::all()
        .iter()
        .map(ToString::to_string)
        .map(|full| (alike(&full), full))
        .collect::<Vec<_>>();
    let mut near: Vec<(f64, String)> =
        all.into_iter().filter(|(alike, _)| *alike >= ALIKE).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(3).map(|(_, full)| full).collect()
}

/// Reads a value with the unit its quantity has.
fn value_of(quantity: Quantity, text: &str) -> Result<f64, String> {
    let number = |number: Option<&str>, what: &str, example: &str| -> Result<f64, String> {
        let number = number
            .ok_or_else(|| format!("{text:?} has no unit; it is {what}, for example {example}"))?;
        let read = number.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
        read.ok_or_else(|| {
            format!("{number:?} is not a number of at least 0; write for example {example}")
        })
    };
    match quantity {
        Quantity::Time => Ok(units::parse_duration(text)?.as_nanos() as f64),
        Quantity::PartOfTicks => {
            match number(text.strip_suffix('%'), "a part of the ticks", "0.1%")? {
                percent if percent <= 100.0 => Ok(percent),
                percent => Err(format!("{percent}% is more than all ticks")),
            }
        }
        Quantity::Rate => match text.strip_suffix("ppm") {
            Some(ppm) => Ok(number(Some(ppm), "a rate", "0.1ppm")? * 1e3),
            None => number(text.strip_suffix("ppb"), "a rate", "100ppb"),
        },
        Quantity::PerTick => {
            number(text.strip_suffix("/tick"), "a number for each tick", "1.5/tick")
        }
    }
}
