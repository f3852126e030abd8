//! What a gate found: for people, for a step summary, for a CI that collects test results.

use std::fmt::Write;

use jitterstat::file::File as _;
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::{Side, Verdict};

use crate::render::formats::{Format, Made, Offer};
use crate::text::align::align;

/// A verdict with the answers to its questions.
pub type Worded = (Verdict, Vec<Section>);

/// The formats of a verdict.
pub const FORMATS: [Offer<Worded>; 4] = [
    (Format::Table, |(verdict, sections)| Ok(Made::Text(table(verdict, sections)))),
    (Format::Json, |(verdict, _)| Ok(Made::Text(verdict.to_json()))),
    (Format::Markdown, |(verdict, sections)| Ok(Made::Text(markdown(verdict, sections)))),
    (Format::Junit, |(verdict, sections)| Ok(Made::Text(junit(verdict, sections)))),
];

/// The answer to one question, in every format.
pub struct Section {
    /// What was judged: for the terminal, and in Markdown.
    pub title: [String; 2],
    /// What stands in the first column, and how Markdown shows it.
    pub of: (&'static str, fn(&str) -> String),
    /// Of the columns between the name and the verdict.
    pub headings: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// How it was measured, and what each side met; empty where there are no sides.
    pub measured: String,
    pub sides: Vec<Side>,
    /// What would decide it, if it is open.
    pub advice: Option<String>,
}

pub struct Row {
    pub name: String,
    pub cells: Vec<String>,
    pub verdict: Outcome,
    /// Class, name and message as a test case.
    pub class: String,
    pub case: String,
    pub detail: String,
}

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
            "both sides are so late that machine stalls alone could explain the difference; compare shows what there is"
        }
        Reason::TooFewRounds => "there are too few rounds for any interval",
        Reason::TooFewTicks => "there are too few ticks for that percentile",
        Reason::Interrupted => "it was interrupted",
        Reason::NotMeasured => "something could not be measured",
    }
}

pub fn micros(ns: i64) -> String {
    format!("{:.1} us", ns as f64 / 1e3)
}

/// A cell of something that may not be known.
pub fn or_none<T>(value: Option<T>, shown: impl FnOnce(T) -> String) -> String {
    value.map_or("none".to_owned(), shown)
}

pub fn between([low, high]: [f64; 2], shown: impl Fn(f64) -> String) -> String {
    format!("{} to {}", shown(low), shown(high))
}

/// A ratio as a rise.
pub fn change(ratio: f64) -> String {
    format!("{:+.1} %", (ratio - 1.0) * 100.0)
}

/// What is found of a judged percentile: its change, the interval of that, and what is tolerated.
pub fn changes(ratio: Option<f64>, interval: Option<[f64; 2]>, tolerated: f64) -> [String; 3] {
    [or_none(ratio, change), or_none(interval, |both| between(both, change)), change(tolerated)]
}

pub fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A name in Markdown.
pub fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// The outcome in a sentence, and what would decide it if it is open.
pub fn sentence(verdict: &Verdict, sections: &[Section]) -> String {
    let mut text = format!("verdict: {}", word(verdict.verdict));
    if let Some(failure) = &verdict.failure {
        let _ = write!(text, "; it could not go on: {failure}");
    } else if let Some(reason) = verdict.reason {
        let _ = write!(text, ": {}", why(reason));
    }
    for advice in sections.iter().filter_map(|s| s.advice.as_ref()) {
        let _ = write!(text, "; {advice}");
    }
    text
}

pub fn table(verdict: &Verdict, sections: &[Section]) -> String {
    let mut text = String::new();
    for section in sections {
        let _ = writeln!(text, "{}\n\n{}", section.title[0], rows(&section.headings, &section.rows));
        if !section.sides.is_empty() {
            let _ = writeln!(text, "{}", section.measured);
            section.sides.iter().for_each(|side| text.push_str(&met("", side)));
            text.push('\n');
        }
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "warning: {} {}", warning.message, warning.hint);
    }
    let _ = writeln!(text, "{}", sentence(verdict, sections));
    text
}

/// Judged numbers, aligned.
pub fn rows(headings: &[&str], rows: &[Row]) -> String {
    let row = |name: &str, cells: Vec<String>, verdict: &str| [vec![name.into()], cells, vec![verdict.into()]].concat();
    let heading = row("", headings.iter().map(|&h| h.to_owned()).collect(), "verdict");
    let judged = rows.iter().map(|r| row(&r.name, r.cells.clone(), word(r.verdict)));
    align(&std::iter::once(heading).chain(judged).collect::<Vec<_>>(), 1)
}

/// Every tick of a side, stalls and all.
fn met(bullet: &str, side: &Side) -> String {
    let mut text = format!("{bullet}{}: ", side.side.to_uppercase());
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
    text + "\n"
}

/// For a step summary or a comment.
pub fn markdown(verdict: &Verdict, sections: &[Section]) -> String {
    let mut text = format!("### Jitter gate: {}\n\n", word(verdict.verdict));
    for section in sections {
        let (of, name) = section.of;
        let line = |name: &str, cells: &[String], verdict: &str| {
            let cells: String = cells.iter().map(|cell| format!(" {cell} |")).collect();
            format!("| {name} |{cells} {verdict} |\n")
        };
        let headings: Vec<String> = section.headings.iter().map(|h| capital(h)).collect();
        let _ = write!(text, "{}\n\n{}", section.title[1], line(of, &headings, "Verdict"));
        let _ = writeln!(text, "|{}", "---|".repeat(headings.len() + 2));
        for row in &section.rows {
            text.push_str(&line(&name(&row.name), &row.cells, word(row.verdict)));
        }
        text.push('\n');
        if !section.sides.is_empty() {
            section.sides.iter().for_each(|side| text.push_str(&met("- ", side)));
            text.push('\n');
        }
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "> {} {}\n", warning.message, warning.hint);
    }
    let _ = writeln!(text, "{}", sentence(verdict, sections));
    text
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or(String::new(), |first| first.to_uppercase().chain(rest).collect())
}

/// For a CI that collects test results: one test case a number; open ones are skipped, not passed.
pub fn junit(verdict: &Verdict, sections: &[Section]) -> String {
    let cases: Vec<&Row> = sections.iter().flat_map(|s| &s.rows).collect();
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
    for case in cases {
        let (class, name, detail) = (escape(&case.class), escape(&case.case), escape(&case.detail));
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
