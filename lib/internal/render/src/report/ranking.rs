//! The ranking of the subjects of a report, as far as the evidence goes. It is decided once, and
//! every sentence, mark and picture follows it.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use files::compare::{Conclusion, PairDifference, ReportEvidence};
use files::report::{Report, Subject};
use jitterstat::gate::Sides;
use jitterstat::stats::Interval;

use crate::report::cost::per_tick_ci95;
use crate::report::label::concurrent_cpus;
use crate::report::tradeoff::{self, Point, keeps_up};
use crate::report::trust::Trust;
use files::quantity::is_gaps;

/// The percentiles by which a report can rank, in order of preference.
const PERCENTILES: [&str; 3] = ["p99", "p90", "p50"];

/// The percentile of reports that have none of [`PERCENTILES`] for all counted subjects.
const FALLBACK: &str = "p50";

/// The conditions that competing subjects have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conditions<'a> {
    pub period_ns: u64,
    pub load: Option<&'a str>,
    /// CPU of a subject that ran at once with others.
    pub cpu: Option<u64>,
}

/// The ranking of the subjects of a report.
#[derive(Debug)]
pub struct Ranking<'a> {
    report: &'a Report,
    evidence: ReportEvidence<'a>,
    /// The percentiles by which the report can rank, the highest first.
    candidates: Vec<&'static str>,
    percentile: Option<&'static str>,
    /// The conditions of each subject.
    conditions: Vec<Conditions<'a>>,
    groups: Vec<RankedGroup<'a>>,
    cost_intervals: Vec<OnceCell<Option<Interval<f64>>>>,
    points: OnceCell<Vec<Point>>,
}

/// The subjects that compete with each other: those that keep up under the same conditions.
#[derive(Debug)]
pub struct RankedGroup<'a> {
    pub conditions: Conditions<'a>,
    /// Indices of the subjects, in the order of the report.
    pub competitors: Vec<usize>,
    /// The standings at the percentiles above that of the ranking, at which no subject is clearly
    /// lower than all others; the highest percentile first.
    pub higher: Vec<Standing>,
    /// The standing at the percentile of the ranking; `None` without a ranking or a competitor.
    pub standing: Option<Standing>,
    /// The subject that is clearly cheaper than all others, if there is one.
    pub cheapest: Option<usize>,
}

/// The lead in a group at one percentile.
#[derive(Clone, Debug)]
pub struct Standing {
    pub percentile: &'static str,
    /// The subject with the lowest value.
    pub best: usize,
    /// The subjects that are not clearly different from the best, by their values.
    pub tied: Vec<usize>,
    /// The subjects that are clearly higher than the best, by their values.
    pub behind: Vec<BehindSubject>,
    /// Whether any difference can be judged.
    pub is_judged: bool,
}

/// A subject that is clearly higher than the best of its group.
#[derive(Clone, Copy, Debug)]
pub struct BehindSubject {
    pub subject: usize,
    /// The difference from the best, which is the base.
    pub difference: PairDifference,
}

impl Standing {
    /// Returns the subject that is clearly lower than all others, if there is one.
    pub fn winner(&self) -> Option<usize> {
        (self.tied.is_empty() && !self.behind.is_empty()).then_some(self.best)
    }

    /// Returns whether no difference is shown between the best subject and any other.
    pub fn is_tie_of_all(&self) -> bool {
        self.behind.is_empty() && !self.tied.is_empty()
    }

    /// Returns whether no subject is clearly lower than this one.
    fn is_leader(&self, subject: usize) -> bool {
        self.best == subject || self.tied.contains(&subject)
    }
}

impl<'a> Ranking<'a> {
    /// Ranks the subjects of a report by the highest percentile at which one of them is clearly
    /// lower than the others with which it competes, and not clearly higher than any of them
    /// further up.
    ///
    /// If there is no such subject, the report ranks by the highest percentile at which at least
    /// some are clearly higher than the best, or else by the highest one. All measured subjects
    /// that did not fail have the percentile, and the machine is trusted at it.
    pub fn new(report: &'a Report) -> Self {
        let conditions = find_conditions(report);
        let mut ranking = Self {
            report,
            evidence: ReportEvidence::new(report),
            candidates: candidates(report),
            percentile: None,
            groups: find_groups(report, &conditions),
            conditions,
            cost_intervals: vec![OnceCell::new(); report.subjects.len()],
            points: OnceCell::new(),
        };
        ranking.decide();
        ranking
    }

    fn decide(&mut self) {
        let mut tried: Vec<GroupStandings> = Vec::new();
        for &percentile in &self.candidates {
            let standings = GroupStandings::new(self, percentile);
            let is_decided = standings.has_lasting_winner(&tried);
            tried.push(standings);
            if is_decided {
                break;
            }
        }
        let has_winner =
            tried.split_last().is_some_and(|(last, higher)| last.has_lasting_winner(higher));
        let chosen = if has_winner {
            tried.len() - 1
        } else {
            tried.iter().position(GroupStandings::has_difference).unwrap_or(0)
        };
        let mut chosen_last: Vec<GroupStandings> = tried.into_iter().take(chosen + 1).collect();
        let Some(chosen) = chosen_last.pop() else { return };
        self.percentile = Some(chosen.percentile);
        let cheapest: Vec<Option<usize>> =
            self.groups.iter().map(|group| self.find_cheapest(&group.competitors)).collect();
        let standings = chosen.groups.into_iter().zip(cheapest);
        for (position, (standing, cheapest)) in standings.enumerate() {
            let higher = chosen_last.iter().filter_map(|tried| tried.groups[position].clone());
            let group = &mut self.groups[position];
            group.higher = higher.collect();
            (group.standing, group.cheapest) = (standing, cheapest);
        }
    }

    /// Returns the report.
    pub fn report(&self) -> &'a Report {
        self.report
    }

    /// Returns the key of the percentile by which the report ranks.
    ///
    /// Returns `None` if the machine is not trusted at any percentile: lateness that is not the
    /// subjects' own gives no ranking.
    pub fn percentile(&self) -> Option<&'static str> {
        self.percentile
    }

    /// Returns the keys of the percentiles by which the report could rank, the highest first.
    pub fn candidates(&self) -> &[&'static str] {
        &self.candidates
    }

    /// Returns the key of the percentile that represents a subject's lateness: the one by which the
    /// report ranks, or the median of a report without a ranking.
    pub fn shown(&self) -> &'static str {
        self.percentile.unwrap_or(FALLBACK)
    }

    /// Returns the groups of competing subjects. Their order is that of their conditions.
    pub fn groups(&self) -> &[RankedGroup<'a>] {
        &self.groups
    }

    /// Returns the group whose conditions a subject shares, even if it does not compete.
    pub fn group_of(&self, subject: usize) -> Option<&RankedGroup<'a>> {
        let conditions = self.conditions[subject];
        let found = self.groups.binary_search_by(|group| group.conditions.cmp(&conditions));
        found.ok().map(|position| &self.groups[position])
    }

    /// Returns whether a subject is clearly lower than all others with which it competes.
    pub fn is_winner(&self, subject: usize) -> bool {
        let standing = self.group_of(subject).and_then(|group| group.standing.as_ref());
        standing.and_then(Standing::winner) == Some(subject)
    }

    /// Returns whether a subject is clearly cheaper than all others with which it competes.
    pub fn is_cheapest(&self, subject: usize) -> bool {
        self.group_of(subject).and_then(|group| group.cheapest) == Some(subject)
    }

    /// Returns the value by which a subject is sorted. Subjects without a clear difference from the
    /// best of their group have its value.
    pub fn sort_value(&self, subject: usize) -> Option<i64> {
        let standing = self.group_of(subject).and_then(|group| group.standing.as_ref());
        let leader = standing.filter(|standing| standing.is_leader(subject));
        let subject = leader.map_or(subject, |standing| standing.best);
        let lateness = &self.report.subjects[subject].summary.as_ref()?.lateness_ns;
        Some(lateness.percentile(self.shown()).unwrap_or(lateness.max))
    }

    /// Returns the difference between two subjects at the percentile of the ranking.
    pub fn difference(&self, base: usize, candidate: usize) -> PairDifference {
        self.evidence.difference(Sides { base, candidate }, self.shown())
    }

    /// Returns the subjects that have both a percentile and a cost.
    pub fn points(&self) -> &[Point] {
        self.points.get_or_init(|| self.find_points())
    }

    fn find_points(&self) -> Vec<Point> {
        let mut points = tradeoff::points(self.report, self.shown());
        if self.percentile.is_none() {
            return points;
        }
        for (number, group) in self.groups.iter().enumerate() {
            let is_competitor =
                |position: &usize| group.competitors.contains(&points[*position].subject);
            let positions: Vec<usize> = (0..points.len()).filter(is_competitor).collect();
            for &position in &positions {
                let others = positions.iter().filter(|&&other| other != position);
                let others: Vec<Rivalry> =
                    others.map(|&other| self.rivalry(&points[position], &points[other])).collect();
                let is_compared = others.iter().any(Rivalry::is_clear);
                points[position].group = Some(number);
                points[position].front = is_compared && !others.iter().any(Rivalry::is_lost);
            }
        }
        points
    }

    /// Compares a point with another in lateness and cost.
    fn rivalry(&self, point: &Point, other: &Point) -> Rivalry {
        let lateness = self.difference(point.subject, other.subject).conclusion;
        let cost = self.cost_difference(point.subject, other.subject).conclusion;
        Rivalry { lateness, cost }
    }

    /// Returns the subject that is clearly cheaper than all others; `None` if there is none, or a
    /// cost is not known.
    fn find_cheapest(&self, competitors: &[usize]) -> Option<usize> {
        let costs: Option<Vec<f64>> = competitors.iter().map(|&index| self.cost(index)).collect();
        let costs = costs?;
        let cheapest = (0..costs.len()).min_by(|&a, &b| costs[a].total_cmp(&costs[b]))?;
        let cheapest = competitors[cheapest];
        let mut others = competitors.iter().filter(|&&other| other != cheapest);
        let is_cheaper = |&other: &usize| {
            self.cost_difference(cheapest, other).conclusion == Conclusion::BaseIsLower
        };
        (competitors.len() > 1 && others.all(is_cheaper)).then_some(cheapest)
    }

    /// Returns the CPU time per tick of a subject, if it is known.
    fn cost(&self, subject: usize) -> Option<f64> {
        self.report.subjects[subject].summary.as_ref()?.cpu_ns_per_tick
    }

    /// Returns the difference between the CPU times per tick of two subjects.
    fn cost_difference(&self, base: usize, candidate: usize) -> PairDifference {
        let pair = Sides { base, candidate };
        let values = pair.map(|index| self.cost(index).unwrap_or_default());
        let interval = |index: usize| {
            let subject = &self.report.subjects[index];
            *self.cost_intervals[index].get_or_init(|| per_tick_ci95(subject).map(Interval::from))
        };
        PairDifference::from_intervals(values, pair.map(interval), 0.0)
    }

    /// Returns the lead among competitors at a percentile; `None` without competitors.
    fn find_standing(&self, competitors: &[usize], percentile: &'static str) -> Option<Standing> {
        let value = |index: &usize| {
            let summary = self.report.subjects[*index].summary.as_ref();
            summary.and_then(|summary| summary.lateness_ns.percentile(percentile))
        };
        let mut by_value: Vec<usize> =
            competitors.iter().copied().filter(|index| value(index).is_some()).collect();
        by_value.sort_by_key(|index| value(index));
        let (&best, others) = by_value.split_first()?;
        let (mut tied, mut behind, mut is_judged) = (Vec::new(), Vec::new(), false);
        for &subject in others {
            let pair = Sides { base: best, candidate: subject };
            let difference = self.evidence.difference(pair, percentile);
            is_judged |= difference.conclusion != Conclusion::Unknown;
            if difference.conclusion == Conclusion::BaseIsLower {
                behind.push(BehindSubject { subject, difference });
            } else {
                tied.push(subject);
            }
        }
        Some(Standing { percentile, best, tied, behind, is_judged })
    }
}

/// The standings of all groups at one percentile.
struct GroupStandings {
    percentile: &'static str,
    groups: Vec<Option<Standing>>,
}

impl GroupStandings {
    fn new(ranking: &Ranking<'_>, percentile: &'static str) -> Self {
        let groups = ranking.groups.iter();
        let standings = groups.map(|group| ranking.find_standing(&group.competitors, percentile));
        Self { percentile, groups: standings.collect() }
    }

    /// Returns whether a group has a winner that leads at all higher percentiles as well.
    fn has_lasting_winner(&self, higher: &[Self]) -> bool {
        self.groups.iter().enumerate().any(|(position, standing)| {
            let Some(winner) = standing.as_ref().and_then(Standing::winner) else { return false };
            let mut above = higher.iter().filter_map(|tried| tried.groups[position].as_ref());
            above.all(|standing| standing.is_leader(winner))
        })
    }

    /// Returns whether any subject is clearly higher than the best of its group.
    fn has_difference(&self) -> bool {
        self.groups.iter().flatten().any(|standing| !standing.behind.is_empty())
    }
}

/// The conclusions about a subject, which is the base, and another.
struct Rivalry {
    lateness: Conclusion,
    cost: Conclusion,
}

impl Rivalry {
    /// Returns whether the two differ clearly in lateness or cost.
    fn is_clear(&self) -> bool {
        let is_clear =
            |c: Conclusion| matches!(c, Conclusion::BaseIsLower | Conclusion::CandidateIsLower);
        is_clear(self.lateness) || is_clear(self.cost)
    }

    /// Returns whether the other is clearly better in one, and not clearly worse in the other.
    fn is_lost(&self) -> bool {
        let both = [self.lateness, self.cost];
        both.contains(&Conclusion::CandidateIsLower) && !both.contains(&Conclusion::BaseIsLower)
    }
}

/// Returns the percentiles by which a report can rank, the highest first.
fn candidates(report: &Report) -> Vec<&'static str> {
    let trust = Trust::from_report(report);
    // A subject that failed after its first rounds can have few ticks. It counts if none competes.
    let has_competitor = report.subjects.iter().any(keeps_up);
    let is_counted = |subject: &&Subject| !has_competitor || subject.status.failure().is_none();
    let counted = report.subjects.iter().filter(is_counted);
    let summaries = counted.filter_map(|subject| subject.summary.as_ref());
    let is_supported =
        |key: &str| summaries.clone().all(|summary| summary.lateness_ns.percentile(key).is_some());
    let mut candidates: Vec<&'static str> =
        PERCENTILES.into_iter().filter(|key| is_supported(key) && trust.covers(key)).collect();
    if candidates.is_empty() && trust.covers(FALLBACK) {
        candidates.push(FALLBACK);
    }
    candidates
}

/// Returns the groups of competing subjects in the order of their conditions. A report of gaps has
/// none: a gap has no lateness.
fn find_groups<'a>(report: &Report, conditions: &[Conditions<'a>]) -> Vec<RankedGroup<'a>> {
    if is_gaps(report) {
        return Vec::new();
    }
    let mut competitors: BTreeMap<Conditions<'a>, Vec<usize>> = BTreeMap::new();
    for (index, subject) in report.subjects.iter().enumerate() {
        if keeps_up(subject) {
            competitors.entry(conditions[index]).or_default().push(index);
        }
    }
    let new_group = |(conditions, competitors)| RankedGroup {
        conditions,
        competitors,
        higher: Vec::new(),
        standing: None,
        cheapest: None,
    };
    competitors.into_iter().map(new_group).collect()
}

/// Returns the conditions of each subject.
fn find_conditions(report: &Report) -> Vec<Conditions<'_>> {
    let mut conditions = Vec::with_capacity(report.subjects.len());
    for (subject, cpu) in report.subjects.iter().zip(concurrent_cpus(report)) {
        let (period_ns, load) = (subject.period_ns, subject.load.as_deref());
        conditions.push(Conditions { period_ns, load, cpu });
    }
    conditions
}

#[cfg(test)]
mod tests {
    use files::fitness::{Facts, Fitness};
    use files::report::Status;

    use super::*;
    use crate::report::synthetic::{
        ROUNDS, SyntheticSubject, remove_evidence, remove_rounds, report, subject,
    };

    const EQUAL: [SyntheticSubject; 2] =
        [subject("a", 40.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)];
    const APART: [SyntheticSubject; 2] =
        [subject("a", 48.0, 240.0, 30.0), subject("b", 40.0, 200.0, 30.0)];
    /// Equal tails; the second subject is lower at the median.
    const TIE_AT_P99: [SyntheticSubject; 2] =
        [subject("a", 60.0, 200.0, 30.0), subject("b", 40.0, 200.0, 30.0)];

    #[test]
    fn failed_subjects_do_not_compete() {
        let mut report = report(&APART, ROUNDS);
        assert_eq!(winners(&Ranking::new(&report)), [1]);
        report.subjects[1].status = Status::Failed { reason: "it crashed".to_owned() };
        let ranking = Ranking::new(&report);
        assert_eq!((winners(&ranking), &ranking.groups()[0].competitors), (vec![], &vec![0]));
        assert!(!ranking.is_cheapest(1) && !ranking.points().iter().any(|point| point.front));
        // Nor do they choose the percentile, unless there is no other subject.
        report.subjects[1].summary.as_mut().expect("a summary").lateness_ns.p99 = None;
        assert_eq!(Ranking::new(&report).percentile(), Some("p99"));
        report.subjects[0].status = Status::Failed { reason: "it crashed".to_owned() };
        assert_eq!(Ranking::new(&report).percentile(), Some("p90"));
    }

    fn winners(ranking: &Ranking<'_>) -> Vec<usize> {
        (0..ranking.report().subjects.len()).filter(|&index| ranking.is_winner(index)).collect()
    }

    fn front(ranking: &Ranking<'_>) -> Vec<usize> {
        ranking.points().iter().filter(|point| point.front).map(|point| point.subject).collect()
    }

    #[test]
    fn equal_subjects_have_no_winner() {
        let report = report(&EQUAL, ROUNDS);
        let ranking = Ranking::new(&report);
        assert_eq!(ranking.percentile(), Some("p99"));
        assert_eq!((winners(&ranking), front(&ranking)), (vec![], vec![]));
        assert!(ranking.groups()[0].standing.as_ref().is_some_and(Standing::is_tie_of_all));
        assert_eq!(ranking.sort_value(0), ranking.sort_value(1), "the order of the report");
    }

    #[test]
    fn clearly_lower_subject_wins() {
        let report = report(&APART, ROUNDS);
        let ranking = Ranking::new(&report);
        assert_eq!(ranking.percentile(), Some("p99"));
        assert_eq!((winners(&ranking), front(&ranking)), (vec![1], vec![1]));
        assert!(ranking.sort_value(1) < ranking.sort_value(0));
        let ratio = ranking.difference(1, 0).ratio.expect("a ratio");
        assert!((1.15..1.25).contains(&ratio), "{ratio}");
    }

    #[test]
    fn tie_is_ranked_by_separating_percentile() {
        let report = report(&TIE_AT_P99, ROUNDS);
        let ranking = Ranking::new(&report);
        assert_eq!((ranking.percentile(), winners(&ranking)), (Some("p90"), vec![1]));
        let higher: Vec<&str> =
            ranking.groups()[0].higher.iter().map(|standing| standing.percentile).collect();
        assert_eq!(higher, ["p99"]);
    }

    #[test]
    fn winner_leads_at_higher_percentiles() {
        // The last subject has the lowest median and a much higher tail.
        let subjects = [
            subject("a", 60.0, 200.0, 30.0),
            subject("b", 60.0, 200.0, 30.0),
            subject("c", 40.0, 300.0, 30.0),
        ];
        let report = report(&subjects, ROUNDS);
        let ranking = Ranking::new(&report);
        let standing = ranking.groups()[0].standing.as_ref().expect("a standing");
        assert_eq!((ranking.percentile(), winners(&ranking)), (Some("p99"), vec![]));
        assert_eq!(standing.behind.iter().map(|b| b.subject).collect::<Vec<_>>(), [2]);
        assert!(ranking.sort_value(2) > ranking.sort_value(0));
    }

    #[test]
    fn intervals_suffice_without_rounds() {
        let mut apart = report(&[subject("a", 80.0, 400.0, 30.0), APART[1]], ROUNDS);
        remove_rounds(&mut apart);
        assert_eq!(winners(&Ranking::new(&apart)), [1]);
        remove_evidence(&mut apart);
        let ranking = Ranking::new(&apart);
        assert_eq!((winners(&ranking), front(&ranking)), (vec![], vec![]));
        assert_eq!(ranking.difference(1, 0).ratio, None);
        let few = report(&[subject("a", 80.0, 400.0, 30.0), APART[1]], 9);
        assert_eq!(winners(&Ranking::new(&few)), [0_usize; 0]);
    }

    #[test]
    fn ranking_uses_trusted_percentiles() {
        let mut report = report(&APART, ROUNDS);
        for (distrusted, ranked) in
            [("p99_9", Some("p99")), ("p99", Some("p90")), ("p90", Some("p50")), ("p50", None)]
        {
            report.fitness = Some(Fitness::from_facts(Facts::default(), Some(distrusted), Some(2)));
            let ranking = Ranking::new(&report);
            assert_eq!(ranking.percentile(), ranked, "{distrusted}");
            assert_eq!(!winners(&ranking).is_empty(), ranked.is_some(), "{distrusted}");
            assert_eq!(!front(&ranking).is_empty(), ranked.is_some(), "{distrusted}");
        }
        assert_eq!(Ranking::new(&report).shown(), "p50", "pictures show the median");
    }

    #[test]
    fn cost_needs_separate_intervals() {
        let costs = |a_us, b_us| {
            let report =
                report(&[subject("a", 40.0, 200.0, a_us), subject("b", 40.0, 200.0, b_us)], ROUNDS);
            let ranking = Ranking::new(&report);
            let cheapest: Vec<usize> = (0..2).filter(|&i| ranking.is_cheapest(i)).collect();
            (cheapest, front(&ranking))
        };
        assert_eq!(costs(30.0, 30.1), (vec![], vec![]));
        assert_eq!(costs(30.0, 40.0), (vec![0], vec![0]));
        let mut unknown = report(&APART, ROUNDS);
        unknown.subjects[0].summary.as_mut().expect("a summary").cpu_ns_per_tick = None;
        assert!(!Ranking::new(&unknown).is_cheapest(1), "the other cost is not known");
    }

    #[test]
    fn only_equal_conditions_compete() {
        let mut report = report(&APART, ROUNDS);
        report.subjects[0].load = Some("cpu:2".to_owned());
        let ranking = Ranking::new(&report);
        assert_eq!((winners(&ranking), front(&ranking)), (vec![], vec![]));
        let groups: Vec<Option<usize>> = ranking.points().iter().map(|p| p.group).collect();
        assert_eq!(groups, [Some(1), Some(0)]);
        report.subjects[0].load = None;
        report.subjects[1].name = "nanosleep".to_owned();
        assert_eq!(winners(&Ranking::new(&report)), [0_usize; 0], "a control does not compete");
        report.subjects[1].name = "b".to_owned();
        let missing = report.subjects[1].summary.as_mut().expect("a summary");
        missing.missed = Some(missing.ticks / 10 * 9);
        assert_eq!(winners(&Ranking::new(&report)), [0_usize; 0], "it does not keep up");
    }

    #[test]
    fn trade_off_rings_both_ends() {
        let subjects = [
            subject("cheap", 60.0, 300.0, 20.0),
            subject("low", 40.0, 200.0, 40.0),
            subject("neither", 60.0, 300.0, 40.0),
        ];
        let report = report(&subjects, ROUNDS);
        assert_eq!(front(&Ranking::new(&report)), [0, 1]);
    }
}
