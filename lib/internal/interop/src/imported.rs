//! The parts that all imports of foreign files share: the conversion to a report, and warnings
//! about missing information.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use files::file::read_json;
use files::report::{
    Clock, Distribution, Host, MAX_NS, MAX_SUBJECTS, Plan, Report, SCHEMA, Scenario, Status,
    Subject, Summary, Tool, Warning,
};
use files::subjects::SPINNING_CONTROL;
use jitterstat::stats::{Interval, quantile};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::import_error::{ImportReason, Result};

/// The understood content of a foreign file. A value is `None` if the file does not state it; only
/// [`ImportedReport::report`] decides how a report expresses that.
pub(super) struct ImportedReport {
    pub tool: &'static str,
    pub version: Option<String>,
    /// RFC 3339.
    pub started_utc: Option<String>,
    /// Measured length of the run. A requested length is no substitute: the run may have ended
    /// early.
    pub duration_ns: Option<u64>,
    pub host: Host,
    pub clock: Clock,
    pub warnings: Vec<Warning>,
    pub subjects: Vec<Subject>,
}

/// Code of the warning of a report whose text lacks a part of a run.
pub const CUT_WARNING: &str = "import-cut";
/// Code of the warning of a report whose tool has failed.
pub const FAILED_RUN_WARNING: &str = "import-failed-run";

/// Start of a run in a report, if it is not known.
const UNKNOWN_TIME: &str = "at an unknown time";

/// Formats a time as in files; `None` if the year has more than four digits.
pub(super) fn rfc3339(at: SystemTime) -> Option<String> {
    const LAST: Duration = Duration::from_secs(253_402_300_799);
    (at.duration_since(UNIX_EPOCH).ok()? <= LAST)
        .then(|| humantime::format_rfc3339_seconds(at).to_string())
}

/// Checks the number of threads, CPUs or subjects.
pub(super) fn check_count(entry: &'static str, count: usize) -> Result<()> {
    if count > MAX_SUBJECTS {
        Err(ImportReason::TooManyEntries { entry, count }.into())
    } else {
        Ok(())
    }
}

/// Parses JSON. An error names line, column and the path of keys.
pub(super) fn json<'a, T: Deserialize<'a>>(text: &'a str, expected: &'static str) -> Result<T> {
    read_json(text).map_err(|error| ImportReason::Json { expected, source: Box::new(error) }.into())
}

/// Deserializes numbered entries, such as threads. The entries of two runs may have the same number.
pub(super) fn unique_numbers<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> std::result::Result<BTreeMap<u64, T>, D::Error> {
    struct Entries<T>(PhantomData<T>);
    impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
        type Value = BTreeMap<u64, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("numbered entries")
        }

        fn visit_map<A: MapAccess<'de>>(
            self,
            mut map: A,
        ) -> std::result::Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((number, entry)) = map.next_entry()? {
                if entries.insert(number, entry).is_some() {
                    return Err(A::Error::custom(format!("entry {number} comes twice")));
                }
            }
            Ok(entries)
        }
    }
    deserializer.deserialize_map(Entries(PhantomData))
}

/// Removes the escape sequences of a terminal, and its echo of Ctrl-C, at the beginning of a line.
pub(super) fn strip_escapes(line: &str) -> &str {
    let mut line = line;
    loop {
        let text = line.trim_start();
        if let Some(rest) = text.strip_prefix("^C") {
            line = rest;
        } else if let Some(rest) = text.strip_prefix("\u{1b}[") {
            let end = rest.find(|c: char| c.is_ascii_alphabetic());
            line = end.map_or("", |end| &rest[end + 1..]);
        } else {
            return line;
        }
    }
}

impl ImportedReport {
    /// Creates a report without subjects, of a source that states neither its version, nor the host,
    /// nor when it ran and for how long.
    pub fn new(tool: &'static str, clock: Clock, warnings: Vec<Warning>) -> Self {
        Self {
            tool,
            version: None,
            started_utc: None,
            duration_ns: None,
            host: unknown_host(),
            clock,
            warnings,
            subjects: Vec::new(),
        }
    }

    /// Converts the content to a report, whose file format has these values for unknown ones: an
    /// empty version, and a length and a period of 0.
    pub fn report(self) -> Report {
        let scenarios = self.subjects.iter().map(|subject| {
            let ticks = subject.summary.as_ref().map_or(0, |summary| summary.ticks);
            Scenario::from_subject(subject, ticks)
        });
        let plan = Plan { scenarios: scenarios.collect(), ..Plan::default() };
        Report {
            schema: SCHEMA.to_owned(),
            tool: Tool {
                name: self.tool.to_owned(),
                version: self.version.unwrap_or_default(),
                commit: None,
            },
            started_utc: self.started_utc.unwrap_or_else(|| UNKNOWN_TIME.to_owned()),
            duration_ns: self.duration_ns.filter(|&ns| ns <= MAX_NS).unwrap_or(0),
            partial: false,
            settled: None,
            plan,
            host: self.host,
            clock: self.clock,
            changes: Vec::new(),
            fitness: None,
            warnings: self.warnings,
            loads: Vec::new(),
            subjects: self.subjects,
            cpu_comparisons: Vec::new(),
            trace: None,
        }
    }
}

/// Returns a subject without rounds for a thread, CPU or tag of a source.
pub(super) fn subject(id: String, name: &str, period_ns: Option<u64>) -> Subject {
    let status = Status::Failed { reason: "no sample was taken".to_owned() };
    Subject::new(id, name, period_ns.unwrap_or(0), status)
}

/// Returns the id of one of several runs in a file. The name alone is that of a single run, so that a
/// reference to it is not that of the first if another one follows.
pub(super) fn run_id(name: &str, number: usize, count: usize) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// The number of missed ticks, as far as a source states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MissedTicks {
    /// Number of all missed ticks, if it is known.
    pub exact: Option<u64>,
    /// Number of ticks that are known to be missed, if others may be missed as well.
    pub at_least: Option<u64>,
}

/// Builds the summary of `n` delivered values from their range, and the known ones of their mean and
/// their percentiles. No tool counts skipped, coalesced and early ticks.
pub(super) fn summary(
    n: u64,
    missed: MissedTicks,
    range: Interval<i64>,
    mean: Option<i64>,
    at: impl Fn(f64) -> Option<i64>,
) -> Summary {
    let supported = |q| quantile::is_supported(usize::try_from(n).unwrap_or(usize::MAX), q);
    Summary {
        ticks: n,
        delivered: n,
        missed: missed.exact,
        missed_at_least: missed.at_least,
        lateness_ns: Distribution::new(range, mean, |q| at(q).filter(|_| supported(q))),
        ..Summary::default()
    }
}

/// Returns the host of a source that does not describe it.
pub(super) fn unknown_host() -> Host {
    Host { os: "unknown system".to_owned(), arch: "unknown".to_owned(), ..Host::default() }
}

/// Returns a clock that counts nanoseconds and was read by a tool with this resolution, if it is
/// known.
pub(super) fn clock(source: &str, step_ns: Option<u64>) -> Clock {
    Clock::in_ns(source, step_ns.unwrap_or(0))
}

/// Returns the hint of a tool whose busy loop records gaps.
pub(super) fn compare_gaps_hint() -> String {
    format!(
        "Compare the largest gap and the counts of long ones; the subject {} of osjitter run is its counterpart.",
        SPINNING_CONTROL.name
    )
}

pub(super) fn no_rounds(tool: &str) -> Warning {
    Warning::new(
        "import-no-rounds",
        format!(
            "{tool} keeps no samples and runs no rounds: there are no confidence intervals and nothing over time."
        ),
        "To judge a difference, run both sides several times, or use osjitter gate.",
    )
}

pub(super) fn no_cost(tool: &str) -> Warning {
    Warning::new(
        "import-no-cost",
        format!("{tool} does not measure what the ticks cost."),
        "osjitter run shows CPU time next to lateness.",
    )
}

/// Returns the warning for a source without a period. `source` begins the sentence.
pub(super) fn unknown_period(source: &str) -> Warning {
    Warning::new(
        "import-no-period",
        format!("{source} states no period: missed ticks are not known."),
        "Keep the command line with the result.",
    )
}

pub(super) fn rounded(tool: &str, step: &str, direction: &str) -> Warning {
    let remedy = match tool {
        "cyclictest" | "jitterdebugger" => format!("; with -N, {tool} counts in ns"),
        _ => String::new(),
    };
    Warning::new(
        "import-rounded",
        format!(
            "{tool} counts in whole {step}, {direction}: percentiles are made from those bins."
        ),
        &format!("Differences below one step mean nothing{remedy}."),
    )
}
