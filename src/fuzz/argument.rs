//! Targets for command-line arguments and strings of a plan: durations, counts, globs, loads and
//! limits.

use std::fmt::{Debug, Display};
use std::str::FromStr;

use cli::exit::{self, Error};
use cli::units;
use engine::load::Load;
use engine::machine::os::Sched;
use engine::measure::metric_spec::MetricSpec;
use engine::program::Program;
use engine::scenario::{self, Runtime, Subjects};

use crate::fuzz::files::text;
use crate::fuzz::step_costs::StepCosts;
use crate::gate::args;

/// Parses every line as each type of argument.
pub fn body(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    let text = text(bytes)?;
    let mut accepted = false;
    let mut reasons = String::from("no line is an argument: ");
    for line in text.lines() {
        let results = costs.measure("parse", || {
            [
                duration(line),
                check(units::parse_count(line)),
                round_trip::<Load>(line),
                round_trip::<Runtime>(line),
                round_trip::<Sched>(line),
                check(line.parse::<Subjects>()),
                check(MetricSpec::parse(line)),
                check(Program::parse(line)),
                check(args::parse_limit(line)),
                check(args::parse_tolerance(line)),
            ]
        });
        for reason in results {
            accepted |= reason.is_none();
            reasons.extend(reason);
        }
    }
    if accepted { Ok(()) } else { Err(Error::usage(reasons)) }
}

/// Returns the reason for which a line is not an argument.
fn check<T, E: Display>(result: Result<T, E>) -> Option<String> {
    result.err().map(|error| error.to_string())
}

/// Checks that a parsed value survives formatting and parsing.
fn round_trip<T>(line: &str) -> Option<String>
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    let parsed = line.parse::<T>();
    if let Ok(read) = &parsed {
        assert_eq!(read.to_string().parse().ok().as_ref(), Some(read), "{line:?}");
    }
    check(parsed)
}

fn duration(line: &str) -> Option<String> {
    let parsed = units::parse_duration(line);
    if let &Ok(read) = &parsed {
        let is_of_unit = |c: char| !c.is_ascii_digit() && c != '.';
        let number = line.trim().trim_end_matches(is_of_unit).trim_end();
        assert!(number.chars().all(|c| c.is_ascii_digit() || c == '.'), "{line:?}");
        let written = units::format_exact_duration(read);
        assert_eq!(units::parse_duration(&written), Ok(read), "{line:?}");
        if let Ok(period) = units::parse_period(line) {
            let is_in_range = (units::MIN_PERIOD..=units::MAX_PERIOD).contains(&period);
            assert!(period == read && is_in_range, "{line:?}");
        }
    }
    check(parsed)
}

/// Compares the glob matcher with the definition of a match: the first line is the pattern, the
/// rest is the name.
pub fn glob(bytes: &[u8], costs: &StepCosts) -> exit::Result<()> {
    const MAX_INPUT_BYTES: usize = 4_096;
    let text = text(bytes)?;
    let (pattern, name) = text.split_once('\n').unwrap_or((&text, ""));
    let matches = costs.measure("match", || scenario::matches_glob(pattern, name));
    if pattern.len().max(name.len()) <= MAX_INPUT_BYTES {
        assert_eq!(matches, matches_by_definition(pattern, name), "{pattern:?} and {name:?}");
    }
    let selected = costs
        .measure("choose", || scenario::select_by_pattern("name", &[pattern.to_owned()], &[name]));
    assert_eq!(selected.is_ok(), matches);
    selected?;
    Ok(())
}

/// Matches a glob by its definition: for each prefix of the pattern, computes which prefixes of the
/// name match it.
fn matches_by_definition(pattern: &str, name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let mut reached: Vec<bool> = (0..=name.len()).map(|n| n == 0).collect();
    for p in pattern.chars() {
        let mut next = vec![false; reached.len()];
        for n in 0..reached.len() {
            next[n] = match p {
                '*' => reached[n] || (n > 0 && next[n - 1]),
                p => n > 0 && reached[n - 1] && (p == '?' || p == name[n - 1]),
            };
        }
        reached = next;
    }
    reached[name.len()]
}
