//! The report of `osjitter bench timeout`, and how its overheads come out of the rounds.

use serde::{Deserialize, Serialize};

use crate::model::model;
use crate::report::{Distribution, Host, Tool, Warning};
use crate::stats::quantile::{is_supported, nearest_rank};
use crate::stats::sign_test::median_interval;

/// Value of [`Report::bench`].
pub const BENCH: &str = "timeout";

const CONFIDENCE: f64 = 0.95;
/// Costs are fractions of a nanosecond; the statistics are of whole numbers.
const PS_PER_NS: f64 = 1e3;
/// Steps of a per cent that ratios are told in.
const STEPS_PER_PERCENT: f64 = 1e4;

model! {
    /// One invocation.
    pub struct Report {
        /// Always [`SCHEMA`](super::SCHEMA).
        pub schema: String,
        /// Always [`BENCH`].
        pub bench: String,
        /// The program that wrote it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Length of the whole bench.
        pub duration_ns: u64,
        /// It was interrupted.
        pub partial: bool,
        /// What was asked for.
        pub plan: Plan,
        /// The machine.
        pub host: Host,
        /// The clocks that the variants read.
        pub clocks: Vec<Clock>,
        /// What a reader should know before trusting a number.
        pub warnings: Vec<Warning>,
        /// One entry for each workload and length.
        pub workloads: Vec<Workload>,
    }

    /// What was asked for.
    pub struct Plan {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Rounds; in each, every variant runs once.
        pub rounds: u64,
        /// Aim for the measured time of one variant in one round.
        pub round_time_ns: u64,
        /// Batches of messages in a round.
        pub batches: u64,
        /// Capacity of the channel.
        pub capacity: u64,
    }

    /// A clock that stamps or deadlines are read from.
    pub struct Clock {
        /// Its name.
        pub name: String,
        /// What is read.
        pub source: String,
        /// Cost of one reading.
        pub ns_per_read: f64,
    }

    /// One workload.
    pub struct Workload {
        /// Unique within the report, for example `pending@10s`.
        pub id: String,
        /// Its name, parameter included.
        pub name: String,
        /// Length of the timeout.
        pub length_ns: u64,
        /// The runtime it ran on.
        pub runtime: String,
        /// One entry for each variant and clock; the first is the baseline, where there is one.
        pub results: Vec<Measured>,
    }

    /// What was measured of one variant with one clock.
    pub struct Measured {
        /// Name of the variant.
        pub variant: String,
        /// The clock it reads.
        pub clock: String,
        /// Cost of a message; null where no message came.
        pub ns_per_message: Option<Costs>,
        /// Difference to the baseline of the same rounds.
        pub overhead: Option<Overhead>,
        /// What a message asks for; null where it was not counted.
        pub counts: Option<Counts>,
        /// Timeouts that fired in the measured rounds.
        pub fired: u64,
        /// Of those that were meant to fire: from the moment they were due until the task ran.
        pub lateness_ns: Option<Distribution>,
        /// Fired before they were due: each is a bug.
        pub early: u64,
        /// Cost of a message, median of each round, in the order of the rounds.
        pub rounds: Vec<f64>,
    }

    /// A distribution of the cost of a message, over batches.
    pub struct Costs {
        /// Batches.
        pub batches: u64,
        /// Smallest.
        pub min: f64,
        /// Median.
        pub p50: f64,
        /// 90th percentile; null where fewer than 5 batches lie above it, as with the next.
        pub p90: Option<f64>,
        /// 99th percentile.
        pub p99: Option<f64>,
        /// Largest.
        pub max: f64,
    }

    /// Median over rounds of the difference to the baseline in the same round.
    pub struct Overhead {
        /// In nanoseconds a message.
        pub ns: f64,
        /// Its 95 % confidence interval; null with fewer than 6 rounds.
        pub ns_ci95: Option<[f64; 2]>,
        /// In per cent of the baseline.
        pub percent: f64,
        /// Its 95 % confidence interval.
        pub percent_ci95: Option<[f64; 2]>,
        /// What the interval says.
        pub verdict: Verdict,
    }

    /// What a message asks for, counted in a run of its own that is not timed.
    pub struct Counts {
        /// Messages counted over.
        pub messages: u64,
        /// Readings of any clock by the whole process; null where they cannot be counted.
        pub clock_reads: Option<f64>,
        /// Timers made.
        pub timers_made: f64,
        /// Timers registered with the runtime, or set to another time.
        pub timer_registrations: f64,
        /// Allocations of the whole process.
        pub allocations: f64,
        /// Bytes allocated and not given back over all these messages.
        pub bytes_kept: i64,
    }
}

/// What the interval of an overhead says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It holds zero.
    NoDifference,
    /// It lies above zero.
    Dearer,
    /// It lies below zero.
    Cheaper,
    /// There is none.
    TooFewRounds,
}

impl Costs {
    /// Of the batches of all rounds; `None` without any.
    #[must_use]
    pub fn of(batches: &[f64]) -> Option<Self> {
        let mut sorted: Vec<i64> = batches.iter().map(|&ns| ps(ns)).collect();
        sorted.sort_unstable();
        let n = sorted.len();
        let at = |q: f64| nearest_rank(&sorted, q).map(ns);
        let carried = |q: f64| at(q).filter(|_| is_supported(n, q));
        Some(Self {
            batches: n as u64,
            min: ns(*sorted.first()?),
            p50: at(0.5)?,
            p90: carried(0.9),
            p99: carried(0.99),
            max: ns(*sorted.last()?),
        })
    }
}

impl Overhead {
    /// Of `rounds` over the `baseline` of the same rounds; `None` without a round.
    #[must_use]
    pub fn of(baseline: &[f64], rounds: &[f64]) -> Option<Self> {
        let pairs = || baseline.iter().zip(rounds);
        let differences: Vec<i64> = pairs().map(|(b, r)| ps(r - b)).collect();
        let ratios: Vec<i64> = pairs()
            .map(|(b, r)| ((r - b) / b.max(1.0 / PS_PER_NS) * 100.0 * STEPS_PER_PERCENT).round() as i64)
            .collect();
        let (difference, interval) = median_interval(&differences, CONFIDENCE)?;
        let (ratio, ratio_interval) = median_interval(&ratios, CONFIDENCE)?;
        let verdict = match interval {
            None => Verdict::TooFewRounds,
            Some([low, _]) if low > 0 => Verdict::Dearer,
            Some([_, high]) if high < 0 => Verdict::Cheaper,
            Some(_) => Verdict::NoDifference,
        };
        let percent = |steps: i64| steps as f64 / STEPS_PER_PERCENT;
        Some(Self {
            ns: ns(difference),
            ns_ci95: interval.map(|i| i.map(ns)),
            percent: percent(ratio),
            percent_ci95: ratio_interval.map(|i| i.map(percent)),
            verdict,
        })
    }
}

/// Median of the batches of one round; `None` without any.
#[must_use]
pub fn median(batches: &[f64]) -> Option<f64> {
    Costs::of(batches).map(|c| c.p50)
}

fn ps(ns: f64) -> i64 {
    (ns * PS_PER_NS).round() as i64
}

fn ns(ps: i64) -> f64 {
    ps as f64 / PS_PER_NS
}

impl Report {
    /// Reads a report.
    ///
    /// # Errors
    /// A sentence: not JSON, another schema or bench, or a field that is missing, unknown or mistyped.
    pub fn from_json(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Head {
            schema: Option<String>,
            bench: Option<String>,
        }
        let head: Head = serde_json::from_str(text).map_err(|e| format!("not a report: {e}"))?;
        match (head.schema.as_deref(), head.bench.as_deref()) {
            (Some(super::SCHEMA), Some(BENCH)) => serde_json::from_str(text).map_err(|e| format!("not valid: {e}")),
            (schema, bench) => Err(format!("schema {schema:?}, bench {bench:?} is not {:?}, {BENCH:?}", super::SCHEMA)),
        }
    }

    /// Writes a report; ends with a newline.
    ///
    /// # Panics
    /// Never: the model holds nothing that JSON cannot.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string(self).expect("the model is plain data");
        text.push('\n');
        text
    }
}

/// JSON Schema of the report.
#[cfg(feature = "schema")]
#[must_use]
pub fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(Report).to_value();
    schema["properties"]["schema"]["const"] = super::SCHEMA.into();
    schema["properties"]["bench"]["const"] = BENCH.into();
    schema["title"] = format!("{}, {BENCH}", super::SCHEMA).into();
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_paired_and_says_no_difference_only_where_zero_is_inside() {
        // The machine doubles its speed half-way: unpaired, the medians would say nothing.
        let baseline: Vec<f64> = (0..20).map(|r| if r < 10 { 200.0 } else { 100.0 }).collect();
        let dearer: Vec<f64> = baseline.iter().zip(0..).map(|(b, r)| b + 4.0 + f64::from(r % 3)).collect();
        let overhead = Overhead::of(&baseline, &dearer).unwrap();
        assert_eq!((overhead.ns, overhead.verdict), (5.0, Verdict::Dearer));
        assert!(overhead.ns_ci95.unwrap()[0] >= 4.0 && (2.0..6.0).contains(&overhead.percent));
        let noise: Vec<f64> = baseline.iter().zip(0..).map(|(b, r)| b + f64::from(r % 5) - 2.0).collect();
        assert_eq!(Overhead::of(&baseline, &noise).unwrap().verdict, Verdict::NoDifference);
        let cheaper: Vec<f64> = baseline.iter().map(|b| b - 0.5).collect();
        assert_eq!(Overhead::of(&baseline, &cheaper).unwrap().verdict, Verdict::Cheaper);
        assert_eq!(Overhead::of(&baseline[..3], &dearer[..3]).unwrap().verdict, Verdict::TooFewRounds);
        assert_eq!(Overhead::of(&[], &[]), None);
    }

    #[test]
    fn costs_keep_fractions_and_give_no_percentile_they_cannot() {
        let costs = Costs::of(&[1.25, 0.5, 3.0]).unwrap();
        assert_eq!((costs.min, costs.p50, costs.p90, costs.max), (0.5, 1.25, None, 3.0));
        let many: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(Costs::of(&many).unwrap().p90, Some(90.0));
        assert_eq!(median(&[]), None);
    }
}
