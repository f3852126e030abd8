//! The conversion of decisions to the numbers of a verdict.

use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Lift, Look, NumberVerdict, Rules};
use jitterstat::gate::round::{Pair, RoundValue, tail_name};

use super::{BaselineMetric, JudgedNumber, Metric, PairRecord, StallLift, Tolerance};

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
