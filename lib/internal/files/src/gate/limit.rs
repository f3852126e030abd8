//! Is a number of a run within a limit, and is that known?
//!
//! A limit is held against the value over all rounds of a run and against its 99 % interval over
//! rounds ([`jitterstat::stats::bootstrap`]): broken if even the lower end is above the limit, kept if
//! not even the upper end is, otherwise undecided. The interval is about the run that was measured
//! and its like, on that machine in that hour. What happened in no round at all, resampling cannot
//! see: of a run without a missed tick the interval has no width, and a limit on missed ticks is
//! kept.

mod measured;
mod path;
mod rounds;
#[cfg(test)]
mod tests;

pub use measured::Measured;
pub use path::{PathError, Quantity, SummaryPath};
pub use rounds::{MissingRounds, RoundTicks};
