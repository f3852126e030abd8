//! What a gate found: for people, for a step summary, for a CI that collects test results.

use std::fmt::Write;

use cli::align::fit;
use cli::markdown::format_block;
use cli::time::format_time;
use cli::wrap::wrap_paragraph;
use files::gate::verdict::{Side, Verdict};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::render::fitness;

/// A verdict with the answers to its questions.
pub type Worded = (Verdict, Vec<Section>);

/// The answer to one question, in every format.
pub struct Section {
    /// What was judged: for the terminal, and in Markdown.
    pub title: [String; 2],
    /// What stands in the first column, and how Markdown shows it.
    pub of: (&'static str, fn(&str) -> String),
    /// Of the columns between the name and the verdict.
    pub headings: Vec<&'static str>,
    pub rows: Vec<Row>,
    /// What a reader of the rows may stumble over.
    pub notes: Vec<String>,
    /// How it was measured, and what each side met; empty where there is nothing to say.
    pub measured: String,
    pub sides: Vec<Side>,
    /// By how much stalls raise each percentile, on each side, as ratios.
    pub lifts: Vec<(String, [f64; 2])>,
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
    /// What decided, with the figures.
    pub detail: String,
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

/// A ratio that is tolerated, as a rise.
pub fn tolerated(ratio: f64) -> String {
    let rise = ratio - 1.0;
    format!("{}{}", if rise < 0.0 { "-" } else { "+" }, asked(rise.abs()))
}

/// A share that a user asked for: a small one is not shown as nothing.
pub fn asked(share: f64) -> String {
    let value = share * 100.0;
    if value > 0.0 && value < 0.095 {
        let decimals = (1.0 - (value * 1.001).log10().floor()).min(9.0) as usize;
        return format!("{value:.decimals$} %");
    }
    percent(share)
}

pub fn percent(share: f64) -> String {
    let value = share * 100.0;
    if value < 1_000.0 { format!("{value:.1} %") } else { format!("{value:.0} %") }
}

pub fn counted(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// A name in Markdown.
pub fn code(text: &str) -> String {
    format!("`{}`", text.replace('`', "'"))
}

/// The outcome in a sentence: what decided, with the figures, or what would if it is open.
pub fn sentence(verdict: &Verdict, sections: &[Section]) -> String {
    let mut text = format!("verdict: {}", verdict.verdict);
    if let Some(failure) = &verdict.failure {
        let _ = write!(text, "; it could not go on: {failure}");
    } else if let Some(reason @ (Reason::Interrupted | Reason::NotMeasured)) = verdict.reason {
        let _ = write!(text, ": {reason}");
    } else {
        let decides = |row: &&Row| match verdict.verdict {
            Outcome::Improved => true,
            all => row.verdict == all || (all == Outcome::Pass && row.verdict == Outcome::Improved),
        };
        for (i, row) in sections.iter().flat_map(|s| &s.rows).filter(decides).enumerate() {
            let (mark, of) = if i == 0 { (": ", &row.class) } else { ("; ", &row.class) };
            let of = if sections.len() > 1 { format!("{of} ") } else { String::new() };
            let _ = write!(text, "{mark}{of}{}", row.detail);
        }
    }
    for section in sections {
        let of = section
            .rows
            .first()
            .filter(|_| sections.len() > 1)
            .map_or(String::new(), |row| format!("{}: ", row.class));
        section.advice.iter().for_each(|advice| text += &format!("; {of}{advice}"));
    }
    text
}

/// For a terminal of so many columns.
pub fn table(verdict: &Verdict, sections: &[Section], columns: usize) -> String {
    let paragraph = |text: &str| wrap_paragraph(text, columns);
    let mut text = String::new();
    for section in sections {
        let table = rows(&section.headings, &section.rows, columns);
        let _ = writeln!(text, "{}\n\n{table}", section.title[0]);
        section.notes.iter().for_each(|note| text += &paragraph(note));
        if !section.measured.is_empty() {
            text += &paragraph(&section.measured);
            section.met().for_each(|met| text += &paragraph(&met));
            text.push('\n');
        }
    }
    text.extend(fitness::sentence(verdict.fitness.as_ref()).map(|line| paragraph(&line)));
    for warning in &verdict.warnings {
        text += &paragraph(&format!("warning: {} {}", warning.message, warning.hint));
    }
    text + &paragraph(&sentence(verdict, sections))
}

/// Judged numbers, aligned.
pub fn rows(headings: &[&str], rows: &[Row], columns: usize) -> String {
    let row = |name: &str, cells: Vec<String>, verdict: &str| {
        [vec![name.into()], cells, vec![verdict.into()]].concat()
    };
    let heading = row("", headings.iter().map(|&h| h.to_owned()).collect(), "verdict");
    let judged = rows.iter().map(|r| row(&r.name, r.cells.clone(), &r.verdict.to_string()));
    fit(&std::iter::once(heading).chain(judged).collect::<Vec<_>>(), columns)
}

impl Section {
    /// Every tick of each side, stalls and all, and what those did.
    fn met(&self) -> impl Iterator<Item = String> + '_ {
        self.sides.iter().enumerate().map(|(i, side)| {
            let mut text = format!("{}: ", side.side.to_uppercase());
            if let Some(all) = &side.lateness_ns {
                text.push_str("all ticks");
                for (name, ns) in [
                    ("p50", all.p50),
                    ("p99", all.p99),
                    ("p99.9", all.p99_9),
                    ("max", Some(all.max)),
                ] {
                    if let Some(ns) = ns {
                        let _ = write!(text, " {name} {},", format_time(ns));
                    }
                }
                text.push(' ');
            }
            let _ =
                write!(text, "{} inside a stall already counted", percent(side.same_stall_share));
            for (k, (name, lift)) in self.lifts.iter().enumerate() {
                let raise = if k == 0 { "; stalls raise" } else { " and" };
                let _ = write!(text, "{raise} {name} by {}", percent(lift[i.min(1)] - 1.0));
            }
            if let Some(steal) = side.steal_share {
                let _ = write!(text, "; {} of all CPUs stolen", percent(steal));
            }
            text
        })
    }
}

/// For a step summary or a comment.
pub fn markdown(verdict: &Verdict, sections: &[Section]) -> String {
    let mut text = format!("### Jitter gate: {}\n\n", verdict.verdict);
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
            text.push_str(&line(&name(&row.name), &row.cells, &row.verdict.to_string()));
        }
        text.push('\n');
        let said: String = section
            .notes
            .iter()
            .cloned()
            .chain(section.met())
            .map(|line| format!("- {line}\n"))
            .collect();
        if !said.is_empty() {
            let _ = writeln!(text, "{said}");
        }
    }
    if let Some(line) = fitness::sentence(verdict.fitness.as_ref()) {
        let _ = writeln!(text, "> {line}\n");
    }
    for warning in &verdict.warnings {
        let _ = writeln!(text, "> {} {}\n", warning.message, warning.hint);
    }
    let _ = writeln!(text, "{}", sentence(&Verdict { failure: None, ..verdict.clone() }, sections));
    if let Some(failure) = &verdict.failure {
        // It quotes what a program said, which may be anything.
        let _ = write!(text, "\nIt could not go on:\n\n{}", format_block(failure));
    }
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
            Outcome::Inconclusive => {
                writeln!(text, "{open}><skipped message=\"{detail}\"/></testcase>")
            }
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
