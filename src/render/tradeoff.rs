//! Lateness against its price: which subjects nothing beats in both.

use files::report::{self, Report, Subject, Summary};

use crate::render::cost::per_tick_ci95;
use crate::render::label::{is_control, labels};
use crate::render::percentile;

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its place in the report.
    pub subject: usize,
    pub name: String,
    /// Nominal period: only subjects of one period and one load compete.
    pub period_ns: u64,
    pub load: Option<String>,
    /// There for comparison, not for choice.
    pub control: bool,
    /// Lateness at the percentile of the picture.
    pub late_ns: i64,
    pub late_ci95: Option<[i64; 2]>,
    /// CPU time of the process per tick.
    pub cpu_ns: f64,
    pub cpu_ci95: Option<[f64; 2]>,
    /// Among several to choose from, none of its period is as punctual for less, or more punctual
    /// for as much.
    pub front: bool,
}

/// The percentiles that the picture can show, the one people ask for first.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

/// Name of the percentile that a report ranks by, p99, else p90, else p50: one that all measured
/// subjects have, and that the machine is trusted with.
pub fn percentile(report: &Report) -> &'static str {
    let measured = report.subjects.iter().filter_map(|s| s.summary.as_ref());
    let all =
        |name: &str| measured.clone().all(|s| percentile::named(&s.lateness_ns, name).is_some());
    let place = |key: &str| report::PERCENTILES.iter().position(|p| p.key == key);
    let distrust_from =
        report.fitness.as_ref().and_then(|fitness| place(fitness.distrust_from.as_deref()?));
    let is_trusted =
        |name: &str| distrust_from.is_none_or(|from| place(name).is_some_and(|at| at < from));
    PERCENTILES.into_iter().find(|name| all(name) && is_trusted(name)).unwrap_or(PERCENTILES[2])
}

/// The subjects of a report that have both a percentile and a cost.
pub fn points(report: &Report) -> Vec<Point> {
    let of = percentile(report);
    let names = labels(report).names;
    let mut points: Vec<Point> = (report.subjects.iter().zip(names).enumerate())
        .filter_map(|(subject, (measured, name))| {
            let summary = measured.summary.as_ref()?;
            Some(Point {
                subject,
                name,
                period_ns: measured.period_ns,
                load: measured.load.clone(),
                control: is_control(&measured.name),
                late_ns: percentile::named(&summary.lateness_ns, of)?,
                late_ci95: summary.lateness_ns.ci95.get(of).copied(),
                cpu_ns: summary.cpu_ns_per_tick?,
                cpu_ci95: per_tick_ci95(measured),
                front: false,
            })
        })
        .collect();
    let choice: Vec<Point> =
        points.iter().filter(|p| keeps_up(&report.subjects[p.subject])).cloned().collect();
    let among =
        |p: &Point| choice.iter().filter(|other| other.conditions() == p.conditions()).count();
    let front: Vec<bool> = points
        .iter()
        .map(|p| choice.contains(p) && among(p) > 1 && !choice.iter().any(|other| beats(other, p)))
        .collect();
    points.iter_mut().zip(front).for_each(|(point, front)| point.front = front);
    points
}

impl Point {
    /// What those that compete have in common.
    pub fn conditions(&self) -> (u64, Option<&str>) {
        (self.period_ns, self.load.as_deref())
    }
}

/// What misses more of its ticks than this is no choice, however cheap it is.
pub const MAX_MISSED: f64 = 0.5;

/// Share of the ticks of a measured subject that did not come before the next one was due.
pub fn missed(summary: &Summary) -> f64 {
    summary.missed as f64 / summary.ticks.max(1) as f64
}

/// Whether a subject is there to be chosen: no control, measured, and most of its ticks came in
/// time.
pub fn keeps_up(subject: &Subject) -> bool {
    !is_control(&subject.name) && subject.summary.as_ref().is_some_and(|s| missed(s) <= MAX_MISSED)
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
            control,
            late_ns,
            late_ci95,
            cpu_ns,
            cpu_ci95,
            front: false,
        }
    }

    #[test]
    fn nothing_is_praised_for_missing_its_ticks_or_for_being_alone() {
        let mut whole =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        whole.subjects.iter_mut().filter_map(|s| s.summary.as_mut()).for_each(|s| s.missed = 0);
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
            (summary.missed, summary.cpu_ns_per_tick) = (summary.ticks / 10 * 9, Some(1.0));
        }
        let idle = points(&idle);
        let cheapest = idle.iter().min_by(|a, b| a.cpu_ns.total_cmp(&b.cpu_ns)).expect("points");
        assert!(!cheapest.front, "{cheapest:?}");
    }

    #[test]
    fn none_is_ranked_by_a_percentile_that_the_machine_is_not_trusted_with() {
        let mut report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        let had = percentile(&report);
        for (distrusted, ranked) in [("p99_9", had), ("p99", "p90"), ("p90", "p50"), ("p50", "p50")]
        {
            report.fitness = Some(Fitness::from_facts(Facts::default(), Some(distrusted), Some(2)));
            assert_eq!(percentile(&report), ranked, "{distrusted}");
        }
    }

    #[test]
    fn only_what_is_later_and_dearer_is_beaten() {
        let (good, dear) = (point("a", 1, 10, 100.0), point("b", 1, 5, 200.0));
        assert!(!beats(&good, &dear) && !beats(&dear, &good), "each is better in something");
        assert!(beats(&good, &point("c", 1, 10, 101.0)) && beats(&good, &point("c", 1, 11, 100.0)));
        assert!(!beats(&good, &point("c", 1, 10, 100.0)), "equals do not beat each other");
        assert!(!beats(&good, &point("c", 2, 50, 500.0)), "another period is another question");
        let loaded = Point { load: Some("cpu:2".to_owned()), ..point("c", 1, 50, 500.0) };
        assert!(!beats(&good, &loaded), "and so is another load");
        assert!(!beats(&point("spin", 1, 1, 1.0), &good), "a control is no choice");
    }
}
