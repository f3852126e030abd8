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

mod calibrated_number;
mod gates;
pub mod runs;
#[cfg(test)]
mod tests;

pub use self::calibrated_number::{CalibratedNumber, DetectableChange, MIN_CALIBRATION_PAIRS};
use self::gates::tidy;
pub use self::gates::{
    InconclusiveChance, MIN_REAL_GATES, RealGates, RecordedNumber, Recording, TIMES_S,
};
use super::verdict::{GateDesign, PairRecord};
use crate::environment::{Difference, EnvironmentKey, format_ns};
use crate::file::File;
use crate::model::model;
use crate::report::{Fitness, Tool, Warning};
use jitterstat::gate::decision::{self, Rules};
use jitterstat::gate::metric::alpha_share;
use jitterstat::gate::round::{Pair, tail_name};

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

/// Returns warnings about metrics that were calibrated with this number of pairs. `looks` are those
/// of a gate.
#[must_use]
pub fn warnings(metrics: &[CalibratedMetric], pairs: usize, looks: &[usize]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    if looks.first().is_some_and(|&first| pairs < first) {
        let message = format!("{pairs} pairs are fewer than a gate takes until its first look.");
        warnings.push(Warning::new("few-pairs", message, "Calibrate for longer, with --max-time."));
    }
    let stalled: Vec<&str> =
        metrics.iter().filter(|m| m.stall_dominated).map(|m| m.name.as_str()).collect();
    if !stalled.is_empty() {
        let what = stalled.join(" and ");
        let message =
            format!("{what}: stalls of the machine raise it so much that a gate cannot pass it.");
        let hint = "Use a quieter machine or CPU, or tolerate more.";
        warnings.push(Warning::new("stall-dominated", message, hint));
    }
    warnings
}

/// Creates the recording of the percentiles that a gate with these rules judges: the median and the
/// tail at the given quantile.
#[must_use]
pub fn recording(pairs: &[Pair], rules: &Rules, tail_quantile: f64, pair_ns: u64) -> Recording {
    let number = |name: &str, rule, values| RecordedNumber {
        name: name.to_owned(),
        unit: "ns".to_owned(),
        higher_is_better: false,
        rule,
        values,
    };
    let median = number("p50", rules.median(), decision::medians(pairs));
    let tail = number(tail_name(tail_quantile), rules.tail(), decision::tails(pairs));
    Recording {
        numbers: vec![median, tail],
        alpha: rules.alpha,
        looks: rules.looks.clone(),
        pair_ns,
        keeps_outcomes: false,
    }
}

/// Calibrates the percentiles of a [`recording`]. Returns nothing with fewer than
/// [`MIN_CALIBRATION_PAIRS`] pairs.
#[must_use]
pub fn metrics(recording: &Recording) -> Vec<CalibratedMetric> {
    let has_enough_pairs = recording.pairs() >= MIN_CALIBRATION_PAIRS;
    let numbers = if has_enough_pairs { recording.calibrate() } else { Vec::new() };
    numbers.into_iter().map(CalibratedMetric::from).collect()
}

impl From<CalibratedNumber> for CalibratedMetric {
    fn from(number: CalibratedNumber) -> Self {
        let smallest_change = |change: &DetectableChange| SmallestChange {
            pairs: change.pairs,
            after_ns: change.after_ns,
            ratio: change.ratio,
            difference_ns: (number.median * (change.ratio - 1.0)).round() as i64,
        };
        Self {
            median_ns: number.median.round() as i64,
            spread: number.spread,
            spread_quiet_half: number.spread_quiet_half,
            stall_dominated: number.stall_dominated,
            lift: Some(tidy(number.lift.exp())),
            smallest_change: number.changes.iter().map(smallest_change).collect(),
            name: number.name,
        }
    }
}

impl CalibratedMetric {
    /// `alpha` is the alpha of the percentile at one look.
    fn number(&self, alpha: f64) -> CalibratedNumber {
        let change = |change: &SmallestChange| DetectableChange {
            pairs: change.pairs,
            after_ns: change.after_ns,
            ratio: change.ratio,
            difference: change.difference_ns as f64,
        };
        CalibratedNumber {
            name: self.name.clone(),
            unit: "ns".to_owned(),
            higher_is_better: false,
            median: self.median_ns as f64,
            spread: self.spread,
            spread_quiet_half: self.spread_quiet_half,
            stall_dominated: self.stall_dominated,
            lift: self.lift.map_or(0.0, f64::ln),
            alpha,
            changes: self.smallest_change.iter().map(change).collect(),
        }
    }
}

impl File for Calibration {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = true;
}

impl Calibration {
    /// Returns the calibrated percentiles: the median and the tail.
    #[must_use]
    pub fn numbers(&self) -> Vec<CalibratedNumber> {
        let alpha = alpha_share(self.plan.alpha, self.metrics.len(), self.plan.looks.len());
        self.metrics.iter().map(|metric| metric.number(alpha)).collect()
    }

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
        let fields = [
            ("period", format_ns(self.plan.period_ns), format_ns(period_ns)),
            ("ticks of a round", self.plan.round_ticks.to_string(), round_ticks.to_string()),
        ];
        for (field, a, b) in fields {
            if a != b {
                differences.push(Difference { field: field.to_owned(), a, b });
            }
        }
        differences
    }
}
