//! [`Exporter`]: passes the records of a meter to the `metrics` facade.

use metrics::{counter, histogram};

use crate::clock::saturating_ns;
use crate::reader::Reader;
use crate::snapshot::{Histogram, Snapshot};

/// Passes the records of a meter of this process to the installed recorder of the `metrics` facade.
///
/// Call [`publish`](Self::publish) before every scrape or every few seconds, from any thread except
/// the metered loop's.
///
/// | Metric, with the label `meter` | Type |
/// |---|---|
/// | `osjitter_lateness_seconds`, `osjitter_work_seconds` | histograms; each value is rounded up to the end of its bin |
/// | `osjitter_ticks_total`, `osjitter_missed_ticks_total`, `osjitter_skipped_ticks_total`, `osjitter_overruns_total` | counters |
///
/// ```
/// # use std::time::Duration;
/// use tickmeter::{Exporter, Meter};
///
/// let meter = Meter::register("poller", Duration::from_millis(10))?;
/// let mut exporter = Exporter::new(meter.reader());
/// exporter.publish(); // every 10 s, on another thread or task
/// # Ok::<(), tickmeter::RegisterError>(())
/// ```
#[derive(Debug)]
pub struct Exporter {
    reader: Reader,
    published: Option<Snapshot>,
}

impl Exporter {
    /// Creates an exporter for the meter of a reader.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader, published: None }
    }

    /// Passes on what was recorded since the last call.
    pub fn publish(&mut self) {
        let now = self.reader.snapshot();
        let since =
            self.published.as_ref().and_then(|last| now.since(last)).unwrap_or_else(|| now.clone());
        let name = || now.name.clone();
        counter!("osjitter_ticks_total", "meter" => name()).increment(since.ticks);
        counter!("osjitter_missed_ticks_total", "meter" => name()).increment(since.missed);
        counter!("osjitter_skipped_ticks_total", "meter" => name()).increment(since.skipped);
        counter!("osjitter_overruns_total", "meter" => name()).increment(since.overruns);
        record_bins(&histogram!("osjitter_lateness_seconds", "meter" => name()), &since.lateness);
        record_bins(&histogram!("osjitter_work_seconds", "meter" => name()), &since.work);
        self.published = Some(now);
    }
}

/// Records the values of each bin as the largest value that they can have.
fn record_bins(target: &metrics::Histogram, values: &Histogram) {
    let max_ns = values.max().map_or(0, saturating_ns);
    for (_, end_ns, count) in values.bins() {
        let seconds = end_ns.min(max_ns) as f64 / 1e9;
        target.record_many(seconds, usize::try_from(count).unwrap_or(usize::MAX));
    }
}
