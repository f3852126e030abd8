//! The report as a document.

use cli::file_io::ResultNames;
use cli::time::{format_fractional_time, format_number};
use cli::words::{or_dash, pluralize};
use files::cost::{Costs, Overhead, Verdict};

use crate::bench::dispatch::file::{DispatchReport, MeasuredOperation, MeasuredRuntime};
use crate::bench::dispatch::picture;
use crate::bench::file::{BenchFile, add_caveats};
use render::document::{Document, Table};
use render::picture::canvas::Picture;

impl BenchFile for DispatchReport {
    const RESULTS: ResultNames = &["dispatch.json", "dispatch.md", "dispatch.svg"];
    const HAS_MARKDOWN_FILE: bool = true;

    fn document(&self, _: bool) -> Document {
        let mut document = Document::new();
        document.title("Dispatch");
        document.paragraph(heading(self));
        document.table(table(self));
        document.paragraph(NOTE);
        document.table(descriptions(self));
        add_caveats(&mut document, &self.warnings, self.partial);
        document
    }

    fn pictures(&self) -> Vec<Picture> {
        vec![picture::draw_picture(self)]
    }

    fn is_partial(&self) -> bool {
        self.partial
    }
}

const NOTE: &str = "Percentiles over batches of all rounds, or over events. of tokio: cost as a share of tokio's, median over rounds of \
     the ratio within a round; = if its 95 % confidence interval includes 1.";

/// Returns the conditions of all figures.
fn heading(report: &DispatchReport) -> String {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    format!(
        "busypoll {}, tokio {tokio} (current-thread); {}; timestamps from {}, {:.2} GHz, {:.1} ns per reading; {}, seed {}",
        report.tool.version,
        host.cpu_model.as_deref().unwrap_or("unknown CPU"),
        report.clock.source,
        report.clock.rate_hz / 1e9,
        report.clock.ns_per_read,
        pluralize(report.plan.rounds, "round"),
        report.plan.seed,
    )
}

const COLUMNS: [&str; 9] =
    ["operation", "runtime", "p50", "p90", "p99", "max", "cycles p50", "p99", "of tokio"];

/// Returns a row for each operation and runtime.
fn table(report: &DispatchReport) -> Table {
    let mut table = Table::new(COLUMNS, 2).with_expendable(&["max", "p90"]);
    for operation in &report.operations {
        for result in &operation.results {
            table.row(row(operation, result));
        }
    }
    table
}

/// Returns a row for each operation with its description.
fn descriptions(report: &DispatchReport) -> Table {
    let mut table = Table::new(["operation", "description"], 1).with_words_last();
    for operation in &report.operations {
        let suffix = if operation.by_event { " (each one timestamped)" } else { "" };
        table.row([operation.name.clone(), format!("{}{suffix}", operation.about)]);
    }
    table
}

fn row(operation: &MeasuredOperation, result: &MeasuredRuntime) -> Vec<String> {
    let cycles = result.cycles.as_ref();
    let cycles_p99 = cycles.and_then(|costs| costs.p99);
    let Costs { p50, p90, p99, max, .. } = result.ns;
    vec![
        operation.name.clone(),
        result.runtime.clone(),
        format_fractional_time(p50),
        or_dash(p90.map(format_fractional_time)),
        or_dash(p99.map(format_fractional_time)),
        format_fractional_time(max),
        or_dash(cycles.map(|costs| format_number(costs.p50))),
        or_dash(cycles_p99.map(format_number)),
        result.to_tokio.as_ref().map_or_else(String::new, format_share),
    ]
}

fn format_share(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    format!("{sign}{:.2}x", 1.0 + overhead.percent / 100.0)
}
