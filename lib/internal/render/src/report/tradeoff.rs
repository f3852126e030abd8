//! Lateness compared with CPU cost, and the conditions on which a subject is ranked.

use cli::time::format_share;
use cli::words::pluralize;
use files::report::{Report, Subject, Summary};
use files::subjects::is_control;

use crate::report::cost::per_tick_ci95;
use crate::report::label::labels;

/// The lateness and the cost of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index of the subject in the report.
    pub subject: usize,
    pub name: String,
    /// Nominal period.
    pub period_ns: u64,
    /// Index of the group in which the subject competes; `None` if it does not.
    pub group: Option<usize>,
    /// Whether the subject is a control, which does not compete.
    pub control: bool,
    /// Lateness at the percentile that represents it.
    pub late_ns: i64,
    pub late_ci95: Option<[i64; 2]>,
    /// CPU time of the process per tick.
    pub cpu_ns: f64,
    pub cpu_ci95: Option<[f64; 2]>,
    /// Whether the subject differs clearly from a competitor, and none is clearly better in lateness
    /// or cost without being clearly worse in the other.
    pub front: bool,
}

/// Returns the subjects of a report that have both a cost and a value at the percentile `shown`.
/// None of them is in a group or on the front yet.
pub(super) fn points(report: &Report, shown: &str) -> Vec<Point> {
    let named = report.subjects.iter().zip(labels(report).names);
    let mut points = Vec::new();
    for (index, (subject, name)) in named.enumerate() {
        points.extend(Point::new(index, subject, name, shown));
    }
    points
}

impl Point {
    /// Creates the point of a subject by its index in the report; `None` if it was not measured or
    /// has no value at the percentile `shown`.
    fn new(index: usize, subject: &Subject, name: String, shown: &str) -> Option<Self> {
        let summary = subject.summary.as_ref()?;
        Some(Self {
            subject: index,
            name,
            period_ns: subject.period_ns,
            group: None,
            control: is_control(&subject.name),
            late_ns: summary.lateness_ns.percentile(shown)?,
            late_ci95: summary.lateness_ns.ci95.get(shown).copied(),
            cpu_ns: summary.cpu_ns_per_tick?,
            cpu_ci95: per_tick_ci95(subject),
            front: false,
        })
    }
}

/// Maximum share of missed ticks of a subject that can be recommended, however cheap it is.
pub const MAX_MISSED_SHARE: f64 = 0.5;

/// Returns the share of ticks that are known to have been delivered after the next one was due, or
/// never.
pub fn missed_share(summary: &Summary) -> f64 {
    summary.known_missed() as f64 / summary.ticks.max(1) as f64
}

/// Formats the share of missed ticks, or that of those that are known to be missed; `None` if none
/// is known, or without a period, at which no tick can be missed.
pub fn format_missed(subject: &Subject, summary: &Summary) -> Option<String> {
    match (summary.missed, summary.missed_at_least) {
        _ if subject.period_ns == 0 => None,
        (Some(missed), _) => Some(format_share(missed, summary.ticks)),
        (None, Some(known @ 1..)) => Some(format_known_missed(known, summary.ticks)),
        (None, _) => None,
    }
}

/// Formats a share that may be larger, as the number of ticks if the share is too close to 0 or 1.
fn format_known_missed(known: u64, ticks: u64) -> String {
    match format_share(known, ticks) {
        share if share.starts_with(['<', '>']) => format!("at least {}", pluralize(known, "tick")),
        share => format!("at least {share}"),
    }
}

/// Whether a subject can be recommended: it is not a control, it was measured and did not fail, and
/// most of its ticks were in time.
pub fn keeps_up(subject: &Subject) -> bool {
    !is_control(&subject.name)
        && subject.status.failure().is_none()
        && subject.summary.as_ref().is_some_and(|s| missed_share(s) <= MAX_MISSED_SHARE)
}
