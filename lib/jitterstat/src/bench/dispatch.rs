//! The report of `osjitter bench dispatch`.

use super::cost::{Costs, Overhead};
use crate::file::File;
use crate::model::model;
use crate::report::{Host, Tool, Warning};

/// Value of [`Report::bench`].
pub const BENCH: &str = "dispatch";

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
        /// The clock that all stamps are read from.
        pub clock: Clock,
        /// What a reader should know before trusting a number.
        pub warnings: Vec<Warning>,
        /// One entry for each operation.
        pub operations: Vec<Operation>,
    }

    /// What was asked for.
    pub struct Plan {
        /// Seed of the order within each round.
        pub seed: u64,
        /// Rounds; in each, every operation runs once on every runtime.
        pub rounds: u64,
        /// Aim for the measured time of one operation on one runtime in one round.
        pub round_time_ns: u64,
        /// Batches in a round.
        pub batches: u64,
    }

    /// The clock of the stamps.
    pub struct Clock {
        /// What is read.
        pub source: String,
        /// Counts a second, measured over the whole bench.
        pub rate_hz: f64,
        /// Cost of one reading. It is part of what is measured event by event.
        pub ns_per_read: f64,
    }

    /// Something that a runtime does.
    pub struct Operation {
        /// Its name.
        pub name: String,
        /// What it is.
        pub about: String,
        /// Whether each occurrence was stamped by itself; otherwise many at once, and their mean is one value.
        pub by_event: bool,
        /// One entry for each runtime that was measured.
        pub results: Vec<Measured>,
        /// The runtimes that were not, and why.
        pub not_measured: Vec<NotMeasured>,
    }

    /// What was measured of one runtime.
    pub struct Measured {
        /// The runtime.
        pub runtime: String,
        /// In nanoseconds, over batches or events.
        pub ns: Costs,
        /// In steps of the CPU's counter; null where stamps come from another clock.
        pub cycles: Option<Costs>,
        /// Difference to tokio in the same rounds.
        pub to_tokio: Option<Overhead>,
        /// Nanoseconds, median of each round, in the order of the rounds.
        pub rounds: Vec<f64>,
    }

    /// A runtime without this operation.
    pub struct NotMeasured {
        /// The runtime.
        pub runtime: String,
        /// Why not.
        pub why: String,
    }
}

impl File for Report {
    const SCHEMA: &'static str = super::SCHEMA;
    const BENCH: Option<&'static str> = Some(BENCH);
}
