//! Arguments of `osjitter monitor`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units::{self, UnitError};
use engine::scenario::{Runtime, Subjects, SubjectsParser, runtime_parser};
use files::bins::{LabelError, Labels, cell};

use crate::monitor::http;
use crate::monitor::limits::Limit;

const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 3_600);
const MIN_FLIGHT: Duration = Duration::from_millis(500);
const MAX_FLIGHT: Duration = Duration::from_secs(10);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter monitor --log jitter --label rack=r7          two CSV files per five minutes
  osjitter monitor --listen 9891                         http://127.0.0.1:9891/metrics
  osjitter monitor --limit p99=2ms --limit control-loop:max=20ms
  osjitter monitor --no-probes --log jitter              only the loops of other programs
  osjitter monitor --log jitter --limit max=20ms --flight 2s

Probes tick as long as the monitor runs, each on its own thread. The monitor also watches the loops
that other programs meter with the library tickmeter. Intervals end at whole multiples of
--interval, UTC. Each interval has two files, written completely or not at all:
DIR/DAY/HOST.TIME.bins.csv with one row per histogram bin, and .intervals.csv with one row per
subject or meter.

A limit is p50, p90, p99, p99.9, p99.99 or max of the lateness, or missed (in percent of the
ticks). It applies to all loops or, after a name and a colon, to the loops of that name. A broken
limit is printed, counted, and with --log written to a file with the last late ticks. With --flight,
the context switches before them are written as well, and divide their lateness by cause: of all
CPUs with CAP_PERFMON, otherwise of the probes and of this user's metered programs.

If the monitor needs more CPU time than --budget, it doubles the periods of its probes or reads the
meters less often, whichever costs more. It watches up to 4096 meters. Limits that are not checked
on all of them, or on loops with too few ticks, are reported and counted.

Ctrl-C and SIGTERM stop the monitor after it has written the open interval.

Exit codes: 0 done; 2 bad usage; 4 intervals were lost, a probe could not start or failed, or a
limit was not checked on a meter that the monitor left out, or never on any loop.")]
pub struct MonitorArgs {
    /// Probe to run: a name, a glob or all; repeat for several [default: os-interval and nanosleep]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, help_heading = "Probes and meters")]
    pub subject: Vec<Subjects>,
    /// Period of the probes; repeat for several [default: 10ms]
    #[arg(long, short, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, help_heading = "Probes and meters")]
    pub period: Vec<Duration>,
    /// Runtime of tokio probes: current-thread, multi-thread or multi-thread:N; repeat for
    /// several [default: current-thread]
    #[arg(long, value_name = "KIND", value_parser = runtime_parser(), hide_possible_values = true, help_heading = "Probes and meters")]
    pub runtime: Vec<Runtime>,
    /// Watch only the meters of other programs; start no probes
    #[arg(long, conflicts_with_all = ["subject", "period", "runtime"], help_heading = "Probes and meters")]
    pub no_probes: bool,
    /// Ignore the meters of other programs
    #[arg(long, conflicts_with = "no_probes", help_heading = "Probes and meters")]
    pub no_meters: bool,
    /// Include the programs of all users (requires root)
    #[arg(long, conflicts_with = "no_meters", help_heading = "Probes and meters")]
    pub all: bool,
    /// Length of an interval, 1s to 24h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_interval, default_value = "5m", help_heading = "Intervals")]
    pub interval: Duration,
    /// Write each interval to files in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Intervals")]
    pub log: Option<PathBuf>,
    /// Number of intervals of this host to keep in the directory; older ones are removed
    #[arg(long, value_name = "N", value_parser = units::parse_count, requires = "log", help_heading = "Intervals")]
    pub keep: Option<u64>,
    /// Label of every row, such as rack=r7; repeat for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_label, requires = "log", help_heading = "Intervals")]
    pub label: Vec<(String, String)>,
    /// Name of this machine in the files [default: its hostname]
    #[arg(long, value_name = "NAME", value_parser = parse_host, requires = "log", help_heading = "Intervals")]
    pub host: Option<String>,
    /// Serve Prometheus metrics at /metrics: a port of 127.0.0.1, or an address
    #[arg(long, value_name = "ADDR", value_parser = http::parse_address, help_heading = "Metrics and limits")]
    pub listen: Option<SocketAddr>,
    /// Limit for an interval, e.g. p99=2ms, max=20ms or missed=0.1%; repeat for several
    #[arg(long, value_name = "[NAME:]LIMIT", help_heading = "Metrics and limits")]
    pub limit: Vec<Limit>,
    /// Record the last 500ms to 10s before a breach; needs --log and --limit
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_flight_length, requires_all = ["log", "limit"], help_heading = "Metrics and limits")]
    pub flight: Option<Duration>,
    /// CPU time the monitor may use, in percent of one core
    #[arg(long, value_name = "PERCENT", value_parser = parse_core_share, default_value = "1%", help_heading = "Probes and meters")]
    pub budget: f64,
    /// Stop after this time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration)]
    pub duration: Option<Duration>,
    /// Print only errors, broken limits and lost data to stderr
    #[arg(long, short)]
    pub quiet: bool,
}

fn parse_flight_length(text: &str) -> Result<Duration, UnitError> {
    units::parse_duration_within("a flight record", text, MIN_FLIGHT..=MAX_FLIGHT)
}

fn parse_interval(text: &str) -> Result<Duration, UnitError> {
    units::parse_duration_within("an interval", text, MIN_INTERVAL..=MAX_INTERVAL)
}

/// Parses a share of one core in percent, such as `0.5%`.
fn parse_core_share(text: &str) -> Result<f64, ArgumentError> {
    let number = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent <= 100_000.0 => Ok(percent / 100.0),
        _ => Err(ArgumentError::CoreShare { text: text.to_owned() }),
    }
}

/// Parses the name of a machine, which begins the names of files.
fn parse_host(text: &str) -> Result<String, ArgumentError> {
    if text.trim().is_empty() {
        return Err(ArgumentError::EmptyHost { text: text.to_owned() });
    }
    Ok(text.to_owned())
}

/// Parses a label, such as `rack=r7`.
fn parse_label(text: &str) -> Result<(String, String), ArgumentError> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(ArgumentError::Label { text: text.to_owned() });
    };
    Labels::default().set(key, value).map_err(ArgumentError::LabelKey)?;
    if value.is_empty() || cell(value) != value {
        return Err(ArgumentError::LabelValue { value: value.to_owned() });
    }
    Ok((key.to_owned(), value.to_owned()))
}

/// Reason why the value of an option is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum ArgumentError {
    #[error("invalid CPU share {text:?}: expected e.g. 0.5%")]
    CoreShare { text: String },
    #[error("invalid host name {text:?}: expected at least one character")]
    EmptyHost { text: String },
    #[error("invalid label {text:?}: expected e.g. rack=r7")]
    Label { text: String },
    #[error("{0}")]
    LabelKey(#[source] LabelError),
    #[error(
        "invalid label value {value:?}: expected 1 to 256 bytes without , ; \" and control characters"
    )]
    LabelValue { value: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_share_is_a_positive_percentage() {
        assert_eq!(parse_core_share("0.5%"), Ok(0.005));
        for text in ["0.5", "0%", "-1%", "NaN%", "inf%", "%"] {
            assert!(parse_core_share(text).unwrap_err().to_string().contains("0.5%"), "{text}");
        }
    }

    #[test]
    fn invalid_labels_are_rejected() {
        assert_eq!(parse_label("rack=r=7"), Ok(("rack".to_owned(), "r=7".to_owned())));
        for text in ["rack", "=r", "1a=r", "a b=r", "rack=", "rack=a,b", "rack==1"] {
            assert!(parse_label(text).is_err(), "{text}");
        }
    }

    #[test]
    fn empty_host_names_are_rejected() {
        assert_eq!(parse_host("web-17"), Ok("web-17".to_owned()));
        for text in ["", " "] {
            assert!(parse_host(text).unwrap_err().to_string().contains("at least one"), "{text:?}");
        }
    }

    #[test]
    fn short_intervals_are_rejected() {
        assert!(parse_interval("999ms").unwrap_err().to_string().contains("outside 1s to"));
    }
}
