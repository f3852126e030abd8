//! Judges recorded pairs of rounds by the present rules of the gate.
//!
//! `gate-replay FILE` reads a list of gates and prints their verdicts as JSON;
//! `scripts/studies/gate-replay.py` calls it. A gate of lateness has `p50` and `p99`, for each pair
//! the lateness of the base and of the candidate, and both without stalls; a gate of whole runs has
//! `wall`, for each pair the times of both sides.

use jitterstat::gate::Sides;
use jitterstat::gate::decision::{
    self, ALPHA, DUET_LOOKS, FLOOR_NS, NumberVerdict, Outcome, Rules,
};
use jitterstat::gate::metric::{MetricRule, alpha_share, run_looks};
use jitterstat::gate::round::{Late, Pair, RoundValue};
use serde_json::{Value, json};

/// Default tolerance of a wall time, and maximum number of its pairs.
const WALL_TOLERANCE: f64 = 0.05;
const WALL_PAIRS: usize = 400;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = std::env::args().nth(1).ok_or("usage: gate-replay FILE")?;
    let gates: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let verdicts: Option<Vec<Value>> = gates.iter().map(judge).collect();
    println!("{}", Value::Array(verdicts.ok_or("expected gates with their pairs")?));
    Ok(())
}

/// Judges a gate; `None` if it lacks a field.
fn judge(gate: &Value) -> Option<Value> {
    if gate["mode"] == "runs" { judge_runs(gate) } else { judge_rounds(gate) }
}

fn judge_rounds(gate: &Value) -> Option<Value> {
    let rules = Rules::new(gate["period_ns"].as_u64()?);
    let rules = Rules {
        tolerance_median: gate["tolerance_p50"].as_f64().unwrap_or(rules.tolerance_median),
        looks: if gate["mode"] == "duet" { DUET_LOOKS.to_vec() } else { rules.looks },
        ..rules
    };
    let (medians, tails) = (rows::<4>(&gate["p50"])?, rows::<4>(&gate["p99"])?);
    let late = |row: [f64; 4], side: usize| Late::from_ns(row[side] as i64, row[side + 2] as i64);
    let value =
        |(median, tail), side| RoundValue { median: late(median, side), tail: late(tail, side) };
    let pairs = medians.into_iter().zip(tails);
    let pairs: Vec<Pair> =
        pairs.map(|pair| Sides { base: value(pair, 0), candidate: value(pair, 1) }).collect();
    let (look, pairs) = first_decision(&rules.looks, pairs.len(), |n, is_last| {
        let look = decision::look(&pairs[..n], &rules, is_last);
        (look.outcome, look)
    })?;
    Some(json!({
        "pairs": pairs, "verdict": look.outcome,
        "metrics": { "p50": metric(&look.median), "p99": metric(&look.tail) },
    }))
}

fn judge_runs(gate: &Value) -> Option<Value> {
    let rule = MetricRule { higher_is_better: false, tolerance: WALL_TOLERANCE, floor: FLOOR_NS };
    let values: Vec<Sides<f64>> = rows::<2>(&gate["wall"])?.into_iter().map(Sides::from).collect();
    let looks = run_looks(1, WALL_PAIRS);
    let alpha = alpha_share(ALPHA, 1, looks.len());
    let (judged, pairs) = first_decision(&looks, values.len(), |n, is_last| {
        let judged = rule.judge(&values[..n], alpha, is_last);
        (judged.outcome, judged)
    })?;
    Some(json!({
        "pairs": pairs, "verdict": judged.outcome, "metrics": { "wall": metric(&judged) },
    }))
}

/// Takes the looks that the recorded pairs suffice for, until one decides. Returns the last one with
/// its number of pairs.
fn first_decision<T>(
    looks: &[usize],
    recorded: usize,
    take: impl Fn(usize, bool) -> (Outcome, T),
) -> Option<(T, usize)> {
    let mut latest = None;
    for &pairs in looks.iter().filter(|&&pairs| pairs <= recorded) {
        let (outcome, look) = take(pairs, Some(&pairs) == looks.last());
        latest = Some((look, pairs));
        if outcome != Outcome::Inconclusive {
            break;
        }
    }
    latest
}

fn metric(judged: &NumberVerdict) -> Value {
    json!({ "verdict": judged.outcome, "reason": judged.reason, "ratio": judged.ratio() })
}

/// Reads rows of `N` numbers.
fn rows<const N: usize>(rows: &Value) -> Option<Vec<[f64; N]>> {
    let row = |row: &Value| {
        let numbers: Option<Vec<f64>> = row.as_array()?.iter().map(Value::as_f64).collect();
        numbers?.try_into().ok()
    };
    rows.as_array()?.iter().map(row).collect()
}
