//! Summarizes a report in plain English: only what the numbers show, without judgement or advice.

use cli::amount::format_ratio_with_interval;
use cli::time::{format_share, format_time};
use cli::words::{pluralize, prefix_or_empty};
use files::compare::{Conclusion, PairDifference};
use files::report::{Distribution, Report, Round, Subject, Summary, Warning};
use files::subjects::{SPINNING_CONTROL, is_control};
use files::window::TimeInWindow;

use crate::report::cost::core_percent;
use crate::report::label::{labels, unmeasured_reason};
use crate::report::ranking::{BehindSubject, RankedGroup, Ranking, Standing};
use crate::report::trust::{NOT_TRUSTED, Trust};
use crate::report::{cpus, origin, tradeoff};
use files::quantity::is_gaps;

/// A measured subject with the values that the sentences need.
struct SubjectLine<'a> {
    /// Index of the subject in the report.
    index: usize,
    name: String,
    subject: &'a Subject,
    summary: &'a Summary,
    /// Lateness at the percentile by which the report ranks.
    late: i64,
}

/// Returns the answer of a report in a sentence: the subject with the lowest percentile and by how
/// much, or the program of the user compared with it.
pub fn answer(ranking: &Ranking<'_>) -> String {
    if let Some(first) = report_sentences(ranking).into_iter().next() {
        return first;
    }
    let has_ticks = ranking.report().subjects.iter().any(|subject| subject.summary.is_some());
    let answer =
        if has_ticks { "Too few ticks to rank the subjects." } else { "Nothing was measured." };
    answer.to_owned()
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
        return Vec::from_iter(describe_longest_gap(&lines));
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
    sentences.extend(describe_caveats(ranking, &lines));
    sentences
}

/// Returns the name of a percentile in text.
fn label(percentile: &str) -> String {
    percentile.replace('_', ".")
}

/// Returns the subjects whose sample size supports the percentile `ranked`.
fn subject_lines<'a>(report: &'a Report, ranked: &str) -> Vec<SubjectLine<'a>> {
    let named = report.subjects.iter().zip(labels(report).names).enumerate();
    let mut lines = Vec::new();
    for (index, (subject, name)) in named {
        lines.extend(SubjectLine::new(index, subject, name, ranked));
    }
    lines
}

impl<'a> SubjectLine<'a> {
    fn new(index: usize, subject: &'a Subject, name: String, ranked: &str) -> Option<Self> {
        let summary = subject.summary.as_ref()?;
        let late = summary.lateness_ns.percentile(ranked)?;
        Some(Self { index, name, subject, summary, late })
    }

    fn is_control(&self) -> bool {
        is_control(&self.subject.name)
    }
}

/// Whether a subject is a program of the user.
pub fn is_program(report: &Report, subject: &Subject) -> bool {
    let mut scenarios = report.plan.scenarios.iter();
    scenarios.any(|scenario| scenario.id == subject.id && scenario.command.is_some())
}

/// Returns the ticker with the lowest percentile among those with the period and load of a program,
/// and its name.
pub fn best_ticker<'a>(ranking: &Ranking<'a>, program: &Subject) -> Option<(&'a Subject, String)> {
    let report = ranking.report();
    let index = report.subjects.iter().position(|subject| std::ptr::eq(subject, program))?;
    let standing = ranking.group_of(index)?.standing.as_ref()?;
    let others = standing.tied.iter().chain(standing.behind.iter().map(|behind| &behind.subject));
    let mut by_value = std::iter::once(&standing.best).chain(others);
    let ticker = *by_value.find(|&&index| !is_program(report, &report.subjects[index]))?;
    Some((&report.subjects[ticker], labels(report).names.swap_remove(ticker)))
}

fn describe_program(line: &SubjectLine<'_>) -> String {
    let (late, cost) = (format_time(line.late), format_cost(line.subject, " for"));
    format!("{} was {late} late{cost}", line.name)
}

/// Names every subject with the longest gap.
fn describe_longest_gap(lines: &[SubjectLine<'_>]) -> Option<String> {
    let longest = lines.iter().map(|line| line.summary.lateness_ns.max).max()?;
    let with_longest = lines.iter().filter(|line| line.summary.lateness_ns.max == longest);
    let names: Vec<&str> = with_longest.map(|line| line.name.as_str()).collect();
    Some(format!("The longest gap was {}, in {}.", format_time(longest), join_names(&names)))
}

/// Maximum number of programs of the user that are described.
const MAX_PROGRAMS: usize = 5;

/// Puts the ranking of a report into sentences. Each ratio is stated once.
struct Narrator<'a> {
    ranking: &'a Ranking<'a>,
    lines: &'a [SubjectLine<'a>],
    /// The percentile of the ranking.
    at: &'a str,
}

impl Narrator<'_> {
    fn line(&self, index: usize) -> Option<&SubjectLine<'_>> {
        self.lines.iter().find(|line| line.index == index)
    }

    fn name(&self, index: usize) -> &str {
        self.line(index).map_or("", |line| &line.name)
    }

    fn names(&self, indices: impl IntoIterator<Item = usize>) -> String {
        let mut indices: Vec<usize> = indices.into_iter().collect();
        indices.sort_unstable();
        let names: Vec<&str> = indices.into_iter().map(|index| self.name(index)).collect();
        join_names(&names)
    }

    /// Returns the names of the subjects that are not clearly higher than the best.
    fn leader_names(&self, standing: &Standing) -> String {
        self.names(standing.tied.iter().copied().chain([standing.best]))
    }

    /// Names subjects without a clear difference. Of more than two, only the best is compared with
    /// each of the others.
    fn format_tie(&self, standing: &Standing) -> String {
        let names = self.leader_names(standing);
        match standing.tied.len() {
            0 | 1 => format!("between {names}"),
            _ => format!("between the lowest and the others of {names}"),
        }
    }

    fn is_program(&self, index: usize) -> bool {
        let report = self.ranking.report();
        is_program(report, &report.subjects[index])
    }

    /// Describes the user's programs, except those that the ranking names first.
    fn describe_programs(&self) -> Option<String> {
        let report = self.ranking.report();
        let is_ranked = self.ranking.percentile().is_some();
        let mut described = Vec::new();
        for (index, name) in labels(report).names.into_iter().enumerate() {
            let subject = &report.subjects[index];
            if !is_program(report, subject) {
                continue;
            }
            described.extend(match (self.line(index), &subject.summary) {
                (Some(line), _) if is_ranked => self.compare_program(line),
                (Some(line), _) => Some(describe_program(line)),
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
        let at = if is_ranked { self.at.to_owned() } else { format!("{} (not trusted)", self.at) };
        (!described.is_empty()).then(|| format!("At {at}, {}.", described.join("; ")))
    }

    /// Compares a program with the best subject under its conditions; `None` if it is that subject.
    fn compare_program(&self, line: &SubjectLine<'_>) -> Option<String> {
        let group = self.ranking.group_of(line.index);
        let described = describe_program(line);
        let Some(standing) = group.and_then(|group| group.standing.as_ref()) else {
            return Some(described);
        };
        if standing.best == line.index && !standing.is_tie_of_all() {
            return None;
        }
        let difference = self.ranking.difference(standing.best, line.index);
        if difference.conclusion != Conclusion::BaseIsLower {
            return Some(described);
        }
        Some(match format_factor(&difference) {
            Some(factor) => {
                format!("{described}, {factor} as late as {}", self.name(standing.best))
            }
            None => described,
        })
    }

    /// Names the subject with the lowest percentile and its price; with several periods or loads,
    /// that of each.
    fn describe_ranking(&self) -> Option<String> {
        let subjects: Vec<&SubjectLine<'_>> =
            self.lines.iter().filter(|line| !line.is_control()).collect();
        let mut conditions: Vec<GroupConditions<'_>> =
            subjects.iter().map(|line| conditions(line)).collect();
        conditions.sort_by_key(|conditions| *conditions);
        conditions.dedup();
        match &conditions[..] {
            [] => return None,
            [_] => return Some(self.describe_only_group(subjects.len())),
            _ => {}
        }
        let standings = self.ranking.groups().iter().filter_map(|group| group.standing.as_ref());
        let standings: Vec<&Standing> = standings.collect();
        if standings.is_empty() {
            return None;
        }
        let each = name_groups(&conditions);
        if standings.iter().all(|standing| standing.is_tie_of_all()) {
            let has_pairs_only = standings.iter().all(|standing| standing.tied.len() == 1);
            let between = if has_pairs_only { "" } else { " between the lowest and the others" };
            let at = self.tried();
            return Some(format!("No difference is shown at {at}{between} for any {each}."));
        }
        let described: Vec<String> =
            standings.into_iter().map(|standing| self.describe_leaders(standing)).collect();
        Some(format!("Lowest {} for each {each}: {}.", self.at, described.join(", ")))
    }

    /// Names the leaders of one of several groups, with the lateness and the price of the first.
    fn describe_leaders(&self, standing: &Standing) -> String {
        if !standing.tied.is_empty() {
            let from = if standing.tied.len() > 1 { " from the lowest" } else { "" };
            return format!("{} (no clear difference{from})", self.leader_names(standing));
        }
        let Some(best) = self.line(standing.best) else { return String::new() };
        let cost = format_cost(best.subject, " for");
        format!("{} ({}{cost})", best.name, format_time(best.late))
    }

    /// Describes the ranking of subjects with the same conditions; `subjects` is their number,
    /// including those that do not keep up.
    fn describe_only_group(&self, subjects: usize) -> String {
        let group = self.ranking.groups().iter().find(|group| group.standing.is_some());
        let Some((group, standing)) =
            group.and_then(|group| Some((group, group.standing.as_ref()?)))
        else {
            return "Not ranked: every subject missed more than half of its ticks.".to_owned();
        };
        if standing.is_tie_of_all() {
            return self.describe_tie(group, standing);
        }
        let Some(best) = self.line(standing.best) else { return String::new() };
        if standing.behind.is_empty() {
            let rest = if subjects > 1 {
                " Every other ticker missed more than half of its ticks."
            } else {
                ""
            };
            let (late, cost) = (format_time(best.late), format_cost(best.subject, ", for"));
            return format!("{} was {late} late at {}{cost}.{rest}", best.name, self.at);
        }
        let lead = match standing.winner() {
            Some(_) => self.describe_winner(group, best),
            None => self.describe_shared_lead(standing),
        };
        let (others, higher) = (self.describe_others(group, standing), self.describe_higher(group));
        format!("{lead}{others}{higher}.")
    }

    /// Describes competitors of which none is clearly different from the best.
    fn describe_tie(&self, group: &RankedGroup<'_>, standing: &Standing) -> String {
        let tie = self.format_tie(standing);
        let reason = match standing.is_judged {
            true => "",
            false => ": without confidence intervals, none can be judged",
        };
        let cheapest = self.describe_cheapest(group);
        format!("No difference is shown at {} {tie}{reason}{cheapest}.", self.tried())
    }

    /// Lists the percentiles by which the report could rank. A group without a difference at the one
    /// that was chosen has none at the others.
    fn tried(&self) -> String {
        let at: Vec<String> = self.ranking.candidates().iter().map(|key| label(key)).collect();
        join_with(&at.iter().map(String::as_str).collect::<Vec<_>>(), "or")
    }

    /// Describes the subject that is clearly lower than all others, with its price.
    fn describe_winner(&self, group: &RankedGroup<'_>, best: &SubjectLine<'_>) -> String {
        let cheapest =
            if group.cheapest == Some(best.index) { " and was the cheapest" } else { "" };
        let (late, cost) = (format_time(best.late), format_cost(best.subject, ", for"));
        format!("{} had the lowest {} ({late}){cheapest}{cost}", best.name, self.at)
    }

    /// Names the subjects that share the lead.
    fn describe_shared_lead(&self, standing: &Standing) -> String {
        let (names, at) = (self.leader_names(standing), self.at);
        let between =
            if standing.tied.len() > 1 { "the lowest of them and the others" } else { "them" };
        format!("{names} had the lowest {at}, with no clear difference between {between}")
    }

    /// Describes the cheapest subject and by how much it was later, or else by how much the others
    /// were. The ratio of a program is in the sentence about programs.
    fn describe_others(&self, group: &RankedGroup<'_>, standing: &Standing) -> String {
        let is_behind = |index: usize| {
            standing.behind.iter().find(move |behind| behind.subject == index).copied()
        };
        match group.cheapest {
            Some(cheapest) if standing.winner() == Some(cheapest) => self.describe_margin(standing),
            Some(cheapest) => match is_behind(cheapest) {
                Some(behind) if !self.is_program(cheapest) => {
                    self.describe_cheapest_behind(group, &behind)
                }
                _ => self.describe_cheapest(group),
            },
            None => self.describe_margin(standing),
        }
    }

    /// Describes the cheapest subject by its price and by how much it was later than the best.
    fn describe_cheapest_behind(&self, group: &RankedGroup<'_>, behind: &BehindSubject) -> String {
        let Some(factor) = format_factor(&behind.difference) else {
            return self.describe_cheapest(group);
        };
        let cost = format_cost(&self.ranking.report().subjects[behind.subject], " for");
        format!("; {}, the cheapest{cost}, was {factor} as late", self.name(behind.subject))
    }

    /// Names the cheapest subject and its price.
    fn describe_cheapest(&self, group: &RankedGroup<'_>) -> String {
        let Some(cheapest) = group.cheapest else { return String::new() };
        let cost = format_cost(&self.ranking.report().subjects[cheapest], ", for");
        format!("; {} was the cheapest{cost}", self.name(cheapest))
    }

    /// Describes by how much the others are later than the winner, if there is one. The ratio of a
    /// program is in the sentence about programs.
    fn describe_margin(&self, standing: &Standing) -> String {
        let ratio = |behind: &&BehindSubject| behind.difference.ratio.unwrap_or(f64::INFINITY);
        let closest = standing.behind.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        let Some(closest) = closest.filter(|_| standing.winner().is_some()) else {
            return String::new();
        };
        if self.is_program(closest.subject) {
            return String::new();
        }
        let Some(factor) = format_factor(&closest.difference) else { return String::new() };
        match standing.behind.len() {
            1 => format!("; {} was {factor} as late", self.name(closest.subject)),
            _ => format!("; every other ranked subject was at least {factor} as late"),
        }
    }

    /// Describes the percentiles above that of the ranking, at which no subject is clearly lower
    /// than all others.
    fn describe_higher(&self, group: &RankedGroup<'_>) -> String {
        let Some(first) = group.higher.first() else { return String::new() };
        let at: Vec<String> =
            group.higher.iter().map(|standing| label(standing.percentile)).collect();
        let at: Vec<&str> = at.iter().map(String::as_str).collect();
        let show = if at.len() > 1 { "show" } else { "shows" };
        if !group.higher.iter().all(Standing::is_tie_of_all) {
            return format!("; {} shows no clear difference {}", at[0], self.format_tie(first));
        }
        let from = if first.tied.len() > 1 { " from the lowest" } else { "" };
        format!("; {} {show} no clear difference{from}", join_names(&at))
    }
}

/// Maximum number of names in a list.
const MAX_NAMES: usize = 4;

/// Joins names: `a, b and c`, or `a, b, c, d and 3 more`.
fn join_names(names: &[&str]) -> String {
    match names.len().saturating_sub(MAX_NAMES) {
        0 => join_with(names, "and"),
        others => format!("{} and {others} more", names[..MAX_NAMES].join(", ")),
    }
}

fn join_with(names: &[&str], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => (*name).to_owned(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// The period and load of a subject.
type GroupConditions<'a> = (u64, Option<&'a str>);

fn conditions<'a>(line: &SubjectLine<'a>) -> GroupConditions<'a> {
    (line.subject.period_ns, line.subject.load.as_deref())
}

/// Names the parameter in which groups differ.
fn name_groups(groups: &[GroupConditions<'_>]) -> &'static str {
    let mut loads: Vec<Option<&str>> = groups.iter().map(|(_, load)| *load).collect();
    loads.sort_by_key(|load| *load);
    loads.dedup();
    match loads.len() {
        1 => "period",
        n if n == groups.len() => "load",
        _ => "period and load",
    }
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

/// Lists what the numbers of the table hide: early, coalesced and skipped ticks, subjects that are
/// not ranked, the cost of the observer, and stolen CPU time.
fn describe_caveats(ranking: &Ranking<'_>, lines: &[SubjectLine<'_>]) -> Option<String> {
    let report = ranking.report();
    let mut caveats = Vec::new();
    if ranking.percentile().is_some() {
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
        several => Some(format!(
            "{} missed most of their ticks and are not ranked",
            join_with(several, "and")
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
/// The subject with the lowest percentile comes first, then subjects that miss most of their ticks,
/// then the controls, then subjects that could not be measured. Subjects of which none is clearly
/// the lowest keep the order of the report, as do all subjects without a ranking.
pub fn sentences(ranking: &Ranking<'_>) -> Vec<(usize, String)> {
    let report = ranking.report();
    let mut ranked: Vec<usize> = (0..report.subjects.len()).collect();
    if ranking.percentile().is_some() {
        ranked.sort_by_key(|&index| rank(ranking, index));
    }
    let mut sentences = Vec::new();
    for index in ranked {
        let mut points = ranking.points().iter();
        let is_on_front = points.any(|point| point.front && point.subject == index);
        let sentence = describe_subject(report, &report.subjects[index], is_on_front);
        sentences.push((index, sentence));
    }
    sentences
}

/// The key by which subjects are sorted.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_unmeasured: bool,
    is_control: bool,
    is_behind: bool,
    late: Option<i64>,
}

fn rank(ranking: &Ranking<'_>, index: usize) -> Rank {
    let subject = &ranking.report().subjects[index];
    let late = ranking.sort_value(index);
    Rank {
        is_unmeasured: late.is_none(),
        is_control: is_control(&subject.name),
        is_behind: !tradeoff::keeps_up(subject),
        late,
    }
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
    let unbeaten = if front {
        "; no other ranked subject was clearly better in one and not worse in the other"
    } else {
        ""
    };
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
    let mut stolen = TimeInWindow::default();
    for subject in &report.subjects {
        for round in &subject.rounds {
            let Some(steal_ns) = round.steal_ns else { continue };
            stolen = stolen + TimeInWindow::new(steal_ns, steal_window_ns(subject, round));
        }
    }
    let share = stolen.share_of_cpus(report.host.cpus_online?)?;
    (share >= MIN_STEAL)
        .then(|| format!("the hypervisor took {:.0} % of the CPU time", share * 100.0))
}

/// Returns the time in which the stolen time of a round was counted. The instances of a round share
/// its stolen time, but overlap in time, so that the entry of the first one has all of it. Files of
/// early versions do not state it: it is a period for each tick and each tick of the warm-up.
fn steal_window_ns(subject: &Subject, round: &Round) -> u64 {
    if round.instance != 0 {
        return 0;
    }
    let planned = round.summary.as_ref().map_or(0, |summary| summary.ticks);
    let ticks = round.first_tick.saturating_add(planned / subject.instances.max(1));
    round.window_ns.unwrap_or_else(|| ticks.saturating_mul(subject.period_ns))
}

fn format_cost(subject: &Subject, lead: &str) -> String {
    match core_percent(subject) {
        Some(percent) => format!("{lead} {} % of one core", format_digits(percent)),
        None => String::new(),
    }
}

/// Formats the ratio of a clear difference: `2.20 times [1.03, 5.89]`. Returns `None` if the
/// difference has no ratio, because the base is zero or less.
fn format_factor(difference: &PairDifference) -> Option<String> {
    let interval = difference.ratio_interval.map(<[f64; 2]>::from);
    let ratio = format_ratio_with_interval(difference.ratio?, interval);
    let (ratio, interval) = ratio.split_once(' ').unwrap_or((&ratio, ""));
    let interval = Some(interval).filter(|interval| !interval.is_empty());
    Some(format!("{ratio} times{}", prefix_or_empty(" ", interval)))
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
    use crate::report::synthetic::{self, ROUNDS, SyntheticSubject, subject};
    use files::file::File as _;
    use files::fitness::{Facts, Fitness};

    fn summarize(report: &Report) -> String {
        report_sentences(&Ranking::new(report)).join(" ")
    }

    /// Reads the report fixture.
    fn report() -> Report {
        Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report")
    }

    #[test]
    fn each_subject_has_one_sentence() {
        let report = report();
        let ranked = sentences(&Ranking::new(&report));
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
        report.fitness = Some(Fitness::from_facts(Facts::default(), Some("p50"), Some(2)));
        let text = summarize(&report);
        assert!(text.starts_with("Not ranked: "), "{text}");
        let sentences = sentences(&Ranking::new(&report));
        assert!(sentences.iter().map(|(i, _)| *i).eq(0..report.subjects.len()), "{sentences:?}");
        for (_, sentence) in &sentences {
            assert_eq!(sentence.matches("(not trusted)").count(), 2, "{sentence}");
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
        assert!(text.contains("for 4.0 % of one core; a, the cheapest for 3.0 %"), "{text}");
        assert_eq!(text.matches(" times ").count(), 1, "{text}");
    }

    #[test]
    fn tie_leads_with_separating_percentile() {
        let text =
            describe(&[subject("a", 60.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)], None)
                .join(" ");
        assert!(text.starts_with("b had the lowest p90 ("), "{text}");
        assert!(text.ends_with("; p99 shows no clear difference."), "{text}");
        assert_eq!(text.matches(" times ").count(), 1, "{text}");
    }

    #[test]
    fn equal_subjects_show_no_difference() {
        let equal = [subject("a", 40.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)];
        let text = describe(&equal, None).join(" ");
        assert_eq!(text, "No difference is shown at p99, p90 or p50 between a and b.");
        // The answer is about the program, and the tie is stated once.
        let [first, second] = &describe(&equal, Some(0))[..] else { panic!("two sentences") };
        assert_eq!(shape(first), "At p, a was  us late for  % of one core");
        assert_eq!(*second, text);
    }

    #[test]
    fn program_ratio_is_stated_once() {
        for cost_us in [20.0, 30.0, 40.0] {
            let subjects = [subject("a", 60.0, 300.0, cost_us), subject("b", 40.0, 200.0, 30.0)];
            let text = describe(&subjects, Some(0)).join(" ");
            let factors = text.matches(" times ").count();
            assert!(text.starts_with("At p99, a was ") && factors == 1, "{text}");
            assert!(text.contains("as late as b. b had the lowest p99 ("), "{text}");
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
            assert!(!text.contains(" times") && !text.contains(" as late"), "{text}");
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

    #[test]
    fn stolen_time_has_its_window() {
        let mut report = report();
        report.host.cpus_online = Some(2);
        report.subjects.truncate(1);
        let subject = &mut report.subjects[0];
        let steal_ns = Some(5_000_000);
        let round = Round { window_ns: Some(100_000_000), steal_ns, ..subject.rounds[0].clone() };
        let other = Round { instance: 1, summary: None, ..round.clone() };
        (subject.instances, subject.rounds) = (2, vec![round, other]);
        // 10 ms in 100 ms of two CPUs.
        let sentence = |percent| Some(format!("the hypervisor took {percent} % of the CPU time"));
        assert_eq!(describe_steal(&report), sentence(5));
        // An early file does not state the time of ten ticks of warm-up and 25 per instance.
        report.subjects[0].rounds.iter_mut().for_each(|round| round.window_ns = None);
        assert_eq!(describe_steal(&report), sentence(14));
    }
}
