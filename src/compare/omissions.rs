//! Warnings about subjects and rounds that a comparison lacks, and about units that it assumes.

use cli::time::format_share;
use cli::words::{capitalize, end_sentence, pluralize};
use engine::measure::excluded_rounds::SETTINGS_CHANGED;
use files::compare;
use files::merge;
use files::report::{Report, Status, Subject, Summary, Warning};
use interop::OMISSION_WARNINGS;
use interop::unit::UNIT_WARNING;
use jitterstat::gate::{Sides, arrivals};
use render::report::label::unmeasured_reason;

use crate::compare::run_side::{RunSide, SubjectPair};
use crate::early_ticks;

/// Maximum number of subjects or reasons that a warning names.
const MAX_NAMED: usize = 6;

const FAILED: &str = "subjects-failed";
const ON_ONE_SIDE: &str = "subjects-on-one-side";
const PARTIAL: &str = "partial";
/// Hint for an assumed unit, which no flag of this command states.
const UNIT_HINT: &str =
    "If it is another one, compare the file of osjitter report --unit UNIT --format json.";

/// Whether a warning is about missing values or an assumed unit, so that a picture cannot be
/// understood without it.
pub fn is_omission(warning: &Warning) -> bool {
    let codes = [
        FAILED,
        ON_ONE_SIDE,
        SETTINGS_CHANGED,
        PARTIAL,
        UNIT_WARNING,
        early_ticks::CODE,
        merge::FAILURES,
    ];
    let code = warning.code.as_str();
    codes.contains(&code) || OMISSION_WARNINGS.contains(&code)
}

/// Returns warnings about what the comparison of the given pairs lacks. Subjects without a pair are
/// an omission only if all subjects were to be compared.
pub fn warnings(sides: Sides<&RunSide>, pairs: &[SubjectPair<'_>]) -> Vec<Warning> {
    let compared_a = pairs.iter().map(|pair| pair.a.subject).collect();
    let compared_b = pairs.iter().map(|pair| pair.b.subject).collect();
    let a = ComparedSide { name: "A", run: sides.base, compared: compared_a };
    let b = ComparedSide { name: "B", run: sides.candidate, compared: compared_b };
    let are_all = a.run.id.is_none() && b.run.id.is_none();
    let mut warnings = Vec::new();
    warnings.extend(failure_warning(&[a.failures(&b, are_all), b.failures(&a, are_all)].concat()));
    if are_all {
        warnings.extend(one_side_warning(&a, &b));
    }
    warnings.extend(exclusion_warning(&[a.exclusions(), b.exclusions()].concat()));
    warnings.extend(early_warning(&[a.early_subjects(), b.early_subjects()].concat()));
    if compare::is_same_run(&sides.base.report, &sides.candidate.report) {
        warnings.extend(a.report_warnings("A and B"));
    } else {
        warnings.extend(a.report_warnings("A"));
        warnings.extend(b.report_warnings("B"));
    }
    warnings
}

/// A side with its subjects that are compared.
struct ComparedSide<'a> {
    name: &'static str,
    run: &'a RunSide,
    compared: Vec<&'a Subject>,
}

/// Subjects that a side did not measure, or not to the end, for one reason.
#[derive(Clone)]
struct Failure<'a> {
    side: &'static str,
    reason: &'a str,
    /// Whether rounds before the failure are compared.
    is_compared: bool,
    ids: Vec<&'a str>,
}

impl<'a> ComparedSide<'a> {
    fn report(&self) -> &'a Report {
        &self.run.report
    }

    fn has_compared(&self, subject: &Subject) -> bool {
        self.compared.iter().any(|compared| compared.id == subject.id)
    }

    /// Returns the subjects that failed, by their reason: those that are compared and, if all were
    /// to be compared, those that the other side contains as well.
    fn failures(&self, other: &Self, are_all: bool) -> Vec<Failure<'a>> {
        let mut failures: Vec<Failure<'a>> = Vec::new();
        for subject in &self.report().subjects {
            let has_failed = matches!(subject.status, Status::Failed { .. });
            let is_compared = self.has_compared(subject);
            let is_shared = are_all && other.run.contains(subject);
            let is_omitted =
                if is_compared { has_failed } else { is_shared && subject.summary.is_none() };
            if !is_omitted {
                continue;
            }
            let reason = unmeasured_reason(subject);
            let is_alike =
                |f: &&mut Failure<'_>| (f.reason, f.is_compared) == (reason, is_compared);
            match failures.iter_mut().find(is_alike) {
                Some(failure) => failure.ids.push(&subject.id),
                None => failures.push(Failure {
                    side: self.name,
                    reason,
                    is_compared,
                    ids: vec![&subject.id],
                }),
            }
        }
        failures
    }

    /// Returns the subjects that the other side does not contain.
    fn unshared(&self, other: &Self) -> Vec<&'a str> {
        let subjects = self.report().subjects.iter();
        let unshared = subjects.filter(|s| !self.has_compared(s) && !other.run.contains(s));
        unshared.map(|subject| subject.id.as_str()).collect()
    }

    /// Describes the excluded rounds of the compared subjects.
    fn exclusions(&self) -> Vec<String> {
        let mut exclusions = Vec::new();
        for subject in &self.compared {
            let count = subject.excluded.len() as u64;
            if count > 0 {
                let rounds = pluralize(count, "round");
                exclusions.push(format!("{rounds} of {} in {}", subject.id, self.name));
            }
        }
        exclusions
    }

    /// Describes the compared subjects of which many ticks were early.
    fn early_subjects(&self) -> Vec<String> {
        let mut early_subjects = Vec::new();
        for subject in &self.compared {
            let Some(Summary { early: Some(early), ticks, .. }) = subject.summary else { continue };
            if arrivals::are_many_early(early, ticks) {
                let share = format_share(early, ticks);
                early_subjects.push(format!("{share} of {} in {}", subject.id, self.name));
            }
        }
        early_subjects
    }

    /// Returns the warnings of the report that it lacks values of compared subjects, or that its
    /// unit is assumed.
    fn report_warnings(&self, side: &str) -> Vec<Warning> {
        let names_compared =
            |text: &str| self.compared.iter().any(|subject| text.contains(&subject.id));
        let mut warnings = Vec::new();
        for Warning { code, message, hint } in &self.report().warnings {
            let is_merged_failure = code == merge::FAILURES && names_compared(message);
            let has_assumed_unit = code == UNIT_WARNING;
            let hint = if has_assumed_unit { UNIT_HINT } else { hint.as_str() };
            if is_merged_failure || has_assumed_unit || OMISSION_WARNINGS.contains(&code.as_str()) {
                let message = format!("{side}: {}", end_sentence(message));
                warnings.push(Warning::new(code, message, &capitalize(&end_sentence(hint))));
            }
        }
        warnings
    }
}

fn failure_warning(failures: &[Failure<'_>]) -> Option<Warning> {
    let describe = |failure: &Failure<'_>| {
        let (ids, side, reason) = (join_some(&failure.ids, ", "), failure.side, failure.reason);
        match failure.is_compared {
            true => format!("{ids} failed in {side} after the rounds that are compared: {reason}"),
            false => format!("{ids} left out, not measured in {side}: {reason}"),
        }
    };
    let described: Vec<String> = failures.iter().map(describe).collect();
    if described.is_empty() {
        return None;
    }
    let message = end_sentence(&join_some(&described, "; "));
    Some(Warning::new(FAILED, message, "Repeat the run in which they failed."))
}

fn one_side_warning(a: &ComparedSide<'_>, b: &ComparedSide<'_>) -> Option<Warning> {
    let mut parts = Vec::new();
    for (side, other) in [(a, b), (b, a)] {
        let ids = side.unshared(other);
        if !ids.is_empty() {
            parts.push(format!("only {} has {}", side.name, join_some(&ids, ", ")));
        }
    }
    if parts.is_empty() {
        return None;
    }
    let message = capitalize(&end_sentence(&parts.join("; ")));
    let hint = "Name one of each side to compare two of them, as in A#ID B#ID.";
    Some(Warning::new(ON_ONE_SIDE, message, hint))
}

fn exclusion_warning(exclusions: &[String]) -> Option<Warning> {
    if exclusions.is_empty() {
        return None;
    }
    let message = format!(
        "Rounds are left out because a setting was changed from outside: {}.",
        join_some(exclusions, ", ")
    );
    let hint = "Keep other programs from changing settings while osjitter measures.";
    Some(Warning::new(SETTINGS_CHANGED, message, hint))
}

fn early_warning(early_subjects: &[String]) -> Option<Warning> {
    if early_subjects.is_empty() {
        return None;
    }
    let subjects = join_some(early_subjects, ", ");
    let message = format!("Early ticks lower the percentiles of a side: {subjects}.");
    Some(early_ticks::warning(message))
}

/// Joins the first texts, and counts the others.
fn join_some<T: AsRef<str>>(texts: &[T], separator: &str) -> String {
    let named = &texts[..texts.len().min(MAX_NAMED)];
    let mut named: Vec<String> = named.iter().map(|text| text.as_ref().to_owned()).collect();
    if texts.len() > MAX_NAMED {
        named.push(format!("{} more", texts.len() - MAX_NAMED));
    }
    named.join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(side: &'static str, is_compared: bool, ids: Vec<&'static str>) -> Failure<'static> {
        Failure { side, reason: "it rained", is_compared, ids }
    }

    #[test]
    fn failures_are_described_by_reason() {
        let failures =
            [failure("A", false, vec!["x@1ms", "y@1ms"]), failure("B", true, vec!["z@1ms"])];
        let message = failure_warning(&failures).unwrap().message;
        let expected = "x@1ms, y@1ms left out, not measured in A: it rained; z@1ms failed in B after \
                        the rounds that are compared: it rained.";
        assert_eq!(message, expected);
        assert_eq!(failure_warning(&[]), None);
    }

    #[test]
    fn long_lists_are_counted() {
        let texts = ["1", "2", "3", "4", "5", "6", "7", "8"];
        assert_eq!(join_some(&texts, ", "), "1, 2, 3, 4, 5, 6, 2 more");
        assert_eq!(join_some(&texts[..6], ", "), "1, 2, 3, 4, 5, 6");
    }

    #[test]
    fn exclusions_are_one_warning() {
        let exclusions = ["2 rounds of x in A".to_owned(), "1 round of y in B".to_owned()];
        let message = exclusion_warning(&exclusions).unwrap().message;
        assert!(message.ends_with("outside: 2 rounds of x in A, 1 round of y in B."), "{message}");
        assert_eq!(exclusion_warning(&[]), None);
    }
}
