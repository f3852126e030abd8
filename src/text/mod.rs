//! What several rooms print with.

pub mod align;
pub mod time;
pub mod units;
