//! Several comparisons within one run, each with its own baseline, and with a common error rate.

use crate::model::model;
use crate::report::{Report, Subject};
use jitterstat::gate::Sides;
use jitterstat::stats::quantile::median;
use jitterstat::stats::signed_rank::HodgesLehmann;
use serde::{Deserialize, Serialize};

use super::model::tidy;
use super::rounds::{QUANTILES, RoundValues, Rounds, common_rounds, ln_ratios, times};

/// Minimum number of pairs for an interval.
pub const MIN_COMPARED_PAIRS: usize = 12;

model! {
    /// The differences between a subject and its baseline. A difference is null if the rounds of
    /// one of them do not contain the number.
    pub struct Differences {
        /// Median lateness of a round.
        pub p50: Option<Change>,
        /// 99th percentile of a round.
        pub p99: Option<Change>,
        /// CPU time per tick.
        pub cpu: Option<Change>,
    }

    /// The comparison of one number of a subject with that of its baseline, round by round.
    pub struct Change {
        /// Median over the rounds of the baseline.
        pub baseline_ns: i64,
        /// Median over the rounds of the subject.
        pub ns: i64,
        /// Ratio of the subject to the baseline: Hodges-Lehmann estimate over pairs of rounds.
        pub ratio: f64,
        /// Interval of the ratio. The share of families in which any interval is wrong is at most
        /// alpha. Null with too few pairs.
        pub ratio_interval: Option<[f64; 2]>,
        /// Number of pairs of rounds.
        pub rounds: u64,
        /// The conclusion from the interval.
        pub shown: ChangeFinding,
    }
}

/// The conclusion from the interval of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "Shown"))]
pub enum ChangeFinding {
    /// The interval contains 1. No difference is shown, which does not prove that there is none.
    NoDifference,
    /// The number is smaller than that of the baseline.
    Less,
    /// The number is larger than that of the baseline.
    More,
    /// There are too few pairs for an interval.
    TooFewRounds,
}

/// Number of judged numbers per member.
const NUMBERS_PER_MEMBER: usize = 3;

/// Compares each subject with its baseline in the rounds in which both ran. `alpha` is divided
/// evenly among all members and numbers, and among both bounds of their intervals.
#[must_use]
pub fn family(report: &Report, members: &[(&Subject, &Subject)], alpha: f64) -> Vec<Differences> {
    let alpha = alpha / (2 * NUMBERS_PER_MEMBER * members.len().max(1)) as f64;
    let mut differences = Vec::with_capacity(members.len());
    for &(baseline, subject) in members {
        let base = Rounds::new(report, baseline).values;
        let candidate = Rounds::new(report, subject).values;
        let values = Sides { base: &base[..], candidate: &candidate[..] };
        differences.push(Differences {
            p50: quantile_change("p50", values, alpha),
            p99: quantile_change("p99", values, alpha),
            cpu: change(&cpu_costs(baseline, subject, values), alpha),
        });
    }
    differences
}

/// The change of a percentile.
///
/// Stalls count: a setting may cause or avoid them, and a single one affects only one round.
fn quantile_change(name: &str, values: Sides<&[RoundValues]>, alpha: f64) -> Option<Change> {
    let which = QUANTILES.iter().position(|(n, _)| *n == name)?;
    change(&common_rounds(values, |round| round.all_ns[which]), alpha)
}

fn change(pairs: &[Sides<i64>], alpha: f64) -> Option<Change> {
    let shift = HodgesLehmann::new(&ln_ratios(pairs))?.shift(alpha);
    let interval = shift.interval().filter(|_| pairs.len() >= MIN_COMPARED_PAIRS);
    let ratio_interval = interval.map(|interval| interval.map(|ln| tidy(ln.exp())));
    let shown = match ratio_interval {
        None => ChangeFinding::TooFewRounds,
        Some(interval) if interval.lower > 1.0 => ChangeFinding::More,
        Some(interval) if interval.upper < 1.0 => ChangeFinding::Less,
        Some(_) => ChangeFinding::NoDifference,
    };
    let medians = times(pairs).map(|side| median(side).round() as i64);
    Some(Change {
        baseline_ns: medians.base,
        ns: medians.candidate,
        ratio: tidy(shift.estimate.exp()),
        ratio_interval: ratio_interval.map(Into::into),
        rounds: pairs.len() as u64,
        shown,
    })
}

/// The CPU time per tick of both, in the rounds that they have in common.
fn cpu_costs(
    baseline: &Subject,
    subject: &Subject,
    used: Sides<&[RoundValues]>,
) -> Vec<Sides<i64>> {
    let mut costs = Vec::new();
    for round in used.base {
        let base = cpu_cost(baseline, used.base, round.index);
        let candidate = cpu_cost(subject, used.candidate, round.index);
        if let (Some(base), Some(candidate)) = (base, candidate) {
            costs.push(Sides { base, candidate });
        }
    }
    costs
}

/// The CPU time per tick of a round; `None` if the round is not used or its cost is unknown.
fn cpu_cost(subject: &Subject, used: &[RoundValues], index: u64) -> Option<i64> {
    used.iter().find(|round| round.index == index)?;
    let (mut cpu_ns, mut ticks) = (0_u64, 0_u64);
    for round in subject.rounds.iter().filter(|round| round.index == index) {
        cpu_ns += round.cpu_ns?;
        ticks += round.ticks_of_cost();
    }
    i64::try_from(cpu_ns / ticks.max(1)).ok().filter(|&ns| ns > 0)
}
