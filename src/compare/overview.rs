//! The overview of a comparison of several subjects: a row for each.

use cli::time::format_difference;
use cli::words::or_dash;
use files::compare::{Comparison, Finding, Percentile, SubjectComparison};
use render::document::Table;

/// The percentiles of the tail that the overview can show, in order of preference.
const TAILS: [&str; 2] = ["p99", "p90"];

/// Maximum number of subjects that the answer names for a finding.
const MAX_NAMES: usize = 4;

/// Counts the subjects with each finding, and names those in which B is later or less late.
pub fn answer(subjects: &[SubjectComparison]) -> String {
    let total = subjects.len();
    let mut sentences = Vec::new();
    for (finding, words) in [(Finding::Later, "later"), (Finding::Earlier, "less late")] {
        let found = subjects.iter().filter(|subject| !names_with(subject, finding).is_empty());
        let mut names: Vec<String> = found.map(|subject| short_name(subjects, subject)).collect();
        let count = names.len();
        if count > MAX_NAMES {
            names.truncate(MAX_NAMES);
            names.push(format!("{} more", count - MAX_NAMES));
        }
        if count > 0 {
            let names = names.join(", ");
            sentences.push(format!("B is {words} for {count} of {total} subjects: {names}."));
        }
    }
    for finding in [Finding::NoDifferenceShown, Finding::NotTrusted, Finding::TooFewRounds] {
        let is_found = |subject: &&SubjectComparison| common_finding(subject) == Some(finding);
        let count = subjects.iter().filter(is_found).count();
        let subjects = format!("{count} of {total} subjects");
        match finding {
            _ if count == 0 => {}
            Finding::NoDifferenceShown => {
                sentences.push(format!("No difference is shown for {subjects}."));
            }
            Finding::NotTrusted => sentences
                .push(format!("Unreliable, because the machine itself was late: {subjects}.")),
            _ => sentences.push(format!("Too few rounds for an interval: {subjects}.")),
        }
    }
    sentences.join(" ")
}

/// Builds a table with the differences B - A of each pair of subjects and a verdict in words.
pub fn table(comparison: &Comparison) -> Table {
    let subjects = &comparison.subjects;
    let has = |name: &&str| subjects.iter().any(|subject| percentile(subject, name).is_some());
    let tail = TAILS.into_iter().find(|name| has(name)).unwrap_or(TAILS[0]);
    let heading = ["subject, B - A", "p50", tail, "max", "verdict"];
    let mut table = Table::new(heading, 1).with_words_last().with_expendable(&["max", "p50"]);
    for subject in subjects {
        table.row([
            short_name(subjects, subject),
            or_dash(difference_at(subject, "p50")),
            or_dash(difference_at(subject, tail)),
            or_dash(difference_of_maxima(subject)),
            describe_findings(subject),
        ]);
    }
    table
}

/// Returns the name of a subject, or its id if several have this name.
fn short_name(subjects: &[SubjectComparison], subject: &SubjectComparison) -> String {
    let is_unique = subjects.iter().filter(|other| other.b.name == subject.b.name).count() == 1;
    if is_unique { subject.b.name.clone() } else { subject.b.id.clone() }
}

fn percentile<'a>(subject: &'a SubjectComparison, name: &str) -> Option<&'a Percentile> {
    subject.percentiles.iter().find(|percentile| percentile.name == name)
}

fn difference_at(subject: &SubjectComparison, name: &str) -> Option<String> {
    Some(format_difference(percentile(subject, name)?.all.difference_ns))
}

fn difference_of_maxima(subject: &SubjectComparison) -> Option<String> {
    Some(format_difference(subject.b.max_ns?.saturating_sub(subject.a.max_ns?)))
}

/// Lists the percentiles at which B is later, and those at which it is less late.
pub fn describe_findings(subject: &SubjectComparison) -> String {
    let mut findings = Vec::new();
    for (finding, words) in [(Finding::Later, "later at"), (Finding::Earlier, "less late at")] {
        let names = names_with(subject, finding);
        if !names.is_empty() {
            findings.push(format!("{words} {}", names.join(", ")));
        }
    }
    match common_finding(subject) {
        None => findings.join("; "),
        Some(Finding::NoDifferenceShown) => "no difference shown".to_owned(),
        Some(Finding::NotTrusted) => "unreliable".to_owned(),
        Some(_) => "too few rounds".to_owned(),
    }
}

/// Returns what holds at all percentiles, unless B is later or less late at one.
fn common_finding(subject: &SubjectComparison) -> Option<Finding> {
    let has = |finding| !names_with(subject, finding).is_empty();
    if has(Finding::Later) || has(Finding::Earlier) {
        return None;
    }
    let known = [Finding::NoDifferenceShown, Finding::NotTrusted].into_iter().find(|f| has(*f));
    Some(known.unwrap_or(Finding::TooFewRounds))
}

/// Returns the percentiles whose estimates over all rounds have a finding.
fn names_with(subject: &SubjectComparison, finding: Finding) -> Vec<String> {
    let mut names = Vec::new();
    for percentile in &subject.percentiles {
        if percentile.all.finding == finding {
            names.push(percentile.name.replace('_', "."));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use files::compare::{Estimate, Method, Side};

    use super::*;

    fn side(max_ns: i64) -> Side {
        Side {
            id: "spin@1ms".to_owned(),
            name: "spin".to_owned(),
            period_ns: 1_000_000,
            rounds: 20,
            max_ns: Some(max_ns),
            same_stall_share: None,
            steal_share: None,
        }
    }

    fn percentile_with(name: &str, finding: Finding) -> Percentile {
        let all = Estimate {
            a_ns: 100,
            b_ns: 200,
            ratio: 2.0,
            ratio_ci95: None,
            difference_ns: 100,
            difference_ns_ci95: None,
            rounds_a: 20,
            rounds_b: 20,
            exact: true,
            finding,
        };
        Percentile {
            name: name.to_owned(),
            all,
            quiet_half: None,
            beside_control: None,
            lift: None,
        }
    }

    fn subject(findings: &[(&str, Finding)]) -> SubjectComparison {
        SubjectComparison {
            a: side(5_000),
            b: side(3_000),
            method: Method::TwoRuns,
            stalls_once: true,
            percentiles: findings.iter().map(|&(name, f)| percentile_with(name, f)).collect(),
            quantiles: None,
        }
    }

    #[test]
    fn verdict_groups_percentiles() {
        use Finding::{Earlier, Later, NoDifferenceShown, NotTrusted, TooFewRounds};
        for (findings, words) in [
            ([("p50", Later), ("p99_9", Later)], "later at p50, p99.9"),
            ([("p50", Later), ("p90", Earlier)], "later at p50; less late at p90"),
            ([("p50", NoDifferenceShown), ("p90", Earlier)], "less late at p90"),
            ([("p50", NoDifferenceShown), ("p90", TooFewRounds)], "no difference shown"),
            ([("p50", TooFewRounds), ("p90", TooFewRounds)], "too few rounds"),
            ([("p50", NoDifferenceShown), ("p99", NotTrusted)], "no difference shown"),
            ([("p50", NotTrusted), ("p99", NotTrusted)], "unreliable"),
        ] {
            assert_eq!(describe_findings(&subject(&findings)), words);
        }
    }

    #[test]
    fn answer_counts_subjects() {
        use Finding::{Earlier, Later, NoDifferenceShown, NotTrusted, TooFewRounds};
        let named = |name: &str, findings: &[(&str, Finding)]| {
            let mut subject = subject(findings);
            subject.b.name = name.to_owned();
            subject
        };
        let mixed = [
            named("a", &[("p50", Later), ("p90", Earlier)]),
            named("b", &[("p50", NoDifferenceShown), ("p90", Later)]),
            named("c", &[("p50", NoDifferenceShown), ("p90", NotTrusted)]),
            named("d", &[("p50", NotTrusted)]),
            named("e", &[("p50", TooFewRounds)]),
        ];
        assert_eq!(
            answer(&mixed),
            "B is later for 2 of 5 subjects: a, b. B is less late for 1 of 5 subjects: a. \
             No difference is shown for 1 of 5 subjects. Unreliable, because the machine itself \
             was late: 1 of 5 subjects. Too few rounds for an interval: 1 of 5 subjects."
        );
        let later = ["a", "b", "c", "d", "e", "f"].map(|name| named(name, &[("p50", Later)]));
        assert_eq!(answer(&later), "B is later for 6 of 6 subjects: a, b, c, d, 2 more.");
    }

    #[test]
    fn differences_have_signs() {
        let subject = subject(&[("p50", Finding::Later)]);
        assert_eq!(difference_at(&subject, "p50").as_deref(), Some("+100 ns"));
        assert_eq!(difference_at(&subject, "p99"), None);
        assert_eq!(difference_of_maxima(&subject).as_deref(), Some("-2.00 us"));
    }
}
