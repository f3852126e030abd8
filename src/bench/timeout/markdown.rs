//! The report of `osjitter bench timeout` for pull requests and job summaries.

use jitterstat::bench::timeout::Report;

use crate::bench::timeout::view::{NOTE, fired_rows, heading, is_fired, rows, strays, title};
use crate::render::markdown::{cell, table};

/// A table for each workload.
pub fn markdown(report: &Report) -> String {
    let heading: Vec<String> = heading(report).iter().map(|line| cell(line)).collect();
    let mut text = format!("### Price of a timeout\n\n{}\n", heading.join("  \n"));
    for workload in &report.workloads {
        text += &format!("\n#### {}\n\n{}", cell(&title(workload)), table(&rows(workload), 2));
        if is_fired(workload) {
            text += &format!("\n{}", table(&fired_rows(workload), 2));
        }
        for stray in strays(workload) {
            text += &format!("\n{}\n", cell(&stray));
        }
    }
    text += &format!("\n{NOTE}\n");
    if report.partial {
        text += "\n**Interrupted: this is what was measured until then.**\n";
    }
    for warning in &report.warnings {
        text += &format!("\n> **{}** {}; {}\n", cell(&warning.code), cell(&warning.message), cell(&warning.hint));
    }
    text
}
