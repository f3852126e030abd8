//! The file that `osjitter bench timeout` writes.

use files::cost::{Costs, Overhead};
use files::file::File;
use files::report::{Distribution, Host, Tool, Warning};
use serde::{Deserialize, Deserializer};

use crate::bench::file::SCHEMA;

files::model! {
    /// The result of one invocation.
    pub struct TimeoutReport {
        pub schema: String,
        pub bench: String,
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        pub duration_ns: u64,
        /// Whether it was interrupted.
        pub partial: bool,
        pub plan: Settings,
        pub host: Host,
        /// The clocks that the variants read.
        pub clocks: Vec<MeasuredClock>,
        /// Warnings about the reliability of the numbers.
        pub warnings: Vec<Warning>,
        /// One entry for each workload and length.
        pub workloads: Vec<MeasuredWorkload>,
    }

    /// Settings of the measurement.
    pub struct Settings {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Number of rounds; in each, every variant runs once.
        pub rounds: u64,
        /// Target of the measured time of one variant in one round.
        pub round_time_ns: u64,
        /// Batches of messages in a round.
        pub batches: u64,
        /// Capacity of the channel.
        pub capacity: u64,
    }

    /// A clock of timestamps or deadlines.
    #[cfg_attr(test, schemars(rename = "Clock"))]
    pub struct MeasuredClock {
        pub name: String,
        pub source: String,
        pub ns_per_read: f64,
    }

    /// One workload.
    pub struct MeasuredWorkload {
        /// Unique within the report, for example `pending@10s`.
        pub id: String,
        /// Its name, parameter included.
        pub name: String,
        /// Length of the timeout.
        pub length_ns: u64,
        pub runtime: String,
        /// One entry for each variant and clock; the first is the control loop, which has no
        /// timeout.
        pub results: Vec<MeasuredVariant>,
    }

    /// The result of one variant with one clock.
    pub struct MeasuredVariant {
        #[serde(deserialize_with = "deserialize_variant")]
        pub variant: String,
        /// The clock it reads.
        pub clock: String,
        /// Cost of a message; null if no message came.
        pub ns_per_message: Option<Costs>,
        /// Difference to the control loop in the same rounds.
        pub overhead: Option<Overhead>,
        /// Operations per message; null if they were not counted.
        pub counts: Option<Counts>,
        /// Timeouts that fired in the measured rounds.
        pub fired: u64,
        /// Time from the deadline until the task ran, of the timeouts that were meant to fire.
        pub lateness_ns: Option<Distribution>,
        /// Timeouts that fired before their deadline; each is a bug.
        pub early: u64,
        /// Median cost of a message in each round, in the order of the rounds.
        pub rounds: Vec<f64>,
    }

    /// Operations per message, counted in a separate run that is not timed.
    pub struct Counts {
        /// Number of messages of that run.
        pub messages: u64,
        /// Readings of any clock by the whole process; null if they cannot be counted.
        pub clock_reads: Option<f64>,
        /// Timers created.
        pub timers_made: f64,
        /// Timers registered with the runtime, or set to another time.
        pub timer_registrations: f64,
        /// Allocations of the whole process.
        pub allocations: f64,
        /// Bytes allocated and not freed over all these messages.
        pub bytes_kept: i64,
    }
}

impl File for TimeoutReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("timeout");
    const IS_INDENTED: bool = false;
}

/// Replaces the name that the control loop had in older files.
fn deserialize_variant<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    let name = String::deserialize(text)?;
    Ok(if name == "baseline" { "control".to_owned() } else { name })
}
