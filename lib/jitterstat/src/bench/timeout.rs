//! The report of `osjitter bench timeout`, and how its overheads come out of the rounds.

use super::cost::{Costs, Overhead};
use crate::file::File;
use crate::model::model;
use crate::report::{Distribution, Host, Tool, Warning};

/// Value of [`Report::bench`].
pub const BENCH: &str = "timeout";

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

impl File for Report {
    const SCHEMA: &'static str = super::SCHEMA;
    const BENCH: Option<&'static str> = Some(BENCH);
}
