//! The file that `osjitter bench clock` writes.

use files::file::File;
use files::report::{Fitness, Host};

use crate::bench::file::SCHEMA;
use crate::file_io::model;

model! {
    /// The clocks of this machine.
    pub struct ClockReport {
        pub schema: String,
        pub bench: String,
        pub started_utc: String,
        pub duration_ns: u64,
        pub host: Host,
        pub clock: Clock,
        pub first: First,
        /// Whether the machine was quiet while one thread read; null where it was not measured, and
        /// in files from before.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        pub costs: Vec<Cost>,
        /// What asking for the time since an instant costs; empty in files from before it was
        /// measured.
        #[serde(default)]
        pub elapsed: Vec<Elapsed>,
        pub granularity: Vec<Granularity>,
        pub order: Vec<Order>,
        pub absurd: Absurd,
        pub drift: Vec<Drift>,
    }

    /// What `tach` says of itself.
    pub struct Clock {
        pub source: String,
        pub rate_hz: f64,
        pub rate_error_ppb: f64,
        pub rate_stated_hz: Option<u64>,
        pub rate_stated_by: Option<String>,
        pub error_bound_ns: u64,
        pub cross_thread_order: String,
        pub why_not_counter: Option<String>,
    }

    /// The first uses in this process, before any other.
    pub struct First {
        /// The first reading: it decides whether the counter can be trusted.
        pub read_ns: u64,
        /// The first conversion of a span.
        pub conversion_ns: u64,
    }

    /// What a read costs while so many threads read.
    pub struct Cost {
        pub clock: String,
        pub threads: u64,
        /// Over blocks of reads, on each thread.
        pub median_ns: f64,
        pub quartiles_ns: [f64; 2],
        pub blocks: u64,
    }

    /// What `elapsed` of an instant costs, on one thread.
    pub struct Elapsed {
        pub clock: String,
        /// Age of the instant: a duration, or `process` for the first one of the process. `now` is
        /// a reading with no conversion, `now-elapsed` a reading and the conversion of the time
        /// since.
        pub age: String,
        /// Over blocks of calls.
        pub median_ns: f64,
        pub quartiles_ns: [f64; 2],
        pub blocks: u64,
    }

    /// Differences of neighbouring reads on one thread.
    pub struct Granularity {
        pub clock: String,
        /// The smallest that is not zero.
        pub smallest_step_ns: Option<f64>,
        pub median_step_ns: f64,
        pub equal_neighbours: u64,
    }

    /// Load what another thread published, read, compare, publish.
    pub struct Order {
        pub clock: String,
        pub threads: u64,
        pub reads: u64,
        /// Reads that were less than what was published before.
        pub violations: u64,
        pub worst_ns: f64,
    }

    /// Elapsed times of instants that other threads published.
    pub struct Absurd {
        pub threads: u64,
        pub reads: u64,
        /// More than a day.
        pub absurd: u64,
    }

    /// A span of `tach` against the same span of the operating system's clock.
    pub struct Drift {
        pub span_ns: u64,
        /// Whether all CPUs were kept busy.
        pub loaded: bool,
        pub error_ns: i64,
        pub error_ppb: f64,
        /// How well the two ends could be compared.
        pub resolution_ns: f64,
    }
}

impl File for ClockReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("clock");
    const PRETTY: bool = true;
}

impl From<&tach::Info> for Clock {
    fn from(info: &tach::Info) -> Self {
        Self {
            source: info.source.to_string(),
            rate_hz: info.rate_hz,
            rate_error_ppb: info.rate_error_ppb,
            rate_stated_hz: info.rate_stated.map(|stated| stated.hz),
            rate_stated_by: info.rate_stated.map(|stated| stated.by.to_string()),
            error_bound_ns: info.error_bound_ns,
            cross_thread_order: info.cross_thread_order.to_string(),
            why_not_counter: info.why_not_counter.as_ref().map(ToString::to_string),
        }
    }
}
