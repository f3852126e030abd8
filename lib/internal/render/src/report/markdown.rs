//! A report in Markdown, for pull requests and job summaries: lateness with confidence intervals,
//! cost, and a summary in sentences.

use cli::time::{format_interval, format_time};
use cli::words::{capitalize, end_sentence, or_dash, prefix_or_empty};
use files::report::{Distribution, PERCENTILES, Report, Subject, Summary};

use crate::document::{self, Document, Table};
use crate::report::label::{Labels, labels, late_failure_notes, unmeasured_reason};
use crate::report::origin::{self, origin};
use crate::report::ranking::Ranking;
use crate::report::table::{early_end_note, format_warning};
use crate::report::tradeoff::format_missed;
use crate::report::trust::Trust;
use crate::report::{fitness, settings, summary, why};
use files::entry::summaries;

/// Renders one section per report.
pub fn text(reports: &[Report]) -> String {
    let sections: Vec<String> =
        reports.iter().map(|report| document::markdown::render(&document(report))).collect();
    sections.join("\n")
}

fn document(report: &Report) -> Document {
    let labels = labels(report);
    let mut document = Document::new();
    let ranking = Ranking::new(report);
    document.title(summary::answer(&ranking));
    if let Some((word, why)) = fitness::describe_report(report) {
        document.paragraph(format!("{word}: {why}"));
    }
    document.section(match labels.shared.as_str() {
        "" => "Lateness".to_owned(),
        shared => format!("Lateness ({shared})"),
    });
    document.table(table(report, &labels));
    document.notes(notes(report));
    document.paragraph(summary::details(&ranking));
    why::add_diagnoses(&mut document, report);
    if let Some(note) = early_end_note(report) {
        document.warning(capitalize(&note) + ".");
    }
    for warning in &report.warnings {
        document.warning(format_warning(warning));
    }
    document
}

/// Number of percentiles in the table, the lowest first.
const SHOWN: usize = 4;

fn table(report: &Report, labels: &Labels) -> Table {
    let trust = Trust::from_report(report);
    let mut heading = vec!["subject".to_owned()];
    heading.extend(PERCENTILES[..SHOWN].iter().map(|percentile| trust.heading(*percentile)));
    heading.push(trust.max_heading());
    heading.extend(["missed", "CPU per tick"].map(str::to_owned));
    let mut table = Table::new(heading, 1);
    for (subject, name) in report.subjects.iter().zip(&labels.names) {
        match &subject.summary {
            Some(summary) => table.row(row(subject, summary, name, trust)),
            None => table.row([name, &format!("not measured: {}", unmeasured_reason(subject))]),
        }
    }
    table
}

fn row(subject: &Subject, summary: &Summary, name: &str, trust: Trust) -> Vec<String> {
    let lateness = &summary.lateness_ns;
    let mut row = vec![name.to_owned()];
    for (percentile, value) in lateness.percentiles().into_iter().take(SHOWN) {
        row.push(or_dash(value.map(|ns| with_interval(lateness, percentile.key, ns))));
    }
    row.push(format_time(lateness.max));
    let missed = format_missed(subject, summary);
    row.push(or_dash(missed.map(|cell| trust.count_cell(summary, "missed", &cell))));
    row.push(or_dash(summary.cpu_ns_per_tick.map(|ns| format_time(ns as i64))));
    row
}

fn with_interval(lateness: &Distribution, key: &str, ns: i64) -> String {
    let interval = lateness.ci95.get(key).map(|ci| format_interval(ci[0], ci[1]));
    format_time(ns) + &prefix_or_empty(" ", interval)
}

/// Returns the origin of the report, the meaning of marks and brackets, failures, commands and
/// loads.
fn notes(report: &Report) -> Vec<String> {
    let observer = prefix_or_empty("; ", origin::observer(report));
    let (tool, origin) = (&report.tool, origin(report));
    let mut notes = vec![format!("{} {}, {origin}{observer}.", tool.name, tool.version)];
    notes.extend(Trust::from_report(report).note().map(|note| note + "."));
    if summaries(report).any(|summary| !summary.lateness_ns.ci95.is_empty()) {
        notes.push("In brackets: 95 % confidence intervals over rounds.".to_owned());
    }
    let mut facts: Vec<String> = late_failure_notes(report).collect();
    facts.extend(origin::commands(report));
    facts.extend(report.loads.iter().filter_map(origin::load));
    facts.extend(settings::notes(report));
    notes.extend(facts.iter().map(|fact| end_sentence(fact)));
    notes
}
