//! Names in sentences: lists of subjects, and percentiles.

use std::borrow::Borrow;
use std::fmt::Display;

/// Maximum number of names in a list.
const MAX_NAMES: usize = 4;

/// Joins names: `a, b and c`, or `a, b, c, d and 3 more`.
pub fn join_names<S: Borrow<str> + Display>(names: &[S]) -> String {
    match names.len().saturating_sub(MAX_NAMES) {
        0 => join_with(names, "and"),
        others => format!("{} and {others} more", names[..MAX_NAMES].join(", ")),
    }
}

pub fn join_with<S: Borrow<str> + Display>(names: &[S], conjunction: &str) -> String {
    match names {
        [] => String::new(),
        [name] => name.to_string(),
        [first @ .., last] => format!("{} {conjunction} {last}", first.join(", ")),
    }
}

/// Returns the name of a percentile in text.
pub fn label(percentile: &str) -> String {
    percentile.replace('_', ".")
}
