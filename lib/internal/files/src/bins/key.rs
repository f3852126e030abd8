//! The key of an interval, and the text of cells.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Maximum length of a cell in bytes.
pub(super) const MAX_CELL: usize = 256;
/// Maximum length of all labels together in bytes.
pub(super) const MAX_LABEL_BYTES: usize = 4_096;

/// Maximum time: the end of the year 9999.
const MAX_US: u64 = 253_402_300_799_999_999;

/// The key of an interval, which is unique in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Machine or pod; empty if added up over several.
    pub host: String,
    /// Subject or meter.
    pub subject: String,
    /// Nominal period; 0 if unknown.
    pub period_ns: u64,
    /// Runtime; empty for a bare thread or if unknown.
    pub runtime: String,
    /// Additional labels: `key=value;key=value`.
    pub labels: Labels,
    /// Start in microseconds since 1970; `None` if unknown.
    pub start_us: Option<u64>,
    /// Length of the interval; 0 if unknown.
    pub duration_ns: u64,
    /// Identifier of the invocation of the recorder; empty if added up over several.
    pub run_id: String,
}

impl Key {
    /// Returns the part of the key that a run and a merged report have in common, if the run is the
    /// first in it: all but the length. Without a start or an id of a run, it is the whole key.
    #[must_use]
    pub fn identity(&self) -> Self {
        let is_known = self.start_us.is_some() && !self.run_id.is_empty();
        let duration_ns = if is_known { 0 } else { self.duration_ns };
        Self { duration_ns, ..self.clone() }
    }
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

/// An error in a label.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The key is not an identifier; contains the key.
    #[error("invalid label key {0:?}: expected a letter, then letters, digits, `_`, `.`, `-`")]
    InvalidKey(String),
    /// The label has no `=`; contains the label.
    #[error("invalid label {0:?}: expected key=value")]
    WithoutValue(String),
    /// The key occurs twice; contains the key.
    #[error("duplicate label key {0:?}")]
    DuplicateKey(String),
}

/// Labels with unique keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(BTreeMap<String, String>);

impl Labels {
    /// Sets a label.
    ///
    /// # Errors
    /// Returns an error if the key is not an identifier.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), LabelError> {
        let starts_well = key.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        if !starts_well || !key.chars().all(is_valid) || key.len() > MAX_CELL {
            return Err(LabelError::InvalidKey(key.to_owned()));
        }
        self.0.insert(key.to_owned(), cell(value).into_owned());
        Ok(())
    }

    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// Returns the labels with the given keys.
    #[must_use]
    pub fn select(&self, keys: &[&str]) -> Self {
        let mut labels = self.clone();
        labels.0.retain(|key, _| keys.contains(&key.as_str()));
        labels
    }

    /// Parses `key=value;key=value`.
    ///
    /// # Errors
    /// Returns an error if a label is invalid, or a key occurs twice.
    pub fn parse(text: &str) -> Result<Self, LabelError> {
        let mut labels = Self::default();
        for label in text.split(';').filter(|label| !label.is_empty()) {
            let (key, value) =
                label.split_once('=').ok_or_else(|| LabelError::WithoutValue(label.to_owned()))?;
            if labels.0.contains_key(key) {
                return Err(LabelError::DuplicateKey(key.to_owned()));
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

/// Replaces the characters of a text that would need quotes in a cell, end a label, or make a
/// spreadsheet run it as a formula.
#[must_use]
pub fn cell(text: &str) -> Cow<'_, str> {
    let is_reserved = |c: char| c.is_control() || matches!(c, ',' | '"' | ';');
    let is_formula = text.starts_with(['=', '+', '-', '@', '\'']);
    if !is_formula && !text.contains(is_reserved) && text.len() <= MAX_CELL {
        return text.into();
    }
    let mut clean = String::new();
    for (i, c) in text.chars().enumerate() {
        let c = if is_reserved(c) || (i == 0 && is_formula) { '_' } else { c };
        if clean.len() + c.len_utf8() > MAX_CELL {
            break;
        }
        clean.push(c);
    }
    clean.into()
}

/// Formats microseconds since 1970 as RFC 3339, which sorts as text.
#[must_use]
pub fn stamp(us: u64) -> String {
    humantime::format_rfc3339_micros(UNIX_EPOCH + Duration::from_micros(us.min(MAX_US))).to_string()
}

/// Parses a time in RFC 3339, UTC, to microseconds since 1970. As some databases write it, the `T`
/// can be a blank, and the `Z` can be missing.
#[must_use]
pub fn micros(text: &str) -> Option<u64> {
    let time: SystemTime = humantime::parse_rfc3339_weak(text).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}
