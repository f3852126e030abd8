//! The frame that all programs of rt-tests write around their numbers with `--json`.
//!
//! Two of its keys carry a colon of their own; versions without it are read too.

use std::time::Duration;

use jitterstat::report::{Host, Report};
use serde::Deserialize;

use crate::interop::source::unknown_host;
use crate::interop::{cyclictest, json, oslat};

#[derive(Debug, Deserialize)]
pub(super) struct Frame {
    #[serde(rename = "cmdline:", alias = "cmdline", default)]
    pub cmdline: String,
    #[serde(rename = "rt_test_version:", alias = "rt_test_version", default)]
    pub version: String,
    #[serde(default)]
    start_time: String,
    #[serde(default)]
    end_time: String,
    #[serde(default)]
    pub sysinfo: SysInfo,
    #[serde(default)]
    pub resolution_in_ns: u64,
}

/// As rt-tests and jitterdebugger write it. The name of the machine is not taken over.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct SysInfo {
    sysname: String,
    release: String,
    version: String,
    machine: String,
    cpus_online: Option<u64>,
    pub resolution_in_ns: u64,
}

impl SysInfo {
    pub fn host(&self) -> Host {
        let told = |text: &String| Some(text.clone()).filter(|t| !t.is_empty());
        let unknown = unknown_host();
        let kinds = ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"];
        Host {
            os: told(&self.sysname).map_or(unknown.os.clone(), |name| name.to_lowercase()),
            arch: told(&self.machine).unwrap_or(unknown.arch.clone()),
            kernel: told(&self.release),
            preempt: kinds.into_iter().find(|kind| self.version.contains(kind)).map(str::to_owned),
            cpus_online: self.cpus_online,
            ..unknown
        }
    }
}

impl Frame {
    /// The program, by the first word of its command line.
    fn program(&self) -> &str {
        let first = self.cmdline.split_whitespace().next().unwrap_or_default();
        first.rsplit('/').next().unwrap_or_default()
    }

    /// Start in RFC 3339, and length.
    pub fn times(&self) -> (String, u64) {
        let (start, end) = (mail_date(&self.start_time), mail_date(&self.end_time));
        let length = start.zip(end).and_then(|(s, e)| e.checked_sub(s)).unwrap_or_default();
        let started = start.and_then(|s| std::time::SystemTime::UNIX_EPOCH.checked_add(s));
        let text =
            started.map_or("at an unknown time".to_owned(), |t| humantime::format_rfc3339_seconds(t).to_string());
        (text, u64::try_from(length.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// Reads what any program of rt-tests wrote that we know.
pub(super) fn read(text: &str) -> Result<Report, String> {
    let frame: Frame = json(text, "rt-tests result")?;
    match frame.program() {
        "cyclictest" => cyclictest::read(text, &frame),
        "oslat" => oslat::read(text, &frame),
        // What `osjitter report --format cyclictest-json` writes.
        "osjitter" => cyclictest::read(text, &frame),
        other => Err(format!("not a report: rt-tests' {other:?} is not known; cyclictest and oslat are")),
    }
}

/// `Sat, 21 Nov 2026 08:31:02 +0100` as time since the epoch.
fn mail_date(text: &str) -> Option<Duration> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, zone] = words.as_slice() else { return None };
    let month = MONTHS.iter().position(|m| m == month)? + 1;
    let local = humantime::parse_rfc3339(&format!("{year}-{month:02}-{:0>2}T{clock}Z", day)).ok()?;
    let local = local.duration_since(std::time::SystemTime::UNIX_EPOCH).ok()?;
    let (sign, digits) = (zone.get(..1)?, zone.get(1..).filter(|d| d.len() == 4)?);
    let (hours, minutes) = (digits.get(..2)?.parse::<u64>().ok()?, digits.get(2..)?.parse::<u64>().ok()?);
    let offset = Duration::from_secs(hours * 3_600 + minutes * 60);
    match sign {
        "+" => local.checked_sub(offset),
        "-" => local.checked_add(offset),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::mail_date;

    #[test]
    fn dates_of_mails() {
        let seconds = |text| mail_date(text).map(|d| d.as_secs());
        assert_eq!(seconds("Sat, 21 Nov 2026 08:31:02 +0000"), Some(1_795_249_862));
        assert_eq!(seconds("Sat, 21 Nov 2026 09:31:02 +0100"), Some(1_795_249_862));
        assert_eq!(seconds("Sat, 1 Nov 2026 09:31:02 -0130"), seconds("Sun, 01 Nov 2026 11:01:02 +0000"));
        for text in ["", "Sat, 21 Nov 2026", "Sat, 21 Foo 2026 08:31:02 +0000", "Sat, 99 Nov 2026 08:31:02 +00é"] {
            assert_eq!(seconds(text), None, "{text}");
        }
    }
}
