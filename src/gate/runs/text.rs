//! The sections of a verdict about whole runs.

use cli::amount::format_amount;
use cli::time::format_duration;
use cli::words::pluralize;
use files::gate::verdict::{RunMetric, RunsVerdict, Verdict};
use jitterstat::gate::decision::Outcome;

use crate::gate::explain::MetricView;
use crate::gate::text::{Section, Title};

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.runs.iter().map(section).collect()
}

fn section(verdict: &RunsVerdict) -> Section {
    let RunsVerdict { a, b, pairs, .. } = verdict;
    let seconds = verdict.duration_ns as f64 / 1e9;
    let looks = pluralize(verdict.looks_taken, "look");
    let row = |metric: &RunMetric| {
        let medians = [metric.a, metric.b].map(|value| format_amount(value, &metric.unit));
        let view = MetricView { name: &metric.name, judged: &metric.judged, lift: None };
        view.row(b, &metric.name, medians.into())
    };
    Section {
        title: Title::from_sides(a, b),
        key_heading: "metric",
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows: verdict.metrics.iter().map(row).collect(),
        measured: format!("{pairs} pairs of runs, {looks}, {seconds:.1}s"),
        sides: Vec::new(),
        notes: Vec::new(),
        lifts: Vec::new(),
        advice: advice(verdict),
    }
}

/// Suggests how many pairs would decide an inconclusive verdict.
fn advice(verdict: &RunsVerdict) -> Option<String> {
    if verdict.verdict != Outcome::Inconclusive || verdict.pairs == 0 {
        return None;
    }
    let open = verdict.metrics.iter().filter(|metric| metric.judged.is_inconclusive());
    let pairs = open.filter_map(|metric| metric.pairs_to_decide).max()?;
    let pair_seconds = verdict.duration_ns as f64 / 1e9 / verdict.pairs as f64;
    let duration = format_duration(pair_seconds * pairs as f64);
    let RunsVerdict { a, b, .. } = verdict;
    Some(format!(
        "about {pairs} pairs of runs ({duration}) would probably decide {b} against {a}: --max-pairs {pairs}"
    ))
}
