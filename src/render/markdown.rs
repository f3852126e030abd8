//! A Markdown table for pull requests and job summaries: lateness with its intervals, cost, and what it says in words.

use std::fmt::Write as _;

use jitterstat::report::{Distribution, Report, Status};

use crate::render::label::labels;
use crate::render::reading;
use crate::text::time::time;

/// One section a report.
pub fn text(reports: &[Report]) -> String {
    reports.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(report: &Report) -> String {
    let labels = labels(report);
    let shared = if labels.shared.is_empty() { String::new() } else { format!(" ({})", labels.shared) };
    let mut text = format!("### Lateness{}\n\n{}\n\n", cell(&shared), cell(&reading::reading(report)));
    text += "| subject | p50 | p90 | p99 | p99.9 | max | missed | CPU per tick |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for (subject, name) in report.subjects.iter().zip(&labels.names) {
        let Some(summary) = &subject.summary else {
            let why = match &subject.status {
                Status::Failed { reason } => reason.as_str(),
                _ => "no tick came",
            };
            let _ = writeln!(text, "| {} | not measured: {} | | | | | | |", cell(name), cell(why));
            continue;
        };
        let d = &summary.lateness_ns;
        let values = [("p50", d.p50), ("p90", d.p90), ("p99", d.p99), ("p99_9", d.p99_9)];
        let values = values.map(|(name, value)| with_interval(d, name, value)).join(" | ");
        let cpu = summary.cpu_ns_per_tick.map_or("-".into(), |ns| time(ns as i64));
        let (max, missed) = (time(d.max), summary.missed);
        let _ = writeln!(text, "| {} | {values} | {max} | {missed} | {cpu} |", cell(name));
    }
    let host = &report.host;
    let machine = host.cpu_model.as_deref().unwrap_or("unknown CPU");
    let kernel = host.kernel.as_deref().unwrap_or(&host.os);
    let (tool, version, started) = (&report.tool.name, &report.tool.version, &report.started_utc);
    let _ =
        writeln!(text, "\n{} {}, {}, {}, {}.", cell(tool), cell(version), cell(started), cell(machine), cell(kernel));
    if report.subjects.iter().filter_map(|s| s.summary.as_ref()).any(|s| !s.lateness_ns.ci95.is_empty()) {
        text += "In brackets: 95 % confidence intervals over rounds.\n";
    }
    if report.partial {
        text += "\n**Interrupted: this is what was measured until then.**\n";
    }
    for warning in &report.warnings {
        let _ = writeln!(text, "\n> **{}** {} {}", cell(&warning.code), cell(&warning.message), cell(&warning.hint));
    }
    text
}

fn with_interval(d: &Distribution, name: &str, value: Option<i64>) -> String {
    match (value, d.ci95.get(name)) {
        (None, _) => "-".to_owned(),
        (Some(v), None) => time(v),
        (Some(v), Some([low, high])) => format!("{} [{}, {}]", time(v), time(*low), time(*high)),
    }
}

/// A table: the first row is the heading, the first `left` columns stand to the left.
pub fn table(rows: &[Vec<String>], left: usize) -> String {
    let line = |row: &Vec<String>| format!("| {} |\n", row.iter().map(|c| cell(c)).collect::<Vec<_>>().join(" | "));
    let Some((heading, body)) = rows.split_first() else { return String::new() };
    let rule: String = (0..heading.len()).map(|c| if c < left { "---|" } else { "---:|" }).collect();
    format!("{}|{rule}\n{}", line(heading), body.iter().map(line).collect::<String>())
}

/// Text that cannot break out of its cell, nor become a tag.
pub fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' => out.extend(['\\', c]),
            '<' => out += "&lt;",
            '&' => out += "&amp;",
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_cell_stays_a_cell() {
        assert_eq!(super::cell("a|b<img>\nc_d"), "a\\|b&lt;img> c\\_d");
    }
}
