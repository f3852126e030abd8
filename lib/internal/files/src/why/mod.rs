//! The explanation of late ticks: attributes each nanosecond of lateness to what the thread of the
//! tick was doing.
//!
//! [`explain`] is a function of plain data: deadlines and wake times, readings of the thread's
//! accounts whenever it parked, the switches of the thread on and off its CPU, and conditions of
//! the machine. [`pool::Pool`] accumulates the late ticks of a run. [`external_process`]
//! reconstructs this data for a program that does not report when it parks, and [`trace_wakeup`]
//! adds the kernel's records of a tick's timer. All times are nanoseconds after one common origin.

mod attribution;
mod chain;
pub mod external_process;
mod input;
mod parts;
pub mod pool;
pub mod stacks;
mod standstill;
mod stretches;

pub use attribution::explain;
pub use chain::{Wakeup, WakeupPath, trace_wakeup};
pub use input::{
    Breakdown, CpuInterval, CpuIntervals, Cycle, IDLE_THREAD, QueueWait, Reading, RoundConditions,
    Standstill, Switch, SwitchKind, Thread, Tick, WitnessGap,
};
pub use parts::{MeasurableParts, Parts};
pub use standstill::{MIN_STANDSTILL_NS, find_standstills};
pub use stretches::occupants_during;

#[cfg(test)]
mod tests;
