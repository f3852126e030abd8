//! The file that `osjitter bench timeout` writes.

use files::cost::{Costs, Overhead};
use files::file::File;
use files::report::{Distribution, Host, Tool, Warning};
use serde::{Deserialize, Deserializer};

use crate::bench::file::SCHEMA;
use crate::file_io::model;

model! {
    /// One invocation.
    pub struct TimeoutReport {
        pub schema: String,
        pub bench: String,
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        pub duration_ns: u64,
        /// It was interrupted.
        pub partial: bool,
        pub plan: Settings,
        pub host: Host,
        /// The clocks that the variants read.
        pub clocks: Vec<Clock>,
        /// What a reader should know before trusting a number.
        pub warnings: Vec<Warning>,
        /// One entry for each workload and length.
        pub workloads: Vec<MeasuredWorkload>,
    }

    /// What was asked for.
    pub struct Settings {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Rounds; in each, every variant runs once.
        pub rounds: u64,
        /// Measured time aimed at, for one variant in one round.
        pub round_time_ns: u64,
        /// Batches of messages in a round.
        pub batches: u64,
        /// Of the channel.
        pub capacity: u64,
    }

    /// A clock that stamps or deadlines are read from.
    pub struct Clock {
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
        /// Of the timeout.
        pub length_ns: u64,
        pub runtime: String,
        /// One entry for each variant and clock; the first is the control loop, which has no
        /// timeout.
        pub results: Vec<MeasuredVariant>,
    }

    /// What was measured of one variant with one clock.
    pub struct MeasuredVariant {
        #[serde(deserialize_with = "variant")]
        pub variant: String,
        /// The clock it reads.
        pub clock: String,
        /// Cost of a message; null where no message came.
        pub ns_per_message: Option<Costs>,
        /// Difference to the control loop in the same rounds.
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

impl File for TimeoutReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("timeout");
}

/// The control loop was called the baseline once.
fn variant<'de, D: Deserializer<'de>>(text: D) -> Result<String, D::Error> {
    let name = String::deserialize(text)?;
    Ok(if name == "baseline" { "control".to_owned() } else { name })
}
