//! Limits on the lateness of an interval. Does no I/O.

use std::str::FromStr;
use std::time::Duration;

use cli::time::{format_share, format_time};
use files::bins::Key;
use files::gate::limit::Quantity;
use jitterstat::stats::quantile;

use crate::monitor::breaches::{Breach, BreachLateTick};
use crate::monitor::loop_id::LoopId;
use crate::monitor::loop_record::IntervalStats;
use crate::written_limit::{KnownNames, LimitError, LimitFlaw, WrittenLimit};

/// Maximum number of limits, since each adds a series to the metrics of every loop.
pub const MAX_LIMITS: usize = 8;
/// A limit, such as `p99=2ms`, `max=20ms` or `missed=0.1%`.
///
/// It applies to all loops, or to those of one subject or meter if its name and a colon come first.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// The limit as the user wrote it.
    pub text: String,
    /// Name of the subject or meter to which it applies, if not to all.
    target: Option<String>,
    kind: LimitKind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum LimitKind {
    Quantile {
        q: f64,
        max_ns: u64,
    },
    Max {
        max_ns: u64,
    },
    /// Missed ticks, in per cent.
    Missed {
        max_percent: f64,
    },
}

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Examples for the error of a text that is not a limit.
const EXAMPLES: &str = "p99=2ms, max=20ms, missed=0.1% or NAME:p99=2ms";

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        let (target, limit) = match text.rsplit_once(':') {
            Some(("", _)) => {
                let flaw = LimitFlaw::MissingValue { examples: EXAMPLES };
                return Err(LimitError::new("limit", text, flaw));
            }
            Some((target, limit)) => (Some(target.to_owned()), limit),
            None => (None, text),
        };
        let kind = LimitKind::parse(&WrittenLimit::split("limit", limit, EXAMPLES)?)?;
        Ok(Self { text: text.to_owned(), target, kind })
    }
}

impl LimitKind {
    fn parse(limit: &WrittenLimit<'_>) -> Result<Self, LimitError> {
        let max_ns = || limit.decisive_value(Quantity::Time).map(|ns| ns as u64);
        if let Some((_, q)) = QUANTILES.iter().find(|(quantile, _)| *quantile == limit.name) {
            return Ok(Self::Quantile { q: *q, max_ns: max_ns()? });
        }
        match limit.name {
            "max" => Ok(Self::Max { max_ns: max_ns()? }),
            "missed" => {
                Ok(Self::Missed { max_percent: limit.decisive_value(Quantity::PartOfTicks)? })
            }
            _ => {
                let mut names = QUANTILES.map(|(name, _)| name).to_vec();
                names.extend(["max", "missed"]);
                Err(limit.unknown_name(KnownNames::All(names)))
            }
        }
    }
}

/// The measured value that broke a limit.
struct Excess {
    /// In the unit of the limit.
    value: f64,
    text: String,
}

impl Limit {
    /// Whether another limit, which may be written differently, is the same.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.target, self.kind) == (&other.target, other.kind)
    }

    /// Returns whether the limit applies to a loop.
    pub fn applies_to(&self, loop_id: &LoopId) -> bool {
        let (LoopId::Probe { subject: name, .. } | LoopId::Meter { meter: name, .. }) = loop_id;
        self.target.as_ref().is_none_or(|target| target == name)
    }

    /// Returns the lateness from which a tick contributes to a breach.
    pub fn late_from(&self) -> Option<Duration> {
        match self.kind {
            LimitKind::Quantile { max_ns, .. } | LimitKind::Max { max_ns } => {
                Some(Duration::from_nanos(max_ns))
            }
            LimitKind::Missed { .. } => None,
        }
    }

    /// Returns the lateness above which a single tick breaks the limit, if one can.
    pub fn broken_from(&self) -> Option<Duration> {
        match self.kind {
            LimitKind::Max { max_ns } => Some(Duration::from_nanos(max_ns)),
            _ => None,
        }
    }

    /// Returns the number of ticks below which the limit cannot be judged.
    pub fn min_ticks(&self) -> u64 {
        match self.kind {
            LimitKind::Quantile { q, .. } => {
                (quantile::MIN_SAMPLES_ABOVE / (1.0 - q)).round() as u64
            }
            _ => 1,
        }
    }

    /// Returns whether an interval of a loop has too few ticks for the limit, which applies to it.
    pub fn needs_more_ticks(&self, loop_id: &LoopId, stats: &IntervalStats) -> bool {
        self.applies_to(loop_id) && stats.counts.ticks.came() < self.min_ticks()
    }

    /// Returns the measured value if it exceeds the limit.
    fn excess(&self, stats: &IntervalStats) -> Option<Excess> {
        match self.kind {
            LimitKind::Quantile { q, max_ns } => lateness_excess(stats.quantile_ns(q)?, max_ns),
            LimitKind::Max { max_ns } => lateness_excess(stats.counts.max_ns?, max_ns),
            LimitKind::Missed { max_percent } => {
                let (missed, ticks) = (stats.counts.ticks.missed?, stats.counts.ticks.planned);
                let value = missed as f64 / ticks.max(1) as f64 * 100.0;
                if value > max_percent {
                    Some(Excess { value, text: format_share(missed, ticks) })
                } else {
                    None
                }
            }
        }
    }

    /// Returns the breach if an interval breaks the limit.
    pub fn breach(&self, loop_id: &LoopId, key: &Key, stats: &IntervalStats) -> Option<Breach> {
        if !self.applies_to(loop_id) {
            return None;
        }
        let excess = self.excess(stats)?;
        let (limit, unit) = match self.kind {
            LimitKind::Quantile { max_ns, .. } | LimitKind::Max { max_ns } => (max_ns as f64, "ns"),
            LimitKind::Missed { max_percent } => (max_percent, "%"),
        };
        Some(Breach {
            subject: key.subject.clone(),
            period_ns: key.period_ns,
            runtime: key.runtime.clone(),
            labels: key.labels.to_string(),
            what: self.text.clone(),
            limit,
            value: excess.value,
            unit: unit.to_owned(),
            shown: excess.text,
            ticks: stats.counts.ticks.planned,
            cpu_ns: stats.counts.cpu_ns,
            run_queue_ns: stats.counts.run_queue_ns,
            throttled_ns: stats.counts.throttled_ns,
            steal_ns: stats.counts.steal_ns,
            late: stats.late_ticks.iter().map(BreachLateTick::from).collect(),
        })
    }
}

fn lateness_excess(ns: i64, max_ns: u64) -> Option<Excess> {
    let exceeds = u64::try_from(ns).is_ok_and(|ns| ns > max_ns);
    if exceeds { Some(Excess { value: ns as f64, text: format_time(ns) }) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::bins::IntervalCounts;
    use files::tick_counts::TickCounts;

    use crate::monitor::loop_record::BINNING;

    fn probe() -> LoopId {
        LoopId::Probe { subject: "spin".to_owned(), period_ns: 1, runtime: String::new() }
    }

    fn breach(limit: &str, stats: &IntervalStats) -> Option<f64> {
        limit
            .parse::<Limit>()
            .unwrap()
            .breach(&probe(), &Key::default(), stats)
            .map(|breach| breach.value)
    }

    #[test]
    fn limit_is_broken_only_when_exceeded() {
        let bins = [(BINNING.bin(1_000).lower, 990), (BINNING.bin(3_000_000).lower, 10)]
            .into_iter()
            .collect();
        let ticks = TickCounts {
            planned: 1_010,
            delivered: 1_000,
            skipped: Some(10),
            missed: Some(11),
            ..TickCounts::default()
        };
        let counts = IntervalCounts { ticks, max_ns: Some(3_001_000), ..IntervalCounts::default() };
        let stats = IntervalStats { bins, counts, late_ticks: Vec::new() };
        assert_eq!(breach("p99=1ms", &stats), None, "the 990th of 1,000");
        assert_eq!(breach("p99.9=1ms", &stats), None, "one tick beyond it is too few");
        assert_eq!(breach("max=3001us", &stats), None);
        assert_eq!(breach("max=3ms", &stats), Some(3_001_000.0));
        assert_eq!(breach("p50=1us", &stats), Some(1_003.0), "rounded up to the end of its bin");
        assert_eq!(breach("missed=1%", &stats).map(f64::floor), Some(1.0));
        assert_eq!(breach("missed=2%", &stats), None);
        assert_eq!(breach("nanosleep:max=1us", &stats), None, "it applies to another subject");
        assert_eq!(breach("spin:max=1us", &stats), Some(3_001_000.0));
    }

    #[test]
    fn breach_lists_known_causes() {
        let causes = |counts: IntervalCounts| {
            let stats = IntervalStats {
                counts: IntervalCounts {
                    ticks: TickCounts { planned: 1, ..TickCounts::default() },
                    max_ns: Some(9),
                    ..counts
                },
                ..IntervalStats::default()
            };
            let limit: Limit = "max=1ns".parse().unwrap();
            limit.breach(&probe(), &Key::default(), &stats).unwrap().causes()
        };
        assert_eq!(causes(IntervalCounts::default()), None);
        assert_eq!(
            causes(IntervalCounts {
                run_queue_ns: Some(0),
                steal_ns: Some(0),
                ..IntervalCounts::default()
            }),
            None
        );
        let counts = IntervalCounts {
            run_queue_ns: Some(2_500_000),
            steal_ns: Some(10_000_000),
            ..IntervalCounts::default()
        };
        assert_eq!(
            causes(counts).unwrap(),
            "2.50 ms waiting for a CPU, 10.0 ms stolen by the hypervisor"
        );
    }

    #[test]
    fn percentile_needs_a_minimum_of_ticks() {
        let min_ticks = |text: &str| text.parse::<Limit>().unwrap().min_ticks();
        assert_eq!(
            ["p50=1us", "p99=1us", "p99.9=1us", "max=1us"].map(min_ticks),
            [10, 500, 5_000, 1]
        );
        for (name, q) in QUANTILES {
            let n = usize::try_from(min_ticks(&format!("{name}=1us"))).unwrap();
            assert!(
                quantile::is_supported(n, q) && !quantile::is_supported(n - 1, q),
                "{name}: {n}"
            );
        }
    }

    #[test]
    fn invalid_limits_are_rejected() {
        for (text, expected) in [
            ("p99", "p99=2ms"),
            ("p98=1ms", "expected p50"),
            ("p99=2", "no unit"),
            ("p99=0us", "more than 0"),
            ("missed=100%", "less than 100%"),
            ("missed=1ms", "missed=0.1%"),
            (":p99=1ms", "NAME:p99=2ms"),
        ] {
            let error = text.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
