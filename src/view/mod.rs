//! What a report says and how it is scaled: pure.

pub mod clock;
pub mod cost;
pub mod entry;
pub mod envelope;
pub mod label;
pub mod nines;
pub mod palette;
pub mod quantity;
pub mod reading;
pub mod samples;
pub mod scale;
pub mod timeout;
