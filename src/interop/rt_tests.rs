//! The frame that all programs of rt-tests write around their results with `--json`.
//!
//! Two of its keys end in a colon; versions without the colons are accepted as well.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use files::report::{Clock, Host, MAX_NS};
use serde::{Deserialize, Serialize};

use crate::interop::imported::{ImportedReport, UNKNOWN_TIME, rfc3339, unknown_host};

/// The frame. Fields that are only written are skipped when reading, since nothing depends on them.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Frame {
    #[serde(skip_deserializing)]
    pub file_version: u64,
    #[serde(rename = "cmdline:", alias = "cmdline")]
    pub cmdline: String,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version")]
    pub version: String,
    pub start_time: String,
    pub end_time: String,
    #[serde(skip_deserializing)]
    pub return_code: i64,
    pub sysinfo: SysInfo,
    #[serde(skip_deserializing)]
    pub num_threads: usize,
    pub resolution_in_ns: u64,
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
    #[serde(skip_deserializing)]
    pub realtime: u64,
    #[serde(skip_serializing)]
    pub cpus_online: Option<u64>,
    #[serde(skip_serializing)]
    pub resolution_in_ns: u64,
}

impl SysInfo {
    /// Describes a host in this format.
    pub fn from_host(host: &Host) -> Self {
        Self {
            sysname: host.os.clone(),
            release: host.kernel.clone().unwrap_or_default(),
            version: host.preempt.clone().unwrap_or_default(),
            machine: host.arch.clone(),
            realtime: u64::from(host.preempt.as_deref().is_some_and(|p| p.contains("RT"))),
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

    /// Returns the content of the frame, without the threads.
    pub fn imported(&self, tool: &'static str, clock: Clock) -> ImportedReport {
        let (start, end) = (parse_mail_date(&self.start_time), parse_mail_date(&self.end_time));
        // If the clock was set during the run, from 1970 on, the length is unknown.
        let length = start
            .zip(end)
            .and_then(|(s, e)| e.checked_sub(s))
            .and_then(|l| u64::try_from(l.as_nanos()).ok());
        let started = start.and_then(|s| UNIX_EPOCH.checked_add(s));
        let mut host = self.sysinfo.host();
        host.versions.insert("rt-tests".to_owned(), self.version.clone());
        ImportedReport {
            tool,
            version: self.version.clone(),
            started_utc: started.and_then(rfc3339).unwrap_or_else(|| UNKNOWN_TIME.to_owned()),
            duration_ns: length.filter(|&ns| ns <= MAX_NS).unwrap_or(0),
            host,
            clock,
            warnings: Vec::new(),
            subjects: Vec::new(),
        }
    }
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
            let imported = frame.imported("cyclictest", crate::interop::imported::clock("c", 1));
            (imported.started_utc, imported.duration_ns)
        };
        let unknown = (UNKNOWN_TIME.to_owned(), 0);
        assert_eq!(
            from("Fri, 31 Dec 9999 23:59:59 -0100", "Fri, 31 Dec 9999 23:59:59 -0100"),
            unknown
        );
        let clock_was_set =
            from("Thu, 01 Jan 1970 00:00:09 +0000", "Sat, 21 Nov 2026 08:31:02 +0000");
        assert_eq!(clock_was_set, ("1970-01-01T00:00:09Z".to_owned(), 0));
    }

    #[test]
    fn mail_date_has_standard_format() {
        let at = humantime::parse_rfc3339("2026-11-21T07:05:09Z").unwrap();
        assert_eq!(format_mail_date(at), "Sat, 21 Nov 2026 07:05:09 +0000");
    }
}
