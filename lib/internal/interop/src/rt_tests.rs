//! The files that the programs of rt-tests write with `--json`: a frame that is the same for all of
//! them, and the threads of cyclictest or oslat.
//!
//! Two keys of the frame end in a colon; versions without the colons are accepted as well. The
//! program is recognized by the keys of its threads, since its file can have any name.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use files::report::{Clock, Host, Warning};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::import_error::{ImportReason, Result};
use crate::imported::{FAILED_RUN_WARNING, ImportedReport, json, rfc3339, unknown_host};

/// The frame. Fields that are only written are skipped when reading, since nothing depends on them.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Frame {
    #[serde(skip_deserializing)]
    pub file_version: u64,
    #[serde(rename = "cmdline:", alias = "cmdline")]
    pub cmdline: String,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version")]
    pub version: Option<String>,
    /// Empty if it is not known.
    pub start_time: String,
    /// Empty if it is not known.
    pub end_time: String,
    /// 0 if all threads were started.
    pub return_code: i64,
    pub sysinfo: SysInfo,
    pub num_threads: Option<usize>,
    /// 1 for nanoseconds, 0 for microseconds. Not a resolution, in spite of its name.
    pub resolution_in_ns: Option<u64>,
}

/// The system information of rt-tests and jitterdebugger. The name of the machine is not imported.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct SysInfo {
    pub sysname: String,
    #[serde(skip_deserializing)]
    pub nodename: String,
    pub release: String,
    pub version: String,
    pub machine: String,
    /// Whether the kernel has real-time preemption, if it is known.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub realtime: Option<u64>,
    #[serde(skip_serializing)]
    pub cpus_online: Option<u64>,
    #[serde(skip_serializing)]
    pub resolution_in_ns: Option<u64>,
}

impl SysInfo {
    /// Describes a host in this format, in which an empty text is unknown.
    pub fn from_host(host: &Host) -> Self {
        let unknown = unknown_host();
        let known = |text: &String, unknown: &String| {
            Some(text).filter(|text| *text != unknown).cloned().unwrap_or_default()
        };
        Self {
            sysname: known(&host.os, &unknown.os),
            release: host.kernel.clone().unwrap_or_default(),
            version: host.preempt.clone().unwrap_or_default(),
            machine: known(&host.arch, &unknown.arch),
            realtime: host.preempt.as_deref().map(|preempt| u64::from(preempt.contains("RT"))),
            ..Self::default()
        }
    }

    /// Converts the description to a host.
    pub fn host(&self) -> Host {
        let stated = |text: &String| Some(text.clone()).filter(|t| !t.is_empty());
        let unknown = unknown_host();
        let kinds = ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"];
        Host {
            os: stated(&self.sysname).map_or(unknown.os.clone(), |name| name.to_lowercase()),
            arch: stated(&self.machine).unwrap_or(unknown.arch.clone()),
            kernel: stated(&self.release),
            preempt: kinds.into_iter().find(|kind| self.version.contains(kind)).map(str::to_owned),
            cpus_online: self.cpus_online,
            ..unknown
        }
    }
}

impl Frame {
    /// Returns the name of the program, from the command line.
    pub fn program(&self) -> &str {
        let first = self.cmdline.split_whitespace().next().unwrap_or_default();
        first.rsplit('/').next().unwrap_or_default()
    }

    /// Checks that a file has as many threads as it states.
    pub fn check_threads(&self, threads: usize) -> Result<()> {
        match self.num_threads {
            Some(stated) if stated != threads => {
                Err(ImportReason::MissingThreads { threads, stated }.into())
            }
            _ => Ok(()),
        }
    }

    /// Returns the warning about a run that failed.
    fn failure(&self, tool: &str) -> Option<Warning> {
        let code = self.return_code;
        let message =
            || format!("{tool} has failed with the return code {code}, so values may be missing.");
        let hint = "Repeat the run.";
        (code != 0).then(|| Warning::new(FAILED_RUN_WARNING, message(), hint))
    }

    /// Returns the content of the frame, without the threads.
    pub fn imported(&self, tool: &'static str, clock: Clock) -> ImportedReport {
        let (start, end) = (parse_mail_date(&self.start_time), parse_mail_date(&self.end_time));
        // If the clock was set during the run, the length is unknown.
        let length = start
            .zip(end)
            .and_then(|(start, end)| end.checked_sub(start))
            .filter(|length| *length <= MAX_LENGTH);
        let mut host = self.sysinfo.host();
        host.versions.extend(self.version.clone().map(|version| ("rt-tests".to_owned(), version)));
        ImportedReport {
            tool,
            version: self.version.clone(),
            started_utc: start.and_then(|start| UNIX_EPOCH.checked_add(start)).and_then(rfc3339),
            duration_ns: length.and_then(|length| u64::try_from(length.as_nanos()).ok()),
            host,
            clock,
            warnings: self.failure(tool).into_iter().collect(),
            subjects: Vec::new(),
        }
    }
}

/// A longer run is the effect of a clock that was set: ten years.
const MAX_LENGTH: Duration = Duration::from_secs(10 * 365 * 86_400);

/// A result of rt-tests: its valid JSON, its frame, and the program that wrote it.
pub(super) struct RtTestsResult<'a> {
    pub text: Cow<'a, str>,
    pub frame: Frame,
    pub program: Program,
}

impl<'a> RtTestsResult<'a> {
    /// Parses the frame and recognizes the program.
    ///
    /// # Errors
    /// Returns an error if the text is no JSON or has the threads of another program.
    pub fn parse(text: &'a str) -> Result<Self> {
        let text = replace_nan(text);
        let frame: Frame = json(&text, "result of rt-tests")?;
        let program = Program::detect(&text, &frame)?;
        Ok(Self { text, frame, program })
    }
}

/// A program of rt-tests whose result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Cyclictest,
    Oslat,
}

impl Program {
    /// Recognizes the program by the keys of its threads.
    fn detect(text: &str, frame: &Frame) -> Result<Self> {
        /// The keys of a thread that only one of the programs writes.
        #[derive(Deserialize)]
        struct Keys {
            histogram: Option<IgnoredAny>,
            cycles: Option<IgnoredAny>,
            freq: Option<IgnoredAny>,
        }
        #[derive(Deserialize)]
        struct Threads {
            thread: BTreeMap<String, Keys>,
        }
        let threads: Threads = json(text, "result of rt-tests")?;
        let keys = threads.thread.into_values().next();
        let keys = keys.ok_or(ImportReason::MissingThread)?;
        match (keys, frame.program()) {
            (Keys { histogram: Some(_), cycles: Some(_), .. }, _) => Ok(Self::Cyclictest),
            (Keys { histogram: Some(_), freq: Some(_), .. }, _) => Ok(Self::Oslat),
            // A damaged thread, whose error names what it lacks.
            (_, "cyclictest") => Ok(Self::Cyclictest),
            (_, "oslat") => Ok(Self::Oslat),
            (_, program) => Err(ImportReason::OtherProgram { program: program.to_owned() }.into()),
        }
    }
}

/// Replaces numbers that are not finite by `null`. C programs write `nan` or `-nan` for the mean of
/// no values, which is no JSON.
pub(super) fn replace_nan(text: &str) -> Cow<'_, str> {
    const WORDS: [&str; 4] = ["-nan", "nan", "-inf", "inf"];
    let mut replaced = String::new();
    let mut copied = 0;
    let mut rest = text;
    while let Some(colon) = rest.find(':') {
        rest = rest[colon + 1..].trim_start_matches([' ', '\t']);
        let word = WORDS.into_iter().find(|word| rest.starts_with(word));
        let end = |word: &str| rest[word.len()..].trim_start().starts_with([',', '}']);
        if let Some(word) = word.filter(|word| end(word)) {
            let at = text.len() - rest.len();
            replaced += &text[copied..at];
            replaced += "null";
            copied = at + word.len();
            rest = &text[copied..];
        }
    }
    if copied == 0 { text.into() } else { (replaced + &text[copied..]).into() }
}

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Parses a date such as `Sat, 21 Nov 2026 08:31:02 +0100` as the time since the epoch.
fn parse_mail_date(text: &str) -> Option<Duration> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, zone] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|m| m == month)? + 1;
    let local =
        humantime::parse_rfc3339(&format!("{year}-{month:02}-{:0>2}T{clock}Z", day)).ok()?;
    let local = local.duration_since(UNIX_EPOCH).ok()?;
    let (sign, digits) = (zone.get(..1)?, zone.get(1..).filter(|d| d.len() == 4)?);
    let (hours, minutes) =
        (digits.get(..2)?.parse::<u64>().ok()?, digits.get(2..)?.parse::<u64>().ok()?);
    let offset = Duration::from_secs(hours * 3_600 + minutes * 60);
    match sign {
        "+" => local.checked_sub(offset),
        "-" => local.checked_add(offset),
        _ => None,
    }
}

/// Formats a time as the date of a mail, in UTC.
pub(super) fn format_mail_date(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let days = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / 86_400;
    let text = rfc3339(time).unwrap_or_default();
    let part = |range: std::ops::Range<usize>| text.get(range).unwrap_or_default().to_owned();
    let month = part(5..7)
        .parse::<usize>()
        .ok()
        .and_then(|m| MONTHS.get(m.wrapping_sub(1)))
        .unwrap_or(&"Jan");
    // The epoch was a Thursday.
    let day = DAYS[(days % 7) as usize];
    format!("{day}, {} {month} {} {} +0000", part(8..10), part(0..4), part(11..19))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mail_dates_are_parsed() {
        let seconds = |text| parse_mail_date(text).map(|d| d.as_secs());
        assert_eq!(seconds("Sat, 21 Nov 2026 08:31:02 +0000"), Some(1_795_249_862));
        assert_eq!(seconds("Sat, 21 Nov 2026 09:31:02 +0100"), Some(1_795_249_862));
        assert_eq!(
            seconds("Sat, 1 Nov 2026 09:31:02 -0130"),
            seconds("Sun, 01 Nov 2026 11:01:02 +0000")
        );
        for text in [
            "",
            "Sat, 21 Nov 2026",
            "Sat, 21 Foo 2026 08:31:02 +0000",
            "Sat, 99 Nov 2026 08:31:02 +00é",
        ] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }

    #[test]
    fn extreme_dates_do_not_panic() {
        let from = |start_time: &str, end_time: &str| {
            let (start_time, end_time) = (start_time.to_owned(), end_time.to_owned());
            let frame = Frame { start_time, end_time, ..Frame::default() };
            let clock = crate::imported::clock("c", None);
            let imported = frame.imported("cyclictest", clock);
            (imported.started_utc, imported.duration_ns)
        };
        let unknown = (None, Some(0));
        assert_eq!(
            from("Fri, 31 Dec 9999 23:59:59 -0100", "Fri, 31 Dec 9999 23:59:59 -0100"),
            unknown
        );
        let clock_was_set =
            from("Thu, 01 Jan 1970 00:00:09 +0000", "Sat, 21 Nov 2026 08:31:02 +0000");
        assert_eq!(clock_was_set, (Some("1970-01-01T00:00:09Z".to_owned()), None));
        assert_eq!(from("", ""), (None, None));
    }

    #[test]
    fn nan_becomes_null() {
        for (text, json) in [
            (r#"{"avg": -nan}"#, r#"{"avg": null}"#),
            ("{\"a\":nan,\"b\": -inf\n}", "{\"a\":null,\"b\": null\n}"),
            (r#"{"a: nan": 1, "cmdline:": "x: nano"}"#, r#"{"a: nan": 1, "cmdline:": "x: nano"}"#),
            ("::", "::"),
            ("", ""),
        ] {
            assert_eq!(replace_nan(text), json);
        }
    }

    #[test]
    fn mail_date_has_standard_format() {
        let at = humantime::parse_rfc3339("2026-11-21T07:05:09Z").unwrap();
        assert_eq!(format_mail_date(at), "Sat, 21 Nov 2026 07:05:09 +0000");
    }
}
