//! The file `osjitter.flight/1`: the time before a late tick.

pub mod conversion;
pub mod formats;

use files::file::{File, JsonError, read_json, to_json_line};
use files::report::why::{Behind, Shares};

use crate::file_io::model;

model! {
    /// The time before a late tick. Times are relative to the arrival of that tick; earlier ones
    /// are negative.
    pub struct Flight {
        /// Always `osjitter.flight/1`.
        pub schema: String,
        /// When the late tick came, RFC 3339, UTC.
        pub at_utc: String,
        /// The recorded time before it.
        pub length_ns: u64,
        /// The lateness from which a tick is late.
        pub limit_ns: u64,
        /// Whether the late tick ended the run.
        pub ended: bool,
        /// The late tick.
        pub late: FlightTrigger,
        /// The rounds in that time, oldest first.
        pub rounds: Vec<FlightRound>,
    }

    /// The late tick of a flight record.
    #[serde(rename = "Late")]
    pub struct FlightTrigger {
        /// Id of its scenario.
        pub subject: String,
        /// Index of its round.
        pub round: u64,
        /// Index of its instance.
        pub instance: u64,
        /// Index on the grid or, in a record of `monitor`, among all late ticks.
        pub tick: u64,
        /// Lateness.
        pub lateness_ns: i64,
    }

    /// The recorded part of one instance in one round.
    pub struct FlightRound {
        /// Id of the scenario.
        pub subject: String,
        /// Index of the round.
        pub round: u64,
        /// Index of the instance.
        pub instance: u64,
        /// Nominal period.
        pub period_ns: u64,
        /// Whether the round was profiled. Such a round has causes and switches, as far as they are
        /// available.
        #[serde(rename = "asked")]
        pub profiled: bool,
        /// Recorded ticks that came, in order; of `monitor`, only late ticks.
        pub ticks: Vec<FlightTick>,
        /// Switches of the threads that ran the ticks, in order, listed with the first instance of a
        /// profiled round; null if they were not recorded.
        pub switches: Option<Vec<FlightSwitch>>,
        /// Threads that were given a CPU, in order; null if that was not recorded.
        #[serde(rename = "given")]
        pub assignments: Option<Vec<CpuAssignment>>,
    }

    /// One tick.
    pub struct FlightTick {
        /// Index on the grid or, in a record of `monitor`, among all late ticks.
        pub tick: u64,
        /// When it was due.
        pub deadline_ns: i64,
        /// Lateness.
        pub lateness_ns: i64,
        /// The parts of its lateness; null if it was within the limit, or not profiled.
        pub causes_ns: Option<Shares>,
        /// Threads that ran while it waited; null if that was not recorded.
        pub behind: Option<Vec<Behind>>,
    }

    /// A thread that ran ticks was given a CPU, or left it.
    pub struct FlightSwitch {
        /// When.
        pub at_ns: i64,
        /// Index of the thread, in the order in which they began.
        pub thread: u64,
        /// Number of the CPU.
        pub cpu: u32,
        /// `on`: it runs from here on; `preempted`: it left the CPU but could have continued;
        /// `waits`: it waits for something.
        pub kind: String,
    }

    /// A CPU was given to a thread.
    #[serde(rename = "Given")]
    pub struct CpuAssignment {
        /// When.
        pub at_ns: i64,
        /// Number of the CPU.
        pub cpu: u32,
        /// The thread; 0 if the CPU became idle.
        pub thread: u32,
        /// Name of the thread; null if it has ended since.
        pub comm: Option<String>,
    }
}

impl File for Flight {
    const SCHEMA: &'static str = "osjitter.flight/1";

    fn parse_json(text: &str) -> Result<Self, JsonError> {
        read_json(text)
    }

    fn to_json(&self) -> String {
        to_json_line(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(Flight)).unwrap();
        crate::file_io::check_schema("osjitter.flight.1.json", &schema);
    }
}
