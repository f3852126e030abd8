//! The file `osjitter.verdict/1`: what a gate decided, from what, and how sure it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::look::{Judged, Look, Outcome, Reason};
use super::round::{Pair, RoundValue, tail_name};
use crate::file::File;
use crate::model::model;
use crate::report::{Distribution, Host, Tool, Warning};

/// Value of [`Verdict::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.verdict/1";

model! {
    /// One gate: everything it was asked to judge.
    pub struct Verdict {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time until the verdict.
        pub duration_ns: u64,
        /// It was interrupted: the verdict is of what there was, and never better than inconclusive.
        pub partial: bool,
        /// The worst verdict of all that was judged.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// Sides that were measured in turn, or at once; they share alpha.
        pub comparisons: Vec<PairVerdict>,
        /// A subject against stored sessions.
        pub baseline: Option<AgainstBaseline>,
        /// Limits.
        pub limits: Vec<LimitCheck>,
        /// Why it could not go on, if it could not.
        pub failure: Option<String>,
        /// The machine.
        pub host: Host,
        /// What a reader should know before trusting it.
        pub warnings: Vec<Warning>,
    }

    /// Two sides, judged by pairs of rounds.
    pub struct PairVerdict {
        /// The side compared against.
        pub a: String,
        /// The side that is judged.
        pub b: String,
        /// In turn, or at once.
        pub mode: Mode,
        /// Wall time of this comparison.
        pub duration_ns: u64,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// How it was measured.
        pub plan: GateDesign,
        /// Pairs measured.
        pub pairs: u64,
        /// How many looks were taken.
        pub looks_taken: u64,
        /// One entry for each percentile that was judged.
        pub metrics: Vec<Metric>,
        /// Advice, not part of the decision.
        pub sides: Vec<Side>,
        /// The values that were judged, in the order they were measured.
        pub rounds: Vec<PairRecord>,
    }

    /// A new session of a subject beside its control, judged against stored ones.
    pub struct AgainstBaseline {
        /// The file of the stored sessions.
        pub file: String,
        /// The subject.
        pub subject: String,
        /// What ran beside it, then and now.
        pub control: String,
        /// Stored sessions.
        pub sessions: u64,
        /// Wall time of the new session.
        pub duration_ns: u64,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// How the new session was measured.
        pub plan: GateDesign,
        /// Pairs measured.
        pub pairs: u64,
        /// One entry for each percentile that was judged.
        pub metrics: Vec<BaselineMetric>,
        /// Advice, not part of the decision: `a` is the control.
        pub sides: Vec<Side>,
        /// The values that were judged, in the order they were measured; `a` is the control.
        pub rounds: Vec<PairRecord>,
    }

    /// One percentile against the stored sessions.
    pub struct BaselineMetric {
        /// `p50`, `p99`, `p95` or `p90`.
        pub name: String,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// The subject over its control now, as a multiple of the same in the stored sessions; null with too few pairs.
        pub ratio: Option<f64>,
        /// Interval of that ratio.
        pub ratio_interval: Option<[f64; 2]>,
        /// The ratio up to which it is tolerated.
        pub tolerated_ratio: f64,
        /// Median round of the subject in the stored sessions; null where there are none.
        pub stored_ns: Option<i64>,
        /// Median round of the subject now.
        pub now_ns: i64,
        /// Median round of the control now.
        pub control_ns: i64,
        /// Pairs the new session's interval is of.
        pub pairs: u64,
    }

    /// A limit, held against what was measured.
    pub struct LimitCheck {
        /// The subject.
        pub subject: String,
        /// What is limited: a path of a summary, for example `lateness_ns.p99`.
        pub path: String,
        /// Unit of the three values below: `ns`, `%` (of the ticks), `ppb` or `per tick`.
        pub unit: String,
        /// The limit.
        pub limit: f64,
        /// Over all rounds; null where the ticks do not carry it.
        pub value: Option<f64>,
        /// 99 % interval over rounds; null below 10 rounds.
        pub interval: Option<[f64; 2]>,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// Rounds it is of.
        pub rounds: u64,
        /// Ticks it is of.
        pub ticks: u64,
        /// Ticks that would probably decide it.
        pub ticks_to_decide: Option<u64>,
    }

    /// How a gate was measured.
    pub struct GateDesign {
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
        /// `p50`, and `p99`, `p95` or `p90`: what a round of so many ticks carries.
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
        /// Every tick of its rounds, stalls and all: what a user of it meets. Null without a tick.
        pub lateness_ns: Option<Distribution>,
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

/// How the two sides of a pair ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// One directly after the other, in an order drawn for each pair.
    Interleaved,
    /// At once on one CPU, half a period apart, which of them first drawn for each pair.
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

impl Verdict {
    /// Outcome and reason of everything that was judged.
    pub fn answers(&self) -> impl Iterator<Item = (Outcome, Option<Reason>)> {
        let of_pairs = self.comparisons.iter().map(|c| (c.verdict, c.reason));
        let of_baseline = self.baseline.iter().map(|b| (b.verdict, b.reason));
        of_pairs.chain(of_baseline).chain(self.limits.iter().map(|l| (l.verdict, l.reason)))
    }
}

impl File for Verdict {
    const SCHEMA: &'static str = SCHEMA;
    const PRETTY: bool = true;
}

/// The metrics of a look.
#[must_use]
pub fn metrics(look: &Look, tail_quantile: f64) -> Vec<Metric> {
    vec![Metric::of("p50", &look.median), Metric::of(tail_name(tail_quantile), &look.tail)]
}

impl Metric {
    fn of(name: &str, judged: &Judged) -> Self {
        Self {
            name: name.to_owned(),
            verdict: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio(),
            ratio_interval: judged.ratio_interval(),
            tolerated_ratio: judged.tolerated_ratio(),
            a_ns: judged.a_ns.round() as i64,
            b_ns: judged.b_ns.round() as i64,
            pairs: judged.pairs as u64,
            pairs_to_decide: judged.pairs_to_decide,
        }
    }
}

impl BaselineMetric {
    pub(super) fn of(name: &str, judged: &Judged, control_ns: f64) -> Self {
        Self {
            name: name.to_owned(),
            verdict: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio(),
            ratio_interval: judged.ratio_interval(),
            tolerated_ratio: judged.tolerated_ratio(),
            stored_ns: judged.a_ns.is_finite().then(|| judged.a_ns.round() as i64),
            now_ns: judged.b_ns.round() as i64,
            control_ns: control_ns.round() as i64,
            pairs: judged.pairs as u64,
        }
    }
}

/// The pairs as they are stored.
#[must_use]
pub fn records(pairs: &[Pair]) -> Vec<PairRecord> {
    let ns = |ln: f64| ln.exp().round() as i64;
    let both = |v: &RoundValue| [ns(v.ln_median), ns(v.ln_tail)];
    pairs.iter().map(|p| PairRecord { a_ns: both(&p.a), b_ns: both(&p.b) }).collect()
}
