//! Summarizes a report in plain English: only what the numbers show, without judgement or advice.

use std::collections::BTreeSet;

use cli::time::{format_share, format_time};
use files::report::{Report, Subject, Summary};

use crate::report::cost::core_percent;
use crate::report::label::{is_control, labels, unmeasured_reason};
use crate::report::quantity::is_gaps;
use crate::report::{origin, percentile, tradeoff};

/// A measured subject with the values that the sentences need.
struct SubjectLine<'a> {
    name: String,
    subject: &'a Subject,
    summary: &'a Summary,
    /// Lateness at the percentile by which the report ranks.
    late: i64,
    interval: Option<[i64; 2]>,
}

/// Summarizes a report in at most three sentences without line breaks: the most punctual subject
/// and its price, the lateness of the controls in the same rounds, and caveats.
pub fn summarize(report: &Report) -> String {
    let ranked = tradeoff::percentile(report);
    let lines = subject_lines(report, ranked);
    if is_gaps(report) {
        let longest = lines.iter().max_by_key(|l| l.summary.lateness_ns.max);
        return longest.map_or(String::new(), |l| {
            let gap = format_time(l.summary.lateness_ns.max);
            format!("The longest gap was {gap}, of {}.", l.name)
        });
    }
    let at = ranked.replace('_', ".");
    let sentences = [
        describe_tradeoff(&lines, &at),
        describe_controls(report, &lines, &at),
        describe_caveats(report, &lines),
    ];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Returns the subjects whose sample size supports the percentile `ranked`.
fn subject_lines<'a>(report: &'a Report, ranked: &str) -> Vec<SubjectLine<'a>> {
    let named = report.subjects.iter().zip(labels(report).names);
    named
        .filter_map(|(subject, name)| {
            let summary = subject.summary.as_ref()?;
            let late = percentile::value(&summary.lateness_ns, ranked)?;
            let interval = summary.lateness_ns.ci95.get(ranked).copied();
            Some(SubjectLine { name, subject, summary, late, interval })
        })
        .collect()
}

/// The period and load of a subject. Only subjects with the same conditions compete.
type Conditions<'a> = (u64, Option<&'a str>);

fn conditions<'a>(line: &SubjectLine<'a>) -> Conditions<'a> {
    (line.subject.period_ns, line.subject.load.as_deref())
}

/// Returns the subject with the least lateness.
fn most_punctual<'s, 'a>(lines: &[&'s SubjectLine<'a>]) -> Option<&'s SubjectLine<'a>> {
    lines.iter().copied().min_by_key(|line| line.late)
}

/// Names the most punctual subject and its price; with several periods or loads, that of each.
fn describe_tradeoff(lines: &[SubjectLine<'_>], at: &str) -> Option<String> {
    let subjects: Vec<&SubjectLine<'_>> =
        lines.iter().filter(|l| !is_control(&l.subject.name)).collect();
    let groups: BTreeSet<Conditions<'_>> = subjects.iter().map(|l| conditions(l)).collect();
    let eligible = |group: Conditions<'_>| -> Vec<&SubjectLine<'_>> {
        let members = subjects.iter().copied().filter(|l| conditions(l) == group);
        members.filter(|l| tradeoff::keeps_up(l.subject)).collect()
    };
    if let (1, Some(group)) = (groups.len(), groups.first()) {
        return Some(describe_group(&eligible(*group), subjects.len(), at));
    }
    let best = groups.iter().filter_map(|group| most_punctual(&eligible(*group)));
    let described: Vec<String> = best
        .map(|l| format!("{} ({}{})", l.name, format_time(l.late), format_cost(l.subject, " for")))
        .collect();
    let loads: BTreeSet<Option<&str>> = groups.iter().map(|(_, load)| *load).collect();
    let each = match (loads.len(), groups.len()) {
        (1, _) => "period",
        (loads, groups) if loads == groups => "load",
        _ => "period and load",
    };
    (!described.is_empty())
        .then(|| format!("The least late of each {each} at {at}: {}.", described.join(", ")))
}

/// Describes the most punctual of the subjects that keep up, if all subjects have the same
/// conditions; `subjects` is their number, including those that do not keep up.
fn describe_group(eligible: &[&SubjectLine<'_>], subjects: usize, at: &str) -> String {
    let Some(best) = most_punctual(eligible) else {
        return "Every subject missed more than half of its ticks: none is ranked.".to_owned();
    };
    if eligible.len() > 1 {
        return describe_best(best, eligible, at);
    }
    let rest = if subjects > 1 { " It alone missed no more than half of its ticks." } else { "" };
    let cost = format_cost(best.subject, ", for");
    format!("{} was {} late at {at}{cost}.{rest}", best.name, format_time(best.late))
}

/// Compares the most punctual of several subjects with the cheapest.
fn describe_best(best: &SubjectLine<'_>, eligible: &[&SubjectLine<'_>], at: &str) -> String {
    let is_equal = |l: &SubjectLine<'_>| l.late == best.late || overlap(l.interval, best.interval);
    let near = eligible.iter().find(|l| l.name != best.name && is_equal(l));
    let near = near.map_or(String::new(), |l| format!(" (not clearly apart from {})", l.name));
    let price = core_percent(best.subject);
    let priced = eligible.iter().filter_map(|l| Some((core_percent(l.subject)?, *l)));
    let cheapest = priced.min_by(|a, b| a.0.total_cmp(&b.0));
    match cheapest.filter(|(_, l)| l.name != best.name).zip(price) {
        Some(((core, cheapest), price)) => format!(
            "{} was the least late at {at}{near}, for {} % of one core; {}, the cheapest at {} %, was {} as late.",
            best.name,
            format_digits(price),
            cheapest.name,
            format_digits(core),
            format_factor(cheapest.late as f64 / best.late.max(1) as f64)
        ),
        None => {
            let cheapest = if price.is_some() { " and the cheapest" } else { "" };
            let cost = format_cost(best.subject, ", for");
            format!("{} was the least late at {at}{near}{cheapest}{cost}.", best.name)
        }
    }
}

fn overlap(a: Option<[i64; 2]>, b: Option<[i64; 2]>) -> bool {
    a.zip(b).is_some_and(|(a, b)| a[0] <= b[1] && b[0] <= a[1])
}

/// Describes the lateness of the controls, in the same rounds if the report has rounds.
fn describe_controls(report: &Report, lines: &[SubjectLine<'_>], at: &str) -> Option<String> {
    let control =
        |name: &str| if name == "spin" { "a spinning thread" } else { "a sleeping thread" };
    let has_unloaded =
        lines.iter().any(|l| is_control(&l.subject.name) && l.subject.load.is_none());
    // Controls under load show the effect of the load, which is in the table.
    let is_shown = |l: &&SubjectLine<'_>| {
        is_control(&l.subject.name) && (l.subject.load.is_none() || !has_unloaded)
    };
    let controls = lines.iter().filter(is_shown);
    let described: Vec<String> = controls
        .map(|l| {
            format!("{} ({}) was {} late", control(&l.subject.name), l.name, format_time(l.late))
        })
        .collect();
    let lead = if report.subjects.iter().all(|s| s.rounds.is_empty()) {
        "For comparison"
    } else {
        "In the same rounds"
    };
    (!described.is_empty()).then(|| format!("{lead}, at {at}, {}.", described.join(", and ")))
}

/// Lists what the numbers of the table hide: early, coalesced and skipped ticks, subjects that are
/// not ranked, the cost of the observer, and stolen CPU time.
fn describe_caveats(report: &Report, lines: &[SubjectLine<'_>]) -> Option<String> {
    let odd = |line: &SubjectLine<'_>| -> Vec<String> {
        let (s, name) = (line.summary, &line.name);
        let share = |n: u64, what: &str| {
            (n > 0).then(|| format!("{name} {what} {} of its ticks", format_share(n, s.ticks)))
        };
        [
            share(s.early, "was early for"),
            share(s.coalesced, "woke once for several of"),
            share(s.skipped, "skipped"),
        ]
        .into_iter()
        .flatten()
        .collect()
    };
    let is_behind =
        |l: &&SubjectLine<'_>| !is_control(&l.subject.name) && !tradeoff::keeps_up(l.subject);
    let behind: Vec<&str> = lines.iter().filter(is_behind).map(|l| l.name.as_str()).collect();
    let unranked = match behind.as_slice() {
        [] => None,
        [name] => Some(format!("{name} missed most of its ticks and is not ranked")),
        [rest @ .., last] => Some(format!(
            "{} and {last} missed most of their ticks and are not ranked",
            rest.join(", ")
        )),
    };
    let oddities = lines.iter().flat_map(odd).chain(describe_observer(report, lines));
    let caveats: Vec<String> =
        unranked.into_iter().chain(oddities).chain(describe_steal(report)).collect();
    (!caveats.is_empty()).then(|| format!("Beware: {}.", caveats.join("; ")))
}

/// Describes the cost of the observer if it is at least a tenth of a median lateness.
fn describe_observer(report: &Report, lines: &[SubjectLine<'_>]) -> Option<String> {
    let ns = report.clock.observer_ns_per_tick?;
    let least = lines.iter().filter_map(|l| l.summary.lateness_ns.p50).min()?;
    (least <= i64::try_from(ns.saturating_mul(10)).unwrap_or(i64::MAX))
        .then(|| origin::observer(report))
        .flatten()
}

/// Returns one sentence per subject: its index in the report, and the text that follows its name.
///
/// The most punctual subject by the ranking percentile comes first, then subjects that miss most of
/// their ticks, then the controls, then subjects that could not be measured.
pub fn sentences(report: &Report) -> Vec<(usize, String)> {
    let front: Vec<usize> =
        tradeoff::points(report).iter().filter(|p| p.front).map(|p| p.subject).collect();
    let mut ranking: Vec<(usize, &Subject)> = report.subjects.iter().enumerate().collect();
    let ranked = tradeoff::percentile(report);
    ranking.sort_by_key(|(_, s)| {
        let d = s.summary.as_ref().map(|m| &m.lateness_ns);
        let late = d.map(|d| percentile::value(d, ranked).unwrap_or(d.max));
        (late.is_none(), is_control(&s.name), !tradeoff::keeps_up(s), late)
    });
    ranking
        .into_iter()
        .map(|(i, subject)| (i, describe_subject(subject, front.contains(&i), is_gaps(report))))
        .collect()
}

fn describe_subject(subject: &Subject, front: bool, gaps: bool) -> String {
    let Some(summary) = &subject.summary else {
        return format!("was not measured: {}.", unmeasured_reason(subject));
    };
    let d = &summary.lateness_ns;
    if gaps {
        return format!(
            "had gaps of {} at most, among {} of its loop.",
            format_time(d.max),
            summary.ticks
        );
    }
    let late = match (d.p50, d.p99) {
        (Some(p50), Some(p99)) => {
            format!("was {} late at the median and {} at p99", format_time(p50), format_time(p99))
        }
        (Some(p50), None) => {
            format!(
                "was {} late at the median and at most {}",
                format_time(p50),
                format_time(d.max)
            )
        }
        _ => format!("was at most {} late", format_time(d.max)),
    };
    let cost = format_cost(subject, ", for");
    let missed = match summary.missed {
        // Without a period there is no next deadline to miss.
        _ if subject.period_ns == 0 => String::new(),
        0 => "; it missed no tick".to_owned(),
        n => format!("; it missed {}", format_share(n, summary.ticks)),
    };
    let unbeaten = if front { "; nothing else was both more punctual and cheaper" } else { "" };
    format!("{late}{cost}{missed}{unbeaten}.")
}

/// Returns the warnings as sentences, one for each code: the first with this code, and the number
/// of others.
pub fn warnings(report: &Report) -> Vec<String> {
    let warnings = &report.warnings;
    let first_of_code = warnings
        .iter()
        .enumerate()
        .filter(|(i, w)| !warnings[..*i].iter().any(|before| before.code == w.code));
    let end_sentence = |text: &str| {
        if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
    };
    first_of_code
        .map(|(_, w)| {
            let others = warnings.iter().filter(|other| other.code == w.code).count() - 1;
            let more =
                if others > 0 { format!(" (And {others} more like it.)") } else { String::new() };
            format!("{}: {} {}{more}", w.code, end_sentence(&w.message), end_sentence(&w.hint))
        })
        .collect()
}

/// Minimum share of stolen time that is worth a sentence.
const MIN_STEAL: f64 = 0.01;

/// Describes stolen CPU time in a report without a fitness verdict; a verdict includes it.
fn describe_steal(report: &Report) -> Option<String> {
    report.fitness.is_none().then_some(())?;
    let rounds =
        || report.subjects.iter().flat_map(|s| s.rounds.iter().map(move |r| (s.period_ns, r)));
    let stolen: f64 = rounds().filter_map(|(_, r)| r.steal_ns).map(|ns| ns as f64).sum();
    let round_ns = |(period, r): (u64, &files::report::Round)| {
        r.summary.as_ref().map_or(0.0, |s| s.ticks as f64 * period as f64)
    };
    let span: f64 = rounds().map(round_ns).sum();
    let cpus = report.host.cpus_online?;
    let share = stolen / (span * cpus as f64);
    (share >= MIN_STEAL)
        .then(|| format!("the hypervisor took {:.0} % of the CPU time away", share * 100.0))
}

fn format_cost(subject: &Subject, lead: &str) -> String {
    core_percent(subject)
        .map_or(String::new(), |c| format!("{lead} {} % of one core", format_digits(c)))
}

fn format_factor(times: f64) -> String {
    match times {
        t if t < 1.995 => format!("{t:.2} times"),
        t if t < 1_000.0 => format!("{} times", format_digits(t)),
        t => format!("{:.1} thousand times", t / 1_000.0),
    }
}

/// Formats a number with two or three digits; a run does not support more.
fn format_digits(value: f64) -> String {
    match value {
        v if v >= 10.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::file::File as _;

    /// Reads the report fixture.
    fn report() -> Report {
        Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report")
    }

    #[test]
    fn each_subject_has_one_sentence() {
        let report = report();
        let ranked = sentences(&report);
        let mut indices: Vec<usize> = ranked.iter().map(|(i, _)| *i).collect();
        assert!(report.subjects[indices[0]].name != "spin", "a control is not ranked");
        indices.sort_unstable();
        assert!(indices.iter().copied().eq(0..report.subjects.len()));
        assert!(ranked.iter().all(|(_, s)| s.starts_with("was ")
            && s.ends_with('.')
            && s.matches(". ").count() == 0));
    }

    #[test]
    fn rankedfollow_the_named_ranking() {
        let mut report = report();
        report.subjects.iter_mut().filter_map(|s| s.summary.as_mut()).for_each(|s| s.missed = 0);
        let at = tradeoff::percentile(&report).replace('_', ".");
        let first = report.subjects[sentences(&report)[0].0].name.clone();
        let text = summarize(&report);
        assert!(
            text.starts_with(&format!("{first} was the least late at {at}")),
            "{first}: {text}"
        );
        assert!(text.matches(". ").count() < 3, "{text}");
        // A subject that misses nine of ten ticks is not ranked first.
        for summary in report
            .subjects
            .iter_mut()
            .filter(|s| s.name == first)
            .filter_map(|s| s.summary.as_mut())
        {
            summary.missed = summary.ticks / 10 * 9;
        }
        let text = summarize(&report);
        assert!(
            !text.starts_with(&first)
                && text.contains("missed most of")
                && text.contains("not ranked"),
            "{text}"
        );
        let ranked = sentences(&report);
        let rank = |name: &str| {
            ranked.iter().position(|(i, _)| report.subjects[*i].name == name).expect("it is there")
        };
        assert!(
            rank(&first) > 0 && !ranked[rank(&first)].1.contains("nothing else was"),
            "{ranked:?}"
        );
    }
}
