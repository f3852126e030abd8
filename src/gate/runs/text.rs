//! Whole runs of two programs, judged, for people.

use cli::amount::format_amount;
use cli::time::format_duration;
use files::gate::verdict::{RunMetric, RunsVerdict, Verdict};
use jitterstat::gate::decision::Outcome;

use crate::gate::reading::Judged;
use crate::gate::text::{Section, code, counted};

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    verdict.runs.iter().map(section).collect()
}

fn section(of: &RunsVerdict) -> Section {
    let RunsVerdict { a, b, pairs, .. } = of;
    let seconds = of.duration_ns as f64 / 1e9;
    let row = |m: &RunMetric| {
        Judged::from(m).row(
            b,
            &m.name,
            vec![format_amount(m.a, &m.unit), format_amount(m.b, &m.unit)],
        )
    };
    let open = of.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive);
    let to_decide = open.filter_map(|m| m.pairs_to_decide).max();
    let advice = to_decide.filter(|_| of.verdict == Outcome::Inconclusive && *pairs > 0).map(|n| {
        let takes = seconds / *pairs as f64 * n as f64;
        let takes = format_duration(takes);
        format!("about {n} pairs of runs ({takes}) would probably decide {b} against {a}: --max-pairs {n}")
    });
    Section {
        title: [format!("A  {a}\nB  {b}"), format!("A: {}, B: {}", code(a), code(b))],
        of: ("Metric", code),
        headings: vec!["median A", "median B", "change", "interval", "tolerated"],
        rows: of.metrics.iter().map(row).collect(),
        measured: format!(
            "{pairs} pairs of runs, {}, {seconds:.1}s",
            counted(of.looks_taken, "look")
        ),
        sides: Vec::new(),
        notes: Vec::new(),
        lifts: Vec::new(),
        advice,
    }
}
