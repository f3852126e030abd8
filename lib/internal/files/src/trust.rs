//! Trust in the numbers of a summary: whether they reflect the subject or the machine.
//!
//! A machine that was itself late from some percentile on makes every number doubtful that rests on
//! the lateness of these ticks: not only the percentiles, but also the mean, the drift and the count
//! of missed ticks. [`Evidence::find`] states what a number rests on, and everything that shows a
//! number asks [`Trust`].

use crate::fitness::Fitness;
use crate::report::{Distribution, PERCENTILES, Report, Summary};

/// The lateness on which a number of a summary rests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Evidence {
    /// No lateness. The machine has not changed the number by being late.
    NoLateness,
    /// The lateness of the ticks up to a quantile.
    Quantile(f64),
    /// The lateness of every tick.
    EveryTick,
}

impl Evidence {
    /// Finds what a number of a summary rests on. `key` is its path, such as `lateness_ns.p99`,
    /// `median_round_ns.p50.value` or `missed`.
    #[must_use]
    pub fn find(summary: &Summary, key: &str) -> Self {
        let (head, rest) = key.split_once('.').unwrap_or((key, ""));
        match head {
            "drift_ppb" | "drift_ppb_ci95" | "elapsed_ns" => Self::EveryTick,
            "missed" => Self::from_count(summary, summary.missed),
            "missed_at_least" => Self::from_count(summary, summary.missed_at_least),
            "coalesced" => Self::from_count(summary, summary.coalesced),
            "skipped" => Self::from_count(summary, summary.skipped),
            "no_park" => Self::from_count(summary, summary.no_park),
            "delivered" => {
                Self::from_count(summary, Some(summary.ticks.saturating_sub(summary.delivered)))
            }
            // The difference from a late tick to the next one is as far below zero.
            "jitter_consecutive_ns" if rest == "min" => Self::EveryTick,
            _ => Self::from_statistic(rest),
        }
    }

    /// Returns what a count of late ticks rests on: the lowest percentile at which one of them can
    /// be. A machine that is late adds such ticks and hides none, so a count of zero rests on none.
    fn from_count(summary: &Summary, count: Option<u64>) -> Self {
        match count {
            None | Some(0) => Self::NoLateness,
            Some(count) => Self::Quantile(1.0 - count as f64 / summary.ticks.max(1) as f64),
        }
    }

    /// Returns what a statistic of a distribution rests on.
    fn from_statistic(path: &str) -> Self {
        for name in path.split('.') {
            if let Some(percentile) = PERCENTILES.iter().find(|p| p.key == name) {
                return Self::Quantile(percentile.quantile);
            }
        }
        match path {
            "min" => Self::Quantile(0.0),
            "mean" | "max" => Self::EveryTick,
            _ => Self::NoLateness,
        }
    }
}

/// The numbers of a report for which its machine is trusted: those that rest on percentiles below
/// the first one at which the spinning control was late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Index in [`PERCENTILES`] of the first percentile that is not trusted, if there is one.
    first_distrusted: Option<usize>,
}

impl Trust {
    /// Returns the trust in the machine of a report. Without a verdict on its fitness, every number
    /// is trusted.
    #[must_use]
    pub fn from_report(report: &Report) -> Self {
        Self::from_fitness(report.fitness.as_ref())
    }

    /// Returns the trust in a machine with this fitness.
    #[must_use]
    pub fn from_fitness(fitness: Option<&Fitness>) -> Self {
        Self { first_distrusted: fitness.and_then(Fitness::first_distrusted) }
    }

    /// Returns the index in [`PERCENTILES`] of the first percentile that is not trusted.
    #[must_use]
    pub fn first_distrusted(self) -> Option<usize> {
        self.first_distrusted
    }

    /// Returns whether the machine is trusted for a number of a summary, by its path. A drift whose
    /// interval contains zero is not trusted on any machine: it was not shown to be a drift.
    #[must_use]
    pub fn covers_number(self, summary: &Summary, key: &str) -> bool {
        let drift = summary.drift_ppb_ci95;
        let contains_zero = drift.is_some_and(|[low, high]| low <= 0.0 && high >= 0.0);
        let is_shown = key != "drift_ppb" || !contains_zero;
        is_shown && self.covers_evidence(Evidence::find(summary, key))
    }

    /// Returns whether the machine is trusted for a statistic of lateness: a percentile, `min`,
    /// `mean` or `max`.
    #[must_use]
    pub fn covers(self, statistic: &str) -> bool {
        self.covers_evidence(Evidence::from_statistic(statistic))
    }

    fn covers_evidence(self, evidence: Evidence) -> bool {
        let Some(first) = self.first_distrusted else { return true };
        let trusted = PERCENTILES[..first].last();
        match evidence {
            Evidence::NoLateness => true,
            Evidence::Quantile(q) => trusted.is_some_and(|percentile| q <= percentile.quantile),
            Evidence::EveryTick => false,
        }
    }

    /// Returns the paths of the numbers of a summary that are not trusted, in the order of the
    /// summary.
    #[must_use]
    pub fn distrusted_keys(self, summary: &Summary) -> Vec<String> {
        let mut keys = known_keys(summary);
        keys.retain(|key| !self.covers_number(summary, key));
        keys
    }
}

/// States in every summary of a report which of its numbers are not trusted, if a spinning control
/// has judged the machine.
pub fn mark_distrusted(report: &mut Report) {
    let has_control = |f: &Fitness| f.distrust_from.is_some() || f.facts.spin_gaps.is_some();
    let is_judged = report.fitness.as_ref().is_some_and(has_control);
    let trust = Trust::from_report(report);
    for summary in report.subjects.iter_mut().filter_map(|subject| subject.summary.as_mut()) {
        summary.distrusted = is_judged.then(|| trust.distrusted_keys(summary));
    }
}

/// Returns the paths of the numbers of a summary that are known and can rest on lateness.
fn known_keys(summary: &Summary) -> Vec<String> {
    let counts = [
        ("delivered", true),
        ("coalesced", summary.coalesced.is_some()),
        ("skipped", summary.skipped.is_some()),
        ("missed", summary.missed.is_some()),
        ("missed_at_least", summary.missed_at_least.is_some()),
        ("no_park", summary.no_park.is_some()),
        ("drift_ppb", summary.drift_ppb.is_some()),
        ("elapsed_ns", true),
    ];
    let known = counts.into_iter().filter(|(_, is_known)| *is_known);
    let mut keys: Vec<String> = known.map(|(key, _)| key.to_owned()).collect();
    add_statistics(&mut keys, "lateness_ns", Some(&summary.lateness_ns));
    keys.extend(summary.median_round_ns.keys().map(|key| format!("median_round_ns.{key}")));
    add_statistics(&mut keys, "jitter_consecutive_ns", summary.jitter_consecutive_ns.as_ref());
    add_statistics(&mut keys, "jitter_spread_ns", summary.jitter_spread_ns.as_ref());
    add_statistics(&mut keys, "until_unpark_ns", summary.until_unpark_ns.as_ref());
    add_statistics(&mut keys, "after_unpark_ns", summary.after_unpark_ns.as_ref());
    keys
}

/// Adds the paths of the known statistics of a distribution.
fn add_statistics(keys: &mut Vec<String>, head: &str, distribution: Option<&Distribution>) {
    let Some(distribution) = distribution else { return };
    let mut names = vec!["min", "mean"];
    let known = distribution.percentiles().into_iter().filter(|(_, value)| value.is_some());
    names.extend(known.map(|(percentile, _)| percentile.key));
    names.push("max");
    keys.extend(names.into_iter().map(|name| format!("{head}.{name}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fitness::Facts;
    use crate::gate::limit::SummaryPath;

    fn trust(distrust_from: Option<&str>) -> Trust {
        Trust::from_fitness(Some(&Fitness::from_facts(Facts::default(), distrust_from, Some(2))))
    }

    /// A summary of a thousand ticks, of which this many were missed.
    fn summary(missed: u64) -> Summary {
        let lateness_ns = Distribution {
            p50: Some(5),
            p90: Some(9),
            p99: Some(20),
            max: 30,
            ..Distribution::default()
        };
        Summary {
            ticks: 1_000,
            delivered: 1_000,
            missed: Some(missed),
            drift_ppb: Some(7.0),
            jitter_consecutive_ns: Some(lateness_ns.clone()),
            lateness_ns,
            ..Summary::default()
        }
    }

    #[test]
    fn numbers_follow_their_percentiles() {
        let distrusted = trust(Some("p99")).distrusted_keys(&summary(2));
        let expected = [
            "missed", "drift_ppb", "elapsed_ns", "lateness_ns.mean", "lateness_ns.p99",
            "lateness_ns.max", "jitter_consecutive_ns.min", "jitter_consecutive_ns.mean",
            "jitter_consecutive_ns.p99", "jitter_consecutive_ns.max",
        ];
        assert_eq!(distrusted, expected);
        assert_eq!(trust(None).distrusted_keys(&summary(2)), Vec::<String>::new());
    }

    #[test]
    fn many_missed_ticks_are_trusted() {
        let is_trusted = |from, missed| trust(Some(from)).covers_number(&summary(missed), "missed");
        assert!(is_trusted("p50", 0), "a late machine hides no missed tick");
        assert!(!is_trusted("p50", 999));
        // The median was trusted, and most ticks were missed.
        assert!(is_trusted("p90", 887) && is_trusted("p90", 500) && !is_trusted("p90", 499));
        assert!(is_trusted("p99_9", 10) && !is_trusted("p99_9", 9));
    }

    #[test]
    fn drift_around_zero_is_not_trusted() {
        let covers = |ci, from| {
            let summary = Summary { drift_ppb_ci95: ci, ..summary(0) };
            trust(from).covers_number(&summary, "drift_ppb")
        };
        assert!(covers(None, None) && covers(Some([1.0, 9.0]), None));
        assert!(!covers(Some([-1.0, 9.0]), None) && !covers(Some([1.0, 9.0]), Some("p99_99")));
    }

    #[test]
    fn minimum_needs_a_trusted_percentile() {
        assert!(trust(Some("p90")).covers("min") && !trust(Some("p50")).covers("min"));
    }

    #[test]
    fn every_number_has_evidence() {
        // These rest on no lateness, whatever their value.
        let free = ["early", "cpu_ns_per_tick", "wakeups_per_tick"];
        let counts =
            Summary { ticks: 10, delivered: 5, missed: Some(5), skipped: Some(5), ..summary(0) };
        let counts = Summary { coalesced: Some(5), no_park: Some(5), ..counts };
        for path in SummaryPath::list() {
            let key = path.to_string();
            let rests_on_none = Evidence::find(&counts, &key) == Evidence::NoLateness;
            assert_eq!(rests_on_none, free.contains(&key.as_str()), "{key}");
        }
    }

    #[test]
    fn report_without_verdict_is_trusted() {
        assert!(Trust::from_fitness(None).covers("p99_99") && Trust::default().covers("max"));
    }
}
