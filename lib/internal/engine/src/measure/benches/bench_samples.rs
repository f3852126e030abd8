//! The numbers of benchmarks: the samples of a run, and the values to which they are reduced.

use std::collections::HashMap;

use files::gate::verdict::UnjudgedReason;
use jitterstat::series::Better;

use super::BenchOutputError;

/// Maximum number of benchmarks of a run.
pub const MAX_BENCHES: usize = 10_000;
/// Maximum size of a name that is made of several parts.
pub const MAX_NAME_BYTES: usize = 512;

/// A benchmark of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchResult {
    /// The id by which the harness selects the benchmark.
    pub name: String,
    /// The numbers that the harness reported, none if it reported none.
    pub numbers: Vec<BenchNumber>,
    /// Why it has no number, if the harness states it.
    pub unmeasured: Option<Unmeasured>,
}

/// The statement of a harness that a benchmark has no number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmeasured {
    pub reason: UnjudgedReason,
    /// The words of the benchmark, which can be empty.
    pub message: String,
}

/// A number of a benchmark in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchNumber {
    /// Name by which `--metric` chooses the number.
    pub name: String,
    /// The unit that the harness states; empty if it states none.
    pub unit: String,
    pub better: Better,
    /// The value, at least zero; `None` if a sample is negative or not finite.
    pub value: Option<f64>,
}

/// The samples of a benchmark in a run, for each of its numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchSamples {
    pub name: String,
    pub numbers: Vec<NumberSamples>,
    pub unmeasured: Option<Unmeasured>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NumberSamples {
    pub name: String,
    pub unit: String,
    pub better: Better,
    pub samples: Vec<f64>,
}

impl BenchSamples {
    pub fn new(name: String, numbers: Vec<NumberSamples>) -> Self {
        Self { name, numbers, unmeasured: None }
    }

    pub fn without_number(name: String, unmeasured: Option<Unmeasured>) -> Self {
        Self { name, numbers: Vec::new(), unmeasured }
    }

    /// Creates a benchmark whose only number is the time of an iteration.
    pub fn from_times(name: String, number: &str, ns: Vec<f64>) -> Self {
        Self::new(name, vec![NumberSamples::new(number, "ns", Better::Lower, ns)])
    }
}

impl NumberSamples {
    pub fn new(name: &str, unit: &str, better: Better, samples: Vec<f64>) -> Self {
        Self { name: name.to_owned(), unit: unit.to_owned(), better, samples }
    }

    fn reduce(self) -> BenchNumber {
        let Self { name, unit, better, samples } = self;
        let value = good_quartile(&samples, better);
        BenchNumber { name, unit, better, value }
    }
}

/// Joins the parts of a name.
///
/// # Errors
///
/// Returns an error if the name is too long. Its parts occur once in the output, but their names can
/// occur in the names of many benchmarks.
pub fn join_name(parts: &[&str], separator: &str) -> Result<String, BenchOutputError> {
    let bytes: usize = parts.iter().map(|part| part.len() + separator.len()).sum();
    match bytes > MAX_NAME_BYTES {
        true => Err(BenchOutputError::LongName),
        false => Ok(parts.join(separator)),
    }
}

/// Reduces the samples of each number to one value. Further benchmarks with the same name get their
/// ordinal as a suffix.
pub fn summarize(samples: Vec<BenchSamples>) -> Result<Vec<BenchResult>, BenchOutputError> {
    if samples.len() > MAX_BENCHES {
        return Err(BenchOutputError::TooManyBenches);
    }
    let mut ordinals: HashMap<String, u64> = HashMap::new();
    let mut results = Vec::new();
    for BenchSamples { name, mut numbers, unmeasured } in samples {
        numbers.retain(|number| !number.samples.is_empty());
        let ordinal = ordinals.entry(name.clone()).or_default();
        *ordinal += 1;
        let name = if *ordinal == 1 { name } else { format!("{name}#{ordinal}") };
        let numbers = numbers.into_iter().map(NumberSamples::reduce).collect();
        results.push(BenchResult { name, numbers, unmeasured });
    }
    results.sort_by(|a, b| a.name.cmp(&b.name));
    match results.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(BenchOutputError::DuplicateName(pair[0].name.clone())),
        None => Ok(results),
    }
}

/// Returns the quartile of samples on their good side. `None` if there is no sample, or a sample
/// that is negative or not finite.
///
/// Interrupts and stolen time only make samples worse, so the value holds as long as a quarter of
/// them is undisturbed.
fn good_quartile(samples: &[f64], better: Better) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let is_valid = sorted.iter().all(|value| value.is_finite() && *value >= 0.0);
    if better == Better::Higher {
        sorted.reverse();
    }
    sorted.get(samples.len().saturating_sub(1) / 4).copied().filter(|_| is_valid)
}

/// Describes each benchmark in a line, for tests.
#[cfg(test)]
pub fn describe(benches: &[BenchSamples]) -> Vec<String> {
    let describe_number = |number: &NumberSamples| {
        format!("{} {} {} {:?}", number.name, number.unit, number.better, number.samples)
    };
    let describe = |bench: &BenchSamples| {
        let numbers: Vec<String> = bench.numbers.iter().map(describe_number).collect();
        let unmeasured = bench.unmeasured.as_ref();
        let unmeasured = unmeasured
            .map_or(String::new(), |found| format!("{}: {}", found.reason, found.message));
        format!("{}: {}{unmeasured}", bench.name, numbers.join(", "))
    };
    benches.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_of_samples_are_exact() {
        let lower = |samples: &[f64]| good_quartile(samples, Better::Lower);
        assert_eq!(lower(&[3.0, 1.0, 2.0]), Some(1.0));
        assert_eq!(lower(&[4.0, 1.0, 2.0, 100.0, 7.0]), Some(2.0));
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        assert_eq!(lower(&ten), Some(3.0));
        assert_eq!(good_quartile(&ten, Better::Higher), Some(8.0));
        assert_eq!(lower(&[0.0]), Some(0.0));
        for invalid in [&[][..], &[-1.0], &[f64::NAN], &[1.0, f64::INFINITY]] {
            assert_eq!(lower(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn numbers_without_samples_are_dropped() {
        let numbers = |ns: Vec<f64>| {
            let bench = BenchSamples::from_times("a".to_owned(), "time", ns);
            summarize(vec![bench]).unwrap().remove(0).numbers
        };
        assert_eq!(numbers(vec![]), [], "it has no number, rather than an invalid one");
        assert_eq!(numbers(vec![f64::NAN])[0].value, None);
    }

    #[test]
    fn results_are_sorted_and_unique() {
        let samples =
            |name: &str, ns: f64| BenchSamples::from_times(name.to_owned(), "time", vec![ns]);
        let found = |samples| -> Vec<(String, Option<f64>)> {
            let results = summarize(samples).unwrap().into_iter();
            results.map(|bench| (bench.name, bench.numbers[0].value)).collect()
        };
        let (a, b) = ("a".to_owned(), "b".to_owned());
        assert_eq!(
            found(vec![samples("b", 2.0), samples("a", 0.0)]),
            [(a.clone(), Some(0.0)), (b, Some(2.0))]
        );
        let expected = [(a, Some(2.0)), ("a#2".to_owned(), Some(1e-9)), ("a#3".to_owned(), None)];
        assert_eq!(
            found(vec![samples("a", 2.0), samples("a", 1e-9), samples("a", f64::NAN)]),
            expected
        );
        let twice = vec![samples("a", 2.0), samples("a", 1.0), samples("a#2", 1.0)];
        let error = summarize(twice).unwrap_err().to_string();
        assert_eq!(error, "it ran two benchmarks with the name \"a#2\"");
        let too_many = (0..=MAX_BENCHES).map(|i| samples(&i.to_string(), 1.0)).collect();
        assert_eq!(
            summarize(too_many).unwrap_err().to_string(),
            "it ran more than 10000 benchmarks"
        );
        let too_long = join_name(&[&"x".repeat(510), "y"], "::").unwrap_err().to_string();
        assert_eq!(too_long, "the name of a benchmark has more than 512 bytes");
    }
}
