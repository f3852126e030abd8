//! Converts the waits of a window to the subjects of a report: one per thread and kind of timer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use files::histogram;
use files::report::why::Tier;
use files::report::{Round, Status, Subject, Summary};
use files::round_costs::RoundCost;
use files::summary::{InstanceRound, summarise};
use files::why::MeasurableParts;
use files::why::pool::{Pool, ProfiledRound, ProfiledTick};
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::quantile::nearest_rank;

use crate::trace::tracker::Wait;

/// Number of rounds per window. The length of a round has bounds, so there may be fewer or more.
const ROUNDS: i64 = 20;
const MIN_ROUND_NS: i64 = 100_000_000;
const MAX_ROUND_NS: i64 = 1_000_000_000;
const MAX_ROUNDS: i64 = 100_000_000;
/// Minimum share of the intervals between timers that must be close to the median for the timers to
/// be periodic.
const MIN_REGULAR_SHARE: f64 = 0.8;
/// Maximum relative difference of such an interval from the median.
const REGULAR_TOLERANCE: f64 = 0.1;
/// Minimum number of intervals needed to detect a period.
const MIN_INTERVALS: usize = 10;
/// Number of significant digits of a detected period.
const PERIOD_DIGITS: u32 = 3;
/// Maximum number of subjects. Those with the most timers are kept.
const MAX_SUBJECTS: usize = 256;

/// The waits of one thread on one kind of timer.
#[derive(Debug)]
pub struct Group<'a> {
    /// Name of the thread and kind, unique in a report.
    pub name: String,
    pub kind: &'static str,
    /// The waits in order of deadline.
    pub waits: Vec<&'a Wait>,
}

/// The groups of a window.
#[derive(Debug)]
pub struct Groups<'a> {
    pub groups: Vec<Group<'a>>,
    /// Number of waits that are in no group, because there were too many threads.
    pub left_out: usize,
}

/// The waits of a group that has no name yet.
struct UnnamedGroup<'a> {
    thread: u32,
    kind: &'static str,
    waits: Vec<&'a Wait>,
}

impl UnnamedGroup<'_> {
    /// Returns the last name of the thread, as an id can contain it.
    fn thread_name(&self) -> String {
        let name = self.waits.last().map_or_else(String::new, |wait| wait.name.to_string());
        sanitize(&name)
    }
}

impl<'a> Groups<'a> {
    pub fn from_waits(waits: &'a [Wait]) -> Self {
        let mut by_thread: BTreeMap<(u32, &'static str), Vec<&Wait>> = BTreeMap::new();
        for wait in waits {
            by_thread.entry((wait.thread, wait.kind)).or_default().push(wait);
        }
        let mut unnamed: Vec<UnnamedGroup<'a>> = by_thread
            .into_iter()
            .map(|((thread, kind), waits)| UnnamedGroup { thread, kind, waits })
            .collect();
        unnamed.sort_by_key(|group| Reverse(group.waits.len()));
        let left_out = unnamed.iter().skip(MAX_SUBJECTS).map(|group| group.waits.len()).sum();
        unnamed.truncate(MAX_SUBJECTS);
        let threads_by_name = group_threads_by_name(&unnamed);
        let groups = unnamed.into_iter().map(|group| name_group(group, &threads_by_name)).collect();
        Self { groups, left_out }
    }
}

/// Returns the threads that have each name, in ascending order.
fn group_threads_by_name(groups: &[UnnamedGroup<'_>]) -> BTreeMap<String, Vec<u32>> {
    let mut threads: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    for group in groups {
        let known = threads.entry(group.thread_name()).or_default();
        if let Err(position) = known.binary_search(&group.thread) {
            known.insert(position, group.thread);
        }
    }
    threads
}

/// Names a group. The first thread of a name has that name; the others have a number as well.
fn name_group<'a>(
    group: UnnamedGroup<'a>,
    threads_by_name: &BTreeMap<String, Vec<u32>>,
) -> Group<'a> {
    let name = group.thread_name();
    let UnnamedGroup { thread, kind, mut waits } = group;
    let index = threads_by_name[&name].iter().position(|known| *known == thread).unwrap_or(0);
    let suffix = if index == 0 { String::new() } else { format!(".{}", index + 1) };
    waits.sort_by_key(|wait| wait.deadline_ns);
    Group { name: format!("{name}{suffix}/{kind}"), kind, waits }
}

/// Replaces the characters that an id cannot contain.
fn sanitize(name: &str) -> String {
    let is_allowed = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    if name.is_empty() {
        return "thread".to_owned();
    }
    name.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect()
}

/// Returns the period of the timers, or `None` if most intervals between deadlines differ.
pub fn detect_period_ns(waits: &[&Wait]) -> Option<u64> {
    let intervals =
        waits.windows(2).map(|pair| pair[1].deadline_ns.saturating_sub(pair[0].deadline_ns));
    let mut intervals: Vec<i64> = intervals.filter(|ns| *ns > 0).collect();
    intervals.sort_unstable();
    let median = nearest_rank(&intervals, 0.5).filter(|_| intervals.len() >= MIN_INTERVALS)?;
    let is_regular = |ns: &&i64| ns.abs_diff(median) as f64 <= median as f64 * REGULAR_TOLERANCE;
    let regular = intervals.iter().filter(is_regular).count();
    (regular as f64 >= intervals.len() as f64 * MIN_REGULAR_SHARE)
        .then(|| round_to_digits(median.unsigned_abs()))
}

fn round_to_digits(ns: u64) -> u64 {
    let step = 10_u64.pow(ns.max(1).ilog10().saturating_sub(PERIOD_DIGITS - 1));
    (ns + step / 2) / step * step
}

/// Returns the length of a window's rounds.
pub fn round_ns(window_ns: i64) -> i64 {
    (window_ns / ROUNDS).clamp(MIN_ROUND_NS, MAX_ROUND_NS)
}

/// The waits of a group in one round.
struct GroupRound<'a> {
    index: i64,
    /// First deadline, since the window began.
    start_ns: u64,
    samples: RoundSamples,
    waits: &'a [&'a Wait],
}

impl GroupRound<'_> {
    fn instance(&self) -> InstanceRound<'_> {
        InstanceRound {
            round: self.index.unsigned_abs(),
            samples: &self.samples,
            cost: RoundCost::default(),
        }
    }

    fn to_report(&self, period_ns: u64, length_ns: i64) -> Round {
        Round {
            index: self.index.unsigned_abs(),
            start_ns: self.start_ns,
            window_ns: Some(length_ns.unsigned_abs()),
            summary: without_cost(summarise(&[self.instance()], false), period_ns),
            first_tick: self.samples.grid.first_tick,
            lateness_ns: self.samples.lateness_ns.clone(),
            ..Round::default()
        }
    }

    fn to_profiled(&self, known: MeasurableParts) -> ProfiledRound {
        ProfiledRound {
            index: self.index.unsigned_abs(),
            start_ns: self.start_ns,
            ticks: (0..).zip(self.waits).map(|(tick, wait)| profiled_tick(tick, wait)).collect(),
            tier: Some(Tier::B2),
            known,
            ..ProfiledRound::default()
        }
    }
}

fn profiled_tick(tick: u64, wait: &Wait) -> ProfiledTick {
    ProfiledTick {
        instance: 0,
        tick,
        deadline_ns: wait.deadline_ns,
        wake_ns: wait.end_ns,
        parts: wait.parts,
        behind: wait.behind.iter().map(|(name, ns)| (name.to_string(), *ns)).collect(),
        way: Some(wait.wakeup_path()),
        stacks: Vec::new(),
    }
}

/// Splits a group into rounds of equal length, each with a grid that starts at its first deadline.
/// The window began at `from_ns`.
fn split_into_rounds<'a>(
    group: &'a Group<'_>,
    period_ns: u64,
    from_ns: i64,
    length_ns: i64,
) -> Vec<GroupRound<'a>> {
    let since_start_ns = |wait: &Wait| wait.deadline_ns.saturating_sub(from_ns).max(0);
    let index = |wait: &&Wait| (since_start_ns(wait) / length_ns).min(MAX_ROUNDS);
    let mut rounds = Vec::new();
    for waits in group.waits.chunk_by(|a, b| index(a) == index(b)) {
        let ticks = waits.len() as u64;
        let samples = RoundSamples {
            grid: Grid { period_ns, first_tick: 0, ticks },
            ticks: (0..ticks).collect(),
            lateness_ns: waits.iter().map(|wait| wait.lateness_ns()).collect(),
            until_unpark_ns: vec![None; waits.len()],
            coalesced: 0,
        };
        let start_ns = since_start_ns(waits[0]).unsigned_abs();
        rounds.push(GroupRound { index: index(&waits[0]), start_ns, samples, waits });
    }
    rounds
}

/// Converts a group to a subject of the report. The window began at `from_ns`, and its rounds have
/// the length `length_ns`.
pub fn subject(group: &Group<'_>, from_ns: i64, length_ns: i64) -> Subject {
    let period_ns = detect_period_ns(&group.waits).unwrap_or(0);
    let rounds = split_into_rounds(group, period_ns, from_ns, length_ns);
    let instances: Vec<InstanceRound<'_>> = rounds.iter().map(GroupRound::instance).collect();
    let known = MeasurableParts {
        slack: group.waits.iter().any(|wait| wait.slack_ns > 0),
        ..MeasurableParts::default()
    };
    let mut pool = Pool::new(None, group.waits.len() as u64);
    for round in &rounds {
        pool.add(round.to_profiled(known));
    }
    Subject {
        backend: Some(group.kind.to_owned()),
        summary: without_cost(summarise(&instances, false), period_ns),
        histogram: Some(histogram::pack(group.waits.iter().map(|wait| wait.lateness_ns()))),
        rounds: rounds.iter().map(|round| round.to_report(period_ns, length_ns)).collect(),
        why: Some(pool.finish(&[], None)),
        ..Subject::new(group.name.clone(), &group.name, period_ns, Status::Measured)
    }
}

/// Removes the costs, which a trace does not measure, and the missed ticks unless there is a
/// period.
fn without_cost(summary: Option<Summary>, period_ns: u64) -> Option<Summary> {
    let summary = summary?;
    let missed = summary.missed.filter(|_| period_ns > 0);
    Some(Summary { missed, cpu_ns_per_tick: None, wakeups_per_tick: None, ..summary })
}

#[cfg(test)]
mod tests {
    use engine::machine::os::ThreadName;
    use files::why::Parts;

    use super::*;

    fn wait(deadline_ns: i64, lateness_ns: i64) -> Wait {
        Wait {
            thread: 7,
            name: ThreadName::from_bytes(b"loop"),
            kind: "timerfd",
            deadline_ns,
            expired_ns: None,
            woken_ns: None,
            ran_ns: None,
            end_ns: deadline_ns + lateness_ns,
            slack_ns: 0,
            parts: Parts::default(),
            behind: Vec::new(),
        }
    }

    #[test]
    fn ticks_keep_their_times() {
        const FROM_NS: i64 = 5_000_000_000;
        const PERIOD_NS: i64 = 10_000_000;
        let deadline_ns = |k| FROM_NS + 3_000_000 + k * PERIOD_NS;
        let waits: Vec<Wait> = (0..100).map(|k| wait(deadline_ns(k), 1_000 * (k + 1))).collect();
        let group = Group {
            name: "loop/timerfd".to_owned(),
            kind: "timerfd",
            waits: waits.iter().collect(),
        };
        let subject = subject(&group, FROM_NS, MIN_ROUND_NS);
        assert_eq!((subject.period_ns, subject.rounds.len()), (PERIOD_NS.unsigned_abs(), 10));
        let mut deadlines_ns = Vec::new();
        for round in &subject.rounds {
            for i in 0..round.lateness_ns.len() {
                deadlines_ns.push(round.deadline_ns(i, subject.period_ns));
            }
        }
        let expected: Vec<u64> =
            (0..100).map(|k| (deadline_ns(k) - FROM_NS).unsigned_abs()).collect();
        assert_eq!(deadlines_ns, expected);
        let why = subject.why.expect("a diagnosis");
        for tick in &why.longest {
            let round = why.rounds.iter().find(|round| round.index == tick.round).expect("a round");
            let k = (tick.lateness_ns / 1_000 - 1) as usize;
            assert_eq!(round.start_ns + tick.tick * subject.period_ns, expected[k], "{tick:?}");
        }
    }
}
