//! The report as a document.

use cli::file_io::ResultNames;
use cli::time::{format_fractional_interval, format_fractional_time, format_time};
use cli::units::format_exact_ns;
use cli::words::{or_dash, pluralize, prefix_or_empty};
use files::cost::{Overhead, Verdict};

use crate::bench::file::{BenchFile, add_caveats};
use crate::bench::timeout::file::{
    MeasuredClock, MeasuredVariant, MeasuredWorkload, TimeoutReport,
};
use crate::bench::timeout::picture;
use crate::bench::timeout::reference::add_comparison;
use render::document::{Document, Table};
use render::picture::canvas::Picture;

/// The pictures of the bench.
pub const PICTURES: [&str; 1] = ["timeout-*.svg"];

impl BenchFile for TimeoutReport {
    const RESULTS: ResultNames = &["timeout.json", PICTURES[0]];
    const HAS_SEVERAL_PICTURES: bool = true;

    /// Describes the versions and the cost of the clocks, then each workload.
    fn document(&self, reference: bool) -> Document {
        let mut document = Document::new();
        document.title("Price of a timeout");
        document.notes(heading(self));
        for workload in &self.workloads {
            document.section(title(workload));
            document.table(table(workload));
            if has_fired(workload) {
                document.table(fired_table(workload));
            }
            document.notes(strays(workload));
        }
        document.paragraph(NOTE);
        add_caveats(&mut document, &self.warnings, self.partial);
        if reference {
            add_comparison(&mut document, self);
        }
        document
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
                    a run that is not timed; there is no column allocs if nothing was allocated. to timeout: the \
                    difference to the variant timeout, like overhead.";

/// Returns the versions and the seed, and the clocks with their cost, one per line.
fn heading(report: &TimeoutReport) -> Vec<String> {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    let clock_source = host.clock_source.as_deref().unwrap_or("unknown");
    let (rounds, seed) = (pluralize(report.plan.rounds, "round"), report.plan.seed);
    let mut lines =
        vec![format!("tokio {tokio}; clock source {clock_source}; {rounds}, seed {seed}")];
    for MeasuredClock { name, ns_per_read, source } in &report.clocks {
        lines.push(format!("clock {name}: {ns_per_read:.1} ns per reading, {source}"));
    }
    lines
}

/// Returns the name of a workload, with the length of the timeout and the runtime.
fn title(workload: &MeasuredWorkload) -> String {
    let length = format_exact_ns(workload.length_ns);
    format!("{}, timeout {length}, {}", workload.name, workload.runtime)
}

const COLUMNS: [&str; 8] =
    ["variant", "clock", "per message", "overhead", "%", "reads", "made", "regs"];

/// Minimum number of allocations per message that two digits show.
const MIN_SHOWN: f64 = 0.005;

/// Returns the costs and counts of each variant: two columns of names, then numbers.
fn table(workload: &MeasuredWorkload) -> Table {
    let mut counts = workload.results.iter().filter_map(allocations);
    let has_allocations = counts.any(|count| count >= MIN_SHOWN);
    // The other variants replace `tokio::time::timeout`.
    let timeout = workload.results.iter().find(|r| r.variant == "timeout" && r.clock == "tokio");
    let mut columns = COLUMNS.to_vec();
    columns.extend(has_allocations.then_some("allocs"));
    columns.extend(timeout.map(|_| "to timeout"));
    let mut table = Table::new(columns, 2);
    for result in &workload.results {
        let mut row = row(result);
        if has_allocations {
            row.push(format_count(allocations(result)));
        }
        if let Some(timeout) = timeout {
            row.push(or_dash(compare(result, timeout).as_ref().map(format_overhead)));
        }
        table.row(row);
    }
    table
}

/// Returns the difference of a variant to another one in the same rounds. The control loop has no
/// timeout, so it has no difference to one.
fn compare(result: &MeasuredVariant, other: &MeasuredVariant) -> Option<Overhead> {
    let is_comparable = result.overhead.is_some() && !std::ptr::eq(result, other);
    is_comparable.then(|| Overhead::from_rounds(&other.rounds, &result.rounds))?
}

/// Returns the allocations per message, if they were counted.
fn allocations(result: &MeasuredVariant) -> Option<f64> {
    result.counts.as_ref().map(|counts| counts.allocations)
}

/// Returns whether messages were left out so that timeouts fire.
fn has_fired(workload: &MeasuredWorkload) -> bool {
    workload.results.iter().any(|r| r.lateness_ns.is_some())
}

/// Returns the lateness of the fired timeouts of each variant.
fn fired_table(workload: &MeasuredWorkload) -> Table {
    let heading = ["variant", "clock", "fired", "late p50", "late max", "early"];
    let mut table = Table::new(heading, 2);
    for result in &workload.results {
        let Some(late) = &result.lateness_ns else { continue };
        table.row([
            result.variant.clone(),
            result.clock.clone(),
            result.fired.to_string(),
            or_dash(late.p50.map(format_time)),
            format_time(late.max),
            result.early.to_string(),
        ]);
    }
    table
}

/// Lists the variants whose timeouts fired although every message came.
fn strays(workload: &MeasuredWorkload) -> Vec<String> {
    let mut lines = Vec::new();
    if has_fired(workload) {
        return lines;
    }
    for MeasuredVariant { variant, clock, fired, .. } in &workload.results {
        if *fired > 0 {
            let timeouts = pluralize(*fired, "timeout");
            lines.push(format!("{variant} ({clock}): {timeouts} fired"));
        }
    }
    lines
}

fn row(result: &MeasuredVariant) -> Vec<String> {
    let (overhead, counts) = (result.overhead.as_ref(), result.counts.as_ref());
    let costs = result.ns_per_message.as_ref();
    vec![
        result.variant.clone(),
        result.clock.clone(),
        or_dash(costs.map(|costs| format_fractional_time(costs.p50))),
        or_dash(overhead.map(format_overhead)),
        or_dash(overhead.and_then(format_overhead_percent)),
        format_count(counts.and_then(|c| c.clock_reads)),
        format_count(counts.map(|c| c.timers_made)),
        format_count(counts.map(|c| c.timer_registrations)),
    ]
}

fn format_count(count: Option<f64>) -> String {
    or_dash(count.map(|count| format!("{count:.2}")))
}

fn format_overhead(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    let interval = overhead.ns_ci95.map(|[low, high]| format_fractional_interval(low, high));
    format!("{sign}{}{}", format_signed(overhead.ns), prefix_or_empty(" ", interval))
}

/// Maximum percentage to show: a ratio to a control loop that costs almost nothing is meaningless.
const MAX_PERCENT: f64 = 1_000.0;

fn format_overhead_percent(overhead: &Overhead) -> Option<String> {
    match overhead.percent {
        p if p.abs() > MAX_PERCENT => None,
        p if p.abs() >= 100.0 => Some(format!("{p:+.0}")),
        p => Some(format!("{p:+.1}")),
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
