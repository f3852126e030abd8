//! The conversion of reports to intervals, and of intervals to the contents of reports.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::histogram::{self, Histogram};
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHistogram {
    /// Identifier of the subject.
    pub subject: String,
    /// The reason.
    pub why: String,
}

impl fmt::Display for MissingHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no histogram to make bins of: {}", self.subject, self.why)
    }
}

impl std::error::Error for MissingHistogram {}

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
    let mut set = |key, value: &str| labels.set(key, value).expect("an identifier");
    subject.load.iter().for_each(|load| set(LOAD, load));
    if subject.instances != 1 {
        set(INSTANCES, &subject.instances.to_string());
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
    let missing = |why: String| MissingHistogram { subject: subject.id.clone(), why };
    let stored = subject.histogram.as_ref();
    let stored = stored.ok_or_else(|| missing("there is none in the report".to_owned()))?;
    let histogram = histogram::unpack(stored).map_err(|e| missing(e.to_string()))?;
    let summary = subject.summary.as_ref();
    // Early ticks count at 0 in the histogram, and so in its lowest bin, whatever its width.
    let early = summary.map_or(0, |summary| summary.early).min(histogram.count_at(0));
    let lowest = histogram.highest_equivalent(0);
    let values = histogram.iter_recorded().map(|v| {
        let early = if v.value_iterated_to() <= lowest { early } else { 0 };
        (i64::try_from(v.value_iterated_to()).unwrap_or(i64::MAX), v.count_at_value() - early)
    });
    let counted = [(NEGATIVE.upper, early)].into_iter().chain(values);
    let facts = summary.map(|summary| facts(subject, summary));
    Ok(Interval::from_values(key, binning, counted, facts))
}

/// Adds the identifiers of subjects as labels to intervals with equal keys.
fn make_keys_unique<'a>(intervals: &mut [Interval], ids: impl Iterator<Item = &'a str>) {
    let mut counts: BTreeMap<Key, u32> = BTreeMap::new();
    intervals.iter().for_each(|interval| *counts.entry(interval.key.clone()).or_default() += 1);
    let mut taken = BTreeSet::new();
    for (interval, id) in intervals.iter_mut().zip(ids) {
        if counts[&interval.key] == 1 {
            continue;
        }
        // Long identifiers are truncated, and may then be equal.
        let names = std::iter::once(id.to_owned()).chain((2..).map(|n| format!("#{n} {id}")));
        let mut keys = names.map(|name| {
            let mut key = interval.key.clone();
            key.labels.set(ID, &name).expect("an identifier");
            key
        });
        interval.key =
            keys.find(|key| taken.insert(key.clone())).expect("the counter does not run out");
    }
}

fn facts(subject: &Subject, summary: &Summary) -> IntervalCounts {
    let total = |cost: fn(&Round) -> Option<u64>| {
        let mut costs = subject.rounds.iter().map(cost);
        let sum = costs.try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
        // Limited to the maximum of a cell.
        sum.filter(|_| !subject.rounds.is_empty()).map(|ns| ns.min(MAX_NS))
    };
    IntervalCounts {
        ticks: summary.ticks,
        delivered: summary.delivered,
        coalesced: summary.coalesced,
        skipped: summary.skipped,
        missed: summary.missed,
        early: summary.early,
        max_ns: Some(summary.lateness_ns.max),
        cpu_ns: summary
            .cpu_ns_per_tick
            .map(|per_tick| ((per_tick * summary.ticks as f64).round() as u64).min(MAX_NS)),
        steal_ns: total(|round| round.steal_ns),
        run_queue_ns: total(|round| round.run_queue_ns),
        throttled_ns: total(|round| round.throttled_ns),
    }
}

impl Interval {
    /// Converts the values to the histogram of a report, in which negative values count at 0.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        histogram::pack_counts(self.rows().map(|(bin, count)| (bin.upper, count)))
    }

    /// Summarises the values; `None` without a value. Percentiles are the upper ends of their bins.
    /// Without facts, every value counts as delivered, and as missed if its whole bin is at least
    /// as late as a period.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let (mut rows, n) = (self.rows().peekable(), self.count());
        // The values of early ticks are not stored.
        let min = rows.peek()?.0.lower.max(NEGATIVE.upper);
        let last = self.rows().last()?.0.upper;
        let max = self
            .facts
            .as_ref()
            .and_then(|facts| facts.max_ns)
            .map_or(last, |max| max.clamp(min, last));
        let sum: i128 = rows.map(|(bin, count)| middle(bin) * i128::from(count)).sum();
        let mean = i64::try_from(sum / i128::from(n)).unwrap_or(max).clamp(min, max);
        let supported = |q| quantile::is_supported(usize::try_from(n).unwrap_or(usize::MAX), q);
        // The bin of the maximum extends beyond it.
        let at = |q| self.percentile(q).filter(|_| supported(q)).map(|upper| upper.min(max));
        let lateness_ns = Distribution::new(stats::Interval { lower: min, upper: max }, mean, at);
        let from_facts = |facts: &IntervalCounts| Summary {
            ticks: facts.ticks,
            delivered: facts.delivered,
            coalesced: facts.coalesced,
            skipped: facts.skipped,
            missed: facts.missed,
            early: facts.early,
            cpu_ns_per_tick: facts.cpu_ns.map(|ns| ns as f64 / facts.ticks.max(1) as f64),
            ..Summary::default()
        };
        let period = i64::try_from(self.key.period_ns).ok().filter(|period| *period > 0);
        let is_missed = |bin: &Bin| period.is_some_and(|period| bin.lower >= period);
        let count_bins = || Summary {
            ticks: n,
            delivered: n,
            missed: self.rows().filter(|(bin, _)| is_missed(bin)).map(|(_, count)| count).sum(),
            early: self.bins.get(&NEGATIVE.lower).copied().unwrap_or(0),
            ..Summary::default()
        };
        Some(Summary { lateness_ns, ..self.facts.as_ref().map_or_else(count_bins, from_facts) })
    }
}

fn middle(bin: Bin) -> i128 {
    let lower = i128::from(bin.lower.max(NEGATIVE.upper));
    lower + (i128::from(bin.upper) - lower) / 2
}
