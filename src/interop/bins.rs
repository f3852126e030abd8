//! Converts the bins of a foreign histogram, including values above the last bin, to a summary and
//! a stored histogram.

use std::collections::BTreeMap;
use std::fmt;

use cli::exit::{Result, usage};
use cli::time::format_time;
use files::histogram;
use files::report::{Histogram, MAX_COUNT, MAX_NS, Overflow, Status, Subject, Summary, Warning};
use jitterstat::stats::quantile;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::interop::imported::{self, ImportedReport, warning};

/// Maximum number of bins of one histogram; cyclictest has at most 1,000,000.
const MAX_BINS: usize = 1 << 20;

/// Bins in the form `{"bin": count}` of these tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawBins(pub BTreeMap<u64, u64>);

impl RawBins {
    /// Collects bins.
    ///
    /// # Errors
    /// Returns an error if a bin occurs twice, or if there are more bins or values than memory and
    /// counters can hold.
    pub fn collect<E>(
        mut next: impl FnMut() -> std::result::Result<Option<(u64, u64)>, E>,
        error: impl Fn(String) -> E,
    ) -> std::result::Result<Self, E> {
        let (mut bins, mut total) = (BTreeMap::new(), 0_u64);
        while let Some((bin, count)) = next()? {
            total = total.saturating_add(count);
            if bins.insert(bin, count).is_some() {
                return Err(error(format!("bin {bin} comes twice")));
            }
            if bins.len() > MAX_BINS || total > MAX_COUNT {
                return Err(error(format!(
                    "more than {MAX_BINS} bins or {MAX_COUNT} values in one histogram"
                )));
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
    min_ns: i64,
    max_ns: i64,
    mean_ns: i64,
}

/// The figures that a source states in addition to its bins, in its own unit.
pub(super) struct StatedFigures {
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub avg: f64,
}

impl BinnedValues {
    /// Converts bins with a unit of `unit_ns` nanoseconds. If the stated count is larger than that
    /// of the bins, the difference is above the last bin.
    ///
    /// # Errors
    /// Returns an error if the bins and the stated figures contradict each other.
    pub fn new(raw: &RawBins, stated: &StatedFigures, unit_ns: u64) -> Result<Self> {
        let in_bins: u64 = raw.0.values().sum();
        if in_bins > stated.count || stated.count > MAX_COUNT {
            return Err(usage!(
                "the bins contain {in_bins} values, but the stated count is {}",
                stated.count
            ));
        }
        let ns = |value: u64| {
            let ns = value
                .checked_mul(unit_ns)
                .filter(|&ns| ns <= MAX_NS)
                .and_then(|ns| i64::try_from(ns).ok());
            ns.ok_or_else(|| usage!("invalid time {value}: expected at most {MAX_NS} ns"))
        };
        let (min_ns, max_ns) = (ns(stated.min)?, ns(stated.max)?);
        let occupied = raw.0.iter().filter(|(_, n)| **n > 0);
        let bins = occupied.map(|(&v, &n)| Ok((ns(v)?, n))).collect::<Result<Vec<_>>>()?;
        if let Some((value, _)) = bins.iter().find(|(v, _)| !(min_ns..=max_ns).contains(v)) {
            return Err(usage!(
                "there are values in bin {value} ns, outside of the stated minimum {min_ns} ns and maximum {max_ns} ns"
            ));
        }
        let mean = stated.avg * unit_ns as f64;
        if !(mean >= 0.0 && mean <= MAX_NS as f64) {
            return Err(usage!("invalid mean {}: expected a time", stated.avg));
        }
        Ok(Self { bins, above: stated.count - in_bins, min_ns, max_ns, mean_ns: mean as i64 })
    }

    /// Treats the last bin as open: its values are above the previous bin.
    pub fn with_open_last_bin(mut self) -> Self {
        if let Some((_, count)) = self.bins.pop_if(|(value, _)| *value < self.max_ns) {
            self.above += count;
        }
        self
    }

    fn count(&self) -> u64 {
        self.bins.iter().map(|(_, n)| n).sum::<u64>() + self.above
    }

    /// Computes counts and percentiles. A percentile above the last bin is unknown and left out.
    fn summary(&self, period_ns: u64) -> Summary {
        let n = self.count();
        let at = |q: f64| {
            let rank = quantile::rank(usize::try_from(n).unwrap_or(usize::MAX), q) as u64;
            let mut seen = 0;
            let bin = self.bins.iter().find(|(_, count)| {
                seen += count;
                seen >= rank
            });
            bin.map(|(value, _)| *value)
        };
        let missed = if period_ns > 0 { self.count_at_least(period_ns) } else { 0 };
        imported::summary(n, missed, [self.min_ns, self.mean_ns, self.max_ns], at)
    }

    /// Returns the number of values that are known to be at least a period.
    fn count_at_least(&self, period_ns: u64) -> u64 {
        let period = i64::try_from(period_ns).unwrap_or(i64::MAX);
        let in_bins: u64 = self.bins.iter().filter(|(v, _)| *v >= period).map(|(_, n)| n).sum();
        let highest_bin = self.bins.last().map_or(i64::MIN, |(v, _)| *v);
        let above = match self.above {
            0 => 0,
            above if highest_bin >= period => above,
            _ => u64::from(self.max_ns >= period),
        };
        in_bins + above
    }

    /// Returns the warning about values above the last bin, or about missing bins.
    fn warning(&self, id: &str, hint: &str) -> Option<Warning> {
        let (above, count, largest) = (self.above, self.count(), format_time(self.max_ns));
        let Some((last, _)) = self.bins.last() else {
            let message =
                format!("{id}: there are no bins, only least, mean and largest of {count} values.");
            return Some(warning("import-no-histogram", message, hint));
        };
        let last = format_time(*last);
        let message = format!(
            "{id}: {above} of {count} values lie above the last bin with a count of its own, at {last}; of them only the \
             largest, {largest}, is known. A percentile among them is left out; the histogram counts them at {largest}."
        );
        (above > 0).then(|| warning("import-overflow", message, hint))
    }
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
        let above = (values.max_ns, values.above);
        let overflow = (values.above > 0).then_some(Overflow { count: values.above });
        subject.histogram = (!values.bins.is_empty()).then(|| Histogram {
            overflow,
            ..histogram::pack_counts(values.bins.iter().copied().chain([above]))
        });
        subject.summary = Some(values.summary(subject.period_ns));
        subject.status = Status::Measured;
        to.warnings.extend(values.warning(&subject.id, hint));
    }
    to.subjects.push(subject);
}
