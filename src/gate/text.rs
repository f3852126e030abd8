//! The verdict of a gate: for people, for a step summary, for a CI that collects test results.

use std::fmt::Write;

use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::{AgainstBaseline, BaselineMetric, Comparison, LimitCheck, Metric, Mode, Side, Verdict};

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Improved => "pass (improved)",
        Outcome::Regressed => "regressed",
        Outcome::LimitBroken => "limit broken",
        Outcome::Inconclusive => "inconclusive",
    }
}

/// A reason in words.
pub fn why(reason: Reason) -> &'static str {
    match reason {
        Reason::TooNoisy => "the rounds differ too much among themselves",
        Reason::StallDominated => {
            "both sides are as late as a stalled machine makes them, so that a difference could be its doing; compare tells what there is"
        }
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
    if let Some(against) = verdict.baseline.as_ref().filter(|b| b.reason == Some(Reason::TooNoisy)) {
        let (pairs, sessions, file) = (against.pairs, against.sessions, &against.file);
        let _ = write!(
            text,
            "; more than {pairs} pairs of rounds (--max-rounds) or more than {sessions} stored sessions (osjitter gate \
             baseline add {file}) would narrow it"
        );
    }
    if let Some(ticks) = verdict.limits.iter().filter_map(|l| l.ticks_to_decide).max() {
        let _ = write!(text, "; about {ticks} ticks would probably decide the limits: --ticks {ticks}");
    }
    text
}

/// Pairs that would probably decide a comparison that is open, and the seconds they take.
fn to_decide(comparison: &Comparison) -> Option<(u64, f64)> {
    let open = comparison.metrics.iter().filter(|m| m.verdict == Outcome::Inconclusive);
    let open = open.filter(|_| comparison.verdict == Outcome::Inconclusive);
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
    if let Some(against) = &verdict.baseline {
        baseline_table(&mut text, against);
    }
    limits_table(&mut text, &verdict.limits);
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
    let looks = if looks == 1 { "1 look".to_owned() } else { format!("{looks} looks") };
    let _ = write!(text, "\n{pairs} pairs of rounds {}, {looks}, {seconds:.1}s", how(comparison.mode));
    sides(text, &comparison.sides);
}

/// What each side met, and the end of the paragraph.
fn sides(text: &mut String, sides: &[Side]) {
    text.push('\n');
    for side in sides {
        let _ = writeln!(text, "{}: {}", side.side.to_uppercase(), met(side));
    }
    text.push('\n');
}

/// Every tick of a side, stalls and all.
fn met(side: &Side) -> String {
    let mut text = String::new();
    if let Some(all) = &side.lateness_ns {
        text.push_str("all ticks");
        for (name, ns) in [("p50", all.p50), ("p99", all.p99), ("p99.9", all.p99_9), ("max", Some(all.max))] {
            if let Some(ns) = ns {
                let _ = write!(text, " {name} {},", micros(ns));
            }
        }
        text.push(' ');
    }
    let _ = write!(text, "{:.1} % inside a stall already counted", side.same_stall_share * 100.0);
    if let Some(steal) = side.steal_share {
        let _ = write!(text, ", {:.1} % of all CPUs stolen", steal * 100.0);
    }
    text
}

fn baseline_table(text: &mut String, against: &AgainstBaseline) {
    let sessions =
        if against.sessions == 1 { "1 session".to_owned() } else { format!("{} sessions", against.sessions) };
    let _ = writeln!(
        text,
        "{} over its control {}, against {sessions} of {}\n",
        against.subject, against.control, against.file
    );
    text.push_str(&session(&against.metrics, &against.control));
    let _ = write!(text, "\n{} pairs of rounds in turn, {:.1}s", against.pairs, against.duration_ns as f64 / 1e9);
    sides(text, &against.sides);
}

/// The percentiles of a session, beside those that are stored.
pub fn session(metrics: &[BaselineMetric], control: &str) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{:<5} {:>12} {:>12} {:>12} {:>10}  {:<24} {:>9}  verdict",
        "", control, "stored", "now", "change", "interval", "tolerated"
    );
    for m in metrics {
        let (control, stored, now) =
            (micros(m.control_ns), m.stored_ns.map_or("none".to_owned(), micros), micros(m.now_ns));
        let (found, between, tolerated) = (baseline_estimate(m), baseline_interval(m), change(m.tolerated_ratio));
        let _ = writeln!(
            text,
            "{:<5} {control:>12} {stored:>12} {now:>12} {found:>10}  {between:<24} {tolerated:>9}  {}",
            m.name,
            word(m.verdict)
        );
    }
    text
}

fn baseline_estimate(metric: &BaselineMetric) -> String {
    metric.ratio.map_or("none".to_owned(), change)
}

fn baseline_interval(metric: &BaselineMetric) -> String {
    metric.ratio_interval.map_or("none".to_owned(), |[low, high]| format!("{} to {}", change(low), change(high)))
}

fn baseline_markdown(text: &mut String, against: &AgainstBaseline) {
    let _ = writeln!(
        text,
        "{} over its control {}, {} stored sessions\n",
        code(&against.subject),
        code(&against.control),
        against.sessions
    );
    text.push_str(
        "| Percentile | Control | Stored | Now | Change | Interval | Tolerated | Verdict |\n|---|---|---|---|---|---|---|---|\n",
    );
    for m in &against.metrics {
        let (control, stored, now) =
            (micros(m.control_ns), m.stored_ns.map_or("none".to_owned(), micros), micros(m.now_ns));
        let (found, between, tolerated) = (baseline_estimate(m), baseline_interval(m), change(m.tolerated_ratio));
        let _ = writeln!(
            text,
            "| {} | {control} | {stored} | {now} | {found} | {between} | {tolerated} | {} |",
            m.name,
            word(m.verdict)
        );
    }
    text.push('\n');
}

/// A value of a limit in the unit people use for it.
fn limited(value: f64, unit: &str) -> String {
    match unit {
        "ns" => format!("{:.1} us", value / 1e3),
        unit => format!("{value:.3} {unit}"),
    }
}

fn limit_value(limit: &LimitCheck) -> String {
    limit.value.map_or("none".to_owned(), |v| limited(v, &limit.unit))
}

fn limit_interval(limit: &LimitCheck) -> String {
    let between = |[low, high]: [f64; 2]| format!("{} to {}", limited(low, &limit.unit), limited(high, &limit.unit));
    limit.interval.map_or("none".to_owned(), between)
}

fn limits_table(text: &mut String, limits: &[LimitCheck]) {
    let Some(first) = limits.first() else { return };
    let _ = writeln!(text, "{}, {} ticks in {} rounds\n", first.subject, first.ticks, first.rounds);
    let width = limits.iter().map(|l| l.path.len()).max().unwrap_or(0);
    let _ = writeln!(text, "{:<width$} {:>14} {:>14}  {:<30}  verdict", "", "limit", "value", "99 % interval");
    for l in limits {
        let (limit, value, between) = (limited(l.limit, &l.unit), limit_value(l), limit_interval(l));
        let _ = writeln!(text, "{:<width$} {limit:>14} {value:>14}  {between:<30}  {}", l.path, word(l.verdict));
    }
    text.push('\n');
}

fn limits_markdown(text: &mut String, limits: &[LimitCheck]) {
    let Some(first) = limits.first() else { return };
    let _ = writeln!(text, "{}, {} ticks in {} rounds\n", code(&first.subject), first.ticks, first.rounds);
    text.push_str("| Limited | Limit | Value | 99 % interval | Verdict |\n|---|---|---|---|---|\n");
    for l in limits {
        let (limit, value, between) = (limited(l.limit, &l.unit), limit_value(l), limit_interval(l));
        let _ = writeln!(text, "| {} | {limit} | {value} | {between} | {} |", code(&l.path), word(l.verdict));
    }
    text.push('\n');
}

/// For a step summary or a comment.
pub fn markdown(verdict: &Verdict) -> String {
    let mut text = format!("### Jitter gate: {}\n\n", word(verdict.verdict));
    for comparison in &verdict.comparisons {
        comparison_markdown(&mut text, comparison);
    }
    if let Some(against) = &verdict.baseline {
        baseline_markdown(&mut text, against);
    }
    limits_markdown(&mut text, &verdict.limits);
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
    for side in &comparison.sides {
        let _ = writeln!(text, "- {}: {}", side.side.to_uppercase(), met(side));
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
    let of_baseline = |b: &AgainstBaseline, m: &BaselineMetric| Case {
        class: b.subject.clone(),
        name: format!("{} against stored sessions", m.name),
        verdict: m.verdict,
        detail: format!("{}, interval {}", baseline_estimate(m), baseline_interval(m)),
    };
    let of_limit = |l: &LimitCheck| Case {
        class: l.subject.clone(),
        name: format!("{} at most {}", l.path, limited(l.limit, &l.unit)),
        verdict: l.verdict,
        detail: format!("{}, interval {}", limit_value(l), limit_interval(l)),
    };
    let compared = verdict.comparisons.iter().flat_map(|c| c.metrics.iter().map(move |m| of(c, m)));
    let stored = verdict.baseline.iter().flat_map(|b| b.metrics.iter().map(move |m| of_baseline(b, m)));
    compared.chain(stored).chain(verdict.limits.iter().map(of_limit)).collect()
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
