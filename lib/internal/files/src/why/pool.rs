//! The explanation of the late ticks of a subject: their causes, episodes, intervals over rounds,
//! and the overhead of profiling.

use std::collections::BTreeMap;

use crate::counters::add_if_known;
use crate::report::why::{
    Behind, Class, Difference, Evidence, KernelChain, LateCode, LateTick, Missing, SampledCode,
    Shares, Tier, Why, WhyRound,
};
use jitterstat::stats::bootstrap::ratio_interval;
use jitterstat::stats::quantile::nearest_rank;
use jitterstat::stats::sign_test::median_interval;

use super::chain::{WakeupPath, WakeupPaths};
use super::parts::{MeasurableParts, Parts};
use super::stacks::{SampledTick, StackSample, StackSampling, find_late_code, summarise};

/// Quantile above which ticks count as late without a threshold.
pub const QUANTILE: f64 = 0.99;
/// Minimum number of late ticks for an explanation.
pub const MIN_TICKS: u64 = 20;
/// Minimum number of episodes for an explanation.
pub const MIN_EPISODES: u64 = 5;
/// Maximum number of episodes that are listed.
const MAX_LISTED_EPISODES: usize = 5;
const CONFIDENCE: f64 = 0.95;

/// A tick of a profiled round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfiledTick {
    /// Index of the instance.
    pub instance: u64,
    /// Index on the grid.
    pub tick: u64,
    /// Time at which the tick was due.
    pub deadline_ns: i64,
    /// Time at which its task ran.
    pub wake_ns: i64,
    /// Its lateness by cause.
    pub parts: Parts,
    /// Names of the threads that ran while it waited, with the time for which they ran.
    pub behind: Vec<(String, u64)>,
    /// Its path through the kernel; `None` without records.
    pub way: Option<WakeupPath>,
    /// Samples of the stack of its thread between deadline and wake-up, in order of time.
    pub stacks: Vec<StackSample>,
}

/// A profiled round.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfiledRound {
    /// Index of the round.
    pub index: u64,
    /// Start of the grid, relative to the start of the run.
    pub start_ns: u64,
    /// All delivered ticks, in the order of instance and index.
    pub ticks: Vec<ProfiledTick>,
    /// CPU time of the process per tick.
    pub cpu_ns_per_tick: Option<f64>,
    /// The data source; `None` if none was available.
    pub tier: Option<Tier>,
    /// The causes that can be measured.
    pub known: MeasurableParts,
    /// Counters of the machine.
    pub evidence: Evidence,
    /// How stacks were sampled; `None` for threads whose stacks are not of interest.
    pub sampling: Option<StackSampling>,
}

impl ProfiledRound {
    /// Returns whether no record of the round was lost.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.evidence.switches_lost == 0
    }
}

/// The unprofiled counterpart of a profiled round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceRound {
    /// Index of the round.
    pub index: u64,
    /// Median lateness of all its ticks.
    pub p50: i64,
    /// CPU time of the process per tick.
    pub cpu_ns_per_tick: Option<f64>,
}

/// An accumulator of the profiled rounds of one subject. Its memory grows with the number of late
/// ticks, not with that of all ticks.
#[derive(Clone, Debug)]
pub struct Pool {
    threshold_ns: Option<u64>,
    /// Maximum number of ticks that can count as late.
    max_late: usize,
    /// Late ticks, each with the position of its round.
    late: Vec<(usize, ProfiledTick)>,
    rounds: Vec<WhyRound>,
    ticks: u64,
    /// The data source of each round.
    tiers: Vec<Option<Tier>>,
    /// The lowest data source of the complete rounds; `None` without such a round.
    complete_tier: Option<Option<Tier>>,
    known: MeasurableParts,
    evidence: Evidence,
    ways: WakeupPaths,
    sampling: Option<StackSampling>,
}

impl Pool {
    /// Creates a pool for a run with a number of planned ticks. Ticks count as late from a
    /// threshold on, or, without one, if they are among the worst 1 %.
    #[must_use]
    pub fn new(threshold_ns: Option<u64>, planned: u64) -> Self {
        let max_late = threshold_ns.map_or(planned.div_ceil(100), |_| u64::MAX);
        Self {
            threshold_ns,
            max_late: usize::try_from(max_late).unwrap_or(usize::MAX),
            late: Vec::new(),
            rounds: Vec::new(),
            ticks: 0,
            tiers: Vec::new(),
            complete_tier: None,
            known: MeasurableParts::default(),
            evidence: Evidence::default(),
            ways: WakeupPaths::default(),
            sampling: None,
        }
    }

    /// Adds a round.
    pub fn add(&mut self, round: ProfiledRound) {
        let position = self.rounds.len();
        self.tiers.push(round.tier);
        if round.is_complete() {
            let lowest = self.complete_tier.unwrap_or(round.tier);
            self.complete_tier = Some(lowest.min(round.tier));
        }
        self.known = round.known;
        self.ticks += round.ticks.len() as u64;
        add_evidence(&mut self.evidence, &round.evidence);
        self.rounds.push(summarise_round(&round));
        self.add_sampling(round.sampling);
        let min_ns = i64::try_from(self.threshold_ns.unwrap_or(1)).unwrap_or(i64::MAX).max(1);
        for tick in round.ticks {
            if let Some(way) = &tick.way {
                self.ways.add(way);
            }
            if lateness(&tick) >= min_ns {
                self.late.push((position, tick));
            }
        }
        if self.late.len() / 2 > self.max_late {
            self.keep_worst(self.max_late);
        }
    }

    /// Adds how the stacks of a round were sampled. A reason or a hint of any round is kept.
    fn add_sampling(&mut self, sampling: Option<StackSampling>) {
        let Some(sampling) = sampling else { return };
        let known = self.sampling.get_or_insert_default();
        known.interval_ns = known.interval_ns.max(sampling.interval_ns);
        known.missing = known.missing.take().or(sampling.missing);
        known.hint = known.hint.take().or(sampling.hint);
    }

    fn sampled_code(&self) -> Option<SampledCode> {
        let ticks = self.late.iter().map(|(_, tick)| SampledTick {
            lateness_ns: u64::try_from(lateness(tick)).unwrap_or(0),
            samples: &tick.stacks,
        });
        self.sampling.as_ref().map(|sampling| summarise(sampling, ticks))
    }

    fn late_code(&self, tick: &ProfiledTick) -> Option<LateCode> {
        let interval_ns = self.sampling.as_ref()?.interval_ns;
        find_late_code(&tick.stacks, u64::try_from(lateness(tick)).ok()?, interval_ns)
    }

    /// Returns whether a round lost no records.
    #[must_use]
    pub fn has_complete_round(&self) -> bool {
        self.complete_tier.is_some()
    }

    /// The lowest data source of the complete rounds or, without one, of all rounds. The
    /// explanation uses only data that all these rounds have.
    fn tier(&self) -> Option<Tier> {
        self.complete_tier.unwrap_or_else(|| self.tiers.iter().copied().min().flatten())
    }

    /// Drops all but the `n` worst ticks, and sorts the remaining ones by round, instance and
    /// index.
    fn keep_worst(&mut self, n: usize) {
        if n < self.late.len() {
            self.late.select_nth_unstable_by_key(n, |(_, t)| std::cmp::Reverse(lateness(t)));
            self.late.truncate(n);
        }
        self.late.sort_by_key(|(position, t)| (*position, t.instance, t.tick));
    }

    /// Returns the explanation. `references` are the unprofiled counterparts of the rounds, and
    /// `missing` is the lowest tier that was not available.
    #[must_use]
    pub fn finish(mut self, references: &[ReferenceRound], missing: Option<Missing>) -> Why {
        if self.threshold_ns.is_none() {
            self.keep_worst(usize::try_from(self.ticks / 100).unwrap_or(usize::MAX));
        }
        let parts = self.attribute_rounds();
        let mut total = Parts::default();
        for parts in &parts {
            total.add_all(parts);
        }
        let late_ticks = self.late.len() as u64;
        let lateness_ns = self.rounds.iter().fold(0, |sum, r| r.lateness_ns.saturating_add(sum));
        let longest = self.worst_of_episodes();
        let episodes = longest.len() as u64;
        let listed = &longest[..longest.len().min(MAX_LISTED_EPISODES)];
        let is_enough =
            late_ticks >= MIN_TICKS && episodes >= MIN_EPISODES && self.tier().is_some();
        Why {
            tier: self.tier(),
            missing,
            quantile: self.threshold_ns.is_none().then_some(QUANTILE),
            threshold_ns: self.threshold_ns.unwrap_or_else(|| self.min_lateness_ns()),
            ticks: self.ticks,
            late_ticks,
            episodes,
            lateness_ns,
            shares_ns: is_enough.then(|| total.shares(self.known)),
            ci95: if is_enough { self.intervals(&total, &parts) } else { BTreeMap::new() },
            behind: self.has_occupants().then(|| sum_behind(self.late.iter().map(|(_, t)| t))),
            overhead_ns: self.overhead_ns(references),
            overhead_cpu_ns: self.overhead_cpu_ns(references),
            kernel_chain: self.kernel_chain(),
            code: self.sampled_code(),
            longest: listed.iter().map(|&i| self.to_late_tick(i)).collect(),
            evidence: self.evidence,
            rounds: self.rounds,
        }
    }

    /// Adds the late ticks to their rounds, and returns the lateness of each round by cause.
    fn attribute_rounds(&mut self) -> Vec<Parts> {
        let mut parts = vec![Parts::default(); self.rounds.len()];
        for (position, tick) in &self.late {
            let round = &mut self.rounds[*position];
            round.late_ticks += 1;
            round.lateness_ns += lateness(tick) as u64;
            parts[*position].add_all(&tick.parts);
        }
        for (round, parts) in self.rounds.iter_mut().zip(&parts) {
            round.shares_ns = parts.shares(self.known);
        }
        parts
    }

    fn min_lateness_ns(&self) -> u64 {
        self.late.iter().map(|(_, tick)| lateness(tick) as u64).min().unwrap_or(0)
    }

    /// Whether all complete rounds recorded the threads that ran while ticks waited.
    fn has_occupants(&self) -> bool {
        self.tier() >= Some(Tier::B1)
    }

    /// Whether all complete rounds recorded the path of ticks through the kernel.
    fn has_paths(&self) -> bool {
        self.tier() >= Some(Tier::B2)
    }

    /// The intervals over rounds of the share of each cause that occurred. `total` and `parts` are
    /// the lateness by cause of all rounds and of each round.
    fn intervals(&self, total: &Parts, parts: &[Parts]) -> BTreeMap<String, [f64; 2]> {
        let mut intervals = BTreeMap::new();
        for class in Class::ALL.into_iter().filter(|class| total.ns(*class) > 0) {
            let mut sums = Vec::with_capacity(parts.len());
            for (round, parts) in self.rounds.iter().zip(parts) {
                sums.push((parts.ns(class) as f64, round.lateness_ns as f64));
            }
            if let Some(interval) = ratio_interval(&sums, CONFIDENCE) {
                intervals.insert(class.key().to_owned(), interval.into());
            }
        }
        intervals
    }

    fn overhead_ns(&self, references: &[ReferenceRound]) -> Option<Difference> {
        self.median_difference(references, |profiled, reference| {
            Some((profiled.p50? - reference.p50) as f64)
        })
    }

    fn overhead_cpu_ns(&self, references: &[ReferenceRound]) -> Option<Difference> {
        self.median_difference(references, |profiled, reference| {
            Some(profiled.cpu_ns_per_tick? - reference.cpu_ns_per_tick?)
        })
    }

    /// The median difference between profiled rounds and their counterparts.
    fn median_difference(
        &self,
        references: &[ReferenceRound],
        difference: impl Fn(&WhyRound, &ReferenceRound) -> Option<f64>,
    ) -> Option<Difference> {
        let mut differences = Vec::new();
        for round in &self.rounds {
            let reference = references.iter().find(|reference| reference.index == round.index);
            let Some(reference) = reference else { continue };
            differences.extend(difference(round, reference).map(|ns| ns.round() as i64));
        }
        let (p50, interval) = median_interval(&differences, CONFIDENCE)?;
        Some(Difference { p50, ci95: interval.map(Into::into) })
    }

    fn kernel_chain(&self) -> Option<KernelChain> {
        if !self.has_paths() {
            return None;
        }
        let mut late = Vec::with_capacity(self.late.len());
        for (_, tick) in &self.late {
            let lateness_ns = u64::try_from(lateness(tick)).unwrap_or(0);
            late.extend(tick.way.map(|way| (way, lateness_ns)));
        }
        Some(self.ways.finish(late.into_iter()))
    }

    /// Converts a late tick to its entry in the list of episodes.
    fn to_late_tick(&self, i: usize) -> LateTick {
        let (position, tick) = &self.late[i];
        let has_occupants = self.has_occupants() && self.tiers[*position] >= Some(Tier::B1);
        LateTick {
            round: self.rounds[*position].index,
            instance: tick.instance,
            tick: tick.tick,
            lateness_ns: lateness(tick) as u64,
            shares_ns: tick.parts.shares(self.known),
            behind: has_occupants.then(|| sum_behind([tick].into_iter())),
            chain: tick.way.filter(|_| self.has_paths()).and_then(WakeupPath::whole),
            code: self.late_code(tick),
        }
    }

    /// The positions of the worst tick of each episode, the worst first.
    fn worst_of_episodes(&self) -> Vec<usize> {
        let mut worst: Vec<usize> = Vec::new();
        for (i, late) in self.late.iter().enumerate() {
            let previous = i.checked_sub(1).map(|i| &self.late[i]);
            let continues = previous.is_some_and(|previous| is_same_episode(previous, late));
            match worst.last_mut() {
                Some(last) if continues => {
                    if lateness(&late.1) > lateness(&self.late[*last].1) {
                        *last = i;
                    }
                }
                _ => worst.push(i),
            }
        }
        worst.sort_by_key(|&i| std::cmp::Reverse(lateness(&self.late[i].1)));
        worst
    }
}

/// Whether a tick was due before the previous one had been delivered.
fn is_same_episode(previous: &(usize, ProfiledTick), next: &(usize, ProfiledTick)) -> bool {
    let ((previous_round, previous), (round, tick)) = (previous, next);
    previous_round == round
        && previous.instance == tick.instance
        && previous.tick + 1 == tick.tick
        && tick.deadline_ns <= previous.wake_ns
}

/// A round before its late ticks are known.
fn summarise_round(round: &ProfiledRound) -> WhyRound {
    let mut sorted: Vec<i64> = round.ticks.iter().map(lateness).collect();
    sorted.sort_unstable();
    WhyRound {
        index: round.index,
        start_ns: round.start_ns,
        ticks: round.ticks.len() as u64,
        late_ticks: 0,
        lateness_ns: 0,
        p50: nearest_rank(&sorted, 0.5),
        cpu_ns_per_tick: round.cpu_ns_per_tick,
        shares_ns: Shares::default(),
    }
}

/// Adds the counters of a round; a counter that a round does not have counts as zero.
fn add_evidence(total: &mut Evidence, round: &Evidence) {
    add_if_known(&mut total.steal_ns, round.steal_ns);
    add_if_known(&mut total.standstill_ns, round.standstill_ns);
    add_if_known(&mut total.throttled_periods, round.throttled_periods);
    total.switches_lost += round.switches_lost;
    total.cycles_lost += round.cycles_lost;
    total.threads = total.threads.max(round.threads);
}

fn lateness(tick: &ProfiledTick) -> i64 {
    tick.wake_ns.saturating_sub(tick.deadline_ns)
}

/// The total time of each thread that ran while these ticks waited, the longest first.
fn sum_behind<'a>(ticks: impl Iterator<Item = &'a ProfiledTick>) -> Vec<Behind> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (comm, ns) in ticks.flat_map(|tick| &tick.behind) {
        *sums.entry(comm).or_default() += ns;
    }
    let mut sorted = Vec::with_capacity(sums.len());
    for (comm, ns) in sums {
        sorted.push(Behind { comm: comm.to_owned(), ns });
    }
    sorted.sort_by_key(|thread| std::cmp::Reverse(thread.ns));
    sorted
}
