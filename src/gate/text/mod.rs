//! Describes a verdict for people and for CI systems.
//!
//! Each answer of a verdict becomes a [`Section`] ([`answers`]), and a file for each format renders
//! sections. The formatting of numbers and outcomes is shared here.

pub mod answers;
pub mod formats;
mod junit;
mod metric_row;
mod sarif;

use std::fmt::Write;

use cli::time::{format_percent, format_small_percent, format_time};
use cli::words::{pluralize, prefix_or_empty};
use files::gate::verdict::{Side, StallLift, Verdict};
use files::report::Warning;
use jitterstat::gate::Sides;
use jitterstat::gate::decision::{Outcome, Reason};
use render::report::fitness;

/// A verdict with a section for each of its answers.
pub struct RenderedVerdict {
    pub verdict: Verdict,
    pub sections: Vec<Section>,
}

/// A remark on a verdict, for formats that have a place for them apart from the numbers.
struct Remark {
    /// Level of a notification in SARIF.
    level: &'static str,
    text: String,
}

/// Returns why the gate ended before it had answered its questions, if it did.
fn early_end(verdict: &Verdict) -> Option<&str> {
    verdict.partial.then(|| verdict.failure.as_deref().unwrap_or("interrupted"))
}

/// Returns the reason of an inconclusive verdict that no row shows, as of a screen whose time was
/// over before the first pair.
fn reason_without_row(verdict: &Verdict, sections: &[Section]) -> Option<Reason> {
    let is_open = |section: &Section| {
        section.rows.iter().any(|row| row.verdict == Outcome::Inconclusive)
            || section.unjudged.iter().any(|row| !row.is_allowed)
    };
    let is_shown = early_end(verdict).is_some() || sections.iter().any(is_open);
    verdict.reason.filter(|_| !is_shown)
}

/// Returns the remarks on a verdict: the fitness of the machine, and the warnings.
fn remarks(verdict: &Verdict) -> Vec<Remark> {
    let mut remarks = Vec::new();
    if let Some(text) = fitness::sentence(verdict.fitness.as_ref()) {
        remarks.push(Remark { level: "note", text });
    }
    for Warning { message, hint, .. } in &verdict.warnings {
        remarks.push(Remark { level: "warning", text: format!("{message} {hint}") });
    }
    remarks
}

/// The answer to one question, for every format.
pub struct Section {
    /// The judged sides or subject.
    pub title: Title,
    /// Heading of the first column, which contains the names of the judged numbers.
    pub key_heading: &'static str,
    /// Headings of the columns between the key column and the verdict.
    pub headings: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// Notes that explain surprising rows.
    pub notes: Vec<String>,
    /// How the answer was measured. Empty if nothing was measured for it.
    pub measured: String,
    /// Conditions of each side during the measurement.
    pub sides: Vec<Side>,
    pub lifts: Vec<PercentileLift>,
    /// Benchmarks that ran and were not judged.
    pub unjudged: Vec<UnjudgedRow>,
    /// How an inconclusive answer could be decided.
    pub advice: Option<String>,
}

/// A benchmark that ran and was not judged.
pub struct UnjudgedRow {
    pub name: String,
    /// Class of the test case in JUnit.
    pub class: String,
    pub explanation: String,
    pub is_allowed: bool,
}

impl UnjudgedRow {
    /// Returns the explanation, and whether the user allows it.
    fn reason(&self) -> String {
        let allowed = if self.is_allowed { " (allowed)" } else { "" };
        format!("{}{allowed}", self.explanation)
    }
}

/// The title of a section.
pub enum Title {
    Sides(Sides<String>),
    Subject(String),
}

/// By how much stalls raise a percentile on each side, as ratios.
pub struct PercentileLift {
    pub name: String,
    pub ratios: Sides<f64>,
}

impl PercentileLift {
    fn new(name: &str, lift: &StallLift) -> Self {
        Self { name: name.to_owned(), ratios: Sides { base: lift.a, candidate: lift.b } }
    }
}

/// A judged number.
pub struct Row {
    pub name: String,
    pub cells: Vec<String>,
    pub verdict: Outcome,
    /// Class of the test case in JUnit.
    pub class: String,
    /// Name of the test case in JUnit.
    pub case: String,
    pub explanation: Explanation,
}

/// The deciding rule of a row.
pub enum Explanation {
    /// A sentence with the numbers.
    Sentence(String),
    /// The reason for an inconclusive outcome, if no numbers explain it better.
    Reason(Reason),
}

impl Row {
    /// Describes the deciding rule and its numbers.
    fn detail(&self) -> String {
        match &self.explanation {
            Explanation::Sentence(sentence) => sentence.clone(),
            Explanation::Reason(reason) => format!("{}: {reason}", self.name),
        }
    }
}

impl Title {
    /// Names the two sides A and B.
    pub fn from_sides(a: &str, b: &str) -> Self {
        Self::Sides(Sides { base: a.to_owned(), candidate: b.to_owned() })
    }
}

impl Section {
    /// Describes the conditions of each side: the lateness of all ticks, and the effect of stalls.
    fn side_summaries(&self) -> impl Iterator<Item = String> + '_ {
        self.sides.iter().enumerate().map(|(index, side)| self.side_summary(index, side))
    }

    fn side_summary(&self, index: usize, side: &Side) -> String {
        let mut text = format!("{}: ", side.side.to_uppercase());
        if let Some(lateness_ns) = &side.lateness_ns {
            let percentiles = [
                ("p50", lateness_ns.p50),
                ("p99", lateness_ns.p99),
                ("p99.9", lateness_ns.p99_9),
                ("max", Some(lateness_ns.max)),
            ];
            let known = percentiles.into_iter().filter_map(|(name, ns)| Some((name, ns?)));
            let values: Vec<String> =
                known.map(|(name, ns)| format!("{name} {}", format_time(ns))).collect();
            let _ = write!(text, "{} of all ticks; ", values.join(", "));
        }
        let same_stall = format_percent(side.same_stall_share);
        let _ = write!(text, "{same_stall} of the ticks belong to a stall already counted");
        for (i, lift) in self.lifts.iter().enumerate() {
            let raise = if i == 0 { "; stalls raise" } else { " and" };
            let ratio = if index == 0 { lift.ratios.base } else { lift.ratios.candidate };
            let _ = write!(text, "{raise} {} by {}", lift.name, format_percent(ratio - 1.0));
        }
        if let Some(steal) = side.steal_share {
            let _ = write!(text, "; the hypervisor took {} of the CPU time", format_percent(steal));
        }
        text
    }
}

/// Formats a value, or "none" if it is missing.
pub fn format_option<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or("none".to_owned(), format)
}

pub fn format_range(low: f64, high: f64, format: impl Fn(f64) -> String) -> String {
    format!("{} to {}", format(low), format(high))
}

/// Formats a ratio as a change in percent.
pub fn format_change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// Formats a tolerated ratio as a change in percent.
pub fn format_tolerance(ratio: f64) -> String {
    let rise = ratio - 1.0;
    let sign = if rise < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format_small_percent(rise.abs()))
}

/// Formats a confidence in per cent, without a trailing zero.
pub fn format_confidence(confidence: f64) -> String {
    let percent = format!("{:.1}", confidence * 100.0);
    percent.trim_end_matches(".0").to_owned()
}

/// Returns the word for an outcome, which differs for a screen.
pub fn outcome_word(outcome: Outcome, is_screen: bool) -> String {
    match outcome {
        Outcome::Regressed if is_screen => "clearly worse".to_owned(),
        Outcome::Inconclusive if is_screen => "look closer".to_owned(),
        outcome => outcome.to_string(),
    }
}

/// Describes the verdict in a sentence: the rows that decided it, and advice if it is open.
pub fn verdict_sentence(verdict: &Verdict, sections: &[Section]) -> String {
    let word = outcome_word(verdict.verdict, verdict.screen);
    let mut text = format!("verdict: {word}");
    if let Some(reason @ (Reason::Interrupted | Reason::NotMeasured)) = verdict.reason {
        let _ = write!(text, ": {}", reason);
    } else if verdict.reason == Some(Reason::NotJudged) {
        text += &unjudged_names(sections);
    } else if is_same_program(verdict) && sections.iter().all(|section| section.rows.is_empty()) {
        text += ": both sides are the same program";
    } else {
        text += &deciding_rows(verdict.verdict, sections);
    }
    let advice = advice(sections);
    if verdict.verdict == Outcome::Inconclusive && (verdict.screen || advice.is_empty()) {
        let is_unjudged = verdict.reason == Some(Reason::NotJudged);
        let is_unclear = verdict.screen && !is_unjudged;
        let reason = if is_unclear { Some(Reason::NotClear) } else { verdict.reason };
        text += &prefix_or_empty("; ", reason.map(reason_remedy));
    }
    text + &advice
}

/// Returns whether nothing was measured because both sides are the same program.
fn is_same_program(verdict: &Verdict) -> bool {
    verdict.runs.as_ref().is_some_and(|runs| runs.same_program.is_some())
}

/// Names the benchmarks that were not judged, the first ones if they are many. Without any that was
/// judged, their reasons are those of the verdict.
fn unjudged_names(sections: &[Section]) -> String {
    const MAX_NAMES: usize = 4;
    let rows = sections.iter().flat_map(|section| &section.unjudged);
    if sections.iter().all(|section| section.rows.is_empty()) {
        let reason = |row: &UnjudgedRow| format!("{} ({})", row.name, row.explanation);
        let reasons: Vec<String> = rows.map(reason).collect();
        let others = if reasons.len() > MAX_NAMES { " and others" } else { "" };
        let listed = reasons[..reasons.len().min(MAX_NAMES)].join(", ");
        return format!(": nothing could be judged: {listed}{others}");
    }
    let names: Vec<&str> =
        rows.filter(|row| !row.is_allowed).map(|row| row.name.as_str()).collect();
    let count = pluralize(names.len() as u64, "benchmark");
    let listed = names[..names.len().min(MAX_NAMES)].join(", ");
    let others = if names.len() > MAX_NAMES { " and others" } else { "" };
    format!(": {count} not judged: {listed}{others}")
}

/// Returns the remedy for a reason, for an inconclusive answer without advice of its own.
pub fn reason_remedy(reason: Reason) -> &'static str {
    match reason {
        Reason::TooNoisy | Reason::StallDominated => {
            "a quieter machine would decide it, or a wider --tolerance"
        }
        Reason::NotClear => "gate without --screen to decide it",
        Reason::TooFewRounds => "more rounds would decide it: a longer --max-time or more --ticks",
        Reason::TooFewTicks => "more ticks would decide it: longer rounds with --round-ticks",
        Reason::Interrupted => "run it again, and to its end",
        Reason::EarlyTicks => "check how the program computes its deadlines",
        Reason::LostTicks => "compare tickers that treat missed ticks alike",
        Reason::UnequalStalls => "find their cause with `osjitter run --why`, or limit missed",
        Reason::LeftOverProcesses => "let the program wait for its processes",
        Reason::NotMeasured => "remove the cause of the failure, and run it again",
        Reason::NotJudged => "name those that may remain so with --allow-unjudged",
    }
}

/// Describes the rows that contributed to the outcome. A suite of benchmarks can have hundreds, so
/// rows with a common reason are counted, and of others the first ones are described.
fn deciding_rows(outcome: Outcome, sections: &[Section]) -> String {
    const MAX_ROWS: usize = 4;
    let rows = sections.iter().flat_map(|section| &section.rows);
    let mut rows: Vec<&Row> = rows.filter(|row| is_deciding(row, outcome)).collect();
    rows.sort_by_key(|row| row.verdict != outcome);
    if rows.len() > MAX_ROWS
        && let Some(reason) = common_reason(&rows)
    {
        return format!(": {}: {reason}", pluralize(rows.len() as u64, "number"));
    }
    let mut text = String::new();
    for (i, row) in rows.iter().take(MAX_ROWS).enumerate() {
        let separator = if i == 0 { ": " } else { "; " };
        let class = if sections.len() > 1 { format!("{} ", row.class) } else { String::new() };
        let _ = write!(text, "{separator}{class}{}", row.detail());
    }
    if let Some(others) = rows.len().checked_sub(MAX_ROWS).filter(|others| *others > 0) {
        let _ = write!(text, "; and {others} more");
    }
    text
}

/// Returns the reason of all rows, if they have the same.
fn common_reason(rows: &[&Row]) -> Option<Reason> {
    let reason = |row: &&Row| match row.explanation {
        Explanation::Reason(reason) => Some(reason),
        Explanation::Sentence(_) => None,
    };
    let first = reason(rows.first()?)?;
    rows.iter().all(|row| reason(row) == Some(first)).then_some(first)
}

/// Returns whether a row contributed to the outcome of the gate.
fn is_deciding(row: &Row, outcome: Outcome) -> bool {
    match outcome {
        Outcome::Improved => true,
        Outcome::Pass => matches!(row.verdict, Outcome::Pass | Outcome::Improved),
        outcome => row.verdict == outcome,
    }
}

fn advice(sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let Some(advice) = &section.advice else { continue };
        let class = section.rows.first().filter(|_| sections.len() > 1);
        let class = class.map_or(String::new(), |row| format!("{}: ", row.class));
        let _ = write!(text, "; {class}{advice}");
    }
    text
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    fn section(rows: impl Iterator<Item = (Outcome, Explanation)>) -> Section {
        let row = |(i, (verdict, explanation)): (usize, (Outcome, Explanation))| Row {
            name: format!("bench-{i}"),
            cells: Vec::new(),
            verdict,
            class: "suite".to_owned(),
            case: String::new(),
            explanation,
        };
        Section {
            title: Title::from_sides("old", "new"),
            key_heading: "metric",
            headings: Vec::new(),
            rows: rows.enumerate().map(row).collect(),
            measured: String::new(),
            sides: Vec::new(),
            notes: Vec::new(),
            lifts: Vec::new(),
            unjudged: Vec::new(),
            advice: None,
        }
    }

    #[test]
    fn inconclusive_verdict_has_a_remedy() {
        let json = include_str!("../../../tests/fixtures/verdict.json");
        let mut verdict = Verdict::from_json(json).expect("a verdict");
        verdict.verdict = Outcome::Inconclusive;
        let remedies = [
            (Reason::TooNoisy, "a wider --tolerance"),
            (Reason::StallDominated, "a quieter machine"),
            (Reason::NotClear, "gate without --screen to decide it"),
            (Reason::TooFewRounds, "--max-time"),
            (Reason::TooFewTicks, "--round-ticks"),
            (Reason::Interrupted, "run it again"),
            (Reason::EarlyTicks, "computes its deadlines"),
            (Reason::LostTicks, "treat missed ticks alike"),
            (Reason::UnequalStalls, "osjitter run --why"),
            (Reason::LeftOverProcesses, "wait for its processes"),
            (Reason::NotMeasured, "the cause of the failure"),
            (Reason::NotJudged, "--allow-unjudged"),
        ];
        for (reason, remedy) in remedies {
            verdict.reason = Some(reason);
            let text = verdict_sentence(&verdict, &[]);
            let (_, found) = text.split_once("; ").expect("a remedy");
            assert!(found.contains(remedy), "{reason:?}: {text}");
        }
        let advised =
            Section { advice: Some("--max-pairs 90".to_owned()), ..section([].into_iter()) };
        let text = verdict_sentence(&verdict, &[advised]);
        assert!(text.ends_with("; --max-pairs 90") && !text.contains("cause"), "{text}");
    }

    #[test]
    fn confidence_has_few_digits() {
        assert_eq!([0.95, 0.995].map(format_confidence), ["95", "99.5"]);
    }

    #[test]
    fn large_suites_fit_on_a_screen() {
        let text = |regressed: usize| {
            let rows = (0..14).map(|i| {
                let verdict = if i < regressed { Outcome::Regressed } else { Outcome::Pass };
                (verdict, Explanation::Sentence(format!("bench-{i} changed")))
            });
            let verdict = Verdict::from_json(include_str!("../../../tests/fixtures/verdict.json"));
            let (verdict, sections) = (verdict.expect("a verdict"), vec![section(rows)]);
            let rendered = RenderedVerdict { verdict, sections };
            let document = formats::document(&rendered, formats::MAX_LISTED_PASSES);
            render::document::terminal::render(&document, 80)
        };
        let slower = text(1);
        assert!(slower.contains("13 other numbers passed"), "{slower}");
        assert!(
            slower.contains("\nbench-0  regressed\n") && !slower.contains("  pass\n"),
            "{slower}"
        );
        assert!(slower.lines().count() <= 24, "{slower}");
        let unchanged = text(0);
        assert!(unchanged.contains("14 numbers passed"), "{unchanged}");
        assert!(!unchanged.contains("  pass\n"), "{unchanged}");
        assert!(text(6).contains("\nbench-13  pass\n"), "{}", text(6));
    }

    #[test]
    fn large_suites_are_summarised() {
        let too_few = || Explanation::Reason(Reason::TooFewRounds);
        let rows = |count| section((0..count).map(|_| (Outcome::Inconclusive, too_few())));
        let text = deciding_rows(Outcome::Inconclusive, &[rows(20)]);
        assert_eq!(text, ": 20 numbers: there are too few rounds for an interval");
        let text = deciding_rows(Outcome::Inconclusive, &[rows(1)]);
        assert_eq!(text, ": bench-0: there are too few rounds for an interval");
        let changes = (0..20).map(|i| {
            let verdict = if i == 9 { Outcome::Improved } else { Outcome::Pass };
            (verdict, Explanation::Sentence(format!("bench-{i} +{i} %")))
        });
        let section = section(changes);
        let text = deciding_rows(Outcome::Improved, std::slice::from_ref(&section));
        assert!(text.starts_with(": bench-9 +9 %; bench-0 +0 %; "), "{text}");
        assert!(text.ends_with("bench-2 +2 %; and 16 more"), "{text}");
        let text = deciding_rows(Outcome::Pass, &[section]);
        assert!(text.contains("bench-3 +3 %; and 16 more"), "{text}");
    }
}
