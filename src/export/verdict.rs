//! The verdict of a gate: for people, for a step summary, for a CI that collects test results.

use std::fmt::Write;

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::{Metric, Verdict};

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Improved => "pass (improved)",
        Outcome::Regressed => "regressed",
        Outcome::Inconclusive => "inconclusive",
    }
}

fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::TooNoisy => "the rounds differ too much among themselves",
        Reason::StallDominated => "the machine's own stalls are larger than what is measured",
        Reason::TooFewRounds => "there are too few rounds for any interval",
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
    } else if verdict.partial {
        text.push_str("; it was interrupted");
    }
    if let Some(reason) = verdict.reason {
        let _ = write!(text, ": {}", why(reason));
    }
    let open = verdict.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive);
    if let Some(pairs) = open.filter_map(|m| m.pairs_to_decide).max().filter(|_| verdict.pairs > 0) {
        let seconds = verdict.duration_ns as f64 / 1e9 / verdict.pairs as f64 * pairs as f64;
        let _ = write!(text, "; about {pairs} pairs ({seconds:.0}s) would probably decide it: --max-rounds {pairs}");
    }
    text
}

/// For the terminal.
pub fn table(verdict: &Verdict) -> String {
    let mut text = format!("A  {}\nB  {}\n\n", verdict.a, verdict.b);
    let _ = writeln!(
        text,
        "{:<5} {:>12} {:>12} {:>10}  {:<24} {:>9}  verdict",
        "", "A", "B", "change", "interval", "tolerated"
    );
    for m in &verdict.metrics {
        let (a, b) = (micros(m.a_ns), micros(m.b_ns));
        let (found, between, tolerated) = (estimate(m), interval(m), change(m.tolerated_ratio));
        let _ = writeln!(
            text,
            "{:<5} {a:>12} {b:>12} {found:>10}  {between:<24} {tolerated:>9}  {}",
            m.name,
            word(m.verdict)
        );
    }
    let seconds = verdict.duration_ns as f64 / 1e9;
    let _ = write!(text, "\n{} pairs of rounds, {} looks, {seconds:.1}s", verdict.pairs, verdict.looks_taken);
    for side in &verdict.sides {
        let name = side.side.to_uppercase();
        let _ = write!(text, "; {name}: {:.1} % of ticks inside a stall", side.same_stall_share * 100.0);
        if let Some(steal) = side.steal_share {
            let _ = write!(text, ", {:.1} % of all CPUs stolen", steal * 100.0);
        }
    }
    let _ = writeln!(text, "\n{}", sentence(verdict));
    text
}

/// For a step summary or a comment.
pub fn markdown(verdict: &Verdict) -> String {
    let code = |text: &str| format!("`{}`", text.replace('`', "'"));
    let mut text = format!("### Jitter gate: {}\n\n", word(verdict.verdict));
    let _ = writeln!(text, "A: {}, B: {}\n", code(&verdict.a), code(&verdict.b));
    text.push_str("| Percentile | A | B | Change | Interval | Tolerated | Verdict |\n|---|---|---|---|---|---|---|\n");
    for m in &verdict.metrics {
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
    let _ = writeln!(text, "\n{}", sentence(verdict));
    text
}

/// For a CI that collects test results: one test case a percentile; open ones are skipped, not passed.
pub fn junit(verdict: &Verdict) -> String {
    let count = |outcome| verdict.metrics.iter().filter(|m| m.verdict == outcome).count();
    let errors = usize::from(verdict.failure.is_some());
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        text,
        "<testsuite name=\"osjitter gate\" tests=\"{}\" failures=\"{}\" skipped=\"{}\" errors=\"{errors}\" time=\"{:.3}\">",
        verdict.metrics.len() + errors,
        count(Outcome::Regressed),
        count(Outcome::Inconclusive),
        verdict.duration_ns as f64 / 1e9
    );
    for m in &verdict.metrics {
        let detail = escape(&format!("{}, interval {}", estimate(m), interval(m)));
        let case = format!("  <testcase classname=\"osjitter.gate\" name=\"{}\"", escape(&m.name));
        let _ = match m.verdict {
            Outcome::Pass | Outcome::Improved => writeln!(text, "{case}/>"),
            Outcome::Regressed => writeln!(text, "{case}><failure message=\"{detail}\"/></testcase>"),
            Outcome::Inconclusive => writeln!(text, "{case}><skipped message=\"{detail}\"/></testcase>"),
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
