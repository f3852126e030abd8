//! What a report says and how it is scaled: pure.

pub mod scale;
