//! Why a tick was late: its lateness taken apart, to the nanosecond, by what the thread that ran it
//! was doing.
//!
//! [`explain`] is a function of plain data: deadlines and wake times, what the thread's accounts
//! said whenever it parked, when it was switched on and off its CPU, and a few facts about the
//! machine. [`pool::Pool`] adds the late ticks of a run up. [`outside`] prepares what is seen of a
//! program that does not report when it parks, and [`way`] puts beside a tick what the kernel
//! recorded of its timer. All times are nanoseconds after one common origin.

mod apart;
mod chain;
pub mod outside;
mod parts;
pub mod pool;
mod seen;
mod standstill;
mod stretches;

pub use apart::explain;
pub use chain::{Wakeup, Way, way};
pub use parts::{Known, Parts};
pub use seen::{
    Cycle, Explained, Facts, Occupant, Overslept, Queued, Reading, Standstill, Switch, SwitchKind,
    Thread, Tick,
};
pub use standstill::{MIN_STANDSTILL_NS, standstills};
pub use stretches::behind;

#[cfg(test)]
mod tests;
