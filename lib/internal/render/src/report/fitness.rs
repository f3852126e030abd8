//! A verdict in a few lines on whether a report can be trusted: the disturbances of the machine, the
//! percentiles that show the subjects, and the remedies if none of them does.

use cli::time::format_time;
use cli::words::prefix_or_empty;
use files::fitness::{Cause, Facts, Fitness, Reason, Verdict};
use files::report::{PERCENTILES, Report, Summary};
use files::subjects::{SLEEPING_CONTROL, SPINNING_CONTROL};

/// Returns the verdict in a word or two, and its explanation with the remedies of an unfit machine.
/// `None` if the report was not judged, or if nothing was found and there was no control that could
/// have found it.
pub fn describe_report(report: &Report) -> Option<(&'static str, String)> {
    let (label, explanation) = describe_causes(report)?;
    Some((label, explanation + &prefix_or_empty(" ", remedy(report.fitness.as_ref()?))))
}

/// Returns the verdict on a report as [`describe_report`] does, without the remedies.
pub fn describe_causes(report: &Report) -> Option<(&'static str, String)> {
    let spin = report.subjects.iter().find(|s| s.name == SPINNING_CONTROL.name);
    let spin = spin.and_then(|s| s.summary.as_ref());
    explain(report.fitness.as_ref()?, spin)
}

/// Explains a verdict by itself. `spin` is the summary of the spinning control, if it was measured.
fn explain(fitness: &Fitness, spin: Option<&Summary>) -> Option<(&'static str, String)> {
    let mut causes: Vec<String> =
        worst_reasons(fitness).map(|reason| describe_cause(reason, &fitness.facts)).collect();
    if let Some(share) = fitness.facts.spin_core {
        causes.push(format!("a spinning thread got {} of its core", format_fine_percent(share)));
    }
    if causes.is_empty() {
        return None;
    }
    let trust = prefix_or_empty(" ", trust_note(fitness, spin));
    Some((verdict_label(fitness.verdict), format!("{}.{trust}", causes.join("; "))))
}

/// Returns the reasons for the verdict. Reasons for a milder one are in the report only.
fn worst_reasons(fitness: &Fitness) -> impl Iterator<Item = &Reason> {
    fitness.reasons.iter().filter(|reason| reason.verdict == fitness.verdict)
}

/// Returns a verdict as a few sentences; `None` in the same cases as [`describe_report`].
pub fn sentence(fitness: Option<&Fitness>) -> Option<String> {
    let fitness = fitness?;
    let (label, explanation) = explain(fitness, None)?;
    Some(format!("{label}: {explanation}{}", prefix_or_empty(" ", remedy(fitness))))
}

/// Returns the remedies of an unfit machine as a sentence; `None` for any other machine.
fn remedy(fitness: &Fitness) -> Option<String> {
    if fitness.verdict != Verdict::Unfit {
        return None;
    }
    let remedies: Vec<&str> =
        worst_reasons(fitness).map(|reason| cause_remedy(reason.cause)).collect();
    Some(format!("Remedy: {}; then measure again.", remedies.join(", and ")))
}

fn cause_remedy(cause: Cause) -> &'static str {
    match cause {
        Cause::Suspended => "keep the machine from sleeping",
        Cause::Quota => "remove the CPU limit of the container or control group",
        Cause::Busy => "end other programs, or wait until they have ended",
        Cause::Steal => "use a machine with CPUs of its own, or a less busy host",
        Cause::Slowed => "cool the CPU or fix its frequency (osjitter doctor shows the settings)",
        Cause::Stopped => "let no debugger, signal or freezer stop the process",
        Cause::Pauses => {
            "use another machine or host, or search its firmware settings for management interrupts"
        }
        Cause::Uneven => "keep the load of the machine constant, or measure for longer",
    }
}

/// Returns the verdict of a report with the percentiles that can be trusted, in a few words.
pub fn brief(report: &Report) -> Option<String> {
    let fitness = report.fitness.as_ref()?;
    let (word, _) = describe_causes(report)?;
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

fn describe_cause(reason: &Reason, facts: &Facts) -> String {
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
                "{share} of the rounds of {} differ greatly from the rounds next to them",
                SLEEPING_CONTROL.name
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
        let end =
            " late. Remedy: end other programs, or wait until they have ended; then measure again.";
        assert!(text.starts_with(begin) && text.ends_with(end), "{text}");
    }

    #[test]
    fn unfit_machine_has_a_remedy() {
        let quiet = Facts { spin_core: Some(1.0), spin_gaps: Some(0.0), ..Facts::default() };
        let unfit = [
            (Facts { suspended_ns: Some(1 << 40), ..quiet.clone() }, "from sleeping"),
            (Facts { throttled: Some(0.5), ..quiet.clone() }, "CPU limit"),
            (Facts { waited: Some(0.5), ..quiet.clone() }, "end other programs"),
            (Facts { stolen: Some(0.5), ..quiet.clone() }, "CPUs of its own"),
            (Facts { spin_khz: Some([1, 4]), ..quiet.clone() }, "osjitter doctor"),
            (Facts { spin_core: Some(0.5), spin_gaps: Some(0.5), ..quiet.clone() }, "debugger"),
            (Facts { spin_gaps: Some(0.5), ..quiet.clone() }, "firmware"),
            (Facts { uneven_rounds: Some(0.9), ..quiet.clone() }, "for longer"),
        ];
        for (facts, remedy) in unfit {
            let text = describe_machine(facts, None);
            assert!(text.starts_with("Unfit machine: "), "{text}");
            let (_, found) = text.split_once(" Remedy: ").expect("a remedy");
            assert!(found.contains(remedy) && found.ends_with("; then measure again."), "{text}");
        }
        let several = Facts { waited: Some(0.5), stolen: Some(0.5), ..quiet.clone() };
        let text = describe_machine(several, None);
        assert!(text.contains("have ended, and use a machine"), "{text}");
        let noisy = Facts { waited: Some(0.05), ..quiet };
        assert!(!describe_machine(noisy, None).contains("Remedy"), "p50 can be trusted");
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
