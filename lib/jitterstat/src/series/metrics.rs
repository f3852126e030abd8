//! Metrics that a program declares in its series, with their values.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;

use super::{Lines, SeriesError, Tick, is_usage_line};
use crate::stats::quantile::nearest_rank_of_counts;

/// Maximum number of metrics.
const MAX_METRICS: usize = 64;
/// Maximum length of the name or unit of a metric, in characters.
const MAX_WORD: usize = 32;

/// The better direction of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Lower values are better, as for a duration.
    Lower,
    /// Higher values are better, as for a throughput.
    Higher,
}

impl fmt::Display for Better {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Lower { "lower" } else { "higher" })
    }
}

/// A metric that a program declared, with its values.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Name of the metric.
    pub name: String,
    /// Unit of its values.
    pub unit: String,
    /// Its better direction.
    pub better: Better,
    /// Its values.
    pub samples: Samples,
}

/// Any number of values above zero in bounded memory. Values that agree in their first ten binary
/// digits, that is to a thousandth, share a bin, which keeps the largest of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    bins: BTreeMap<u32, SampleBin>,
    count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct SampleBin {
    count: u64,
    max: f64,
}

impl Samples {
    fn add(&mut self, value: f64) {
        // The bit patterns of positive numbers are in the order of the numbers.
        let key = (value.to_bits() >> 42) as u32;
        let bin = self.bins.entry(key).or_insert(SampleBin { count: 0, max: value });
        bin.count += 1;
        bin.max = bin.max.max(value);
        self.count += 1;
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the nearest-rank quantile to a thousandth; `None` without values.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<f64> {
        let counts = self.bins.values().map(|bin| (bin.max, bin.count));
        nearest_rank_of_counts(counts, self.count, q)
    }
}

/// Returns whether a line that is not a tick may be the declaration or a value of a metric.
pub(super) fn is_metric_line(line: &str) -> bool {
    line.starts_with(char::is_alphabetic) && line.contains(' ')
}

/// Reads the metrics of a series in the order of their declarations. Ticks and the usage are ignored.
///
/// # Errors
/// Returns a [`SeriesError`] if the series is invalid or cannot be read.
///
/// ```
/// use jitterstat::series::{Better, metrics};
/// let file = "osjitter.series/1\nmetric throughput req/s higher\nthroughput 4.82e4\n";
/// let [throughput] = &metrics(file.as_bytes())?[..] else { panic!() };
/// assert_eq!((throughput.unit.as_str(), throughput.better), ("req/s", Better::Higher));
/// assert_eq!(throughput.samples.quantile(0.5), Some(48_200.0));
/// # Ok::<(), jitterstat::series::SeriesError>(())
/// ```
pub fn metrics(from: impl Read) -> Result<Vec<Metric>, SeriesError> {
    let mut lines = Lines::open(from)?;
    let mut metrics: Vec<Metric> = Vec::new();
    while lines.next()? {
        let is_tick = lines.period_ns.is_some() && Tick::parse(&lines.line).is_some();
        if !is_tick && !is_usage_line(&lines.line) {
            add_metric_line(&mut metrics, &lines.line)
                .map_err(|what| SeriesError::Metric(lines.number, lines.text(), what))?;
        }
    }
    Ok(metrics)
}

/// Adds the declaration or the value on a line, or returns what is wrong with it.
fn add_metric_line(metrics: &mut Vec<Metric>, line: &str) -> Result<(), &'static str> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(5).collect();
    match words[..] {
        ["metric", name, unit, better] => {
            let better = match better {
                "lower" => Better::Lower,
                "higher" => Better::Higher,
                _ => return Err("the last word must be lower or higher, which is better"),
            };
            declare_metric(metrics, name, unit, better)
        }
        [name, value] => {
            let metric = declared_metric(metrics, name)?;
            let value: f64 = value.parse().map_err(|_| "a value must be a decimal number")?;
            check_value(value)?;
            metric.samples.add(value);
            Ok(())
        }
        _ => Err("a line is `metric NAME UNIT lower|higher` or `NAME VALUE`"),
    }
}

/// Adds a metric without values, or returns what is wrong with it.
pub(super) fn declare_metric(
    metrics: &mut Vec<Metric>,
    name: &str,
    unit: &str,
    better: Better,
) -> Result<(), &'static str> {
    if !is_name(name) || !is_word(unit) {
        return Err(
            "a name and a unit are words of at most 32 characters, a name begins with a letter",
        );
    }
    if metrics.len() == MAX_METRICS || metrics.iter().any(|metric| metric.name == name) {
        return Err("a metric is declared once, and at most 64 are");
    }
    let (name, unit) = (name.to_owned(), unit.to_owned());
    metrics.push(Metric { name, unit, better, samples: Samples::default() });
    Ok(())
}

/// Returns the metric with a name.
pub(super) fn declared_metric<'a>(
    metrics: &'a mut [Metric],
    name: &str,
) -> Result<&'a mut Metric, &'static str> {
    metrics
        .iter_mut()
        .find(|metric| metric.name == name)
        .ok_or("a metric is declared before its values: metric NAME UNIT lower|higher")
}

pub(super) fn check_value(value: f64) -> Result<(), &'static str> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err("a value must be a number above zero")
    }
}

fn is_word(text: &str) -> bool {
    (1..=MAX_WORD).contains(&text.chars().count())
        && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_name(text: &str) -> bool {
    is_word(text) && text.starts_with(char::is_alphabetic) && text != "metric"
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::series::SCHEMA;
    use crate::stats::quantile::nearest_rank;

    #[test]
    fn invalid_metric_errors_name_the_line() {
        let header = "osjitter.series/1\nmetric x ns lower\n";
        for (text, expected) in [
            ("y 5\n", "declared before"),
            ("x 0\n", "above zero"),
            ("x -3\n", "above zero"),
            ("x NaN\n", "above zero"),
            ("x inf\n", "above zero"),
            ("x five\n", "decimal number"),
            ("x\n", "a line is"),
            ("5\n", "a line is"),
            ("x 5 ns\n", "a line is"),
            ("metric x ns lower\n", "declared once"),
            ("metric 5x ns lower\n", "begins with a letter"),
            ("metric metric ns lower\n", "begins with a letter"),
            ("metric y ns less\n", "lower or higher"),
        ] {
            let error = metrics(format!("{header}{text}").as_bytes()).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains("line 3"), "{text:?}: {error}");
        }
        assert!(metrics("osjitter.series/1 5\n".as_bytes()).is_err());
        let many: String = (0..65).map(|i| format!("metric m{i} ns lower\n")).collect();
        assert!(metrics(format!("{SCHEMA}\n{many}").as_bytes()).is_err());
    }

    #[test]
    fn sample_memory_is_bounded() {
        let mut samples = Samples::default();
        for i in 1..=1_000_000 {
            samples.add(f64::from(i));
        }
        assert_eq!(samples.count(), 1_000_000);
        assert!(samples.bins.len() < 12_000, "{}", samples.bins.len());
    }

    proptest! {
        #[test]
        fn quantiles_are_within_a_thousandth(mut values in proptest::collection::vec(1e-9_f64..1e12, 1..200), q in 0.0_f64..=1.0) {
            let mut samples = Samples::default();
            for &value in &values {
                samples.add(value);
            }
            values.sort_by(f64::total_cmp);
            let exact = nearest_rank(&values, q).unwrap();
            let found = samples.quantile(q).unwrap();
            prop_assert!((found / exact - 1.0).abs() < 1.0 / 1024.0, "{} {}", found, exact);
        }
    }
}
