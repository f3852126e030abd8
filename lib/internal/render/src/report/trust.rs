//! Marks of the percentiles at which the machine itself was late.

use files::fitness::Fitness;
use files::report::{Distribution, PERCENTILES, Percentile, Report};

use crate::picture::nines;

/// The percentiles of a report at which its machine is trusted: those below the first one at which
/// the spinning control was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Index in [`PERCENTILES`] of the first percentile that is not trusted, if there is one.
    first_distrusted: Option<usize>,
}

impl Trust {
    /// Returns the trust in the machine of a report. Without a verdict on its fitness, every
    /// percentile is trusted.
    pub fn from_report(report: &Report) -> Self {
        Self::from_fitness(report.fitness.as_ref())
    }

    /// Returns the trust in a machine with this fitness.
    pub fn from_fitness(fitness: Option<&Fitness>) -> Self {
        Self { first_distrusted: fitness.and_then(Fitness::first_distrusted) }
    }

    /// Returns whether the machine is trusted at the percentile with this key.
    pub fn covers(self, key: &str) -> bool {
        let Some(first) = self.first_distrusted else { return true };
        PERCENTILES[..first].iter().any(|percentile| percentile.key == key)
    }

    /// Returns whether the machine is trusted at the maximum, which is above every percentile.
    pub fn covers_max(self) -> bool {
        self.first_distrusted.is_none()
    }

    /// Returns the value from which the lateness of a subject is not trusted, if its sample size
    /// supports a percentile that is not.
    pub fn first_distrusted_value(self, lateness: &Distribution) -> Option<i64> {
        let distrusted = &lateness.percentiles()[self.first_distrusted?..];
        distrusted.iter().find_map(|(_, value)| *value)
    }

    /// Returns the heading of the column of a percentile, with a mark if it is not trusted.
    pub fn heading(self, percentile: Percentile) -> String {
        mark_unless(self.covers(percentile.key), percentile.label)
    }

    /// Returns the heading of the column of the maximum, with a mark if it is not trusted.
    pub fn max_heading(self) -> String {
        mark_unless(self.covers_max(), "max")
    }

    /// Explains the mark; `None` if every percentile is trusted.
    pub fn note(self) -> Option<String> {
        let first = PERCENTILES[self.first_distrusted?].label;
        Some(format!("? not trusted: at {first} and above, the machine itself was late"))
    }

    /// Returns the position of the first percentile that is not trusted on the axis of percentiles.
    pub fn first_distrusted_position(self) -> Option<f64> {
        Some(nines::position(PERCENTILES[self.first_distrusted?].quantile))
    }
}

fn mark_unless(is_trusted: bool, name: &str) -> String {
    if is_trusted { name.to_owned() } else { format!("{name}?") }
}

#[cfg(test)]
mod tests {
    use files::fitness::Facts;

    use super::*;

    fn trust(distrust_from: Option<&str>) -> Trust {
        Trust::from_fitness(Some(&Fitness::from_facts(Facts::default(), distrust_from, Some(2))))
    }

    #[test]
    fn percentiles_are_trusted_below_the_first() {
        let headings = |from| PERCENTILES.map(|percentile| trust(from).heading(percentile));
        assert_eq!(headings(None), ["p50", "p90", "p99", "p99.9", "p99.99"]);
        assert_eq!(headings(Some("p99")), ["p50", "p90", "p99?", "p99.9?", "p99.99?"]);
        assert!(headings(Some("p50")).iter().all(|heading| heading.ends_with('?')));
        let maximum = [None, Some("p99_99")].map(|from| trust(from).max_heading());
        assert_eq!(maximum, ["max", "max?"]);
    }

    #[test]
    fn distrusted_values_begin_at_known_percentile() {
        let lateness =
            Distribution { p50: Some(5), p90: Some(9), max: 12, ..Distribution::default() };
        let value = |from| trust(from).first_distrusted_value(&lateness);
        assert_eq!(
            [None, Some("p50"), Some("p90"), Some("p99")].map(value),
            [None, Some(5), Some(9), None]
        );
    }

    #[test]
    fn note_names_the_first() {
        assert_eq!(trust(None).note(), None);
        assert!(
            trust(Some("p99_9")).note().is_some_and(|note| note.contains("at p99.9 and above"))
        );
    }

    #[test]
    fn report_without_verdict_is_trusted() {
        assert!(Trust::from_fitness(None).covers("p99_99"));
    }
}
