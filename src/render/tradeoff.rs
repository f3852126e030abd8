//! Lateness against its price: which subjects nothing beats in both.

use jitterstat::report::Report;

use crate::render::cost::per_tick_ci95;
use crate::render::label::{is_control, labels};
use crate::render::percentile;

#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its place in the report.
    pub subject: usize,
    pub name: String,
    /// Nominal period: only subjects of one period compete.
    pub period_ns: u64,
    /// There for comparison, not for choice.
    pub control: bool,
    /// Lateness at the percentile of the picture.
    pub late_ns: i64,
    pub late_ci95: Option<[i64; 2]>,
    /// CPU time of the process per tick.
    pub cpu_ns: f64,
    pub cpu_ci95: Option<[f64; 2]>,
    /// No other subject of its period is as punctual for less, or more punctual for as much.
    pub front: bool,
}

/// The percentiles that the picture can show, the one people ask for first.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

/// Name of the percentile that all measured subjects have: p99, else p90, else p50.
pub fn percentile(report: &Report) -> &'static str {
    let measured = report.subjects.iter().filter_map(|s| s.summary.as_ref());
    let all = |name: &&str| measured.clone().all(|s| percentile::named(&s.lateness_ns, name).is_some());
    PERCENTILES.into_iter().find(all).unwrap_or(PERCENTILES[2])
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
                control: is_control(&measured.name),
                late_ns: percentile::named(&summary.lateness_ns, of)?,
                late_ci95: summary.lateness_ns.ci95.get(of).copied(),
                cpu_ns: summary.cpu_ns_per_tick?,
                cpu_ci95: per_tick_ci95(measured),
                front: false,
            })
        })
        .collect();
    let front: Vec<bool> = points.iter().map(|p| !p.control && !points.iter().any(|other| beats(other, p))).collect();
    points.iter_mut().zip(front).for_each(|(point, front)| point.front = front);
    points
}

fn beats(other: &Point, point: &Point) -> bool {
    let comparable = !other.control && other.period_ns == point.period_ns;
    let no_worse = other.late_ns <= point.late_ns && other.cpu_ns <= point.cpu_ns;
    comparable && no_worse && (other.late_ns < point.late_ns || other.cpu_ns < point.cpu_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(name: &str, period_ns: u64, late_ns: i64, cpu_ns: f64) -> Point {
        let control = is_control(name);
        let name = name.to_owned();
        Point { subject: 0, name, period_ns, control, late_ns, late_ci95: None, cpu_ns, cpu_ci95: None, front: false }
    }

    #[test]
    fn only_what_is_later_and_dearer_is_beaten() {
        let (good, dear) = (point("a", 1, 10, 100.0), point("b", 1, 5, 200.0));
        assert!(!beats(&good, &dear) && !beats(&dear, &good), "each is better in something");
        assert!(beats(&good, &point("c", 1, 10, 101.0)) && beats(&good, &point("c", 1, 11, 100.0)));
        assert!(!beats(&good, &point("c", 1, 10, 100.0)), "equals do not beat each other");
        assert!(!beats(&good, &point("c", 2, 50, 500.0)), "another period is another question");
        assert!(!beats(&point("spin", 1, 1, 1.0), &good), "a control is no choice");
    }
}
