//! Reads `oslat --json` of rt-tests, and the numbers of its text: a busy loop on each CPU that counts every iteration by its
//! duration.
//!
//! A label is the upper edge of its bin in microseconds, rounded up, in all versions. Versions up to
//! 2.4 round the smallest and the largest value in the same way; later ones do not, so that the
//! label of the last bin is above the largest value. Bins whose width is no multiple of a
//! microsecond (`-W 500`) have labels with decimals, and the smallest and the largest value are in
//! nanoseconds then.

use std::collections::BTreeMap;
use std::fmt;

use files::report::{Clock, MAX_NS, Report, Warning};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Number;

use crate::bins::{self, BinnedValues, RawBins, StatedFigures};
use crate::import_error::{ImportPlace, ImportReason, Result};
use crate::imported::{
    ImportedReport, check_count, clock, compare_gaps_hint, json, no_cost, no_rounds, rounded,
    subject, unique_numbers,
};
use crate::rt_tests::Frame;
use files::quantity::GAPS;

pub(super) const TOOL: &str = "oslat";
pub(super) const NS_PER_US: u64 = 1_000;
const HINT: &str = "Run oslat with a larger -b, so that every value has a bin.";

#[derive(Deserialize)]
struct File {
    #[serde(deserialize_with = "unique_numbers")]
    thread: BTreeMap<u64, Thread>,
}

#[derive(Deserialize)]
struct Thread {
    cpu: Option<u64>,
    /// Frequency of the CPU counter in MHz.
    freq: Option<u64>,
    min: Option<Number>,
    max: Option<Number>,
    /// In microseconds, even if the smallest and the largest value are in nanoseconds.
    avg: Option<f64>,
    histogram: LabelledBins,
}

/// Bins with the upper edge of each in nanoseconds.
struct LabelledBins {
    bins: RawBins,
    /// Whether the labels have decimals.
    has_decimals: bool,
}

impl<'de> Deserialize<'de> for LabelledBins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Bins;
        impl<'de> Visitor<'de> for Bins {
            type Value = LabelledBins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bins and their counts")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<LabelledBins, A::Error> {
                let mut has_decimals = false;
                let next = || next_bin(&mut map, &mut has_decimals);
                let bins = RawBins::collect(next, A::Error::custom)?;
                Ok(LabelledBins { bins, has_decimals })
            }
        }
        deserializer.deserialize_map(Bins)
    }
}

fn next_bin<'de, A: MapAccess<'de>>(
    map: &mut A,
    has_decimals: &mut bool,
) -> std::result::Result<Option<(u64, u64)>, A::Error> {
    let Some((label, count)) = map.next_entry::<String, u64>()? else { return Ok(None) };
    *has_decimals |= label.contains('.');
    let invalid = || A::Error::custom(format!("invalid bin {label:?}: expected microseconds"));
    let ns = parse_microseconds(&label).ok_or_else(invalid)?;
    Ok(Some((ns, count)))
}

/// Parses microseconds with up to three decimals as nanoseconds.
pub(super) fn parse_microseconds(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if decimals.len() > 3 || !is_number(whole) || !is_number(decimals) {
        return None;
    }
    let fraction: u64 = format!("{decimals:0<3}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(NS_PER_US)?.checked_add(fraction)
}

/// A thread of oslat in nanoseconds, from JSON or from text.
pub(super) struct OslatThread {
    pub name: u64,
    pub cpu: Option<u64>,
    /// Frequency of the CPU counter in MHz.
    pub counter_mhz: Option<u64>,
    /// The upper edge of each bin, with its count.
    pub bins: RawBins,
    pub min_ns: Option<u64>,
    pub max_ns: Option<u64>,
    pub mean_ns: Option<f64>,
}

pub(super) fn read(text: &str, frame: &Frame) -> Result<Report> {
    let file: File = json(text, "oslat result")?;
    frame.check_threads(file.thread.len())?;
    let has_decimals = file.thread.values().any(|thread| thread.histogram.has_decimals);
    let threads = file.thread.into_iter().map(|(name, thread)| {
        let place = ImportPlace::Entry { object: "thread", number: name };
        thread.into_thread(name).map_err(|e| e.at(place))
    });
    let threads = threads.collect::<Result<Vec<_>>>()?;
    let mut imported = frame.imported(TOOL, counter(&threads, has_decimals));
    add_threads(&mut imported, &threads, has_decimals)?;
    Ok(imported.report())
}

/// Returns the clock of the threads.
pub(super) fn counter(threads: &[OslatThread], has_decimals: bool) -> Clock {
    let step_ns = if has_decimals { 1 } else { NS_PER_US };
    let mut clock = clock("the CPU counter, by oslat", Some(step_ns));
    if let Some(mhz) = threads.iter().find_map(|thread| thread.counter_mhz) {
        clock.rate_hz = mhz as f64 * 1e6;
        clock.rate_known_by = "oslat's own calibration, in whole MHz".to_owned();
    }
    clock
}

/// Adds each thread as a subject, and the warnings of oslat.
pub(super) fn add_threads(
    to: &mut ImportedReport,
    threads: &[OslatThread],
    has_decimals: bool,
) -> Result<()> {
    check_count("thread", threads.len())?;
    to.warnings.extend(warnings(has_decimals));
    for thread in threads {
        let name = thread.name;
        let is_shared = threads.iter().filter(|other| other.cpu == thread.cpu).count() > 1;
        let id = match thread.cpu {
            Some(cpu) if !is_shared => format!("{TOOL}/cpu-{cpu}"),
            Some(cpu) => format!("{TOOL}/cpu-{cpu}/thread-{name}"),
            None => format!("{TOOL}/thread-{name}"),
        };
        let place = ImportPlace::Entry { object: "thread", number: name };
        let values = thread.values().map_err(|e| e.at(place))?;
        let mut subject = subject(id, TOOL, None);
        subject.cpu = thread.cpu;
        bins::add_subject(to, subject, values, HINT);
    }
    Ok(())
}

fn warnings(has_decimals: bool) -> Vec<Warning> {
    let step = if has_decimals { "bins, whose labels are microseconds" } else { "microseconds" };
    vec![
        Warning::new(
            GAPS,
            "oslat counts every turn of a busy loop by how long it took: these are gaps, not lateness, there is no period, \
             and millions of turns with nothing in them make up the percentiles.",
            &compare_gaps_hint(),
        ),
        no_rounds(TOOL),
        no_cost(TOOL),
        rounded(TOOL, step, "rounded up"),
    ]
}

impl Thread {
    fn into_thread(self, name: u64) -> Result<OslatThread> {
        let LabelledBins { bins, has_decimals } = self.histogram;
        // Without a value, the smallest one is the largest possible number.
        let has_values = bins.0.values().any(|&count| count > 0);
        let extreme = |number: Option<Number>| {
            number
                .filter(|_| has_values)
                .map(|number| extreme_ns(&number, has_decimals))
                .transpose()
        };
        Ok(OslatThread {
            name,
            cpu: self.cpu,
            counter_mhz: self.freq.filter(|&mhz| mhz > 0),
            min_ns: extreme(self.min)?,
            max_ns: extreme(self.max)?,
            mean_ns: self.avg.map(|us| us * NS_PER_US as f64),
            bins,
        })
    }
}

impl OslatThread {
    /// Returns the values of the thread; `None` if it has none.
    fn values(&self) -> Result<Option<BinnedValues>> {
        let occupied = || self.bins.0.iter().filter(|(_, count)| **count > 0);
        let Some((&last, _)) = occupied().next_back() else { return Ok(None) };
        // The last of all bins includes the values above it, so that it does not show the maximum.
        let max = self.max_ns.ok_or(ImportReason::MissingFigure { figure: "maximum" })?;
        self.check_maximum(last, max)?;
        // The label of a bin may be above the largest value in it.
        let min = self.min_ns;
        let mut clamped = RawBins::default();
        for (&label, &count) in occupied() {
            let value = label.min(max).max(min.unwrap_or(0));
            *clamped.0.entry(value).or_default() += count;
        }
        let is_open = last < max;
        // Of narrow bins, oslat adds these values to the mean as a thousand times as large.
        let is_narrow = occupied().any(|(label, _)| !label.is_multiple_of(NS_PER_US));
        let mean = self.mean_ns.filter(|_| !(is_narrow && is_open));
        let stated = StatedFigures { count: None, min, max: Some(max), mean };
        let values = BinnedValues::new(&clamped, &stated, 1)?;
        Ok(values.map(|values| if is_open { values.with_open_last_bin() } else { values }))
    }

    /// Checks that the last bin with values may contain the maximum.
    fn check_maximum(&self, last: u64, max: u64) -> Result<()> {
        let mut occupied = self.bins.0.iter().filter(|(_, count)| **count > 0).rev().skip(1);
        let before = occupied.next().map_or(0, |(&label, _)| label);
        let labels: Vec<u64> = self.bins.0.keys().copied().collect();
        // With -B, the first bin also includes values below it.
        if labels.first() == Some(&last) {
            return Ok(());
        }
        // All labels are multiples of the width of the bins. With -W, -B can shift them.
        let is_shiftable = labels.iter().any(|label| !label.is_multiple_of(NS_PER_US));
        let width = match is_shiftable {
            true => {
                labels.windows(2).map(|pair| pair[1] - pair[0]).fold(0, greatest_common_divisor)
            }
            false => labels.iter().copied().fold(0, greatest_common_divisor),
        };
        let lowest = before.max(last.saturating_sub(width));
        if max < lowest {
            return Err(ImportReason::MaximumBelowBin { bin_ns: last, max_ns: max }.into());
        }
        Ok(())
    }
}

pub(super) fn greatest_common_divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Returns the smallest or the largest value in nanoseconds.
fn extreme_ns(number: &Number, has_decimals: bool) -> Result<u64> {
    let ns = match (number.as_u64(), has_decimals) {
        (Some(ns), true) => Some(ns),
        (Some(us), false) => us.checked_mul(NS_PER_US),
        (None, _) => parse_microseconds(&number.to_string()),
    };
    ns.filter(|&ns| ns <= MAX_NS)
        .ok_or_else(|| ImportReason::InvalidTime { time: number.to_string() }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(bins: &[(u64, u64)], max_ns: Option<u64>) -> OslatThread {
        OslatThread {
            name: 0,
            cpu: None,
            counter_mhz: None,
            bins: RawBins(bins.iter().copied().collect()),
            min_ns: Some(1_000),
            max_ns,
            mean_ns: None,
        }
    }

    #[test]
    fn maximum_must_fit_last_bin() {
        let whole = [(1_000, 5), (2_000, 5), (32_000, 1)];
        let narrow = [(500, 5), (1_000, 5), (32_000, 1)];
        let sparse = [(8_000, 5), (32_000, 1)];
        for (bins, lowest) in [(whole, 31_000), (narrow, 31_500)] {
            let error = thread(&bins, Some(lowest - 1)).values().err().unwrap().to_string();
            assert!(error.contains("is below the bin 32000 ns"), "{error}");
            for max in [lowest, 32_000, 90_000] {
                assert!(thread(&bins, Some(max)).values().unwrap().is_some(), "{max}");
            }
        }
        // The width of the bins may be that of the lowest label.
        assert!(thread(&sparse, Some(23_999)).values().is_err());
        let shifted = thread(&[(538, 5), (1_038, 5), (1_538, 1)], Some(1_100));
        assert!(shifted.values().unwrap().is_some());
        let error = thread(&whole, None).values().err().unwrap().to_string();
        assert!(error.contains("the maximum is missing"), "{error}");
        assert!(thread(&[(1_000, 0)], None).values().unwrap().is_none());
    }

    #[test]
    fn labels_may_have_decimals() {
        for (text, ns) in [
            ("1", Some(1_000)),
            ("0.500", Some(500)),
            ("12.5", Some(12_500)),
            ("32", Some(32_000)),
            ("1.0005", None),
            ("-1", None),
            ("", None),
            ("1e3", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(parse_microseconds(text), ns, "{text}");
        }
    }
}
