//! The files of osjitter as text: one trait reads, checks and writes them all.
//!
//! ```
//! use files::file::{File as _, FileError};
//! use files::report::Report;
//!
//! let error = Report::from_json(r#"{"schema": "osjitter.report/9"}"#).unwrap_err();
//! assert!(matches!(error, FileError::OtherSchema { .. }));
//! assert!(error.to_string().contains("a newer osjitter wrote it"));
//! ```

mod json_path;

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::histogram::HistogramError;

/// A file of osjitter: JSON with its version in the key `schema`.
pub trait File: Serialize + DeserializeOwned {
    /// Value of the key `schema` that this version writes and reads.
    const SCHEMA: &'static str;
    /// Value of the key `bench`, in the file of a bench.
    const BENCH: Option<&'static str> = None;
    /// Whether it is written over many lines, for people to read too.
    const PRETTY: bool = false;

    /// Looks for what a well-formed file can still not be.
    ///
    /// # Errors
    /// The first place that contradicts itself, or that no measurement can be.
    fn check(&self) -> Result<(), Invalid> {
        Ok(())
    }

    /// Reads and checks a file; the schema first, so that a newer file is named as such and not by
    /// a field it has.
    ///
    /// # Errors
    /// Not JSON, another schema or bench, a field that is missing, unknown or mistyped, or what
    /// [`File::check`] refuses.
    fn from_json(text: &str) -> Result<Self, FileError> {
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
            bench: Option<String>,
        }
        let expected = Self::SCHEMA;
        let not_json = |error| FileError::Json { expected, error };
        let head: Head = read_json(text).map_err(not_json)?;
        match head.schema {
            Some(found) if found != expected => {
                return Err(FileError::OtherSchema { found, expected });
            }
            None => return Err(FileError::NoSchema { expected }),
            Some(_) => {}
        }
        if let Some(expected) = Self::BENCH.filter(|&bench| head.bench.as_deref() != Some(bench)) {
            return Err(FileError::OtherBench { found: head.bench, expected });
        }
        let file: Self = read_json(text).map_err(not_json)?;
        file.check().map_err(|error| FileError::Invalid { expected, error })?;
        Ok(file)
    }

    /// Writes the file; ends with a newline.
    ///
    /// # Panics
    /// Never: the files hold nothing that JSON cannot.
    fn to_json(&self) -> String {
        let text = if Self::PRETTY {
            serde_json::to_string_pretty(self)
        } else {
            serde_json::to_string(self)
        };
        text.expect("plain data") + "\n"
    }

    /// JSON Schema of the file. The version is part of the shape: another one is another schema.
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

/// Reads JSON of any kind.
///
/// # Errors
/// The reason, with line, column and path of keys.
pub fn read_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, JsonError> {
    serde_json::from_str(text).map_err(|error| JsonError {
        path: json_path::path(text, error.line(), error.column()),
        error,
    })
}

/// Why a text is not the JSON that was expected.
#[derive(Debug)]
pub struct JsonError {
    /// Keys and indices to the place, as `subjects[0].id`; `None` at the top.
    pub path: Option<String>,
    /// The reason, with line and column.
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

impl std::error::Error for JsonError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// Why a text is not the file that was expected.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// Not JSON, cut off, or a field is missing, unknown or mistyped.
    Json {
        /// The schema this version reads.
        expected: &'static str,
        /// Where and why.
        error: JsonError,
    },
    /// It has no `schema`.
    NoSchema {
        /// The schema this version reads.
        expected: &'static str,
    },
    /// Another kind of file, or another version.
    OtherSchema {
        /// The schema of the file.
        found: String,
        /// The schema this version reads.
        expected: &'static str,
    },
    /// The file of another bench.
    OtherBench {
        /// The bench of the file.
        found: Option<String>,
        /// The bench that was asked for.
        expected: &'static str,
    },
    /// Well-formed, and still impossible.
    Invalid {
        /// The schema this version reads.
        expected: &'static str,
        /// Where and why.
        error: Invalid,
    },
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json { expected, error } if error.error.is_eof() => {
                write!(f, "not a valid {expected}, it is cut off: {error}")
            }
            Self::Json { expected, error } => write!(f, "not a valid {expected}: {error}"),
            Self::NoSchema { expected } => {
                write!(f, "no \"schema\" key; this version reads {expected:?}")
            }
            Self::OtherSchema { found, expected } => {
                write!(f, "schema {found:?} is not known; this version reads {expected:?}")?;
                if is_newer(found, expected) {
                    f.write_str(": a newer osjitter wrote it")
                } else {
                    Ok(())
                }
            }
            Self::OtherBench { found, expected } => {
                write!(
                    f,
                    "the bench {} is not {expected}",
                    found.as_deref().unwrap_or("without a name")
                )
            }
            Self::Invalid { expected, error } => write!(f, "not a valid {expected}: {error}"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Json { error, .. } => Some(error),
            Self::Invalid { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Whether `osjitter.report/2` is a later version of `osjitter.report/1`.
fn is_newer(found: &str, known: &str) -> bool {
    let version = |schema: &str| -> Option<(String, u64)> {
        let (kind, number) = schema.split_once('/')?;
        Some((kind.to_owned(), number.parse().ok()?))
    };
    version(found)
        .zip(version(known))
        .is_some_and(|(found, known)| found.0 == known.0 && found.1 > known.1)
}

/// What a well-formed file can still not be.
#[derive(Clone, Debug, PartialEq)]
pub struct Invalid {
    /// Keys and indices to the place, as `subjects[0].id`.
    pub at: String,
    /// What is wrong there.
    pub flaw: Flaw,
}

/// What is wrong at a place in a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Flaw {
    /// A time in nanoseconds, positive or negative, that no measurement takes.
    Time(i128),
    /// More than can be counted exactly.
    Count(u64),
    /// A number outside of what it can be.
    Number(f64),
    /// More entries than are read.
    TooMany {
        /// Entries in the file.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// Fewer entries than it takes.
    TooFew {
        /// Entries in the file.
        found: usize,
        /// The limit.
        least: usize,
    },
    /// A name that has to be unique comes again.
    Twice(String),
    /// A histogram that cannot be unpacked.
    Histogram(HistogramError),
    /// Two numbers that exclude each other: the sentence names both.
    Contradiction(String),
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.flaw)
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(ns) => write!(f, "{ns} ns is longer than 31 years"),
            Self::Count(n) => write!(f, "{n} is more than can be counted"),
            Self::Number(value) => write!(f, "{value} cannot be"),
            Self::TooMany { found, most } => write!(f, "{found} of them; at most {most} are read"),
            Self::TooFew { found, least } => {
                write!(f, "{found} of them; at least {least} are needed")
            }
            Self::Twice(name) => write!(f, "{name:?} comes twice"),
            Self::Histogram(error) => error.fmt(f),
            Self::Contradiction(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for Invalid {}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn only_a_later_number_of_the_same_kind_is_newer() {
        assert!(is_newer("osjitter.report/10", "osjitter.report/9"));
        for other in [
            "osjitter.report/9",
            "osjitter.report/8",
            "osjitter.verdict/10",
            "osjitter.report/x",
            "10",
            "",
        ] {
            assert!(!is_newer(other, "osjitter.report/9"), "{other}");
        }
    }
}
