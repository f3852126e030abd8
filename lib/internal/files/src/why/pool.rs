//! The late ticks of a run added up: parts, episodes, intervals over rounds, and what asking cost.

use std::collections::BTreeMap;

use crate::report::why::{
    Behind, Class, Difference, Evidence, LateTick, Missing, Shares, Tier, Why, WhyRound,
};
use jitterstat::stats::bootstrap::ratio_interval;
use jitterstat::stats::quantile::nearest_rank;
use jitterstat::stats::sign_test::median_interval;

use super::chain::{WakeupPath, WakeupPaths};
use super::parts::{MeasurableParts, Parts};

/// Without a threshold, the ticks above this quantile are the late ones.
pub const QUANTILE: f64 = 0.99;
/// Fewer late ticks, or fewer episodes, are too few to say anything about the next.
pub const MIN_TICKS: u64 = 20;
/// As [`MIN_TICKS`].
pub const MIN_EPISODES: u64 = 5;
/// So many of the longest episodes are told one by one.
const LISTED_EPISODES: usize = 5;
const CONFIDENCE: f64 = 0.95;

/// A tick of a round that was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProfiledTick {
    /// Which instance.
    pub instance: u64,
    /// Index on the grid.
    pub tick: u64,
    /// When it was due.
    pub deadline_ns: i64,
    /// When its task ran.
    pub wake_ns: i64,
    /// Its lateness taken apart.
    pub parts: Parts,
    /// Who ran while it waited.
    pub behind: Vec<(String, u64)>,
    /// What the kernel recorded of its way; `None` where nothing was.
    pub way: Option<WakeupPath>,
}

/// A round that was asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProfiledRound {
    /// Index of the round.
    pub index: u64,
    /// Start of the grid, counted from the start of the run.
    pub start_ns: u64,
    /// Every tick that came, in order of instance and index.
    pub ticks: Vec<ProfiledTick>,
    /// CPU time of the process per tick.
    pub cpu_ns_per_tick: Option<f64>,
    /// What could be asked.
    pub tier: Option<Tier>,
    /// Which parts can be measured at all.
    pub known: MeasurableParts,
    /// What the counters say.
    pub evidence: Evidence,
}

/// The round beside it, which was not asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReferenceRound {
    /// Index of the round.
    pub index: u64,
    /// Median of all its ticks.
    pub p50: i64,
    /// CPU time of the process per tick.
    pub cpu_ns_per_tick: Option<f64>,
}

/// The rounds of one subject that were asked. Memory grows with the late ticks, not with all.
#[derive(Clone, Debug)]
pub struct Pool {
    threshold_ns: Option<u64>,
    /// The most ticks that can count as late.
    most: usize,
    late: Vec<(usize, ProfiledTick)>,
    rounds: Vec<WhyRound>,
    ticks: u64,
    tier: Option<Tier>,
    known: MeasurableParts,
    evidence: Evidence,
    ways: WakeupPaths,
}

impl Pool {
    /// For a run of `planned` ticks: late are those above `threshold_ns`, or where there is none
    /// the latest per cent.
    #[must_use]
    pub fn new(threshold_ns: Option<u64>, planned: u64) -> Self {
        let most = threshold_ns.map_or(planned.div_ceil(100), |_| u64::MAX);
        Self {
            threshold_ns,
            most: usize::try_from(most).unwrap_or(usize::MAX),
            late: Vec::new(),
            rounds: Vec::new(),
            ticks: 0,
            tier: None,
            known: MeasurableParts::default(),
            evidence: Evidence::default(),
            ways: WakeupPaths::default(),
        }
    }

    /// Adds a round.
    pub fn add(&mut self, round: ProfiledRound) {
        let place = self.rounds.len();
        let mut sorted: Vec<i64> = round.ticks.iter().map(lateness).collect();
        sorted.sort_unstable();
        // The least that was asked of any round is what is known of all.
        self.tier = if place == 0 { round.tier } else { self.tier.min(round.tier) };
        self.known = round.known;
        self.ticks += round.ticks.len() as u64;
        let sum = |a: Option<u64>, b: Option<u64>| {
            a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))))
        };
        let (all, of_round) = (&mut self.evidence, &round.evidence);
        all.steal_ns = sum(all.steal_ns, of_round.steal_ns);
        all.standstill_ns = sum(all.standstill_ns, of_round.standstill_ns);
        all.throttled_periods = sum(all.throttled_periods, of_round.throttled_periods);
        all.switches_lost += of_round.switches_lost;
        all.cycles_lost += of_round.cycles_lost;
        all.threads = all.threads.max(of_round.threads);
        round.ticks.iter().filter_map(|tick| tick.way.as_ref()).for_each(|way| self.ways.add(way));
        self.rounds.push(WhyRound {
            index: round.index,
            start_ns: round.start_ns,
            ticks: round.ticks.len() as u64,
            late_ticks: 0,
            lateness_ns: 0,
            p50: nearest_rank(&sorted, 0.5),
            cpu_ns_per_tick: round.cpu_ns_per_tick,
            shares_ns: Shares::default(),
        });
        let least = i64::try_from(self.threshold_ns.unwrap_or(1)).unwrap_or(i64::MAX);
        self.late.extend(
            round.ticks.into_iter().filter(|t| lateness(t) >= least.max(1)).map(|t| (place, t)),
        );
        if self.late.len() / 2 > self.most {
            self.keep_latest(self.most);
        }
    }

    fn keep_latest(&mut self, n: usize) {
        if n < self.late.len() {
            self.late.select_nth_unstable_by_key(n, |(_, t)| std::cmp::Reverse(lateness(t)));
            self.late.truncate(n);
        }
        self.late.sort_by_key(|(place, t)| (*place, t.instance, t.tick));
    }

    /// What they add up to, with the rounds beside them; `missing` is the lowest tier that could
    /// not be had.
    #[must_use]
    pub fn finish(mut self, beside: &[ReferenceRound], missing: Option<Missing>) -> Why {
        if self.threshold_ns.is_none() {
            self.keep_latest(usize::try_from(self.ticks / 100).unwrap_or(usize::MAX));
        }
        self.rounds.iter_mut().for_each(|r| r.shares_ns = Parts::default().shares(self.known));
        let mut parts = vec![Parts::default(); self.rounds.len()];
        for (place, tick) in &self.late {
            let round = &mut self.rounds[*place];
            round.late_ticks += 1;
            round.lateness_ns += lateness(tick) as u64;
            parts[*place].add_all(&tick.parts);
        }
        for (round, parts) in self.rounds.iter_mut().zip(&parts) {
            round.shares_ns = parts.shares(self.known);
        }
        let mut all = Parts::default();
        parts.iter().for_each(|p| all.add_all(p));
        let late_ticks = self.late.len() as u64;
        let lateness_ns: u64 =
            self.rounds.iter().map(|r| r.lateness_ns).fold(0, u64::saturating_add);
        let longest = self.longest_of_episodes();
        let episodes = longest.len() as u64;
        let enough = late_ticks >= MIN_TICKS && episodes >= MIN_EPISODES && self.tier.is_some();
        let interval = |class: Class| {
            let of_rounds: Vec<(f64, f64)> = self
                .rounds
                .iter()
                .zip(&parts)
                .map(|(r, p)| (p.ns(class) as f64, r.lateness_ns as f64))
                .collect();
            Some((class.key().to_owned(), ratio_interval(&of_rounds, CONFIDENCE)?.into()))
        };
        let threshold_ns = self.late.iter().map(|(_, t)| lateness(t) as u64).min().unwrap_or(0);
        let named = self.tier >= Some(Tier::B1);
        let chained = self.tier >= Some(Tier::B2);
        let told = |&i: &usize| {
            let (place, tick) = &self.late[i];
            LateTick {
                round: self.rounds[*place].index,
                instance: tick.instance,
                tick: tick.tick,
                lateness_ns: lateness(tick) as u64,
                shares_ns: tick.parts.shares(self.known),
                behind: named.then(|| behind([tick].into_iter())),
                chain: tick.way.filter(|_| chained).and_then(WakeupPath::whole),
            }
        };
        let difference = |of: &dyn Fn(&WhyRound, &ReferenceRound) -> Option<f64>| {
            let pairs: Vec<i64> = self
                .rounds
                .iter()
                .filter_map(|r| of(r, beside.iter().find(|b| b.index == r.index)?))
                .map(|ns| ns.round() as i64)
                .collect();
            median_interval(&pairs, CONFIDENCE)
                .map(|(p50, ci95)| Difference { p50, ci95: ci95.map(Into::into) })
        };
        Why {
            tier: self.tier,
            missing,
            quantile: self.threshold_ns.is_none().then_some(QUANTILE),
            threshold_ns: self.threshold_ns.unwrap_or(threshold_ns),
            ticks: self.ticks,
            late_ticks,
            episodes,
            lateness_ns,
            shares_ns: enough.then(|| all.shares(self.known)),
            ci95: if enough {
                Class::ALL.into_iter().filter(|c| all.ns(*c) > 0).filter_map(interval).collect()
            } else {
                BTreeMap::new()
            },
            behind: named.then(|| behind(self.late.iter().map(|(_, t)| t))),
            overhead_ns: difference(&|asked, beside| Some((asked.p50? - beside.p50) as f64)),
            overhead_cpu_ns: difference(&|asked, beside| {
                Some(asked.cpu_ns_per_tick? - beside.cpu_ns_per_tick?)
            }),
            kernel_chain: chained.then(|| {
                let late = |(_, tick): &(usize, ProfiledTick)| {
                    Some((tick.way?, u64::try_from(lateness(tick)).unwrap_or(0)))
                };
                self.ways.finish(self.late.iter().filter_map(late))
            }),
            longest: longest.iter().take(LISTED_EPISODES).map(told).collect(),
            evidence: self.evidence,
            rounds: self.rounds,
        }
    }

    /// The latest tick of each episode, the latest first.
    fn longest_of_episodes(&self) -> Vec<usize> {
        let mut latest: Vec<usize> = Vec::new();
        for (i, (place, tick)) in self.late.iter().enumerate() {
            let before = i.checked_sub(1).map(|i| &self.late[i]);
            let goes_on = before.is_some_and(|(p, t)| {
                p == place
                    && t.instance == tick.instance
                    && t.tick + 1 == tick.tick
                    && tick.deadline_ns <= t.wake_ns
            });
            match latest.last_mut() {
                Some(last) if goes_on => {
                    if lateness(tick) > lateness(&self.late[*last].1) {
                        *last = i;
                    }
                }
                _ => latest.push(i),
            }
        }
        latest.sort_by_key(|&i| std::cmp::Reverse(lateness(&self.late[i].1)));
        latest
    }
}

fn lateness(tick: &ProfiledTick) -> i64 {
    tick.wake_ns.saturating_sub(tick.deadline_ns)
}

/// Who ran while these waited, together: the longest first.
fn behind<'a>(ticks: impl Iterator<Item = &'a ProfiledTick>) -> Vec<Behind> {
    let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
    for (comm, ns) in ticks.flat_map(|t| &t.behind) {
        *sums.entry(comm).or_default() += ns;
    }
    let mut all: Vec<Behind> =
        sums.into_iter().map(|(comm, ns)| Behind { comm: comm.to_owned(), ns }).collect();
    all.sort_by_key(|b| std::cmp::Reverse(b.ns));
    all
}
