//! The file `osjitter.verdict/1`: the decision of a gate with the measurements behind it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::file::File;
use crate::model::model;
use crate::report::{Distribution, Fitness, Host, Tool, Warning};
use jitterstat::gate::decision::{Outcome, Reason};

mod convert;

pub use convert::{metrics, records};

/// Value of [`Verdict::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.verdict/1";

model! {
    /// The result of one gate.
    pub struct Verdict {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time until the verdict.
        pub duration_ns: u64,
        /// Whether the gate was interrupted. The verdict then uses the pairs measured until then
        /// and is at best inconclusive.
        pub partial: bool,
        /// Whether this is a screen, which takes a single look after at most 15 s and only reports
        /// what is clear: `regressed` means clearly worse, and `inconclusive` to look closer.
        /// Absent if it is not, and in older files.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub screen: bool,
        /// The worst outcome of all answers.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// Comparisons of two sides by rounds. They share alpha.
        pub comparisons: Vec<PairVerdict>,
        /// Comparison of two programs by whole runs; null if not requested.
        pub runs: Option<RunsVerdict>,
        /// Comparison of a subject with stored sessions; null if not requested.
        pub baseline: Option<BaselineVerdict>,
        /// Limits, each with its measured value.
        pub limits: Vec<LimitCheck>,
        /// Reason for which the gate could not continue, if so.
        pub failure: Option<String>,
        /// Whether the machine was quiet enough to trust the verdict; null if no measurement allows
        /// a judgement, and in older files.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        /// The machine.
        pub host: Host,
        /// Warnings to consider before trusting the verdict.
        pub warnings: Vec<Warning>,
        /// Processes that the programs left running; null if there were none, and in older files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub left_over: Option<LeftOverProcesses>,
    }

    /// Numbers of processes that still ran when the program that started them had exited. They were
    /// killed, so that their work is missing from the wall time and from parts of other metrics.
    #[derive(Copy, Default, Eq)]
    pub struct LeftOverProcesses {
        /// Processes of side A, in all of its runs.
        pub a: u64,
        /// Processes of side B.
        pub b: u64,
        /// Processes of the command that ran before each run.
        pub prepare: u64,
    }

    // The three comparisons below repeat some keys, because the format has other keys between them.
    // A flattened struct would lose the line and the key of an error in them.

    /// The comparison of two sides by pairs of rounds.
    pub struct PairVerdict {
        /// The side that is compared against.
        pub a: String,
        /// The side that is judged.
        pub b: String,
        /// How the two sides ran.
        pub mode: Mode,
        /// Wall time of this comparison.
        pub duration_ns: u64,
        /// The outcome.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// The plan of the measurement.
        pub plan: GateDesign,
        /// Number of measured pairs.
        pub pairs: u64,
        /// Number of looks taken.
        pub looks_taken: u64,
        /// One entry for each judged percentile.
        pub metrics: Vec<Metric>,
        /// Additional information about each side, not part of the decision.
        pub sides: Vec<Side>,
        /// The judged values, in the order of the measurement.
        pub rounds: Vec<PairRecord>,
    }

    /// The comparison of two programs by numbers of whole runs, in pairs.
    pub struct RunsVerdict {
        /// The program that is compared against.
        pub a: String,
        /// The program that is judged.
        pub b: String,
        /// Wall time of this comparison, including dropped runs.
        pub duration_ns: u64,
        /// The outcome.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// The plan of the measurement.
        #[serde(flatten)]
        pub plan: RunPlan,
        /// Number of measured pairs.
        pub pairs: u64,
        /// Number of looks taken.
        pub looks_taken: u64,
        /// One entry for each metric. The metrics share alpha.
        pub metrics: Vec<RunMetric>,
        /// Benchmarks that ran and were not judged. Unless all of them are allowed, the outcome is
        /// at best inconclusive. Absent if there are none, and in older files.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pub unjudged: Vec<UnjudgedBench>,
        /// Statement that both sides are the same program, so that nothing was measured. Absent if they
        /// are not or were not compared, and in older files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub same_program: Option<SameProgram>,
    }

    /// Two sides whose executables are equal byte by byte, except for the paths of their trees.
    #[derive(Eq)]
    pub struct SameProgram {
        /// Number of files and directories of the trees that the first runs opened. They are equal too.
        pub opened_files: u64,
    }

    /// A benchmark that ran and was not judged.
    pub struct UnjudgedBench {
        /// Name of the benchmark, with that of its number if others of it are judged.
        pub name: String,
        /// The reason.
        pub reason: UnjudgedReason,
        /// Side for which the reason holds, `a` or `b`; null if it holds for both.
        pub side: Option<String>,
        /// Other numbers that the harness reports for it, which `--metric` can choose.
        pub numbers: Vec<String>,
        /// Why it failed or was skipped, in its own words. Absent if it states nothing, and in older
        /// files.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub message: Option<String>,
        /// Whether `--allow-unjudged` names it, so that it does not affect the outcome.
        pub allowed: bool,
    }

    /// The plan of a gate or a calibration of whole runs.
    #[cfg_attr(feature = "schema", schemars(rename = "RunCalibrationPlan"))]
    pub struct RunPlan {
        /// Number of runs of each side before the first pair, which were dropped.
        pub warmup_runs: u64,
        /// Command that ran before each run, outside of the measured time.
        pub prepare: Option<String>,
        /// Seed of the order within pairs.
        pub seed: u64,
        /// CPU that both sides were bound to; null without one.
        pub cpu: Option<usize>,
        /// Maximum share of false alarms of a gate over all of its metrics, by design.
        pub alpha: f64,
        /// Numbers of pairs at which a gate may look.
        pub looks: Vec<u64>,
    }

    /// The verdict on one number of whole runs.
    pub struct RunMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, the name of a metric of the program with the
        /// percentile of its samples, or the name of a benchmark, with that of its number if this
        /// is not the time.
        pub name: String,
        /// `ns`, `bytes`, or the unit that the program or its harness states; empty if it states
        /// none.
        pub unit: String,
        /// Whether higher values are better.
        pub higher_is_better: bool,
        /// The verdict.
        #[serde(flatten)]
        pub judged: JudgedNumber,
        /// Median run of side A.
        pub a: f64,
        /// Median run of side B.
        pub b: f64,
        /// Number of pairs behind the interval.
        pub pairs: u64,
        /// Number of pairs that would probably decide.
        pub pairs_to_decide: Option<u64>,
        /// The judged values of A and B, pair by pair, in the order of the measurement.
        pub values: Vec<[f64; 2]>,
    }

    /// The comparison of a new session of a subject and its control with stored sessions.
    #[cfg_attr(feature = "schema", schemars(rename = "AgainstBaseline"))]
    pub struct BaselineVerdict {
        /// The file of the stored sessions.
        pub file: String,
        /// The subject.
        pub subject: String,
        /// The control that ran alongside it, in the stored sessions and now.
        pub control: String,
        /// Number of stored sessions.
        pub sessions: u64,
        /// Wall time of the new session.
        pub duration_ns: u64,
        /// The outcome.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// The plan of the new session.
        pub plan: GateDesign,
        /// Number of measured pairs.
        pub pairs: u64,
        /// One entry for each judged percentile.
        pub metrics: Vec<BaselineMetric>,
        /// Additional information, not part of the decision; `a` is the control.
        pub sides: Vec<Side>,
        /// The judged values, in the order of the measurement; `a` is the control.
        pub rounds: Vec<PairRecord>,
    }

    /// The verdict on one percentile relative to the stored sessions.
    pub struct BaselineMetric {
        /// `p50`, `p99`, `p95` or `p90`.
        pub name: String,
        /// The verdict.
        #[serde(flatten)]
        pub judged: JudgedNumber,
        /// Median round of the subject in the stored sessions, in the judged pairs; null without
        /// them.
        pub stored_ns: Option<i64>,
        /// Median round of the subject now, in the judged pairs.
        pub now_ns: i64,
        /// Median round of the control now, in the judged pairs.
        pub control_ns: i64,
        /// Number of pairs behind the interval of the new session.
        pub pairs: u64,
        /// By how much stalls raise the percentile in the new session; null in older files.
        pub lift: Option<StallLift>,
    }

    /// A limit with the measured value.
    pub struct LimitCheck {
        /// The subject.
        pub subject: String,
        /// The limited number as a path of a summary, for example `lateness_ns.p99`.
        pub path: String,
        /// Unit of `limit`, `value` and `interval`: `ns`, `%` (of the ticks), `ppb` or `per tick`.
        pub unit: String,
        /// The limit.
        pub limit: f64,
        /// Value over all rounds; null with too few ticks.
        pub value: Option<f64>,
        /// 99 % interval over rounds; null with fewer than 10 rounds. For a rate, its bounds.
        pub interval: Option<[f64; 2]>,
        /// Bounds of the rate of missed ticks; null if the limit is not one on this rate.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rate: Option<RateBounds>,
        /// The outcome.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// Number of rounds.
        pub rounds: u64,
        /// Number of ticks.
        pub ticks: u64,
        /// Number of ticks that would probably decide.
        pub ticks_to_decide: Option<u64>,
        /// Nominal period; null in older files.
        pub period_ns: Option<u64>,
        /// The report that contains the measurement; null if the gate measured it.
        pub report: Option<String>,
    }

    /// One-sided bounds of the rate of missed ticks, over rounds.
    pub struct RateBounds {
        /// Number of missed ticks.
        pub missed: u64,
        /// Lower bound of the share of missed ticks. The limit is broken if it is above the limit.
        pub lower: f64,
        /// Confidence that the share is above `lower`.
        pub lower_confidence: f64,
        /// Upper bound of the share of missed ticks. The limit is kept if it is below the limit.
        pub upper: f64,
        /// Confidence that the share is below `upper`.
        pub upper_confidence: f64,
        /// Longest stall that the upper bound assumes; null if it holds for stalls of any length.
        pub max_stall_ns: Option<u64>,
        /// Time in which the ticks were due.
        pub measured_ns: u64,
    }

    /// The plan of a gate.
    pub struct GateDesign {
        /// Nominal period.
        pub period_ns: u64,
        /// Number of recorded ticks of a round.
        pub round_ticks: u64,
        /// Number of leading ticks of a round that are dropped.
        pub warmup_ticks: u64,
        /// Seed of the order.
        pub seed: u64,
        /// CPU that both sides were bound to; null without one.
        pub cpu: Option<usize>,
        /// Maximum share of false alarms, by design.
        pub alpha: f64,
        /// Numbers of pairs at which the gate may look.
        pub looks: Vec<u64>,
        /// Tolerances; null in older files.
        pub tolerance: Option<Tolerance>,
    }

    /// The tolerances of a gate.
    pub struct Tolerance {
        /// Tolerated relative rise of the median.
        pub median: f64,
        /// Tolerated relative rise of the tail percentile.
        pub tail: f64,
        /// Absolute rise that is always tolerated, whatever it is relatively.
        pub floor_ns: f64,
    }

    /// The verdict on a number.
    pub struct JudgedNumber {
        /// The outcome.
        pub verdict: Outcome,
        /// The reason, if the outcome is inconclusive.
        pub reason: Option<Reason>,
        /// Ratio of B to A; null with too few pairs. With stored sessions, B is the ratio of the
        /// subject to its control now, and A that of the stored sessions.
        pub ratio: Option<f64>,
        /// Interval of the ratio; null with too few pairs.
        pub ratio_interval: Option<[f64; 2]>,
        /// Largest tolerated ratio, or smallest if higher values are better.
        pub tolerated_ratio: f64,
    }

    /// By how much stalls raise a percentile: ratios, medians over the judged pairs.
    pub struct StallLift {
        /// Lift of side A, or of the control.
        pub a: f64,
        /// Lift of side B.
        pub b: f64,
        /// The smaller lift of each pair. A pass must be clear of the tolerance by this much, and
        /// is impossible if it is half of the tolerance or more.
        pub both: f64,
        /// The larger lift of the two sides, counting only rounds that are late even without
        /// stalls. A pass is impossible if it is the tolerance or more.
        pub late_anyway: f64,
    }

    /// The verdict on one percentile.
    pub struct Metric {
        /// `p50`, and `p99`, `p95` or `p90`, depending on the number of ticks of a round.
        pub name: String,
        /// The verdict.
        #[serde(flatten)]
        pub judged: JudgedNumber,
        /// Median round of side A in the pairs behind the interval.
        pub a_ns: i64,
        /// Median round of side B in these pairs.
        pub b_ns: i64,
        /// Number of pairs behind the interval.
        pub pairs: u64,
        /// Number of pairs that would probably decide.
        pub pairs_to_decide: Option<u64>,
        /// By how much stalls raise the percentile; null in older files.
        pub lift: Option<StallLift>,
    }

    /// Information about a side during the measurement.
    pub struct Side {
        /// `a` or `b`.
        pub side: String,
        /// Share of its ticks that belong to an already counted stall.
        pub same_stall_share: f64,
        /// Lateness of every tick of its rounds, including stalls, as a user would experience it;
        /// null without a tick.
        pub lateness_ns: Option<Distribution>,
        /// Share of the time of all CPUs that the hypervisor stole during its rounds; null if the
        /// platform does not report it.
        pub steal_share: Option<f64>,
    }

    /// The values of one pair, in nanoseconds.
    pub struct PairRecord {
        /// Median and tail percentile of side A.
        pub a_ns: [i64; 2],
        /// Median and tail percentile of side B.
        pub b_ns: [i64; 2],
        /// Median and tail percentile of side A without stalls; null in older files.
        pub a_own_ns: Option<[i64; 2]>,
        /// Median and tail percentile of side B without stalls; null in older files.
        pub b_own_ns: Option<[i64; 2]>,
    }
}

/// The way in which the two sides of a pair run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One directly after the other, in an order drawn for each pair.
    Interleaved,
    /// At once on one CPU, half a period apart, in an order drawn for each pair.
    Duet,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interleaved => "in turn",
            Self::Duet => "at once",
        })
    }
}

/// The reason why a benchmark that ran was not judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum UnjudgedReason {
    /// The other side does not have it.
    OneSide,
    /// It failed, as its harness reported.
    Failed,
    /// Its harness started it and skipped it.
    Skipped,
    /// Its harness reported no number for it.
    NoNumber,
    /// Its harness reported numbers, but not the chosen ones.
    OtherNumbers,
    /// The number is negative or not finite in a run.
    InvalidNumber,
    /// The number has another unit or direction in each side.
    OtherUnit,
    /// Its median is zero, which is below what the harness can resolve.
    Zero,
    /// The first runs did not have it, and a later one had it.
    Late,
}

impl fmt::Display for UnjudgedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OneSide => "the other side does not have it",
            Self::Failed => "it failed",
            Self::Skipped => "its harness skipped it",
            Self::NoNumber => "its harness reported no number",
            Self::OtherNumbers => "its harness reported only other numbers",
            Self::InvalidNumber => "its number is negative or not finite",
            Self::OtherUnit => "the sides have different units",
            Self::Zero => "its median is zero",
            Self::Late => "the first runs did not have it",
        })
    }
}

impl UnjudgedBench {
    /// Creates a benchmark of which nothing but the reason is known.
    #[must_use]
    pub fn new(name: &str, reason: UnjudgedReason, side: Option<&str>) -> Self {
        Self {
            name: name.to_owned(),
            reason,
            side: side.map(str::to_owned),
            numbers: Vec::new(),
            message: None,
            allowed: false,
        }
    }
}

impl fmt::Display for UnjudgedBench {
    /// Writes the reason, with the side, the other numbers and the message.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = self.side.as_deref().map(str::to_uppercase);
        match (self.reason, side) {
            (UnjudgedReason::OneSide, Some(side)) => write!(f, "only {side} has it")?,
            (reason, Some(side)) => write!(f, "in {side}, {reason}")?,
            (reason, None) => write!(f, "{reason}")?,
        }
        if !self.numbers.is_empty() {
            write!(f, ": {}", self.numbers.join(", "))?;
        }
        match &self.message {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl Verdict {
    /// Returns the outcome and reason of each answer.
    pub fn answers(&self) -> impl Iterator<Item = (Outcome, Option<Reason>)> {
        let comparisons = self.comparisons.iter().map(|c| (c.verdict, c.reason));
        let runs = self.runs.iter().map(|r| (r.verdict, r.reason));
        let baseline = self.baseline.iter().map(|b| (b.verdict, b.reason));
        let limits = self.limits.iter().map(|l| (l.verdict, l.reason));
        comparisons.chain(runs).chain(baseline).chain(limits)
    }
}

impl File for Verdict {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = true;
}

impl JudgedNumber {
    /// Returns whether the outcome is inconclusive.
    #[must_use]
    pub fn is_inconclusive(&self) -> bool {
        self.verdict == Outcome::Inconclusive
    }

    /// Replaces the outcome by an inconclusive one.
    pub fn mark_inconclusive(&mut self, reason: Option<Reason>) {
        (self.verdict, self.reason) = (Outcome::Inconclusive, reason);
    }
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    const JUDGED: &str = r#""verdict":"pass","reason":null,"ratio":1.02,"ratio_interval":[0.98,1.05],"tolerated_ratio":1.2"#;

    fn percentile() -> String {
        format!(
            r#"{{"name":"p50",{JUDGED},"a_ns":1,"b_ns":2,"pairs":50,"pairs_to_decide":null,"lift":null}}"#
        )
    }

    fn run_metric() -> String {
        format!(
            r#"{{"name":"wall","unit":"ns","higher_is_better":false,{JUDGED},"a":1.5,"b":2.5,"pairs":50,"pairs_to_decide":90,"values":[[1.5,2.5]]}}"#
        )
    }

    fn baseline_metric() -> String {
        let lift = r#"{"a":1.0,"b":1.1,"both":1.0,"late_anyway":1.2}"#;
        format!(
            r#"{{"name":"p99",{JUDGED},"stored_ns":null,"now_ns":1,"control_ns":2,"pairs":50,"lift":{lift}}}"#
        )
    }

    #[track_caller]
    fn assert_reproduced<M: Serialize + DeserializeOwned>(text: &str) {
        let metric: M = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&metric).unwrap(), text);
    }

    #[test]
    fn metrics_are_written_as_read() {
        assert_reproduced::<Metric>(&percentile());
        assert_reproduced::<RunMetric>(&run_metric());
        assert_reproduced::<BaselineMetric>(&baseline_metric());
    }

    #[track_caller]
    fn assert_rejected<M: DeserializeOwned>(text: &str) {
        let error = |text: &str| serde_json::from_str::<M>(text).err().unwrap().to_string();
        let unknown = error(&text.replacen("{\"name\"", "{\"colour\":1,\"name\"", 1));
        assert!(unknown.contains("unknown field `colour`"), "{unknown}");
        let missing = error(&text.replacen(r#""tolerated_ratio":1.2,"#, "", 1));
        assert!(missing.contains("missing field `tolerated_ratio`"), "{missing}");
        let mistyped = error(&text.replacen(r#""verdict":"pass""#, r#""verdict":7"#, 1));
        assert!(mistyped.contains("Outcome") || mistyped.contains("invalid type"), "{mistyped}");
    }

    #[test]
    fn invalid_metrics_are_rejected() {
        assert_rejected::<Metric>(&percentile());
        assert_rejected::<RunMetric>(&run_metric());
        assert_rejected::<BaselineMetric>(&baseline_metric());
    }
}
