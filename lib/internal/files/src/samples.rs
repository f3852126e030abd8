//! The lateness values of a subject, as exact as the report stores them.

use crate::histogram;
use crate::report::{self, Subject};

/// The distinct values of a subject in ascending order, each with its count.
///
/// The size depends on the number of distinct values only, so that a histogram of a billion ticks
/// needs no more memory than its bins.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// Each value with the number of values at or below it.
    steps: Vec<(i64, u64)>,
    /// Number of values above all of `steps`. Only the largest of them is known, from the summary.
    above: u64,
}

impl Lateness {
    /// Reads the samples of a subject, or the values of its histogram if the report has no samples.
    pub fn from_subject(subject: &Subject) -> Self {
        let mut samples: Vec<i64> = Vec::new();
        for round in &subject.rounds {
            samples.extend(&round.lateness_ns);
        }
        let histogram = subject.histogram.as_ref().filter(|_| samples.is_empty());
        histogram.and_then(Self::from_histogram).unwrap_or_else(|| Self::from_values(samples))
    }

    /// Reads the values of a histogram; `None` if it cannot be decoded.
    fn from_histogram(stored: &report::Histogram) -> Option<Self> {
        let histogram = histogram::unpack(stored).ok()?;
        let mut counts = Vec::new();
        for step in histogram.iter_recorded() {
            let value = i64::try_from(step.value_iterated_to()).unwrap_or(i64::MAX);
            counts.push((value, step.count_at_value()));
        }
        let above = stored.overflow.as_ref().map_or(0, |overflow| overflow.count);
        Some(Self::from_counts(counts.into_iter()).with_unknown_last(above))
    }

    /// Builds the list from values in any order.
    pub fn from_values(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        Self::from_counts(samples.into_iter().map(|value| (value, 1)))
    }

    /// Builds the list from ascending values and their counts.
    fn from_counts(counts: impl Iterator<Item = (i64, u64)>) -> Self {
        let mut steps: Vec<(i64, u64)> = Vec::new();
        for (value, count) in counts {
            match steps.last_mut() {
                Some(last) if last.0 == value => last.1 = last.1.saturating_add(count),
                last => {
                    let below = last.map_or(0, |last| last.1);
                    steps.push((value, below.saturating_add(count)));
                }
            }
        }
        Self { steps, above: 0 }
    }

    /// Moves the last `above` values to those above the last bin.
    fn with_unknown_last(mut self, above: u64) -> Self {
        let known = self.known().saturating_sub(above);
        self.above = self.known() - known;
        let step = self.steps.partition_point(|step| step.1 < known);
        self.steps.truncate(if known > 0 { step + 1 } else { 0 });
        for (_, below) in &mut self.steps {
            *below = known.min(*below);
        }
        self
    }

    /// Returns the number of all values, including those above the last bin.
    pub fn count(&self) -> u64 {
        self.known() + self.above
    }

    /// Returns the number of values that are known exactly.
    pub fn known(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.1)
    }

    /// Returns the number of values above the last bin, of which only the largest is known.
    pub fn above(&self) -> u64 {
        self.above
    }

    /// Returns the value at a rank, from 1.
    pub fn at_rank(&self, rank: u64) -> Option<i64> {
        let step = self.steps.partition_point(|step| step.1 < rank);
        self.steps.get(step).map(|step| step.0)
    }

    /// Returns the known values with their counts, in ascending order.
    pub fn counts(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let below = std::iter::once(0).chain(self.steps.iter().map(|step| step.1));
        self.steps.iter().zip(below).map(|(&(value, to), below)| (value, to - below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_counts_match_values() {
        let sorted = [-3, -3, 0, 7, 7, 7, 9];
        let lateness = Lateness::from_counts(sorted.into_iter().map(|v| (v, 1)));
        assert_eq!(lateness.count(), 7);
        for (rank, value) in (1..).zip(sorted) {
            assert_eq!(lateness.at_rank(rank), Some(value));
        }
        assert_eq!((lateness.at_rank(8), Lateness::default().at_rank(1)), (None, None));
        assert_eq!(lateness.counts().collect::<Vec<_>>(), [(-3, 2), (0, 1), (7, 3), (9, 1)]);
        let open = lateness.with_unknown_last(2);
        assert_eq!((open.count(), open.known(), open.at_rank(6)), (7, 5, None));
        assert_eq!(open.counts().collect::<Vec<_>>(), [(-3, 2), (0, 1), (7, 2)]);
        let many = Lateness::from_counts([(1, u64::MAX), (2, u64::MAX)].into_iter());
        assert_eq!(many.count(), u64::MAX, "counts saturate");
    }
}
