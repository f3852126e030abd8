//! Statistics over rounds. The round is the unit everywhere: neighbouring ticks share their fate,
//! so an interval that takes ticks for independent is wrong most of the time.

pub mod binomial;
pub mod bootstrap;
mod interval;
pub mod mann_whitney;
pub mod pairwise;
pub mod quantile;
pub mod random;
pub mod shift;
pub mod sign_test;
pub mod signed_rank;

pub use interval::Interval;
