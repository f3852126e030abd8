//! What a gate can see on a machine: one subject against itself, many pairs of rounds, and the
//! gate's own rules held against them. Written as `osjitter.calibration/1`.
//!
//! In a pair of a subject with itself nothing tells the sides apart, and the order within each pair
//! was drawn at random: with the labels of every pair drawn anew, the same rounds make as many
//! gates as one likes, each of which a real gate could have been. A gate of n pairs takes n
//! neighbouring pairs from a random place of the recording on, from its end back to its start, so
//! that slow changes of the machine are in it; one that is longer than the recording takes pairs
//! again, with labels of their own. What such gates show are their widths, and how often they end
//! undecided. Their false alarms would only show that the labels were drawn fairly: a rate of those
//! is claimed from real gates alone.

mod gates;
pub mod runs;
#[cfg(test)]
mod tests;

pub use self::gates::{
    InconclusiveChance, MIN_CALIBRATION_PAIRS, MIN_REAL_GATES, RealGates, TIMES_S,
};
use self::gates::{Label, RELABELLED, Relabelled, Sight, seen_by_most, spread, tidy, widening};
use super::verdict::{GateDesign, PairRecord};
use crate::environment::{Difference, EnvironmentKey};
use crate::file::File;
use crate::model::model;
use crate::report::{Fitness, Tool, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, Outcome, Rules};
use jitterstat::gate::round::{Late, Pair, tail_name};

/// Value of [`Calibration::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.calibration/1";
model! {
    /// What a gate can see on one machine, with one subject.
    pub struct Calibration {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time of the measurement.
        pub duration_ns: u64,
        /// It was interrupted: the figures are of the pairs there were.
        pub partial: bool,
        /// Why it could not go on, if it could not.
        pub failure: Option<String>,
        /// The machine that it holds for.
        pub environment: EnvironmentKey,
        /// The subject, on both sides.
        pub subject: String,
        /// How it was measured.
        pub plan: CalibrationPlan,
        /// Pairs measured.
        pub pairs: u64,
        /// Wall time of one pair.
        pub pair_ns: u64,
        /// One entry for each percentile that a gate judges; empty with too few pairs.
        pub metrics: Vec<CalibratedMetric>,
        /// How often a gate with the tolerances of the plan ends undecided, by the time it is
        /// given.
        pub inconclusive: Vec<InconclusiveChance>,
        /// Gates that were really measured here, one after the other.
        pub real_gates: RealGates,
        /// Share of the ticks that belonged to a stall already counted.
        pub same_stall_share: f64,
        /// Share of the time of all CPUs that the hypervisor took during the rounds, where the
        /// platform tells.
        pub steal_share: Option<f64>,
        /// Whether the machine was quiet enough to believe it; null where nothing was measured to
        /// judge by, and in files from before it was.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
        /// The values behind it, in the order they were measured.
        pub rounds: Vec<PairRecord>,
    }

    /// How a calibration was measured, and the rules that it holds for.
    pub struct CalibrationPlan {
        /// Nominal period.
        pub period_ns: u64,
        /// Recorded ticks of a round.
        pub round_ticks: u64,
        /// Leading ticks of a round that are dropped.
        pub warmup_ticks: u64,
        /// Seed of the order.
        pub seed: u64,
        /// The CPU that both sides were bound to.
        pub cpu: Option<usize>,
        /// Share of false alarms of a gate, by design.
        pub alpha: f64,
        /// The numbers of pairs at which a gate may look.
        pub looks: Vec<u64>,
        /// Tolerated relative rise of the median.
        pub tolerance_median: f64,
        /// Tolerated relative rise of the tail percentile.
        pub tolerance_tail: f64,
        /// A rise by less than this is tolerated however large it is relatively.
        pub floor_ns: f64,
    }

    /// One percentile.
    pub struct CalibratedMetric {
        /// `p50`, and `p99`, `p95` or `p90`.
        pub name: String,
        /// Median over the rounds of both sides, in the pairs that it is judged by.
        pub median_ns: i64,
        /// How far the two rounds of a pair are apart: robust standard deviation of the difference
        /// of their natural logarithms, so that 0.2 is about 20 %.
        pub spread: f64,
        /// The same of the quieter half of the pairs; only for the tail, which is judged there.
        pub spread_quiet_half: Option<f64>,
        /// Stalls may hide what is tolerated: a gate that finds no regression says so instead of
        /// passing.
        pub stall_dominated: bool,
        /// By how much stalls raise the percentile on both sides, as a ratio; null in files from
        /// before that was known.
        pub lift: Option<f64>,
        /// At each look, the smallest change that a gate sees with 95 % probability, and the
        /// smallest tolerance at which it passes with 95 % probability where nothing has changed:
        /// the two are one number.
        pub smallest_change: Vec<SmallestChange>,
    }

    /// The smallest change at one look.
    pub struct SmallestChange {
        /// Pairs that the look is at.
        pub pairs: u64,
        /// The time that they take.
        pub after_ns: u64,
        /// B as a multiple of A.
        pub ratio: f64,
        /// B minus A.
        pub difference_ns: i64,
    }
}

/// A tolerance below the noise level of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ToleranceBelowNoise {
    /// The percentile.
    pub name: String,
    /// The rise that is tolerated, as a ratio.
    pub tolerated: f64,
    /// The smallest that a gate can see at its last look, as a ratio.
    pub smallest: f64,
    /// Pairs at that look.
    pub pairs: u64,
}

impl CalibrationPlan {
    /// How a calibration was measured, and the rules that it holds for.
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

/// What a reader should know of these figures, which are of so many pairs.
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
        let message = format!(
            "{what}: stalls of the machine make so much of it that a gate does not pass it."
        );
        let hint = "Use a quieter machine or CPU, or tolerate more.";
        warnings.push(warning("stall-dominated", message, hint));
    }
    warnings
}

/// Each percentile that a gate of these rules judges; nothing with fewer than [`MIN_CALIBRATION_PAIRS`]
/// pairs.
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
        quiet: Some(decision::quiet_half(&tails)),
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

/// For each look, the bound of the interval that 95 % of the relabelled gates stay below, for the
/// median and for the tail.
///
/// Without a change the upper bound must lie below the tolerance for a pass, and clear of the lift,
/// which is to be added; a change moves the interval along with it, and is seen if the lower bound
/// then lies above zero. As the interval is as likely to lie so far above as below, both are the
/// same distance.
fn smallest_changes(pairs: &[Pair], rules: &Rules) -> Vec<ChangeBounds> {
    // With nothing to judge, a look only measures.
    let rules = Rules { tolerance_median: f64::MAX, tolerance_tail: f64::MAX, ..rules.clone() };
    let mut relabelled = Relabelled::new(pairs.len());
    let at = |n: usize| {
        let (mut medians, mut tails) = (Vec::new(), Vec::new());
        for _ in 0..RELABELLED {
            let look = decision::look(&labelled(pairs, &relabelled.gate(n)), &rules, true);
            medians.extend(look.median.shift.iter().flat_map(|s| [s.upper, -s.lower]));
            tails.extend(look.tail.shift.iter().flat_map(|s| [s.upper, -s.lower]));
        }
        Some(ChangeBounds { pairs: n, median: seen_by_most(medians)?, tail: seen_by_most(tails)? })
    };
    rules.looks.clone().into_iter().filter_map(at).collect()
}

/// The pairs of a relabelled gate.
fn labelled(pairs: &[Pair], labels: &[Label]) -> Vec<Pair> {
    labels
        .iter()
        .map(|&(i, is_swapped)| if is_swapped { pairs[i].swapped() } else { pairs[i] })
        .collect()
}

/// The chance that a gate ends undecided although nothing has changed, for each of the times.
#[must_use]
pub fn inconclusive(pairs: &[Pair], rules: &Rules, pair_ns: u64) -> Vec<InconclusiveChance> {
    gates::inconclusive(pairs.len(), &rules.looks, pair_ns, |looks, labels| {
        let rules = Rules { looks: looks.to_vec(), ..rules.clone() };
        decide(&labelled(pairs, labels), &rules).0
    })
}

/// A gate over the pairs in their order: its outcome, and the pairs it took.
fn decide(pairs: &[Pair], rules: &Rules) -> (Outcome, usize) {
    gates::decide(&rules.looks, pairs.len(), |n, last| {
        decision::look(&pairs[..n], rules, last).outcome
    })
}

/// The gates that the pairs really were, one after the other; what is left at the end is none.
#[must_use]
pub fn real_gates(pairs: &[Pair], rules: &Rules) -> RealGates {
    gates::real_gates(pairs.len(), |from| decide(&pairs[from..], rules))
}

impl File for Calibration {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;
}

impl Calibration {
    /// What keeps it from holding for a gate on such a machine, with such rounds; the calibration
    /// as side A.
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

    /// The pairs at whose look a gate of these rules sees a percentile change by such a ratio;
    /// `None` where none would, as stalls alone lift it by as much, or the calibration did not come
    /// to a look.
    #[must_use]
    pub fn pairs_to_see(&self, name: &str, ratio: f64, rules: &Rules) -> Option<u64> {
        let metric = self.metrics.iter().find(|m| m.name == name && !m.stall_dominated)?;
        self.sight(metric, rules).pairs_for(ratio.ln())
    }

    /// The smallest ratio that a gate of these rules sees of a percentile at so many pairs.
    #[must_use]
    pub fn seen_at(&self, name: &str, pairs: u64, rules: &Rules) -> Option<f64> {
        let metric = self.metrics.iter().find(|m| m.name == name && !m.stall_dominated)?;
        self.sight(metric, rules).at(pairs).map(f64::exp)
    }

    /// What was calibrated of a percentile, for a gate of these rules: its alpha may be smaller, or
    /// shared by more looks.
    fn sight(&self, metric: &CalibratedMetric, rules: &Rules) -> Sight {
        let calibrated = self.plan.alpha / (2.0 * self.plan.looks.len().max(1) as f64);
        Sight {
            looks: metric.smallest_change.iter().map(|c| (c.pairs, c.ratio.ln())).collect(),
            lift: metric.lift.map_or(0.0, f64::ln),
            widening: widening(rules.alpha_per_look(), calibrated),
        }
    }

    /// The percentiles on which a gate of these rules tolerates less than it can see at its last
    /// look: it will often end undecided.
    #[must_use]
    pub fn below_noise(&self, rules: &Rules) -> Vec<ToleranceBelowNoise> {
        let last = rules.looks.last().copied().unwrap_or(0) as u64;
        let below = |(metric, relative): (&CalibratedMetric, f64)| {
            let smallest = self.sight(metric, rules).at(last)?.exp();
            let tolerated = rules.tolerance(relative, metric.median_ns as f64).exp();
            let name = metric.name.clone();
            (tolerated < smallest - 1e-6).then_some(ToleranceBelowNoise {
                name,
                tolerated,
                smallest,
                pairs: last,
            })
        };
        self.metrics
            .iter()
            .zip([rules.tolerance_median, rules.tolerance_tail])
            .filter_map(below)
            .collect()
    }
}
