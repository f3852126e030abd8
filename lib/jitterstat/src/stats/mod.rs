//! Statistics over rounds.
//!
//! The round is the unit of every interval. Neighbouring ticks depend on each other, so an interval
//! that treats ticks as independent is usually too narrow.

pub mod binomial;
pub mod bootstrap;
mod interval;
pub mod mann_whitney;
pub mod miss_rate;
pub mod pairwise;
pub mod pooled_ticks;
pub mod quantile;
pub mod random;
pub mod shift;
pub mod sign_test;
pub mod signed_rank;

pub use interval::Interval;
