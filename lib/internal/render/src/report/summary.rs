//! Summarizes a report in plain English: only what the numbers show, without judgement or advice.

mod caveats;
pub mod name_list;
mod narrator;
mod subject_line;

use cli::time::{format_duration, format_time};
use files::quantity::is_gaps;
use files::report::{Report, Settled, Subject};
use files::subjects::SPINNING_CONTROL;

use crate::report::cpus;
use crate::report::label::labels;
use crate::report::ranking::Ranking;
use crate::report::summary::caveats::describe_caveats;
use crate::report::summary::name_list::{join_names, label};
use crate::report::summary::narrator::Narrator;
use crate::report::summary::subject_line::{SubjectLine, subject_lines};

/// Returns the answer of a report in a sentence: the subject with the lowest percentile and by how
/// much, or the program of the user compared with it.
pub fn answer(ranking: &Ranking<'_>) -> String {
    if let Some(first) = report_sentences(ranking).into_iter().next() {
        return first;
    }
    let report = ranking.report();
    match describe_highest("highest lateness", report) {
        None => "Nothing was measured.".to_owned(),
        Some(_) if report.is_own() => "Too few ticks to rank the subjects.".to_owned(),
        Some(highest) => format!("{highest} No percentile is known."),
    }
}

/// Returns the sentences of the summary after the answer: the price of the subject with the lowest
/// percentile if the answer is about programs of the user, the lateness of the controls in the same
/// rounds, and caveats.
pub fn details(ranking: &Ranking<'_>) -> String {
    report_sentences(ranking).get(1..).unwrap_or_default().join(" ")
}

/// Returns the sentences of the summary, without line breaks.
///
/// The subjects are not ranked if the machine is trusted at no percentile. If they ran on several
/// CPUs at once, the sentences name the CPUs that differ instead.
fn report_sentences(ranking: &Ranking<'_>) -> Vec<String> {
    let (report, shown) = (ranking.report(), ranking.shown());
    let lines = subject_lines(report, shown);
    if is_gaps(report) {
        return Vec::from_iter(describe_highest("longest gap", report));
    }
    let mut sentences = cpus::sentences(report);
    if !sentences.is_empty() {
        sentences.extend(describe_caveats(ranking, &lines));
        return sentences;
    }
    let at = label(shown);
    let narrator = Narrator { ranking, lines: &lines, at: &at };
    sentences.extend(narrator.describe_programs());
    sentences.extend(match ranking.percentile() {
        Some(_) => narrator.describe_ranking(),
        None => Some(format!("Not ranked: even at {at}, the machine itself was late.")),
    });
    sentences.extend(describe_controls(report, &lines, &at));
    sentences.extend(describe_early_end(ranking));
    sentences.extend(describe_caveats(ranking, &lines));
    sentences
}

/// Says why a run was shorter than its plan, and what more time buys.
fn describe_early_end(ranking: &Ranking<'_>) -> Option<String> {
    let report = ranking.report();
    let Settled { rounds, planned_rounds } = report.settled?;
    let ticks = report.plan.scenarios.iter().map(|scenario| scenario.ticks).max()?;
    let share = rounds as f64 / planned_rounds as f64;
    let time = format_duration(report.duration_ns as f64 / 1e9 / share);
    // An order that the machine caused is not a result.
    let end = match ranking.percentile() {
        Some(_) => "The order was settled",
        None => "The run ended early,",
    };
    Some(format!(
        "{end} after {rounds} of {planned_rounds} rounds: --ticks {ticks} takes about {time} and gives \
         intervals {:.1} times as wide.",
        share.sqrt()
    ))
}

/// Names every subject with the highest value.
fn describe_highest(value: &str, report: &Report) -> Option<String> {
    let named = report.subjects.iter().zip(labels(report).names);
    let max_ns = |subject: &Subject| subject.summary.as_ref().map(|s| s.lateness_ns.max);
    let highest = report.subjects.iter().filter_map(max_ns).max()?;
    let names = named.filter(|(subject, _)| max_ns(subject) == Some(highest)).map(|(_, name)| name);
    let names: Vec<String> = names.collect();
    Some(format!("The {value} was {}, in {}.", format_time(highest), join_names(&names)))
}

/// Describes the lateness of the controls, in the same rounds if the report has rounds.
fn describe_controls(report: &Report, lines: &[SubjectLine<'_>], at: &str) -> Option<String> {
    let mut controls: Vec<_> = lines.iter().filter(|line| line.is_control()).collect();
    if controls.iter().any(|line| line.subject.load.is_none()) {
        // Controls under load show the effect of the load, which is in the table.
        controls.retain(|line| line.subject.load.is_none());
    }
    let mut described = Vec::new();
    for line in controls {
        let is_spinning = line.subject.name == SPINNING_CONTROL.name;
        let kind = if is_spinning { "a spinning thread" } else { "a sleeping thread" };
        described.push(format!("{kind} ({}) was {} late", line.name, format_time(line.late)));
    }
    if described.is_empty() {
        return None;
    }
    let has_rounds = report.subjects.iter().any(|subject| !subject.rounds.is_empty());
    let lead = if has_rounds { "In the same rounds" } else { "For comparison" };
    Some(format!("{lead}, at {at}, {}.", described.join(", and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::subject_sentences::sentences;
    use crate::report::synthetic::{self, ROUNDS, SyntheticSubject, subject};
    use files::file::File as _;
    use files::fitness::{Facts, Fitness};
    use files::subjects::is_control;

    fn summarize(report: &Report) -> String {
        report_sentences(&Ranking::new(report)).join(" ")
    }

    /// Reads the report fixture.
    fn report() -> Report {
        Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report")
    }

    #[test]
    fn summary_answers_for_every_program() {
        let mut report = report();
        let at = label(Ranking::new(&report).shown());
        let names: Vec<String> = report.subjects.iter().map(|s| s.name.clone()).collect();
        let is_control = |index: &usize| is_control(&names[*index]);
        let index = (0..names.len()).rfind(|index| !is_control(index)).expect("a subject");
        let id = report.subjects[index].id.clone();
        let scenario = report.plan.scenarios.iter_mut().find(|s| s.id == id).expect("its scenario");
        scenario.command = Some(vec!["./mine".to_owned()]);
        // Whatever its lateness, the program is in the first sentence.
        for factor in [0, 1, 1_000] {
            let mut report = report.clone();
            let summary = report.subjects[index].summary.as_mut().expect("a measured subject");
            summary.missed = Some(0);
            for value in [&mut summary.lateness_ns.p50, &mut summary.lateness_ns.p90]
                .into_iter()
                .chain([&mut summary.lateness_ns.p99])
            {
                *value = value.map(|ns| ns * factor);
            }
            let text = summarize(&report);
            let first = text.split(". ").next().expect("a sentence");
            assert!(first.contains(&names[index]), "{factor}: {text}");
        }
        report.subjects[index].summary = None;
        let expected = format!("At {at}, {} was not measured.", names[index]);
        assert!(summarize(&report).starts_with(&expected), "{}", summarize(&report));
    }

    #[test]
    fn distrusted_machine_has_no_ranking() {
        let mut report = report();
        for s in report.subjects.iter_mut().filter_map(|s| s.summary.as_mut()) {
            s.missed = Some(0);
        }
        report.settled = Some(Settled { rounds: 17, planned_rounds: 40 });
        let text = summarize(&report);
        assert!(text.contains("The order was settled after 17 of 40 rounds"), "{text}");
        report.fitness = Some(Fitness::from_facts(Facts::default(), Some("p50"), Some(2)));
        let text = summarize(&report);
        assert!(text.starts_with("Not ranked: "), "{text}");
        assert!(text.contains("The run ended early, after 17 of 40 rounds"), "{text}");
        let sentences = sentences(&Ranking::new(&report));
        assert!(sentences.iter().map(|(i, _)| *i).eq(0..report.subjects.len()), "{sentences:?}");
        for (_, sentence) in &sentences {
            assert_eq!(sentence.matches("(unreliable)").count(), 2, "{sentence}");
            assert!(!sentence.contains("no other ranked subject"), "{sentence}");
        }
    }

    /// Returns the answer and the details of synthetic subjects.
    fn describe(subjects: &[SyntheticSubject], program: Option<usize>) -> Vec<String> {
        let mut report = synthetic::report(subjects, ROUNDS);
        if let Some(program) = program {
            report.plan.scenarios[program].command = Some(vec!["./mine".to_owned()]);
        }
        report_sentences(&Ranking::new(&report))
    }

    /// Removes the intervals and numbers of a sentence.
    fn shape(sentence: &str) -> String {
        let mut shape = String::new();
        let mut is_bracketed = false;
        for c in sentence.chars() {
            is_bracketed = (is_bracketed || c == '[') && c != ']';
            if !is_bracketed && c != ']' && !c.is_ascii_digit() && c != '.' {
                shape.push(c);
            }
        }
        shape
    }

    #[test]
    fn winner_is_named_with_its_lead() {
        let sentences =
            describe(&[subject("a", 60.0, 300.0, 30.0), subject("b", 40.0, 200.0, 40.0)], None);
        let text = sentences.join(" ");
        assert!(text.starts_with("b had the lowest p99 ("), "{text}");
        assert!(
            text.contains(
                "and used 4.0 % of one core. a used the least CPU, 3.0 % of one core; its p99 was "
            ),
            "{text}"
        );
        assert_eq!(text.matches(" times ").count(), 1, "{text}");
    }

    #[test]
    fn tie_leads_with_separating_percentile() {
        let text =
            describe(&[subject("a", 60.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)], None)
                .join(" ");
        assert!(text.starts_with("b had the lowest p90 ("), "{text}");
        assert!(text.ends_with(" p99 shows no clear difference."), "{text}");
        assert_eq!(text.matches(" times ").count(), 1, "{text}");
    }

    #[test]
    fn equal_subjects_show_no_difference() {
        let equal = [subject("a", 40.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)];
        let text = describe(&equal, None).join(" ");
        assert_eq!(text, "No difference is shown at p99, p90 or p50 between a and b.");
        // The answer is about the program, and the tie is stated once.
        let [first, second] = &describe(&equal, Some(0))[..] else { panic!("two sentences") };
        assert_eq!(shape(first), "At p, a was  us late and used  % of one core");
        assert_eq!(*second, text);
    }

    #[test]
    fn program_ratio_is_stated_once() {
        for cost_us in [20.0, 30.0, 40.0] {
            let subjects = [subject("a", 60.0, 300.0, cost_us), subject("b", 40.0, 200.0, 30.0)];
            let text = describe(&subjects, Some(0)).join(" ");
            let factors = text.matches(" times ").count();
            assert!(text.starts_with("At p99, a was ") && factors == 1, "{text}");
            assert!(text.contains("as high as that of b. b had the lowest p99 ("), "{text}");
        }
    }

    #[test]
    fn shared_lead_names_no_winner() {
        let subjects = [
            subject("a", 60.0, 300.0, 30.0),
            subject("b", 40.0, 200.0, 30.0),
            subject("c", 40.0, 200.0, 30.0),
        ];
        let text = describe(&subjects, None).join(" ");
        let expected = "b and c had the lowest p99, with no clear difference between them.";
        assert_eq!(text, expected);
    }

    #[test]
    fn only_compared_pairs_are_tied() {
        // The first subject has too few rounds to be compared, and the others differ.
        let lowest = subject("a", 40.0, 200.0, 30.0);
        let others = [subject("b", 48.0, 240.0, 30.0), subject("c", 60.0, 300.0, 30.0)];
        let mut report = synthetic::report(&[lowest, others[0], others[1]], ROUNDS);
        report.subjects[0].rounds.truncate(5);
        assert!(Ranking::new(&report).difference(1, 2).is_clear());
        let text = summarize(&report);
        let expected = "No difference is shown at p99, p90 or p50 between the lowest and the others of a, b and c: \
                        without confidence intervals, none can be judged.";
        assert_eq!(text, expected);
        // A clearly higher subject makes it a shared lead.
        let equal = [lowest, subject("b", 40.0, 200.0, 30.0), subject("c", 40.0, 200.0, 30.0)];
        let text = describe(&[&equal[..], &[subject("d", 60.0, 300.0, 30.0)]].concat(), None);
        let expected = "a, b and c had the lowest p99, with no clear difference between the lowest of them and the others.";
        assert_eq!(text, [expected]);
    }

    #[test]
    fn zero_base_has_no_factor() {
        let subjects = [subject("a", 60.0, 300.0, 20.0), subject("b", 40.0, 200.0, 30.0)];
        for program in [None, Some(0)] {
            let mut report = synthetic::report(&subjects, ROUNDS);
            synthetic::remove_rounds(&mut report);
            let best = report.subjects[1].summary.as_mut().expect("a summary");
            for key in ["p50", "p90", "p99"] {
                best.lateness_ns.ci95.insert(key.to_owned(), [0, 0]);
            }
            let lateness = &mut best.lateness_ns;
            (lateness.p50, lateness.p90, lateness.p99) = (Some(0), Some(0), Some(0));
            if let Some(program) = program {
                report.plan.scenarios[program].command = Some(vec!["./mine".to_owned()]);
            }
            let text = summarize(&report);
            assert!(text.contains("b had the lowest p99 ("), "{text}");
            assert!(!text.contains(" times") && !text.contains(" as high"), "{text}");
        }
    }

    #[test]
    fn periods_without_difference_are_summed_up() {
        let equal = [subject("a", 40.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)];
        let mut report = synthetic::report(&[equal, equal].concat(), ROUNDS);
        for (index, subject) in report.subjects.iter_mut().enumerate().skip(2) {
            subject.period_ns = 2_000_000;
            subject.id = format!("{index}@2ms");
        }
        let text = summarize(&report);
        assert_eq!(text, "No difference is shown at p99, p90 or p50 for any period.");
    }

    #[test]
    fn subjects_behind_are_not_ranked() {
        let mut report = synthetic::report(
            &[subject("a", 60.0, 300.0, 30.0), subject("b", 40.0, 200.0, 30.0)],
            ROUNDS,
        );
        let summary = report.subjects[1].summary.as_mut().expect("a summary");
        summary.missed = Some(summary.ticks / 10 * 9);
        let text = summarize(&report);
        assert!(
            text.starts_with("a was ") && text.contains("b missed most of its ticks"),
            "{text}"
        );
        let ranked = sentences(&Ranking::new(&report));
        assert_eq!(ranked[1].0, 1);
        assert!(ranked.iter().all(|(_, text)| !text.contains("no other ranked")), "{ranked:?}");
    }
}
