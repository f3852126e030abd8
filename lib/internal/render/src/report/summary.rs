//! Summarizes a report in plain English: only what the numbers show, without judgement or advice.

use cli::sort::sort_by_key;
use cli::time::{format_share, format_time};
use cli::words::pluralize;
use files::report::{Distribution, Report, Subject, Summary, Warning};

use crate::report::cost::core_percent;
use crate::report::label::{is_control, labels, unmeasured_reason};
use crate::report::quantity::is_gaps;
use crate::report::trust::{NOT_TRUSTED, Trust};
use crate::report::{cpus, origin, percentile, tradeoff};

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
///
/// The subjects are not ranked if the machine is trusted at no percentile. If they ran on several
/// CPUs at once, the sentences name the CPUs that differ instead.
pub fn summarize(report: &Report) -> String {
    report_sentences(report).join(" ")
}

/// Returns the answer of a report in a sentence: the most punctual subject and by how much, or the
/// program of the user compared with it.
pub fn answer(report: &Report) -> String {
    if let Some(first) = report_sentences(report).into_iter().next() {
        return first;
    }
    let has_ticks = report.subjects.iter().any(|subject| subject.summary.is_some());
    let answer =
        if has_ticks { "Too few ticks to rank the subjects." } else { "Nothing was measured." };
    answer.to_owned()
}

/// Returns the sentences of the summary after the answer.
pub fn details(report: &Report) -> String {
    report_sentences(report).get(1..).unwrap_or_default().join(" ")
}

fn report_sentences(report: &Report) -> Vec<String> {
    let shown = tradeoff::percentile(report);
    let lines = subject_lines(report, shown);
    if is_gaps(report) {
        return Vec::from_iter(describe_longest_gap(&lines));
    }
    let at = shown.replace('_', ".");
    let mut sentences = cpus::sentences(report);
    if !sentences.is_empty() {
        sentences.extend(describe_caveats(report, &lines));
        return sentences;
    }
    sentences.extend(describe_programs(report, &lines, &at));
    sentences.extend(match tradeoff::ranking(report) {
        Some(_) => describe_tradeoff(&lines, &at),
        None => Some(format!("Not ranked: even at {at}, the machine itself was late.")),
    });
    sentences.extend(describe_controls(report, &lines, &at));
    sentences.extend(describe_caveats(report, &lines));
    sentences
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
    let is_ranked = tradeoff::ranking(report).is_some();
    let mut described = Vec::new();
    let named = report.subjects.iter().zip(labels(report).names);
    for (subject, name) in named.filter(|(subject, _)| is_program(report, subject)) {
        let line = lines.iter().find(|line| line.subject.id == subject.id);
        described.extend(match (line, &subject.summary) {
            (Some(line), _) if is_ranked => compare_program(line, lines),
            (Some(line), _) => Some(describe_program(line)),
            (None, Some(summary)) => {
                let late = format_time(summary.lateness_ns.max);
                let remark = Trust::from_report(report).remark(summary, "lateness_ns.max");
                Some(format!("{name} was at most {late} late{remark}"))
            }
            (None, None) => Some(format!("{name} was not measured")),
        });
    }
    let others = described.len().saturating_sub(MAX_PROGRAMS);
    described.truncate(MAX_PROGRAMS);
    if others > 0 {
        described.push(format!("the table has {others} more programs"));
    }
    let at = if is_ranked { at.to_owned() } else { format!("{at} (not trusted)") };
    (!described.is_empty()).then(|| format!("At {at}, {}.", described.join("; ")))
}

/// Whether a subject is a program of the user.
pub fn is_program(report: &Report, subject: &Subject) -> bool {
    let mut scenarios = report.plan.scenarios.iter();
    scenarios.any(|scenario| scenario.id == subject.id && scenario.command.is_some())
}

/// Returns the ticker with the least lateness among those with the period and load of a program,
/// and its name.
pub fn best_ticker<'a>(report: &'a Report, program: &Subject) -> Option<(&'a Subject, String)> {
    let lines = subject_lines(report, tradeoff::percentile(report));
    let is_ticker =
        |line: &&SubjectLine<'_>| !line.is_control() && !is_program(report, line.subject);
    let tickers: Vec<&SubjectLine<'_>> = lines.iter().filter(is_ticker).collect();
    let group = (program.period_ns, program.load.as_deref());
    let best = most_punctual(&eligible_lines(&tickers, group))?;
    Some((best.subject, best.name.clone()))
}

fn describe_program(line: &SubjectLine<'_>) -> String {
    let (late, cost) = (format_time(line.late), format_cost(line.subject, " for"));
    format!("{} was {late} late{cost}", line.name)
}

/// Compares a program with the most punctual subject; `None` if it is that subject.
fn compare_program(line: &SubjectLine<'_>, lines: &[SubjectLine<'_>]) -> Option<String> {
    let subjects: Vec<&SubjectLine<'_>> = lines.iter().filter(|line| !line.is_control()).collect();
    let best = most_punctual(&eligible_lines(&subjects, conditions(line)));
    let own = describe_program(line);
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
    Some(format!("The longest gap was {gap}, in {}.", longest.name))
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
    let mut groups: Vec<Conditions<'_>> = subjects.iter().map(|line| conditions(line)).collect();
    sort_by_key(&mut groups, |group| *group);
    groups.dedup();
    if let [group] = &groups[..] {
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
    Some(format!("Least late at {at} for each {each}: {}.", described.join(", ")))
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
fn name_groups(groups: &[Conditions<'_>]) -> &'static str {
    let mut loads: Vec<Option<&str>> = groups.iter().map(|(_, load)| *load).collect();
    sort_by_key(&mut loads, |load| *load);
    loads.dedup();
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
        return "Not ranked: every subject missed more than half of its ticks.".to_owned();
    };
    if eligible.len() > 1 {
        return describe_best(best, eligible, at);
    }
    let rest =
        if subjects > 1 { " Every other ticker missed more than half of its ticks." } else { "" };
    let cost = format_cost(best.subject, ", for");
    format!("{} was {} late at {at}{cost}.{rest}", best.name, format_time(best.late))
}

/// Compares the most punctual of several subjects with the cheapest.
fn describe_best(best: &SubjectLine<'_>, eligible: &[&SubjectLine<'_>], at: &str) -> String {
    let is_equal = |l: &SubjectLine<'_>| l.late == best.late || overlap(l.interval, best.interval);
    let near = match eligible.iter().find(|l| l.name != best.name && is_equal(l)) {
        Some(near) => format!(" (no clear difference from {})", near.name),
        None => String::new(),
    };
    let price = core_percent(best.subject);
    let priced = eligible.iter().filter_map(|l| Some((core_percent(l.subject)?, *l)));
    let cheapest = priced.min_by(|a, b| a.0.total_cmp(&b.0));
    match cheapest.filter(|(_, l)| l.name != best.name).zip(price) {
        Some(((core, cheapest), price)) => format!(
            "{} was the least late at {at}{near}, for {} % of one core; {}, the cheapest for {} %, was {} as late.",
            best.name,
            format_digits(price),
            cheapest.name,
            format_digits(core),
            format_factor(cheapest.late as f64 / best.late.max(1) as f64)
        ),
        None => {
            let cheapest = if price.is_some() { " and the cheapest" } else { "" };
            let cost = format_cost(best.subject, ", for");
            let next = if near.is_empty() { describe_next(best, eligible) } else { String::new() };
            format!("{} was the least late at {at}{near}{cheapest}{cost}{next}.", best.name)
        }
    }
}

/// Describes by how much the second most punctual subject is later than the first.
fn describe_next(best: &SubjectLine<'_>, eligible: &[&SubjectLine<'_>]) -> String {
    let others = eligible.iter().filter(|line| line.name != best.name);
    let Some(next) = others.min_by_key(|line| line.late) else { return String::new() };
    let factor = format_factor(next.late as f64 / best.late.max(1) as f64);
    format!("; {}, the next, was {factor} as late", next.name)
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
    let mut caveats = Vec::new();
    if tradeoff::ranking(report).is_some() {
        caveats.extend(describe_unranked(lines));
    }
    let trust = Trust::from_report(report);
    for line in lines {
        caveats.extend(describe_odd_ticks(line, trust));
    }
    caveats.extend(describe_observer(report, lines));
    caveats.extend(describe_steal(report));
    if caveats.is_empty() { None } else { Some(format!("Note: {}.", caveats.join("; "))) }
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
fn describe_odd_ticks(line: &SubjectLine<'_>, trust: Trust) -> Vec<String> {
    let Summary { early, coalesced, skipped, ticks, .. } = line.summary;
    let mut descriptions = Vec::new();
    let name = &line.name;
    let share = |n: u64| format_share(n, *ticks);
    let remark = |key: &str| trust.remark(line.summary, key);
    if let Some(early @ 1..) = *early {
        descriptions.push(format!("{name} was early for {} of its ticks", share(early)));
    }
    if let Some(coalesced @ 1..) = *coalesced {
        let (share, remark) = (share(coalesced), remark("coalesced"));
        descriptions.push(format!(
            "{name} delivered {share} of its ticks in the wake-up of a later one{remark}"
        ));
    }
    if let Some(skipped @ 1..) = *skipped {
        let (share, remark) = (share(skipped), remark("skipped"));
        descriptions.push(format!("{name} skipped {share} of its ticks{remark}"));
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
/// their ticks, then the controls, then subjects that could not be measured. Without a ranking, the
/// subjects keep the order of the report.
pub fn sentences(report: &Report) -> Vec<(usize, String)> {
    let mut front = tradeoff::points(report);
    front.retain(|point| point.front);
    let mut ranking: Vec<(usize, &Subject)> = report.subjects.iter().enumerate().collect();
    if let Some(ranked) = tradeoff::ranking(report) {
        sort_by_key(&mut ranking, |(_, subject)| rank(subject, ranked));
    }
    let mut sentences = Vec::new();
    for (i, subject) in ranking {
        let is_on_front = front.iter().any(|point| point.subject == i);
        sentences.push((i, describe_subject(report, subject, is_on_front)));
    }
    sentences
}

/// Returns the key by which subjects are sorted.
fn rank(subject: &Subject, ranked: &str) -> (bool, bool, bool, Option<i64>) {
    let lateness = subject.summary.as_ref().map(|summary| &summary.lateness_ns);
    let late = lateness.map(|d| percentile::value(d, ranked).unwrap_or(d.max));
    (late.is_none(), is_control(&subject.name), !tradeoff::keeps_up(subject), late)
}

fn describe_subject(report: &Report, subject: &Subject, front: bool) -> String {
    let Some(summary) = &subject.summary else {
        return format!("was not measured: {}.", unmeasured_reason(subject));
    };
    let d = &summary.lateness_ns;
    if is_gaps(report) {
        let turns = pluralize(summary.ticks, "turn");
        return format!("had gaps of at most {} in {turns} of its loop.", format_time(d.max));
    }
    let trust = Trust::from_report(report);
    let late = describe_lateness(d, trust);
    let cost = format_cost(subject, ", for");
    let missed = match tradeoff::format_missed(subject, summary) {
        // Without a period there is no next deadline to miss.
        None => String::new(),
        Some(_) if summary.missed == Some(0) => "; it missed no tick".to_owned(),
        Some(missed) => format!("; it missed {missed}{}", trust.remark(summary, "missed")),
    };
    let unbeaten =
        if front { "; no other ranked subject was both more punctual and cheaper" } else { "" };
    format!("{late}{cost}{missed}{unbeaten}.")
}

/// Describes the median and the tail of the lateness, and which of them is not trusted.
pub fn describe_lateness(d: &Distribution, trust: Trust) -> String {
    let format = |ns: i64, is_trusted: bool| {
        format!("{}{}", format_time(ns), if is_trusted { "" } else { NOT_TRUSTED })
    };
    let max = format(d.max, trust.covers_max());
    let Some(p50) = d.p50.map(|ns| format(ns, trust.covers("p50"))) else {
        return format!("was at most {max} late");
    };
    match d.p99 {
        Some(p99) => {
            let p99 = format(p99, trust.covers("p99"));
            format!("was late by {p50} at the median and by {p99} at p99")
        }
        None => format!("was late by {p50} at the median and by at most {max}"),
    }
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
        .then(|| format!("the hypervisor took {:.0} % of the CPU time", share * 100.0))
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
    use files::fitness::{Facts, Fitness};

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
        report.fitness = Some(Fitness::from_facts(Facts::default(), Some("p50"), Some(2)));
        let text = summarize(&report);
        assert!(text.starts_with("Not ranked: "), "{text}");
        let sentences = sentences(&report);
        assert!(sentences.iter().map(|(i, _)| *i).eq(0..report.subjects.len()), "{sentences:?}");
        for (_, sentence) in &sentences {
            assert_eq!(sentence.matches("(not trusted)").count(), 2, "{sentence}");
            assert!(!sentence.contains("no other ranked subject"), "{sentence}");
        }
    }

    #[test]
    fn sentences_follow_the_ranking() {
        let mut report = report();
        for s in report.subjects.iter_mut().filter_map(|s| s.summary.as_mut()) {
            s.missed = Some(0);
        }
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
            summary.missed = Some(summary.ticks / 10 * 9);
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
            rank(&first) > 0 && !ranked[rank(&first)].1.contains("no other ranked subject"),
            "{ranked:?}"
        );
    }
}
