//! The file that `osjitter bench clock` writes.

use files::file::File;
use files::report::{Fitness, Host};

use crate::bench::file::SCHEMA;

files::model! {
    /// The clocks of this machine.
    pub struct ClockReport {
        pub schema: String,
        pub bench: String,
        pub started_utc: String,
        pub duration_ns: u64,
        pub host: Host,
        pub clock: TachClock,
        pub first: First,
        /// Whether the machine was quiet while one thread read; null if it was not measured, and in
        /// older files.
        #[serde(default)]
        pub fitness: Option<Fitness>,
        pub costs: Vec<Cost>,
        /// Costs of computing the time since an instant; empty in older files.
        #[serde(default)]
        pub elapsed: Vec<Elapsed>,
        pub granularity: Vec<Granularity>,
        pub order: Vec<Order>,
        pub absurd: Absurd,
        pub drift: Vec<Drift>,
    }

    // It mirrors `tach::Info`, since `osjitter.bench/1` has the texts of its values.
    /// Properties of `tach` on this machine.
    #[cfg_attr(test, schemars(rename = "Clock"))]
    pub struct TachClock {
        pub source: String,
        pub rate_hz: f64,
        pub rate_error_ppb: f64,
        pub rate_stated_hz: Option<u64>,
        pub rate_stated_by: Option<String>,
        pub error_bound_ns: u64,
        pub cross_thread_order: String,
        pub why_not_counter: Option<String>,
    }

    /// Costs of the first uses in this process.
    pub struct First {
        /// Cost of the first reading, which checks whether the counter can be trusted.
        pub read_ns: u64,
        /// Cost of the first conversion of a span.
        pub conversion_ns: u64,
    }

    /// Cost of a reading while several threads read.
    pub struct Cost {
        pub clock: String,
        pub threads: u64,
        /// Median over blocks of readings on all threads.
        pub median_ns: f64,
        pub quartiles_ns: [f64; 2],
        pub blocks: u64,
    }

    /// Cost of `elapsed` of an instant, on one thread.
    pub struct Elapsed {
        pub clock: String,
        /// Age of the instant: a duration, or `process` for the first one of the process. `now` is
        /// a reading without a conversion, `now-elapsed` a reading and the conversion of the time
        /// since.
        pub age: String,
        /// Median over blocks of calls.
        pub median_ns: f64,
        pub quartiles_ns: [f64; 2],
        pub blocks: u64,
    }

    /// Differences between successive readings on one thread.
    pub struct Granularity {
        pub clock: String,
        /// Smallest difference that is not zero.
        pub smallest_step_ns: Option<f64>,
        pub median_step_ns: f64,
        pub equal_neighbours: u64,
    }

    /// Order of readings across threads: each thread loads the instant published last, reads the
    /// clock, compares and publishes.
    pub struct Order {
        pub clock: String,
        pub threads: u64,
        pub reads: u64,
        /// Readings earlier than the instant published before.
        pub violations: u64,
        pub worst_ns: f64,
    }

    /// Elapsed times of instants that other threads published.
    pub struct Absurd {
        pub threads: u64,
        pub reads: u64,
        /// Number of elapsed times above a day.
        pub absurd: u64,
    }

    /// Difference between a span of `tach` and the same span of the operating system's clock.
    pub struct Drift {
        pub span_ns: u64,
        /// Whether all CPUs were kept busy.
        pub loaded: bool,
        pub error_ns: i64,
        pub error_ppb: f64,
        /// Uncertainty of the comparison at both ends.
        pub resolution_ns: f64,
    }
}

impl File for ClockReport {
    const SCHEMA: &'static str = SCHEMA;
    const BENCH: Option<&'static str> = Some("clock");
    const IS_INDENTED: bool = true;
}

impl From<&tach::Info> for TachClock {
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
