//! Measures: the rounds of a plan, and the report they make.

pub mod answers;
pub mod caught;
pub mod child;
pub mod cost;
pub mod duet;
pub mod late;
pub mod load;
pub mod metered;
pub mod metric;
mod neighbours;
pub mod order;
mod place;
pub mod program;
pub mod record;
pub mod round;
mod stamp;
mod ticking;
pub mod waiting;
pub mod why;
pub mod written;
