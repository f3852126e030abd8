//! The rules, each implemented by its documentation and with its defaults, if it has any.
//!
//! All rules get a hundred rounds of the old program and a hundred of the new one. A rule for one
//! number is applied to the median and to the 99th percentile, and an alarm of either counts.

use std::cell::Cell;

use files::gate::round_record::RoundRecord;
use jitterstat::gate::decision::{self, Outcome, Rules};
use jitterstat::gate::round::{Pair, RoundValue};
use jitterstat::stats::quantile::nearest_rank;
use jitterstat::stats::random::SplitMix64;

use crate::changes::Change;
use crate::rounds::{Session, Ticks};
use crate::stored;

/// Rounds of each side.
const ROUNDS: usize = 100;
/// Number of sessions that rules with stored sessions use.
pub(crate) const STORED_SESSIONS: usize = 5;
/// Number of resamples of a bootstrap. criterion's default is 100,000, which changes only decisions
/// whose p-value is almost 0.05.
const RESAMPLES: usize = 1_000;
/// Number of resamples of whole rounds, which take longer.
const CLUSTER_RESAMPLES: usize = 400;
/// Resolution of the clock.
pub(crate) const RESOLUTION_NS: i64 = 10;

pub(crate) struct Rule {
    pub(crate) name: &'static str,
    /// The tool or text from which the rule is taken.
    pub(crate) source: &'static str,
    pub(crate) decide: fn(&Situation<'_>) -> Decision,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    Alarm,
    Nothing,
    /// The rule cannot decide.
    Open,
}

impl From<bool> for Decision {
    fn from(alarm: bool) -> Self {
        if alarm { Self::Alarm } else { Self::Nothing }
    }
}

pub(crate) const RULES: [Rule; 20] = [
    Rule {
        name: "stored number, 110 %",
        source: "a figure of an earlier run, as pytest-benchmark compares",
        decide: |s| number(s, 1.10),
    },
    Rule {
        name: "stored number, 120 %",
        source: "a figure of an earlier run",
        decide: |s| number(s, 1.20),
    },
    Rule {
        name: "stored number, 150 %",
        source: "a figure of an earlier run",
        decide: |s| number(s, 1.50),
    },
    Rule {
        name: "stored number, 200 %",
        source: "github-action-benchmark 1.20, its default alert threshold",
        decide: |s| number(s, 2.00),
    },
    Rule {
        name: "percentage of the mean, 10 %",
        source: "Bencher 0.5, percentage test",
        decide: |s| history(s, percentage),
    },
    Rule {
        name: "z-score, 0.977",
        source: "Bencher 0.5, z-score test, boundary as in its documentation",
        decide: |s| history(s, z_score),
    },
    Rule {
        name: "t-test, 0.99",
        source: "Bencher 0.5, t-test, boundary as in its documentation",
        decide: |s| history(s, t_test),
    },
    Rule {
        name: "interquartile range, 1.5",
        source: "Bencher 0.5, IQR test, Tukey's multiplier",
        decide: |s| history(s, interquartile),
    },
    Rule {
        name: "bootstrap of the mean",
        source: "criterion 0.8, significance 0.05 and noise threshold 0.01",
        decide: criterion,
    },
    Rule {
        name: "disjoint intervals of 5 runs",
        source: "hyperfine 1.20, mean and standard deviation",
        decide: hyperfine,
    },
    Rule {
        name: "Mann-Whitney of 10 runs, 0.05",
        source: "benchstat, its default test and level",
        decide: benchstat,
    },
    Rule {
        name: "Mann-Whitney of all ticks, 0.05",
        source: "textbooks",
        decide: |s| successive_ticks(s, 1.6449),
    },
    Rule {
        name: "Mann-Whitney of all ticks, 0.001",
        source: "textbooks, and a stricter level",
        decide: |s| successive_ticks(s, 3.0902),
    },
    Rule {
        name: "Mann-Whitney of all ticks, interleaved, 0.001",
        source: "the same, with interleaved rounds",
        decide: interleaved_ticks,
    },
    Rule {
        name: "z-score of interleaved differences, 2.6",
        source: "tango, with its threshold of 0.5 % and without its optional filter of outliers",
        decide: tango,
    },
    Rule {
        name: "cluster bootstrap of interleaved rounds",
        source: "reth's benchmark of pull requests resamples whole runs; 95 % interval, no floor",
        decide: cluster_bootstrap,
    },
    Rule {
        name: "osjitter gate",
        source: "this version, interleaved, its defaults",
        decide: |s| gate(s, GateTolerances { scale: 1.0, floor_ns: None }),
    },
    Rule {
        name: "osjitter gate, tolerances halved",
        source: "this version, --tolerance p50=10% --tolerance p99=25%",
        decide: |s| gate(s, GateTolerances { scale: 0.5, floor_ns: None }),
    },
    Rule {
        name: "osjitter gate, tolerating 1 %",
        source: "this version, --tolerance p50=1% --tolerance p99=2.5% --floor 0s",
        decide: |s| gate(s, GateTolerances { scale: 0.05, floor_ns: Some(0.0) }),
    },
    Rule {
        name: "osjitter gate --baseline",
        source: "this version, five stored sessions",
        decide: baseline,
    },
];

/// Rounds of the old and the new program, in the order in which a rule would get them.
pub(crate) struct Situation<'a> {
    change: Change,
    sessions: &'a [Session],
    /// The session that is judged.
    now: usize,
    /// Seed for the place in the session and the assignment of rounds to programs.
    seed: u64,
    /// Rounds of either program that had to be measured for the decision. Rounds of earlier runs
    /// are free.
    measured_rounds: Cell<usize>,
}

impl<'a> Situation<'a> {
    pub(crate) fn draw(sessions: &'a [Session], change: Change, seed: u64) -> Self {
        let now = SplitMix64::new(seed).index(sessions.len());
        Self { change, sessions, now, seed, measured_rounds: Cell::new(0) }
    }

    /// Returns how long the rounds took that the decision needed.
    pub(crate) fn measured_seconds(&self) -> f64 {
        let session = self.session();
        let round_ns = session.subject[0].len() as u64 * session.period_ns;
        self.measured_rounds.get() as f64 * round_ns as f64 / 1e9
    }

    fn session(&self) -> &'a Session {
        &self.sessions[self.now]
    }

    fn random(&self) -> SplitMix64 {
        SplitMix64::new(self.seed ^ 0x5EED)
    }

    /// Returns rounds of one program after the other: the two halves of the session from a random
    /// round on, in random order.
    fn one_after_the_other(&self) -> [Vec<Ticks>; 2] {
        let rounds = &self.session().subject;
        let mut random = self.random();
        let (from, half) = (random.index(rounds.len()), (rounds.len() / 2).min(ROUNDS));
        self.measured_rounds.set(2 * half);
        let block = |at: usize| (0..half).map(move |i| &rounds[(from + at + i) % rounds.len()]);
        let [old, new] = if random.coin() { [0, half] } else { [half, 0] };
        [block(old).cloned().collect(), block(new).map(|ticks| self.change.apply(ticks)).collect()]
    }

    /// Returns pairs of neighbouring rounds; the new program gets the first or the second of each.
    fn interleaved(&self) -> [Vec<Ticks>; 2] {
        let rounds = &self.session().subject;
        let mut random = self.random();
        let (from, pairs) = (random.index(rounds.len()), (rounds.len() / 2).min(ROUNDS));
        self.measured_rounds.set(2 * pairs);
        let mut sides = [Vec::new(), Vec::new()];
        for pair in 0..pairs {
            let [first, second] = [0, 1].map(|i| &rounds[(from + 2 * pair + i) % rounds.len()]);
            let (old, new) = if random.coin() { (first, second) } else { (second, first) };
            sides[0].push(old.clone());
            sides[1].push(self.change.apply(new));
        }
        sides
    }

    /// Returns the session of the new program, and the stored sessions of the old one.
    fn stored(&self) -> (Vec<Ticks>, Vec<&'a Session>) {
        let rounds = self.session().subject.iter().take(ROUNDS);
        let new: Vec<Ticks> = rounds.map(|ticks| self.change.apply(ticks)).collect();
        self.measured_rounds.set(new.len());
        let others: Vec<&Session> = self
            .sessions
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != self.now)
            .map(|(_, s)| s)
            .collect();
        (new, others)
    }
}

/// Returns the median and the 99th percentile of all ticks of some rounds.
fn figures(rounds: &[Ticks]) -> [f64; 2] {
    let mut all: Vec<i64> = rounds.iter().flatten().map(|tick| tick.1).collect();
    all.sort_unstable();
    [0.50, 0.99].map(|q| nearest_rank(&all, q).unwrap_or(0) as f64)
}

fn first_rounds(session: &Session) -> [f64; 2] {
    figures(&session.subject[..session.subject.len().min(ROUNDS)])
}

fn number(situation: &Situation<'_>, times: f64) -> Decision {
    let (new, others) = situation.stored();
    let before = first_rounds(others[situation.random().index(others.len())]);
    let now = figures(&new);
    (0..2).any(|i| now[i] > before[i] * times).into()
}

/// Compares with a limit that is computed from one figure of all other sessions.
fn history(situation: &Situation<'_>, limit: fn(&[f64]) -> f64) -> Decision {
    let (new, others) = situation.stored();
    let before: Vec<[f64; 2]> = others.iter().map(|session| first_rounds(session)).collect();
    let now = figures(&new);
    (0..2)
        .any(|i| now[i] > limit(&before.iter().map(|figures| figures[i]).collect::<Vec<_>>()))
        .into()
}

pub(crate) fn percentage(history: &[f64]) -> f64 {
    mean(history) * 1.10
}

pub(crate) fn z_score(history: &[f64]) -> f64 {
    mean(history) + 1.9954 * deviation(history)
}

pub(crate) fn t_test(history: &[f64]) -> f64 {
    mean(history) + t_quantile_99(history.len() - 1) * deviation(history)
}

pub(crate) fn interquartile(history: &[f64]) -> f64 {
    let mut sorted = history.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| {
        let place = q * (sorted.len() - 1) as f64;
        let (low, share) = (place.floor() as usize, place.fract());
        let high = (low + 1).min(sorted.len() - 1);
        sorted[low] + (sorted[high] - sorted[low]) * share
    };
    at(0.5) + 1.5 * (at(0.75) - at(0.25))
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() - 1).max(1) as f64)
        .sqrt()
}

/// Returns the 99 % point of Student's t (Abramowitz and Stegun, table 26.10).
#[allow(clippy::approx_constant, reason = "2.718 is a value of the table, not e")]
fn t_quantile_99(freedom: usize) -> f64 {
    const TABLE: [f64; 20] = [
        31.821, 6.965, 4.541, 3.747, 3.365, 3.143, 2.998, 2.896, 2.821, 2.764, 2.718, 2.681, 2.650,
        2.624, 2.602, 2.583, 2.567, 2.552, 2.539, 2.528,
    ];
    TABLE.get(freedom.saturating_sub(1)).copied().unwrap_or(2.457)
}

/// Applies criterion's test to a hundred samples per side. A sample is the mean of a round, like
/// criterion's samples are means of iterations. A t-test in a mixed bootstrap is followed by a
/// comparison of the interval of the change of the mean with the noise threshold.
fn criterion(situation: &Situation<'_>) -> Decision {
    let means = situation.one_after_the_other().map(|rounds| {
        let mean = |round: &Ticks| {
            round.iter().map(|tick| tick.1 as f64).sum::<f64>() / round.len() as f64
        };
        rounds.iter().map(mean).collect::<Vec<f64>>()
    });
    let [old, new] = &means;
    let t = |a: &[f64], b: &[f64]| {
        let error =
            (deviation(a).powi(2) / a.len() as f64 + deviation(b).powi(2) / b.len() as f64).sqrt();
        (mean(b) - mean(a)) / error
    };
    let found = t(old, new);
    let pooled: Vec<f64> = old.iter().chain(new).copied().collect();
    let mut random = situation.random();
    let mut draw = |from: &[f64], n: usize| {
        (0..n).map(|_| from[random.index(from.len())]).collect::<Vec<f64>>()
    };
    let beyond = (0..RESAMPLES)
        .filter(|_| t(&draw(&pooled, old.len()), &draw(&pooled, new.len())).abs() > found.abs());
    if beyond.count() as f64 / RESAMPLES as f64 >= 0.05 {
        return Decision::Nothing;
    }
    let mut changes: Vec<f64> = (0..RESAMPLES)
        .map(|_| mean(&draw(new, new.len())) / mean(&draw(old, old.len())) - 1.0)
        .collect();
    changes.sort_unstable_by(f64::total_cmp);
    (changes[RESAMPLES * 25 / 1_000] > 0.01).into()
}

/// Applies tango's test to the differences of the means of neighbouring rounds, like tango's
/// differences are those of neighbouring batches. Only a rise is an alarm.
fn tango(situation: &Situation<'_>) -> Decision {
    let [old, new] = situation.interleaved().map(|rounds| {
        let means = rounds.iter().map(|round| {
            let sum: f64 = round.iter().map(|tick| tick.1 as f64).sum();
            sum / round.len() as f64
        });
        means.collect::<Vec<f64>>()
    });
    let differences: Vec<f64> = old.iter().zip(&new).map(|(old, new)| new - old).collect();
    let change = mean(&differences);
    let z = change / (deviation(&differences) / (differences.len() as f64).sqrt());
    let is_large = change / mean(&old) > 0.005 && change >= RESOLUTION_NS as f64;
    (z >= 2.6 && is_large).into()
}

/// Resamples whole pairs of rounds, and raises an alarm if the 95 % interval of the change of a
/// figure is above zero.
fn cluster_bootstrap(situation: &Situation<'_>) -> Decision {
    let sides = situation.interleaved();
    let pairs = sides[0].len();
    let [old, new] = sides.each_ref().map(|rounds| sort_with_rounds(rounds));
    let mut random = situation.random();
    let mut changes = [Vec::new(), Vec::new()];
    for _ in 0..CLUSTER_RESAMPLES {
        let mut weights = vec![0_u32; pairs];
        for _ in 0..pairs {
            weights[random.index(pairs)] += 1;
        }
        let (before, after) = (weighted_figures(&old, &weights), weighted_figures(&new, &weights));
        for i in 0..2 {
            changes[i].push(after[i] - before[i]);
        }
    }
    let is_above_zero = |changes: &mut Vec<i64>| {
        changes.sort_unstable();
        changes[CLUSTER_RESAMPLES * 25 / 1_000] > 0
    };
    changes.iter_mut().any(is_above_zero).into()
}

/// Returns all ticks in ascending order, each with the index of its round.
fn sort_with_rounds(rounds: &[Ticks]) -> Vec<(i64, usize)> {
    let mut sorted = Vec::new();
    for (index, ticks) in rounds.iter().enumerate() {
        sorted.extend(ticks.iter().map(|tick| (tick.1, index)));
    }
    sorted.sort_unstable();
    sorted
}

/// Returns the median and the 99th percentile of ticks whose rounds occur as often as their
/// weights.
fn weighted_figures(sorted: &[(i64, usize)], weights: &[u32]) -> [i64; 2] {
    let weight = |tick: &(i64, usize)| u64::from(weights[tick.1]);
    let total: u64 = sorted.iter().map(weight).sum();
    let ranks = [0.50, 0.99].map(|q| (q * total as f64).ceil() as u64);
    let mut figures = [0; 2];
    let mut seen = 0;
    for tick in sorted {
        let before = seen;
        seen += weight(tick);
        for i in 0..2 {
            if before < ranks[i] && ranks[i] <= seen {
                figures[i] = tick.0;
            }
        }
    }
    figures
}

/// Returns the figures of the runs of each side, one side after the other.
fn runs(situation: &Situation<'_>, runs: usize) -> [Vec<[f64; 2]>; 2] {
    situation
        .one_after_the_other()
        .map(|rounds| rounds.chunks((rounds.len() / runs).max(1)).take(runs).map(figures).collect())
}

fn hyperfine(situation: &Situation<'_>) -> Decision {
    let [old, new] = runs(situation, 5);
    let bound = |runs: &[[f64; 2]], i: usize, sign: f64| {
        let values: Vec<f64> = runs.iter().map(|figures| figures[i]).collect();
        mean(&values) + sign * deviation(&values)
    };
    (0..2).any(|i| bound(&new, i, -1.0) > bound(&old, i, 1.0)).into()
}

fn benchstat(situation: &Situation<'_>) -> Decision {
    let [old, new] = runs(situation, 10);
    let values =
        |runs: &[[f64; 2]], i: usize| runs.iter().map(|figures| figures[i]).collect::<Vec<f64>>();
    // benchstat's test is two-sided, so its level of 0.05 is 1.96. Only a rise is an alarm.
    (0..2).any(|i| rank_sum_z(&values(&old, i), &values(&new, i)) > 1.96).into()
}

fn successive_ticks(situation: &Situation<'_>, critical: f64) -> Decision {
    ticks_differ(&situation.one_after_the_other(), critical)
}

fn interleaved_ticks(situation: &Situation<'_>) -> Decision {
    ticks_differ(&situation.interleaved(), 3.0902)
}

fn ticks_differ(sides: &[Vec<Ticks>; 2], critical: f64) -> Decision {
    let values =
        |rounds: &[Ticks]| rounds.iter().flatten().map(|tick| tick.1 as f64).collect::<Vec<f64>>();
    (rank_sum_z(&values(&sides[0]), &values(&sides[1])) > critical).into()
}

/// Returns the standardised statistic of Mann and Whitney by its normal approximation, with average
/// ranks for ties. It is positive if `b` is larger.
pub(crate) fn rank_sum_z(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> =
        a.iter().map(|&v| (v, false)).chain(b.iter().map(|&v| (v, true))).collect();
    all.sort_unstable_by(|x, y| x.0.total_cmp(&y.0));
    let (mut ranks_of_b, mut ties) = (0.0, 0.0);
    let mut from = 0;
    while from < all.len() {
        let to = from + all[from..].iter().take_while(|v| v.0 == all[from].0).count();
        let (tied, rank) = ((to - from) as f64, (from + 1 + to) as f64 / 2.0);
        ranks_of_b += rank * all[from..to].iter().filter(|v| v.1).count() as f64;
        ties += tied.powi(3) - tied;
        from = to;
    }
    let (m, n) = (a.len() as f64, b.len() as f64);
    let u = ranks_of_b - n * (n + 1.0) / 2.0;
    let variance = m * n / 12.0 * (m + n + 1.0 - ties / ((m + n) * (m + n - 1.0)));
    (u - m * n / 2.0) / variance.sqrt()
}

fn value(ticks: &Ticks, period_ns: u64) -> Option<RoundValue> {
    RoundRecord::from_ticks(ticks.iter().copied(), period_ns)
        .map(|record| record.value(0.99, RESOLUTION_NS))
}

/// The tolerances of osjitter's gate, relative to their defaults.
struct GateTolerances {
    scale: f64,
    /// Rise that is always tolerated, if it is not the default.
    floor_ns: Option<f64>,
}

/// Applies the gate of osjitter with looks at 50 and 100 pairs. The first look that decides ends
/// it.
fn gate(situation: &Situation<'_>, tolerances: GateTolerances) -> Decision {
    let period_ns = situation.session().period_ns;
    let [old, new] = situation.interleaved();
    let pairs: Vec<Pair> = old
        .iter()
        .zip(&new)
        .filter_map(|(a, b)| {
            Some(Pair { base: value(a, period_ns)?, candidate: value(b, period_ns)? })
        })
        .collect();
    let rules = Rules::new(period_ns);
    let rules = Rules {
        looks: vec![50, 100],
        tolerance_median: rules.tolerance_median * tolerances.scale,
        tolerance_tail: rules.tolerance_tail * tolerances.scale,
        floor_ns: tolerances.floor_ns.unwrap_or(rules.floor_ns),
        ..rules
    };
    for &look in &rules.looks {
        let n = look.min(pairs.len());
        situation.measured_rounds.set(2 * n);
        match decision::look(&pairs[..n], &rules, n == pairs.len()).outcome {
            Outcome::Inconclusive => {}
            Outcome::Regressed => return Decision::Alarm,
            _ => return Decision::Nothing,
        }
    }
    Decision::Open
}

fn baseline(situation: &Situation<'_>) -> Decision {
    let (_, mut others) = situation.stored();
    situation.random().shuffle(&mut others);
    let session = situation.session();
    situation.measured_rounds.set(session.subject.len() + session.control.len());
    stored::judge(situation.session(), situation.change, &others[..STORED_SESSIONS])
}
