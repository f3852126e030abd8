//! The columns of machine-readable tables, shared by CSV and Parquet. Times are whole nanoseconds.

use files::report::Round;
use files::trust::Trust;

use files::entry::Entry;

/// A column: its name and the function that reads its cell from a row.
pub type TableColumn<R> = (&'static str, Getter<R>);

/// Reads a cell from a row, by type. `None` is a value that was not measured or that the sample
/// size does not support.
pub enum Getter<R> {
    Text(fn(&R) -> &str),
    /// Words, separated by blanks.
    Words(fn(&R) -> String),
    Count(fn(&R) -> Option<u64>),
    Whole(fn(&R) -> Option<i64>),
    Real(fn(&R) -> Option<f64>),
}

/// Defines the columns of a percentile and of its confidence interval.
macro_rules! percentile {
    ($name:literal) => {
        [
            (
                concat!($name, "_ns"),
                Getter::Whole(|e: &Entry<'_>| e.summary.lateness_ns.percentile($name)),
            ),
            (
                concat!($name, "_low_ns"),
                Getter::Whole(|e| e.summary.lateness_ns.ci95.get($name).map(|ci| ci[0])),
            ),
            (
                concat!($name, "_high_ns"),
                Getter::Whole(|e| e.summary.lateness_ns.ci95.get($name).map(|ci| ci[1])),
            ),
        ]
    };
}

/// Returns the columns of the summary table, which has one row per measured subject.
pub fn summary<'a>() -> Vec<TableColumn<Entry<'a>>> {
    let mut columns: Vec<TableColumn<Entry<'a>>> = vec![
        ("report", Getter::Count(|e| Some(e.source as u64))),
        ("started_utc", Getter::Text(|e| &e.report.started_utc)),
        ("id", Getter::Text(|e| &e.subject.id)),
        ("subject", Getter::Text(|e| &e.subject.name)),
        ("period_ns", Getter::Count(Entry::period_ns)),
        ("runtime", Getter::Text(|e| e.subject.runtime.as_deref().unwrap_or_default())),
        ("instances", Getter::Count(|e| Some(e.subject.instances))),
        ("backend", Getter::Text(|e| e.subject.backend.as_deref().unwrap_or_default())),
        ("ticks", Getter::Count(|e| Some(e.summary.ticks))),
        ("delivered", Getter::Count(|e| Some(e.summary.delivered))),
        ("coalesced", Getter::Count(|e| e.class_count(e.summary.coalesced))),
        ("skipped", Getter::Count(|e| e.class_count(e.summary.skipped))),
        ("missed", Getter::Count(Entry::missed)),
        ("early", Getter::Count(|e| e.class_count(e.summary.early))),
        ("no_park", Getter::Count(|e| e.summary.no_park)),
        ("drift_ppb", Getter::Real(|e| e.summary.drift_ppb)),
        ("cpu_ns_per_tick", Getter::Real(|e| e.summary.cpu_ns_per_tick)),
        ("wakeups_per_tick", Getter::Real(|e| e.summary.wakeups_per_tick)),
        ("min_ns", Getter::Whole(|e| Some(e.summary.lateness_ns.min))),
        ("mean_ns", Getter::Whole(|e| e.summary.lateness_ns.mean)),
    ];
    let percentiles = [
        percentile!("p50"),
        percentile!("p90"),
        percentile!("p99"),
        percentile!("p99_9"),
        percentile!("p99_99"),
    ];
    columns.extend(percentiles.into_iter().flatten());
    columns.push(("max_ns", Getter::Whole(|e| Some(e.summary.lateness_ns.max))));
    columns.push(("load", Getter::Text(|e| e.subject.load.as_deref().unwrap_or_default())));
    columns.push(("drift_low_ppb", Getter::Real(|e| e.summary.drift_ppb_ci95.map(|ci| ci[0]))));
    columns.push(("drift_high_ppb", Getter::Real(|e| e.summary.drift_ppb_ci95.map(|ci| ci[1]))));
    columns.push(("distrusted", Getter::Words(distrusted_keys)));
    columns
}

/// Returns the paths of the numbers of the summary that are not trusted.
fn distrusted_keys(entry: &Entry<'_>) -> String {
    Trust::from_report(entry.report).distrusted_keys(entry.summary).join(" ")
}

/// A delivered tick.
pub struct Tick<'a> {
    entry: Entry<'a>,
    round: &'a Round,
    /// Index among the ticks of the round.
    index: usize,
}

impl Tick<'_> {
    /// Returns the deadline in nanoseconds since the start of the run.
    fn deadline_ns(&self) -> u64 {
        self.round.deadline_ns(self.index, self.entry.subject.period_ns)
    }
}

/// Returns all delivered ticks of a subject.
pub fn ticks(entry: Entry<'_>) -> impl Iterator<Item = Tick<'_>> + Clone {
    let rounds = entry.subject.rounds.iter();
    rounds.flat_map(move |round| {
        (0..round.lateness_ns.len()).map(move |index| Tick { entry, round, index })
    })
}

/// Returns the columns of the sample table, which has one row per delivered tick.
pub fn samples<'a>() -> Vec<TableColumn<Tick<'a>>> {
    vec![
        ("report", Getter::Count(|t| Some(t.entry.source as u64))),
        ("id", Getter::Text(|t| &t.entry.subject.id)),
        ("round", Getter::Count(|t| Some(t.round.index))),
        ("slot", Getter::Count(|t| Some(t.round.slot))),
        ("instance", Getter::Count(|t| Some(t.round.instance))),
        ("tick", Getter::Count(|t| Some(t.round.tick_index(t.index)))),
        ("deadline_ns", Getter::Count(|t| Some(t.deadline_ns()))),
        ("lateness_ns", Getter::Whole(|t| Some(t.round.lateness_ns[t.index]))),
        (
            "until_unpark_ns",
            Getter::Whole(|t| t.round.until_unpark_ns.as_ref()?.get(t.index).copied().flatten()),
        ),
    ]
}
