//! Arguments of `osjitter find`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;
use engine::load::Load;
use engine::machine::os::Sched;
use engine::scenario::{Runtime, Subjects, SubjectsParser};
use files::find::Goal;

use crate::render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter find --goal p99=100us
  osjitter find --goal p99=50us --goal missed=0.5% --goal cpu=10% --subject os-interval --subject tokio-interval
  osjitter find --goal p99=1ms --load cpu:2      the same beside a load
  osjitter find --period 500us                   what each ticker can promise at this period

A goal is p50, p90, p99, p99.9, p99.99 or mean of the lateness, missed (in per cent of the ticks) or cpu (in per cent of \
one core). All goals have to hold. Each period is measured in rounds and held against the goals by its confidence \
intervals; what they leave open is looked at again with four times the ticks, as long as the time lasts. At most 10 looks \
a ticker, so that a ticker's result is right with 95 % confidence. Results, JSON and a picture go to the directory given \
by --out.

Exit codes: 0 done, whatever was found; 2 bad usage, or goals that cannot be; 4 not measured or interrupted.")]
pub struct FindArgs {
    /// What has to hold, as in p99=100us, missed=0.1% or cpu=10%; repeat for several
    #[arg(long, value_name = "NAME=LIMIT", value_parser = goal, required_unless_present = "period")]
    pub goal: Vec<Goal>,
    /// Find what each ticker can promise at this period instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, conflicts_with_all = ["goal", "from", "to"])]
    pub period: Option<Duration>,
    /// Shortest period to try
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, default_value = "20us")]
    pub from: Duration,
    /// Longest period to try
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, default_value = "2ms")]
    pub to: Duration,
    /// Ticker to look at: a name, a glob or all; repeat for several [default: those marked * by
    /// list, but spin]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true)]
    pub subject: Vec<Subjects>,
    /// Runtime of tokio subjects; repeat for several [default: current-thread]
    #[arg(long, value_name = "KIND")]
    pub runtime: Vec<Runtime>,
    /// What runs beside the tickers, as with run: cpu:2, memory, io, softirq, tasks:100x50us or any
    /// command
    #[arg(long, value_name = "LOAD", default_value_t)]
    pub load: Load,
    /// End after this time, with what is known by then
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, default_value = "90s")]
    pub max_time: Duration,
    /// Bind the measuring thread to this CPU
    #[arg(long, value_name = "N", value_parser = units::parse_index)]
    pub cpu: Option<usize>,
    /// Scheduling class while measuring: fifo:N, rr:N or other
    #[arg(long, value_name = "CLASS")]
    pub sched: Option<Sched>,
    /// Seed of the order and the phases of rounds [default: random; the file has it]
    #[arg(long, value_name = "N", value_parser = units::parse_seed)]
    pub seed: Option<u64>,
    /// Directory for find.json and find.svg [default: results/ and the UTC time]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// What to print to stdout
    #[arg(long, value_parser = parser([Format::Table, Format::Json, Format::Markdown]), default_value = "table")]
    pub format: Format,
    /// Print nothing to stderr but errors
    #[arg(long, short)]
    pub quiet: bool,
}

/// Reads `p99=100us`, `missed=0.1%`.
fn goal(text: &str) -> Result<Goal, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or_else(|| format!("no goal {text:?}; write for example p99=100us"))?;
    let goal = Goal::new(name.trim(), None)
        .ok_or_else(|| format!("no goal {name:?}; there are {}", Goal::NAMES.join(", ")))?;
    let limit = if goal.unit == "ns" {
        units::parse_duration(value.trim())?.as_nanos() as f64
    } else {
        let percent =
            value.trim().strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
        let percent = percent.filter(|p| p.is_finite() && *p >= 0.0);
        percent.ok_or_else(|| format!("{value:?} is no share; write for example {name}=0.1%"))?
    };
    if limit <= 0.0 {
        return Err(format!(
            "{name}={value} is reached by no ticker, and shown by no measurement; give more than 0"
        ));
    }
    if name.trim() == "missed" && limit >= 100.0 {
        return Err(format!("{name}={value} holds whatever happens; give less than 100%"));
    }
    Ok(Goal { limit: Some(limit), ..goal })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_has_the_unit_of_its_number() {
        let read = |text| goal(text).map(|g| (g.name, g.limit.unwrap()));
        assert_eq!(read("p99=100us"), Ok(("p99".to_owned(), 100_000.0)));
        assert_eq!(read("missed=0.1%"), Ok(("missed".to_owned(), 0.1)));
        assert_eq!(
            read("cpu=150%"),
            Ok(("cpu".to_owned(), 150.0)),
            "several threads take more than one core"
        );
        for (text, says) in [
            ("p99", "p99=100us"),
            ("p98=1us", "there are p50, p90"),
            ("max=1ms", "there are p50, p90"),
            ("p99=100", "no unit"),
            ("p99=0us", "more than 0"),
            ("missed=1ms", "missed=0.1%"),
            ("missed=0%", "more than 0"),
            ("missed=100%", "less than 100%"),
            ("cpu=-1%", "cpu=0.1%"),
        ] {
            let error = goal(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
