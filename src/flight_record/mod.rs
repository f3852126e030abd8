//! The file `osjitter.flight/1`: the time before a late tick.

pub mod conversion;
pub mod formats;

use std::ops::RangeInclusive;

use files::file::File;
use files::report::why::{Behind, LateCode, Shares};

files::model! {
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
        /// Parts that programs lack for complete names of their functions; null if nothing is known
        /// to be missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub hint: Option<String>,
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
        /// Switches of the threads that ran the ticks, in order, listed with the first instance of
        /// a profiled round; null if they were not recorded.
        pub switches: Option<Vec<FlightSwitch>>,
        /// Threads that were given a CPU, in order; null if that was not recorded.
        #[serde(rename = "given")]
        pub assignments: Option<Vec<CpuAssignment>>,
        /// Sampled stacks of the threads of a program while its ticks were late, in order; null if
        /// there are none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub samples: Option<Vec<FlightSample>>,
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
        /// The code that its thread ran in that time; null if too few samples agree on it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub code: Option<LateCode>,
    }

    /// A sampled stack of a running thread.
    pub struct FlightSample {
        /// When.
        pub at_ns: i64,
        /// Number of the thread in the system.
        pub thread: u32,
        /// The functions, from the outermost to the innermost, without those of the language and of
        /// runtimes.
        pub frames: Vec<String>,
    }

    // It mirrors `Switch`, since `osjitter.flight/1` has the threads of a round in one list.
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

    // It mirrors `CpuInterval`, since `osjitter.flight/1` has all CPUs in one list, with names.
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

impl FlightRound {
    /// Returns all times: deadlines and arrivals of ticks, switches, and assignments of CPUs.
    pub fn times(&self) -> impl Iterator<Item = i64> {
        let deadlines = self.ticks.iter().map(|tick| tick.deadline_ns);
        let arrivals = self.ticks.iter().map(FlightTick::arrival_ns);
        let switches = self.switches.iter().flatten().map(|switch| switch.at_ns);
        let assignments = self.assignments.iter().flatten().map(|assignment| assignment.at_ns);
        let samples = self.samples.iter().flatten().map(|sample| sample.at_ns);
        deadlines.chain(arrivals).chain(switches).chain(assignments).chain(samples)
    }

    /// Adds a duration to all times.
    pub fn shift(&mut self, ns: i64) {
        let ticks = self.ticks.iter_mut().map(|tick| &mut tick.deadline_ns);
        let switches = self.switches.iter_mut().flatten().map(|switch| &mut switch.at_ns);
        let assignments = self.assignments.iter_mut().flatten().map(|turn| &mut turn.at_ns);
        let samples = self.samples.iter_mut().flatten().map(|sample| &mut sample.at_ns);
        for at_ns in ticks.chain(switches).chain(assignments).chain(samples) {
            *at_ns = at_ns.saturating_add(ns);
        }
    }

    /// Keeps only what happened in a time span.
    pub fn retain(&mut self, span_ns: &RangeInclusive<i64>) {
        self.ticks.retain(|tick| span_ns.contains(&tick.arrival_ns()));
        if let Some(switches) = &mut self.switches {
            switches.retain(|switch| span_ns.contains(&switch.at_ns));
        }
        if let Some(assignments) = &mut self.assignments {
            assignments.retain(|assignment| span_ns.contains(&assignment.at_ns));
        }
        if let Some(samples) = &mut self.samples {
            samples.retain(|sample| span_ns.contains(&sample.at_ns));
        }
        self.samples.take_if(|samples| samples.is_empty());
    }
}

impl FlightTick {
    pub fn arrival_ns(&self) -> i64 {
        self.deadline_ns.saturating_add(self.lateness_ns)
    }
}

impl File for Flight {
    const SCHEMA: &'static str = "osjitter.flight/1";
    const IS_INDENTED: bool = false;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schema_is_current() {
        let schema = serde_json::to_value(schemars::schema_for!(Flight)).unwrap();
        files::model::check_schema("osjitter.flight.1.json", &schema);
    }
}
