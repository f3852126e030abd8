//! The lateness values of a subject, as exact as the report kept them.

use files::histogram;
use files::report::Subject;

/// All values of a subject in order, each with how often it was met: a histogram of a thousand
/// million takes no more room than its bins.
#[derive(Clone, Debug, Default)]
pub struct Lateness {
    /// A value, and how many are at or below it.
    steps: Vec<(i64, u64)>,
    /// How many lie above all of these; of them only the largest is known.
    above: u64,
}

impl Lateness {
    /// The samples themselves, or, in a report without samples, the values of its histogram.
    pub fn of(subject: &Subject) -> Self {
        let all: Vec<i64> =
            subject.rounds.iter().flat_map(|r| r.lateness_ns.iter().copied()).collect();
        if all.is_empty()
            && let Some(stored) = subject.histogram.as_ref().and_then(|h| histogram::unpack(h).ok())
        {
            let signed = |value| i64::try_from(value).unwrap_or(i64::MAX);
            let counts =
                stored.iter_recorded().map(|s| (signed(s.value_iterated_to()), s.count_at_value()));
            let above =
                subject.histogram.as_ref().and_then(|h| h.overflow.as_ref()).map_or(0, |o| o.count);
            return Self::from_counts(counts).without_last(above);
        }
        Self::from_values(all)
    }

    pub fn from_values(mut all: Vec<i64>) -> Self {
        all.sort_unstable();
        Self::from_counts(all.into_iter().map(|value| (value, 1)))
    }

    /// Values that rise, with their counts.
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

    /// The same, where the last so many have no value of their own.
    fn without_last(mut self, above: u64) -> Self {
        let known = self.known().saturating_sub(above);
        self.above = self.known() - known;
        let step = self.steps.partition_point(|step| step.1 < known);
        self.steps.truncate(if known > 0 { step + 1 } else { 0 });
        self.steps.iter_mut().for_each(|step| step.1 = step.1.min(known));
        self
    }

    /// All, with those of which only the number is known.
    pub fn count(&self) -> u64 {
        self.known() + self.above
    }

    /// How many have a value.
    pub fn known(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.1)
    }

    /// The value of that rank, from 1.
    pub fn at_rank(&self, rank: u64) -> Option<i64> {
        let step = self.steps.partition_point(|step| step.1 < rank);
        self.steps.get(step).map(|step| step.0)
    }

    pub fn counts(&self) -> impl Iterator<Item = (i64, u64)> + '_ {
        let below = std::iter::once(0).chain(self.steps.iter().map(|step| step.1));
        self.steps.iter().zip(below).map(|(&(value, to), below)| (value, to - below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_and_counts_are_those_of_the_values() {
        let sorted = [-3, -3, 0, 7, 7, 7, 9];
        let all = Lateness::from_counts(sorted.into_iter().map(|v| (v, 1)));
        assert_eq!(all.count(), 7);
        for (rank, value) in (1..).zip(sorted) {
            assert_eq!(all.at_rank(rank), Some(value));
        }
        assert_eq!((all.at_rank(8), Lateness::default().at_rank(1)), (None, None));
        assert_eq!(all.counts().collect::<Vec<_>>(), [(-3, 2), (0, 1), (7, 3), (9, 1)]);
        let open = all.without_last(2);
        assert_eq!((open.count(), open.known(), open.at_rank(6)), (7, 5, None));
        assert_eq!(open.counts().collect::<Vec<_>>(), [(-3, 2), (0, 1), (7, 2)]);
        let many = Lateness::from_counts([(1, u64::MAX), (2, u64::MAX)].into_iter());
        assert_eq!(many.count(), u64::MAX, "a count that cannot be stays a number");
    }
}
