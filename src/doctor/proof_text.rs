//! A proof as a document.

use cli::time::{format_fractional_time, format_time, format_unsigned_time};
use cli::words::{or_dash, pluralize, prefix_or_empty};
use files::compare::{Change, ChangeFinding, Differences};
use files::fitness::Verdict;

use crate::doctor::file::{CONTROL_KEY, Figures, Outcome, Proof, Proved, Row};
use render::document::{Document, Item, Table};
use render::report::fitness;
use render::report::table::describe_warnings;

const TITLES: [&str; 5] = ["setting", "p50", "p99", "CPU", "change, with interval"];

/// Describes the rows and notes of a proof. The settings to keep are named only if the machine and
/// the controls permit an answer.
pub fn document(proof: &Proof) -> Document {
    let has_answer = no_answer(proof).is_none();
    let mut document = Document::new();
    for proved in &proof.subjects {
        document.section(heading(proof, proved));
        document.table(table(proved));
        if has_answer {
            document.items(advice(proved));
        }
    }
    document.notes(notes(proof));
    document
}

/// Describes whether a proof can be trusted.
pub fn verdict(proof: &Proof) -> Document {
    let mut document = Document::new();
    document.paragraph(no_answer(proof).unwrap_or_default());
    document.paragraph(fitness::sentence(proof.fitness.as_ref()).unwrap_or_default());
    document
}

/// Returns the reason for which a proof has no answer, if it has none.
pub fn no_answer(proof: &Proof) -> Option<String> {
    if let Some(failure) = describe_failed_control(proof) {
        return Some(format!("No answer: the control shows a change. {failure}"));
    }
    if !proof.partial && controls(proof).any(|(_, row)| measured_differences(row).is_none()) {
        return Some("No answer: the control was not measured.".into());
    }
    let is_unfit = proof.fitness.as_ref().is_some_and(|f| f.verdict == Verdict::Unfit);
    is_unfit.then(|| "No answer: the machine was unfit.".into())
}

/// Returns the rows without a setting, with their subjects.
fn controls(proof: &Proof) -> impl Iterator<Item = (&str, &Row)> {
    proof.subjects.iter().flat_map(|proved| {
        let controls = proved.rows.iter().filter(|row| row.key == CONTROL_KEY);
        controls.map(|row| (proved.subject.as_str(), row))
    })
}

/// Explains that rows without a setting show a change, if they do.
fn describe_failed_control(proof: &Proof) -> Option<String> {
    let mut changes = Vec::new();
    for (subject, row) in controls(proof) {
        let shown = measured_differences(row).map(shown_changes).unwrap_or_default();
        if !shown.is_empty() {
            changes.push(format!("{subject} {}", shown.join(", ")));
        }
    }
    (!changes.is_empty()).then(|| {
        format!(
            "The row that changes nothing differs from the current settings: {}. Nothing is known about the settings: measure again on \
             a quieter machine.",
            changes.join("; ")
        )
    })
}

fn measured_differences(row: &Row) -> Option<&Differences> {
    match &row.outcome {
        Outcome::Measured { differences, .. } => Some(differences),
        _ => None,
    }
}

fn heading(proof: &Proof, proved: &Proved) -> String {
    let period = format_unsigned_time(proof.period_ns);
    let load = prefix_or_empty(" under ", proof.load.as_ref());
    format!(
        "{} each {period}{load}, {} of {}",
        proved.subject,
        pluralize(proof.rounds, "round"),
        pluralize(proof.round_ticks, "tick")
    )
}

/// Returns a row per setting, and another one for each further number that changes.
fn table(proved: &Proved) -> Table {
    let mut table = Table::new(TITLES, 1).with_words_last();
    table.row(cells("current settings", Some(&proved.baseline), ""));
    for row in &proved.rows {
        let (figures, changes) = match &row.outcome {
            Outcome::Measured { figures, differences } => {
                (Some(figures), format_differences(differences))
            }
            Outcome::NotPermitted { .. } => (None, vec!["not permitted".to_owned()]),
            Outcome::Failed { .. } => (None, vec!["not measured".to_owned()]),
        };
        let first = changes.first().map_or("", String::as_str);
        table.row(cells(&setting_name(row), figures, first));
        for change in changes.iter().skip(1) {
            table.row(["", "", "", "", change]);
        }
    }
    table
}

/// Returns the name of a setting. Files of 0.2.0 have other names for two built-in ones.
fn setting_name(row: &Row) -> String {
    let cpu = row.key.strip_prefix("cpu-").filter(|cpu| row.setting == format!("CPU {cpu} alone"));
    match cpu {
        Some(cpu) => format!("CPU {cpu} only"),
        None if row.setting == "nothing, once more" => "no change (control)".to_owned(),
        None => row.setting.clone(),
    }
}

fn cells(name: &str, figures: Option<&Figures>, change: &str) -> Vec<String> {
    let p50 = or_dash(figures.and_then(|f| f.p50_ns).map(format_time));
    let p99 = or_dash(figures.and_then(|f| f.p99_ns).map(format_time));
    let cpu = or_dash(figures.and_then(|f| f.cpu_ns_per_tick).map(format_fractional_time));
    vec![name.to_owned(), p50, p99, cpu, change.to_owned()]
}

/// Formats every number that changes.
fn shown_changes(differences: &Differences) -> Vec<String> {
    let numbers = [("p50", &differences.p50), ("p99", &differences.p99), ("CPU", &differences.cpu)];
    let mut changes = Vec::new();
    for (name, change) in numbers {
        let Some(change) = change else { continue };
        if matches!(change.shown, ChangeFinding::Less | ChangeFinding::More) {
            changes.push(format!("{name} {}", format_change(change)));
        }
    }
    changes
}

/// Formats every number that changes, or a text if none does.
fn format_differences(differences: &Differences) -> Vec<String> {
    let mut changes = shown_changes(differences);
    let is_undecided = |change: &Option<Change>| {
        change.as_ref().is_none_or(|change| change.shown == ChangeFinding::TooFewRounds)
    };
    if is_undecided(&differences.p50) && is_undecided(&differences.p99) {
        changes.push("lateness: too few rounds".to_owned());
    } else if changes.is_empty() {
        changes.push("no difference shown".to_owned());
    }
    changes
}

/// Formats a change as `-71 % [-78, -60]`, or as `x5.2 [4.8, 5.6]` if the value at least doubles.
fn format_change(change: &Change) -> String {
    let is_multiple = change.ratio >= 2.0;
    let format_ratio = if is_multiple { format_multiple } else { format_percent_change };
    let interval = change.ratio_interval.map_or(String::new(), |[low, high]| {
        format!(" [{}, {}]", format_ratio(low), format_ratio(high))
    });
    let ratio = format_ratio(change.ratio);
    if is_multiple { format!("x{ratio}{interval}") } else { format!("{ratio} %{interval}") }
}

fn format_percent_change(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    if percent.abs() < 9.95 { format!("{percent:+.1}") } else { format!("{percent:+.0}") }
}

fn format_multiple(ratio: f64) -> String {
    if ratio < 9.95 { format!("{ratio:.1}") } else { format!("{ratio:.0}") }
}

/// Lists the settings that make ticks less late, and the commands that make them permanent.
fn advice(proved: &Proved) -> Vec<Item> {
    proved.rows.iter().filter_map(row_advice).collect()
}

/// Returns advice if p50 or p99 improves and neither gets worse.
fn row_advice(row: &Row) -> Option<Item> {
    let differences = measured_differences(row)?;
    let lateness = [&differences.p50, &differences.p99];
    let has = |finding| lateness.into_iter().flatten().any(|change| change.shown == finding);
    if row.keep.is_empty() || !has(ChangeFinding::Less) || has(ChangeFinding::More) {
        return None;
    }
    let changes = format_differences(differences).join(", ");
    Some(Item {
        text: format!("{} makes ticks less late: {changes}", setting_name(row)),
        detail: None,
        command: Some(row.keep.clone()),
    })
}

/// Returns the caveats below the tables.
fn notes(proof: &Proof) -> Vec<String> {
    let mut notes = Vec::new();
    if proof.partial {
        notes.push("Interrupted: the values cover the time until then.".to_owned());
    }
    notes.extend(describe_warnings(&proof.warnings));
    let mut named: Vec<&str> = Vec::new();
    for row in proof.subjects.iter().flat_map(|proved| &proved.rows) {
        let note = match &row.outcome {
            Outcome::NotPermitted { reason, needs } => {
                format!("{}: not permitted ({reason}); it requires {needs}.", setting_name(row))
            }
            Outcome::Failed { reason } => format!("{}: not measured: {reason}.", setting_name(row)),
            Outcome::Measured { .. } => continue,
        };
        if !named.contains(&row.setting.as_str()) {
            named.push(&row.setting);
            notes.push(note);
        }
    }
    notes.push(format!(
        "Changes compare the median round with that of the same rounds without the setting; p50, p99 and CPU cover all \
         ticks. The chance of any false change in a proof is at most {:.0} %.",
        proof.alpha * 100.0
    ));
    notes
}
