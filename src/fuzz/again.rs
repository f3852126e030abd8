//! What was made, read by something else than what made it.

use files::bins::{Interval, bins_csv, intervals_csv, join, read_bins, read_intervals};
use files::report::Report;

use crate::render::formats::{Format, Made};

/// Looks at a result as its readers would.
pub fn check(format: Format, made: &Made) {
    match (format, made) {
        (Format::Bins, Made::Bins(intervals)) => bins(intervals),
        (Format::Svg, Made::Pictures(pictures)) => {
            pictures.iter().for_each(|picture| xml(&picture.svg))
        }
        (_, Made::Text(text)) => match format {
            Format::Json | Format::Sarif | Format::Bmf | Format::Gab | Format::CyclictestJson => {
                drop(json(text))
            }
            Format::Jsonl => text.lines().for_each(|line| drop(json(line))),
            Format::Junit => xml(text),
            Format::Csv => drop(csv(text)),
            Format::Table | Format::Markdown => harmless(text),
            Format::Openmetrics => openmetrics(text),
            Format::Hgrm => drop(hgrm(text)),
            Format::Html => page(text),
            Format::Bins | Format::Hlog | Format::Svg | Format::Parquet => {}
        },
        _ => {}
    }
}

/// Their two files together are what they were made of.
pub fn bins(intervals: &[Interval]) {
    let counts = read_intervals(&intervals_csv(intervals)).expect("what we write we refuse");
    let bins = read_bins(&bins_csv(intervals)).expect("what we write we refuse");
    let again = join(bins, counts).expect("what we write we refuse");
    // Names may be others: not every character may stand in a cell.
    let numbers = |intervals: &[Interval]| {
        let shown = intervals.iter().filter(|i| i.facts.is_some() || i.count() > 0);
        let mut all: Vec<String> = shown.map(|i| format!("{:?} {:?}", i.bins, i.facts)).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(numbers(&again), numbers(intervals), "they are others when they are read again");
}

pub fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

pub fn xml(text: &str) {
    if let Err(error) = roxmltree::Document::parse(text) {
        panic!("not well-formed: {error}");
    }
}

/// Nothing in it commands a terminal.
fn harmless(text: &str) {
    let command = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(command, None, "a control character reaches a terminal");
}

/// The records of RFC 4180, all as long as the first.
pub fn csv(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut field) = (Vec::new(), Vec::new(), String::new());
    let mut characters = text.chars().peekable();
    let mut in_quotes = false;
    while let Some(c) = characters.next() {
        match c {
            '"' if in_quotes && characters.peek() == Some(&'"') => field.extend(characters.next()),
            '"' => {
                assert!(in_quotes || field.is_empty(), "a quote in the middle of a field");
                in_quotes = !in_quotes;
            }
            c if in_quotes => field.push(c),
            ',' => record.push(std::mem::take(&mut field)),
            '\n' => {
                record.push(std::mem::take(&mut field));
                records.push(std::mem::take(&mut record));
            }
            c => field.push(c),
        }
    }
    assert!(!in_quotes && field.is_empty() && record.is_empty(), "the last record does not end");
    assert!(
        records.iter().all(|record| record.len() == records[0].len()),
        "records of several lengths"
    );
    records
}

/// Every line is a comment or a sample with a number, and the last one says that it is.
fn openmetrics(text: &str) {
    let lines = text.strip_suffix("# EOF\n").expect("the end of an exposition");
    for line in lines.lines().filter(|line| !line.starts_with("# ")) {
        let (name, rest) = line.split_once('{').expect("a sample has labels");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name:?}");
        let value = after_labels(rest).unwrap_or_else(|| panic!("no labels: {line:?}"));
        assert!(value.trim().parse::<f64>().is_ok_and(f64::is_finite), "no number: {line:?}");
    }
}

/// What stands behind `name="value",…}`.
fn after_labels(mut rest: &str) -> Option<&str> {
    loop {
        let (name, value) = rest.split_once("=\"")?;
        if !name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_') {
            return None;
        }
        let mut escaped = false;
        let end = value.find(|c| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        rest = &value[end + 1..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return rest.strip_prefix('}'),
        }
    }
}

/// The number of values in a percentile distribution, whose columns rise.
pub fn hgrm(text: &str) -> u64 {
    let (mut last_value, mut last_share, mut total) = (0.0, 0.0, 0);
    for line in text.lines().skip(2).filter(|line| !line.starts_with('#')) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |i: usize| words.get(i).and_then(|w| w.parse::<f64>().ok()).expect("a number");
        let count = words.get(2).and_then(|w| w.parse::<u64>().ok()).expect("a count");
        assert!(
            number(0) >= last_value && number(1) >= last_share && count >= total,
            "it falls: {line}"
        );
        (last_value, last_share, total) = (number(0), number(1), count);
    }
    total
}

/// What a file holds cannot end the page, nor open a script of its own.
fn page(text: &str) {
    assert!(text.trim_end().ends_with("</html>"), "the page does not end");
    for tag in ["<script", "</script", "<style", "</style", "<html", "</html", "<body", "</body"] {
        let ours = if tag.ends_with("script") { 1..=3 } else { 0..=2 };
        assert!(
            ours.contains(&text.matches(tag).count()),
            "{tag}: {} times",
            text.matches(tag).count()
        );
    }
}

/// Of each subject that was measured: ticks that came, and the largest lateness.
pub fn numbers(of: &Report) -> Vec<(u64, i64)> {
    of.subjects
        .iter()
        .filter_map(|s| s.summary.as_ref())
        .map(|s| (s.ticks - s.skipped, s.lateness_ns.max))
        .collect()
}

/// The same numbers are read: counts exactly, the largest value as exactly as the format keeps it.
pub fn same_numbers(mut one: Vec<(u64, i64)>, read: &Report, digits: f64) {
    one.retain(|(count, _)| *count > 0);
    let mut other = numbers(read);
    other.retain(|(count, _)| *count > 0);
    one.sort_unstable();
    other.sort_unstable();
    assert_eq!(one.len(), other.len(), "subjects are lost");
    for ((count, max), (read_count, read_max)) in one.into_iter().zip(other) {
        assert_eq!(count, read_count, "ticks are lost");
        let close = (max.max(0) - read_max).unsigned_abs() as f64
            <= max.unsigned_abs() as f64 * digits + 1.0;
        assert!(close, "the largest was {max} and is {read_max}");
    }
}
