//! Lateness compared with CPU cost: which subjects are on the Pareto front.

use cli::time::format_share;
use cli::words::pluralize;
use files::report::{Report, Subject, Summary};

use crate::report::cost::per_tick_ci95;
use crate::report::entry::summaries;
use crate::report::label::{concurrent_cpus, is_control, labels};
use crate::report::percentile;
use crate::report::trust::Trust;

/// The lateness and the cost of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Index of the subject in the report.
    pub subject: usize,
    pub name: String,
    /// Nominal period. Only subjects with the same period, load and CPU compete.
    pub period_ns: u64,
    pub load: Option<String>,
    /// CPU of a subject that ran at once with others; they do not compete.
    pub cpu: Option<u64>,
    /// Whether the subject is a control, which does not compete.
    pub control: bool,
    /// Lateness at the percentile that [`percentile`] returns.
    pub late_ns: i64,
    pub late_ci95: Option<[i64; 2]>,
    /// CPU time of the process per tick.
    pub cpu_ns: f64,
    pub cpu_ci95: Option<[f64; 2]>,
    /// Whether the subject has competitors, and none of them is as punctual for less CPU time, or
    /// more punctual for the same.
    pub front: bool,
}

/// The percentiles by which a report can rank, in order of preference.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

/// The percentile of reports that have none of [`PERCENTILES`] for all subjects.
const FALLBACK: &str = "p50";

/// Returns the key of the percentile by which a report ranks: the first of p99, p90 and p50 that
/// all measured subjects have and at which the machine is trusted.
///
/// Returns `None` if the machine is not trusted at any of them: lateness that is not the subjects'
/// own gives no ranking.
pub fn ranking(report: &Report) -> Option<&'static str> {
    let trust = Trust::from_report(report);
    for key in PERCENTILES {
        if is_supported(report, key) && trust.covers(key) {
            return Some(key);
        }
    }
    trust.covers(FALLBACK).then_some(FALLBACK)
}

/// Returns the key of the percentile that represents a subject's lateness: the one by which the
/// report ranks, or the median of a report without a ranking.
pub fn percentile(report: &Report) -> &'static str {
    ranking(report).unwrap_or(FALLBACK)
}

/// Returns whether all measured subjects have a percentile.
fn is_supported(report: &Report, key: &str) -> bool {
    summaries(report).all(|summary| percentile::value(&summary.lateness_ns, key).is_some())
}

/// Returns the subjects of a report that have both a percentile and a cost. None of them is on the
/// front if the report has no ranking.
pub fn points(report: &Report) -> Vec<Point> {
    let (shown, cpus) = (percentile(report), concurrent_cpus(report));
    let named = report.subjects.iter().zip(labels(report).names);
    let mut points = Vec::new();
    for (index, (subject, name)) in named.enumerate() {
        let cpu = cpus[index];
        points.extend(Point::new(index, subject, name, shown).map(|point| Point { cpu, ..point }));
    }
    if ranking(report).is_none() {
        return points;
    }
    let mut competitors = points.clone();
    competitors.retain(|point| keeps_up(&report.subjects[point.subject]));
    for point in &mut points {
        point.front = is_on_front(point, &competitors);
    }
    points
}

/// Returns whether a point has competitors and none of them beats it.
fn is_on_front(point: &Point, competitors: &[Point]) -> bool {
    let is_rival = |other: &&Point| other.conditions() == point.conditions();
    competitors.contains(point)
        && competitors.iter().filter(is_rival).count() > 1
        && !competitors.iter().any(|other| beats(other, point))
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
            load: subject.load.clone(),
            cpu: None,
            control: is_control(&subject.name),
            late_ns: percentile::value(&summary.lateness_ns, shown)?,
            late_ci95: summary.lateness_ns.ci95.get(shown).copied(),
            cpu_ns: summary.cpu_ns_per_tick?,
            cpu_ci95: per_tick_ci95(subject),
            front: false,
        })
    }

    /// Returns the period, load and CPU, which competing subjects have in common.
    pub fn conditions(&self) -> (u64, Option<&str>, Option<u64>) {
        (self.period_ns, self.load.as_deref(), self.cpu)
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

/// Whether a subject can be recommended: it is not a control, it was measured, and most of its
/// ticks were in time.
pub fn keeps_up(subject: &Subject) -> bool {
    !is_control(&subject.name)
        && subject.summary.as_ref().is_some_and(|s| missed_share(s) <= MAX_MISSED_SHARE)
}

fn beats(other: &Point, point: &Point) -> bool {
    let comparable = !other.control && other.conditions() == point.conditions();
    let no_worse = other.late_ns <= point.late_ns && other.cpu_ns <= point.cpu_ns;
    comparable && no_worse && (other.late_ns < point.late_ns || other.cpu_ns < point.cpu_ns)
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::fitness::{Facts, Fitness};

    use super::*;

    fn point(name: &str, period_ns: u64, late_ns: i64, cpu_ns: f64) -> Point {
        let control = is_control(name);
        let name = name.to_owned();
        let (late_ci95, cpu_ci95) = (None, None);
        Point {
            subject: 0,
            name,
            period_ns,
            load: None,
            cpu: None,
            control,
            late_ns,
            late_ci95,
            cpu_ns,
            cpu_ci95,
            front: false,
        }
    }

    #[test]
    fn front_needs_competitors_that_keep_up() {
        let mut whole =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        for s in whole.subjects.iter_mut().filter_map(|s| s.summary.as_mut()) {
            s.missed = Some(0);
        }
        assert!(points(&whole).iter().any(|p| p.front), "there is a choice");
        let mut alone = whole.clone();
        let first = alone.subjects.iter().position(|s| !is_control(&s.name)).expect("a subject");
        let kept = alone.subjects[first].id.clone();
        alone.subjects.retain(|s| is_control(&s.name) || s.id == kept);
        assert!(points(&alone).iter().all(|p| !p.front));
        let mut idle = whole;
        for summary in
            idle.subjects.iter_mut().filter(|s| s.id == kept).filter_map(|s| s.summary.as_mut())
        {
            (summary.missed, summary.cpu_ns_per_tick) = (Some(summary.ticks / 10 * 9), Some(1.0));
        }
        let idle = points(&idle);
        let cheapest = idle.iter().min_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns)).expect("points");
        assert!(!cheapest.front, "{cheapest:?}");
    }

    #[test]
    fn ranking_uses_trusted_percentiles() {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        for s in report.subjects.iter_mut().filter_map(|s| s.summary.as_mut()) {
            s.missed = Some(0);
        }
        let undisturbed = ranking(&report);
        for (distrusted, ranked) in
            [("p99_9", undisturbed), ("p99", Some("p90")), ("p90", Some("p50")), ("p50", None)]
        {
            report.fitness = Some(Fitness::from_facts(Facts::default(), Some(distrusted), Some(2)));
            assert_eq!(ranking(&report), ranked, "{distrusted}");
            let has_front = points(&report).iter().any(|point| point.front);
            assert_eq!(has_front, ranked.is_some(), "{distrusted}");
        }
        assert_eq!(percentile(&report), "p50", "pictures show the median");
    }

    #[test]
    fn beats_needs_lateness_and_cost() {
        let (good, dear) = (point("a", 1, 10, 100.0), point("b", 1, 5, 200.0));
        assert!(!beats(&good, &dear) && !beats(&dear, &good), "each is better in something");
        assert!(beats(&good, &point("c", 1, 10, 101.0)) && beats(&good, &point("c", 1, 11, 100.0)));
        assert!(!beats(&good, &point("c", 1, 10, 100.0)), "equals do not beat each other");
        assert!(!beats(&good, &point("c", 2, 50, 500.0)), "periods do not compete");
        let loaded = Point { load: Some("cpu:2".to_owned()), ..point("c", 1, 50, 500.0) };
        assert!(!beats(&good, &loaded), "loads do not compete");
        assert!(!beats(&point("spin", 1, 1, 1.0), &good), "a control does not compete");
    }
}
