//! The report in words and tables.

use std::time::Duration;

use cli::align::align;
use cli::markdown::{escape_cell, format_table};
use cli::time::{format_fractional_interval, format_fractional_time, format_time};
use cli::units;
use cli::wrap::wrap;
use files::cost::{Overhead, Verdict};

use crate::bench::file::{BenchFile, markdown_footer, table_footer};
use crate::bench::timeout::file::{MeasuredVariant, MeasuredWorkload, TimeoutReport};
use crate::bench::timeout::picture;
use crate::bench::timeout::reference::beside_reference;
use crate::picture::canvas::Picture;

/// Width that every line keeps to.
const WIDTH: usize = 80;

impl BenchFile for TimeoutReport {
    /// One table for each workload, under what all figures have beside them: versions, clocks and
    /// their cost.
    fn table(&self, reference: bool) -> String {
        let mut text: String = heading(self).into_iter().map(|line| line + "\n").collect();
        for workload in &self.workloads {
            text += &format!("\n{}\n{}", title(workload), align(&rows(workload), 2));
            if is_fired(workload) {
                text += &format!("\n{}", align(&fired_rows(workload), 2));
            }
            strays(workload).iter().for_each(|stray| text += &format!("{stray}\n"));
        }
        text += &format!(
            "\n{}{}",
            wrap(NOTE, WIDTH),
            table_footer(&self.warnings, self.partial, WIDTH)
        );
        if reference { text + &beside_reference(self, WIDTH) } else { text }
    }

    fn markdown(&self) -> String {
        let heading: Vec<String> = heading(self).iter().map(|line| escape_cell(line)).collect();
        let mut text = format!("### Price of a timeout\n\n{}\n", heading.join("  \n"));
        for workload in &self.workloads {
            text += &format!(
                "\n#### {}\n\n{}",
                escape_cell(&title(workload)),
                format_table(&rows(workload), 2)
            );
            if is_fired(workload) {
                text += &format!("\n{}", format_table(&fired_rows(workload), 2));
            }
            strays(workload)
                .iter()
                .for_each(|stray| text += &format!("\n{}\n", escape_cell(stray)));
        }
        format!("{text}\n{NOTE}\n{}", markdown_footer(&self.warnings, self.partial))
    }

    fn pictures(&self) -> Vec<Picture> {
        picture::pictures(self)
    }

    fn is_partial(&self) -> bool {
        self.partial
    }
}

/// What the columns mean.
const NOTE: &str = "overhead: median over rounds of the difference to the control loop in the same round, with its 95 % \
                    confidence interval; = where that holds zero. reads, made, regs, allocs: clock readings of the \
                    process, timers made, timers registered or reset, and allocations, for each message, counted in \
                    a run that is not timed; no column where nothing was allocated.";

/// Versions, seed, and the clocks with their cost; a line each.
fn heading(report: &TimeoutReport) -> Vec<String> {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    let clock_source = host.clock_source.as_deref().unwrap_or("unknown");
    let (rounds, seed) = (report.plan.rounds, report.plan.seed);
    let first = format!("tokio {tokio}; clock source {clock_source}; {rounds} rounds, seed {seed}");
    let clocks = report
        .clocks
        .iter()
        .map(|c| format!("clock {}: {:.1} ns a reading, {}", c.name, c.ns_per_read, c.source));
    std::iter::once(first).chain(clocks).collect()
}

/// What a workload is.
fn title(workload: &MeasuredWorkload) -> String {
    let length = units::format_exact_duration(Duration::from_nanos(workload.length_ns));
    format!("{}, timeout {length}, {}", workload.name, workload.runtime)
}

const COLUMNS: [&str; 8] =
    ["variant", "clock", "per message", "overhead", "%", "reads", "made", "regs"];

/// Least allocations for each message that two digits show.
const MIN_SHOWN: f64 = 0.005;

/// Costs and counts of each variant, under a heading; two columns of names, the others numbers.
fn rows(workload: &MeasuredWorkload) -> Vec<Vec<String>> {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(workload.results.iter().map(row));
    let allocations = |result: &MeasuredVariant| result.counts.as_ref().map(|c| c.allocations);
    if workload.results.iter().filter_map(allocations).any(|n| n >= MIN_SHOWN) {
        let cells = workload
            .results
            .iter()
            .map(|r| allocations(r).map_or("-".to_owned(), |n| format!("{n:.2}")));
        rows.iter_mut()
            .zip(std::iter::once("allocs".to_owned()).chain(cells))
            .for_each(|(row, cell)| row.push(cell));
    }
    rows
}

/// Whether messages were left out so that timeouts fire.
fn is_fired(workload: &MeasuredWorkload) -> bool {
    workload.results.iter().any(|r| r.lateness_ns.is_some())
}

/// How late the timeouts of each variant fired, under a heading.
fn fired_rows(workload: &MeasuredWorkload) -> Vec<Vec<String>> {
    let mut rows = vec![
        ["variant", "clock", "fired", "late p50", "late max", "early"].map(str::to_owned).to_vec(),
    ];
    for result in &workload.results {
        let Some(late) = &result.lateness_ns else { continue };
        rows.push(vec![
            result.variant.clone(),
            result.clock.clone(),
            result.fired.to_string(),
            late.p50.map_or("-".into(), format_time),
            format_time(late.max),
            result.early.to_string(),
        ]);
    }
    rows
}

/// Timeouts that fired although every message came.
fn strays(workload: &MeasuredWorkload) -> Vec<String> {
    let fired = workload.results.iter().filter(|r| !is_fired(workload) && r.fired > 0);
    let plural = |n: u64| if n == 1 { "timeout" } else { "timeouts" };
    fired
        .map(|r| format!("{} ({}): {} {} fired", r.variant, r.clock, r.fired, plural(r.fired)))
        .collect()
}

fn row(result: &MeasuredVariant) -> Vec<String> {
    let dash = || "-".to_owned();
    let counts = result.counts.as_ref();
    let count = |of: Option<f64>| of.map_or_else(dash, |n| format!("{n:.2}"));
    vec![
        result.variant.clone(),
        result.clock.clone(),
        result.ns_per_message.as_ref().map_or_else(dash, |c| format_fractional_time(c.p50)),
        result.overhead.as_ref().map_or_else(dash, overhead),
        result.overhead.as_ref().map_or_else(dash, percent),
        count(counts.and_then(|c| c.clock_reads)),
        count(counts.map(|c| c.timers_made)),
        count(counts.map(|c| c.timer_registrations)),
    ]
}

fn overhead(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    let interval = overhead
        .ns_ci95
        .map_or(String::new(), |ci| format!(" {}", format_fractional_interval(ci[0], ci[1])));
    format!("{sign}{}{interval}", signed(overhead.ns))
}

/// No ratio to a control loop that costs next to nothing: it would say how empty an empty loop is.
const MAX_PERCENT: f64 = 1_000.0;

fn percent(overhead: &Overhead) -> String {
    match overhead.percent {
        p if p.abs() > MAX_PERCENT => "-".to_owned(),
        p if p.abs() >= 100.0 => format!("{p:+.0}"),
        p => format!("{p:+.1}"),
    }
}

fn signed(value: f64) -> String {
    let digits = format_fractional_time(value.abs());
    if value < 0.0 { format!("-{digits}") } else { format!("+{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overhead_says_what_its_interval_says() {
        let control = vec![100.0; 20];
        let of = |rounds: &[f64]| overhead(&Overhead::from_rounds(&control, rounds).unwrap());
        assert_eq!(of(&[104.25; 20]), "+4.25 ns [4.25, 4.25 ns]");
        let noise: Vec<f64> = (0..20).map(|r| 99.0 + f64::from(r % 3)).collect();
        assert_eq!(of(&noise), "= +0.00 ns [-1.00, 1.00 ns]");
        assert_eq!(of(&[99.0; 3]), "-1.00 ns");
    }
}
