//! Applies the rules to stored series with one number per run, without knowledge of later runs
//! where a rule needs none.
//!
//! A rule marks runs at which it sees a change. Neighbouring marks are one alarm, which is placed at
//! the first of them, or at the largest change if the rule compares windows of runs.

use jitterstat::gate::Sides;
use jitterstat::gate::decision::{ALPHA, Outcome, median};
use jitterstat::gate::metric::MetricRule;
use serde_json::{Value, json};

use crate::rules::{interquartile, percentage, rank_sum_z, t_test, z_score};

/// Number of earlier runs from which a limit is computed, as in Bencher.
const HISTORY: usize = 64;
/// Number of earlier runs without which no limit is computed.
const MIN_HISTORY: usize = 5;
/// Change that osjitter's gate tolerates.
const TOLERANCE: f64 = 0.05;

struct Rule {
    name: &'static str,
    kind: Kind,
}

enum Kind {
    /// Compares a run with a limit that is computed from earlier runs.
    Limit(fn(&[f64]) -> f64),
    /// Compares this number of runs before a run with as many from this run on.
    Windows(usize, fn(&[f64], &[f64]) -> bool),
}

const RULES: [Rule; 8] = [
    Rule { name: "the previous run, 110 %", kind: Kind::Limit(|runs| last(runs) * 1.10) },
    Rule { name: "the previous run, 200 %", kind: Kind::Limit(|runs| last(runs) * 2.00) },
    Rule { name: "percentage of the mean, 10 %", kind: Kind::Limit(percentage) },
    Rule { name: "z-score, 0.977", kind: Kind::Limit(z_score) },
    Rule { name: "t-test, 0.99", kind: Kind::Limit(t_test) },
    Rule { name: "interquartile range, 1.5", kind: Kind::Limit(interquartile) },
    Rule {
        name: "Mann-Whitney of 10 runs, 0.05",
        kind: Kind::Windows(10, |old, new| rank_sum_z(old, new).abs() > 1.96),
    },
    Rule { name: "osjitter gate, 30 runs, 5 %", kind: Kind::Windows(30, gate) },
];

/// Applies each rule to each series, and returns the alarms of both directions.
///
/// # Errors
///
/// Returns an error if the series are not a list of objects with a name and values above zero.
pub(crate) fn judge(series: &Value) -> Result<Vec<Value>, String> {
    let mut table = Vec::new();
    for series in series.as_array().ok_or("expected a list of series")? {
        let name = series["name"].as_str().ok_or("expected a name")?;
        let values: Option<Vec<f64>> =
            series["values"].as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
        let values = values.filter(|all| all.iter().all(|value| *value > 0.0));
        let values = values.ok_or_else(|| format!("{name}: expected values above zero"))?;
        for rule in &RULES {
            let (alarms, later_runs) = rule.apply(&values);
            table.push(json!({
                "series": name, "rule": rule.name, "alarms": alarms, "later_runs": later_runs,
            }));
        }
    }
    Ok(table)
}

impl Rule {
    /// Returns the runs of the alarms, and how many later runs an alarm needs.
    fn apply(&self, values: &[f64]) -> (Vec<usize>, usize) {
        match self.kind {
            Kind::Limit(limit) => (limit_alarms(values, limit), 0),
            Kind::Windows(length, differ) => (window_alarms(values, length, differ), length - 1),
        }
    }
}

/// Returns the alarms of a series: the groups of neighbouring runs that are marked.
fn group_marked(runs: usize, is_marked: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let marked: Vec<usize> = (MIN_HISTORY..runs).filter(|&run| is_marked(run)).collect();
    marked.chunk_by(|a, b| a + 1 == *b).map(<[usize]>::to_vec).collect()
}

/// Falls are rises of the reciprocals.
fn limit_alarms(values: &[f64], limit: fn(&[f64]) -> f64) -> Vec<usize> {
    let reciprocals: Vec<f64> = values.iter().map(|value| 1.0 / value).collect();
    let exceeds =
        |values: &[f64], run: usize| values[run] > limit(&values[run.saturating_sub(HISTORY)..run]);
    let is_marked = |run| exceeds(values, run) || exceeds(&reciprocals, run);
    group_marked(values.len(), is_marked).iter().map(|alarm| alarm[0]).collect()
}

fn window_alarms(values: &[f64], length: usize, differ: fn(&[f64], &[f64]) -> bool) -> Vec<usize> {
    let windows = |run: usize| {
        let from = run.saturating_sub(length);
        (&values[from..run], &values[run..(run + length).min(values.len())])
    };
    let is_marked = |run| {
        let (old, new) = windows(run);
        // The gate compares pairs, so near the start both windows are as short as the history.
        let both = old.len().min(new.len());
        differ(&old[old.len() - both..], &new[..both])
    };
    let change = |run: &usize| {
        let (old, new) = windows(*run);
        (median(new.iter().copied()) / median(old.iter().copied())).ln().abs()
    };
    let largest = |alarm: Vec<usize>| {
        alarm.into_iter().max_by(|a, b| change(a).total_cmp(&change(b))).unwrap_or_default()
    };
    group_marked(values.len(), is_marked).into_iter().map(largest).collect()
}

/// Compares runs in pairs. The verdict is worse or better; few runs are inconclusive.
fn gate(old: &[f64], new: &[f64]) -> bool {
    let rule = MetricRule { higher_is_better: false, tolerance: TOLERANCE, floor: 0.0 };
    let pairs: Vec<Sides<f64>> =
        old.iter().zip(new).map(|(&base, &candidate)| Sides { base, candidate }).collect();
    let swapped: Vec<Sides<f64>> = pairs.iter().map(|pair| pair.swapped()).collect();
    [pairs, swapped]
        .iter()
        .any(|pairs| rule.judge(pairs, ALPHA / 2.0, true).outcome == Outcome::Regressed)
}

fn last(runs: &[f64]) -> f64 {
    runs.last().copied().unwrap_or(f64::INFINITY)
}
