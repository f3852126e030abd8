//! Whether to believe a report, in a line or two: what was wrong with the machine, and which
//! figures are its own.

use cli::time::format_time;
use files::fitness::{Cause, Facts, Fitness, Reason, Verdict};
use files::report::{PERCENTILES, Report, Summary};

/// The verdict in a word or two, and what follows from it; `None` for a report that was not judged,
/// and where nothing was found without the control that would have found it.
pub fn line(report: &Report) -> Option<(&'static str, String)> {
    let spin = report.subjects.iter().find(|s| s.name == "spin").and_then(|s| s.summary.as_ref());
    of(report.fitness.as_ref()?, spin)
}

/// The same of a verdict by itself, with what the spinning control came to, where it is known.
pub fn of(fitness: &Fitness, spin: Option<&Summary>) -> Option<(&'static str, String)> {
    // What is only noisy beside a reason that is worse stays in the report.
    let worst = fitness.reasons.iter().filter(|r| r.verdict == fitness.verdict);
    let mut because: Vec<String> = worst.map(|r| because(r, &fitness.facts)).collect();
    because.extend(
        fitness
            .facts
            .spin_core
            .map(|share| format!("a spinning thread got {} of its core", percent(share))),
    );
    (!because.is_empty()).then_some(())?;
    let because = format!("{}.", because.join("; "));
    let trust = trust(fitness, spin).map_or(String::new(), |trust| format!(" {trust}"));
    Some((word(fitness.verdict), because + &trust))
}

/// A verdict in a sentence or two; `None` as with [`of`].
pub fn sentence(fitness: Option<&Fitness>) -> Option<String> {
    of(fitness?, None).map(|(word, why)| format!("{word}: {why}"))
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Quiet => "Quiet machine",
        Verdict::Noisy => "Noisy machine",
        Verdict::Unfit => "Unfit machine",
    }
}

fn because(reason: &Reason, facts: &Facts) -> String {
    let share = percent(reason.value);
    match reason.cause {
        Cause::Suspended => format!("it was suspended for {}", format_time(reason.value as i64)),
        Cause::Quota => format!("the control group's CPU quota stopped it for {share} of the time"),
        Cause::Busy => format!("other programs held the CPU for {share} of the time"),
        Cause::Steal => format!("the hypervisor took {share} of its CPU time"),
        Cause::Slowed => format!("its CPU ran {share} below its own fastest"),
        Cause::Stopped => format!("the process was stopped for {share} of the time"),
        Cause::Pauses => {
            let longest = facts
                .spin_longest_gap_ns
                .map_or(String::new(), |ns| format!(", up to {} at once", format_time(ns)));
            format!(
                "it stood still for {share} of the time while nothing else ran{longest}: firmware or hypervisor"
            )
        }
        Cause::Uneven => format!("{share} of the rounds of nanosleep are unlike their neighbours"),
    }
}

/// Which percentiles are the machine's, and by how much.
fn trust(fitness: &Fitness, spin: Option<&Summary>) -> Option<String> {
    let at = PERCENTILES.iter().position(|p| Some(p.key) == fitness.distrust_from.as_deref())?;
    let (from, value) =
        spin?.lateness_ns.percentiles()[at..].iter().find_map(|(p, v)| Some((p.label, (*v)?)))?;
    let good = match at {
        0 => "nothing here is the subjects' own".to_owned(),
        1 => "medians are good".to_owned(),
        _ => format!("up to {} the figures are good", PERCENTILES[at - 1].label),
    };
    Some(format!(
        "Distrust {from} and above: a spinning thread was itself {} late there; {good}.",
        format_time(value)
    ))
}

fn percent(share: f64) -> String {
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

    /// The fixed report of the tests, on a machine with these facts.
    fn on(facts: Facts, distrust_from: Option<&str>) -> String {
        let mut report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        report.subjects[0].name = "spin".to_owned();
        report.fitness = Some(Fitness::from_facts(facts, distrust_from, Some(2)));
        let (word, why) = line(&report).expect("a judged report");
        format!("{word}: {why}")
    }

    #[test]
    fn a_quiet_machine_takes_half_a_line() {
        let quiet = Facts { spin_core: Some(0.9996), waited: Some(0.0001), ..Facts::default() };
        assert_eq!(on(quiet, None), "Quiet machine: a spinning thread got 100 % of its core.");
    }

    #[test]
    fn the_reason_stands_before_what_to_distrust() {
        let busy = Facts {
            spin_core: Some(0.31),
            waited: Some(0.681),
            uneven_rounds: Some(0.2),
            ..Facts::default()
        };
        let text = on(busy, Some("p90"));
        let begin = "Unfit machine: other programs held the CPU for 68.1 % of the time; a spinning thread got 31.0 % of \
                     its core. Distrust p90 and above: a spinning thread was itself ";
        assert!(
            text.starts_with(begin) && text.ends_with(" late there; medians are good."),
            "{text}"
        );
    }

    #[test]
    fn a_machine_that_only_seems_quiet_is_not_called_so() {
        let mut report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        let waited_little = Facts { waited: Some(0.001), ..Facts::default() };
        report.fitness = Some(Fitness::from_facts(waited_little, None, Some(2)));
        assert_eq!(line(&report), None, "no control that spins was there to find anything");
    }

    #[test]
    fn a_report_without_a_verdict_says_nothing() {
        let report =
            Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report");
        assert_eq!(line(&report), None);
    }
}
