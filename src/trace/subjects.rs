//! From the waits of a window to the subjects of a report: one for each thread and what it waited
//! in.

use std::collections::BTreeMap;

use files::histogram;
use files::report::why::Tier;
use files::report::{Round, Status, Subject, Summary};
use files::summary::{InstanceRound, RoundCost, summarise};
use files::why::MeasurableParts;
use files::why::pool::{Pool, ProfiledRound, ProfiledTick};
use jitterstat::sample::{Grid, RoundSamples};
use jitterstat::stats::quantile::nearest_rank;

use crate::trace::waits::Wait;

/// A window is cut into so many rounds, within these bounds.
const ROUNDS: i64 = 20;
const MIN_ROUND_NS: i64 = 100_000_000;
const MAX_ROUND_NS: i64 = 1_000_000_000;
const MAX_ROUNDS: i64 = 100_000_000;
/// Timers are periodic where so many of their distances lie so near to the usual one, and there are
/// that many.
const REGULAR: f64 = 0.8;
const NEAR: f64 = 0.1;
const MIN_DISTANCES: usize = 10;
/// A period is known to so many digits.
const DIGITS: u32 = 3;
/// Threads with the most timers first, no more subjects than these.
const MAX_SUBJECTS: usize = 256;

/// The waits of one thread in one kind of timer.
#[derive(Debug)]
pub struct Group<'a> {
    /// Unique in a report.
    pub name: String,
    pub kind: &'static str,
    /// In order of deadline.
    pub waits: Vec<&'a Wait>,
}

/// All of them, and how many waits are left out because there are too many threads.
pub fn groups<'a>(waits: &'a [Wait]) -> (Vec<Group<'a>>, usize) {
    let mut by_thread: BTreeMap<(u32, &'static str), Vec<&Wait>> = BTreeMap::new();
    for wait in waits {
        by_thread.entry((wait.thread, wait.kind)).or_default().push(wait);
    }
    let mut all: Vec<((u32, &'static str), Vec<&Wait>)> = by_thread.into_iter().collect();
    all.sort_by_key(|(_, waits)| std::cmp::Reverse(waits.len()));
    let left_out = all.iter().skip(MAX_SUBJECTS).map(|(_, waits)| waits.len()).sum();
    all.truncate(MAX_SUBJECTS);
    // The first thread of a name, by its number, has that name alone.
    let mut named: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let name_of = |waits: &[&Wait]| {
        plain(&waits.last().map_or_else(String::new, |wait| wait.name.to_string()))
    };
    for ((thread, _), waits) in &all {
        let threads = named.entry(name_of(waits)).or_default();
        if !threads.contains(thread) {
            threads.push(*thread);
        }
    }
    named.values_mut().for_each(|threads| threads.sort_unstable());
    let group = |((thread, kind), mut waits): ((u32, &'static str), Vec<&'a Wait>)| {
        let name = name_of(&waits);
        let place = named[&name].iter().position(|of| *of == thread).unwrap_or(0);
        let nth = if place == 0 { String::new() } else { format!(".{}", place + 1) };
        waits.sort_by_key(|wait| wait.deadline_ns);
        Group { name: format!("{name}{nth}/{kind}"), kind, waits }
    };
    let groups = all.into_iter().map(group).collect::<Vec<_>>();
    (groups, left_out)
}

/// As it can stand in an id.
fn plain(name: &str) -> String {
    let fine =
        |c: char| if c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | ':') { c } else { '_' };
    if name.is_empty() { "thread".to_owned() } else { name.chars().map(fine).collect() }
}

/// The distance at which timers were to expire, where most have the same.
pub fn period_ns(waits: &[&Wait]) -> Option<u64> {
    let distances =
        waits.windows(2).map(|pair| pair[1].deadline_ns.saturating_sub(pair[0].deadline_ns));
    let mut distances: Vec<i64> = distances.filter(|ns| *ns > 0).collect();
    distances.sort_unstable();
    let usual = nearest_rank(&distances, 0.5).filter(|_| distances.len() >= MIN_DISTANCES)?;
    let near =
        distances.iter().filter(|ns| ns.abs_diff(usual) as f64 <= usual as f64 * NEAR).count();
    (near as f64 >= distances.len() as f64 * REGULAR).then(|| rounded(usual.unsigned_abs()))
}

fn rounded(ns: u64) -> u64 {
    let step = 10_u64.pow(ns.max(1).ilog10().saturating_sub(DIGITS - 1));
    (ns + step / 2) / step * step
}

/// Length of the rounds of a window.
pub fn round_ns(window_ns: i64) -> i64 {
    (window_ns / ROUNDS).clamp(MIN_ROUND_NS, MAX_ROUND_NS)
}

/// A group as a report has it; the window began at `from_ns`.
pub fn subject(group: &Group<'_>, from_ns: i64, length_ns: i64) -> Subject {
    let period_ns = period_ns(&group.waits).unwrap_or(0);
    let place =
        |wait: &&Wait| (wait.deadline_ns.saturating_sub(from_ns) / length_ns).clamp(0, MAX_ROUNDS);
    let mut first_tick = 0;
    let mut rounds: Vec<(i64, RoundSamples, &[&Wait])> = Vec::new();
    for waits in group.waits.chunk_by(|a, b| place(a) == place(b)) {
        let ticks = waits.len() as u64;
        let samples = RoundSamples {
            grid: Grid { period_ns, first_tick, ticks },
            ticks: (first_tick..first_tick + ticks).collect(),
            lateness_ns: waits.iter().map(|wait| wait.lateness_ns()).collect(),
            until_unpark_ns: vec![None; waits.len()],
            coalesced: 0,
        };
        rounds.push((place(&waits[0]), samples, waits));
        first_tick += ticks;
    }
    let part = |(index, samples, _): &'_ (i64, RoundSamples, &[&Wait])| -> Option<Summary> {
        let part =
            InstanceRound { round: index.unsigned_abs(), samples, cost: RoundCost::default() };
        without_cost(summarise(&[part], false), period_ns)
    };
    let parts: Vec<InstanceRound<'_>> = rounds
        .iter()
        .map(|(index, samples, _)| InstanceRound {
            round: index.unsigned_abs(),
            samples,
            cost: RoundCost::default(),
        })
        .collect();
    let mut pool = Pool::new(None, first_tick);
    let known = MeasurableParts {
        slack: group.waits.iter().any(|wait| wait.slack_ns > 0),
        ..MeasurableParts::default()
    };
    for (index, _, waits) in &rounds {
        pool.add(asked(*index, waits, length_ns, known));
    }
    let entry = |round: &(i64, RoundSamples, &[&Wait])| Round {
        index: round.0.unsigned_abs(),
        start_ns: (round.0 * length_ns).unsigned_abs(),
        window_ns: Some(length_ns.unsigned_abs()),
        summary: part(round),
        first_tick: round.1.grid.first_tick,
        lateness_ns: round.1.lateness_ns.clone(),
        ..Round::default()
    };
    Subject {
        id: group.name.clone(),
        name: group.name.clone(),
        period_ns,
        runtime: None,
        instances: 1,
        load: None,
        backend: Some(group.kind.to_owned()),
        status: Status::Measured,
        summary: without_cost(summarise(&parts, false), period_ns),
        histogram: Some(histogram::pack(group.waits.iter().map(|wait| wait.lateness_ns()))),
        rounds: rounds.iter().map(entry).collect(),
        why: Some(pool.finish(&[], None)),
    }
}

/// Nothing is known of what a wait cost; without a period none can be missed.
fn without_cost(summary: Option<Summary>, period_ns: u64) -> Option<Summary> {
    let summary = summary?;
    let missed = if period_ns > 0 { summary.missed } else { 0 };
    Some(Summary { missed, cpu_ns_per_tick: None, wakeups_per_tick: None, ..summary })
}

fn asked(index: i64, waits: &[&Wait], length_ns: i64, known: MeasurableParts) -> ProfiledRound {
    let tick = |(tick, wait): (u64, &&Wait)| ProfiledTick {
        instance: 0,
        tick,
        deadline_ns: wait.deadline_ns,
        wake_ns: wait.end_ns,
        parts: wait.parts,
        behind: wait.behind.iter().map(|(name, ns)| (name.to_string(), *ns)).collect(),
        way: Some(wait.way()),
    };
    ProfiledRound {
        index: index.unsigned_abs(),
        start_ns: (index * length_ns).unsigned_abs(),
        ticks: (0..).zip(waits).map(tick).collect(),
        tier: Some(Tier::B2),
        known,
        ..ProfiledRound::default()
    }
}
