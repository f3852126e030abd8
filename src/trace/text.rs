//! What only a trace shows: where on its way from the timer to the thread the time went, each timer
//! in a file, the price.

use std::fmt::Write as _;

use cli::align::fit;
use cli::printable::to_printable;
use cli::time::{format_number, format_time};
use cli::units;
use cli::wrap::wrap_paragraph;
use files::bins::cell;
use files::report::Trace;
use jitterstat::stats::quantile::nearest_rank;

use crate::render::origin::group_digits;
use crate::trace::subjects::{Group, period_ns};
use crate::trace::waits::Wait;

/// How long a part of a wait took, where that was seen.
type Stretch = fn(&Wait) -> Option<i64>;

/// The parts of a wait.
const STRETCHES: [(&str, Stretch); 4] = [
    ("expired", |w| Some(w.expired_ns? - w.deadline_ns)),
    ("woken", |w| Some(w.woken_ns? - w.expired_ns?)),
    ("ran", |w| Some(w.ran_ns? - w.woken_ns?)),
    ("back", |w| Some(w.end_ns - w.ran_ns?)),
];

/// A line a subject: how many timers, at which period, and each stretch at p50 and p99.
pub fn stretches(groups: &[Group<'_>], columns: usize) -> String {
    let heading = ["subject", "timers", "period", "awake"].into_iter().map(str::to_owned);
    let heading = heading.chain(STRETCHES.iter().map(|(name, _)| (*name).to_owned())).collect();
    let line = |group: &Group<'_>| {
        let period = period_ns(&group.waits)
            .map(|ns| units::format_exact_duration(std::time::Duration::from_nanos(ns)));
        let awake = group
            .waits
            .iter()
            .filter(|wait| wait.woken_ns.is_none() && wait.expired_ns.is_some())
            .count();
        let stretch = |(_, of): &(&str, Stretch)| {
            let mut all: Vec<i64> = group.waits.iter().filter_map(|wait| of(wait)).collect();
            all.sort_unstable();
            let at = |q| nearest_rank(&all, q).map_or_else(|| "-".to_owned(), format_time);
            format!("{} / {}", at(0.5), at(0.99))
        };
        let first = [
            group.name.clone(),
            group_digits(group.waits.len() as u64),
            period.unwrap_or("-".to_owned()),
            awake.to_string(),
        ];
        first.into_iter().chain(STRETCHES.iter().map(stretch)).collect()
    };
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(groups.iter().map(line)).collect();
    let title = "Where the time went, p50 / p99: until the timer expired, until the thread was woken, until it ran, until its call \
                 was back; awake: timers that found it awake";
    format!("\n{}{}", wrap_paragraph(title, columns), to_printable(&fit(&rows, columns)))
}

/// What tracing took, and what it did not see.
pub fn price(trace: &Trace) -> String {
    let of_a_core = trace.cpu_ns.map_or_else(
        || "an unknown share of a core".to_owned(),
        |cpu| {
            format!(
                "{} % of a core",
                format_number(cpu as f64 / trace.window_ns.max(1) as f64 * 100.0)
            )
        },
    );
    let place = if trace.apart { ", on CPUs that the program does not use" } else { "" };
    let mut text = format!(
        "Tracing took {of_a_core}{place}: {} records of the whole machine, {} MB",
        group_digits(trace.records),
        format_number(trace.bytes as f64 / 1e6)
    );
    text += &if trace.lost == 0 {
        ", none lost.".to_owned()
    } else {
        format!(", {} lost.", group_digits(trace.lost))
    };
    if trace.unrecorded > 0 {
        let _ = write!(
            text,
            " The kernel counted {} more than it recorded.",
            group_digits(trace.unrecorded)
        );
    }
    if trace.undated > 0 {
        let _ = write!(
            text,
            " {} timers were set before anybody looked, and are left out.",
            group_digits(trace.undated)
        );
    }
    if trace.unseen > 0 {
        let _ = write!(
            text,
            " Of {} timers the kernel recorded no expiry: they are in, unexplained.",
            group_digits(trace.unseen)
        );
    }
    if trace.dropped > 0 {
        let _ = write!(text, " Of {} timers the end was not seen.", group_digits(trace.dropped));
    }
    text
}

/// Each timer, in order of deadline: `CLOCK_MONOTONIC`, nanoseconds.
pub fn timers(groups: &[Group<'_>]) -> String {
    let mut csv =
        "subject,thread,deadline_ns,expired_ns,woken_ns,ran_ns,end_ns,behind\n".to_owned();
    let mut all: Vec<(&str, &Wait)> = groups
        .iter()
        .flat_map(|group| group.waits.iter().map(|wait| (group.name.as_str(), *wait)))
        .collect();
    all.sort_by_key(|(_, wait)| wait.deadline_ns);
    for (name, wait) in all {
        let known = |ns: Option<i64>| ns.map_or_else(String::new, |ns| ns.to_string());
        let longest = wait
            .behind
            .iter()
            .max_by_key(|(_, ns)| *ns)
            .map_or_else(String::new, |(name, _)| name.to_string());
        let _ = writeln!(
            csv,
            "{},{},{},{},{},{},{},{}",
            cell(name),
            wait.thread,
            wait.deadline_ns,
            known(wait.expired_ns),
            known(wait.woken_ns),
            known(wait.ran_ns),
            wait.end_ns,
            cell(&longest)
        );
    }
    csv
}

#[cfg(test)]
mod tests {
    use files::why::Parts;

    use super::*;
    use engine::machine::os::ThreadName;

    /// A thread may call itself anything: written out, no cell of it is one that a spreadsheet
    /// runs.
    #[test]
    fn no_cell_of_a_timer_is_a_formula() {
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
            let rows = timers(&[group]);
            assert_eq!(
                rows.lines().nth(1),
                Some(&*format!("{cell},7,1000,1030,1040,,2000,{cell}")),
                "{name:?}"
            );
        }
    }
}
