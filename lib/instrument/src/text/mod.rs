//! What several rooms print with.

pub mod align;
pub mod amount;
pub mod markdown;
pub mod near;
pub mod position;
pub mod printable;
pub mod time;
pub mod units;
pub mod wrap;
