//! The file that `osjitter bench dispatch` writes.

use files::cost::{Costs, Overhead};
use files::file::File;
use files::report::{Host, Tool, Warning};

use crate::bench::file::SCHEMA;
use crate::bench::harness::Settings;
use crate::file_io::model;

model! {
    /// One invocation.
    pub struct DispatchReport {
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
        /// The clock that all stamps are read from.
        pub clock: Clock,
        /// What a reader should know before trusting a number.
        pub warnings: Vec<Warning>,
        pub operations: Vec<MeasuredOperation>,
    }

    /// The clock of the stamps.
    pub struct Clock {
        pub source: String,
        /// Counts a second, measured over the whole bench.
        pub rate_hz: f64,
        /// Cost of one reading. It is part of what is measured event by event.
        pub ns_per_read: f64,
    }

    /// Something that a runtime does.
    pub struct MeasuredOperation {
        pub name: String,
        pub about: String,
        /// Whether each occurrence was stamped by itself; otherwise many at once, and their mean is
        /// one value.
        pub by_event: bool,
        /// One entry for each runtime that was measured.
        pub results: Vec<MeasuredRuntime>,
        /// The runtimes that were not, and why.
        pub not_measured: Vec<NotMeasured>,
    }

    /// What was measured of one runtime.
    pub struct MeasuredRuntime {
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
        pub runtime: String,
        pub why: String,
    }
}

impl File for DispatchReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("dispatch");
}
