//! The report of `osjitter bench dispatch` for pull requests and job summaries.

use jitterstat::bench::dispatch::Report;

use crate::bench::dispatch::view::{COLUMNS, heading, rows};
use crate::render::markdown::cell;

/// Two tables: the figures, and what the operations are.
pub fn markdown(report: &Report) -> String {
    let mut text = format!("### Dispatch\n\n{}\n\n", cell(&heading(report)));
    text += &format!("| {} |\n|---|---|{}\n", COLUMNS.join(" | "), "---:|".repeat(COLUMNS.len() - 2));
    for row in rows(report) {
        let cells: Vec<String> = row.iter().map(|c| cell(c)).collect();
        text += &format!("| {} |\n", cells.join(" | "));
    }
    text += "\n| operation | what it is |\n|---|---|\n";
    for o in &report.operations {
        text += &format!("| {} | {} |\n", o.name, cell(&o.about));
    }
    if report.partial {
        text += "\n**Interrupted: this is what was measured until then.**\n";
    }
    for warning in &report.warnings {
        text += &format!("\n> **{}** {}; {}\n", cell(&warning.code), cell(&warning.message), cell(&warning.hint));
    }
    text
}
