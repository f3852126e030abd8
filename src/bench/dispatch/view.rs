//! What a report of `osjitter bench dispatch` says: rows, and the table for a terminal.

use jitterstat::bench::cost::{Costs, Overhead, Verdict};
use jitterstat::bench::dispatch::{Measured, Operation, Report};

use crate::text::align::align;
use crate::text::time::cost;

/// Names of the columns.
pub const COLUMNS: [&str; 9] = ["operation", "runtime", "ns p50", "p90", "p99", "max", "cycles p50", "p99", "of tokio"];

/// For a terminal.
pub fn table(report: &Report) -> String {
    let mut lines = vec![COLUMNS.map(str::to_owned).to_vec()];
    lines.extend(rows(report));
    let mut text = format!("{}\n\n{}\n", heading(report), align(&lines, 2));
    text += NOTE;
    let mark = |o: &Operation| if o.by_event { " (each stamped by itself)" } else { "" };
    let width = report.operations.iter().map(|o| o.name.len()).max().unwrap_or(0);
    for o in &report.operations {
        text += &format!("  {:<width$}  {}{}\n", o.name, o.about, mark(o));
    }
    for warning in &report.warnings {
        text += &format!("warning: {}; {}\n", warning.message, warning.hint);
    }
    if report.partial {
        text += "interrupted: this is what was measured until then\n";
    }
    text
}

const NOTE: &str = "Percentiles over batches of all rounds, or over events. of tokio: the cost as a share of tokio's, median over rounds of\n\
                    the ratio within one; = where its 95 % confidence interval holds tokio's own.\n";

/// What all figures have in common.
pub fn heading(report: &Report) -> String {
    let host = &report.host;
    let tokio = host.versions.get("tokio").map_or("unknown", String::as_str);
    format!(
        "busypoll {}, tokio {tokio} (current-thread); {}; stamps from {}, {:.2} GHz, {:.1} ns a reading; {} rounds, seed {}",
        report.tool.version,
        host.cpu_model.as_deref().unwrap_or("unknown CPU"),
        report.clock.source,
        report.clock.rate_hz / 1e9,
        report.clock.ns_per_read,
        report.plan.rounds,
        report.plan.seed,
    )
}

/// One for each operation and runtime, in the order of [`COLUMNS`].
pub fn rows(report: &Report) -> Vec<Vec<String>> {
    report.operations.iter().flat_map(|o| o.results.iter().map(|r| row(o, r))).collect()
}

fn row(operation: &Operation, result: &Measured) -> Vec<String> {
    let dash = || "-".to_owned();
    let number = |value: Option<f64>| value.map_or_else(dash, cost);
    let cycles = |of: fn(&Costs) -> Option<f64>| number(result.cycles.as_ref().and_then(of));
    let Costs { p50, p90, p99, max, .. } = result.ns;
    vec![
        operation.name.clone(),
        result.runtime.clone(),
        cost(p50),
        number(p90),
        number(p99),
        cost(max),
        cycles(|c| Some(c.p50)),
        cycles(|c| c.p99),
        result.to_tokio.as_ref().map_or_else(String::new, share),
    ]
}

fn share(overhead: &Overhead) -> String {
    let sign = if overhead.verdict == Verdict::NoDifference { "= " } else { "" };
    format!("{sign}{:.2}x", 1.0 + overhead.percent / 100.0)
}
