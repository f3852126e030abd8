//! The lines that Rust's own harness prints: `test fib ... bench:   1,234.56 ns/iter (+/- 12.34)`.
//!
//! The crate `bencher` and Criterion's `--output-format bencher` print the same lines.

use super::{BenchOutputError, BenchSamples, Flag, flag};

/// Flags of a run. The harness chooses the time of a benchmark: from 0.3 to 3 seconds.
pub const FLAGS: &[Flag] = &[flag("--bench")];

/// Parses the benchmarks of a run.
pub fn parse(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let mut benches = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix("test ") else { continue };
        let Some((name, figures)) = rest.split_once(" ... bench:") else { continue };
        let name = name.trim_end().to_owned();
        let Some(ns) = parse_time(figures) else {
            let (time, example) = (figures.trim().to_owned(), "1,234.56 ns/iter");
            return Err(BenchOutputError::InvalidTime { time, name, example });
        };
        benches.push(BenchSamples { name, ns: vec![ns] });
    }
    Ok(benches)
}

/// Parses the time of an iteration, which has commas between thousands.
fn parse_time(figures: &str) -> Option<f64> {
    let (number, _) = figures.split_once(" ns/iter")?;
    number.trim().replace(',', "").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_libtest_is_read() {
        let benches = parse(include_str!("fixtures/libtest.txt")).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(names, ["hash", "search::binary", "search::linear"]);
        assert!(benches.iter().all(|bench| bench.ns[0] > 0.0), "{benches:?}");
    }

    #[test]
    fn lines_of_all_versions_are_parsed() {
        for (line, ns) in [
            ("test a ... bench:   1,234,567.89 ns/iter (+/- 12.34)", 1_234_567.89),
            ("test a ... bench:       1,234 ns/iter (+/- 12) = 81 MB/s", 1234.0),
            ("test a            ... bench:           0 ns/iter (+/- 0)", 0.0),
            ("test a ... bench:           0.31 ns/iter (+/- 0.00)", 0.31),
        ] {
            let expected = [BenchSamples { name: "a".to_owned(), ns: vec![ns] }];
            assert_eq!(parse(line).unwrap(), expected, "{line}");
        }
        for line in ["test a ... ok", "running 3 tests", "test result: ok. 0 passed", ""] {
            assert_eq!(parse(line).unwrap(), [], "{line}");
        }
        let error = parse("test a ... bench: soon").unwrap_err().to_string();
        assert_eq!(error, "invalid time \"soon\" of a: expected e.g. 1,234.56 ns/iter");
    }
}
