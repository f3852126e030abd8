//! The names of the numbers of a summary that can be limited.

use std::fmt;

use crate::report::PERCENTILES;
use jitterstat::stats::{bootstrap, quantile};

/// The quantity of a number, which determines the units of its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A time in nanoseconds.
    Time,
    /// A number of ticks, in per cent of the planned ticks.
    PartOfTicks,
    /// CPU time, in per cent of one core.
    PartOfCore,
    /// A rate in parts per billion.
    Rate,
    /// A number per tick of the window in which it was counted.
    PerTick,
}

impl Quantity {
    /// Returns the unit of its values.
    #[must_use]
    pub fn unit(self) -> &'static str {
        match self {
            Self::Time => "ns",
            Self::PartOfTicks | Self::PartOfCore => "%",
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

/// Series of a statistic without a prefix.
const LATENESS: &str = "lateness_ns";
const SERIES: [(&str, Series); 5] = [
    (LATENESS, Series::Lateness),
    ("jitter_consecutive_ns", Series::Consecutive),
    ("jitter_spread_ns", Series::Spread),
    ("until_unpark_ns", Series::UntilUnpark),
    ("after_unpark_ns", Series::AfterUnpark),
];

/// Numbers that do not belong to a series.
const SINGLE: [(&str, NumberKind); 9] = [
    ("missed", NumberKind::Ticks(Count::Missed)),
    ("skipped", NumberKind::Ticks(Count::Skipped)),
    ("coalesced", NumberKind::Ticks(Count::Coalesced)),
    ("delivered", NumberKind::Ticks(Count::Delivered)),
    ("early", NumberKind::Ticks(Count::Early)),
    ("no_park", NumberKind::Ticks(Count::NoPark)),
    ("drift_ppb", NumberKind::Drift),
    ("cpu_ns_per_tick", NumberKind::Cpu),
    ("wakeups_per_tick", NumberKind::Wakeups),
];

/// Numbers of a summary that depend only on the length of the run.
const LENGTHS: [&str; 3] = ["ticks", "elapsed_ns", "ideal_ns"];

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
pub(super) enum NumberKind {
    Statistic(Series, Statistic),
    MedianRound(f64),
    Ticks(Count),
    Drift,
    Cpu,
    Wakeups,
}

/// The path of a number in a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryPath {
    name: String,
    pub(super) kind: NumberKind,
}

/// The error of a path that cannot be limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathError {
    /// Summaries contain no such number.
    Unknown,
    /// The number depends only on the length of the run.
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
    /// A statistic without a prefix is one of lateness (`p99`). The `_ns` of a prefix can be
    /// omitted (`jitter_spread.p99`), and a percentile can be written with a decimal point
    /// (`p99.9`).
    ///
    /// ```
    /// use files::gate::limit::SummaryPath;
    /// assert_eq!(SummaryPath::find("p99.9").unwrap().to_string(), "lateness_ns.p99_9");
    /// let spread = SummaryPath::find("jitter_spread.max").unwrap();
    /// assert_eq!(spread.to_string(), "jitter_spread_ns.max");
    /// assert!(SummaryPath::find("latenes.p99").is_err());
    /// ```
    ///
    /// # Errors
    /// Returns an error if the number does not exist or cannot be limited.
    pub fn find(text: &str) -> Result<Self, PathError> {
        if LENGTHS.contains(&text) {
            return Err(PathError::OfTheLength);
        }
        let written = [("p99.99", "p99_99"), ("p99.9", "p99_9")];
        let stored = written
            .iter()
            .find_map(|(as_read, name)| Some(text.strip_suffix(as_read)?.to_owned() + name));
        let text = stored.as_deref().unwrap_or(text);
        let matches = |path: &Self| match (path.name.split_once('.'), text.split_once('.')) {
            (Some((head, last)), Some((h, l))) => {
                l == last && (h == head || head.strip_suffix("_ns") == Some(h))
            }
            (Some((head, last)), None) => head == LATENESS && last == text,
            (None, _) => path.name == text,
        };
        Self::list().into_iter().find(matches).ok_or(PathError::Unknown)
    }

    /// Returns every number that can be limited.
    #[must_use]
    pub fn list() -> Vec<Self> {
        let percentiles = PERCENTILES.map(|p| (p.key, Statistic::Quantile(p.quantile)));
        let mut statistics = vec![("min", Statistic::Min), ("mean", Statistic::Mean)];
        statistics.extend(percentiles);
        statistics.push(("max", Statistic::Max));
        let path = |name: String, kind| Self { name, kind };
        let mut paths = Vec::new();
        for (head, series) in SERIES {
            paths.extend(statistics.iter().map(|(last, s)| {
                path(format!("{head}.{last}"), NumberKind::Statistic(series, *s))
            }));
        }
        paths.extend(PERCENTILES.map(|p| {
            path(format!("median_round_ns.{}", p.key), NumberKind::MedianRound(p.quantile))
        }));
        paths.extend(SINGLE.map(|(name, kind)| path(name.to_owned(), kind)));
        paths
    }

    /// Returns the quantity of the number.
    #[must_use]
    pub fn quantity(&self) -> Quantity {
        match self.kind {
            NumberKind::Statistic(..) | NumberKind::MedianRound(_) | NumberKind::Cpu => {
                Quantity::Time
            }
            NumberKind::Ticks(_) => Quantity::PartOfTicks,
            NumberKind::Drift => Quantity::Rate,
            NumberKind::Wakeups => Quantity::PerTick,
        }
    }

    /// Whether only subjects with a runtime have the number.
    #[must_use]
    pub fn needs_runtime(&self) -> bool {
        matches!(
            self.kind,
            NumberKind::Statistic(Series::UntilUnpark | Series::AfterUnpark, _)
                | NumberKind::Ticks(Count::NoPark)
        )
    }

    /// Whether the number is a percentile, which only samples have with an interval.
    #[must_use]
    pub fn needs_samples(&self) -> bool {
        matches!(
            self.kind,
            NumberKind::Statistic(_, Statistic::Quantile(_)) | NumberKind::MedianRound(_)
        )
    }

    /// Whether the number is unknown without a period.
    #[must_use]
    pub fn needs_period(&self) -> bool {
        self.kind == NumberKind::Ticks(Count::Missed)
    }

    /// Whether the number is a minimum or a maximum.
    #[must_use]
    pub fn is_extreme(&self) -> bool {
        matches!(self.kind, NumberKind::Statistic(_, Statistic::Min | Statistic::Max))
    }

    /// Whether early ticks make the number smaller than the others alone would.
    #[must_use]
    pub fn is_lowered_by_early_ticks(&self) -> bool {
        match self.kind {
            NumberKind::Statistic(Series::Lateness, statistic) => statistic != Statistic::Max,
            NumberKind::MedianRound(_) => true,
            _ => false,
        }
    }

    /// Whether the number tells classes of ticks apart, as no other tool does.
    #[must_use]
    pub fn needs_tick_classes(&self) -> bool {
        matches!(self.kind, NumberKind::Ticks(Count::Skipped | Count::Coalesced | Count::Early))
    }

    /// Returns the minimum number of ticks, in rounds of `round_ticks`; `None` if rounds of that
    /// length are too short for the number.
    #[must_use]
    pub fn least_ticks(&self, round_ticks: u64) -> Option<u64> {
        match self.kind {
            NumberKind::Statistic(series, statistic) => {
                let values = match statistic {
                    Statistic::Quantile(q) => {
                        (quantile::MIN_SAMPLES_ABOVE / (1.0 - q)).round() as u64
                    }
                    _ => 1,
                };
                match (series, round_ticks) {
                    // A round has one difference less than ticks.
                    (Series::Consecutive, ..=1) => None,
                    (Series::Consecutive, _) => Some(values + values.div_ceil(round_ticks - 1)),
                    _ => Some(values),
                }
            }
            NumberKind::MedianRound(_) => self
                .is_supported_by_round(round_ticks)
                .then_some(round_ticks * bootstrap::MIN_ROUNDS as u64),
            _ => Some(1),
        }
    }

    /// Whether a round of this many ticks has the number, if every round must have it.
    #[must_use]
    pub fn is_supported_by_round(&self, ticks: u64) -> bool {
        match self.kind {
            NumberKind::MedianRound(q) => {
                usize::try_from(ticks).is_ok_and(|n| quantile::is_supported_by_round(n, q))
            }
            _ => true,
        }
    }
}
