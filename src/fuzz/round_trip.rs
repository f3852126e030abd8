//! Checks rendered results with readers that are independent of the renderers.

use files::bins::{Interval, bins_csv, intervals_csv, join, read_bins, read_intervals};
use files::report::Report;

use render::formats::{Format, Rendering};

/// Checks that a result is valid in its format.
pub fn check(format: Format, rendering: &Rendering) {
    match (format, rendering) {
        (Format::Bins, Rendering::Bins(intervals)) => check_bins(intervals),
        (Format::Svg, Rendering::Pictures(pictures)) => {
            pictures.iter().for_each(|picture| check_xml(&picture.svg))
        }
        (_, Rendering::Text(text)) => match format {
            Format::Json
            | Format::Sarif
            | Format::Bmf
            | Format::Gab
            | Format::CyclictestJson
            | Format::Perfetto => drop(parse_json(text)),
            Format::Jsonl => text.lines().for_each(|line| drop(parse_json(line))),
            Format::Card | Format::Svg | Format::Junit => check_xml(text),
            Format::Csv => drop(parse_csv(text)),
            Format::Table | Format::Markdown => check_printable(text),
            Format::Openmetrics => check_openmetrics(text),
            Format::Hgrm => drop(count_hgrm(text)),
            Format::Html => check_page(text),
            Format::Bins | Format::Hlog | Format::Parquet => {}
        },
        _ => {}
    }
}

/// Checks that the two files of bins contain the same intervals when they are read.
pub fn check_bins(intervals: &[Interval]) {
    let counts = read_intervals(&intervals_csv(intervals)).expect("what we write must be readable");
    let bins = read_bins(&bins_csv(intervals)).expect("what we write must be readable");
    let again = join(bins, counts).expect("what we write must be readable");
    // Names may differ: a cell does not allow every character.
    let numbers = |intervals: &[Interval]| {
        let shown = intervals.iter().filter(|i| i.facts.is_some() || i.count() > 0);
        let mut numbers: Vec<String> =
            shown.map(|i| format!("{:?} {:?}", i.bins, i.facts)).collect();
        numbers.sort_unstable();
        numbers
    };
    assert_eq!(
        numbers(&again),
        numbers(intervals),
        "the intervals differ when they are read again"
    );
}

/// Parses JSON.
pub fn parse_json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).expect("JSON")
}

/// Checks that a text is well-formed XML.
pub fn check_xml(text: &str) {
    if let Err(error) = roxmltree::Document::parse(text) {
        panic!("not well-formed: {error}");
    }
}

/// Checks that a text has no terminal control characters.
fn check_printable(text: &str) {
    let control = text.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(control, None, "a control character reaches a terminal");
}

/// Parses records of RFC 4180 and checks that all have the same length.
pub fn parse_csv(text: &str) -> Vec<Vec<String>> {
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

/// Checks that every line is a comment or a sample with a number, and that the last one is the end
/// marker.
fn check_openmetrics(text: &str) {
    let lines = text.strip_suffix("# EOF\n").expect("the end of an exposition");
    for line in lines.lines().filter(|line| !line.starts_with("# ")) {
        let (name, rest) = line.split_once('{').expect("a sample has labels");
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name:?}");
        let value = after_labels(rest).unwrap_or_else(|| panic!("no labels: {line:?}"));
        assert!(value.trim().parse::<f64>().is_ok_and(f64::is_finite), "no number: {line:?}");
    }
}

/// Returns the text after `name="value",…}`.
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

/// Returns the number of values in a percentile distribution, and checks that its columns rise.
pub fn count_hgrm(text: &str) -> u64 {
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

/// Checks that the contents of a file cannot end the page or start a script.
fn check_page(text: &str) {
    assert!(text.trim_end().ends_with("</html>"), "the page does not end");
    for tag in ["<script", "</script", "<style", "</style", "<html", "</html", "<body", "</body"] {
        let expected = if tag.ends_with("script") { 0..=3 } else { 0..=2 };
        assert!(
            expected.contains(&text.matches(tag).count()),
            "{tag}: {} times",
            text.matches(tag).count()
        );
    }
}

/// Returns the number of delivered ticks and the largest lateness of each measured subject whose
/// number of ticks is known.
pub fn subject_numbers(report: &Report) -> Vec<(u64, i64)> {
    report
        .subjects
        .iter()
        .filter_map(|s| s.summary.as_ref())
        .filter(|s| s.came() > 0)
        .map(|s| (s.came(), s.lateness_ns.max))
        .collect()
}

/// Checks that a report has these numbers: counts exactly, the largest value within the relative
/// error of the format.
pub fn check_numbers(mut expected: Vec<(u64, i64)>, read: &Report, tolerance: f64) {
    expected.retain(|(count, _)| *count > 0);
    let mut found = subject_numbers(read);
    found.retain(|(count, _)| *count > 0);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(expected.len(), found.len(), "subjects are lost");
    for ((count, max), (read_count, read_max)) in expected.into_iter().zip(found) {
        assert_eq!(count, read_count, "ticks are lost");
        let close = (max.max(0) - read_max).unsigned_abs() as f64
            <= max.unsigned_abs() as f64 * tolerance + 1.0;
        assert!(close, "the largest was {max} and is {read_max}");
    }
}
