//! From a report to intervals, and from an interval to what a report shows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::histogram::{self, Histogram};
use crate::report::{Distribution, MAX_NS, Report, Round, Subject, Summary};
use jitterstat::stats::{self, quantile};

use super::key::{Key, Labels, cell, micros};
use super::model::{Bin, Binning, Interval, IntervalCounts, NEGATIVE};

/// The labels of what a subject of a report has beside its name, period and runtime.
pub const LOAD: &str = "load";
/// See [`LOAD`].
pub const INSTANCES: &str = "instances";
/// The label of subjects that nothing else tells apart, as the threads of an imported file.
pub const ID: &str = "id";

/// A measured subject has no histogram that can be read: why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingHistogram {
    /// Id of the subject.
    pub subject: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for MissingHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has no histogram to make bins of: {}", self.subject, self.why)
    }
}

impl std::error::Error for MissingHistogram {}

/// Each subject of a report as an interval; those that were not measured are left out. A report has
/// no name of its host.
///
/// # Errors
/// A subject that was measured, but of which there is no histogram.
pub fn intervals_from_report(
    report: &Report,
    host: &str,
    labels: &Labels,
    binning: Binning,
) -> Result<Vec<Interval>, MissingHistogram> {
    let measured =
        report.subjects.iter().filter_map(|subject| Some((subject, subject.summary.as_ref()?)));
    let interval = |(subject, summary): (&Subject, &Summary)| {
        let no = |why: String| MissingHistogram { subject: subject.id.clone(), why };
        let stored = subject
            .histogram
            .as_ref()
            .ok_or_else(|| no("there is none in the report".to_owned()))?;
        let histogram = histogram::unpack(stored).map_err(|e| no(e.to_string()))?;
        let mut labels = labels.clone();
        let mut label = |key, value: &str| labels.set(key, value).expect("an identifier");
        subject.load.iter().for_each(|load| label(LOAD, load));
        if subject.instances != 1 {
            label(INSTANCES, &subject.instances.to_string());
        }
        let key = Key {
            host: cell(host).into_owned(),
            // A file of another program may have none.
            subject: [&subject.name, &subject.id, "unnamed"]
                .map(cell)
                .into_iter()
                .find(|name| !name.is_empty())
                .unwrap_or_default()
                .into_owned(),
            period_ns: subject.period_ns,
            runtime: subject.runtime.as_deref().map(cell).unwrap_or_default().into_owned(),
            labels,
            start_us: micros(&report.started_utc),
            duration_ns: report.duration_ns,
            run_id: cell(&format!("{}-{:x}", report.started_utc, report.plan.seed)).into_owned(),
        };
        // What was early stands at 0 in the histogram: in its lowest bin, however wide that is.
        let (early, lowest) =
            (summary.early.min(histogram.count_at(0)), histogram.highest_equivalent(0));
        let values = histogram.iter_recorded().map(|v| {
            let early = if v.value_iterated_to() <= lowest { early } else { 0 };
            (i64::try_from(v.value_iterated_to()).unwrap_or(i64::MAX), v.count_at_value() - early)
        });
        Ok(Interval::from_values(
            key,
            binning,
            [(NEGATIVE.upper, early)].into_iter().chain(values),
            Some(facts(subject, summary)),
        ))
    };
    let mut intervals = measured.clone().map(interval).collect::<Result<Vec<_>, _>>()?;
    tell_apart(&mut intervals, measured.map(|(subject, _)| subject.id.as_str()));
    Ok(intervals)
}

/// Labels intervals of one key with the ids of their subjects.
fn tell_apart<'a>(intervals: &mut [Interval], ids: impl Iterator<Item = &'a str>) {
    let mut times: BTreeMap<Key, u32> = BTreeMap::new();
    intervals.iter().for_each(|interval| *times.entry(interval.key.clone()).or_default() += 1);
    let mut taken = BTreeSet::new();
    for (interval, id) in intervals.iter_mut().zip(ids) {
        if times[&interval.key] == 1 {
            continue;
        }
        // Ids that are too long for a cell may be the same there.
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
    let total = |of: fn(&Round) -> Option<u64>| {
        let sum =
            subject.rounds.iter().map(of).try_fold(0_u64, |sum, ns| Some(sum.saturating_add(ns?)));
        // As much as a cell holds.
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
    /// What a report keeps of its values; negatives count at 0 there.
    #[must_use]
    pub fn histogram(&self) -> Histogram {
        histogram::pack_counts(self.rows().map(|(bin, count)| (bin.upper, count)))
    }

    /// Counts, and percentiles as the upper ends of their bins; `None` without a value. Without
    /// facts every value counts as delivered, and as missed where its whole bin is as late as a
    /// period.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        let (mut rows, n) = (self.rows().peekable(), self.count());
        // How early is not kept.
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
        // The bin of the largest value ends above it.
        let at = |q| self.percentile(q).filter(|_| supported(q)).map(|upper| upper.min(max));
        let lateness_ns = Distribution::new(stats::Interval { lower: min, upper: max }, mean, at);
        let by = |facts: &IntervalCounts| Summary {
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
        let counted = || Summary {
            ticks: n,
            delivered: n,
            missed: self.rows().filter(|(bin, _)| is_missed(bin)).map(|(_, count)| count).sum(),
            early: self.bins.get(&NEGATIVE.lower).copied().unwrap_or(0),
            ..Summary::default()
        };
        Some(Summary { lateness_ns, ..self.facts.as_ref().map_or_else(counted, by) })
    }
}

fn middle(bin: Bin) -> i128 {
    let lower = i128::from(bin.lower.max(NEGATIVE.upper));
    lower + (i128::from(bin.upper) - lower) / 2
}
