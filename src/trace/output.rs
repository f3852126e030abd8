//! The parts of the output that only a trace has: a table of the stages from the timer to the
//! thread, a file with all timers, and the overhead.

use std::fmt::Write as _;
use std::time::Duration;

use cli::time::{format_number, format_time};
use cli::units;
use cli::words::{group_digits, or_dash};
use files::bins::cell;
use files::report::Trace;
use files::window::TimeInWindow;
use jitterstat::stats::quantile::nearest_rank;

use crate::trace::subjects::{Group, detect_period_ns};
use crate::trace::tracker::Wait;
use render::document::{Document, Table};

/// A stage of a wait, from one recorded time to the next.
struct Stage {
    name: &'static str,
    /// Returns the length of the stage, or `None` if a time was not recorded.
    length_ns: fn(&Wait) -> Option<i64>,
}

const STAGES: [Stage; 4] = [
    Stage { name: "expired", length_ns: |w| Some(w.expired_ns? - w.deadline_ns) },
    Stage { name: "woken", length_ns: |w| Some(w.woken_ns? - w.expired_ns?) },
    Stage { name: "ran", length_ns: |w| Some(w.ran_ns? - w.woken_ns?) },
    Stage { name: "back", length_ns: |w| Some(w.end_ns - w.ran_ns?) },
];

/// Returns a table with a row per subject: the number of timers, their period, and each stage at
/// p50 and p99.
pub fn stages(groups: &[Group<'_>]) -> Document {
    let headings = ["subject", "timers", "period", "awake"].into_iter();
    let mut table = Table::new(headings.chain(STAGES.iter().map(|stage| stage.name)), 1);
    for group in groups {
        table.row(stages_row(group));
    }
    let mut document = Document::new();
    document.section(
        "Where the time went, p50 / p99: until the timer expired, until the thread was woken, until it ran, until its call \
         returned; awake: timers whose thread was already awake",
    );
    document.table(table);
    document
}

fn stages_row(group: &Group<'_>) -> Vec<String> {
    let period = detect_period_ns(&group.waits)
        .map(|ns| units::format_exact_duration(Duration::from_nanos(ns)));
    let is_awake = |wait: &&&Wait| wait.woken_ns.is_none() && wait.expired_ns.is_some();
    let mut row = vec![
        group.name.clone(),
        group_digits(group.waits.len() as u64),
        or_dash(period),
        group.waits.iter().filter(is_awake).count().to_string(),
    ];
    row.extend(STAGES.iter().map(|stage| stage_percentiles(group, stage)));
    row
}

fn stage_percentiles(group: &Group<'_>, stage: &Stage) -> String {
    let lengths = group.waits.iter().filter_map(|wait| (stage.length_ns)(wait));
    let mut lengths: Vec<i64> = lengths.collect();
    lengths.sort_unstable();
    let percentile = |q| or_dash(nearest_rank(&lengths, q).map(format_time));
    format!("{} / {}", percentile(0.5), percentile(0.99))
}

/// Describes the overhead of tracing, and the timers that it did not see.
pub fn format_overhead(trace: &Trace) -> String {
    let cpu_time = trace.cpu_ns.map(|cpu_ns| TimeInWindow::new(cpu_ns, trace.window_ns));
    let share = match cpu_time.and_then(TimeInWindow::share) {
        Some(share) => format!("{} % of a core", format_number(share * 100.0)),
        None => "an unknown share of a core".to_owned(),
    };
    let cpus = if trace.apart { ", on CPUs that the program does not use" } else { "" };
    let lost = if trace.lost == 0 { "none".to_owned() } else { group_digits(trace.lost) };
    let mut text = format!(
        "Tracing took {share}{cpus}: {} records of the whole machine, {} MB, {lost} lost.",
        group_digits(trace.records),
        format_number(trace.bytes as f64 / 1e6)
    );
    for (count, sentence) in [
        (trace.unrecorded, "events were counted by the kernel, but not recorded."),
        (trace.undated, "timers were set before the trace began, and are left out."),
        (trace.unseen, "timers have no record of their expiry; they are counted as unexplained."),
        (trace.dropped, "timers have no recorded end, and are left out."),
    ] {
        if count > 0 {
            let _ = write!(text, " {} {sentence}", group_digits(count));
        }
    }
    text
}

/// Returns a CSV file with a line per timer, in order of deadline. Times are nanoseconds of
/// `CLOCK_MONOTONIC`.
pub fn timers_csv(groups: &[Group<'_>]) -> String {
    let mut csv =
        "subject,thread,deadline_ns,expired_ns,woken_ns,ran_ns,end_ns,behind\n".to_owned();
    let mut timers: Vec<(&str, &Wait)> = Vec::new();
    for group in groups {
        timers.extend(group.waits.iter().map(|wait| (group.name.as_str(), *wait)));
    }
    timers.sort_by_key(|(_, wait)| wait.deadline_ns);
    let or_empty = |ns: Option<i64>| ns.map_or_else(String::new, |ns| ns.to_string());
    for (name, wait) in timers {
        let longest = wait.behind.iter().max_by_key(|(_, ns)| *ns);
        let behind = longest.map_or_else(String::new, |(name, _)| name.to_string());
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{}",
            cell(name),
            wait.thread,
            wait.deadline_ns,
            or_empty(wait.expired_ns),
            or_empty(wait.woken_ns),
            or_empty(wait.ran_ns),
            wait.end_ns,
            cell(&behind)
        );
    }
    csv
}

#[cfg(test)]
mod tests {
    use files::why::Parts;

    use super::*;
    use engine::machine::os::ThreadName;

    /// A thread can have any name, and a spreadsheet would run a cell that looks like a formula.
    #[test]
    fn thread_names_are_never_formulas() {
        for (name, cell) in [
            ("=1+1", "_1+1"),
            ("+1", "_1"),
            ("-1", "_1"),
            ("@SUM(A1)", "_SUM(A1)"),
            ("\t=1", "_=1"),
            ("\r=1", "_=1"),
            ("a,=1", "a_=1"),
            ("a\"b", "a_b"),
            ("kworker/0:1", "kworker/0:1"),
        ] {
            let wait = Wait {
                thread: 7,
                name: ThreadName::from_bytes(name.as_bytes()),
                kind: "nanosleep",
                deadline_ns: 1_000,
                expired_ns: Some(1_030),
                woken_ns: Some(1_040),
                ran_ns: None,
                end_ns: 2_000,
                slack_ns: 0,
                parts: Parts::default(),
                behind: vec![
                    (ThreadName::from_bytes(b"other"), 1),
                    (ThreadName::from_bytes(name.as_bytes()), 5),
                ],
            };
            let group = Group { name: name.to_owned(), kind: "nanosleep", waits: vec![&wait] };
            let rows = timers_csv(&[group]);
            assert_eq!(
                rows.lines().nth(1),
                Some(&*format!("{cell},7,1000,1030,1040,,2000,{cell}")),
                "{name:?}"
            );
        }
    }
}
