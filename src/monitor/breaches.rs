//! The file `osjitter.breaches/1`: the limits that were broken in one interval.

pub mod formats;

use cli::time::format_unsigned_time;
use files::file::File;

use crate::monitor::loop_record::DatedLateTick;

files::model! {
    /// The limits that were broken in one interval.
    pub struct Breaches {
        /// Always `osjitter.breaches/1`.
        pub schema: String,
        /// Name of the machine.
        pub host: String,
        /// Run id, equal to that of the interval's rows.
        pub run_id: String,
        /// Start of the interval, RFC 3339, UTC.
        pub start: String,
        /// Length of the interval.
        pub duration_ns: u64,
        /// The breaches; at least one.
        pub breaches: Vec<Breach>,
    }

    /// A limit that one subject or meter broke.
    pub struct Breach {
        /// Name of the subject or meter.
        pub subject: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Runtime of a probe; empty for a bare thread, or if it is not known.
        pub runtime: String,
        /// Labels, as `key=value;key=value`.
        pub labels: String,
        /// The limit, as given on the command line.
        pub what: String,
        /// Value of the limit, in its unit.
        pub limit: f64,
        /// Measured value, in the same unit.
        pub value: f64,
        /// Unit of both values: `ns`, or `%` of the ticks.
        pub unit: String,
        /// Measured value, formatted for people.
        pub shown: String,
        /// Ticks of the interval.
        pub ticks: u64,
        /// CPU time of the probe's threads in the interval; null if it is not known, as for a
        /// meter.
        pub cpu_ns: Option<u64>,
        /// Time for which these threads were ready and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Time for which the monitor's control group was throttled by its CPU quota.
        pub throttled_ns: Option<u64>,
        /// CPU time that the hypervisor took from the machine.
        pub steal_ns: Option<u64>,
        /// The last late ticks of the interval, oldest first; at most 128.
        pub late: Vec<BreachLateTick>,
    }

    // It mirrors `DatedLateTick`, since `osjitter.breaches/1` has times as text.
    /// A late tick.
    #[cfg_attr(test, schemars(rename = "LateTick"))]
    pub struct BreachLateTick {
        /// Time at which the tick was delivered, RFC 3339, UTC.
        pub at_utc: String,
        /// Lateness of the tick.
        pub lateness_ns: u64,
        /// Duration of the work before it; null if it is not known.
        pub work_ns: Option<u64>,
        /// Part of the lateness that work caused.
        pub overrun_ns: u64,
    }
}

impl From<&DatedLateTick> for BreachLateTick {
    fn from(tick: &DatedLateTick) -> Self {
        Self {
            at_utc: humantime::format_rfc3339_micros(tick.at).to_string(),
            lateness_ns: tick.lateness_ns,
            work_ns: tick.work_ns,
            overrun_ns: tick.overrun_ns,
        }
    }
}

impl Breach {
    /// Describes what is known to have kept the loop from running. Returns `None` if nothing is.
    pub fn causes(&self) -> Option<String> {
        let causes = [
            (self.run_queue_ns, "waiting for a CPU"),
            (self.throttled_ns, "throttled by a CPU quota"),
            (self.steal_ns, "stolen by the hypervisor"),
        ];
        let mut known = Vec::new();
        for (ns, cause) in causes {
            if let Some(ns @ 1..) = ns {
                known.push(format!("{} {cause}", format_unsigned_time(ns)));
            }
        }
        if known.is_empty() { None } else { Some(known.join(", ")) }
    }
}

impl File for Breaches {
    const SCHEMA: &'static str = "osjitter.breaches/1";
    const IS_INDENTED: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(Breaches)).unwrap();
        files::model::check_schema("osjitter.breaches.1.json", &schema);
    }
}
