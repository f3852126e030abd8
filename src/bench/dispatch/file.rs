//! The file that `osjitter bench dispatch` writes.

use files::cost::{Costs, Overhead};
use files::file::File;
use files::report::{Host, Tool, Warning};

use crate::bench::file::SCHEMA;
use crate::bench::harness::Settings;

files::model! {
    /// The result of one invocation.
    pub struct DispatchReport {
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
        /// The clock of all timestamps.
        pub clock: TimestampClock,
        /// Warnings about the reliability of the numbers.
        pub warnings: Vec<Warning>,
        pub operations: Vec<MeasuredOperation>,
    }

    /// The clock of the timestamps.
    #[cfg_attr(test, schemars(rename = "Clock"))]
    pub struct TimestampClock {
        pub source: String,
        /// Counts per second, measured over the whole bench.
        pub rate_hz: f64,
        /// Cost of one reading. Costs that are measured event by event include it.
        pub ns_per_read: f64,
    }

    /// An operation of a runtime.
    pub struct MeasuredOperation {
        pub name: String,
        pub about: String,
        /// Whether each occurrence has its own timestamp; otherwise the mean of a batch is one
        /// value.
        pub by_event: bool,
        /// One entry for each runtime that was measured.
        pub results: Vec<MeasuredRuntime>,
        /// The runtimes that were not measured, with the reasons.
        pub not_measured: Vec<NotMeasured>,
    }

    /// The result of one runtime.
    pub struct MeasuredRuntime {
        pub runtime: String,
        /// Costs in nanoseconds, over batches or events.
        pub ns: Costs,
        /// Costs in steps of the CPU's counter; null if timestamps come from another clock.
        pub cycles: Option<Costs>,
        /// Difference to tokio in the same rounds.
        pub to_tokio: Option<Overhead>,
        /// Median of each round in nanoseconds, in the order of the rounds.
        pub rounds: Vec<f64>,
    }

    /// A runtime without this operation.
    pub struct NotMeasured {
        pub runtime: String,
        pub why: String,
    }
}

impl File for DispatchReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("dispatch");
    const IS_INDENTED: bool = false;
}
