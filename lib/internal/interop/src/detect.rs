//! Recognizes the format of a file by its content.
//!
//! The detector reads the beginning of a file once. It returns one format with the reason, so that
//! only the reader of that format reports errors. Names of files and programs play no role.

use jitterstat::series;

use crate::file_format::{Detection, Evidence, FileFormat};
use crate::imported::strip_escapes;
use crate::{bpftrace, cyclictest_text, hgrm, hlog, hwlatdetect, oslat_text, rtla, xenomai};

/// Number of bytes that are read to recognize a format. The keys of a JSON file and the comments of
/// a text are within it.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum number of characters of a line that is quoted as the reason.
const MAX_EXCERPT: usize = 40;
/// The first bytes of every encoded histogram, in base64.
const ENCODED: &str = "HIST";

/// Recognizes the format of a text; `None` if it is unknown.
pub fn detect(text: &str) -> Option<Detection> {
    let head = head(text);
    if files::bins::kind(head).is_some() {
        let line = head.lines().next().unwrap_or_default();
        return Some(Detection {
            format: FileFormat::Bins,
            evidence: Evidence::Line(1, excerpt(line)),
        });
    }
    if is_json_object(head) {
        return detect_json(text, head);
    }
    detect_text(text)
}

/// Recognizes a text by its first typical line. Comments do not count as part of the head.
fn detect_text(text: &str) -> Option<Detection> {
    let mut left = MAX_HEAD_BYTES;
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| next);
        let detection = detect_line(number, line, next);
        if detection.is_some() || left == 0 {
            return detection;
        }
        if !line.starts_with('#') {
            left = left.saturating_sub(line.len() + 1);
        }
    }
    None
}

/// Finds the first line of another format in a text, which is the output of another tool.
pub(super) fn find_other_format(text: &str, format: &FileFormat) -> Option<Detection> {
    let mut lines = (1..).zip(text.lines()).peekable();
    while let Some((number, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, next)| next);
        // A line of a log is long, and no other format has one.
        if *format == FileFormat::Hlog && line.contains(ENCODED) {
            continue;
        }
        let other = detect_line(number, line, next).filter(|other| other.format != *format);
        // A row of any table has numbers like an interval whose histogram is damaged.
        let is_row =
            |other: &Detection| other.format == FileFormat::Hlog && !line.contains(ENCODED);
        if other.as_ref().is_some_and(|other| !is_row(other) || line.starts_with(['#', '['])) {
            return other;
        }
    }
    None
}

/// Recognizes the format of a text by a line, or by two if it is common in other texts.
pub(super) fn detect_line(number: usize, line: &str, next: &str) -> Option<Detection> {
    // Some tools write colours, or move the cursor.
    let line = strip_escapes(line).split('\u{1b}').next().unwrap_or_default().trim();
    let format = line_format(line, next)?;
    Some(Detection { format, evidence: Evidence::Line(number, excerpt(line)) })
}

/// Returns the beginning of a text.
pub(super) fn head(text: &str) -> &str {
    let mut end = text.len().min(MAX_HEAD_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns whether a text begins as a JSON object.
pub fn is_json_object(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Returns the beginning of a line.
pub fn excerpt(line: &str) -> String {
    line.chars().take(MAX_EXCERPT).collect()
}

/// Returns the format of a text with this line.
fn line_format(line: &str, next: &str) -> Option<FileFormat> {
    let unsupported = |name, remedy| Some(FileFormat::Unsupported { name, remedy });
    if line.is_empty() {
        None
    } else if rtla::is_title(line) {
        Some(FileFormat::Rtla)
    } else if hwlatdetect::is_line(line) {
        Some(FileFormat::Hwlatdetect)
    } else if cyclictest_text::is_line(line, next) {
        Some(FileFormat::CyclictestText)
    } else if hlog::is_line(line) {
        Some(FileFormat::Hlog)
    } else if hgrm::is_heading(line) {
        Some(FileFormat::Hgrm)
    } else if oslat_text::is_line(line) {
        Some(FileFormat::OslatText)
    } else if xenomai::is_line(line) {
        Some(FileFormat::Xenomai)
    } else if bpftrace::is_line(line) {
        Some(FileFormat::Bpftrace)
    } else if line.starts_with("[OVERALL], RunTime(ms),") {
        unsupported("the summary of YCSB", "run YCSB with -p hdrhistogram.fileoutput=true")
    } else if line == "Timer Latency" {
        unsupported("the output of rtla timerlat top", "run rtla timerlat hist")
    } else if line == "Operating System Noise" {
        unsupported("the output of rtla osnoise top", "run rtla osnoise hist")
    } else if line.starts_with(series::SCHEMA) {
        unsupported("the series of one program", "measure it with osjitter run -- PROGRAM")
    } else {
        None
    }
}

/// Recognizes a JSON object by its keys.
fn detect_json(text: &str, head: &str) -> Option<Detection> {
    let keys = JsonKeys::new(head);
    let schema = keys.schema.or_else(|| {
        // A tool that sorts keys puts the schema behind long lists.
        let is_cut = head.len() < text.len();
        is_cut.then(|| schema_anywhere(text)).flatten()
    });
    let has = |key: &str| keys.names.iter().any(|name| name == key);
    let has_either = |key: &str| has(key) || has(key.strip_suffix(':').unwrap_or(key));
    let rt_tests = has_either("rt_test_version:") || has_either("cmdline:") && has("thread");
    let (format, evidence) = if let Some(schema) = schema {
        (FileFormat::Osjitter { schema }, Evidence::Schema)
    } else if rt_tests {
        (FileFormat::RtTests, Evidence::Keys("\"rt_test_version:\" or \"cmdline:\""))
    } else if has("cpu") && keys.has_numbers_at_cpu {
        (FileFormat::Jitterdebugger, Evidence::Keys("\"cpu\" without \"thread\""))
    } else if has("schema") {
        (FileFormat::Osjitter { schema: String::new() }, Evidence::Schema)
    } else {
        return None;
    };
    Some(Detection { format, evidence })
}

/// Returns the schema of a JSON file, wherever the key is.
fn schema_anywhere(text: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct SchemaKey {
        schema: Option<String>,
    }
    serde_json::from_str::<SchemaKey>(text).ok()?.schema
}

/// The keys of the outermost object of a JSON text, which may be cut off or damaged.
#[derive(Default)]
struct JsonKeys {
    names: Vec<String>,
    /// Value of the key `schema`, if it is a string.
    schema: Option<String>,
    /// Whether the value of the key `cpu` is an object whose first key is a number.
    has_numbers_at_cpu: bool,
}

impl JsonKeys {
    /// Maximum number of keys that are collected. No format has more before its own ones.
    const MAX_KEYS: usize = 64;

    fn new(text: &str) -> Self {
        let mut keys = Self::default();
        let mut depth = 0_u64;
        let mut rest = text;
        while let Some(at) = rest.find(['"', '{', '}', '[', ']']) {
            let (found, after) = (&rest[at..=at], &rest[at + 1..]);
            rest = after;
            match found {
                "{" | "[" => depth += 1,
                "}" | "]" => depth = depth.saturating_sub(1),
                _ => {
                    let Some((name, after)) = split_string(after) else { break };
                    rest = after;
                    if let Some(value) = after.trim_start().strip_prefix(':').filter(|_| depth == 1)
                    {
                        keys.add(name, value.trim_start());
                    }
                }
            }
            if keys.names.len() >= Self::MAX_KEYS {
                break;
            }
        }
        keys
    }

    fn add(&mut self, name: &str, value: &str) {
        if name == "schema" {
            let value = value.strip_prefix('"').and_then(split_string);
            self.schema = value.map(|(schema, _)| schema.to_owned());
        }
        self.has_numbers_at_cpu |= name == "cpu" && has_numbers(value);
        self.names.push(name.to_owned());
    }
}

/// Returns whether a value is an object whose first key is a number, or which is cut off before it.
fn has_numbers(value: &str) -> bool {
    let Some(first) = value.strip_prefix('{').map(str::trim_start) else { return false };
    let key = first.strip_prefix('"').unwrap_or(first);
    key.is_empty() || first != key && key.starts_with(|c: char| c.is_ascii_digit())
}

/// Splits the rest of a JSON string from the text after its closing quote. Escapes are kept.
fn split_string(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    Some((&text[..end], &text[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Option<FileFormat> {
        detect(text).map(|detection| detection.format)
    }

    #[test]
    fn texts_are_recognized_by_a_line() {
        for (text, expected) in [
            ("# RTLA timerlat histogram\n", FileFormat::Rtla),
            ("$ rtla osnoise hist\n\n# RTLA osnoise histogram\n", FileFormat::Rtla),
            ("hwlatdetect:  test duration 120 seconds\n", FileFormat::Hwlatdetect),
            ("ts: 1503508231.541325243, inner:16, outer:0\n", FileFormat::Hwlatdetect),
            ("1311112345.0678901234\t23\t0\n", FileFormat::Hwlatdetect),
            ("# Histogram\n000003 000000\n", FileFormat::CyclictestText),
            ("# /dev/cpu_dma_latency set to 0us\n", FileFormat::CyclictestText),
            ("oslat V 2.40\n", FileFormat::OslatText),
            ("Counter Freq:\t 2100 (Mhz)\n", FileFormat::OslatText),
            (" Value   Percentile   TotalCount 1/(1-Percentile)\n", FileFormat::Hgrm),
            ("\"Value\",\"Percentile\",\"TotalCount\",\"1/(1-Percentile)\"\n", FileFormat::Hgrm),
            ("\n\n#[StartTime: 5.0 (seconds since epoch), x]\n", FileFormat::Hlog),
            ("#[Logging for: READ]\n", FileFormat::Hlog),
            ("\"StartTimestamp\",\"EndTimestamp\"\n", FileFormat::Hlog),
            ("Tag=A,0.127,1.007,2.769,HISTFAAA\n", FileFormat::Hlog),
            ("Tag=A,0.1x7,1.007,2.769,HISTFAAA\n", FileFormat::Hlog),
            ("Tag=A,0.127,1.007,2.769\n", FileFormat::Hlog),
            ("0.127,1.007,2.769,HISTFAAA\n", FileFormat::Hlog),
            ("0.127 1.007 2.769 HISTFAAA\n", FileFormat::Hlog),
            ("[Logging for: READ]\n", FileFormat::Hlog),
            ("RTLA timerlat histogram\n", FileFormat::Rtla),
            ("Min Latencies: 00005 00003\n", FileFormat::CyclictestText),
            ("StartTimestamp,Interval_Length,Interval_Max\n", FileFormat::Hlog),
            ("Value(ms)  Percentile  TotalCount  1/(1-Percentile)\n", FileFormat::Hgrm),
            ("@:\n[2, 4)    100 |@@@   |\n", FileFormat::Bpftrace),
            ("RTS| 0.3| 2.2| 4.0|  0|  0| 00:00:02/00:00:02\n", FileFormat::Xenomai),
            (
                "[OVERALL], RunTime(ms), 1234\n",
                FileFormat::Unsupported {
                    name: "the summary of YCSB",
                    remedy: "run YCSB with -p hdrhistogram.fileoutput=true",
                },
            ),
            (
                "\u{1b}[2;37;40m      Timer Latency    \u{1b}[0;0;0m\n",
                FileFormat::Unsupported {
                    name: "the output of rtla timerlat top",
                    remedy: "run rtla timerlat hist",
                },
            ),
        ] {
            assert_eq!(format(text), Some(expected), "{text}");
        }
        for text in [
            "", "\n", "hello", "# nothing", "# Histogram\n\ntext", "1,2,3,text", "7",
            "0001 0002\n", "1,2,3,4\n", "[1, 2]", "--",
        ] {
            assert_eq!(format(text), None, "{text}");
        }
    }

    #[test]
    fn only_comments_may_be_long() {
        let text = format!("{}0.0,1.0,1.0,HISTFAAA\n", "# nothing\n".repeat(20_000));
        assert_eq!(format(&text), Some(FileFormat::Hlog));
        assert_eq!(format(&text.replace('#', "-")), None);
    }

    #[test]
    fn objects_are_recognized_by_keys() {
        let schema = |schema: &str| FileFormat::Osjitter { schema: schema.to_owned() };
        let distant = format!("{{\"a\": [{}1], \"schema\": \"late\"}}", "0, ".repeat(40_000));
        for (text, expected) in [
            ("{\"schema\": \"osjitter.report/1\", ", Some(schema("osjitter.report/1"))),
            ("{\"a\": {\"schema\": \"no\"}, \"schema\": \"x\\\"y\"", Some(schema("x\\\"y"))),
            (distant.as_str(), Some(schema("late"))),
            ("{\"schema\": 3}", Some(schema(""))),
            ("{\"file_version\": 1, \"cmdline:\": \"x\", \"thread\": {", Some(FileFormat::RtTests)),
            ("{\"rt_test_version\": \"2.40\"", Some(FileFormat::RtTests)),
            ("{\"version\": 1, \"cpu\": {\"0\": ", Some(FileFormat::Jitterdebugger)),
            ("{\"cpu\": {", Some(FileFormat::Jitterdebugger)),
            ("{\"cpu\": 7}", None),
            ("{\"cpu\": {\"limit\": 7}}", None),
            ("{\"cpu\": {}}", None),
            ("{\"cpu\": {\"", Some(FileFormat::Jitterdebugger)),
            ("{\"results\": []}", None),
            ("{\"a\": \"\\\"schema\\\": \\\"b\\\"\"}", None),
            ("{", None),
            ("{\"unfinished", None),
        ] {
            assert_eq!(format(text), expected, "{text:.60}");
        }
    }

    #[test]
    fn evidence_is_quoted() {
        let detection = detect("\n  # RTLA timerlat histogram\n").unwrap();
        assert_eq!(
            detection.evidence.to_string(),
            "line 2 begins with \"# RTLA timerlat histogram\""
        );
    }
}
