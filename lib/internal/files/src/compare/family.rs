//! Several differences of one run, each from its own baseline, with one error rate for all of them
//! together.

use crate::model::model;
use crate::report::{Report, Subject};
use jitterstat::gate::Sides;
use jitterstat::stats::signed_rank::HodgesLehmann;
use serde::{Deserialize, Serialize};

use super::model::tidy;
use super::rounds::{QUANTILES, RoundValues, Rounds, common_rounds, ln_ratios, median, times};

/// Fewer pairs than this have no interval at any error rate that is worth having.
pub const MIN_COMPARED_PAIRS: usize = 12;

model! {
    /// How a subject differs from its baseline; null where the rounds of one do not have the
    /// number.
    pub struct Differences {
        /// Median lateness of a round.
        pub p50: Option<Change>,
        /// 99th percentile of a round.
        pub p99: Option<Change>,
        /// CPU time per tick.
        pub cpu: Option<Change>,
    }

    /// One number of a subject against that of its baseline, round by round.
    pub struct Change {
        /// Median over the rounds of the baseline.
        pub baseline_ns: i64,
        /// Median over the rounds of the subject.
        pub ns: i64,
        /// The subject as a multiple of the baseline: Hodges-Lehmann over pairs of rounds.
        pub ratio: f64,
        /// Its interval: all intervals of the family hold what they are of, except in so many of
        /// the families as alpha says. Null with too few pairs.
        pub ratio_interval: Option<[f64; 2]>,
        /// Pairs of rounds it is of.
        pub rounds: u64,
        /// What the interval says.
        pub shown: ChangeFinding,
    }
}

/// What an interval says of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[cfg_attr(feature = "schema", schemars(rename = "Shown"))]
pub enum ChangeFinding {
    /// It holds 1: no difference is shown, which does not show that there is none.
    NoDifference,
    /// It is less than that of the baseline.
    Less,
    /// It is more than that of the baseline.
    More,
    /// There are too few pairs for an interval.
    TooFewRounds,
}

/// The numbers that are judged of each member.
const NUMBERS: usize = 3;

/// Compares each subject with its baseline, by the rounds that both ran in. `alpha` is shared
/// evenly by all members and numbers and by both ends of their intervals.
#[must_use]
pub fn family(report: &Report, members: &[(&Subject, &Subject)], alpha: f64) -> Vec<Differences> {
    let alpha = alpha / (2 * NUMBERS * members.len().max(1)) as f64;
    let differences = |(baseline, subject): &(&Subject, &Subject)| {
        let rounds =
            Sides { base: baseline, candidate: subject }.map(|s| Rounds::new(report, s).values);
        let values = rounds.as_ref().map(|rounds| &rounds[..]);
        let quantile = |name: &str| {
            let which = QUANTILES.iter().position(|(n, _)| *n == name)?;
            // A setting is to show the stalls that it makes or avoids; to the ranks of rounds a
            // lone one is one round.
            change(&common_rounds(values, |round| round.all_ns[which]), alpha)
        };
        Differences {
            p50: quantile("p50"),
            p99: quantile("p99"),
            cpu: change(&cpu_costs(baseline, subject, values), alpha),
        }
    };
    members.iter().map(differences).collect()
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
    let medians = times(pairs).map(|side| median(&side).round() as i64);
    Some(Change {
        baseline_ns: medians.base,
        ns: medians.candidate,
        ratio: tidy(shift.estimate.exp()),
        ratio_interval: ratio_interval.map(Into::into),
        rounds: pairs.len() as u64,
        shown,
    })
}

/// CPU time per tick of both in the rounds that they have in common.
fn cpu_costs(
    baseline: &Subject,
    subject: &Subject,
    used: Sides<&[RoundValues]>,
) -> Vec<Sides<i64>> {
    let cost = |subject: &Subject, used: &[RoundValues], index: u64| {
        used.iter().find(|round| round.index == index)?;
        let mut parts = subject.rounds.iter().filter(|round| round.index == index);
        // Warm-up costs, too.
        let ticks =
            |round: &crate::report::Round| round.first_tick + round.lateness_ns.len() as u64;
        let (cpu_ns, ticks) = parts.try_fold((0_u64, 0_u64), |(cpu, n), round| {
            Some((cpu + round.cpu_ns?, n + ticks(round)))
        })?;
        i64::try_from(cpu_ns / ticks.max(1)).ok().filter(|&ns| ns > 0)
    };
    let pair = |round: &RoundValues| {
        let base = cost(baseline, used.base, round.index)?;
        Some(Sides { base, candidate: cost(subject, used.candidate, round.index)? })
    };
    used.base.iter().filter_map(pair).collect()
}
