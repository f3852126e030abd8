//! Formats the report as tables.

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
use crate::bench::timeout::reference::format_comparison;
use render::picture::canvas::Picture;

/// Maximum width of a line.
const WIDTH: usize = 80;

impl BenchFile for TimeoutReport {
    /// Formats one table per workload, below a heading with the versions and the cost of the
    /// clocks.
    fn table(&self, reference: bool) -> String {
        let mut text: String = heading(self).into_iter().map(|line| line + "\n").collect();
        for workload in &self.workloads {
            text += &format!("\n{}\n{}", title(workload), align(&rows(workload), 2));
            if has_fired(workload) {
                text += &format!("\n{}", align(&fired_rows(workload), 2));
            }
            strays(workload).iter().for_each(|stray| text += &format!("{stray}\n"));
        }
        text += &format!(
            "\n{}{}",
            wrap(NOTE, WIDTH),
            table_footer(&self.warnings, self.partial, WIDTH)
        );
        if reference { text + &format_comparison(self, WIDTH) } else { text }
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
            if has_fired(workload) {
                text += &format!("\n{}", format_table(&fired_rows(workload), 2));
            }
            strays(workload)
                .iter()
                .for_each(|stray| text += &format!("\n{}\n", escape_cell(stray)));
        }
        format!("{text}\n{NOTE}\n{}", markdown_footer(&self.warnings, self.partial))
    }

    fn pictures(&self) -> Vec<Picture> {
        picture::draw_pictures(self)
    }

    fn is_partial(&self) -> bool {
        self.partial
    }
}

/// The meaning of the columns.
const NOTE: &str = "overhead: median over rounds of the difference to the control loop in the same round, with its 95 % \
                    confidence interval; = if that includes zero. reads, made, regs, allocs: clock readings of the \
                    process, timers created, timers registered or reset, and allocations, per message, counted in \
                    a run that is not timed; there is no column allocs if nothing was allocated.";

/// Returns the versions and the seed, and the clocks with their cost, one per line.
fn heading(report: &TimeoutReport) -> Vec<String> {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    let clock_source = host.clock_source.as_deref().unwrap_or("unknown");
    let (rounds, seed) = (report.plan.rounds, report.plan.seed);
    let first = format!("tokio {tokio}; clock source {clock_source}; {rounds} rounds, seed {seed}");
    let clocks = report
        .clocks
        .iter()
        .map(|c| format!("clock {}: {:.1} ns per reading, {}", c.name, c.ns_per_read, c.source));
    std::iter::once(first).chain(clocks).collect()
}

/// Returns the name of a workload, with the length of the timeout and the runtime.
fn title(workload: &MeasuredWorkload) -> String {
    let length = units::format_exact_duration(Duration::from_nanos(workload.length_ns));
    format!("{}, timeout {length}, {}", workload.name, workload.runtime)
}

const COLUMNS: [&str; 8] =
    ["variant", "clock", "per message", "overhead", "%", "reads", "made", "regs"];

/// Minimum number of allocations per message that two digits show.
const MIN_SHOWN: f64 = 0.005;

/// Returns a heading, and the costs and counts of each variant: two columns of names, then numbers.
fn rows(workload: &MeasuredWorkload) -> Vec<Vec<String>> {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(workload.results.iter().map(row));
    let allocations = |result: &MeasuredVariant| result.counts.as_ref().map(|c| c.allocations);
    if workload.results.iter().filter_map(allocations).any(|n| n >= MIN_SHOWN) {
        rows[0].push("allocs".to_owned());
        for (row, result) in rows[1..].iter_mut().zip(&workload.results) {
            row.push(allocations(result).map_or("-".to_owned(), |n| format!("{n:.2}")));
        }
    }
    rows
}

/// Returns whether messages were left out so that timeouts fire.
fn has_fired(workload: &MeasuredWorkload) -> bool {
    workload.results.iter().any(|r| r.lateness_ns.is_some())
}

/// Returns a heading, and the lateness of the fired timeouts of each variant.
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

/// Lists the variants whose timeouts fired although every message came.
fn strays(workload: &MeasuredWorkload) -> Vec<String> {
    let fired = workload.results.iter().filter(|r| !has_fired(workload) && r.fired > 0);
    let plural = |n: u64| if n == 1 { "timeout" } else { "timeouts" };
    fired
        .map(|r| format!("{} ({}): {} {} fired", r.variant, r.clock, r.fired, plural(r.fired)))
        .collect()
}

fn row(result: &MeasuredVariant) -> Vec<String> {
    let dash = || "-".to_owned();
    let counts = result.counts.as_ref();
    let count = |value: Option<f64>| value.map_or_else(dash, |n| format!("{n:.2}"));
    vec![
        result.variant.clone(),
        result.clock.clone(),
        result.ns_per_message.as_ref().map_or_else(dash, |c| format_fractional_time(c.p50)),
        result.overhead.as_ref().map_or_else(dash, format_overhead),
        result.overhead.as_ref().map_or_else(dash, format_percent),
        count(counts.and_then(|c| c.clock_reads)),
        count(counts.map(|c| c.timers_made)),
        count(counts.map(|c| c.timer_registrations)),
    ]
}

fn format_overhead(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    let interval = overhead
        .ns_ci95
        .map_or(String::new(), |ci| format!(" {}", format_fractional_interval(ci[0], ci[1])));
    format!("{sign}{}{interval}", format_signed(overhead.ns))
}

/// Maximum percentage to show: a ratio to a control loop that costs almost nothing is meaningless.
const MAX_PERCENT: f64 = 1_000.0;

fn format_percent(overhead: &Overhead) -> String {
    match overhead.percent {
        p if p.abs() > MAX_PERCENT => "-".to_owned(),
        p if p.abs() >= 100.0 => format!("{p:+.0}"),
        p => format!("{p:+.1}"),
    }
}

fn format_signed(value: f64) -> String {
    let digits = format_fractional_time(value.abs());
    if value < 0.0 { format!("-{digits}") } else { format!("+{digits}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_text_shows_interval() {
        let control = vec![100.0; 20];
        let text =
            |rounds: &[f64]| format_overhead(&Overhead::from_rounds(&control, rounds).unwrap());
        assert_eq!(text(&[104.25; 20]), "+4.25 ns [4.25, 4.25 ns]");
        let noise: Vec<f64> = (0..20).map(|r| 99.0 + f64::from(r % 3)).collect();
        assert_eq!(text(&noise), "= +0.00 ns [-1.00, 1.00 ns]");
        assert_eq!(text(&[99.0; 3]), "-1.00 ns");
    }
}
