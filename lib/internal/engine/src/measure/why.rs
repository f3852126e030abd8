//! Diagnosis of late ticks in profiled rounds.
//!
//! A profiled round records the statistics of its threads at each park, and their context switches.
//! After the round, the lateness of each tick is attributed to causes. A park costs a reading of
//! the statistics, between a tick and the following sleep. Nothing is read between a wake-up and
//! its time stamp. In other rounds, the hooks are not installed and the loop has two comparisons
//! per tick.

mod availability;
mod cpu_records;
mod drained_records;
pub mod external_program;
pub mod hindsight;
mod kernel_clock;
mod occupants;
mod profiler;
mod round_diagnosis;
mod thread_samples;
mod tick_attribution;
mod unavailable;
mod wakeup_chains;
mod witness;

pub use profiler::{ParkDetection, Profiler, RoundProfiler, WakeupNotes, park, unpark};
pub use round_diagnosis::{FinishedRound, InstanceWakeups, RoundDiagnosis, ThreadWakeup, diagnose};
pub use unavailable::Unavailable;

#[cfg(test)]
mod tests;
