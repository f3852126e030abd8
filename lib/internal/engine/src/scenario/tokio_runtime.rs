//! The runtime of a tokio subject.

use std::fmt;
use std::str::FromStr;

use clap::builder::TypedValueParser;

use crate::scenario::scenario_error::ScenarioError;
use cli::completion::{plain_values, with_examples};

/// The runtime of a tokio subject: `current-thread`, `multi-thread` or `multi-thread:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    CurrentThread,
    MultiThread(usize),
}

/// Worker threads of `multi-thread` without a number.
const DEFAULT_WORKERS: usize = 2;
/// Maximum number of worker threads. A larger number is probably a typing error.
pub const MAX_WORKERS: usize = 1024;

/// Returns the parser of an argument with a runtime.
pub fn runtime_parser() -> impl TypedValueParser<Value = Runtime> {
    with_examples(|text: &str| text.parse(), || plain_values(&["current-thread", "multi-thread"]))
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentThread => f.write_str("current-thread"),
            Self::MultiThread(workers) => write!(f, "multi-thread:{workers}"),
        }
    }
}

impl FromStr for Runtime {
    type Err = ScenarioError;

    fn from_str(text: &str) -> Result<Self, ScenarioError> {
        match (text, text.split_once(':')) {
            ("current-thread", _) => return Ok(Self::CurrentThread),
            ("multi-thread", _) => return Ok(Self::MultiThread(DEFAULT_WORKERS)),
            (_, Some(("multi-thread", workers))) => {
                if let Ok(workers @ 1..=MAX_WORKERS) = workers.parse() {
                    return Ok(Self::MultiThread(workers));
                }
            }
            _ => {}
        }
        Err(ScenarioError::UnknownRuntime(text.to_owned()))
    }
}
