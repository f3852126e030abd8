//! Tests the import of each format in the versions that exist.
//!
//! The files are in `tests/fixtures/formats`, most of them made by the tools and libraries
//! themselves (`scripts/studies/formats/make.sh`). Expected values are those of the format's own
//! reader, or are computed here from the raw numbers of the file.

mod bpftrace;
mod cyclictest;
mod detection;
mod hgrm;
mod hlog;
mod hwlatdetect;
mod jitterdebugger;
mod matrix;
mod oslat;
mod rtla;
mod xenomai;

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::osjitter::{Osjitter, Ran};

/// Returns the path of a file in `tests/fixtures/formats`.
fn fixture(name: &str) -> PathBuf {
    crate::fixtures::fixture("formats").join(name)
}

fn fixture_text(name: &str) -> String {
    std::fs::read_to_string(fixture(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Runs `osjitter report FILE …`.
fn run_report(file: &Path, more: &[&str]) -> Ran {
    Osjitter::new([Path::new("report"), file]).args(more).run()
}

/// Returns the report that a file is imported as.
fn import(file: &Path, more: &[&str]) -> Value {
    let json = run_report(file, &[&["--format", "json"], more].concat()).exits(0).stdout;
    serde_json::from_str(&json).unwrap()
}

/// A text in a file whose name says nothing about its format.
struct NamelessFile {
    directory: TempDir,
}

impl NamelessFile {
    fn new(text: impl AsRef<[u8]>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("file"), text).unwrap();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("file")
    }

    fn import(&self) -> Value {
        import(&self.path(), &[])
    }

    /// Returns the error of a file that is rejected.
    fn error(&self) -> String {
        run_report(&self.path(), &[]).exits(2).stderr
    }
}

fn import_text(text: &str) -> Value {
    NamelessFile::new(text).import()
}

/// Returns the subject with this id.
fn subject<'a>(report: &'a Value, id: &str) -> &'a Value {
    let subjects = report["subjects"].as_array().unwrap();
    subjects.iter().find(|s| s["id"] == id).unwrap_or_else(|| panic!("{id} in {report:#}"))
}

fn ids(report: &Value) -> Vec<&str> {
    let subjects = report["subjects"].as_array().unwrap().iter();
    subjects.map(|s| s["id"].as_str().unwrap()).collect()
}

/// Returns the messages of the warnings with this code.
fn warnings(report: &Value, code: &str) -> Vec<String> {
    let warnings = report["warnings"].as_array().unwrap().iter();
    let messages = warnings.filter(|w| w["code"] == code);
    messages.map(|w| w["message"].as_str().unwrap().to_owned()).collect()
}

/// The numbers of a subject in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
struct Figures {
    count: u64,
    min: i64,
    /// `None` if the source does not state it.
    mean: Option<i64>,
    p50: Option<i64>,
    p99: Option<i64>,
    max: i64,
}

impl Figures {
    fn new(subject: &Value) -> Self {
        let d = &subject["summary"]["lateness_ns"];
        let number = |key: &str| d[key].as_i64();
        let required = |key: &str| number(key).unwrap_or_else(|| panic!("{key} in {subject:#}"));
        Self {
            count: subject["summary"]["ticks"].as_u64().unwrap(),
            min: required("min"),
            mean: number("mean"),
            p50: number("p50"),
            p99: number("p99"),
            max: required("max"),
        }
    }

    /// Computes the numbers of ascending values with their counts. A percentile is the value at its
    /// nearest rank, if five values are above it.
    fn from_bins(bins: &[(i64, u64)], mean: impl Into<Option<i64>>) -> Self {
        let count: u64 = bins.iter().map(|bin| bin.1).sum();
        let at = |q: f64| {
            let rank = (q * count as f64 - 1e-6).ceil() as u64;
            let below = |n: usize| bins[..n].iter().map(|bin| bin.1).sum::<u64>();
            let bin = (0..bins.len()).find(|&n| below(n + 1) >= rank)?;
            Some(bins[bin].0).filter(|_| count as f64 * (1.0 - q) + 1e-6 >= 5.0)
        };
        let (min, max) = (bins[0].0, bins[bins.len() - 1].0);
        Self { count, min, mean: mean.into(), p50: at(0.5), p99: at(0.99), max }
    }

    /// Computes the numbers of a histogram that leaves out its `above` largest values. Of these,
    /// only the largest is known.
    fn with_larger(mut bins: Vec<(i64, u64)>, max: i64, above: u64, mean: i64) -> Self {
        if above > 0 {
            bins.push((max, above));
        }
        let figures = Self::from_bins(&bins, mean);
        let known = |value: &i64| above < 2 || *value < max;
        Self { p50: figures.p50.filter(known), p99: figures.p99.filter(known), ..figures }
    }
}

/// Computes the numbers of a thread of rt-tests or jitterdebugger, in units of `unit_ns`.
fn json_figures(thread: &Value, count: &str, unit_ns: i64) -> Figures {
    let to_bin = |(value, count): (&String, &Value)| {
        (value.parse::<i64>().unwrap() * unit_ns, count.as_u64().unwrap())
    };
    let mut bins: Vec<(i64, u64)> =
        thread["histogram"].as_object().unwrap().iter().map(to_bin).collect();
    bins.sort_unstable();
    let counted: u64 = bins.iter().map(|bin| bin.1).sum();
    let above = thread[count].as_u64().unwrap() - counted;
    let max = thread["max"].as_i64().unwrap() * unit_ns;
    let mean = thread["avg"].as_f64().unwrap() * unit_ns as f64;
    Figures::with_larger(bins, max, above, mean.round() as i64)
}
