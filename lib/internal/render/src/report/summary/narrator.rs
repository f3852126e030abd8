//! Puts the ranking of a report into sentences.

use cli::amount::format_ratio_with_interval;
use cli::time::format_time;
use cli::words::prefix_or_empty;
use files::compare::{Conclusion, PairDifference};
use files::report::Subject;

use crate::report::cost::format_cost;
use crate::report::label::{FAILED_LATE, has_failed_late, is_program, labels};
use crate::report::ranking::{BehindSubject, RankedGroup, Ranking, Standing};
use crate::report::summary::name_list::{join_names, join_with, label};
use crate::report::summary::subject_line::SubjectLine;

fn describe_program(line: &SubjectLine<'_>) -> String {
    let (late, cost) = (format_time(line.late), format_cost(line.subject, " and used"));
    format!("{} was {late} late{cost}", name_with_failure(line.subject, &line.name))
}

/// Returns the name of a subject, as the start of a sentence about its lateness.
fn name_with_failure(subject: &Subject, name: &str) -> String {
    if has_failed_late(subject) {
        format!("{name} {FAILED_LATE}, in which it")
    } else {
        name.to_owned()
    }
}

/// Maximum number of programs of the user that are described.
const MAX_PROGRAMS: usize = 5;

/// Puts the ranking of a report into sentences. Each ratio is stated once.
pub(super) struct Narrator<'a> {
    pub(super) ranking: &'a Ranking<'a>,
    pub(super) lines: &'a [SubjectLine<'a>],
    /// The percentile of the ranking.
    pub(super) at: &'a str,
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
    pub(super) fn describe_programs(&self) -> Option<String> {
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
                    Some(format!("{} was at most {late} late", name_with_failure(subject, &name)))
                }
                (None, None) => Some(format!("{name} was not measured")),
            });
        }
        let others = described.len().saturating_sub(MAX_PROGRAMS);
        described.truncate(MAX_PROGRAMS);
        if others > 0 {
            described.push(format!("the table has {others} more programs"));
        }
        let at = if is_ranked { self.at.to_owned() } else { format!("{} (unreliable)", self.at) };
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
        if has_failed_late(line.subject) || difference.conclusion != Conclusion::BaseIsLower {
            return Some(described);
        }
        Some(match format_factor(&difference) {
            Some(factor) => {
                let (best, at) = (self.name(standing.best), self.at);
                format!("{described}; its {at} was {factor} as high as that of {best}")
            }
            None => described,
        })
    }

    /// Names the subject with the lowest percentile and its price; with several periods or loads,
    /// that of each.
    pub(super) fn describe_ranking(&self) -> Option<String> {
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
        let cost = format_cost(best.subject, ",");
        format!("{} ({}{cost})", best.name, format_time(best.late))
    }

    /// Describes the ranking of subjects with the same conditions; `subjects` is their number,
    /// including those that do not keep up.
    fn describe_only_group(&self, subjects: usize) -> String {
        let group = self.ranking.groups().iter().find(|group| group.standing.is_some());
        let Some((group, standing)) =
            group.and_then(|group| Some((group, group.standing.as_ref()?)))
        else {
            return format!("Not ranked: every subject {}.", self.unranked_reason());
        };
        if standing.is_tie_of_all() {
            return self.describe_tie(group, standing);
        }
        let Some(best) = self.line(standing.best) else { return String::new() };
        if standing.behind.is_empty() {
            let rest = if subjects > 1 {
                format!(" Every other ticker {}.", self.unranked_reason())
            } else {
                String::new()
            };
            let (late, cost) = (format_time(best.late), format_cost(best.subject, " and used"));
            return format!("{} was {late} late at {}{cost}.{rest}", best.name, self.at);
        }
        let at = self.at;
        let lead = if standing.winner().is_some() {
            let is_cheapest = group.cheapest == Some(best.index);
            let used = if is_cheapest { " and used the least CPU," } else { " and used" };
            let (late, cost) = (format_time(best.late), format_cost(best.subject, used));
            format!("{} had the lowest {at} ({late}){cost}", best.name)
        } else {
            let names = self.leader_names(standing);
            let between =
                if standing.tied.len() > 1 { "the lowest of them and the others" } else { "them" };
            format!("{names} had the lowest {at}, with no clear difference between {between}")
        };
        let (others, higher) = (self.describe_others(group, standing), self.describe_higher(group));
        format!("{lead}.{others}{higher}")
    }

    /// Returns why subjects that are no controls do not compete.
    fn unranked_reason(&self) -> &'static str {
        if self.lines.iter().any(|line| !line.is_control() && has_failed_late(line.subject)) {
            "failed or missed more than half of its ticks"
        } else {
            "missed more than half of its ticks"
        }
    }

    /// Describes competitors of which none is clearly different from the best.
    fn describe_tie(&self, group: &RankedGroup<'_>, standing: &Standing) -> String {
        let tie = self.format_tie(standing);
        let reason = match standing.is_judged {
            true => "",
            false => ": without confidence intervals, none can be judged",
        };
        let cheapest = self.describe_cheapest(group);
        format!("No difference is shown at {} {tie}{reason}.{cheapest}", self.tried())
    }

    /// Lists the percentiles by which the report could rank. A group without a difference at the one
    /// that was chosen has none at the others.
    fn tried(&self) -> String {
        let at: Vec<String> = self.ranking.candidates().iter().map(|key| label(key)).collect();
        join_with(&at, "or")
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
        let used = self.describe_least_cpu(behind.subject);
        format!(" {used}; its {} was {factor} as high.", self.at)
    }

    /// Names the cheapest subject and its price.
    fn describe_cheapest(&self, group: &RankedGroup<'_>) -> String {
        let cheapest = group.cheapest.map(|cheapest| self.describe_least_cpu(cheapest));
        cheapest.map_or(String::new(), |used| format!(" {used}."))
    }

    fn describe_least_cpu(&self, cheapest: usize) -> String {
        let cost = format_cost(&self.ranking.report().subjects[cheapest], ",");
        format!("{} used the least CPU{cost}", self.name(cheapest))
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
            1 => {
                format!(" The {} of {} was {factor} as high.", self.at, self.name(closest.subject))
            }
            _ => format!(
                " The {} of every other ranked subject was at least {factor} as high.",
                self.at
            ),
        }
    }

    /// Describes the percentiles above that of the ranking, at which no subject is clearly lower
    /// than all others.
    fn describe_higher(&self, group: &RankedGroup<'_>) -> String {
        let Some(first) = group.higher.first() else { return String::new() };
        let at: Vec<String> =
            group.higher.iter().map(|standing| label(standing.percentile)).collect();
        let show = if at.len() > 1 { "show" } else { "shows" };
        if !group.higher.iter().all(Standing::is_tie_of_all) {
            return format!(" {} shows no clear difference {}.", at[0], self.format_tie(first));
        }
        let from = if first.tied.len() > 1 { " from the lowest" } else { "" };
        format!(" {} {show} no clear difference{from}.", join_names(&at))
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

/// Formats the ratio of a clear difference: `2.20 times [1.03, 5.89]`. Returns `None` if the
/// difference has no ratio, because the base is zero or less.
fn format_factor(difference: &PairDifference) -> Option<String> {
    let interval = difference.ratio_interval.map(<[f64; 2]>::from);
    let ratio = format_ratio_with_interval(difference.ratio?, interval);
    let (ratio, interval) = ratio.split_once(' ').unwrap_or((&ratio, ""));
    let interval = Some(interval).filter(|interval| !interval.is_empty());
    Some(format!("{ratio} times{}", prefix_or_empty(" ", interval)))
}
