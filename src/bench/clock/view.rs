//! Formats the report: tables of costs and behaviour, and the advice that follows from them.

use cli::file_io::ResultNames;
use cli::time::format_fractional_time;
use cli::words::or_dash;

use crate::bench::clock::file::{ClockReport, Drift, Elapsed};
use crate::bench::clock::picture;
use crate::bench::file::BenchFile;
use render::document::{Document, Table};
use render::picture::canvas::Picture;
use render::report::fitness;

const COSTS: &str = "time per reading, median, by number of threads that read concurrently";
const ELAPSED: &str = "time per elapsed(), median, by age of the instant (now: a reading alone; now-elapsed: a reading and elapsed())";
const ORDER: &str = "readings out of order across threads, and steps between successive readings";
/// Ratio up to which two costs count as equal: other work on the machine causes such differences.
const EQUAL_COST_RATIO: f64 = 1.05;

impl BenchFile for ClockReport {
    const RESULTS: ResultNames = &["clock.json", "clock.svg"];

    /// Describes the advice first, then the figures that it follows from.
    fn document(&self, _: bool) -> Document {
        let mut document = Document::new();
        document.title("Clocks");
        document.notes(self.advice().into_iter().chain(fitness::sentence(self.fitness.as_ref())));
        document.section(COSTS);
        document.table(self.cost_table());
        if !self.elapsed.is_empty() {
            document.section(ELAPSED);
            document.table(self.elapsed_table());
        }
        document.section(ORDER);
        document.table(self.order_table());
        document.notes(self.facts());
        document
    }

    fn pictures(&self) -> Vec<Picture> {
        vec![picture::draw_picture(self)]
    }
}

impl ClockReport {
    /// Returns every clock with a measured cost, in the order of measurement.
    pub fn clocks(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cost in &self.costs {
            if !names.contains(&cost.clock.as_str()) {
                names.push(&cost.clock);
            }
        }
        names
    }

    /// Returns every number of threads in ascending order.
    pub fn threads(&self) -> Vec<u64> {
        let mut threads: Vec<u64> = self.costs.iter().map(|c| c.threads).collect();
        threads.sort_unstable();
        threads.dedup();
        threads
    }

    /// Returns the cost of a clock with a number of threads.
    fn cost_ns(&self, clock: &str, threads: u64) -> Option<f64> {
        self.costs.iter().find(|c| c.clock == clock && c.threads == threads).map(|c| c.median_ns)
    }

    /// Returns the cost of each clock by number of threads.
    fn cost_table(&self) -> Table {
        let threads = self.threads();
        let mut heading = vec!["clock".to_owned()];
        heading.extend(threads.iter().map(u64::to_string));
        let mut table = Table::new(heading, 1);
        for clock in self.clocks() {
            let mut row = vec![clock.to_owned()];
            for &n in &threads {
                row.push(or_dash(self.cost_ns(clock, n).map(format_fractional_time)));
            }
            table.row(row);
        }
        table
    }

    /// Returns the costs of `elapsed` with a clock.
    fn elapsed_costs(&self, clock: &'static str) -> impl Iterator<Item = &Elapsed> {
        self.elapsed.iter().filter(move |elapsed| elapsed.clock == clock)
    }

    /// Returns the cost of `elapsed` with `tach` and with std by age.
    fn elapsed_table(&self) -> Table {
        let mut table = Table::new(["age", "tach-instant", "std", "ratio"], 1);
        for (tach, std) in self.elapsed_costs("tach-instant").zip(self.elapsed_costs("std")) {
            table.row([
                tach.age.clone(),
                format_fractional_time(tach.median_ns),
                format_fractional_time(std.median_ns),
                format!("{:.2}", tach.median_ns / std.median_ns),
            ]);
        }
        table
    }

    /// Returns the order across threads and the steps of each clock.
    fn order_table(&self) -> Table {
        let heading = ["clock", "violations", "readings", "worst", "smallest step", "median step"];
        let mut table = Table::new(heading, 1);
        for order in &self.order {
            let step = self.granularity.iter().find(|g| g.clock == order.clock);
            let smallest_ns = step.and_then(|g| g.smallest_step_ns);
            table.row([
                order.clock.clone(),
                order.violations.to_string(),
                order.reads.to_string(),
                format_fractional_time(order.worst_ns),
                or_dash(smallest_ns.map(format_fractional_time)),
                or_dash(step.map(|g| format_fractional_time(g.median_step_ns))),
            ]);
        }
        table
    }

    /// Returns the figures that are in no table, one per line.
    fn facts(&self) -> Vec<String> {
        let (read, conversion) = (us(self.first.read_ns), us(self.first.conversion_ns));
        let mut lines = vec![
            format!("first reading {read} us, first conversion {conversion} us"),
            format!(
                "cross-thread elapsed(): {} implausible values in {}",
                self.absurd.absurd, self.absurd.reads
            ),
        ];
        lines.extend(self.drift.iter().map(describe_drift));
        lines
    }

    /// Returns which clock to use on this machine, and why.
    pub fn advice(&self) -> Vec<String> {
        if let Some(why) = &self.clock.why_not_counter {
            return vec![format!(
                "{why}: tach reads the operating system's clock, so std::time::Instant serves as well."
            )];
        }
        let threads = self.threads();
        let (Some(&min_threads), Some(&max_threads)) = (threads.first(), threads.last()) else {
            return Vec::new();
        };
        let mut lines =
            vec![self.single_thread_advice(min_threads), self.cross_thread_advice(max_threads)];
        if let Some((n @ 1.., reads)) = self.violations("tach-instant") {
            lines.push(format!(
                "Across threads, do not use tach::Instant: {n} of {reads} of its readings were out of order, as its contract allows."
            ));
        }
        lines
    }

    /// Returns the number of readings out of order, and of all.
    fn violations(&self, clock: &str) -> Option<(u64, u64)> {
        let order = self.order.iter().find(|order| order.clock == clock)?;
        Some((order.violations, order.reads))
    }

    /// Returns the costs of a clock of `tach` and of std; infinity for a clock that was not
    /// measured.
    fn compared_costs(&self, clock: &str, threads: u64) -> (f64, f64) {
        let tach = self.cost_ns(clock, threads).unwrap_or(f64::INFINITY);
        let std = self.cost_ns("std", threads).unwrap_or(f64::INFINITY);
        (tach, std)
    }

    fn single_thread_advice(&self, threads: u64) -> String {
        let (tach, std) = self.compared_costs("tach-instant", threads);
        if tach * EQUAL_COST_RATIO < std {
            format!(
                "Spans of one thread: tach::Instant, {tach:.1} ns per reading (std {std:.1} ns)."
            )
        } else {
            format!(
                "Spans of one thread: std::time::Instant, {std:.1} ns per reading (tach::Instant {tach:.1} ns)."
            )
        }
    }

    fn cross_thread_advice(&self, threads: u64) -> String {
        let (tach, std) = self.compared_costs("tach-monotonic", threads);
        let guarantee = &self.clock.cross_thread_order;
        match self.violations("tach-monotonic") {
            Some((0, reads)) if tach <= std * EQUAL_COST_RATIO => format!(
                "Compared across threads: tach::MonotonicInstant, {tach:.1} ns per reading on {threads} threads (std {std:.1} ns), none of {reads} readings out of order; guaranteed by: {guarantee}."
            ),
            Some((0, _)) => format!(
                "Compared across threads: std::time::Instant, {std:.1} ns per reading on {threads} threads (tach::MonotonicInstant {tach:.1} ns)."
            ),
            Some((n, reads)) => format!(
                "Compared across threads: std::time::Instant. {n} of {reads} readings of tach::MonotonicInstant were out of order: this machine does not keep its guarantee ({guarantee})."
            ),
            None => "Compared across threads: not measured.".to_owned(),
        }
    }
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn describe_drift(drift: &Drift) -> String {
    format!(
        "against the operating system's clock over {:.3} s{}: {:+} ns, {:+.4} ppm (seen to {:.0} ns)",
        drift.span_ns as f64 / 1e9,
        if drift.loaded { ", all CPUs busy" } else { "" },
        drift.error_ns,
        drift.error_ppb / 1e3,
        drift.resolution_ns
    )
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use render::document::terminal::render;

    use super::*;
    use crate::bench::clock::file::{Absurd, Cost, First, Order, TachClock};
    use crate::bench::file::SCHEMA;

    fn bench(monotonic_ns: f64, violations: u64, why_not: Option<&str>) -> ClockReport {
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
        ClockReport {
            schema: SCHEMA.to_owned(),
            bench: "clock".to_owned(),
            started_utc: String::new(),
            duration_ns: 1,
            host: engine::machine::host::capture(),
            clock: TachClock {
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
            fitness: None,
            costs: vec![
                cost("tach-instant", 1, 10.0),
                cost("std", 1, 23.0),
                cost("tach-monotonic", 4, monotonic_ns),
                cost("std", 4, 23.0),
            ],
            elapsed: [("tach-instant", 12.0), ("std", 24.0)]
                .map(|(clock, median_ns)| Elapsed {
                    clock: clock.to_owned(),
                    age: "1us".to_owned(),
                    median_ns,
                    quartiles_ns: [median_ns; 2],
                    blocks: 1,
                })
                .into(),
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
    fn advice_follows_measurements() {
        let cheap = bench(20.0, 0, None).advice();
        assert!(
            cheap[0].contains("tach::Instant, 10.0 ns")
                && cheap[1].contains("tach::MonotonicInstant, 20.0 ns"),
            "{cheap:?}"
        );
        assert!(cheap[2].contains("3 of 100"), "{cheap:?}");
        let expensive = bench(278.0, 0, None).advice();
        assert!(
            expensive[1].starts_with("Compared across threads: std::time::Instant, 23.0 ns"),
            "{expensive:?}"
        );
        let wrong = bench(20.0, 7, None).advice();
        assert!(wrong[1].contains("std::time::Instant. 7 of 100"), "{wrong:?}");
        let none = bench(20.0, 0, Some("the counter is not invariant")).advice();
        assert!(none.len() == 1 && none[0].contains("serves as well"), "{none:?}");
    }

    #[test]
    fn table_shows_report_from_file() {
        let bench = bench(20.0, 0, None);
        assert_eq!(ClockReport::from_json(&bench.to_json()).unwrap(), bench);
        let table = render(&bench.document(false), 200);
        let joined = table.replace('\n', " ");
        assert!(joined.contains("over 1.000 s, all CPUs busy: -12 ns, -0.0120 ppm"), "{table}");
        assert!(
            table.lines().any(|line| line
                .split_whitespace()
                .eq(["1us", "12.0", "ns", "24.0", "ns", "0.50"])),
            "{table}"
        );
        let older = ClockReport { elapsed: Vec::new(), ..bench };
        assert!(!render(&older.document(false), 200).contains("elapsed(), median"));
    }
}
