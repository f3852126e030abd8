//! The numbers of a summary that can be limited, by name.

use std::fmt;

use crate::report::PERCENTILES;
use jitterstat::stats::{bootstrap, quantile};

/// What a number is of, and so which units its limit is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time; in nanoseconds.
    Time,
    /// A number of ticks; in per cent of the ticks asked for.
    PartOfTicks,
    /// A rate; in parts per billion.
    Rate,
    /// A number for each tick asked for.
    PerTick,
}

impl Quantity {
    /// The unit its values are in.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::PartOfTicks => "%",
            Self::Rate => "ppb",
            Self::PerTick => "per tick",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Series {
    Lateness,
    Consecutive,
    Spread,
    UntilUnpark,
    AfterUnpark,
}

/// What a statistic without a head is of.
const LATENESS: &str = "lateness_ns";
const SERIES: [(&str, Series); 5] = [
    (LATENESS, Series::Lateness),
    ("jitter_consecutive_ns", Series::Consecutive),
    ("jitter_spread_ns", Series::Spread),
    ("until_unpark_ns", Series::UntilUnpark),
    ("after_unpark_ns", Series::AfterUnpark),
];

/// Numbers that stand alone.
const SINGLE: [(&str, Kind); 9] = [
    ("missed", Kind::Ticks(Count::Missed)),
    ("skipped", Kind::Ticks(Count::Skipped)),
    ("coalesced", Kind::Ticks(Count::Coalesced)),
    ("delivered", Kind::Ticks(Count::Delivered)),
    ("early", Kind::Ticks(Count::Early)),
    ("no_park", Kind::Ticks(Count::NoPark)),
    ("drift_ppb", Kind::Drift),
    ("cpu_ns_per_tick", Kind::Cpu),
    ("wakeups_per_tick", Kind::Wakeups),
];

/// Numbers of a summary that say how long the run was, not how good.
const OF_THE_LENGTH: [&str; 3] = ["ticks", "elapsed_ns", "ideal_ns"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Statistic {
    Min,
    Mean,
    Quantile(f64),
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Count {
    Missed,
    Skipped,
    Coalesced,
    Delivered,
    Early,
    NoPark,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Of(Series, Statistic),
    MedianRound(f64),
    Ticks(Count),
    Drift,
    Cpu,
    Wakeups,
}

/// One number of a summary, by its path in the report.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryPath {
    name: String,
    pub(super) kind: Kind,
}

/// Why a path names nothing that can be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// A summary has no such number.
    Unknown,
    /// It is there, and says only how long the run was.
    OfTheLength,
}

impl fmt::Display for SummaryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl SummaryPath {
    /// Finds a number of a summary: `lateness_ns.p99`, `jitter_spread_ns.p99_9`, `missed`,
    /// `cpu_ns_per_tick`.
    ///
    /// Without a head a statistic is of lateness (`p99`); the `_ns` of a head may be left out
    /// (`jitter_spread.p99`), and a percentile may be written as people do (`p99.9`).
    ///
    /// ```
    /// use files::gate::limit::SummaryPath;
    /// assert_eq!(SummaryPath::find("p99.9").unwrap().to_string(), "lateness_ns.p99_9");
    /// assert_eq!(SummaryPath::find("jitter_spread.max").unwrap().to_string(), "jitter_spread_ns.max");
    /// assert!(SummaryPath::find("latenes.p99").is_err());
    /// ```
    ///
    /// # Errors
    /// See [`PathError`].
    pub fn find(text: &str) -> Result<Self, PathError> {
        if OF_THE_LENGTH.contains(&text) {
            return Err(PathError::OfTheLength);
        }
        let written = [("p99.99", "p99_99"), ("p99.9", "p99_9")];
        let stored = written
            .iter()
            .find_map(|(as_read, name)| Some(text.strip_suffix(as_read)?.to_owned() + name));
        let text = stored.as_deref().unwrap_or(text);
        let is = |path: &Self| match (path.name.split_once('.'), text.split_once('.')) {
            (Some((head, last)), Some((h, l))) => {
                l == last && (h == head || head.strip_suffix("_ns") == Some(h))
            }
            (Some((head, last)), None) => head == LATENESS && last == text,
            (None, _) => path.name == text,
        };
        Self::all().into_iter().find(is).ok_or(PathError::Unknown)
    }

    /// Every number that can be limited.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let percentiles = PERCENTILES.map(|p| (p.key, Statistic::Quantile(p.quantile)));
        let mut statistics = vec![("min", Statistic::Min), ("mean", Statistic::Mean)];
        statistics.extend(percentiles);
        statistics.push(("max", Statistic::Max));
        let of = |name: String, kind| Self { name, kind };
        let mut all = Vec::new();
        for (head, series) in SERIES {
            all.extend(
                statistics
                    .iter()
                    .map(|(last, s)| of(format!("{head}.{last}"), Kind::Of(series, *s))),
            );
        }
        all.extend(
            PERCENTILES
                .map(|p| of(format!("median_round_ns.{}", p.key), Kind::MedianRound(p.quantile))),
        );
        all.extend(SINGLE.map(|(name, kind)| of(name.to_owned(), kind)));
        all
    }

    /// What it is a number of.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.kind {
            Kind::Of(..) | Kind::MedianRound(_) | Kind::Cpu => Quantity::Time,
            Kind::Ticks(_) => Quantity::PartOfTicks,
            Kind::Drift => Quantity::Rate,
            Kind::Wakeups => Quantity::PerTick,
        }
    }

    /// Whether only a subject that runs in a runtime has it.
    #[must_use]
    pub fn needs_runtime(&self) -> bool {
        matches!(
            self.kind,
            Kind::Of(Series::UntilUnpark | Series::AfterUnpark, _) | Kind::Ticks(Count::NoPark)
        )
    }

    /// The least number of ticks that can carry it, in rounds of `round_ticks`; `None` if rounds
    /// like that never do.
    #[must_use]
    pub fn least_ticks(&self, round_ticks: u64) -> Option<u64> {
        match self.kind {
            Kind::Of(_, Statistic::Quantile(q)) => {
                Some((quantile::MIN_SAMPLES_ABOVE / (1.0 - q)).round() as u64)
            }
            Kind::MedianRound(q) => {
                let carried = usize::try_from(round_ticks)
                    .is_ok_and(|n| quantile::is_supported_by_round(n, q));
                carried.then_some(round_ticks * bootstrap::MIN_ROUNDS as u64)
            }
            _ => Some(1),
        }
    }
}
