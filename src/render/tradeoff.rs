//! Lateness against its price: which subjects nothing beats in both.

use jitterstat::report::{Distribution, Report};

use crate::render::cost::per_tick_interval;
use crate::render::label::{is_control, labels};

/// One subject in the picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its place in the report.
    pub subject: usize,
    /// Its name within the report.
    pub name: String,
    /// Nominal period: only subjects of one period compete.
    pub period_ns: u64,
    /// There for comparison, not for choice.
    pub control: bool,
    /// Lateness at the percentile of the picture.
    pub late_ns: i64,
    /// Its 95 % interval over rounds.
    pub late_ci: Option<[i64; 2]>,
    /// CPU time of the process per tick.
    pub cpu_ns: f64,
    /// Its 95 % interval over rounds.
    pub cpu_ci: Option<[f64; 2]>,
    /// No other subject of its period is as punctual for less, or more punctual for as much.
    pub front: bool,
}

/// A percentile's name, and how to get it.
type Percentile = (&'static str, fn(&Distribution) -> Option<i64>);

/// The percentiles that the picture can show, the one people ask for first.
const PERCENTILES: [Percentile; 3] = [("p99", |d| d.p99), ("p90", |d| d.p90), ("p50", |d| d.p50)];

/// Name of the percentile that all measured subjects have (p99, else p90, else p50), and each one's value.
pub fn percentile(report: &Report) -> Percentile {
    let all = |get: fn(&Distribution) -> Option<i64>| {
        report.subjects.iter().filter_map(|s| s.summary.as_ref()).all(|s| get(&s.lateness_ns).is_some())
    };
    PERCENTILES.into_iter().find(|(_, get)| all(*get)).unwrap_or(PERCENTILES[2])
}

/// The subjects of a report that have both a percentile and a cost.
pub fn points(report: &Report) -> Vec<Point> {
    let (percentile, get) = percentile(report);
    let names = labels(report).names;
    let mut points: Vec<Point> = (report.subjects.iter().zip(names).enumerate())
        .filter_map(|(subject, (of, name))| {
            let summary = of.summary.as_ref()?;
            Some(Point {
                subject,
                name,
                period_ns: of.period_ns,
                control: is_control(&of.name),
                late_ns: get(&summary.lateness_ns)?,
                late_ci: summary.lateness_ns.ci95.get(percentile).copied(),
                cpu_ns: summary.cpu_ns_per_tick?,
                cpu_ci: per_tick_interval(of),
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
        Point { subject: 0, name, period_ns, control, late_ns, late_ci: None, cpu_ns, cpu_ci: None, front: false }
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
