//! Reading, checking and writing the files of osjitter, by one trait.
//!
//! ```
//! use files::file::{File as _, FileError};
//! use files::report::Report;
//!
//! let error = Report::from_json(r#"{"schema": "osjitter.report/9"}"#).unwrap_err();
//! assert!(matches!(error, FileError::OtherSchema { .. }));
//! assert!(error.to_string().contains("a newer osjitter wrote it"));
//! ```

mod head;
mod json_text;

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_path_to_error::Segment;

use crate::histogram::HistogramError;

use head::Head;
pub use json_text::{to_indented_json, to_json_line};

/// A file of osjitter: JSON with the version in the key `schema`.
pub trait File: Serialize + DeserializeOwned {
    /// Value of the key `schema` that this version writes and reads.
    const SCHEMA: &'static str;
    /// Value of the key `bench`, for the file of a bench.
    const BENCH: Option<&'static str> = None;
    /// Whether the file is written in indented lines, and not in a single one.
    const IS_INDENTED: bool;

    /// Converts the file to JSON with a trailing newline. Characters that control a terminal are
    /// escaped.
    ///
    /// # Panics
    /// Never panics: the files contain only values that JSON can represent.
    fn to_json(&self) -> String {
        if Self::IS_INDENTED { to_indented_json(self) } else { to_json_line(self) }
    }

    /// Checks the values of a well-formed file.
    ///
    /// # Errors
    /// Returns an error for the first value that is impossible or contradicts another one.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// Reads and checks a file. An error of the schema comes before others, so that the error of a
    /// newer file names its version instead of an unknown field.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, has another schema or bench, or a missing, unknown
    /// or mistyped field, and any error of [`File::check`].
    fn from_json(text: &str) -> Result<Self, FileError> {
        let expected = Self::SCHEMA;
        let start = Head::read_start(text, Self::BENCH.is_some());
        if start.schema.as_deref() != Some(expected) || start.bench.as_deref() != Self::BENCH {
            Self::check_head(text)?;
        }
        let file = match read_json::<Self>(text) {
            Ok(file) => file,
            Err(error) => {
                Self::check_head(text)?;
                return Err(FileError::Json { expected, error });
            }
        };
        file.check().map_err(|error| FileError::Invalid { expected, error })?;
        Ok(file)
    }

    /// Checks the schema and the bench of a file, and that the whole text is JSON. This takes as long
    /// as reading the file, so files that can be read do not need it.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON, or has another schema or bench.
    fn check_head(text: &str) -> Result<(), FileError> {
        let expected = Self::SCHEMA;
        let head: Head = read_json(text).map_err(|error| FileError::Json { expected, error })?;
        match head.schema {
            Some(found) if found != expected => {
                return Err(FileError::OtherSchema { found, expected });
            }
            None => return Err(FileError::NoSchema { expected }),
            Some(_) => {}
        }
        match Self::BENCH {
            Some(expected) if head.bench.as_deref() != Some(expected) => {
                Err(FileError::OtherBench { found: head.bench, expected })
            }
            _ => Ok(()),
        }
    }

    /// Returns the JSON Schema of the file, which includes its version.
    #[cfg(feature = "schema")]
    #[must_use]
    fn json_schema() -> serde_json::Value
    where
        Self: schemars::JsonSchema,
    {
        let mut schema = schemars::schema_for!(Self).to_value();
        schema["properties"]["schema"]["const"] = Self::SCHEMA.into();
        schema["title"] = Self::SCHEMA.into();
        if let Some(bench) = Self::BENCH {
            schema["properties"]["bench"]["const"] = bench.into();
            schema["title"] = format!("{}, {bench}", Self::SCHEMA).into();
        }
        schema
    }
}

/// Deserializes JSON.
///
/// # Errors
/// Returns the reason with line, column and path of keys.
pub fn read_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = format_path(error.path());
        JsonError { path, error: error.into_inner() }
    })?;
    reader.end().map_err(|error| JsonError { path: None, error })?;
    Ok(value)
}

/// Formats the known part of a path, such as `subjects[0].id`; `None` at the top level.
fn format_path(path: &serde_path_to_error::Path) -> Option<String> {
    let mut text = String::new();
    for segment in path {
        match segment {
            // The error is in the key.
            Segment::Unknown => break,
            Segment::Seq { .. } => {}
            _ if text.is_empty() => {}
            _ => text.push('.'),
        }
        text += &segment.to_string();
    }
    (!text.is_empty()).then_some(text)
}

/// An error in JSON.
#[derive(Debug, thiserror::Error)]
pub struct JsonError {
    /// Path of keys and indices, such as `subjects[0].id`; `None` at the top level.
    pub path: Option<String>,
    /// The reason with line and column.
    #[source]
    pub error: serde_json::Error,
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{path}: ")?;
        }
        self.error.fmt(f)
    }
}

/// An error in a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The text is not JSON, is cut off, or has a missing, unknown or mistyped field.
    #[error(
        "not a valid {expected}{}: {error}",
        if .error.error.is_eof() { ", it is cut off" } else { "" }
    )]
    Json {
        /// The schema this version reads.
        expected: &'static str,
        /// The path and the reason.
        #[source]
        error: JsonError,
    },
    /// The key `schema` is missing.
    #[error("no \"schema\" key; this version reads {expected:?}")]
    NoSchema {
        /// The schema this version reads.
        expected: &'static str,
    },
    /// The file is of another kind or version.
    #[error(
        "schema {found:?} is not known; this version reads {expected:?}{}",
        if is_newer(.found, .expected) { ": a newer osjitter wrote it" } else { "" }
    )]
    OtherSchema {
        /// The schema of the file.
        found: String,
        /// The schema this version reads.
        expected: &'static str,
    },
    /// The file is of another bench.
    #[error("the bench {} is not {expected}", .found.as_deref().unwrap_or("without a name"))]
    OtherBench {
        /// The bench of the file.
        found: Option<String>,
        /// The expected bench.
        expected: &'static str,
    },
    /// The file is well-formed but contains an impossible value.
    #[error("not a valid {expected}: {error}")]
    Invalid {
        /// The schema this version reads.
        expected: &'static str,
        /// The path and the reason.
        #[source]
        error: Invalid,
    },
}

/// Whether `osjitter.report/2` is a later version of `osjitter.report/1`.
fn is_newer(found: &str, known: &str) -> bool {
    match (parse_schema(found), parse_schema(known)) {
        (Some((kind, version)), Some((known_kind, known_version))) => {
            kind == known_kind && version > known_version
        }
        _ => false,
    }
}

/// Splits `osjitter.report/2` into kind and version.
fn parse_schema(schema: &str) -> Option<(&str, u64)> {
    let (kind, version) = schema.split_once('/')?;
    Some((kind, version.parse().ok()?))
}

/// An impossible value in a well-formed file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{at}: {flaw}")]
pub struct Invalid {
    /// Path of keys and indices, such as `subjects[0].id`.
    pub at: String,
    /// The flaw of the value.
    pub flaw: Flaw,
}

/// The flaw of a value in a file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Flaw {
    /// A time in nanoseconds is longer than any measurement.
    #[error("{0} ns is longer than 31 years")]
    Time(i128),
    /// A count is too large to be exact.
    #[error("{0} exceeds 2^53")]
    Count(u64),
    /// A number is out of range.
    #[error("{0} cannot be")]
    Number(f64),
    /// There are too many entries.
    #[error("{found} of them; at most {most} are read")]
    TooMany {
        /// Number of entries in the file.
        found: usize,
        /// Maximum number of entries.
        most: usize,
    },
    /// There are too few entries.
    #[error("{found} of them; at least {least} are needed")]
    TooFew {
        /// Number of entries in the file.
        found: usize,
        /// Minimum number of entries.
        least: usize,
    },
    /// A name occurs twice that must be unique.
    #[error("{0:?} comes twice")]
    Twice(String),
    /// A histogram cannot be decoded.
    #[error("{0}")]
    Histogram(HistogramError),
    /// Two numbers contradict each other; contains a sentence with both.
    #[error("{0}")]
    Contradiction(String),
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::{is_newer, read_json};

    #[test]
    fn newer_means_later_version() {
        assert!(is_newer("osjitter.report/10", "osjitter.report/9"));
        for other in [
            "osjitter.report/9", "osjitter.report/8", "osjitter.verdict/10", "osjitter.report/x",
            "10", "",
        ] {
            assert!(!is_newer(other, "osjitter.report/9"), "{other}");
        }
    }

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    #[allow(dead_code, reason = "it is only deserialized")]
    struct Document {
        name: String,
        #[serde(default)]
        numbers: Vec<u32>,
        #[serde(default)]
        inner: Option<Box<Document>>,
    }

    #[test]
    fn path_leads_to_the_error() {
        for (text, expected) in [
            (r#"{"name": 1}"#, Some("name")),
            (r#"{"name": "a", "numbers": [1, 2, "x"]}"#, Some("numbers[2]")),
            (r#"{"name": "a", "inner": {"numbers": [7]}}"#, Some("inner")),
            (
                r#"{"name": "a", "inner": {"name": "b", "inner": {"name": []}}}"#,
                Some("inner.inner.name"),
            ),
            (r#"{"name": "a", "colour": 1}"#, Some("colour")),
            (r#"{"name": "a", "inner": {"#, Some("inner")),
            (r#"{"name": "a", "nu"#, None),
            (r#"{"name": "a"} 7"#, None),
            ("{}", None),
        ] {
            let error = read_json::<Document>(text).unwrap_err();
            assert_eq!(error.path.as_deref(), expected, "{text}");
        }
    }
}
