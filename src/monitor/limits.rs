//! What the lateness of an interval may be, and where it was more: pure.

use std::str::FromStr;
use std::time::Duration;

use cli::time::{format_share, format_time};
use cli::units;
use files::bins::Key;
use jitterstat::stats::quantile;

use crate::file_io::model;
use crate::monitor::books::{Figures, Loop};

/// More limits than this would be more series than anybody reads.
pub const MAX_LIMITS: usize = 8;
/// Value of [`Breaches::schema`].
pub const SCHEMA: &str = "osjitter.breaches/1";

/// `p99=2ms`, `max=20ms`, `missed=0.1%`; before it a subject's or meter's name and a colon, for
/// that one alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    of: Option<String>,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Quantile(f64, u64),
    Max(u64),
    /// In per cent of the ticks.
    Missed(f64),
}

const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of, limit) =
            text.rsplit_once(':').map_or((None, text), |(of, limit)| (Some(of.to_owned()), limit));
        let no_limit = || {
            format!(
                "no limit {text:?}; write for example p99=2ms, max=20ms, missed=0.1% or NAME:p99=2ms"
            )
        };
        let (name, value) = limit.split_once('=').ok_or_else(no_limit)?;
        let ns = || {
            let length = units::parse_duration(value)?;
            let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
            if ns == 0 {
                Err(format!("{text} is broken by every tick; give more than 0"))
            } else {
                Ok(ns)
            }
        };
        let what = match QUANTILES.iter().find(|(known, _)| *known == name) {
            Some((_, q)) => What::Quantile(*q, ns()?),
            None if name == "max" => What::Max(ns()?),
            None if name == "missed" => {
                let share = value
                    .trim()
                    .strip_suffix('%')
                    .and_then(|share| share.trim().parse::<f64>().ok());
                let share = share.filter(|share| (0.0..100.0).contains(share));
                What::Missed(share.ok_or_else(|| {
                    format!("{value:?} is no share below 100%; write for example missed=0.1%")
                })?)
            }
            None => {
                let names = QUANTILES.map(|(name, _)| name).join(", ");
                return Err(format!("no limit on {name:?}; there are {names}, max and missed"));
            }
        };
        if of.as_ref().is_some_and(String::is_empty) {
            return Err(no_limit());
        }
        Ok(Self { text: text.to_owned(), of, what })
    }
}

impl Limit {
    pub fn is_of(&self, of: &Loop) -> bool {
        let (Loop::Probe { subject: name, .. } | Loop::Meter { meter: name, .. }) = of;
        self.of.as_ref().is_none_or(|only| only == name)
    }

    /// Ticks from this lateness on are those that break it.
    pub fn late_from(&self) -> Option<Duration> {
        match self.what {
            What::Quantile(_, ns) | What::Max(ns) => Some(Duration::from_nanos(ns)),
            What::Missed(_) => None,
        }
    }

    /// The fewest ticks that can be held against it.
    pub fn least_ticks(&self) -> u64 {
        match self.what {
            What::Quantile(q, _) => (quantile::MIN_SAMPLES_ABOVE / (1.0 - q)).round() as u64,
            _ => 1,
        }
    }

    /// What was measured where it is more than that, for programs and for people.
    fn exceeded(&self, figures: &Figures) -> Option<(f64, String)> {
        match self.what {
            What::Quantile(_, limit_ns) | What::Max(limit_ns) => {
                let measured = match self.what {
                    What::Quantile(q, _) => figures.quantile_ns(q),
                    _ => figures.facts.max_ns,
                };
                let over =
                    measured.filter(|ns| u64::try_from(*ns).is_ok_and(|ns| ns > limit_ns))?;
                Some((over as f64, format_time(over)))
            }
            What::Missed(limit) => {
                let (missed, ticks) = (figures.facts.missed, figures.facts.ticks);
                let percent = missed as f64 / ticks.max(1) as f64 * 100.0;
                (percent > limit).then(|| (percent, format_share(missed, ticks)))
            }
        }
    }

    /// Whether an interval breaks it.
    pub fn breach(&self, of: &Loop, key: &Key, figures: &Figures) -> Option<Breach> {
        if !self.is_of(of) {
            return None;
        }
        let (value, shown) = self.exceeded(figures)?;
        let (limit, unit) = match self.what {
            What::Quantile(_, ns) | What::Max(ns) => (ns as f64, "ns"),
            What::Missed(percent) => (percent, "%"),
        };
        let late = figures.late.iter().map(|late| LateTick {
            at_utc: humantime::format_rfc3339_micros(late.at).to_string(),
            lateness_ns: late.lateness_ns,
            work_ns: late.work_ns,
            overrun_ns: late.overrun_ns,
        });
        Some(Breach {
            subject: key.subject.clone(),
            period_ns: key.period_ns,
            runtime: key.runtime.clone(),
            labels: key.labels.to_string(),
            what: self.text.clone(),
            limit,
            value,
            unit: unit.to_owned(),
            shown,
            ticks: figures.facts.ticks,
            cpu_ns: figures.facts.cpu_ns,
            run_queue_ns: figures.facts.run_queue_ns,
            throttled_ns: figures.facts.throttled_ns,
            steal_ns: figures.facts.steal_ns,
            late: late.collect(),
        })
    }
}

model! {
    /// What broke the limits in one interval.
    pub struct Breaches {
        /// Always `osjitter.breaches/1`.
        pub schema: String,
        /// Name of the machine.
        pub host: String,
        /// As in the interval's rows.
        pub run_id: String,
        /// Start of the interval, RFC 3339, UTC.
        pub start: String,
        /// Length of the interval.
        pub duration_ns: u64,
        /// At least one.
        pub breaches: Vec<Breach>,
    }

    /// One limit, broken by one subject or meter.
    pub struct Breach {
        /// Name of the subject or meter.
        pub subject: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Runtime of a probe; empty for a bare thread, or where it is not known.
        pub runtime: String,
        /// `key=value;key=value`.
        pub labels: String,
        /// The limit, as on the command line.
        pub what: String,
        /// The limit, in its unit.
        pub limit: f64,
        /// What was measured, in the same unit.
        pub value: f64,
        /// `ns`, or `%` of the ticks.
        pub unit: String,
        /// What was measured, for people.
        pub shown: String,
        /// Ticks of the interval.
        pub ticks: u64,
        /// CPU time of the probe's threads in the interval; null where it is not known, as of a
        /// meter.
        pub cpu_ns: Option<u64>,
        /// How long they were ready and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// How long the monitor's control group stood still because its CPU quota was used up.
        pub throttled_ns: Option<u64>,
        /// What the hypervisor took from the machine.
        pub steal_ns: Option<u64>,
        /// The last late ticks of the interval, the oldest first; at most 128.
        pub late: Vec<LateTick>,
    }

    /// A tick that came late.
    pub struct LateTick {
        /// When it came, RFC 3339, UTC.
        pub at_utc: String,
        /// By how much.
        pub lateness_ns: u64,
        /// How long the work before it took; null where that is not known.
        pub work_ns: Option<u64>,
        /// How much of the lateness is due to that work.
        pub overrun_ns: u64,
    }
}

impl Breach {
    /// What is known to have kept its loop from running, for people; `None` where nothing is.
    pub fn causes(&self) -> Option<String> {
        let known = [
            (self.run_queue_ns, "waiting for a CPU"),
            (self.throttled_ns, "throttled by a CPU quota"),
            (self.steal_ns, "stolen by the hypervisor"),
        ];
        let took = known.into_iter().filter_map(|(ns, what)| {
            let ns = i64::try_from(ns.filter(|&ns| ns > 0)?).unwrap_or(i64::MAX);
            Some(format!("{} {what}", format_time(ns)))
        });
        Some(took.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::bins::IntervalCounts;

    use crate::monitor::books::BINNING;

    fn probe() -> Loop {
        Loop::Probe { subject: "spin".to_owned(), period_ns: 1, runtime: String::new() }
    }

    fn breach(limit: &str, figures: &Figures) -> Option<f64> {
        limit
            .parse::<Limit>()
            .unwrap()
            .breach(&probe(), &Key::default(), figures)
            .map(|breach| breach.value)
    }

    #[test]
    fn a_limit_is_broken_only_by_more() {
        let bins = [(BINNING.bin(1_000).lower, 990), (BINNING.bin(3_000_000).lower, 10)]
            .into_iter()
            .collect();
        let facts = IntervalCounts {
            ticks: 1_010,
            delivered: 1_000,
            skipped: 10,
            missed: 11,
            max_ns: Some(3_001_000),
            ..IntervalCounts::default()
        };
        let figures = Figures { bins, facts, late: Vec::new() };
        assert_eq!(breach("p99=1ms", &figures), None, "the 990th of 1,000");
        assert_eq!(breach("p99.9=1ms", &figures), None, "one tick beyond it is too few");
        assert_eq!(breach("max=3001us", &figures), None);
        assert_eq!(breach("max=3ms", &figures), Some(3_001_000.0));
        assert_eq!(breach("p50=1us", &figures), Some(1_003.0), "to the end of its bin");
        assert_eq!(breach("missed=1%", &figures).map(f64::floor), Some(1.0));
        assert_eq!(breach("missed=2%", &figures), None);
        assert_eq!(breach("nanosleep:max=1us", &figures), None, "of another one");
        assert_eq!(breach("spin:max=1us", &figures), Some(3_001_000.0));
    }

    #[test]
    fn a_breach_names_what_is_known_of_its_interval() {
        let causes = |facts: IntervalCounts| {
            let figures = Figures {
                facts: IntervalCounts { ticks: 1, max_ns: Some(9), ..facts },
                ..Figures::default()
            };
            let limit: Limit = "max=1ns".parse().unwrap();
            limit.breach(&probe(), &Key::default(), &figures).unwrap().causes()
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
        let facts = IntervalCounts {
            run_queue_ns: Some(2_500_000),
            steal_ns: Some(10_000_000),
            ..IntervalCounts::default()
        };
        assert_eq!(
            causes(facts).unwrap(),
            "2.50 ms waiting for a CPU, 10.0 ms stolen by the hypervisor"
        );
    }

    #[test]
    fn the_ticks_that_a_percentile_needs() {
        let least = |text: &str| text.parse::<Limit>().unwrap().least_ticks();
        assert_eq!(["p50=1us", "p99=1us", "p99.9=1us", "max=1us"].map(least), [10, 500, 5_000, 1]);
        for (name, q) in QUANTILES {
            let n = usize::try_from(least(&format!("{name}=1us"))).unwrap();
            assert!(
                quantile::is_supported(n, q) && !quantile::is_supported(n - 1, q),
                "{name}: {n}"
            );
        }
    }

    #[test]
    fn what_is_no_limit_is_named() {
        for (text, says) in [
            ("p99", "p99=2ms"),
            ("p98=1ms", "there are p50"),
            ("p99=2", "no unit"),
            ("p99=0us", "more than 0"),
            ("missed=100%", "below 100%"),
            ("missed=1ms", "missed=0.1%"),
            (":p99=1ms", "NAME:p99=2ms"),
        ] {
            let error = text.parse::<Limit>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn the_published_schema_is_of_this_document() {
        let schema = serde_json::to_value(schemars::schema_for!(Breaches)).unwrap();
        crate::file_io::check_schema("osjitter.breaches.1.json", &schema);
    }
}
