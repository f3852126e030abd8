//! A Markdown report for pull requests and job summaries: lateness with confidence intervals, cost,
//! and a summary in sentences.

use std::fmt::Write as _;

use cli::markdown::escape_cell;
use cli::time::{format_interval, format_share, format_time};
use files::report::{Distribution, Report};

use crate::report::label::{labels, unmeasured_reason};
use crate::report::origin::{self, origin};
use crate::report::{fitness, summary, why};

/// Renders one section per report.
pub fn text(reports: &[Report]) -> String {
    reports.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(report: &Report) -> String {
    let labels = labels(report);
    let shared =
        if labels.shared.is_empty() { String::new() } else { format!(" ({})", labels.shared) };
    let mut text = format!(
        "### Lateness{}\n\n{}\n\n",
        escape_cell(&shared),
        escape_cell(&summary::summarize(report))
    );
    if let Some((word, why)) = fitness::describe_report(report) {
        let _ = writeln!(text, "**{}**: {}\n", escape_cell(word), escape_cell(&why));
    }
    text += "| subject | p50 | p90 | p99 | p99.9 | max | missed | CPU per tick |\n";
    text += "|---|---:|---:|---:|---:|---:|---:|---:|\n";
    for (subject, name) in report.subjects.iter().zip(&labels.names) {
        let Some(summary) = &subject.summary else {
            let why = escape_cell(unmeasured_reason(subject));
            let _ = writeln!(text, "| {} | not measured: {why} | | | | | | |", escape_cell(name));
            continue;
        };
        let d = &summary.lateness_ns;
        let values =
            d.percentiles().into_iter().take(4).map(|(p, value)| with_interval(d, p.key, value));
        let values = values.collect::<Vec<_>>().join(" | ");
        let cpu = summary.cpu_ns_per_tick.map_or("-".into(), |ns| format_time(ns as i64));
        let max = format_time(d.max);
        let missed = if subject.period_ns > 0 {
            format_share(summary.missed, summary.ticks)
        } else {
            "-".to_owned()
        };
        let _ = writeln!(text, "| {} | {values} | {max} | {missed} | {cpu} |", escape_cell(name));
    }
    text += &why::to_markdown(report);
    let observer = origin::observer(report).map_or(String::new(), |cost| format!("; {cost}"));
    let tool =
        format!("{} {}, {}{observer}.", report.tool.name, report.tool.version, origin(report));
    let _ = writeln!(text, "\n{}", escape_cell(&tool));
    if report
        .subjects
        .iter()
        .filter_map(|s| s.summary.as_ref())
        .any(|s| !s.lateness_ns.ci95.is_empty())
    {
        text += "In brackets: 95 % confidence intervals over rounds.\n";
    }
    for line in
        origin::commands(report).into_iter().chain(report.loads.iter().filter_map(origin::load))
    {
        let _ = writeln!(text, "{}.", escape_cell(&line));
    }
    if report.partial {
        text += "\n**Interrupted: this is what was measured until then.**\n";
    }
    for warning in &report.warnings {
        let _ = writeln!(
            text,
            "\n> **{}** {} {}",
            escape_cell(&warning.code),
            escape_cell(&warning.message),
            escape_cell(&warning.hint)
        );
    }
    text
}

fn with_interval(d: &Distribution, name: &str, value: Option<i64>) -> String {
    match (value, d.ci95.get(name)) {
        (None, _) => "-".to_owned(),
        (Some(v), None) => format_time(v),
        (Some(v), Some(ci)) => format!("{} {}", format_time(v), format_interval(ci[0], ci[1])),
    }
}
