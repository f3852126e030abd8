//! The file `osjitter.verdict/1`: what a gate decided, from what, and how sure it is.

use super::look::{Judged, Look, Outcome, Reason, Rules};
use super::round::Pair;
use crate::model::model;
use crate::report::{Host, Tool, Warning};

/// Value of [`Verdict::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.verdict/1";

model! {
    /// One gate.
    pub struct Verdict {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time until the verdict.
        pub duration_ns: u64,
        /// It was interrupted: the verdict is of the pairs there were, and never better than inconclusive.
        pub partial: bool,
        /// The verdict.
        pub verdict: Outcome,
        /// Why the pairs do not say, if they do not.
        pub reason: Option<Reason>,
        /// The side compared against.
        pub a: String,
        /// The side that is judged.
        pub b: String,
        /// How it was measured.
        pub plan: GatePlan,
        /// Pairs measured.
        pub pairs: u64,
        /// How many looks were taken.
        pub looks_taken: u64,
        /// One entry for each percentile that was judged.
        pub metrics: Vec<Metric>,
        /// Advice, not part of the decision.
        pub sides: Vec<Side>,
        /// Why it could not go on, if it could not.
        pub failure: Option<String>,
        /// The machine.
        pub host: Host,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
        /// The values that were judged, in the order they were measured.
        pub rounds: Vec<PairRecord>,
    }

    /// How a gate was measured.
    pub struct GatePlan {
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
        /// Share of false alarms by design.
        pub alpha: f64,
        /// The numbers of pairs at which it may look.
        pub looks: Vec<u64>,
    }

    /// One percentile, judged.
    pub struct Metric {
        /// `p50`, `p99` or `p90`.
        pub name: String,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// B as a multiple of A; null with too few pairs.
        pub ratio: Option<f64>,
        /// Interval of that ratio; null where the pairs give none.
        pub ratio_interval: Option<[f64; 2]>,
        /// The ratio up to which it is tolerated.
        pub tolerated_ratio: f64,
        /// Median round of side A.
        pub a_ns: i64,
        /// Median round of side B.
        pub b_ns: i64,
        /// Pairs the interval is of.
        pub pairs: u64,
        /// Pairs that would probably decide it.
        pub pairs_to_decide: Option<u64>,
    }

    /// What a side met while it was measured.
    pub struct Side {
        /// Which: `a` or `b`.
        pub side: String,
        /// Share of its ticks that belonged to a stall already counted.
        pub same_stall_share: f64,
        /// Share of the time of all CPUs that the hypervisor took during its rounds, where the platform tells.
        pub steal_share: Option<f64>,
    }

    /// The values of one pair, in nanoseconds.
    pub struct PairRecord {
        /// Median and tail percentile of side A.
        pub a_ns: [i64; 2],
        /// Median and tail percentile of side B.
        pub b_ns: [i64; 2],
    }
}

impl Verdict {
    /// Reads a verdict.
    ///
    /// # Errors
    /// A sentence with line and column: not JSON, another schema, or a field that is missing, unknown or mistyped.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let read: Self = serde_json::from_str(text).map_err(|e| format!("not a valid {SCHEMA}: {e}"))?;
        if read.schema == SCHEMA {
            Ok(read)
        } else {
            Err(format!("schema {:?} is not known; this version reads {SCHEMA:?}", read.schema))
        }
    }

    /// Writes a verdict; ends with a newline.
    ///
    /// # Panics
    /// Never: the model holds nothing that JSON cannot.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("the model is plain data") + "\n"
    }
}

/// The metrics of a look.
#[must_use]
pub fn metrics(look: &Look, tail_quantile: f64) -> Vec<Metric> {
    let tail_name = if tail_quantile > 0.95 { "p99" } else { "p90" };
    vec![metric("p50", &look.median), metric(tail_name, &look.tail)]
}

fn metric(name: &str, judged: &Judged) -> Metric {
    let finite = |[low, high]: [f64; 2]| (low.is_finite() && high.is_finite()).then(|| [low.exp(), high.exp()]);
    Metric {
        name: name.to_owned(),
        verdict: judged.outcome,
        reason: judged.reason,
        ratio: judged.shift.map(|s| s.estimate.exp()),
        ratio_interval: judged.shift.and_then(|s| finite([s.lower, s.upper])),
        tolerated_ratio: if judged.tolerance.is_finite() { judged.tolerance.exp() } else { 1.0 },
        a_ns: judged.a_ns.round() as i64,
        b_ns: judged.b_ns.round() as i64,
        pairs: judged.pairs as u64,
        pairs_to_decide: judged.pairs_to_decide,
    }
}

/// The pairs as they are stored.
#[must_use]
pub fn records(pairs: &[Pair]) -> Vec<PairRecord> {
    let ns = |ln: f64| ln.exp().round() as i64;
    let both = |v: &super::round::RoundValue| [ns(v.ln_median), ns(v.ln_tail)];
    pairs.iter().map(|p| PairRecord { a_ns: both(&p.a), b_ns: both(&p.b) }).collect()
}

/// The part of the plan that the rules are.
#[must_use]
pub fn looks(rules: &Rules) -> Vec<u64> {
    rules.looks.iter().map(|&n| n as u64).collect()
}
