//! Summarizes a report in plain English: only what the numbers show, without judgement or advice.

use std::collections::BTreeSet;

use cli::time::{format_share, format_time};
use files::report::{Report, Subject, Summary, Warning};

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

/// Summarizes a report in at most four sentences without line breaks: the programs of the user, the
/// most punctual subject and its price, the lateness of the controls in the same rounds, and
/// caveats.
pub fn summarize(report: &Report) -> String {
    let ranked = tradeoff::percentile(report);
    let lines = subject_lines(report, ranked);
    if is_gaps(report) {
        return describe_longest_gap(&lines).unwrap_or_default();
    }
    let at = ranked.replace('_', ".");
    let mut sentences: Vec<String> = Vec::new();
    sentences.extend(describe_programs(report, &lines, &at));
    sentences.extend(describe_tradeoff(&lines, &at));
    sentences.extend(describe_controls(report, &lines, &at));
    sentences.extend(describe_caveats(report, &lines));
    sentences.join(" ")
}

/// Returns the subjects whose sample size supports the percentile `ranked`.
fn subject_lines<'a>(report: &'a Report, ranked: &str) -> Vec<SubjectLine<'a>> {
    let named = report.subjects.iter().zip(labels(report).names);
    named.filter_map(|(subject, name)| SubjectLine::new(subject, name, ranked)).collect()
}

impl<'a> SubjectLine<'a> {
    fn new(subject: &'a Subject, name: String, ranked: &str) -> Option<Self> {
        let summary = subject.summary.as_ref()?;
        let late = percentile::value(&summary.lateness_ns, ranked)?;
        let interval = summary.lateness_ns.ci95.get(ranked).copied();
        Some(Self { name, subject, summary, late, interval })
    }

    fn is_control(&self) -> bool {
        is_control(&self.subject.name)
    }
}

/// Maximum number of programs of the user that are described.
const MAX_PROGRAMS: usize = 5;

/// Describes the user's programs, except those that are named as the most punctual subject.
fn describe_programs(report: &Report, lines: &[SubjectLine<'_>], at: &str) -> Option<String> {
    let mut described = Vec::new();
    let named = report.subjects.iter().zip(labels(report).names);
    for (subject, name) in named.filter(|(subject, _)| is_program(report, subject)) {
        let line = lines.iter().find(|line| line.subject.id == subject.id);
        described.extend(match (line, &subject.summary) {
            (Some(line), _) => describe_program(line, lines),
            (None, Some(summary)) => {
                let late = format_time(summary.lateness_ns.max);
                Some(format!("{name} was at most {late} late"))
            }
            (None, None) => Some(format!("{name} was not measured")),
        });
    }
    let others = described.len().saturating_sub(MAX_PROGRAMS);
    described.truncate(MAX_PROGRAMS);
    if others > 0 {
        described.push(format!("the table has {others} more programs"));
    }
    (!described.is_empty()).then(|| format!("At {at}, {}.", described.join("; ")))
}

/// Whether a subject is a program of the user.
fn is_program(report: &Report, subject: &Subject) -> bool {
    let mut scenarios = report.plan.scenarios.iter();
    scenarios.any(|scenario| scenario.id == subject.id && scenario.command.is_some())
}

/// Compares a program with the most punctual subject; `None` if it is that subject.
fn describe_program(line: &SubjectLine<'_>, lines: &[SubjectLine<'_>]) -> Option<String> {
    let subjects: Vec<&SubjectLine<'_>> = lines.iter().filter(|line| !line.is_control()).collect();
    let best = most_punctual(&eligible_lines(&subjects, conditions(line)));
    let (late, cost) = (format_time(line.late), format_cost(line.subject, " for"));
    let own = format!("{} was {late} late{cost}", line.name);
    let Some(best) = best else { return Some(own) };
    if best.name == line.name {
        return None;
    }
    let factor = format_factor(line.late as f64 / best.late.max(1) as f64);
    Some(format!("{own}, {factor} as late as {}", best.name))
}

fn describe_longest_gap(lines: &[SubjectLine<'_>]) -> Option<String> {
    let longest = lines.iter().max_by_key(|line| line.summary.lateness_ns.max)?;
    let gap = format_time(longest.summary.lateness_ns.max);
    Some(format!("The longest gap was {gap}, of {}.", longest.name))
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
    let subjects: Vec<&SubjectLine<'_>> = lines.iter().filter(|line| !line.is_control()).collect();
    let groups: BTreeSet<Conditions<'_>> = subjects.iter().map(|line| conditions(line)).collect();
    if let (1, Some(group)) = (groups.len(), groups.first()) {
        return Some(describe_group(&eligible_lines(&subjects, *group), subjects.len(), at));
    }
    let mut described = Vec::new();
    for group in &groups {
        if let Some(best) = most_punctual(&eligible_lines(&subjects, *group)) {
            let cost = format_cost(best.subject, " for");
            described.push(format!("{} ({}{cost})", best.name, format_time(best.late)));
        }
    }
    if described.is_empty() {
        return None;
    }
    let each = name_groups(&groups);
    Some(format!("The least late of each {each} at {at}: {}.", described.join(", ")))
}

/// Returns the subjects with these conditions that keep up.
fn eligible_lines<'s, 'a>(
    subjects: &[&'s SubjectLine<'a>],
    group: Conditions<'_>,
) -> Vec<&'s SubjectLine<'a>> {
    let is_eligible =
        |line: &&SubjectLine<'_>| conditions(line) == group && tradeoff::keeps_up(line.subject);
    subjects.iter().copied().filter(is_eligible).collect()
}

/// Names the parameter in which groups differ.
fn name_groups(groups: &BTreeSet<Conditions<'_>>) -> &'static str {
    let loads: BTreeSet<Option<&str>> = groups.iter().map(|(_, load)| *load).collect();
    match loads.len() {
        1 => "period",
        n if n == groups.len() => "load",
        _ => "period and load",
    }
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
    let near = match eligible.iter().find(|l| l.name != best.name && is_equal(l)) {
        Some(near) => format!(" (not clearly apart from {})", near.name),
        None => String::new(),
    };
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
    let mut controls: Vec<_> = lines.iter().filter(|line| line.is_control()).collect();
    if controls.iter().any(|line| line.subject.load.is_none()) {
        // Controls under load show the effect of the load, which is in the table.
        controls.retain(|line| line.subject.load.is_none());
    }
    let mut described = Vec::new();
    for line in controls {
        let kind =
            if line.subject.name == "spin" { "a spinning thread" } else { "a sleeping thread" };
        described.push(format!("{kind} ({}) was {} late", line.name, format_time(line.late)));
    }
    if described.is_empty() {
        return None;
    }
    let has_rounds = report.subjects.iter().any(|subject| !subject.rounds.is_empty());
    let lead = if has_rounds { "In the same rounds" } else { "For comparison" };
    Some(format!("{lead}, at {at}, {}.", described.join(", and ")))
}

/// Lists what the numbers of the table hide: early, coalesced and skipped ticks, subjects that are
/// not ranked, the cost of the observer, and stolen CPU time.
fn describe_caveats(report: &Report, lines: &[SubjectLine<'_>]) -> Option<String> {
    let mut caveats: Vec<String> = describe_unranked(lines).into_iter().collect();
    for line in lines {
        caveats.extend(describe_odd_ticks(line));
    }
    caveats.extend(describe_observer(report, lines));
    caveats.extend(describe_steal(report));
    (!caveats.is_empty()).then(|| format!("Beware: {}.", caveats.join("; ")))
}

/// Names the subjects that missed too many ticks to be ranked.
fn describe_unranked(lines: &[SubjectLine<'_>]) -> Option<String> {
    let is_behind =
        |line: &&SubjectLine<'_>| !line.is_control() && !tradeoff::keeps_up(line.subject);
    let behind: Vec<&str> = lines.iter().filter(is_behind).map(|l| l.name.as_str()).collect();
    match behind.as_slice() {
        [] => None,
        [name] => Some(format!("{name} missed most of its ticks and is not ranked")),
        [rest @ .., last] => Some(format!(
            "{} and {last} missed most of their ticks and are not ranked",
            rest.join(", ")
        )),
    }
}

/// Describes ticks that were early, coalesced or skipped.
fn describe_odd_ticks(line: &SubjectLine<'_>) -> Vec<String> {
    let Summary { early, coalesced, skipped, ticks, .. } = line.summary;
    let kinds =
        [(early, "was early for"), (coalesced, "woke once for several of"), (skipped, "skipped")];
    let mut descriptions = Vec::new();
    for (&n, what) in kinds {
        if n > 0 {
            let share = format_share(n, *ticks);
            descriptions.push(format!("{} {what} {share} of its ticks", line.name));
        }
    }
    descriptions
}

/// Describes the cost of the observer if it is at least a tenth of a median lateness.
fn describe_observer(report: &Report, lines: &[SubjectLine<'_>]) -> Option<String> {
    let ns = report.clock.observer_ns_per_tick?;
    let least = lines.iter().filter_map(|l| l.summary.lateness_ns.p50).min()?;
    let tenfold = i64::try_from(ns.saturating_mul(10)).unwrap_or(i64::MAX);
    if least <= tenfold { origin::observer(report) } else { None }
}

/// Returns one sentence per subject: its index in the report, and the text that follows its name.
///
/// The most punctual subject by the ranking percentile comes first, then subjects that miss most of
/// their ticks, then the controls, then subjects that could not be measured.
pub fn sentences(report: &Report) -> Vec<(usize, String)> {
    let mut front = tradeoff::points(report);
    front.retain(|point| point.front);
    let mut ranking: Vec<(usize, &Subject)> = report.subjects.iter().enumerate().collect();
    let ranked = tradeoff::percentile(report);
    ranking.sort_by_key(|(_, subject)| rank(subject, ranked));
    let mut sentences = Vec::new();
    for (i, subject) in ranking {
        let is_on_front = front.iter().any(|point| point.subject == i);
        sentences.push((i, describe_subject(subject, is_on_front, is_gaps(report))));
    }
    sentences
}

/// Returns the key by which subjects are sorted.
fn rank(subject: &Subject, ranked: &str) -> (bool, bool, bool, Option<i64>) {
    let lateness = subject.summary.as_ref().map(|summary| &summary.lateness_ns);
    let late = lateness.map(|d| percentile::value(d, ranked).unwrap_or(d.max));
    (late.is_none(), is_control(&subject.name), !tradeoff::keeps_up(subject), late)
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
    let mut by_code: Vec<(&Warning, usize)> = Vec::new();
    for warning in &report.warnings {
        match by_code.iter_mut().find(|(first, _)| first.code == warning.code) {
            Some((_, others)) => *others += 1,
            None => by_code.push((warning, 0)),
        }
    }
    by_code.into_iter().map(|(first, others)| format_warning(first, others)).collect()
}

fn format_warning(warning: &Warning, others: usize) -> String {
    let more = if others > 0 { format!(" (And {others} more like it.)") } else { String::new() };
    let (message, hint) = (end_sentence(&warning.message), end_sentence(&warning.hint));
    format!("{}: {message} {hint}{more}", warning.code)
}

fn end_sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Minimum share of stolen time that is worth a sentence.
const MIN_STEAL: f64 = 0.01;

/// Describes stolen CPU time in a report without a fitness verdict; a verdict includes it.
fn describe_steal(report: &Report) -> Option<String> {
    if report.fitness.is_some() {
        return None;
    }
    let (mut stolen_ns, mut span_ns) = (0.0, 0.0);
    for subject in &report.subjects {
        for round in &subject.rounds {
            stolen_ns += round.steal_ns.unwrap_or(0) as f64;
            let ticks = round.summary.as_ref().map_or(0, |summary| summary.ticks);
            span_ns += ticks as f64 * subject.period_ns as f64;
        }
    }
    let cpus = report.host.cpus_online?;
    let share = stolen_ns / (span_ns * cpus as f64);
    (share >= MIN_STEAL)
        .then(|| format!("the hypervisor took {:.0} % of the CPU time away", share * 100.0))
}

fn format_cost(subject: &Subject, lead: &str) -> String {
    match core_percent(subject) {
        Some(percent) => format!("{lead} {} % of one core", format_digits(percent)),
        None => String::new(),
    }
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
    fn summary_answers_for_every_program() {
        let mut report = report();
        let at = tradeoff::percentile(&report).replace('_', ".");
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
            summary.missed = 0;
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
