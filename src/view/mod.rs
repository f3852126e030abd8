//! What a report says and how it is scaled: pure.

pub mod envelope;
pub mod nines;
pub mod palette;
pub mod scale;
