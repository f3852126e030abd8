//! What a clock benchmark says: its data, the table, and the advice that follows.

use jitterstat::file::File;
use jitterstat::report::Host;
use serde::{Deserialize, Serialize};

use crate::text::align::align;

/// What the table of costs is.
pub const COSTS: &str = "ns per read, median, by threads that read at once";
/// What the table of order is.
pub const ORDER: &str = "out of order across threads, and steps between neighbouring reads in ns";
/// Name of the format.
pub const SCHEMA: &str = "osjitter.bench/1";
/// Which bench it is of.
pub const BENCH: &str = "clock";
/// Two costs that differ by less are the same on a machine that does other things too.
const SAME: f64 = 1.05;

/// The clocks of this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    /// [`SCHEMA`].
    pub schema: String,
    /// `clock`.
    pub bench: String,
    pub started_utc: String,
    pub duration_ns: u64,
    pub host: Host,
    pub clock: Clock,
    pub first: First,
    pub costs: Vec<Cost>,
    pub granularity: Vec<Granularity>,
    pub order: Vec<Order>,
    pub absurd: Absurd,
    pub drift: Vec<Drift>,
}

/// What `tach` says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Clock {
    pub source: String,
    pub rate_hz: f64,
    pub rate_error_ppb: f64,
    pub rate_stated_hz: Option<u64>,
    pub rate_stated_by: Option<String>,
    pub error_bound_ns: u64,
    pub cross_thread_order: String,
    pub why_not_counter: Option<String>,
}

impl From<&tach::Info> for Clock {
    fn from(info: &tach::Info) -> Self {
        Self {
            source: info.source.to_string(),
            rate_hz: info.rate_hz,
            rate_error_ppb: info.rate_error_ppb,
            rate_stated_hz: info.rate_stated.map(|stated| stated.hz),
            rate_stated_by: info.rate_stated.map(|stated| stated.by.to_string()),
            error_bound_ns: info.error_bound_ns,
            cross_thread_order: info.cross_thread_order.to_string(),
            why_not_counter: info.why_not_counter.as_ref().map(ToString::to_string),
        }
    }
}

/// The first uses in this process, before any other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct First {
    /// The first reading: it decides whether the counter can be trusted.
    pub read_ns: u64,
    /// The first conversion of a span.
    pub conversion_ns: u64,
}

/// What a read costs while so many threads read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    pub clock: String,
    pub threads: u64,
    /// Over blocks of reads, on each thread.
    pub median_ns: f64,
    pub quartiles_ns: [f64; 2],
    pub blocks: u64,
}

/// Differences of neighbouring reads on one thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granularity {
    pub clock: String,
    /// The smallest that is not zero.
    pub smallest_step_ns: Option<f64>,
    pub median_step_ns: f64,
    pub equal_neighbours: u64,
}

/// Load what another thread published, read, compare, publish.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    pub clock: String,
    pub threads: u64,
    pub reads: u64,
    /// Reads that were less than what was published before.
    pub violations: u64,
    pub worst_ns: f64,
}

/// Elapsed times of instants that other threads published.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Absurd {
    pub threads: u64,
    pub reads: u64,
    /// More than a day.
    pub absurd: u64,
}

/// A span of `tach` against the same span of the operating system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    pub span_ns: u64,
    /// Whether all CPUs were kept busy.
    pub loaded: bool,
    pub error_ns: i64,
    pub error_ppb: f64,
    /// How well the two ends could be compared.
    pub resolution_ns: f64,
}

impl File for Bench {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some(BENCH);
    const PRETTY: bool = true;
}

impl Bench {
    /// Every clock that a cost is known of, in the order of measuring.
    pub fn clocks(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cost in &self.costs {
            if !names.contains(&cost.clock.as_str()) {
                names.push(&cost.clock);
            }
        }
        names
    }

    /// Every number of threads, ascending.
    pub fn threads(&self) -> Vec<u64> {
        let mut threads: Vec<u64> = self.costs.iter().map(|c| c.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// The cost of a clock at a number of threads.
    pub fn cost_ns(&self, clock: &str, threads: u64) -> Option<f64> {
        self.costs.iter().find(|c| c.clock == clock && c.threads == threads).map(|c| c.median_ns)
    }

    /// The cost of each clock by the number of threads that read at once, under a heading.
    pub fn cost_rows(&self) -> Vec<Vec<String>> {
        let threads = self.threads();
        let mut rows = vec![["clock".to_owned()].into_iter().chain(threads.iter().map(|n| n.to_string())).collect()];
        for clock in self.clocks() {
            let cells = threads.iter().map(|&n| self.cost_ns(clock, n).map_or("-".into(), |ns| format!("{ns:.1}")));
            rows.push([clock.to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
        }
        rows
    }

    /// Order across threads and steps of each clock, under a heading.
    pub fn order_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![
            ["clock", "violations", "of reads", "worst ns", "smallest step", "median step"].map(str::to_owned).to_vec(),
        ];
        for order in &self.order {
            let step = self.granularity.iter().find(|g| g.clock == order.clock);
            rows.push(vec![
                order.clock.clone(),
                order.violations.to_string(),
                order.reads.to_string(),
                format!("{:.1}", order.worst_ns),
                step.and_then(|g| g.smallest_step_ns).map_or("-".into(), |ns| format!("{ns:.1}")),
                step.map_or("-".into(), |g| format!("{:.1}", g.median_step_ns)),
            ]);
        }
        rows
    }

    /// What is no table, a line each.
    pub fn facts(&self) -> Vec<String> {
        let (read, conversion) = (us(self.first.read_ns), us(self.first.conversion_ns));
        let mut lines = vec![
            format!("first reading {read} us, first conversion {conversion} us"),
            format!("elapsed() of instants of other threads: {} absurd of {}", self.absurd.absurd, self.absurd.reads),
        ];
        lines.extend(self.drift.iter().map(|d| {
            format!(
                "against the operating system's clock over {:.3} s{}: {:+} ns, {:+.4} ppm (seen to {:.0} ns)",
                d.span_ns as f64 / 1e9,
                if d.loaded { ", all CPUs busy" } else { "" },
                d.error_ns,
                d.error_ppb / 1e3,
                d.resolution_ns
            )
        }));
        lines
    }

    /// For a terminal.
    pub fn table(&self) -> String {
        let lines = |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
        format!(
            "{COSTS}\n{}\n{ORDER}\n{}\n{}\n{}",
            align(&self.cost_rows(), 1),
            align(&self.order_rows(), 1),
            lines(self.facts()),
            lines(self.advice())
        )
    }

    /// Which clock to use here, and why.
    pub fn advice(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(why) = &self.clock.why_not_counter {
            lines
                .push(format!("{why}: tach reads the operating system's clock, so std::time::Instant serves as well."));
            return lines;
        }
        let Some((least, most)) = self.threads().first().copied().zip(self.threads().last().copied()) else {
            return lines;
        };
        let at = |clock: &str, threads: u64| self.cost_ns(clock, threads).unwrap_or(f64::INFINITY);
        let (plain, std) = (at("tach-instant", least), at("std", least));
        lines.push(if plain * SAME < std {
            format!("Spans of one thread: tach::Instant, {plain:.1} ns a read where std takes {std:.1} ns.")
        } else {
            format!(
                "Spans of one thread: std::time::Instant; it takes {std:.1} ns a read, tach::Instant {plain:.1} ns."
            )
        });
        let violations = |clock: &str| self.order.iter().find(|o| o.clock == clock).map(|o| (o.violations, o.reads));
        let (monotonic, std) = (at("tach-monotonic", most), at("std", most));
        lines.push(match violations("tach-monotonic") {
            Some((0, reads)) if monotonic <= std * SAME => format!(
                "Compared across threads: tach::MonotonicInstant, {monotonic:.1} ns a read on {most} threads (std {std:.1} ns), none of {reads} reads out of order; kept by: {}.",
                self.clock.cross_thread_order
            ),
            Some((0, _)) => format!(
                "Compared across threads: std::time::Instant, {std:.1} ns a read on {most} threads where tach::MonotonicInstant takes {monotonic:.1} ns."
            ),
            Some((n, reads)) => format!(
                "Compared across threads: std::time::Instant. {n} of {reads} reads of tach::MonotonicInstant were out of order: this machine does not keep what it promises ({}).",
                self.clock.cross_thread_order
            ),
            None => "Compared across threads: not measured.".to_owned(),
        });
        if let Some((n @ 1.., reads)) = violations("tach-instant") {
            lines.push(format!(
                "Not tach::Instant there: {n} of {reads} of its reads were out of order, as its contract allows."
            ));
        }
        lines
    }
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench(monotonic_ns: f64, violations: u64, why_not: Option<&str>) -> Bench {
        let cost = |clock: &str, threads, median_ns| Cost {
            clock: clock.to_owned(),
            threads,
            median_ns,
            quartiles_ns: [median_ns; 2],
            blocks: 1,
        };
        let order = |clock: &str, violations| Order {
            clock: clock.to_owned(),
            threads: 4,
            reads: 100,
            violations,
            worst_ns: 0.0,
        };
        Bench {
            schema: SCHEMA.to_owned(),
            bench: "clock".to_owned(),
            started_utc: String::new(),
            duration_ns: 1,
            host: crate::machine::host::capture(),
            clock: Clock {
                source: "tsc".to_owned(),
                rate_hz: 1e9,
                rate_error_ppb: 1.0,
                rate_stated_hz: None,
                rate_stated_by: None,
                error_bound_ns: 1,
                cross_thread_order: "kernel".to_owned(),
                why_not_counter: why_not.map(str::to_owned),
            },
            first: First { read_ns: 1, conversion_ns: 2 },
            costs: vec![
                cost("tach-instant", 1, 10.0),
                cost("std", 1, 23.0),
                cost("tach-monotonic", 4, monotonic_ns),
                cost("std", 4, 23.0),
            ],
            granularity: Vec::new(),
            order: vec![order("tach-instant", 3), order("tach-monotonic", violations)],
            absurd: Absurd { threads: 4, reads: 100, absurd: 0 },
            drift: vec![Drift {
                span_ns: 1_000_000_000,
                loaded: true,
                error_ns: -12,
                error_ppb: -12.0,
                resolution_ns: 20.0,
            }],
        }
    }

    #[test]
    fn the_advice_follows_what_was_measured() {
        let cheap = bench(20.0, 0, None).advice();
        assert!(
            cheap[0].contains("tach::Instant, 10.0 ns") && cheap[1].contains("tach::MonotonicInstant, 20.0 ns"),
            "{cheap:?}"
        );
        assert!(cheap[2].contains("3 of 100"), "{cheap:?}");
        let dear = bench(278.0, 0, None).advice();
        assert!(dear[1].starts_with("Compared across threads: std::time::Instant, 23.0 ns"), "{dear:?}");
        let wrong = bench(20.0, 7, None).advice();
        assert!(wrong[1].contains("std::time::Instant. 7 of 100"), "{wrong:?}");
        let none = bench(20.0, 0, Some("the counter is not invariant")).advice();
        assert!(none.len() == 1 && none[0].contains("serves as well"), "{none:?}");
    }

    #[test]
    fn it_comes_back_from_its_file_and_fits_a_table() {
        let bench = bench(20.0, 0, None);
        assert_eq!(serde_json::from_str::<Bench>(&bench.to_json()).unwrap(), bench);
        let table = bench.table();
        assert!(table.contains("over 1.000 s, all CPUs busy: -12 ns, -0.0120 ppm"), "{table}");
    }
}
