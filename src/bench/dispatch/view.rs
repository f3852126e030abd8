//! Formats the report as tables.

use cli::align::{align, pad_right};
use cli::markdown;
use cli::time::{format_fractional_time, format_number};
use files::cost::{Costs, Overhead, Verdict};

use crate::bench::dispatch::file::{DispatchReport, MeasuredOperation, MeasuredRuntime};
use crate::bench::dispatch::picture;
use crate::bench::file::{BenchFile, markdown_footer, table_footer};
use render::picture::canvas::Picture;

impl BenchFile for DispatchReport {
    const HAS_MARKDOWN_FILE: bool = true;

    fn table(&self, _: bool) -> String {
        let width = self.operations.iter().map(|o| o.name.chars().count()).max().unwrap_or(0);
        let mut abouts = String::new();
        for operation in &self.operations {
            let name = pad_right(&operation.name, width);
            let suffix = if operation.by_event { " (each one timestamped)" } else { "" };
            abouts += &format!("  {name}  {}{suffix}\n", operation.about);
        }
        let footer = table_footer(&self.warnings, self.partial, usize::MAX);
        format!("{}\n\n{}\n{NOTE}{abouts}{footer}", heading(self), align(&rows(self), 2))
    }

    fn markdown(&self) -> String {
        let mut abouts = vec![["operation", "description"].map(str::to_owned).to_vec()];
        abouts.extend(self.operations.iter().map(|o| vec![o.name.clone(), o.about.clone()]));
        format!(
            "### Dispatch\n\n{}\n\n{}\n{}{}",
            markdown::escape_cell(&heading(self)),
            markdown::format_table(&rows(self), 2),
            markdown::format_table(&abouts, 2),
            markdown_footer(&self.warnings, self.partial)
        )
    }

    fn pictures(&self) -> Vec<Picture> {
        vec![picture::draw_picture(self)]
    }

    fn is_partial(&self) -> bool {
        self.partial
    }
}

const NOTE: &str = "Percentiles over batches of all rounds, or over events. of tokio: cost as a share of tokio's, median over rounds of\n\
     the ratio within a round; = if its 95 % confidence interval includes 1.\n";

/// Returns the conditions of all figures.
fn heading(report: &DispatchReport) -> String {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    format!(
        "busypoll {}, tokio {tokio} (current-thread); {}; timestamps from {}, {:.2} GHz, {:.1} ns per reading; {} rounds, seed {}",
        report.tool.version,
        host.cpu_model.as_deref().unwrap_or("unknown CPU"),
        report.clock.source,
        report.clock.rate_hz / 1e9,
        report.clock.ns_per_read,
        report.plan.rounds,
        report.plan.seed,
    )
}

const COLUMNS: [&str; 9] =
    ["operation", "runtime", "p50", "p90", "p99", "max", "cycles p50", "p99", "of tokio"];

/// Returns a heading, and a row for each operation and runtime.
fn rows(report: &DispatchReport) -> Vec<Vec<String>> {
    let measured = report.operations.iter().flat_map(|o| o.results.iter().map(|r| row(o, r)));
    std::iter::once(COLUMNS.map(str::to_owned).to_vec()).chain(measured).collect()
}

fn row(operation: &MeasuredOperation, result: &MeasuredRuntime) -> Vec<String> {
    let dash = || "-".to_owned();
    let times = |value: Option<f64>| value.map_or_else(dash, format_fractional_time);
    let number = |value: Option<f64>| value.map_or_else(dash, format_number);
    let cycles = result.cycles.as_ref();
    let Costs { p50, p90, p99, max, .. } = result.ns;
    vec![
        operation.name.clone(),
        result.runtime.clone(),
        format_fractional_time(p50),
        times(p90),
        times(p99),
        format_fractional_time(max),
        number(cycles.map(|costs| costs.p50)),
        number(cycles.and_then(|costs| costs.p99)),
        result.to_tokio.as_ref().map_or_else(String::new, format_share),
    ]
}

fn format_share(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    format!("{sign}{:.2}x", 1.0 + overhead.percent / 100.0)
}
