//! The columns of the tables that programs read, for CSV and Parquet alike. Times are whole
//! nanoseconds.

use files::report::Round;

use crate::render::entry::Entry;
use crate::render::percentile;

/// The name of a column, and how its cell is found in a row.
pub type Column<R> = (&'static str, Get<R>);

/// What was not measured, or what the sample does not support, is `None`.
pub enum Get<R> {
    Text(fn(&R) -> &str),
    Count(fn(&R) -> Option<u64>),
    Whole(fn(&R) -> Option<i64>),
    Real(fn(&R) -> Option<f64>),
}

/// The columns of a percentile and of its confidence interval.
macro_rules! percentile {
    ($name:literal) => {
        [
            (
                concat!($name, "_ns"),
                Get::Whole(|e: &Entry<'_>| percentile::named(&e.summary.lateness_ns, $name)),
            ),
            (
                concat!($name, "_low_ns"),
                Get::Whole(|e| e.summary.lateness_ns.ci95.get($name).map(|ci| ci[0])),
            ),
            (
                concat!($name, "_high_ns"),
                Get::Whole(|e| e.summary.lateness_ns.ci95.get($name).map(|ci| ci[1])),
            ),
        ]
    };
}

/// One row per measured subject.
pub fn summary<'a>() -> Vec<Column<Entry<'a>>> {
    let mut columns: Vec<Column<Entry<'a>>> = vec![
        ("report", Get::Count(|e| Some(e.source as u64))),
        ("started_utc", Get::Text(|e| &e.report.started_utc)),
        ("id", Get::Text(|e| &e.subject.id)),
        ("subject", Get::Text(|e| &e.subject.name)),
        ("period_ns", Get::Count(|e| Some(e.subject.period_ns))),
        ("runtime", Get::Text(|e| e.subject.runtime.as_deref().unwrap_or_default())),
        ("instances", Get::Count(|e| Some(e.subject.instances))),
        ("backend", Get::Text(|e| e.subject.backend.as_deref().unwrap_or_default())),
        ("ticks", Get::Count(|e| Some(e.summary.ticks))),
        ("delivered", Get::Count(|e| Some(e.summary.delivered))),
        ("coalesced", Get::Count(|e| Some(e.summary.coalesced))),
        ("skipped", Get::Count(|e| Some(e.summary.skipped))),
        ("missed", Get::Count(|e| Some(e.summary.missed))),
        ("early", Get::Count(|e| Some(e.summary.early))),
        ("no_park", Get::Count(|e| e.summary.no_park)),
        ("drift_ppb", Get::Real(|e| e.summary.drift_ppb)),
        ("cpu_ns_per_tick", Get::Real(|e| e.summary.cpu_ns_per_tick)),
        ("wakeups_per_tick", Get::Real(|e| e.summary.wakeups_per_tick)),
        ("min_ns", Get::Whole(|e| Some(e.summary.lateness_ns.min))),
        ("mean_ns", Get::Whole(|e| Some(e.summary.lateness_ns.mean))),
    ];
    let percentiles = [
        percentile!("p50"),
        percentile!("p90"),
        percentile!("p99"),
        percentile!("p99_9"),
        percentile!("p99_99"),
    ];
    columns.extend(percentiles.into_iter().flatten());
    columns.push(("max_ns", Get::Whole(|e| Some(e.summary.lateness_ns.max))));
    columns.push(("load", Get::Text(|e| e.subject.load.as_deref().unwrap_or_default())));
    columns
}

/// A tick that came.
pub struct Tick<'a> {
    entry: Entry<'a>,
    round: &'a Round,
    /// Its place among the ticks of the round.
    i: usize,
}

impl Tick<'_> {
    /// From the start of the run.
    fn deadline_ns(&self) -> u64 {
        self.round.start_ns.saturating_add(
            self.round.tick_index(self.i).saturating_mul(self.entry.subject.period_ns),
        )
    }
}

/// All ticks of a subject that came.
pub fn ticks(entry: Entry<'_>) -> impl Iterator<Item = Tick<'_>> + Clone {
    let rounds = entry.subject.rounds.iter();
    rounds
        .flat_map(move |round| (0..round.lateness_ns.len()).map(move |i| Tick { entry, round, i }))
}

/// One row per tick that came.
pub fn samples<'a>() -> Vec<Column<Tick<'a>>> {
    vec![
        ("report", Get::Count(|t| Some(t.entry.source as u64))),
        ("id", Get::Text(|t| &t.entry.subject.id)),
        ("round", Get::Count(|t| Some(t.round.index))),
        ("slot", Get::Count(|t| Some(t.round.slot))),
        ("instance", Get::Count(|t| Some(t.round.instance))),
        ("tick", Get::Count(|t| Some(t.round.tick_index(t.i)))),
        ("deadline_ns", Get::Count(|t| Some(t.deadline_ns()))),
        ("lateness_ns", Get::Whole(|t| Some(t.round.lateness_ns[t.i]))),
        (
            "until_unpark_ns",
            Get::Whole(|t| t.round.until_unpark_ns.as_ref()?.get(t.i).copied().flatten()),
        ),
    ]
}
