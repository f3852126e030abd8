//! A report in plain English: only what its numbers show, no judgement and no advice.

use std::cmp::Ordering;

use jitterstat::report::{Report, Subject, Summary};

use crate::render::cost::core_percent;
use crate::render::label::{is_control, labels, why_unmeasured};
use crate::render::quantity::is_gaps;
use crate::render::tradeoff;
use crate::text::time::time;

/// One subject as the sentences need it.
struct Line<'a> {
    name: String,
    subject: &'a Subject,
    summary: &'a Summary,
    p50: i64,
}

/// The summary, without line breaks; empty where no subject has a median.
pub fn reading(report: &Report) -> String {
    let names = labels(report).names;
    let lines: Vec<Line<'_>> = report
        .subjects
        .iter()
        .zip(names)
        .filter_map(|(subject, name)| {
            let summary = subject.summary.as_ref()?;
            Some(Line { name, subject, summary, p50: summary.lateness_ns.p50? })
        })
        .collect();
    let mut periods: Vec<u64> = lines.iter().map(|l| l.subject.period_ns).collect();
    periods.sort_unstable();
    periods.dedup();
    let mut sentences = Vec::new();
    for &period in &periods {
        let group: Vec<&Line<'_>> = lines.iter().filter(|l| l.subject.period_ns == period).collect();
        if is_gaps(report) {
            sentences
                .extend(group.iter().map(|l| format!("{}: longest gap {}.", l.name, time(l.summary.lateness_ns.max))));
        } else {
            sentences.extend(of_one_period(&group));
        }
    }
    sentences.extend(lines.iter().flat_map(oddities));
    sentences.extend(steal(report));
    sentences.join(" ")
}

/// One sentence per subject: its place in the report, and what follows its name.
/// The most punctual stands first, the controls come after all others, what could not be measured last. *Unbeaten* is
/// what no other subject of its period beats in both lateness and cost.
pub fn sentences(report: &Report) -> Vec<(usize, String)> {
    let front: Vec<usize> = tradeoff::points(report).iter().filter(|p| p.front).map(|p| p.subject).collect();
    let mut all: Vec<(usize, &Subject)> = report.subjects.iter().enumerate().collect();
    all.sort_by_key(|(_, s)| {
        let late = s.summary.as_ref().map(|m| m.lateness_ns.p99.or(m.lateness_ns.p50).unwrap_or(m.lateness_ns.max));
        (late.is_none(), is_control(&s.name), late)
    });
    all.into_iter().map(|(i, subject)| (i, sentence(subject, front.contains(&i), is_gaps(report)))).collect()
}

fn sentence(subject: &Subject, front: bool, gaps: bool) -> String {
    let Some(summary) = &subject.summary else {
        return format!("was not measured: {}.", why_unmeasured(subject));
    };
    let d = &summary.lateness_ns;
    if gaps {
        return format!("had gaps of {} at most, among {} of its loop.", time(d.max), summary.ticks);
    }
    let late = match (d.p50, d.p99) {
        (Some(p50), Some(p99)) => format!("was {} late at the median and {} at p99", time(p50), time(p99)),
        (Some(p50), None) => format!("was {} late at the median and at most {}", time(p50), time(d.max)),
        _ => format!("was at most {} late", time(d.max)),
    };
    let cost = cost(subject, ", for");
    let missed = match summary.missed {
        // Without a period there is no next deadline to miss.
        _ if subject.period_ns == 0 => String::new(),
        0 => "; it missed no tick".to_owned(),
        n => format!("; it missed {}", share(n, summary.ticks)),
    };
    let unbeaten = if front { "; unbeaten" } else { "" };
    format!("{late}{cost}{missed}{unbeaten}.")
}

/// The warnings as sentences, one for each code: the first of its kind, and how many others there are.
pub fn warnings(report: &Report) -> Vec<String> {
    let all = &report.warnings;
    let first = all.iter().enumerate().filter(|(i, w)| !all[..*i].iter().any(|before| before.code == w.code));
    let ended = |text: &str| if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") };
    first
        .map(|(_, w)| {
            let others = all.iter().filter(|other| other.code == w.code).count() - 1;
            let more = if others > 0 { format!(" (And {others} more like it.)") } else { String::new() };
            format!("{}: {} {}{more}", w.code, ended(&w.message), ended(&w.hint))
        })
        .collect()
}

fn of_one_period(group: &[&Line<'_>]) -> Vec<String> {
    let (controls, subjects): (Vec<&Line<'_>>, Vec<&Line<'_>>) =
        group.iter().partition(|l| is_control(&l.subject.name));
    let mut sentences = Vec::new();
    let by_median = |a: &&&Line<'_>, b: &&&Line<'_>| a.p50.cmp(&b.p50);
    if let Some(least) = subjects.iter().min_by(by_median) {
        let with_p99 = least.summary.lateness_ns.p99.map_or(String::new(), |v| format!(" and {} at p99", time(v)));
        let cost = cost(least.subject, ", for");
        let of = if subjects.len() > 1 { "was the least late:" } else { "was late by" };
        sentences.push(format!("{} {of} {} at the median{with_p99}{cost}.", least.name, time(least.p50)));
        if let Some(most) = subjects.iter().max_by(by_median).filter(|m| m.name != least.name) {
            sentences.push(against(most, least));
        }
    }
    let controls: Vec<String> = controls.iter().map(|c| control(c)).collect();
    if !controls.is_empty() {
        sentences.push(format!("In the same rounds {}.", controls.join(", and ")));
    }
    let missed: Vec<String> = group
        .iter()
        .filter(|l| l.summary.missed > 0)
        .map(|l| format!("{} {}", l.name, share(l.summary.missed, l.summary.ticks)))
        .collect();
    if group.iter().any(|l| l.subject.period_ns == 0) {
        // Without a period there is no next one to be late for.
        return sentences;
    }
    sentences.push(if missed.is_empty() {
        "Every tick came before the next one was due.".to_owned()
    } else {
        format!("Ticks that had not come when the next one was due: {}.", missed.join(", "))
    });
    sentences
}

/// The latest against the least late: a ratio where the intervals are apart, else that they are not.
fn against(most: &Line<'_>, least: &Line<'_>) -> String {
    let interval = |l: &Line<'_>| l.summary.lateness_ns.ci95.get("p50").copied();
    let cost = cost(most.subject, ", for");
    let same = interval(most).zip(interval(least)).is_some_and(|(m, l)| m[0] <= l[1]);
    if same {
        format!("The latest was {}, at {}{cost}: the intervals of the two medians overlap.", most.name, time(most.p50))
    } else {
        let times = most.p50 as f64 / least.p50.max(1) as f64;
        format!("{} was the latest: {} at the median, {} as late{cost}.", most.name, time(most.p50), fold(times))
    }
}

fn control(line: &Line<'_>) -> String {
    let what = if line.subject.name == "spin" { "a spinning thread" } else { "a sleeping thread" };
    let cost = cost(line.subject, " for");
    format!("{what} ({}) was {} late{cost}", line.name, time(line.p50))
}

/// Ticks that came early, shared a wake-up, or never came.
fn oddities(line: &Line<'_>) -> Vec<String> {
    let summary = line.summary;
    let odd = [
        (summary.early, "came before their deadline"),
        (summary.coalesced, "shared the wake-up of a later one"),
        (summary.skipped, "were skipped"),
    ];
    let odd = odd.into_iter().filter(|(n, _)| *n > 0);
    odd.map(|(n, what)| format!("{}: {} of the ticks {what}.", line.name, share(n, summary.ticks))).collect()
}

/// Least share of stolen time that is worth a sentence.
const LEAST_STEAL: f64 = 0.01;

fn steal(report: &Report) -> Option<String> {
    let rounds = || report.subjects.iter().flat_map(|s| s.rounds.iter().map(move |r| (s.period_ns, r)));
    let stolen: u64 = rounds().filter_map(|(_, r)| r.steal_ns).sum();
    let asked = |(period, r): (u64, &jitterstat::report::Round)| r.summary.as_ref().map_or(0, |s| s.ticks * period);
    let span: u64 = rounds().map(asked).sum();
    let cpus = report.host.cpus_online?;
    let share = stolen as f64 / (span as f64 * cpus as f64);
    (share >= LEAST_STEAL)
        .then(|| format!("While it measured, the hypervisor took {:.0} % of the CPU time away.", share * 100.0))
}

fn cost(subject: &Subject, lead: &str) -> String {
    core_percent(subject).map_or(String::new(), |c| format!("{lead} {} % of one core", digits(c)))
}

fn share(part: u64, whole: u64) -> String {
    let percent = part as f64 / whole.max(1) as f64 * 100.0;
    match percent.partial_cmp(&0.01) {
        Some(Ordering::Less) => format!("{part} in {whole}"),
        _ => format!("{} %", digits(percent)),
    }
}

fn fold(times: f64) -> String {
    match times {
        t if t < 1.995 => format!("{t:.2} times"),
        t if t < 1_000.0 => format!("{} times", digits(t)),
        t => format!("{:.1} thousand times", t / 1_000.0),
    }
}

/// Two or three digits: a run supports no more.
fn digits(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitterstat::file::File as _;

    /// The fixed report of the tests, read as any other.
    fn report() -> Report {
        Report::from_json(include_str!("../../tests/fixtures/report.json")).expect("a report")
    }

    #[test]
    fn each_subject_has_one_sentence() {
        let report = report();
        let said = sentences(&report);
        let mut places: Vec<usize> = said.iter().map(|(i, _)| *i).collect();
        assert!(report.subjects[places[0]].name != "spin", "a control is no answer");
        places.sort_unstable();
        assert!(places.iter().copied().eq(0..report.subjects.len()));
        assert!(said.iter().all(|(_, s)| s.starts_with("was ") && s.ends_with('.') && s.matches(". ").count() == 0));
    }

    #[test]
    fn small_shares_are_counts() {
        assert_eq!(share(1, 1_000_000), "1 in 1000000");
        assert_eq!((share(1, 8), share(1, 2), share(1, 100)), ("12 %".into(), "50 %".into(), "1.0 %".into()));
    }
}
