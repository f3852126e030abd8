//! The report of `osjitter bench clock` for pull requests and job summaries.

use crate::bench::clock::model::{Bench, COSTS, ORDER};
use crate::render::markdown::{cell, table};

/// The advice first, then the figures it follows from.
pub fn markdown(bench: &Bench) -> String {
    let lines = |lines: Vec<String>| lines.iter().map(|line| format!("- {}\n", cell(line))).collect::<String>();
    format!(
        "### Clocks\n\n{}\n{COSTS}:\n\n{}\n{ORDER}:\n\n{}\n{}",
        lines(bench.advice()),
        table(&bench.cost_rows(), 1),
        table(&bench.order_rows(), 1),
        lines(bench.facts())
    )
}
