//! What an interval is of, and the text that may stand in a cell.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest text of a cell, in bytes.
pub(super) const MAX_CELL: usize = 256;
/// The longest text of all labels together, in bytes.
pub(super) const MAX_LABEL_BYTES: usize = 4_096;

/// The last microsecond that can be written: the end of the year 9999.
const LAST_US: u64 = 253_402_300_799_999_999;

/// What an interval is of: no two intervals share it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The machine or pod; empty over several.
    pub host: String,
    /// The subject, or the meter.
    pub subject: String,
    /// Nominal period; 0 where it is not known.
    pub period_ns: u64,
    /// Empty for a bare thread, or where it is not known.
    pub runtime: String,
    /// What else sets its rows apart: `key=value;key=value`.
    pub labels: Labels,
    /// Start, in microseconds since 1970; `None` where it is not known.
    pub start_us: Option<u64>,
    /// Length of the interval; 0 where it is not known.
    pub duration_ns: u64,
    /// One invocation of the recorder; empty over several.
    pub run_id: String,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.subject)?;
        if !self.host.is_empty() {
            write!(f, " of {}", self.host)?;
        }
        self.start_us.map_or(Ok(()), |us| write!(f, " from {}", stamp(us)))
    }
}

/// Labels by key.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Adds a label in place of another of that key.
    ///
    /// # Errors
    /// A key that is no identifier: why.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let begins = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let goes_on =
            key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
        if !begins || !goes_on || key.len() > MAX_CELL {
            return Err(format!(
                "{key:?} is no key of a label: a letter, then letters, digits, `_`, `.`, `-`"
            ));
        }
        self.0.insert(key.to_owned(), cell(value).into_owned());
        Ok(())
    }

    /// The value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Only those keys.
    #[must_use]
    pub fn only(&self, keys: &[&str]) -> Self {
        Self(
            self.0
                .iter()
                .filter(|(key, _)| keys.contains(&key.as_str()))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    }

    /// Reads `key=value;key=value`.
    ///
    /// # Errors
    /// What is no label, or comes twice.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut labels = Self::default();
        for label in text.split(';').filter(|label| !label.is_empty()) {
            let (key, value) =
                label.split_once('=').ok_or_else(|| format!("{label:?} is no key=value"))?;
            if labels.0.contains_key(key) {
                return Err(format!("{key:?} comes twice"));
            }
            labels.set(key, value)?;
        }
        Ok(labels)
    }
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}={value}", if i == 0 { "" } else { ";" })?;
        }
        Ok(())
    }
}

/// A text as it may stand in a cell: it needs no quotes, ends no label, and no spreadsheet runs it.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let ends = |c: char| c.is_control() || matches!(c, ',' | '"' | ';');
    let runs = text.starts_with(['=', '+', '-', '@', '\'']);
    if !runs && !text.contains(ends) && text.len() <= MAX_CELL {
        return text.into();
    }
    let mut clean = String::new();
    for (i, c) in text.chars().enumerate() {
        let c = if ends(c) || (i == 0 && runs) { '_' } else { c };
        if clean.len() + c.len_utf8() > MAX_CELL {
            break;
        }
        clean.push(c);
    }
    clean.into()
}

/// Microseconds since 1970 as RFC 3339, which sorts as text.
#[must_use]
pub fn stamp(us: u64) -> String {
    humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(us.min(LAST_US)))
        .to_string()
}

/// Reads a time in RFC 3339, UTC, also as engines write it: a blank for the `T`, no `Z`.
#[must_use]
pub fn micros(text: &str) -> Option<u64> {
    let time: SystemTime = humantime::parse_rfc3339_weak(text).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}
