//! Arguments of `osjitter gate`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use cli::exit::{self, Error, usage};
use cli::units::{self, UnitError};
use engine::measure::metric_spec::MetricSpec;
use engine::program::Program;
use engine::scenario::{
    DEFAULT_PERIOD, RoundLength, Runtime, runtime_parser, subject_name_parser, subject_parser,
};
use engine::subject::SubjectInfo;
use files::gate::limit::{PathError, SummaryPath};
use interop::unit::Unit;
use jitterstat::gate::Sides;

use crate::gate::text::formats::FORMATS;
use crate::settings::is_from_file;
use crate::written_limit::{KnownNames, LimitError, LimitFlaw, WrittenLimit, parse_stall};
use render::formats::{Format, parser};

/// Maximum number of pairs of a test: about half an hour at the default period.
pub const MAX_PAIRS: u64 = 6400;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnInconclusive {
    /// Exit with 0 and print a prominent warning
    Pass,
    /// Exit with 3
    Fail,
}

#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    group = ArgGroup::new("command").args(["candidate_cmd", "bench"]),
    group = ArgGroup::new("sides").args(["a", "candidate_cmd", "bench"]).multiple(true),
    group = ArgGroup::new("single-subject").args(["baseline", "limit"]).multiple(true),
    group = ArgGroup::new("whole-runs").args(["metric", "bench"]).multiple(true),
    after_help = "\
Examples:
  osjitter gate --bench parser --base main
  osjitter gate --base-cmd ./old --candidate-cmd ./new --metric wall
  osjitter gate --a tokio-interval --b os-interval --period 500us
  osjitter gate --a os-interval --b os-interval-group --period 500us --duet
  osjitter gate --a tokio-interval --b os-interval --calibration calibration.json --detect 5%
  osjitter gate --base-cmd './old --flag' --candidate-cmd './new --flag' --out gate
  osjitter gate --base-cmd './old --flag' --candidate-cmd './new --flag' --metric wall --metric max-rss
  osjitter gate --base-cmd ./old --candidate-cmd ./new --metric wall --screen
  osjitter gate --base-cmd ./old --candidate-cmd ./new --metric wall --calibration calibration.json --detect 2%
  osjitter gate --base-cmd 'old/deps/parser-1f --bench' --candidate-cmd 'new/deps/parser-2e --bench' --metric criterion:json
  osjitter gate baseline add os-interval.json --subject os-interval --period 500us
  osjitter gate --baseline os-interval.json --subject os-interval --period 500us
  osjitter gate --limit p99=200us --limit missed=0.1% --subject os-interval --period 500us
  osjitter gate --limit jitter_spread.p99=80us --report report.json
  osjitter gate --limit 'missed<1e-4' --max-stall 2ms --ticks 120k --subject os-interval --period 500us

A command is restarted for each round, without a shell, with OSJITTER_TICKS, OSJITTER_WARMUP, OSJITTER_PERIOD_NS \
and OSJITTER_OUT set. It must write the line `osjitter.series/1 period_ns=500000` to that file, then one lateness in nanoseconds per \
line. A program with a meter of tickmeter does this automatically, and is terminated after its ticks; --meter selects one of \
several meters. A program that does not follow this is rejected before anything is measured.

With --metric, a round is a whole run of any program. It is judged by its wall time, by the CPU time or peak memory of \
all its processes, or by numbers that it writes to that file: the line `osjitter.series/1`, then `metric NAME UNIT \
lower|higher`, then `NAME VALUE` lines with values above zero. If a run writes several values, p50 and p99 are judged. \
The metrics of a gate share its rate of false alarms.

With --metric criterion, divan, go, google-benchmark, hyperfine, jmh, libtest or pytest-benchmark, the program runs benchmarks: \
each run is a short run of all of them, and gives a time per iteration of each, such as the lower quartile of its samples. A filter, as in criterion:json, is passed to the harness. --bench builds a \
benchmark of the package in this directory and of --base, a git revision or another tree, and judges it.

The gate looks at 50, 100, 200 and 400 pairs of rounds and stops as soon as it can decide; with --metric, it looks \
first after 24 pairs of runs, or after a few more if it judges many metrics. Over all looks, at most \
0.5 % of gates raise a false alarm. Several tests (--a, --b and --period repeated) share that rate. Do not re-run a \
failed gate until it passes: every retry raises the error rate. Raise --max-pairs instead.

A screen looks once, at the pairs of at most 15 s. It reports a change for the worse only if the whole interval is \
beyond the tolerance, and has shorter rounds if enough pairs do not fit otherwise. \"Look closer\" is an inconclusive \
result: gate without --screen then.

A limit is broken if the whole 99 % confidence interval over rounds is above it, and kept if no part of the interval is; \
otherwise the gate is inconclusive. At least 10 rounds are needed. The largest value (max) has no interval: its limit \
applies to the ticks of that run.

missed<1e-4 limits the rate of missed ticks: it is kept if the rate is below 1 in 10,000 with 95 % confidence, even if no \
tick of the run was missed. Misses come in bursts, so the bound is over rounds and holds for stalls of any length. \
With --max-stall it assumes that no stall is longer and that stalls are independent, which needs fewer ticks.

Exit codes: 0 pass or inconclusive, 1 regressed or a limit broken, 2 bad usage or input, 3 inconclusive under \
--on-inconclusive fail, 4 could not measure or interrupted."
)]
pub struct GateArgs {
    #[command(subcommand)]
    pub action: Option<GateAction>,
    /// Subject to compare against; repeat for several tests
    #[arg(long, value_name = "SUBJECT", value_parser = subject_parser(), hide_possible_values = true, requires = "b", conflicts_with_all = ["base_cmd", "candidate_cmd"], help_heading = "What to judge")]
    pub a: Vec<&'static SubjectInfo>,
    /// Subject to judge; one for each --a
    #[arg(long, value_name = "SUBJECT", value_parser = subject_parser(), hide_possible_values = true, requires = "a", help_heading = "What to judge")]
    pub b: Vec<&'static SubjectInfo>,
    /// Run both subjects concurrently on one CPU, half a period apart. Faster, but judges
    /// differences only
    #[arg(long, requires = "a", help_heading = "Two sides")]
    pub duet: bool,
    /// Program to compare against, with its arguments
    #[arg(long, alias = "baseline-cmd", value_name = "CMD", value_parser = Program::parse, requires = "candidate_cmd", help_heading = "What to judge")]
    pub base_cmd: Option<Program>,
    /// Program to judge, with its arguments
    #[arg(long, value_name = "CMD", value_parser = Program::parse, requires = "base_cmd", help_heading = "What to judge")]
    pub candidate_cmd: Option<Program>,
    /// Name of the program to compare against, for example its commit [default: the command]
    #[arg(
        long,
        alias = "baseline-name",
        value_name = "NAME",
        requires = "command",
        help_heading = "Two sides"
    )]
    pub base_name: Option<String>,
    /// Name of the program to judge [default: the command]
    #[arg(long, value_name = "NAME", requires = "command", help_heading = "Two sides")]
    pub candidate_name: Option<String>,
    /// Benchmark target of this package to build and judge, by --metric criterion or another
    /// harness
    #[arg(long, value_name = "NAME", requires = "base", conflicts_with_all = ["candidate_cmd", "a"], help_heading = "What to judge")]
    pub bench: Option<String>,
    /// Version to compare --bench with: a git revision, or the directory of another tree
    #[arg(long, value_name = "REV|DIR", requires = "bench", help_heading = "What to judge")]
    pub base: Option<String>,
    /// Flags of cargo for both builds of --bench, for example '-p parser --features simd'
    #[arg(long, value_name = "FLAGS", value_parser = parse_cargo_flags, requires = "bench", allow_hyphen_values = true, help_heading = "Benchmarks")]
    pub cargo_flags: Option<CargoFlags>,
    /// Measure the sides of --bench also if they are the same program
    #[arg(long, requires = "bench", help_heading = "Benchmarks")]
    pub measure_equal: bool,
    /// Benchmark that the gate may leave unjudged and still pass: a part of its name, with ^ and $
    /// for its ends; repeat for several
    #[arg(long, value_name = "NAME", value_parser = parse_name_part, requires = "command", help_heading = "Benchmarks")]
    pub allow_unjudged: Vec<String>,
    /// Meter to measure in programs that have several [default: the one with the period]
    #[arg(long, value_name = "NAME", requires = "candidate_cmd", help_heading = "Two sides")]
    pub meter: Option<String>,
    #[command(flatten)]
    pub runs: WholeRunArgs,
    /// Maximum number of pairs of rounds, at least 24 [default: 400; 200 with --baseline or --duet]
    #[arg(long, alias = "max-rounds", value_name = "N", value_parser = parse_pairs)]
    pub max_pairs: Option<u64>,
    /// Time limit of the pairs; interim analyses after it are skipped
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true)]
    pub max_time: Option<Duration>,
    /// Give a quick verdict within 15s: pass, clearly worse or look closer
    #[arg(long, conflicts_with_all = ["max_pairs", "max_time", "detect", "baseline", "limit"], help_heading = "Two sides")]
    pub screen: bool,
    /// Time limit of one round of a command [default: 10 times its length plus 10s; 10min for a
    /// first whole run]
    #[arg(long, alias = "round-time-limit", value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true, requires = "command", help_heading = "Two sides")]
    pub max_round_time: Option<Duration>,
    /// Limit on a number of the summary, such as p99=200us; repeat for several
    ///
    /// Others are jitter_spread.p99=80us, missed=0.1% and cpu_ns_per_tick=9us; missed<1e-4 limits
    /// the rate of misses.
    #[arg(long, alias = "max", value_name = "PATH=VALUE", value_parser = parse_limit, help_heading = "What to judge")]
    pub limit: Vec<Limit>,
    /// Longest stall that a rate of misses must account for [default: any]
    #[arg(long, value_name = "DURATION", value_parser = parse_stall, allow_hyphen_values = true, requires = "limit", help_heading = "Limits")]
    pub max_stall: Option<Duration>,
    /// Check the limits against this report instead of measuring; - is standard input
    #[arg(long, value_name = "FILE", requires = "limit", help_heading = "What to judge")]
    pub report: Option<PathBuf>,
    /// Unit of an HdrHistogram log or of cyclictest's text, which do not state it [default:
    /// guessed]
    #[arg(long, value_name = "UNIT", value_enum, requires = "report", help_heading = "Limits")]
    pub unit: Option<Unit>,
    /// Compare a new session of the subject, relative to a control, with the sessions in this file
    #[arg(long, value_name = "FILE", help_heading = "What to judge")]
    pub baseline: Option<PathBuf>,
    /// Subject of --baseline and --limit; with --report, its name or id
    #[arg(long, value_name = "SUBJECT", value_parser = subject_name_parser(), hide_possible_values = true, requires = "single-subject")]
    pub subject: Option<String>,
    /// Ticks to measure for limits [default: 10000]
    #[arg(long, short = 'n', value_name = "N", value_parser = units::parse_count, requires = "limit", conflicts_with = "report", help_heading = "Limits")]
    pub ticks: Option<u64>,
    /// Smallest change to detect, which sets the number of pairs: 5% of p50 or of each --metric, or
    /// p99=30%; requires --calibration; repeat for several
    #[arg(long, alias = "see", value_name = "PERCENT", value_parser = parse_change, requires = "calibration", conflicts_with_all = ["max_pairs", "duet", "baseline"], help_heading = "Two sides")]
    pub detect: Vec<Tolerance>,
    /// File of osjitter calibrate from this machine, to warn of tolerances below its noise
    #[arg(long, value_name = "FILE", requires = "sides")]
    pub calibration: Option<PathBuf>,
    #[command(flatten)]
    pub judged: JudgedArgs,
    /// Exit code of an inconclusive gate
    #[arg(long, value_enum, default_value = "pass")]
    pub on_inconclusive: OnInconclusive,
    /// Directory for the results [default: results/ and the UTC time]
    #[arg(long, short, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Replace an existing result; accept a baseline of another machine and record a warning
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_parser = parser(FORMATS.map(|(format, _)| format)), default_value = "table")]
    pub format: Format,
}

impl GateArgs {
    /// Returns whether whole runs of programs are judged, instead of their lateness.
    pub fn has_whole_runs(&self) -> bool {
        self.bench.is_some() || !self.runs.metric.is_empty()
    }

    /// Returns the programs of both sides, if there are any.
    pub fn programs(&self) -> Option<Sides<Program>> {
        let base = self.base_cmd.clone()?.with_meter(self.meter.clone());
        let candidate = self.candidate_cmd.clone()?.with_meter(self.meter.clone());
        Some(Sides { base, candidate })
    }

    /// Returns the period of two programs.
    ///
    /// # Errors
    /// Returns an error if the arguments have several periods.
    pub fn program_period(&self) -> exit::Result<Duration> {
        self.judged.single_period("commands run at a single period")
    }

    /// Returns the names of two programs: the given ones, or else the default ones.
    pub fn program_names(&self, default_names: Sides<String>) -> Sides<String> {
        Sides {
            base: self.base_name.clone().unwrap_or(default_names.base),
            candidate: self.candidate_name.clone().unwrap_or(default_names.candidate),
        }
    }
}

/// How whole runs of a program are measured.
#[derive(Clone, Debug, Args)]
pub struct WholeRunArgs {
    /// Metric by which whole runs of a command are judged instead of lateness, such as wall or
    /// criterion; repeat for several
    ///
    /// A run has wall, cpu, instructions, max-rss and those that it writes, such as throughput or
    /// latency:p99. A harness has benchmarks: criterion, criterion:FILTER, divan, go,
    /// google-benchmark, hyperfine, jmh, libtest or pytest-benchmark, or another of their numbers:
    /// criterion.throughput, go.allocs/op.
    #[arg(long, value_name = "METRIC", value_parser = MetricSpec::parser(), hide_possible_values = true, requires = "command", help_heading = "What to judge")]
    pub metric: Vec<MetricSpec>,
    /// Command to run before each run, not included in its time
    #[arg(long, value_name = "COMMAND", value_parser = Program::parse, requires = "metric", help_heading = "Whole runs")]
    pub prepare: Option<Program>,
    /// Number of runs of each side to drop before the first pair
    #[arg(long, value_name = "N", value_parser = parse_warmup_runs, default_value = "1", requires = "whole-runs", help_heading = "Whole runs")]
    pub warmup_runs: u64,
    /// Shortest run to judge by wall, cpu or instructions; the start of a process dominates shorter
    /// ones
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, default_value = "10ms", allow_hyphen_values = true, requires = "whole-runs", help_heading = "Whole runs")]
    pub min_run_time: Duration,
}

/// How rounds are run and judged.
#[derive(Clone, Debug, Args)]
pub struct JudgedArgs {
    /// Nominal period; repeat for a test at each [default: 500us]
    #[arg(long, short, value_name = "DURATION", value_parser = units::parse_period, allow_hyphen_values = true, help_heading = "Rounds")]
    pub period: Vec<Duration>,
    #[command(flatten)]
    pub rounds: RoundArgs,
    /// Tolerated rise of all numbers or of one [default: p50=20% and p99=50%; with --metric 5%, and
    /// 20% for tail percentiles]
    #[arg(long, value_name = "[NAME=]PERCENT", value_parser = parse_tolerance, help_heading = "Tolerance")]
    pub tolerance: Vec<Tolerance>,
    /// Smallest rise that can be a regression [default: 1us; 0ns with --metric]
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration, allow_hyphen_values = true, help_heading = "Tolerance")]
    pub floor: Option<Duration>,
}

impl JudgedArgs {
    /// Returns the periods of the arguments, or the default one.
    pub fn periods(&self) -> Vec<Duration> {
        if self.period.is_empty() { vec![DEFAULT_PERIOD] } else { self.period.clone() }
    }

    /// Returns the only period.
    ///
    /// # Errors
    /// Returns an error with the `reason` for a single one if there are several.
    pub fn single_period(&self, reason: &str) -> exit::Result<Duration> {
        match self.periods()[..] {
            [period] => Ok(period),
            _ => Err(usage!("{reason}; give --period once")),
        }
    }
}

/// How rounds are run.
#[derive(Clone, Debug, Args)]
pub struct RoundArgs {
    /// Runtime of tokio subjects: current-thread, multi-thread or multi-thread:N [default:
    /// current-thread]
    #[arg(long, value_name = "KIND", value_parser = runtime_parser(), hide_possible_values = true, help_heading = "Rounds")]
    pub runtime: Option<Runtime>,
    /// Recorded ticks per round [default: 250, but at most 1s]
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Rounds")]
    pub round_ticks: Option<u64>,
    /// Ticks to drop at the start of each round [default: 10ms, but 3 to 20 ticks]
    #[arg(long, value_name = "N", value_parser = units::parse_number, help_heading = "Rounds")]
    pub warmup: Option<u64>,
    /// CPU to bind both sides to [default: one allowed CPU for subjects, none for commands]
    #[arg(long, value_name = "N", value_parser = units::parse_index, help_heading = "Rounds")]
    pub cpu: Option<usize>,
    /// Random seed for round order and phase [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, help_heading = "Rounds")]
    pub seed: Option<u64>,
    /// Print only errors and warnings to stderr
    #[arg(long, short)]
    pub quiet: bool,
}

impl RoundArgs {
    /// Returns the length of a program's rounds, by the same rule as for subjects.
    pub fn program_round_length(&self, period: Duration) -> exit::Result<RoundLength> {
        if self.runtime.is_some() && !is_from_file("--runtime") {
            return Err(Error::usage(
                "--runtime is for tokio subjects; a command chooses its runtime",
            ));
        }
        RoundLength::new(period, self.round_ticks, self.warmup)
    }
}

#[derive(Debug, Subcommand)]
pub enum GateAction {
    /// Store sessions of a subject to compare later ones with
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

A session is 200 pairs of rounds of the subject and of a control, a bare thread that sleeps. Sessions are compared by \
how much later the subject was than its control. Record at least five sessions at different hours: with fewer, the \
rate of false alarms depends on an assumed spread between sessions. The file keeps the last ten. A session that is \
inconclusive or worse than the stored ones is not added. A baseline file contains one subject at one period, from one \
machine.

Exit codes: 0 added, 1 not added as it is worse, 2 bad usage or input, 3 not added as it is inconclusive, 4 could not \
measure or interrupted.")]
pub struct BaselineAddArgs {
    /// Baseline file; created if missing
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Subject to measure [default: the subject of the file]
    #[arg(long, value_name = "SUBJECT", value_parser = subject_parser(), hide_possible_values = true)]
    pub subject: Option<&'static SubjectInfo>,
    /// Drop the stored sessions and start over with this session
    #[arg(long)]
    pub replace: bool,
    /// Pairs of rounds, at least 24 [default: 200]
    #[arg(long, alias = "max-rounds", value_name = "N", value_parser = parse_pairs)]
    pub max_pairs: Option<u64>,
    #[command(flatten)]
    pub judged: JudgedArgs,
}

fn parse_pairs(text: &str) -> Result<u64, UnitError> {
    units::parse_number_within(text, 24..=MAX_PAIRS)
}

fn parse_warmup_runs(text: &str) -> Result<u64, UnitError> {
    units::parse_number_within(text, 1..=1000)
}

/// Flags that cargo gets for both builds of a benchmark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CargoFlags(pub Vec<String>);

/// Splits flags into words by the quoting rules of the shell.
///
/// # Errors
/// Returns an error if a flag chooses the package or the directory of the build products, which the
/// gate reads from cargo without these flags.
fn parse_cargo_flags(text: &str) -> Result<CargoFlags, ArgumentError> {
    let words = shlex::split(text);
    let words = words.ok_or_else(|| ArgumentError::OpenQuote { flags: text.to_owned() })?;
    let mut common_flag = None;
    let mut is_setting = false;
    for word in words.iter().take_while(|word| *word != "--") {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        is_setting |= name == "--config";
        let flags = ["--manifest-path", "--target-dir"];
        let settings = ["target-dir", "build-dir"];
        let setting = settings.into_iter().find(|setting| is_setting && word.contains(setting));
        common_flag = common_flag.or(flags.into_iter().find(|flag| *flag == name)).or(setting);
        is_setting = word == "--config";
    }
    match common_flag {
        Some(flag) => Err(ArgumentError::CommonFlag { flag }),
        None => Ok(CargoFlags(words)),
    }
}

/// A tolerated rise.
#[derive(Clone, Debug, PartialEq)]
pub struct Tolerance {
    /// A percentile of lateness, or a metric. Empty for all of them.
    pub name: String,
    /// The rise as a share: 0.2 for 20 %.
    pub rise: f64,
}

impl Tolerance {
    /// Returns whether the tolerance applies to a number.
    ///
    /// It names one number, or the beginning of several: all percentiles of a metric, or a group of
    /// benchmarks. A tolerance without a name applies to every number.
    pub fn applies_to(&self, number: &str) -> bool {
        let rest = number.strip_prefix(&self.name);
        self.name.is_empty()
            || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    }
}

/// Returns the rise for a number, which is that of the longest name that applies to it.
pub fn find_rise(rises: &[Tolerance], number: &str) -> Option<f64> {
    let applying = rises.iter().filter(|rise| rise.applies_to(number));
    applying.max_by_key(|rise| rise.name.len()).map(|rise| rise.rise)
}

/// Returns the tolerated rise of a number; `None` if the arguments do not set it.
///
/// A change to detect is not tolerated, and a given tolerance that is stricter still holds.
pub fn tolerated_rise(
    tolerances: &[Tolerance],
    changes: &[Tolerance],
    number: &str,
) -> Option<f64> {
    let (tolerance, change) = (find_rise(tolerances, number), find_rise(changes, number));
    let stricter = tolerance.zip(change).map(|(tolerance, change)| tolerance.min(change));
    stricter.or(tolerance).or(change)
}

/// Checks that no number has two rises, of which one would be ignored. `option` is the flag that
/// set them.
pub fn check_named_once(option: &str, rises: &[Tolerance]) -> exit::Result<()> {
    let is_repeated = |&n: &usize| rises[..n].iter().any(|rise| rise.name == rises[n].name);
    match (1..rises.len()).find(is_repeated).map(|n| rises[n].name.as_str()) {
        Some("") => Err(usage!("{option} is given twice for all numbers; give it once")),
        Some(name) => Err(usage!("{option} is given twice for {name}; give it once")),
        None => Ok(()),
    }
}

/// Parses a part of the name of a benchmark. An empty part would be in every name.
fn parse_name_part(text: &str) -> Result<String, ArgumentError> {
    match text.trim_start_matches('^').trim_end_matches('$').is_empty() {
        true => Err(ArgumentError::EmptyNamePart { text: text.to_owned() }),
        false => Ok(text.to_owned()),
    }
}

/// Error of an argument of the gate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    #[error("the flags {flags:?} have an open quote")]
    OpenQuote { flags: String },
    #[error(
        "cannot use {flag}: the gate builds the package in the current directory, and each version in a \
         target directory of its own; change the directory, or set CARGO_TARGET_DIR"
    )]
    CommonFlag { flag: &'static str },
    #[error("invalid name {text:?}: expected a part of a benchmark's name")]
    EmptyNamePart { text: String },
    #[error("invalid tolerance {text:?}: expected e.g. p50=20% or 5%")]
    InvalidTolerance { text: String },
    #[error("invalid change {text:?}: expected e.g. 5% or p99=30%")]
    InvalidChange { text: String },
}

/// Parses a tolerance such as `p50=20%` or `5%`.
pub fn parse_tolerance(text: &str) -> Result<Tolerance, ArgumentError> {
    let tolerance = parse_named_rise(text);
    tolerance.ok_or_else(|| ArgumentError::InvalidTolerance { text: text.to_owned() })
}

/// Parses a change such as `5%`, which has no name, or `p99=30%`.
fn parse_change(text: &str) -> Result<Tolerance, ArgumentError> {
    parse_named_rise(text).ok_or_else(|| ArgumentError::InvalidChange { text: text.to_owned() })
}

fn parse_named_rise(text: &str) -> Option<Tolerance> {
    // The id of a benchmark can contain the sign.
    let (name, value) = match text.rsplit_once('=') {
        Some(("", _)) => return None,
        Some(parts) => parts,
        None => ("", text),
    };
    let percent = value.strip_suffix('%')?.trim().parse::<f64>().ok()?;
    let is_rise = percent > 0.0 && percent.is_finite();
    is_rise.then(|| Tolerance { name: name.to_owned(), rise: percent / 100.0 })
}

/// A limit on a number of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub path: SummaryPath,
    /// The maximum, in the unit of its quantity.
    pub max: f64,
    /// Whether the rate of these ticks must be shown to be below the maximum.
    pub is_rate: bool,
}

/// Parses a limit such as `p99=200us` or `missed<1e-4`.
pub fn parse_limit(text: &str) -> Result<Limit, LimitError> {
    if let Some(rate) = WrittenLimit::split_rate("limit", text, "p99=200us") {
        let rate = rate?;
        let path = SummaryPath::find(rate.name)
            .map_err(|_| rate.unknown_name(KnownNames::All(vec!["missed"])))?;
        return Ok(Limit { path, max: rate.rate()?, is_rate: true });
    }
    let written = WrittenLimit::split("limit", text, "p99=200us or missed<1e-4")?;
    let path = SummaryPath::find(written.name).map_err(|error| match error {
        PathError::OfTheLength => written.error(LimitFlaw::RunLength),
        PathError::Unknown => written.unknown_name(suggest_names(written.name)),
    })?;
    let max = written.value(path.quantity())?;
    Ok(Limit { path, max, is_rate: false })
}

/// Limits that an error names if no name is similar to the written one.
const COMMON_NAMES: [&str; 7] = ["p50", "p90", "p99", "p99_9", "max", "missed", "cpu_ns_per_tick"];

fn suggest_names(name: &str) -> KnownNames {
    let similar = similar_paths(name);
    if similar.is_empty() {
        KnownNames::Common(&COMMON_NAMES)
    } else {
        KnownNames::Nearest(similar)
    }
}

/// Minimum Jaro-Winkler similarity of a suggested name.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns up to three paths similar to a name, the most similar first. Only the beginning of a
/// long name is compared.
fn similar_paths(name: &str) -> Vec<String> {
    let name: String = name.chars().take(64).collect();
    let paths = SummaryPath::list();
    let paths = paths.iter().map(ToString::to_string);
    let mut similar: Vec<(f64, String)> =
        paths.map(|path| (path_similarity(&path, &name), path)).collect();
    similar.retain(|(similarity, _)| *similarity >= MIN_SIMILARITY);
    similar.sort_by(|a, b| b.0.total_cmp(&a.0));
    similar.into_iter().take(3).map(|(_, path)| path).collect()
}

/// Returns the similarity of a name to a path or to its short form, whichever is higher.
fn path_similarity(path: &str, name: &str) -> f64 {
    let short = match path.strip_prefix("lateness_ns.") {
        Some(percentile) => percentile.to_owned(),
        None => path.replace("_ns.", "."),
    };
    strsim::jaro_winkler(path, name).max(strsim::jaro_winkler(&short, name))
}
