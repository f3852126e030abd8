//! The conversion of decisions to the numbers of a verdict, and of stored pairs to a look.

use jitterstat::gate::Sides;
use jitterstat::gate::decision::{self, Lift, Look, NumberVerdict, Rules};
use jitterstat::gate::round::{Late, Pair, RoundValue, tail_name};

use super::{BaselineMetric, JudgedNumber, Metric, PairRecord, PairVerdict, StallLift, Tolerance};

/// Returns the metrics of a look.
#[must_use]
pub fn metrics(look: &Look, tail_quantile: f64) -> Vec<Metric> {
    vec![Metric::new("p50", &look.median), Metric::new(tail_name(tail_quantile), &look.tail)]
}

impl From<&NumberVerdict> for JudgedNumber {
    fn from(judged: &NumberVerdict) -> Self {
        Self {
            verdict: judged.outcome,
            reason: judged.reason,
            ratio: judged.ratio(),
            ratio_interval: judged.ratio_interval().map(Into::into),
            tolerated_ratio: judged.tolerated_ratio(),
        }
    }
}

impl Metric {
    fn new(name: &str, judged: &NumberVerdict) -> Self {
        Self {
            name: name.to_owned(),
            judged: judged.into(),
            a_ns: judged.sides.base.round() as i64,
            b_ns: judged.sides.candidate.round() as i64,
            pairs: judged.pairs as u64,
            pairs_to_decide: judged.pairs_to_decide,
            lift: judged.lift.map(StallLift::from),
        }
    }
}

impl BaselineMetric {
    pub(in crate::gate) fn new(name: &str, judged: &NumberVerdict, control_ns: f64) -> Self {
        let Sides { base: stored_ns, candidate: now_ns } = judged.sides;
        Self {
            name: name.to_owned(),
            judged: judged.into(),
            stored_ns: stored_ns.is_finite().then(|| stored_ns.round() as i64),
            now_ns: now_ns.round() as i64,
            control_ns: control_ns.round() as i64,
            pairs: judged.pairs as u64,
            lift: judged.lift.map(StallLift::from),
        }
    }
}

/// Returns the pairs as they are stored.
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
            a_ns: ns(pair.base),
            b_ns: ns(pair.candidate),
            a_own_ns: Some(unstalled_ns(pair.base)),
            b_own_ns: Some(unstalled_ns(pair.candidate)),
        }
    }

    /// The pair as it was judged; `None` if the values without stalls were not stored.
    fn to_pair(&self) -> Option<Pair> {
        let a = self.a_ns.into_iter().zip(self.a_own_ns?);
        let b = self.b_ns.into_iter().zip(self.b_own_ns?);
        Some(Pair { base: round_value(a)?, candidate: round_value(b)? })
    }
}

/// The value of a round from its median and its tail, each in nanoseconds with and without stalls.
fn round_value(mut percentiles: impl Iterator<Item = (i64, i64)>) -> Option<RoundValue> {
    let mut late = || percentiles.next().map(|(ns, unstalled_ns)| Late::from_ns(ns, unstalled_ns));
    Some(RoundValue { median: late()?, tail: late()? })
}

impl PairVerdict {
    /// Repeats the last look from the stored values; `None` for older files without enough values,
    /// or without a look.
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

impl From<Lift> for StallLift {
    fn from(lift: Lift) -> Self {
        let Sides { base: a, candidate: b } = lift.sides.map(f64::exp);
        Self { a, b, both: lift.both.exp(), late_anyway: lift.late_anyway.exp() }
    }
}
