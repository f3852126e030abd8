//! The conversion of reports to intervals, and of intervals to the contents of reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::counters::add_if_complete;
use crate::histogram::{self, Histogram, HistogramError};
use crate::report::{Distribution, MAX_NS, Report, Round, Subject, Summary};
use jitterstat::stats::{self, quantile};

use super::key::{Key, Labels, cell, micros};
use super::model::{Bin, Binning, Interval, IntervalCounts, NEGATIVE};

/// Label with the load of a subject.
pub const LOAD: &str = "load";
/// Label with the number of instances of a subject.
pub const INSTANCES: &str = "instances";
/// Label of subjects that nothing else distinguishes, such as the threads of an imported file.
pub const ID: &str = "id";

/// The error of a measured subject without a readable histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MissingHistogram {
    /// Identifier of the subject.
    pub subject: String,
    /// The reason; `None` if the report contains no histogram.
    #[source]
    pub error: Option<HistogramError>,
}

impl fmt::Display for MissingHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no histogram to make bins of: ", self.subject)?;
        match &self.error {
            Some(error) => error.fmt(f),
            None => f.write_str("there is none in the report"),
        }
    }
}

/// Converts each measured subject of a report to an interval. The host is a parameter because
/// reports do not contain its name.
///
/// # Errors
/// Returns an error if a measured subject has no readable histogram.
pub fn intervals_from_report(
    report: &Report,
    host: &str,
    labels: &Labels,
    binning: Binning,
) -> Result<Vec<Interval>, MissingHistogram> {
    let measured = || report.subjects.iter().filter(|subject| subject.summary.is_some());
    let mut intervals = Vec::new();
    for subject in measured() {
        let key = subject_key(report, subject, host, labels.clone());
        intervals.push(subject_interval(subject, key, binning)?);
    }
    make_keys_unique(&mut intervals, measured().map(|subject| subject.id.as_str()));
    Ok(intervals)
}

fn subject_key(report: &Report, subject: &Subject, host: &str, mut labels: Labels) -> Key {
    if let Some(load) = &subject.load {
        labels.set(LOAD, load).expect("an identifier");
    }
    if subject.instances != 1 {
        labels.set(INSTANCES, &subject.instances.to_string()).expect("an identifier");
    }
    // An imported subject may have no name.
    let mut names = [&subject.name, &subject.id, "unnamed"].map(cell).into_iter();
    let name = names.find(|name| !name.is_empty()).unwrap_or_default();
    Key {
        host: cell(host).into_owned(),
        subject: name.into_owned(),
        period_ns: subject.period_ns,
        runtime: subject.runtime.as_deref().map(cell).unwrap_or_default().into_owned(),
        labels,
        start_us: micros(&report.started_utc),
        duration_ns: report.duration_ns,
        run_id: cell(&format!("{}-{:x}", report.started_utc, report.plan.seed)).into_owned(),
    }
}

fn subject_interval(
    subject: &Subject,
    key: Key,
    binning: Binning,
) -> Result<Interval, MissingHistogram> {
    let missing = |error| MissingHistogram { subject: subject.id.clone(), error };
    let stored = subject.histogram.as_ref();
    let stored = stored.ok_or_else(|| missing(None))?;
    let histogram = histogram::unpack(stored).map_err(|e| missing(Some(e)))?;
    let summary = subject.summary.as_ref();
    // Early ticks count at 0 in the histogram, and so in its lowest bin, whatever its width.
    let early = summary.and_then(|summary| summary.early).unwrap_or(0).min(histogram.count_at(0));
    let lowest = histogram.highest_equivalent(0);
    let mut counted = vec![(NEGATIVE.upper, early)];
    for step in histogram.iter_recorded() {
        let value = i64::try_from(step.value_iterated_to()).unwrap_or(i64::MAX);
        let early = if step.value_iterated_to() <= lowest { early } else { 0 };
        counted.push((value, step.count_at_value() - early));
    }
    let facts = summary.map(|summary| facts(subject, summary));
    Ok(Interval::from_values(key, binning, counted, facts))
}

/// Adds the identifiers of subjects as labels to intervals with equal keys.
fn make_keys_unique<'a>(intervals: &mut [Interval], ids: impl Iterator<Item = &'a str>) {
    let mut counts: BTreeMap<Key, u32> = BTreeMap::new();
    for interval in &*intervals {
        *counts.entry(interval.key.clone()).or_default() += 1;
    }
    let mut taken = BTreeSet::new();
    for (interval, id) in intervals.iter_mut().zip(ids) {
        if counts[&interval.key] > 1 {
            let key = unused_key(&interval.key, id, &taken);
            taken.insert(key.clone());
            interval.key = key;
        }
    }
}

/// Returns a key with an identifier as a label that makes it different from the taken ones.
///
/// Long identifiers are truncated, and may then be equal.
fn unused_key(key: &Key, id: &str, taken: &BTreeSet<Key>) -> Key {
    let mut labelled = key.clone();
    labelled.labels.set(ID, id).expect("an identifier");
    let mut n = 2;
    while taken.contains(&labelled) {
        labelled.labels.set(ID, &format!("#{n} {id}")).expect("an identifier");
        n += 1;
    }
    labelled
}

fn facts(subject: &Subject, summary: &Summary) -> IntervalCounts {
    let total_cpu_ns = |per_tick: f64| (per_tick * summary.ticks as f64).round() as u64;
    IntervalCounts {
        ticks: summary.into(),
        max_ns: Some(summary.lateness_ns.max),
        cpu_ns: summary.cpu_ns_per_tick.map(total_cpu_ns).map(bound_cell),
        steal_ns: total_cost(&subject.rounds, |round| round.steal_ns),
        run_queue_ns: total_cost(&subject.rounds, |round| round.run_queue_ns),
        throttled_ns: total_cost(&subject.rounds, |round| round.throttled_ns),
    }
}

/// Adds up a cost of all rounds; `None` if one of them does not have it, or there is no round.
fn total_cost(rounds: &[Round], cost: fn(&Round) -> Option<u64>) -> Option<u64> {
    if rounds.is_empty() {
        return None;
    }
    let total = rounds.iter().map(cost).fold(Some(0), add_if_complete);
    total.map(bound_cell)
}

/// Limits a time to the maximum of a cell.
fn bound_cell(ns: u64) -> u64 {
    ns.min(MAX_NS)
}

impl Interval {
    /// Converts the values to the histogram of a report, in which negative values count at 0.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        histogram::pack_counts(self.rows().map(|(bin, count)| (bin.upper, count)))
    }

    /// Summarises the values; `None` without a value. Percentiles are the upper ends of their bins.
    /// Without facts, every value counts as delivered. Values whose whole bin is at least as late as
    /// a period are known to be missed. Facts that state less than the bins prove do not count.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let lateness_ns = self.distribution()?;
        let late = self.known_late();
        let counts = match &self.facts {
            Some(facts) => facts.summary(late.unwrap_or(0)),
            // Without the missed ticks of a row, those of the bins are known.
            None => Summary { missed_at_least: late, ..self.summary_from_bins() },
        };
        Some(Summary { lateness_ns, ..counts })
    }

    /// Returns the distribution of the values; `None` without a value.
    fn distribution(&self) -> Option<Distribution> {
        // The values of early ticks are not stored.
        let min = self.rows().next()?.0.lower.max(NEGATIVE.upper);
        let last = self.rows().last()?.0;
        let max = match self.facts.as_ref().and_then(|facts| facts.max_ns) {
            Some(max) if last == NEGATIVE => max.clamp(min, last.upper),
            Some(max) if max >= last.lower => max,
            _ => last.upper,
        };
        let n = self.count();
        let sum: i128 = self.rows().map(|(bin, count)| middle(bin) * i128::from(count)).sum();
        let mean = i64::try_from(sum / i128::from(n)).unwrap_or(max).clamp(min, max);
        let range = stats::Interval { lower: min, upper: max };
        Some(Distribution::new(range, Some(mean), |q| self.supported_percentile(q, max)))
    }

    /// Returns a percentile of at most `max`, because the bin of the maximum extends beyond it;
    /// `None` if there are too few values.
    fn supported_percentile(&self, q: f64, max: i64) -> Option<i64> {
        let n = usize::try_from(self.count()).unwrap_or(usize::MAX);
        if quantile::is_supported(n, q) { Some(self.percentile(q)?.min(max)) } else { None }
    }

    /// Counts the ticks of the bins.
    fn summary_from_bins(&self) -> Summary {
        Summary {
            ticks: self.count(),
            delivered: self.count(),
            early: Some(self.bins.get(&NEGATIVE.lower).copied().unwrap_or(0)),
            ..Summary::default()
        }
    }

    /// Returns the number of values that are at least as late as a period; `None` without a period.
    fn known_late(&self) -> Option<u64> {
        let period = i64::try_from(self.key.period_ns).ok().filter(|period| *period > 0)?;
        let late = self.rows().filter(|(bin, _)| bin.lower >= period);
        Some(late.map(|(_, count)| count).fold(0, u64::saturating_add))
    }
}

impl IntervalCounts {
    /// Returns the counts as a summary without a distribution. At least `late` ticks came a period
    /// late; those and the skipped ones were missed.
    fn summary(&self, late: u64) -> Summary {
        let ticks = self.ticks.planned.max(1) as f64;
        let least_missed = late.saturating_add(self.ticks.skipped.unwrap_or(0));
        Summary {
            cpu_ns_per_tick: self.cpu_ns.map(|ns| ns as f64 / ticks),
            missed: self.ticks.missed.map(|missed| missed.max(least_missed)),
            ..self.ticks.into()
        }
    }
}

fn middle(bin: Bin) -> i128 {
    let lower = i128::from(bin.lower.max(NEGATIVE.upper));
    lower + (i128::from(bin.upper) - lower) / 2
}
