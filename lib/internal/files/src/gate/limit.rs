//! Limits on the numbers of a run.
//!
//! A limit is compared with the 99 % interval over the rounds of a run
//! ([`jitterstat::stats::bootstrap`]). It is broken if the lower bound is above the limit, kept if
//! the upper bound is not, and undecided otherwise. The interval describes similar runs on that
//! machine at that time. Resampling cannot account for events that did not occur in any round: if
//! no tick was missed, the interval of missed ticks has no width, and a limit on them is kept. A
//! limit on their [rate] accounts for them.

mod measured;
mod path;
pub mod rate;
mod rounds;
#[cfg(test)]
mod tests;

pub use measured::Measured;
pub use path::{PathError, Quantity, SummaryPath};
pub use rounds::{MissingRounds, RoundTicks};
