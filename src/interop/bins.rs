//! Bins of a foreign histogram, with what lies above the last one, as a summary and a stored
//! histogram.

use std::collections::BTreeMap;
use std::fmt;

use cli::exit::{Result, usage};
use cli::time::format_time;
use files::histogram;
use files::report::{Histogram, MAX_COUNT, MAX_NS, Overflow, Status, Subject, Summary, Warning};
use jitterstat::stats::quantile;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::interop::imported::{self, Imported, warning};

/// Most bins of one histogram: cyclictest takes at most 1,000,000.
const MAX_BINS: usize = 1 << 20;

/// `{"bin": count}` as these tools write it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RawBins(pub BTreeMap<u64, u64>);

impl RawBins {
    /// Bins as they come: none twice, and no more than memory and counters hold.
    pub fn gathered<E>(
        mut next: impl FnMut() -> std::result::Result<Option<(u64, u64)>, E>,
        wrong: impl Fn(String) -> E,
    ) -> std::result::Result<Self, E> {
        let (mut bins, mut total) = (BTreeMap::new(), 0_u64);
        while let Some((bin, count)) = next()? {
            total = total.saturating_add(count);
            if bins.insert(bin, count).is_some() {
                return Err(wrong(format!("bin {bin} comes twice")));
            }
            if bins.len() > MAX_BINS || total > MAX_COUNT {
                return Err(wrong(format!(
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
                RawBins::gathered(|| map.next_entry(), A::Error::custom)
            }
        }
        deserializer.deserialize_map(Bins)
    }
}

/// What one thread of a source measured.
pub(super) struct Binned {
    /// Values in nanoseconds and how often they were met, all exact within the source's step.
    bins: Vec<(i64, u64)>,
    /// How many lie above; of those only the largest is known.
    above: u64,
    min_ns: i64,
    max_ns: i64,
    mean_ns: i64,
}

/// The figures that a source states beside its bins, in its own unit.
pub(super) struct Stated {
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub avg: f64,
}

impl Binned {
    /// Takes bins in a unit of so many nanoseconds; what the count has more than the bins lies
    /// above them.
    pub fn new(raw: &RawBins, stated: &Stated, unit_ns: u64) -> Result<Self> {
        let in_bins: u64 = raw.0.values().sum();
        if in_bins > stated.count || stated.count > MAX_COUNT {
            return Err(usage!("the bins hold {in_bins} values, and {} is stated", stated.count));
        }
        let ns = |value: u64| {
            let ns = value
                .checked_mul(unit_ns)
                .filter(|&ns| ns <= MAX_NS)
                .and_then(|ns| i64::try_from(ns).ok());
            ns.ok_or_else(|| usage!("{value} is no time that a tick can be late"))
        };
        let (min_ns, max_ns) = (ns(stated.min)?, ns(stated.max)?);
        let used = raw.0.iter().filter(|(_, n)| **n > 0);
        let bins = used.map(|(&v, &n)| Ok((ns(v)?, n))).collect::<Result<Vec<_>>>()?;
        if let Some((value, _)) = bins.iter().find(|(v, _)| !(min_ns..=max_ns).contains(v)) {
            return Err(usage!(
                "there are values in bin {value} ns, outside of the stated minimum {min_ns} ns and maximum {max_ns} ns"
            ));
        }
        let mean = stated.avg * unit_ns as f64;
        if !(mean >= 0.0 && mean <= MAX_NS as f64) {
            return Err(usage!("the mean {} is none", stated.avg));
        }
        Ok(Self { bins, above: stated.count - in_bins, min_ns, max_ns, mean_ns: mean as i64 })
    }

    /// The same, where the last bin also took everything above it.
    pub fn with_open_last_bin(mut self) -> Self {
        if let Some((_, count)) = self.bins.pop_if(|(value, _)| *value < self.max_ns) {
            self.above += count;
        }
        self
    }

    fn count(&self) -> u64 {
        self.bins.iter().map(|(_, n)| n).sum::<u64>() + self.above
    }

    /// Counts and percentiles. A percentile that falls above the last bin is not known, and left
    /// out.
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
        let missed = if period_ns > 0 { self.at_least(period_ns) } else { 0 };
        imported::summary(n, missed, [self.min_ns, self.mean_ns, self.max_ns], at)
    }

    /// How many are known to be as late as a period.
    fn at_least(&self, period_ns: u64) -> u64 {
        let period = i64::try_from(period_ns).unwrap_or(i64::MAX);
        let in_bins: u64 = self.bins.iter().filter(|(v, _)| *v >= period).map(|(_, n)| n).sum();
        let highest_bin = self.bins.last().map_or(i64::MIN, |(v, _)| *v);
        let above = match self.above {
            0 => 0,
            all if highest_bin >= period => all,
            _ => u64::from(self.max_ns >= period),
        };
        in_bins + above
    }

    /// What the reader must know about this histogram.
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

/// Adds a thread or CPU with what it measured, if anything; the hint is for whoever has too few
/// bins.
///
/// What lies above the last bin counts at the largest value in the histogram, the only one that is
/// known.
pub(super) fn add(to: &mut Imported, mut subject: Subject, values: Option<Binned>, hint: &str) {
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
