//! The report in words and tables: what the clocks cost, how they behave, and the advice that
//! follows.

use cli::align::align;
use cli::markdown;
use cli::time::format_fractional_time;

use crate::bench::clock::file::ClockReport;
use crate::bench::clock::picture;
use crate::bench::file::BenchFile;
use crate::picture::canvas::Picture;
use crate::render::fitness;

const COSTS: &str = "time per read, median, by threads that read at once";
const ELAPSED: &str = "time per elapsed(), median, by age of the instant; first a reading alone, and one with the time since";
const ORDER: &str = "out of order across threads, and steps between neighbouring reads";
/// Two costs that differ by less are the same on a machine that does other things too.
const SAME: f64 = 1.05;

impl BenchFile for ClockReport {
    fn table(&self, _: bool) -> String {
        let lines =
            |lines: Vec<String>| lines.into_iter().map(|line| line + "\n").collect::<String>();
        let elapsed = self
            .elapsed_rows()
            .map_or(String::new(), |rows| format!("{ELAPSED}\n{}\n", align(&rows, 1)));
        format!(
            "{COSTS}\n{}\n{elapsed}{ORDER}\n{}\n{}\n{}",
            align(&self.cost_rows(), 1),
            align(&self.order_rows(), 1),
            lines(self.facts()),
            lines(self.advice())
        )
    }

    /// The advice first, then the figures it follows from.
    fn markdown(&self) -> String {
        let lines = |lines: Vec<String>| {
            lines
                .iter()
                .map(|line| format!("- {}\n", markdown::escape_cell(line)))
                .collect::<String>()
        };
        let elapsed = self.elapsed_rows().map_or(String::new(), |rows| {
            format!("{ELAPSED}:\n\n{}\n", markdown::format_table(&rows, 1))
        });
        format!(
            "### Clocks\n\n{}\n{COSTS}:\n\n{}\n{elapsed}{ORDER}:\n\n{}\n{}",
            lines(self.advice()),
            markdown::format_table(&self.cost_rows(), 1),
            markdown::format_table(&self.order_rows(), 1),
            lines(self.facts())
        )
    }

    fn pictures(&self) -> Vec<Picture> {
        vec![picture::picture(self)]
    }
}

impl ClockReport {
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
    fn cost_ns(&self, clock: &str, threads: u64) -> Option<f64> {
        self.costs.iter().find(|c| c.clock == clock && c.threads == threads).map(|c| c.median_ns)
    }

    /// The cost of each clock by the number of threads that read at once, under a heading.
    fn cost_rows(&self) -> Vec<Vec<String>> {
        let threads = self.threads();
        let mut rows = vec![
            ["clock".to_owned()].into_iter().chain(threads.iter().map(|n| n.to_string())).collect(),
        ];
        for clock in self.clocks() {
            let cells = threads
                .iter()
                .map(|&n| self.cost_ns(clock, n).map_or("-".into(), format_fractional_time));
            rows.push([clock.to_owned()].into_iter().chain(cells).collect::<Vec<_>>());
        }
        rows
    }

    /// The cost of `elapsed` of `tach` and of std by age, under a heading; `None` where it was not
    /// measured.
    fn elapsed_rows(&self) -> Option<Vec<Vec<String>>> {
        let of =
            |clock: &str| self.elapsed.iter().filter(move |e| e.clock == clock).collect::<Vec<_>>();
        let mut rows = vec![["age", "tach-instant", "std", "of std"].map(str::to_owned).to_vec()];
        rows.extend(of("tach-instant").iter().zip(of("std")).map(|(tach, std)| {
            let ratio = format!("{:.2}", tach.median_ns / std.median_ns);
            vec![
                tach.age.clone(),
                format_fractional_time(tach.median_ns),
                format_fractional_time(std.median_ns),
                ratio,
            ]
        }));
        (rows.len() > 1).then_some(rows)
    }

    /// Order across threads and steps of each clock, under a heading.
    fn order_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![
            ["clock", "violations", "of reads", "worst", "smallest step", "median step"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for order in &self.order {
            let step = self.granularity.iter().find(|g| g.clock == order.clock);
            rows.push(vec![
                order.clock.clone(),
                order.violations.to_string(),
                order.reads.to_string(),
                format_fractional_time(order.worst_ns),
                step.and_then(|g| g.smallest_step_ns).map_or("-".into(), format_fractional_time),
                step.map_or("-".into(), |g| format_fractional_time(g.median_step_ns)),
            ]);
        }
        rows
    }

    /// What is no table, a line each.
    fn facts(&self) -> Vec<String> {
        let (read, conversion) = (us(self.first.read_ns), us(self.first.conversion_ns));
        let mut lines: Vec<String> = fitness::sentence(self.fitness.as_ref()).into_iter().collect();
        lines.extend([
            format!("first reading {read} us, first conversion {conversion} us"),
            format!(
                "cross-thread elapsed(): {} implausible values in {}",
                self.absurd.absurd, self.absurd.reads
            ),
        ]);
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

    /// Which clock to use here, and why.
    fn advice(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(why) = &self.clock.why_not_counter {
            lines
                .push(format!("{why}: tach reads the operating system's clock, so std::time::Instant serves as well."));
            return lines;
        }
        let Some((least, most)) =
            self.threads().first().copied().zip(self.threads().last().copied())
        else {
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
        let violations = |clock: &str| {
            self.order.iter().find(|o| o.clock == clock).map(|o| (o.violations, o.reads))
        };
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
    use files::file::File as _;

    use super::*;
    use crate::bench::clock::file::{Absurd, Clock, Cost, Drift, Elapsed, First, Order};
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
    fn the_advice_follows_what_was_measured() {
        let cheap = bench(20.0, 0, None).advice();
        assert!(
            cheap[0].contains("tach::Instant, 10.0 ns")
                && cheap[1].contains("tach::MonotonicInstant, 20.0 ns"),
            "{cheap:?}"
        );
        assert!(cheap[2].contains("3 of 100"), "{cheap:?}");
        let dear = bench(278.0, 0, None).advice();
        assert!(
            dear[1].starts_with("Compared across threads: std::time::Instant, 23.0 ns"),
            "{dear:?}"
        );
        let wrong = bench(20.0, 7, None).advice();
        assert!(wrong[1].contains("std::time::Instant. 7 of 100"), "{wrong:?}");
        let none = bench(20.0, 0, Some("the counter is not invariant")).advice();
        assert!(none.len() == 1 && none[0].contains("serves as well"), "{none:?}");
    }

    #[test]
    fn it_comes_back_from_its_file_and_fits_a_table() {
        let bench = bench(20.0, 0, None);
        assert_eq!(ClockReport::from_json(&bench.to_json()).unwrap(), bench);
        let table = bench.table(false);
        assert!(table.contains("over 1.000 s, all CPUs busy: -12 ns, -0.0120 ppm"), "{table}");
        assert!(
            table.lines().any(|line| line
                .split_whitespace()
                .eq(["1us", "12.0", "ns", "24.0", "ns", "0.50"])),
            "{table}"
        );
        let older = ClockReport { elapsed: Vec::new(), ..bench };
        assert!(!older.table(false).contains("elapsed(), median"));
    }
}
