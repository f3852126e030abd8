//! Arguments of `osjitter find`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueHint};
use cli::units;
use engine::load::{Load, load_parser};
use engine::machine::os::Sched;
use engine::machine::tuning::sched_parser;
use engine::scenario::{Runtime, Subjects, SubjectsParser, runtime_parser};
use files::find::Goal;

use crate::written_limit::{KnownNames, LimitError, LimitFlaw, WrittenLimit, parse_stall};
use render::formats::{Format, parser};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  osjitter find --goal p99=100us
  osjitter find --goal p99=50us --goal missed=0.5% --goal cpu=10% --subject os-interval --subject tokio-interval
  osjitter find --goal p99=1ms --load cpu:2      the same under load
  osjitter find --goal 'missed<1e-3' --max-stall 2ms   a rate with a bound that accounts for bursts of misses
  osjitter find --period 500us                   what each ticker can promise at this period

A goal is p50, p90, p99, p99.9, p99.99 or mean of the lateness, missed (in percent of the ticks) or cpu (in percent of \
one core). missed<1e-3 is a goal for the rate of misses, with a bound over rounds for stalls of any length, or of at \
most --max-stall. All goals must hold. Each period is measured in rounds, and its confidence intervals are compared with the \
goals. If these leave a period undecided, it is measured again with four times the ticks, as long as there is time. Each \
ticker is measured at most 10 times; the error rate is shared among these, so the result holds with 95 % confidence. The \
results are written to the directory given by --out, as JSON and as a picture.

Exit codes: 0 done, whatever was found; 2 bad usage, or goals that cannot hold; 4 not measured, no answer because the \
machine was too late, or interrupted.")]
pub struct FindArgs {
    /// Goal that must hold, such as p99=100us, missed=0.1%, missed<1e-3 or cpu=10%; repeat for
    /// several
    #[arg(long, value_name = "NAME=LIMIT", value_parser = parse_goal, required_unless_present = "period", help_heading = "Search")]
    pub goal: Vec<Goal>,
    /// Find the best goals that each ticker meets at this period instead
    #[arg(long, short, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, conflicts_with_all = ["goal", "from", "to"], help_heading = "Search")]
    pub period: Option<Duration>,
    /// Shortest period to try
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, default_value = "20us", help_heading = "Search")]
    pub from: Duration,
    /// Longest period to try
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, default_value = "2ms", help_heading = "Search")]
    pub to: Duration,
    /// Ticker to search: a name, a glob or all; repeat for several [default: those marked * by
    /// osjitter list, except spin]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, help_heading = "Search")]
    pub subject: Vec<Subjects>,
    /// Runtime of tokio subjects: current-thread, multi-thread or multi-thread:N; repeat for
    /// several [default: current-thread]
    #[arg(long, value_name = "KIND", value_parser = runtime_parser(), hide_possible_values = true, help_heading = "Search")]
    pub runtime: Vec<Runtime>,
    /// Load to run alongside the subjects: cpu:2, memory, io, softirq,
    /// tasks:100x50us or a command
    #[arg(long, value_name = "LOAD", default_value_t, value_parser = load_parser(), hide_possible_values = true, help_heading = "Search")]
    pub load: Load,
    /// Longest stall that a rate of misses must account for [default: any]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = parse_stall, help_heading = "Search")]
    pub max_stall: Option<Duration>,
    /// Stop after this time and report the results so far
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, default_value = "90s", help_heading = "Search")]
    pub max_time: Duration,
    /// Bind the measuring thread to this CPU
    #[arg(long, value_name = "N", value_parser = units::parse_index, help_heading = "Machine")]
    pub cpu: Option<usize>,
    /// Scheduling class while measuring: fifo:N, rr:N or other
    #[arg(long, value_name = "CLASS", value_parser = sched_parser(), hide_possible_values = true, help_heading = "Machine")]
    pub sched: Option<Sched>,
    /// Random seed for round order and phase [default: random, recorded in the output]
    #[arg(long, value_name = "N", value_parser = units::parse_seed, help_heading = "Search")]
    pub seed: Option<u64>,
    /// Directory for the results [default: results/ and the UTC time]
    #[arg(long, short, value_name = "DIR", value_hint = ValueHint::DirPath, help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Replace an existing result
    #[arg(long)]
    pub force: bool,
    /// Output format
    #[arg(long, value_parser = parser([Format::Table, Format::Json, Format::Markdown]), default_value = "table", help_heading = "Output")]
    pub format: Format,
    /// Print only errors to stderr
    #[arg(long, short, help_heading = "Output")]
    pub quiet: bool,
}

/// Parses `p99=100us`, `missed=0.1%` or `missed<1e-3`.
fn parse_goal(text: &str) -> Result<Goal, LimitError> {
    if let Some(rate) = WrittenLimit::split_rate("goal", text, "p99=100us") {
        let rate = rate?;
        let goal = Goal::new(rate.name, Some(rate.rate()?));
        let goal = goal.ok_or_else(|| rate.unknown_name(KnownNames::All(vec!["missed"])))?;
        return Ok(Goal { rate: true, ..goal });
    }
    let written = WrittenLimit::split("goal", text, "p99=100us or missed<1e-3")?;
    let goal = Goal::new(written.name, None)
        .ok_or_else(|| written.unknown_name(KnownNames::All(Goal::NAMES.to_vec())))?;
    // A search cannot show that a ticker never misses a tick.
    match written.decisive_value(goal.quantity())? {
        0.0 => Err(written.error(LimitFlaw::Zero)),
        limit => Ok(Goal { limit: Some(limit), ..goal }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_have_units_of_their_quantity() {
        let parse = |text| parse_goal(text).map(|g| (g.name, g.limit.unwrap()));
        assert_eq!(parse("p99=100us"), Ok(("p99".to_owned(), 100_000.0)));
        assert_eq!(parse("missed=0.1%"), Ok(("missed".to_owned(), 0.1)));
        assert_eq!(
            parse("cpu=150%"),
            Ok(("cpu".to_owned(), 150.0)),
            "several threads can use more than one core"
        );
        for (text, expected) in [
            ("p99", "p99=100us"),
            ("p98=1us", "expected p50, p90"),
            ("max=1ms", "expected p50, p90"),
            ("p99=100", "no unit"),
            ("p99=0us", "more than 0"),
            ("missed=1ms", "missed=0.1%"),
            ("missed=0%", "more than 0"),
            ("missed=100%", "less than 100%"),
            ("cpu=-1%", "cpu=0.1%"),
        ] {
            let error = parse_goal(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
