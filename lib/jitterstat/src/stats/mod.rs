//! Statistics over rounds.
//!
//! The round is the unit of every interval. Neighbouring ticks depend on each other, so an interval
//! that treats ticks as independent is usually too narrow.

#[cfg(feature = "stats")]
pub mod binomial;
#[cfg(feature = "stats")]
pub mod bootstrap;
#[cfg(feature = "stats")]
mod interval;
#[cfg(feature = "stats")]
pub mod mann_whitney;
#[cfg(feature = "stats")]
pub mod miss_rate;
#[cfg(feature = "stats")]
pub mod pairwise;
#[cfg(feature = "stats")]
pub mod pooled_ticks;
pub mod quantile;
#[cfg(feature = "stats")]
pub mod random;
#[cfg(feature = "stats")]
pub mod shift;
#[cfg(feature = "stats")]
pub mod sign_test;
#[cfg(feature = "stats")]
pub mod signed_rank;

#[cfg(feature = "stats")]
pub use interval::Interval;
