//! The sensitivity of a gate on a machine, measured with many pairs of rounds of one subject
//! against itself. Written as `osjitter.calibration/1`.
//!
//! The two sides of such a pair are interchangeable, and the order within each pair was drawn at
//! random. With labels drawn again for every pair, the same rounds therefore give any number of
//! simulated gates, each as likely as the real one. A simulated gate of n pairs takes n consecutive
//! pairs from a random position of the recording, so that it contains slow changes of the machine.
//! It wraps around at the end; if it is longer than the recording, it uses pairs again with new
//! labels.
//!
//! Simulated gates show the width of intervals, and how often a gate ends undecided. Their false
//! alarms would only show that the labels were drawn fairly, so a rate of false alarms is claimed
//! from real gates alone.

mod gates;
pub mod runs;
#[cfg(test)]
mod tests;

pub use self::gates::{
    InconclusiveChance, MIN_CALIBRATION_PAIRS, MIN_REAL_GATES, RealGates, TIMES_S,
};
use self::gates::{
    Label, RELABELLED, Relabelled, Sensitivity, power_bound, spread, tidy, widening,
};
use super::verdict::{GateDesign, PairRecord};
use crate::environment::{Difference, EnvironmentKey};
use crate::file::File;
use crate::model::model;
use crate::report::{Fitness, Tool, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, NumberRule, Outcome, Rules};
use jitterstat::gate::round::{Late, Pair, tail_name};

/// Value of [`Calibration::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.calibration/1";
model! {
    /// The sensitivity of a gate on one machine, for one subject.
    pub struct Calibration {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of the measurement.
        pub duration_ns: u64,
        /// Whether the calibration was interrupted. The numbers then use the pairs measured until
        /// then.
        pub partial: bool,
        /// Reason for which the calibration could not continue, if so.
        pub failure: Option<String>,
        /// The machine for which the calibration is valid.
        pub environment: EnvironmentKey,
        /// The subject on both sides.
        pub subject: String,
        /// The plan of the measurement.
        pub plan: CalibrationPlan,
        /// Number of measured pairs.
        pub pairs: u64,
        /// Wall time of one pair.
        pub pair_ns: u64,
        /// One entry for each judged percentile; empty with too few pairs.
        pub metrics: Vec<CalibratedMetric>,
        /// How often a gate with the tolerances of the plan ends undecided, by its time limit.
        pub inconclusive: Vec<InconclusiveChance>,
        /// The real gates in the recording, one after the other.
        pub real_gates: RealGates,
        /// Share of the ticks that belong to an already counted stall.
        pub same_stall_share: f64,
        /// Share of the time of all CPUs that the hypervisor stole during the rounds; null if the
        /// platform does not report it.
        pub steal_share: Option<f64>,
        /// Whether the machine was quiet enough to trust the numbers; null if no measurement allows
        /// a judgement, and in older files.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// Warnings to consider before trusting the numbers.
        pub warnings: Vec<Warning>,
        /// The measured values, in the order of the measurement.
        pub rounds: Vec<PairRecord>,
    }

    /// The plan of a calibration, and the rules for which it is valid.
    pub struct CalibrationPlan {
        /// Nominal period.
        pub period_ns: u64,
        /// Number of recorded ticks of a round.
        pub round_ticks: u64,
        /// Number of leading ticks of a round that are dropped.
        pub warmup_ticks: u64,
        /// Seed of the order within pairs.
        pub seed: u64,
        /// CPU that both sides were bound to; null without one.
        pub cpu: Option<usize>,
        /// Maximum share of false alarms of a gate, by design.
        pub alpha: f64,
        /// Numbers of pairs at which a gate may look.
        pub looks: Vec<u64>,
        /// Tolerated relative rise of the median.
        pub tolerance_median: f64,
        /// Tolerated relative rise of the tail percentile.
        pub tolerance_tail: f64,
        /// Absolute rise that is always tolerated, whatever it is relatively.
        pub floor_ns: f64,
    }

    /// The sensitivity of a gate to changes of one percentile.
    pub struct CalibratedMetric {
        /// `p50`, and `p99`, `p95` or `p90`.
        pub name: String,
        /// Median over the rounds of both sides, in the judged pairs.
        pub median_ns: i64,
        /// Robust standard deviation of the difference between the natural logarithms of the two
        /// rounds of a pair: 0.2 is about 20 %.
        pub spread: f64,
        /// Spread of the quieter half of the pairs; only for the tail, which is judged on that
        /// half.
        pub spread_quiet_half: Option<f64>,
        /// Whether stalls could mask a change of the tolerated size. A gate without a regression is
        /// then inconclusive instead of passing.
        pub stall_dominated: bool,
        /// Ratio by which stalls raise the percentile on both sides; null in older files.
        pub lift: Option<f64>,
        /// At each look, the smallest change that a gate detects with 95 % probability. It equals
        /// the smallest tolerance with which a gate without a change passes with 95 % probability.
        pub smallest_change: Vec<SmallestChange>,
    }

    /// The smallest detectable change at one look.
    pub struct SmallestChange {
        /// Number of pairs at the look.
        pub pairs: u64,
        /// Time to measure these pairs.
        pub after_ns: u64,
        /// Ratio of B to A.
        pub ratio: f64,
        /// B minus A.
        pub difference_ns: i64,
    }
}

/// A tolerance below the noise level of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ToleranceBelowNoise {
    /// Name of the percentile or metric.
    pub name: String,
    /// The tolerated ratio.
    pub tolerated: f64,
    /// The smallest ratio that a gate detects at its last look.
    pub smallest: f64,
    /// Number of pairs at that look.
    pub pairs: u64,
}

impl CalibrationPlan {
    /// Creates the plan of a calibration from the plan and the rules of a gate.
    #[must_use]
    pub fn new(design: &GateDesign, rules: &Rules) -> Self {
        Self {
            period_ns: design.period_ns,
            round_ticks: design.round_ticks,
            warmup_ticks: design.warmup_ticks,
            seed: design.seed,
            cpu: design.cpu,
            alpha: design.alpha,
            looks: design.looks.clone(),
            tolerance_median: rules.tolerance_median,
            tolerance_tail: rules.tolerance_tail,
            floor_ns: rules.floor_ns,
        }
    }
}

/// Returns warnings about metrics that were calibrated with this number of pairs.
#[must_use]
pub fn warnings(metrics: &[CalibratedMetric], pairs: usize) -> Vec<Warning> {
    let warning = |code: &str, message: String, hint: &str| Warning {
        code: code.to_owned(),
        message,
        hint: hint.to_owned(),
    };
    let mut warnings = Vec::new();
    if pairs < decision::LOOKS[0] {
        let message = format!("{pairs} pairs are fewer than a gate takes until its first look.");
        warnings.push(warning("few-pairs", message, "Calibrate for longer, with --max-time."));
    }
    let stalled: Vec<&str> =
        metrics.iter().filter(|m| m.stall_dominated).map(|m| m.name.as_str()).collect();
    if !stalled.is_empty() {
        let what = stalled.join(" and ");
        let message =
            format!("{what}: stalls of the machine raise it so much that a gate cannot pass it.");
        let hint = "Use a quieter machine or CPU, or tolerate more.";
        warnings.push(warning("stall-dominated", message, hint));
    }
    warnings
}

/// Calibrates each percentile that a gate with these rules judges. Returns nothing with fewer than
/// [`MIN_CALIBRATION_PAIRS`] pairs.
#[must_use]
pub fn metrics(
    pairs: &[Pair],
    rules: &Rules,
    tail_quantile: f64,
    pair_ns: u64,
) -> Vec<CalibratedMetric> {
    if pairs.len() < MIN_CALIBRATION_PAIRS {
        return Vec::new();
    }
    let smallest = smallest_changes(pairs, rules);
    let tails = decision::tails(pairs);
    let median = PercentilePairs {
        name: "p50",
        quiet: None,
        all: decision::medians(pairs),
        tolerance: rules.tolerance_median,
        bounds: smallest.iter().map(|change| (change.pairs, change.median)).collect(),
    };
    let tail = PercentilePairs {
        name: tail_name(tail_quantile),
        quiet: Some(rules.tail().used_pairs(&tails).into_owned()),
        all: tails,
        tolerance: rules.tolerance_tail,
        bounds: smallest.iter().map(|change| (change.pairs, change.tail)).collect(),
    };
    [median, tail].map(|percentile| percentile.calibrate(rules.period_ns, pair_ns)).into()
}

/// The recorded pairs of one percentile.
struct PercentilePairs {
    name: &'static str,
    all: Vec<Sides<Late>>,
    /// The quieter half, if a gate uses only that.
    quiet: Option<Vec<Sides<Late>>>,
    /// The tolerated relative rise.
    tolerance: f64,
    /// Pairs at each look, and the logarithm of the smallest change there, without stalls.
    bounds: Vec<(usize, f64)>,
}

impl PercentilePairs {
    fn calibrate(&self, period_ns: u64, pair_ns: u64) -> CalibratedMetric {
        let used = self.quiet.as_deref().unwrap_or(&self.all);
        let logarithms = used.iter().flatten().map(|late| late.ln);
        let median_ns = decision::median(logarithms).exp();
        let lift = Lift::from_pairs(used, period_ns);
        let both = lift.map_or(0.0, |lift| lift.both);
        let change = |&(pairs, bound): &(usize, f64)| {
            let ratio = tidy((bound + both).exp());
            let difference_ns = (median_ns * (ratio - 1.0)).round() as i64;
            let after_ns = pair_ns.saturating_mul(pairs as u64);
            SmallestChange { pairs: pairs as u64, after_ns, ratio, difference_ns }
        };
        CalibratedMetric {
            name: self.name.to_owned(),
            median_ns: median_ns.round() as i64,
            spread: tidy(pair_spread(&self.all)),
            spread_quiet_half: self.quiet.as_deref().map(|quiet| tidy(pair_spread(quiet))),
            stall_dominated: lift.is_some_and(|lift| lift.masks_change(self.tolerance)),
            lift: Some(tidy(both.exp())),
            smallest_change: self.bounds.iter().map(change).collect(),
        }
    }
}

/// Robust standard deviation of the differences within pairs.
fn pair_spread(values: &[Sides<Late>]) -> f64 {
    spread(values.iter().map(|pair| pair.candidate.ln - pair.base.ln))
}

/// The smallest detectable changes at one look, as logarithms, without the lift of stalls.
struct ChangeBounds {
    pairs: usize,
    median: f64,
    tail: f64,
}

/// Computes, for each look, the bound below which the intervals of 95 % of the relabelled gates
/// stay.
///
/// To pass without a change, the upper bound plus the lift of stalls must be below the tolerance. A
/// change moves the interval with it, and is detected if the lower bound is then above zero. As the
/// intervals are symmetric around zero, both distances are equal.
fn smallest_changes(pairs: &[Pair], rules: &Rules) -> Vec<ChangeBounds> {
    // With unlimited tolerances, a look only measures.
    let rules = Rules { tolerance_median: f64::MAX, tolerance_tail: f64::MAX, ..rules.clone() };
    let mut relabelled = Relabelled::new(pairs.len());
    let at = |n: usize| {
        let (mut medians, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..RELABELLED {
            let look = decision::look(&relabel(pairs, &relabelled.gate(n)), &rules, true);
            medians.extend(look.median.shift.iter().flat_map(|s| [s.upper, -s.lower]));
            tails.extend(look.tail.shift.iter().flat_map(|s| [s.upper, -s.lower]));
        }
        Some(ChangeBounds { pairs: n, median: power_bound(medians)?, tail: power_bound(tails)? })
    };
    rules.looks.clone().into_iter().filter_map(at).collect()
}

/// Returns the pairs of a relabelled gate.
fn relabel(pairs: &[Pair], labels: &[Label]) -> Vec<Pair> {
    labels
        .iter()
        .map(|&(i, is_swapped)| if is_swapped { pairs[i].swapped() } else { pairs[i] })
        .collect()
}

/// Estimates the probability that a gate ends undecided without a change, for each of [`TIMES_S`].
#[must_use]
pub fn inconclusive(pairs: &[Pair], rules: &Rules, pair_ns: u64) -> Vec<InconclusiveChance> {
    gates::inconclusive(pairs.len(), &rules.looks, pair_ns, |looks, labels| {
        let rules = Rules { looks: looks.to_vec(), ..rules.clone() };
        decide(&relabel(pairs, labels), &rules).0
    })
}

/// Performs a gate over the pairs in their order, and returns its outcome and number of pairs.
fn decide(pairs: &[Pair], rules: &Rules) -> (Outcome, usize) {
    gates::decide(&rules.looks, pairs.len(), |n, last| {
        decision::look(&pairs[..n], rules, last).outcome
    })
}

/// Counts the outcomes of the real gates: consecutive ones from the pairs in their order. Remaining
/// pairs are ignored.
#[must_use]
pub fn real_gates(pairs: &[Pair], rules: &Rules) -> RealGates {
    gates::real_gates(pairs.len(), |from| decide(&pairs[from..], rules))
}

impl File for Calibration {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;
}

impl Calibration {
    /// Returns the differences that make the calibration invalid for a gate on this machine with
    /// these rounds, with the calibration as side A.
    #[must_use]
    pub fn differences(
        &self,
        environment: &EnvironmentKey,
        period_ns: u64,
        round_ticks: u64,
    ) -> Vec<Difference> {
        let mut differences = self.environment.differences(environment);
        let numbers = [
            ("period", self.plan.period_ns, period_ns, " ns"),
            ("ticks of a round", self.plan.round_ticks, round_ticks, ""),
        ];
        for (field, a, b, unit) in numbers.into_iter().filter(|(_, a, b, _)| a != b) {
            differences.push(Difference {
                field: field.to_owned(),
                a: format!("{a}{unit}"),
                b: format!("{b}{unit}"),
            });
        }
        differences
    }

    /// Returns the number of pairs with which a gate detects a change of a percentile by `ratio`.
    /// `None` if no number is enough, because stalls alone lift it by that much, or the calibration
    /// did not reach a look.
    #[must_use]
    pub fn pairs_to_detect(&self, name: &str, ratio: f64, rules: &Rules) -> Option<u64> {
        let metric = self.metrics.iter().find(|m| m.name == name && !m.stall_dominated)?;
        self.sensitivity(metric, rules).pairs_for(ratio.ln())
    }

    /// Returns the smallest ratio of a percentile that a gate detects with this number of pairs.
    #[must_use]
    pub fn smallest_detectable(&self, name: &str, pairs: u64, rules: &Rules) -> Option<f64> {
        let metric = self.metrics.iter().find(|m| m.name == name && !m.stall_dominated)?;
        self.sensitivity(metric, rules).at(pairs).map(f64::exp)
    }

    /// Returns the sensitivity of a gate with these rules: its alpha may be smaller than that of
    /// the calibration, or shared by more looks.
    fn sensitivity(&self, metric: &CalibratedMetric, rules: &Rules) -> Sensitivity {
        let calibrated = self.plan.alpha / (2.0 * self.plan.looks.len().max(1) as f64);
        Sensitivity {
            looks: metric.smallest_change.iter().map(|c| (c.pairs, c.ratio.ln())).collect(),
            lift: metric.lift.map_or(0.0, f64::ln),
            widening: widening(rules.alpha_per_look(), calibrated),
        }
    }

    /// Returns the percentiles for which a gate with these rules tolerates less than it can detect
    /// at its last look. It would often end undecided.
    #[must_use]
    pub fn below_noise(&self, rules: &Rules) -> Vec<ToleranceBelowNoise> {
        let last = rules.looks.last().copied().unwrap_or(0) as u64;
        let below = |(metric, rule): (&CalibratedMetric, NumberRule)| {
            let smallest = self.sensitivity(metric, rules).at(last)?.exp();
            let tolerated = rule.tolerated(metric.median_ns as f64).exp();
            let name = metric.name.clone();
            (tolerated < smallest - 1e-6).then_some(ToleranceBelowNoise {
                name,
                tolerated,
                smallest,
                pairs: last,
            })
        };
        self.metrics.iter().zip([rules.median(), rules.tail()]).filter_map(below).collect()
    }
}
