//! Marks of the percentiles at which the machine itself was late.

use files::fitness::Fitness;
use files::report::{Distribution, PERCENTILES, Percentile, Report, Summary};

use crate::picture::nines;

/// The trust in the machine of a report, with the marks of what it does not cover.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust(files::trust::Trust);

impl Trust {
    /// Returns the trust in the machine of a report. Without a verdict on its fitness, every number
    /// is trusted.
    pub fn from_report(report: &Report) -> Self {
        Self(files::trust::Trust::from_report(report))
    }

    /// Returns the trust in a machine with this fitness.
    pub fn from_fitness(fitness: Option<&Fitness>) -> Self {
        Self(files::trust::Trust::from_fitness(fitness))
    }

    /// Returns whether the machine is trusted for a statistic of lateness: the key of a percentile,
    /// `min`, `mean` or `max`.
    pub fn covers(self, statistic: &str) -> bool {
        self.0.covers(statistic)
    }

    /// Returns whether the machine is trusted at the maximum, which is above every percentile.
    pub fn covers_max(self) -> bool {
        self.covers("max")
    }

    /// Returns whether the machine is trusted for a number of a summary, by its path.
    pub fn covers_number(self, summary: &Summary, key: &str) -> bool {
        self.0.covers_number(summary, key)
    }

    /// Returns the value from which the lateness of a subject is not trusted, if its sample size
    /// supports a percentile that is not.
    pub fn first_distrusted_value(self, lateness: &Distribution) -> Option<i64> {
        let distrusted = &lateness.percentiles()[self.0.first_distrusted()?..];
        distrusted.iter().find_map(|(_, value)| *value)
    }

    /// Returns the heading of the column of a percentile, with a mark if it is not trusted.
    pub fn heading(self, percentile: Percentile) -> String {
        mark_unless(self.covers(percentile.key), percentile.label)
    }

    /// Returns the heading of the column of the maximum, with a mark if it is not trusted.
    pub fn max_heading(self) -> String {
        self.statistic_heading("max")
    }

    /// Returns the heading of the column of a statistic of lateness: `min`, `mean` or `max`, with a
    /// mark if it is not trusted.
    pub fn statistic_heading(self, statistic: &str) -> String {
        mark_unless(self.covers(statistic), statistic)
    }

    /// Returns the cell of a count of a summary, with a mark if it is not trusted.
    pub fn count_cell(self, summary: &Summary, key: &str, cell: &str) -> String {
        mark_unless(self.covers_number(summary, key), cell)
    }

    /// Returns a remark for a sentence if a number of a summary is not trusted.
    pub fn remark(self, summary: &Summary, key: &str) -> &'static str {
        if self.covers_number(summary, key) { "" } else { UNRELIABLE }
    }

    /// Explains the mark; `None` if every percentile is trusted.
    pub fn note(self) -> Option<String> {
        let first = PERCENTILES[self.0.first_distrusted()?].label;
        Some(format!("? unreliable: from {first} up, the machine caused the lateness"))
    }

    /// Returns the position of the first percentile that is not trusted on the axis of percentiles.
    pub fn first_distrusted_position(self) -> Option<f64> {
        Some(nines::position(PERCENTILES[self.0.first_distrusted()?].quantile))
    }
}

/// Remark after a number in a sentence.
pub const UNRELIABLE: &str = " (unreliable)";

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
        assert!(trust(Some("p99_9")).note().is_some_and(|note| note.contains("from p99.9 up")));
    }
}
