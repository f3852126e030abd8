//! Why a tick was late: its lateness taken apart, to the nanosecond, by what the thread that ran it
//! was doing.
//!
//! [`explain`] is a function of plain data: deadlines and wake times, what the thread's accounts
//! said whenever it parked, when it was switched on and off its CPU, and a few facts about the
//! machine. [`pool::Pool`] adds the late ticks of a run up. [`external_process`] prepares what is seen of a
//! program that does not report when it parks, and [`way`] puts beside a tick what the kernel
//! recorded of its timer. All times are nanoseconds after one common origin.

mod attribution;
mod chain;
pub mod external_process;
mod input;
mod parts;
pub mod pool;
mod standstill;
mod stretches;

pub use attribution::explain;
pub use chain::{Wakeup, WakeupPath, trace_wakeup};
pub use input::{
    Breakdown, Cycle, Occupant, QueueWait, Reading, RoundConditions, Standstill, Switch,
    SwitchKind, Thread, Tick, WitnessGap,
};
pub use parts::{MeasurableParts, Parts};
pub use standstill::{MIN_STANDSTILL_NS, find_standstills};
pub use stretches::occupants_during;

#[cfg(test)]
mod tests;
