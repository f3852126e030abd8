//! The goals of a search: those of the command line, and those for which tickers promise a limit.

use cli::exit::{self, usage};
use files::find::{Goal, MAX_GOALS};

use crate::find::text;

/// The goals for which limits are found at one period.
const PROMISED_GOALS: [&str; 6] = ["p50", "p90", "p99", "p99.9", "missed", "cpu"];

/// Returns the numbers that tickers promise. The missed ticks are a rate if the stalls are limited.
pub fn promised_goals(is_rate: bool) -> Vec<Goal> {
    let mut goals = Vec::new();
    for mut goal in PROMISED_GOALS.iter().filter_map(|name| Goal::new(name, None)) {
        goal.rate = is_rate && goal.name == "missed";
        goals.push(goal);
    }
    goals
}

/// Checks that all goals can hold together, and that none implies another.
pub fn validate_goals(goals: &[Goal]) -> exit::Result<Vec<Goal>> {
    if goals.len() > MAX_GOALS {
        return Err(usage!("{} goals: expected at most {MAX_GOALS}", goals.len()));
    }
    for (i, goal) in goals.iter().enumerate() {
        if goals[..i].iter().any(|other| other.name == goal.name) {
            return Err(usage!("--goal {} is given twice; give only the stricter one", goal.name));
        }
        if let Some(stricter) = goals.iter().find(|other| implies(other, goal)) {
            let (weak, strong) = (text::goal(goal), text::goal(stricter));
            return Err(usage!("{strong} implies {weak}; remove one of them"));
        }
    }
    Ok(goals.to_vec())
}

/// Returns whether a goal always holds if `stricter` does: its percentile is lower and its limit at
/// least as high.
fn implies(stricter: &Goal, goal: &Goal) -> bool {
    let is_lower = goal.quantile().is_some() && goal.quantile() < stricter.quantile();
    is_lower && stricter.limit <= goal.limit
}
