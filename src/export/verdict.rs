//! The verdict of a gate: for people, for a step summary, for a CI that collects test results.

use std::fmt::Write;

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::{Comparison, Metric, Mode, Verdict};

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Improved => "pass (improved)",
        Outcome::Regressed => "regressed",
        Outcome::LimitBroken => "limit broken",
        Outcome::Inconclusive => "inconclusive",
    }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::TooNoisy => "the rounds differ too much among themselves",
        Reason::StallDominated => "the machine's own stalls are larger than what is measured",
        Reason::TooFewRounds => "there are too few rounds for any interval",
        Reason::TooFewTicks => "there are too few ticks for that percentile",
        Reason::Interrupted => "it was interrupted",
        Reason::NotMeasured => "something could not be measured",
    }
}

fn micros(ns: i64) -> String {
    format!("{:.1} us", ns as f64 / 1e3)
}

fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

fn interval(metric: &Metric) -> String {
    metric.ratio_interval.map_or("none".to_owned(), |[low, high]| format!("{} to {}", change(low), change(high)))
}

fn estimate(metric: &Metric) -> String {
    metric.ratio.map_or("none".to_owned(), change)
}

/// The outcome in a sentence, and what would decide it if it is open.
pub fn sentence(verdict: &Verdict) -> String {
    let mut text = format!("verdict: {}", word(verdict.verdict));
    if let Some(failure) = &verdict.failure {
        let _ = write!(text, "; it could not go on: {failure}");
    } else if let Some(reason) = verdict.reason {
        let _ = write!(text, ": {}", why(reason));
    }
    for comparison in &verdict.comparisons {
        if let Some((pairs, seconds)) = to_decide(comparison) {
            let _ = write!(
                text,
                "; about {pairs} pairs of rounds ({seconds:.0}s) would probably decide {} against {}: --max-rounds \
                 {pairs}",
                comparison.b, comparison.a
            );
        }
    }
    text
}

/// Pairs that would probably decide a comparison that is open, and the seconds they take.
fn to_decide(comparison: &Comparison) -> Option<(u64, f64)> {
    let open = comparison.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive);
    let pairs = open.filter_map(|m| m.pairs_to_decide).max().filter(|_| comparison.pairs > 0)?;
    Some((pairs, comparison.duration_ns as f64 / 1e9 / comparison.pairs as f64 * pairs as f64))
}

fn how(mode: Mode) -> &'static str {
    match mode {
        Mode::Interleaved => "in turn",
        Mode::Duet => "at once",
    }
}

/// For the terminal.
pub fn table(verdict: &Verdict) -> String {
    let mut text = String::new();
    for comparison in &verdict.comparisons {
        comparison_table(&mut text, comparison);
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "warning: {} {}", warning.message, warning.hint);
    }
    let _ = writeln!(text, "{}", sentence(verdict));
    text
}

fn comparison_table(text: &mut String, comparison: &Comparison) {
    let _ = writeln!(text, "A  {}\nB  {}\n", comparison.a, comparison.b);
    let _ = writeln!(
        text,
        "{:<5} {:>12} {:>12} {:>10}  {:<24} {:>9}  verdict",
        "", "A", "B", "change", "interval", "tolerated"
    );
    for m in &comparison.metrics {
        let (a, b) = (micros(m.a_ns), micros(m.b_ns));
        let (found, between, tolerated) = (estimate(m), interval(m), change(m.tolerated_ratio));
        let _ = writeln!(
            text,
            "{:<5} {a:>12} {b:>12} {found:>10}  {between:<24} {tolerated:>9}  {}",
            m.name,
            word(m.verdict)
        );
    }
    let (pairs, looks, seconds) = (comparison.pairs, comparison.looks_taken, comparison.duration_ns as f64 / 1e9);
    let _ = write!(text, "\n{pairs} pairs of rounds {}, {looks} looks, {seconds:.1}s", how(comparison.mode));
    for side in &comparison.sides {
        let name = side.side.to_uppercase();
        let _ = write!(text, "; {name}: {:.1} % of ticks inside a stall", side.same_stall_share * 100.0);
        if let Some(steal) = side.steal_share {
            let _ = write!(text, ", {:.1} % of all CPUs stolen", steal * 100.0);
        }
    }
    text.push_str("\n\n");
}

/// For a step summary or a comment.
pub fn markdown(verdict: &Verdict) -> String {
    let mut text = format!("### Jitter gate: {}\n\n", word(verdict.verdict));
    for comparison in &verdict.comparisons {
        comparison_markdown(&mut text, comparison);
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "> {} {}\n", warning.message, warning.hint);
    }
    let _ = writeln!(text, "{}", sentence(verdict));
    text
}

fn comparison_markdown(text: &mut String, comparison: &Comparison) {
    let _ = writeln!(text, "A: {}, B: {}\n", code(&comparison.a), code(&comparison.b));
    text.push_str("| Percentile | A | B | Change | Interval | Tolerated | Verdict |\n|---|---|---|---|---|---|---|\n");
    for m in &comparison.metrics {
        let (a, b, tolerated) = (micros(m.a_ns), micros(m.b_ns), change(m.tolerated_ratio));
        let _ = writeln!(
            text,
            "| {} | {a} | {b} | {} | {} | {tolerated} | {} |",
            m.name,
            estimate(m),
            interval(m),
            word(m.verdict)
        );
    }
    text.push('\n');
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// One question of a gate, as a test case.
struct Case {
    class: String,
    name: String,
    verdict: Outcome,
    detail: String,
}

fn cases(verdict: &Verdict) -> Vec<Case> {
    let of = |c: &Comparison, m: &Metric| Case {
        class: c.b.clone(),
        name: m.name.clone(),
        verdict: m.verdict,
        detail: format!("{} against {}, interval {}", estimate(m), c.a, interval(m)),
    };
    verdict.comparisons.iter().flat_map(|c| c.metrics.iter().map(move |m| of(c, m))).collect()
}

/// For a CI that collects test results: one test case a question; open ones are skipped, not passed.
pub fn junit(verdict: &Verdict) -> String {
    let cases = cases(verdict);
    let count = |wanted: &[Outcome]| cases.iter().filter(|c| wanted.contains(&c.verdict)).count();
    let errors = usize::from(verdict.failure.is_some());
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuite name=\"osjitter gate\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"{errors}\" time=\"{:.3}\">",
        cases.len() + errors,
        count(&[Outcome::Regressed, Outcome::LimitBroken]),
        count(&[Outcome::Inconclusive]),
        verdict.duration_ns as f64 / 1e9
    );
    for case in &cases {
        let (class, name, detail) = (escape(&case.class), escape(&case.name), escape(&case.detail));
        let open = format!("  <testcase classname=\"osjitter.gate.{class}\" name=\"{name}\"");
        let _ = match case.verdict {
            Outcome::Pass | Outcome::Improved => writeln!(text, "{open}/>"),
            Outcome::Regressed | Outcome::LimitBroken => {
                writeln!(text, "{open}><failure message=\"{detail}\"/></testcase>")
            }
            Outcome::Inconclusive => writeln!(text, "{open}><skipped message=\"{detail}\"/></testcase>"),
        };
    }
    if let Some(failure) = &verdict.failure {
        let case = "  <testcase classname=\"osjitter.gate\" name=\"measuring\"";
        let _ = writeln!(text, "{case}><error message=\"{}\"/></testcase>", escape(failure));
    }
    text.push_str("</testsuite>\n");
    text
}

/// For an attribute of XML, which has no place for most control characters.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}
