//! The file `osjitter.verdict/1`: what a gate decided, from what, and how sure it is.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::file::File;
use crate::model::model;
use crate::report::{Distribution, Fitness, Host, Tool, Warning};
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, Look, Outcome, PercentileVerdict, Reason, Rules};
use jitterstat::gate::round::{Late, Pair, RoundValue, tail_name};

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
        /// It was interrupted: the verdict is of what there was, and never better than
        /// inconclusive.
        pub partial: bool,
        /// The worst verdict of all that was judged.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// Sides that were measured in turn, or at once; they share alpha.
        pub comparisons: Vec<PairVerdict>,
        /// Whole runs of two programs; null where none was asked for.
        pub runs: Option<RunsVerdict>,
        /// A subject against stored sessions.
        pub baseline: Option<BaselineVerdict>,
        /// Limits.
        pub limits: Vec<LimitCheck>,
        /// Why it could not go on, if it could not.
        pub failure: Option<String>,
        /// Whether the machine was quiet enough to believe it; null where nothing was measured to
        /// judge by, and in files from before it was.
        #[serde(default)]
        pub fitness: Option<Fitness>,
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

    /// Two programs, judged by numbers of their whole runs, in pairs.
    pub struct RunsVerdict {
        /// The program compared against.
        pub a: String,
        /// The program that is judged.
        pub b: String,
        /// Wall time of this comparison, with what was dropped.
        pub duration_ns: u64,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// Runs of each side before the first pair, which were dropped.
        pub warmup_runs: u64,
        /// What ran before each run, outside of the time.
        pub prepare: Option<String>,
        /// Seed of the order.
        pub seed: u64,
        /// The CPU that both sides were bound to.
        pub cpu: Option<usize>,
        /// Share of false alarms by design, over all metrics.
        pub alpha: f64,
        /// The numbers of pairs at which it may look.
        pub looks: Vec<u64>,
        /// Pairs measured.
        pub pairs: u64,
        /// How many looks were taken.
        pub looks_taken: u64,
        /// One entry for each metric; they share alpha.
        pub metrics: Vec<RunMetric>,
    }

    /// One number of whole runs, judged.
    pub struct RunMetric {
        /// `wall`, `cpu`, `instructions`, `max-rss`, or what the program calls it, with the
        /// percentile of its samples.
        pub name: String,
        /// `ns`, `bytes`, or what the program states.
        pub unit: String,
        /// More is better.
        pub higher_is_better: bool,
        /// What it comes to.
        pub verdict: Outcome,
        /// Why, if inconclusive.
        pub reason: Option<Reason>,
        /// B as a multiple of A; null with too few pairs.
        pub ratio: Option<f64>,
        /// Interval of that ratio; null where the pairs give none.
        pub ratio_interval: Option<[f64; 2]>,
        /// The ratio up to which, or down to which, it is tolerated.
        pub tolerated_ratio: f64,
        /// Median run of side A.
        pub a: f64,
        /// Median run of side B.
        pub b: f64,
        /// Pairs the interval is of.
        pub pairs: u64,
        /// Pairs that would probably decide it.
        pub pairs_to_decide: Option<u64>,
        /// The values of A and B that were judged, pair by pair, in the order they were measured.
        pub values: Vec<[f64; 2]>,
    }

    /// A new session of a subject beside its control, judged against stored ones.
    #[cfg_attr(feature = "schema", schemars(rename = "AgainstBaseline"))]
    pub struct BaselineVerdict {
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
        /// The subject over its control now, as a multiple of the same in the stored sessions; null
        /// with too few pairs.
        pub ratio: Option<f64>,
        /// Interval of that ratio.
        pub ratio_interval: Option<[f64; 2]>,
        /// The ratio up to which it is tolerated.
        pub tolerated_ratio: f64,
        /// Median round of the subject in the stored sessions, in the pairs that it is judged by;
        /// null where there are none.
        pub stored_ns: Option<i64>,
        /// Median round of the subject now, in those pairs.
        pub now_ns: i64,
        /// Median round of the control now, in those pairs.
        pub control_ns: i64,
        /// Pairs the new session's interval is of.
        pub pairs: u64,
        /// By how much stalls raise it in the new session; null in files from before that was
        /// known.
        pub lift: Option<StallLift>,
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
        /// Nominal period; null in files from before that was kept.
        pub period_ns: Option<u64>,
        /// The report it was held against; null where it was measured for it.
        pub report: Option<String>,
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
        /// What it tolerates; null in files from before that was kept.
        pub tolerance: Option<Tolerance>,
    }

    /// What a gate tolerates.
    pub struct Tolerance {
        /// Relative rise of the median.
        pub median: f64,
        /// Relative rise of the tail percentile.
        pub tail: f64,
        /// A rise by less than this is tolerated however large it is relatively.
        pub floor_ns: f64,
    }

    /// By how much stalls raise a percentile in the pairs that it is judged by, as ratios: medians
    /// over them.
    pub struct StallLift {
        /// Of side A; beside a control, of that.
        pub a: f64,
        /// Of side B.
        pub b: f64,
        /// Of the side of a pair that is lifted less. A pass is clear of the tolerance by as much,
        /// and from half of the tolerance on there is none.
        pub both: f64,
        /// Of the side that is lifted more, counting only rounds that would be late without stalls,
        /// too. From the tolerance on there is no pass.
        pub late_anyway: f64,
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
        /// Median round of side A in the pairs that the interval is of.
        pub a_ns: i64,
        /// Median round of side B in them.
        pub b_ns: i64,
        /// Pairs the interval is of.
        pub pairs: u64,
        /// Pairs that would probably decide it.
        pub pairs_to_decide: Option<u64>,
        /// By how much stalls raise it; null in files from before that was known.
        pub lift: Option<StallLift>,
    }

    /// What a side met while it was measured.
    pub struct Side {
        /// Which: `a` or `b`.
        pub side: String,
        /// Share of its ticks that belonged to a stall already counted.
        pub same_stall_share: f64,
        /// Every tick of its rounds, stalls and all: what a user of it meets. Null without a tick.
        pub lateness_ns: Option<Distribution>,
        /// Share of the time of all CPUs that the hypervisor took during its rounds, where the
        /// platform tells.
        pub steal_share: Option<f64>,
    }

    /// The values of one pair, in nanoseconds.
    pub struct PairRecord {
        /// Median and tail percentile of side A.
        pub a_ns: [i64; 2],
        /// Median and tail percentile of side B.
        pub b_ns: [i64; 2],
        /// The same of the own parts of side A's ticks, without what stalls made of them; null in
        /// files from before those were known.
        pub a_own_ns: Option<[i64; 2]>,
        /// The same of side B.
        pub b_own_ns: Option<[i64; 2]>,
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
        let of_runs = self.runs.iter().map(|r| (r.verdict, r.reason));
        of_pairs
            .chain(of_runs)
            .chain(of_baseline)
            .chain(self.limits.iter().map(|l| (l.verdict, l.reason)))
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
    fn of(name: &str, judged: &PercentileVerdict) -> Self {
        Self {
            name: name.to_owned(),
            verdict: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio(),
            ratio_interval: judged.ratio_interval().map(Into::into),
            tolerated_ratio: judged.tolerated_ratio(),
            a_ns: judged.sides_ns.base.round() as i64,
            b_ns: judged.sides_ns.candidate.round() as i64,
            pairs: judged.pairs as u64,
            pairs_to_decide: judged.pairs_to_decide,
            lift: judged.lift.map(StallLift::of),
        }
    }
}

impl BaselineMetric {
    pub(super) fn of(name: &str, judged: &PercentileVerdict, control_ns: f64) -> Self {
        let Sides { base: stored_ns, candidate: now_ns } = judged.sides_ns;
        Self {
            name: name.to_owned(),
            verdict: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio(),
            ratio_interval: judged.ratio_interval().map(Into::into),
            tolerated_ratio: judged.tolerated_ratio(),
            stored_ns: stored_ns.is_finite().then(|| stored_ns.round() as i64),
            now_ns: now_ns.round() as i64,
            control_ns: control_ns.round() as i64,
            pairs: judged.pairs as u64,
            lift: judged.lift.map(StallLift::of),
        }
    }
}

/// The pairs as they are stored.
#[must_use]
pub fn records(pairs: &[Pair]) -> Vec<PairRecord> {
    pairs.iter().map(PairRecord::from_pair).collect()
}

impl PairRecord {
    fn from_pair(pair: &Pair) -> Self {
        let ns = |value: RoundValue| [value.median.ns(), value.tail.ns()];
        let unstalled_ns =
            |value: RoundValue| [value.median.unstalled_ns(), value.tail.unstalled_ns()];
        Self {
            a_ns: ns(pair.a),
            b_ns: ns(pair.b),
            a_own_ns: Some(unstalled_ns(pair.a)),
            b_own_ns: Some(unstalled_ns(pair.b)),
        }
    }

    /// The pair as it was judged; `None` if the values without stalls were not stored.
    fn to_pair(&self) -> Option<Pair> {
        let a = self.a_ns.into_iter().zip(self.a_own_ns?);
        let b = self.b_ns.into_iter().zip(self.b_own_ns?);
        Some(Pair { a: round_value(a)?, b: round_value(b)? })
    }
}

/// The value of a round from its median and its tail, each in nanoseconds with and without stalls.
fn round_value(mut percentiles: impl Iterator<Item = (i64, i64)>) -> Option<RoundValue> {
    let mut late = || percentiles.next().map(|(ns, unstalled_ns)| Late::from_ns(ns, unstalled_ns));
    Some(RoundValue { median: late()?, tail: late()? })
}

impl PairVerdict {
    /// Its last look, taken again at what it holds; `None` if it was written before it held enough,
    /// or took none.
    #[must_use]
    pub fn repeat_last_look(&self) -> Option<Look> {
        let tolerance = self.plan.tolerance.as_ref()?;
        let looks: Vec<usize> =
            self.plan.looks.iter().filter_map(|&n| usize::try_from(n).ok()).collect();
        let taken = usize::try_from(self.looks_taken.checked_sub(1)?).ok()?;
        let judged = self.rounds.get(..*looks.get(taken)?)?;
        let pairs: Vec<Pair> = judged.iter().map(PairRecord::to_pair).collect::<Option<_>>()?;
        let last = taken + 1 == looks.len();
        let rules = Rules {
            alpha: self.plan.alpha,
            looks,
            period_ns: self.plan.period_ns,
            tolerance_median: tolerance.median,
            tolerance_tail: tolerance.tail,
            floor_ns: tolerance.floor_ns,
        };
        Some(decision::look(&pairs, &rules, last))
    }
}

impl From<&Rules> for Tolerance {
    fn from(rules: &Rules) -> Self {
        Self {
            median: rules.tolerance_median,
            tail: rules.tolerance_tail,
            floor_ns: rules.floor_ns,
        }
    }
}

impl StallLift {
    fn of(lift: Lift) -> Self {
        let Sides { base: a, candidate: b } = lift.sides.map(f64::exp);
        Self { a, b, both: lift.both.exp(), late_anyway: lift.late_anyway.exp() }
    }
}
