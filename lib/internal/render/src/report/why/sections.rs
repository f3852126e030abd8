//! Selects the subjects that a document explains, and adds a section for each of them.

use cli::words::prefix_or_empty;
use files::report::{Report, Subject};

use super::{Cause, Diagnosis, diagnoses, select_diagnoses};
use crate::document::{Document, Table};
use crate::report::label::{self, labels};
use crate::report::late_code;
use crate::report::ranking::Ranking;
use crate::report::unexplained::GroupedDiagnoses;

/// Adds a section for each profiled subject.
pub fn add_diagnoses(document: &mut Document, report: &Report) {
    add_grouped(document, &diagnoses(report));
}

fn add_grouped(document: &mut Document, diagnoses: &GroupedDiagnoses<'_>) {
    diagnoses.shown.iter().for_each(|diagnosis| add_diagnosis(document, diagnosis));
    diagnoses.sentences.iter().for_each(|sentence| document.paragraph(sentence));
}

/// Adds a section for each program of the user, and compares it with the best ticker. Adds the
/// sections of all subjects if none of them is a program.
pub fn add_main_diagnoses(document: &mut Document, report: &Report) {
    let is_program = |subject: &Subject| label::is_program(report, subject);
    let programs = select_diagnoses(report, is_program);
    if programs.is_empty() {
        return add_diagnoses(document, report);
    }
    add_grouped(document, &GroupedDiagnoses::new(programs.into_iter()));
    let ranking = Ranking::new(report);
    let mut notes = Vec::new();
    for program in report.subjects.iter().filter(|subject| is_program(subject)) {
        let ticker = describe_best_ticker(&ranking, program);
        notes.extend(ticker.filter(|sentence| !notes.contains(sentence)));
    }
    let others = select_diagnoses(report, |subject| !is_program(subject)).len();
    if others > 0 {
        let others = if others == 1 { "subject".to_owned() } else { format!("{others} subjects") };
        notes.push(format!(
            "The page and osjitter report --format markdown explain the other {others}."
        ));
    }
    document.notes(notes);
}

/// Describes the causes of the best ticker in the rounds of a program.
fn describe_best_ticker(ranking: &Ranking<'_>, program: &Subject) -> Option<String> {
    let (subject, name) = best_ticker(ranking, program)?;
    let why = subject.why.as_ref().filter(|why| why.tier.is_some())?;
    let ticker = Diagnosis { name, why, trace_ns: None };
    let mut causes = Vec::new();
    for Cause { share, words, .. } in ticker.causes() {
        causes.push(format!("{share} {words}"));
    }
    let causes = if causes.is_empty() { "too few to say".to_owned() } else { causes.join(", ") };
    let (selection, name, counts) = (ticker.selection(), &ticker.name, ticker.counts());
    Some(format!("For comparison, {selection} of {name} ({counts}): {causes}."))
}

/// Returns the ticker with the lowest percentile among those with the period and load of a program,
/// and its name.
fn best_ticker<'a>(ranking: &Ranking<'a>, program: &Subject) -> Option<(&'a Subject, String)> {
    let report = ranking.report();
    let index = report.subjects.iter().position(|subject| std::ptr::eq(subject, program))?;
    let standing = ranking.group_of(index)?.standing.as_ref()?;
    let others = standing.tied.iter().chain(standing.behind.iter().map(|behind| &behind.subject));
    let mut by_value = std::iter::once(&standing.best).chain(others);
    let ticker = *by_value.find(|&&index| !label::is_program(report, &report.subjects[index]))?;
    Some((&report.subjects[ticker], labels(report).names.swap_remove(ticker)))
}

fn add_diagnosis(document: &mut Document, diagnosis: &Diagnosis<'_>) {
    document.section(diagnosis.heading());
    let mut table = Table::new(["share", "cause", "evidence"], 2).with_words_last();
    for cause in diagnosis.causes() {
        table.row([cause.share.as_str(), cause.words, &cause.evidence]);
    }
    if !table.is_empty() {
        document.table(table);
    }
    if let Some(code) = &diagnosis.why.code {
        let functions = late_code::table(code);
        if !functions.is_empty() {
            document.table(functions);
        }
        document.notes(late_code::notes(code));
    }
    let longest = diagnosis.longest_ticks().filter(|_| diagnosis.why.tier.is_some());
    document.notes(longest.map(|late| {
        let causes = Some(late.causes).filter(|causes| !causes.is_empty());
        format!("{}{}.", late.tick, prefix_or_empty(", ", causes))
    }));
    let notes = [diagnosis.wakeup_path(), diagnosis.losses(), diagnosis.next_tier()];
    document.notes(notes.into_iter().flatten());
}
