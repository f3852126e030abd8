//! Parses the lines of HdrHistogram logs, as the readers of all implementations do together.

use std::str::FromStr;

/// A line of a log.
#[derive(Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// A blank line or a comment without a meaning to readers.
    Ignored,
    /// The names of the columns. Some writers name the second one `EndTimestamp`.
    Legend {
        names_end: bool,
    },
    /// Start of the log, in seconds since the epoch, perhaps with a date as Go writes it.
    StartTime {
        seconds: f64,
        has_go_date: bool,
    },
    /// Time to which the timestamps are relative, in seconds since the epoch.
    BaseTime(f64),
    Interval(IntervalLine<'a>),
}

/// The line of an interval.
#[derive(Debug, PartialEq)]
pub(super) struct IntervalLine<'a> {
    pub tag: Option<&'a str>,
    /// The first column.
    pub start: f64,
    /// The second column: the length of the interval, or its end.
    pub length_or_end: f64,
    /// The third column: the largest value, divided by a number that the log does not state.
    pub max: Option<StatedMax>,
    /// The histogram in base64.
    pub data: &'a str,
}

/// The largest value of an interval as its line states it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct StatedMax {
    pub value: f64,
    /// Whether it is written as a whole number and `.0`, as the C implementation writes the value
    /// itself.
    pub is_raw: bool,
}

const TAG: &str = "Tag=";

impl<'a> Line<'a> {
    /// Parses a line. Returns `None` if it is neither a comment, nor a legend, nor an interval.
    pub fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if let Some(comment) = comment(line) {
            return Some(Self::parse_comment(comment));
        }
        if line.is_empty() {
            return Some(Self::Ignored);
        }
        parse_interval(line).map(Self::Interval)
    }

    fn parse_comment(comment: &str) -> Self {
        let is_legend = is_legend(comment);
        match (parse_time(comment, "StartTime:"), parse_time(comment, "BaseTime:")) {
            (Some(seconds), _) => Self::StartTime { seconds, has_go_date: has_go_date(comment) },
            (None, Some(base)) => Self::BaseTime(base),
            _ if is_legend => Self::Legend { names_end: comment.contains("EndTimestamp") },
            _ => Self::Ignored,
        }
    }
}

/// Returns the comment or the legend in a line. Some writers and editors leave out the `#` in front of
/// it, or the quotes in a legend.
pub(super) fn comment(line: &str) -> Option<&str> {
    let is_marked = line.starts_with(['#', '"', '[']);
    (is_marked || is_legend(line)).then(|| line.trim_start_matches('#').trim_start())
}

/// Whether a line has the names of the columns, perhaps in a comment. The first one can be that of the
/// tag. Text in front of them is the prefix of a logger.
pub(super) fn is_legend(line: &str) -> bool {
    let words = line.split([',', ';', '\t', ' ']).map(|word| word.trim_matches(['"', '#']));
    let mut names = words.filter(|word| !word.is_empty()).skip_while(|word| *word == "Tag");
    names.next() == Some("StartTimestamp")
}

/// Parses the time of a comment such as `[StartTime: 5.0 (seconds since epoch)]`.
fn parse_time(comment: &str, name: &str) -> Option<f64> {
    let rest = comment.strip_prefix('[')?;
    let (head, rest) = rest.split_at_checked(name.len())?;
    // Go's implementation has written `Basetime` until 2026.
    let time = head.eq_ignore_ascii_case(name).then_some(rest)?.trim_start();
    parse_seconds(time.split([' ', ',', ']']).next()?)
}

/// Whether a comment ends with a date such as `2023-11-14T22:13:20Z`. Other writers have a name of
/// the day of the week, a space instead of the T, or no date.
fn has_go_date(comment: &str) -> bool {
    let date = comment.rsplit_once(", ").map_or("", |(_, date)| date);
    date.as_bytes().get(..11).is_some_and(|date| {
        date.iter().zip(b"0000-00-00T").all(|(byte, model)| match model {
            b'0' => byte.is_ascii_digit(),
            _ => byte == model,
        })
    })
}

/// Whether a line is that of an interval: perhaps a tag, then three numbers and a text, separated by
/// commas. In other tables, such numbers are rarely all decimals, as writers of logs print them.
pub(super) fn is_interval(line: &str) -> bool {
    // The first three bytes of every encoding, of Histogram and of DoubleHistogram, in base64.
    const ENCODED: [&str; 2] = ["HIST", "DHIST"];
    let is_number = |column: &str| f64::from_str(column.trim()).is_ok();
    let is_encoded = |data: &str| ENCODED.iter().any(|begin| data.trim_start().starts_with(begin));
    // Some writers separate the columns by blanks.
    let words: Vec<&str> = line.split_whitespace().collect();
    if let [start, length, max, data, ..] = words[..]
        && [start, length, max].into_iter().all(is_number)
        && is_encoded(data)
    {
        return true;
    }
    let columns: Vec<&str> = line.splitn(5, ',').collect();
    match columns.as_slice() {
        // One of the numbers, or the histogram, may be damaged.
        [tag, start, length, max, ..] if tag.starts_with(TAG) => {
            [start, length, max].into_iter().filter(|column| is_number(column)).count() >= 2
        }
        [start, length, max, data] => {
            let has_numbers = [start, length, max].into_iter().all(|column| is_number(column));
            let has_decimals = [start, length, max].into_iter().all(|column| column.contains('.'));
            let is_text = !data.trim().is_empty() && !is_number(data);
            has_numbers && (is_encoded(data) || has_decimals && is_text)
        }
        _ => false,
    }
}

/// Parses the line of an interval. Columns are separated by commas or blanks.
fn parse_interval(line: &str) -> Option<IntervalLine<'_>> {
    let (tag, columns) = match line.strip_prefix(TAG) {
        Some(rest) => rest.split_once(',').map(|(tag, columns)| (Some(tag.trim()), columns))?,
        None => (None, line),
    };
    let mut columns = columns.split([',', ' ', '\t']).filter(|column| !column.is_empty());
    let start = parse_seconds(columns.next()?)?;
    let length_or_end = parse_seconds(columns.next()?)?;
    let max = parse_max(columns.next()?)?;
    let tag = tag.filter(|tag| !tag.is_empty());
    Some(IntervalLine { tag, start, length_or_end, max, data: columns.next()? })
}

/// Parses a time, which is not negative.
fn parse_seconds(text: &str) -> Option<f64> {
    f64::from_str(text).ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
}

/// Parses the third column. The inner option is `None` if it is not finite: Go's implementation
/// divides by zero by default.
fn parse_max(text: &str) -> Option<Option<StatedMax>> {
    let value = f64::from_str(text).ok()?;
    let is_raw = text.ends_with(".0");
    Some(value.is_finite().then_some(StatedMax { value, is_raw }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(tag: Option<&'static str>) -> Line<'static> {
        let max = Some(StatedMax { value: 3.0, is_raw: false });
        Line::Interval(IntervalLine { tag, start: 0.5, length_or_end: 2.0, max, data: "HIST" })
    }

    #[test]
    fn intervals_are_parsed() {
        for text in [
            "0.5,2.0,3.000,HIST", " 0.5,2,3,HIST\r", "0.5, 2.0, 3.000, HIST ",
            "0.5 2.0 3.000 HIST", "5e-1,2.0,3.000,HIST,more", "Tag=,0.5,2.0,3.000,HIST",
        ] {
            assert_eq!(Line::parse(text).unwrap(), interval(None), "{text}");
        }
        assert_eq!(Line::parse("Tag=a b,0.5,2.0,3.000,HIST").unwrap(), interval(Some("a b")));
        let max = |text| match Line::parse(text).unwrap() {
            Line::Interval(line) => line.max,
            line => panic!("{line:?}"),
        };
        assert_eq!(max("0,1,+Inf,HIST"), None);
        assert_eq!(max("0,1,5001215.0,HIST"), Some(StatedMax { value: 5_001_215.0, is_raw: true }));
    }

    fn start(seconds: f64, has_go_date: bool) -> Line<'static> {
        Line::StartTime { seconds, has_go_date }
    }

    #[test]
    fn comments_state_times() {
        for (text, line) in [
            ("", Line::Ignored),
            ("#", Line::Ignored),
            ("#[Histogram log format version 1.3]", Line::Ignored),
            (
                "#[StartTime: 1438869961.225 (seconds since epoch), Thu Aug 06]",
                start(1_438_869_961.225, false),
            ),
            ("#[StartTime:5]", start(5.0, false)),
            (
                "#[StartTime: 1700000000 (seconds since epoch), 2023-11-14T22:13:20Z]",
                start(1_700_000_000.0, true),
            ),
            ("#[StartTime: 5.0 (seconds since epoch), 2023-11-14 22:13:20]", start(5.0, false)),
            ("#[StartTime: soon]", Line::Ignored),
            ("#[Basetime: 17 (seconds since epoch)]", Line::BaseTime(17.0)),
            ("\"StartTimestamp\",\"Interval_Length\"", Line::Legend { names_end: false }),
            ("\"StartTimestamp\",\"EndTimestamp\"", Line::Legend { names_end: true }),
            ("#\"Tag\",\"StartTimestamp\",\"Interval_Length\"", Line::Legend { names_end: false }),
            ("StartTimestamp,Interval_Length,Interval_Max", Line::Legend { names_end: false }),
            ("#UNITS: StartTimestamp = seconds", Line::Ignored),
            ("[Logging for: READ]", Line::Ignored),
            ("[StartTime: 5.0 (seconds since epoch), x]", start(5.0, false)),
            ("# [StartTime: 5.0 (seconds since epoch), x]", start(5.0, false)),
        ] {
            assert_eq!(Line::parse(text).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn other_lines_are_rejected() {
        for text in
            ["hello", "1,2,3", "1,2,x,HIST", "-1,2,3,HIST", "nan,2,3,HIST", "Tag=a", "Tag=1,2,3,4"]
        {
            assert!(Line::parse(text).is_none(), "{text}");
        }
    }
}
