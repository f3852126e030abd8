//! The JSON that hyperfine exports, with the time of each run of its commands.

use std::sync::Arc;

use serde::Deserialize;

use super::{BenchOutputError, BenchSamples, Flag, option};

/// Flags with which the JSON is all that hyperfine prints.
pub const FLAGS: &[Flag] = &[option("--style", "none"), option("--export-json", "-")];

const NS_PER_SECOND: f64 = 1e9;

#[derive(Deserialize)]
struct Export {
    results: Vec<CommandResult>,
}

#[derive(Deserialize)]
struct CommandResult {
    /// The command, or the name that the user gave it.
    command: String,
    /// Time of each run, in seconds.
    times: Vec<f64>,
}

/// Parses the commands of a run. hyperfine has no filter, so those whose name contains none of the
/// filters are dropped.
pub fn parse(bytes: &[u8], filters: &[String]) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let Export { results } = serde_json::from_slice(bytes)
        .map_err(|error| BenchOutputError::HyperfineJson(Arc::new(error)))?;
    let is_selected = |result: &CommandResult| {
        let mut filters_with_match =
            filters.iter().filter(|filter| result.command.contains(filter.as_str()));
        filters.is_empty() || filters_with_match.next().is_some()
    };
    let mut benches = Vec::new();
    for result in results.into_iter().filter(is_selected) {
        let ns = result.times.iter().map(|seconds| seconds * NS_PER_SECOND).collect();
        benches.push(BenchSamples { name: result.command, ns });
    }
    Ok(benches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(filters: &[&str]) -> Vec<String> {
        let filters: Vec<String> = filters.iter().map(|filter| (*filter).to_owned()).collect();
        let benches = parse(include_bytes!("fixtures/hyperfine.json"), &filters).unwrap();
        assert!(benches.iter().all(|bench| bench.ns.iter().all(|&ns| ns > 1e5)), "{benches:?}");
        benches.into_iter().map(|bench| bench.name).collect()
    }

    #[test]
    fn output_of_hyperfine_is_read() {
        assert_eq!(names(&[]), ["count", "sort"]);
        assert_eq!(names(&["or", "x"]), ["sort"]);
        assert_eq!(names(&["x"]), [""; 0]);
    }

    #[test]
    fn malformed_exports_are_errors() {
        for (text, expected) in [
            ("Benchmark 1: true", "is not the JSON of hyperfine"),
            ("", "is not the JSON of hyperfine: EOF"),
            (r#"{"results":[{"command":"x"}]}"#, "missing field `times`"),
        ] {
            let error = parse(text.as_bytes(), &[]).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
