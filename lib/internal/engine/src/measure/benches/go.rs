//! The lines that Go's `testing` package prints: `BenchmarkFib-8    1000    1234 ns/op`.

use super::{BenchOutputError, BenchSamples, Flag, join_name, option};

/// Flags of a short run. The names with `test.` are accepted by test binaries and by `go test`.
pub const FLAGS: &[Flag] = &[
    option("-test.run", "^$"),
    option("-test.benchtime", "20ms").or_brief("5ms"),
    option("-test.count", "3"),
];

/// A benchmark of a package.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct PackageBench<'a> {
    package: &'a str,
    name: &'a str,
}

/// Parses the benchmarks of a run. Several lines of a benchmark are several samples. With several
/// packages, a name begins with its package.
pub fn parse(text: &str) -> Result<Vec<BenchSamples>, BenchOutputError> {
    let mut samples: Vec<(PackageBench<'_>, f64)> = Vec::new();
    let (mut package, mut packages) = ("", 0);
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("pkg: ") {
            (package, packages) = (name.trim(), packages + 1);
        }
        if let Some((name, ns)) = parse_line(line)? {
            samples.push((PackageBench { package, name }, ns));
        }
    }
    samples.sort_by_key(|(bench, _)| *bench);
    let mut benches = Vec::new();
    for samples in samples.chunk_by(|a, b| a.0 == b.0) {
        let PackageBench { package, name } = samples[0].0;
        let name = if packages > 1 { join_name(&[package, name], ".")? } else { name.to_owned() };
        benches.push(BenchSamples { name, ns: samples.iter().map(|(_, ns)| *ns).collect() });
    }
    Ok(benches)
}

/// Parses the name and the time of a line. Returns `None` for other lines, such as the output of a
/// benchmark.
fn parse_line(line: &str) -> Result<Option<(&str, f64)>, BenchOutputError> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [name, iterations, figures @ ..] = &words[..] else { return Ok(None) };
    if !name.starts_with("Benchmark") || iterations.parse::<u64>().is_err() {
        return Ok(None);
    }
    // A benchmark can replace the time by a figure of its own.
    let mut figures = figures.chunks_exact(2);
    let Some(time) = figures.find(|figure| figure[1] == "ns/op") else { return Ok(None) };
    match time[0].parse() {
        Ok(ns) => Ok(Some((name, ns))),
        Err(_) => Err(BenchOutputError::InvalidTime {
            time: time[0].to_owned(),
            name: (*name).to_owned(),
            example: "1234 ns/op",
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_of_go_is_read() {
        let benches = parse(include_str!("fixtures/go.txt")).unwrap();
        let names: Vec<&str> = benches.iter().map(|bench| bench.name.as_str()).collect();
        assert_eq!(
            names,
            ["BenchmarkHash-2", "BenchmarkSearch/size=1000-2", "BenchmarkSearch/size=100000-2"]
        );
        assert!(benches.iter().all(|bench| bench.ns.len() == 3), "{benches:?}");
    }

    #[test]
    fn names_of_several_packages_differ() {
        let text = "pkg: a.b/x\nBenchmarkA-8\t10\t1.5 ns/op\nBenchmarkA-8\t10\t2 ns/op\nPASS\n\
                    pkg: a.b/y\nBenchmarkA-8 \t 10 \t 3 ns/op \t 8 B/op\n";
        let expected =
            |name: &str, ns: &[f64]| BenchSamples { name: name.to_owned(), ns: ns.into() };
        assert_eq!(
            parse(text).unwrap(),
            [expected("a.b/x.BenchmarkA-8", &[1.5, 2.0]), expected("a.b/y.BenchmarkA-8", &[3.0])]
        );
    }

    #[test]
    fn other_lines_are_ignored() {
        for line in [
            "BenchmarkA-8",
            "BenchmarkA-8 started",
            "Benchmarks take 10 s",
            "BenchmarkA-8 10 3 figures/op",
            "ok  \tx\t1.2s",
        ] {
            assert_eq!(parse(line).unwrap(), [], "{line}");
        }
        let error = parse("BenchmarkA-8 10 1,5 ns/op").unwrap_err().to_string();
        assert_eq!(error, "invalid time \"1,5\" of BenchmarkA-8: expected e.g. 1234 ns/op");
    }
}
