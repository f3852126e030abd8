//! Converts the bins of a foreign histogram, including values above the last bin, to a summary and
//! a stored histogram.

use std::collections::BTreeMap;
use std::fmt;

use cli::time::format_time;
use files::histogram;
use files::report::{Histogram, MAX_COUNT, MAX_NS, Overflow, Status, Subject, Summary, Warning};
use jitterstat::stats::{Interval, quantile};
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use crate::import_error::{ImportReason, Result};
use crate::imported::{self, ImportedReport, MissedTicks};

/// Maximum number of bins of one histogram; cyclictest has at most 1,000,000.
const MAX_BINS: usize = 1 << 20;

/// Bins in the form `{"bin": count}` of these tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct RawBins(pub BTreeMap<u64, u64>);

impl RawBins {
    /// Collects bins.
    ///
    /// # Errors
    /// Returns an error if a bin occurs twice, or if there are more bins or values than memory and
    /// counters can hold.
    pub fn collect<E>(
        mut next: impl FnMut() -> std::result::Result<Option<(u64, u64)>, E>,
        error: impl Fn(ImportReason) -> E,
    ) -> std::result::Result<Self, E> {
        let (mut bins, mut total) = (BTreeMap::new(), 0_u64);
        while let Some((bin, count)) = next()? {
            total = total.saturating_add(count);
            if bins.insert(bin, count).is_some() {
                return Err(error(ImportReason::RepeatedBin { bin }));
            }
            if bins.len() > MAX_BINS || total > MAX_COUNT {
                return Err(error(ImportReason::TooManyValues { max_bins: MAX_BINS }));
            }
        }
        Ok(Self(bins))
    }
}

impl<'de> Deserialize<'de> for RawBins {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Bins;
        impl<'de> Visitor<'de> for Bins {
            type Value = RawBins;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("bins and their counts")
            }

            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<RawBins, A::Error> {
                RawBins::collect(|| map.next_entry(), A::Error::custom)
            }
        }
        deserializer.deserialize_map(Bins)
    }
}

/// The measurement of one thread of a source.
pub(super) struct BinnedValues {
    /// Values in nanoseconds with their counts, exact within the resolution of the source.
    bins: Vec<(i64, u64)>,
    /// Number of values above the last bin. Only the largest of them is known.
    above: u64,
    range_ns: Interval<i64>,
    /// The mean, if the source states one that is possible.
    mean_ns: Option<i64>,
}

/// The figures that a source states in addition to its bins, in its own unit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StatedFigures {
    pub count: Option<u64>,
    pub min: Option<u64>,
    pub max: Option<u64>,
    pub mean: Option<f64>,
}

impl StatedFigures {
    /// Checks that a source that always states the maximum of its values does so.
    pub fn check_maximum(&self) -> Result<()> {
        if self.max.is_none() && self.count != Some(0) {
            return Err(ImportReason::MissingFigure { figure: "maximum" }.into());
        }
        Ok(())
    }
}

impl BinnedValues {
    /// Converts bins with a unit of `unit_ns` nanoseconds; `None` without a value. If the stated
    /// count is larger than that of the bins, the difference is above the last bin. A count, a
    /// minimum and a maximum that are not stated follow from the bins. The mean does not, since the
    /// place of a value within its bin is not known.
    ///
    /// # Errors
    /// Returns an error if the bins and the stated figures contradict each other, or if a figure
    /// neither is stated nor follows from the bins.
    pub fn new(raw: &RawBins, stated: &StatedFigures, unit_ns: u64) -> Result<Option<Self>> {
        let in_bins: u64 = raw.0.values().sum();
        let count = stated.count.unwrap_or(in_bins);
        if in_bins > count || count > MAX_COUNT {
            return Err(ImportReason::WrongCount { in_bins, stated: count }.into());
        }
        if count == 0 {
            return Ok(None);
        }
        let above = count - in_bins;
        let ns = |value: u64| nanoseconds(value, unit_ns);
        let occupied = raw.0.iter().filter(|(_, n)| **n > 0);
        let bins = occupied.map(|(&v, &n)| Ok((ns(v)?, n))).collect::<Result<Vec<_>>>()?;
        let [min, max] = [stated.min, stated.max].map(|figure| figure.map(ns).transpose());
        let range_ns = value_range(&bins, above, min?, max?)?;
        let is_possible =
            |mean: &f64| (range_ns.lower as f64..=range_ns.upper as f64).contains(mean);
        let mean = stated.mean.map(|mean| mean * unit_ns as f64).filter(is_possible);
        let mean_ns = mean.map(|mean| (mean as i64).clamp(range_ns.lower, range_ns.upper));
        Ok(Some(Self { bins, above, range_ns, mean_ns }))
    }

    /// Treats the last bin as open: its values are above the previous bin.
    pub fn with_open_last_bin(mut self) -> Self {
        if let Some((_, count)) = self.bins.pop_if(|(value, _)| *value < self.range_ns.upper) {
            self.above += count;
        }
        self
    }

    fn count(&self) -> u64 {
        self.bins.iter().map(|(_, n)| n).sum::<u64>() + self.above
    }

    /// Computes counts and percentiles. A percentile above the last bin is unknown and left out.
    fn summary(&self, period_ns: Option<u64>) -> Summary {
        let missed = period_ns.map_or(MissedTicks::default(), |ns| self.missed_ticks(ns));
        let count = self.count();
        let at = |q| quantile::nearest_rank_of_counts(self.bins.iter().copied(), count, q);
        imported::summary(count, missed, self.range_ns, self.mean_ns, at)
    }

    /// Counts the missed ticks. A tool leaves out the deadlines that passed during a stall, so that
    /// their exact number is known only if no value can be a period late.
    fn missed_ticks(&self, period_ns: u64) -> MissedTicks {
        match self.count_at_least(period_ns) {
            0 => MissedTicks { exact: Some(0), at_least: None },
            known => MissedTicks { exact: None, at_least: Some(known) },
        }
    }

    /// Returns the number of values that are known to be at least a period.
    fn count_at_least(&self, period_ns: u64) -> u64 {
        let period = i64::try_from(period_ns).unwrap_or(i64::MAX);
        let in_bins: u64 = self.bins.iter().filter(|(v, _)| *v >= period).map(|(_, n)| n).sum();
        let highest_bin = self.bins.last().map_or(i64::MIN, |(v, _)| *v);
        let above = match self.above {
            0 => 0,
            above if highest_bin >= period => above,
            _ => u64::from(self.range_ns.upper >= period),
        };
        in_bins + above
    }

    /// Returns the warnings about values above the last bin or missing bins, and about the mean.
    fn warnings(&self, id: &str, hint: &str) -> Vec<Warning> {
        let (above, count) = (self.above, self.count());
        let largest = format_time(self.range_ns.upper);
        let Some((last, _)) = self.bins.last() else {
            let message = format!(
                "{id}: there are no bins, only the range of {count} values and perhaps their mean."
            );
            return vec![Warning::new("import-no-histogram", message, hint)];
        };
        let mut warnings = Vec::new();
        if above > 0 {
            let last = format_time(*last);
            let message = format!(
                "{id}: {above} of {count} values are above the last bin with a count of its own, at {last}; of them \
                 only the largest, {largest}, is known. A percentile among them is left out; the histogram counts \
                 them at {largest}."
            );
            warnings.push(Warning::new("import-overflow", message, hint));
        }
        if self.mean_ns.is_none() {
            let message = format!("{id}: no possible mean is stated, so it is unknown.");
            warnings.push(Warning::new("import-mean", message, "Use the percentiles instead."));
        }
        warnings
    }
}

/// Converts a value of a source.
fn nanoseconds(value: u64, unit_ns: u64) -> Result<i64> {
    let ns = value.checked_mul(unit_ns).filter(|&ns| ns <= MAX_NS);
    ns.and_then(|ns| i64::try_from(ns).ok())
        .ok_or_else(|| ImportReason::InvalidTime { time: value.to_string() }.into())
}

/// Returns the smallest and the largest value, as stated or from the bins.
fn value_range(
    bins: &[(i64, u64)],
    above: u64,
    min: Option<i64>,
    max: Option<i64>,
) -> Result<Interval<i64>> {
    let first = bins.first().map(|(value, _)| *value);
    let last = bins.last().map(|(value, _)| *value).filter(|_| above == 0);
    let missing = |figure: &'static str| ImportReason::MissingFigure { figure };
    let lower = min.or(first).ok_or_else(|| missing("minimum"))?;
    let upper = max.or(last).ok_or_else(|| missing("maximum"))?;
    let is_outside = |(value, _): &&(i64, u64)| !(lower..=upper).contains(value);
    if let Some((value, _)) = bins.iter().find(is_outside) {
        let (bin_ns, min_ns, max_ns) = (*value, lower, upper);
        return Err(ImportReason::ValuesOutsideRange { bin_ns, min_ns, max_ns }.into());
    }
    if lower > upper {
        return Err(ImportReason::ReversedRange { min_ns: lower, max_ns: upper }.into());
    }
    if let Some((bin_ns, _)) = bins.last().filter(|(value, _)| above > 0 && upper <= *value) {
        let (bin_ns, max_ns) = (*bin_ns, upper);
        return Err(ImportReason::OverflowBelowBins { above, bin_ns, max_ns }.into());
    }
    Ok(Interval { lower, upper })
}

/// Adds a thread or CPU with its measurement, if there is one. `hint` explains how to get more
/// bins.
///
/// In the histogram, values above the last bin are counted at the largest value, which is the only
/// one that is known.
pub(super) fn add_subject(
    to: &mut ImportedReport,
    mut subject: Subject,
    values: Option<BinnedValues>,
    hint: &str,
) {
    if let Some(values) = values {
        let above = (values.range_ns.upper, values.above);
        let overflow = (values.above > 0).then_some(Overflow { count: values.above });
        subject.histogram = (!values.bins.is_empty()).then(|| Histogram {
            overflow,
            ..histogram::pack_counts(values.bins.iter().copied().chain([above]))
        });
        let period_ns = Some(subject.period_ns).filter(|&period_ns| period_ns > 0);
        subject.summary = Some(values.summary(period_ns));
        subject.status = Status::Measured;
        to.warnings.extend(values.warnings(&subject.id, hint));
    }
    to.subjects.push(subject);
}
