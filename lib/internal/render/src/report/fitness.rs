//! A verdict in one or two lines on whether a report can be trusted: what disturbed the machine,
//! and which percentiles show the subjects.

use cli::time::format_time;
use cli::words::prefix_or_empty;
use files::fitness::{Cause, Facts, Fitness, Reason, Verdict};
use files::report::{PERCENTILES, Report, Summary};

/// Returns the verdict in a word or two, and its explanation. `None` if the report was not judged,
/// or if nothing was found and there was no control that could have found it.
pub fn describe_report(report: &Report) -> Option<(&'static str, String)> {
    let spin = report.subjects.iter().find(|s| s.name == "spin").and_then(|s| s.summary.as_ref());
    describe(report.fitness.as_ref()?, spin)
}

/// Describes a verdict by itself. `spin` is the summary of the spinning control, if it was
/// measured.
pub fn describe(fitness: &Fitness, spin: Option<&Summary>) -> Option<(&'static str, String)> {
    // Reasons for a milder verdict are in the report only.
    let worst = fitness.reasons.iter().filter(|r| r.verdict == fitness.verdict);
    let mut reasons: Vec<String> = worst.map(|r| explain(r, &fitness.facts)).collect();
    if let Some(share) = fitness.facts.spin_core {
        reasons.push(format!("a spinning thread got {} of its core", format_fine_percent(share)));
    }
    if reasons.is_empty() {
        return None;
    }
    let trust = prefix_or_empty(" ", trust_note(fitness, spin));
    Some((verdict_label(fitness.verdict), format!("{}.{trust}", reasons.join("; "))))
}

/// Returns a verdict as a sentence or two; `None` in the same cases as [`describe`].
pub fn sentence(fitness: Option<&Fitness>) -> Option<String> {
    describe(fitness?, None).map(|(word, why)| format!("{word}: {why}"))
}

/// Returns the verdict of a report with the percentiles that can be trusted, in a few words.
pub fn brief(report: &Report) -> Option<String> {
    let fitness = report.fitness.as_ref()?;
    let (word, _) = describe_report(report)?;
    Some(match fitness.first_distrusted() {
        Some(first) => format!("{word}: {}", trusted_range(first).to_lowercase()),
        None => word.to_owned(),
    })
}

fn verdict_label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Quiet => "Quiet machine",
        Verdict::Noisy => "Noisy machine",
        Verdict::Unfit => "Unfit machine",
    }
}

fn explain(reason: &Reason, facts: &Facts) -> String {
    let share = format_fine_percent(reason.value);
    match reason.cause {
        Cause::Suspended => format!("it was suspended for {}", format_time(reason.value as i64)),
        Cause::Quota => format!("the control group's CPU quota stopped it for {share} of the time"),
        Cause::Busy => format!("other programs held the CPU for {share} of the time"),
        Cause::Steal => format!("the hypervisor took {share} of its CPU time"),
        Cause::Slowed => format!("its CPU slowed down by {share}"),
        Cause::Stopped => format!("the process was stopped for {share} of the time"),
        Cause::Pauses => {
            let longest = facts.spin_longest_gap_ns.map_or(String::new(), describe_longest_gap);
            format!("firmware or the hypervisor stopped the CPU for {share} of the time{longest}")
        }
        Cause::Uneven => {
            format!(
                "{share} of the rounds of nanosleep differ greatly from the rounds next to them"
            )
        }
    }
}

/// Returns a sentence on which percentiles can be trusted, and how late the machine itself was at
/// the first of the others.
fn trust_note(fitness: &Fitness, spin: Option<&Summary>) -> Option<String> {
    let first = fitness.first_distrusted()?;
    let values = spin?.lateness_ns.percentiles();
    let (at, late) = values[first..].iter().find_map(|(p, value)| Some((p.label, (*value)?)))?;
    let trusted = trusted_range(first);
    let late = format_time(late);
    Some(format!("{trusted}: at {at}, the spinning thread itself was {late} late."))
}

/// Returns the percentiles below the first one that cannot be trusted.
fn trusted_range(first_distrusted: usize) -> String {
    match first_distrusted {
        0 => "Trust no percentile".to_owned(),
        1 => "Trust only p50".to_owned(),
        _ => format!("Trust p50 to {}", PERCENTILES[first_distrusted - 1].label),
    }
}

fn describe_longest_gap(ns: i64) -> String {
    format!(", at most {} at a time", format_time(ns))
}

/// Formats a share in per cent, with two decimals below ten per cent.
fn format_fine_percent(share: f64) -> String {
    match share * 100.0 {
        p if p >= 99.95 => "100 %".to_owned(),
        p if p >= 10.0 => format!("{p:.1} %"),
        p => format!("{p:.2} %"),
    }
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    /// Describes the report fixture on a machine with these facts.
    fn describe_machine(facts: Facts, distrust_from: Option<&str>) -> String {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        report.subjects[0].name = "spin".to_owned();
        report.fitness = Some(Fitness::from_facts(facts, distrust_from, Some(2)));
        let (word, why) = describe_report(&report).expect("a judged report");
        format!("{word}: {why}")
    }

    #[test]
    fn quiet_machine_is_described_briefly() {
        let quiet = Facts { spin_core: Some(0.9996), waited: Some(0.0001), ..Facts::default() };
        assert_eq!(
            describe_machine(quiet, None),
            "Quiet machine: a spinning thread got 100 % of its core."
        );
    }

    #[test]
    fn reason_comes_before_distrusted_percentiles() {
        let busy = Facts {
            spin_core: Some(0.31),
            waited: Some(0.681),
            uneven_rounds: Some(0.2),
            ..Facts::default()
        };
        let text = describe_machine(busy, Some("p90"));
        let begin = "Unfit machine: other programs held the CPU for 68.1 % of the time; a spinning thread got 31.0 % of \
                     its core. Trust only p50: at p90, ";
        assert!(text.starts_with(begin) && text.ends_with(" late."), "{text}");
    }

    #[test]
    fn trusted_percentiles_are_named() {
        for (first, trusted) in [
            ("p50", "no percentile: at p50,"),
            ("p90", "only p50: at p90,"),
            ("p99", "p50 to p90: at p99,"),
        ] {
            let text =
                describe_machine(Facts { spin_core: Some(0.9), ..Facts::default() }, Some(first));
            assert!(text.contains(&format!("Trust {trusted}")), "{first}: {text}");
        }
    }

    #[test]
    fn quiet_needs_a_spinning_control() {
        let mut report =
            Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
                .expect("a report");
        let waited_little = Facts { waited: Some(0.001), ..Facts::default() };
        report.fitness = Some(Fitness::from_facts(waited_little, None, Some(2)));
        assert_eq!(
            describe_report(&report),
            None,
            "no control that spins was there to find anything"
        );
    }

    #[test]
    fn unjudged_report_has_no_description() {
        let report = Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report");
        assert_eq!(describe_report(&report), None);
    }
}
