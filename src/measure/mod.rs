//! Measures: the rounds of a plan, and the report they make.

pub mod child;
pub mod duet;
pub mod order;
pub mod record;
pub mod round;
