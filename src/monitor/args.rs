//! Arguments of `osjitter monitor`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;
use engine::scenario::{Runtime, Subjects, SubjectsParser};
use files::bins::{Labels, cell};

use crate::monitor::http;
use crate::monitor::limits::Limit;

const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(24 * 3_600);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter monitor --log jitter --label rack=r7          two CSV files per five minutes
  osjitter monitor --listen 9891                         http://127.0.0.1:9891/metrics
  osjitter monitor --limit p99=2ms --limit control-loop:max=20ms
  osjitter monitor --no-probes --log jitter              only the loops of other programs

Probes tick for as long as the monitor runs, each on a thread of its own; beside them it watches
the loops that other programs meter with the library tickmeter. Intervals end at whole multiples of
--interval, UTC. Their files, DIR/DAY/HOST.TIME.bins.csv with one row per histogram bin and
.intervals.csv with one per subject or meter, are written whole or not at all.

A limit is p50, p90, p99, p99.9, p99.99 or max of the lateness, or missed (in per cent of the
ticks). It holds for all loops or, after a name and a colon, for those of that name. A broken one is
printed, counted, and written with the last late ticks.

Where the monitor takes more than --budget, the periods of its probes are doubled.

Ctrl-C and SIGTERM end it with the open interval written.

Exit codes: 0 done; 2 bad usage; 4 intervals were lost, or a probe could not start.")]
pub struct MonitorArgs {
    /// Probe: a name, a glob or all; repeat for several [default: os-interval and nanosleep]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true)]
    pub subject: Vec<Subjects>,
    /// Period of the probes; repeat for several [default: 10ms]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period)]
    pub period: Vec<Duration>,
    /// Runtime of tokio probes; repeat for several [default: current-thread]
    #[arg(long, value_name = "KIND")]
    pub runtime: Vec<Runtime>,
    /// No probes: only the meters of other programs
    #[arg(long, conflicts_with_all = ["subject", "period", "runtime"])]
    pub no_probes: bool,
    /// Leave the meters of other programs alone
    #[arg(long, conflicts_with = "no_probes")]
    pub no_meters: bool,
    /// Watch the meters of all users; needs root
    #[arg(long, conflicts_with = "no_meters")]
    pub all: bool,
    /// Length of an interval, 1s to 24h
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = interval, default_value = "5m")]
    pub interval: Duration,
    /// Write each interval to files in this directory
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub log: Option<PathBuf>,
    /// Keep the last N intervals of this host in the directory, and remove older ones
    #[arg(long, value_name = "N", value_parser = units::parse_count, requires = "log")]
    pub keep: Option<u64>,
    /// Label of every row, such as rack=r7; repeat for several
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub label: Vec<(String, String)>,
    /// Name of this machine in the files [default: its hostname]
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Serve Prometheus metrics at /metrics: a port of 127.0.0.1, or an address
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    pub listen: Option<SocketAddr>,
    /// What an interval must not exceed, as in p99=2ms, max=20ms or missed=0.1%; repeat for several
    #[arg(long, value_name = "[NAME:]LIMIT")]
    pub limit: Vec<Limit>,
    /// CPU time the monitor may take, in per cent of one core
    #[arg(long, value_name = "PERCENT", value_parser = share, default_value = "1%")]
    pub budget: f64,
    /// End after this time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration)]
    pub duration: Option<Duration>,
    /// Print nothing to stderr but errors, broken limits, and what was lost
    #[arg(long, short)]
    pub quiet: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    units::parse_duration_within("an interval", text, MIN_INTERVAL..=MAX_INTERVAL)
}

/// Reads `0.5%`: a share of one core.
fn share(text: &str) -> Result<f64, String> {
    let percent =
        text.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
    let percent = percent.filter(|percent| *percent > 0.0 && *percent <= 100_000.0);
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("{text:?} is no share of a core; write for example 0.5%"))
}

fn label(text: &str) -> Result<(String, String), String> {
    let no_label = || format!("{text:?} is no label; write for example rack=r7");
    let (key, value) = text.split_once('=').ok_or_else(no_label)?;
    Labels::default().set(key, value)?;
    if value.is_empty() || cell(value) != value {
        return Err(format!(
            "{value:?} is no value of a label; use at most 256 bytes without , ; \" and control characters"
        ));
    }
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_or_refused() {
        assert_eq!(share("0.5%"), Ok(0.005));
        for text in ["0.5", "0%", "-1%", "NaN%", "inf%", "%"] {
            assert!(share(text).unwrap_err().contains("0.5%"), "{text}");
        }
        assert_eq!(label("rack=r=7"), Ok(("rack".to_owned(), "r=7".to_owned())));
        for text in ["rack", "=r", "1a=r", "a b=r", "rack=", "rack=a,b", "rack==1"] {
            assert!(label(text).is_err(), "{text}");
        }
        assert!(interval("999ms").unwrap_err().contains("outside 1s to"));
    }
}
