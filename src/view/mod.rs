//! What a report says and how it is scaled: pure.

pub mod bars;
pub mod clock;
pub mod columns;
pub mod compare;
pub mod cost;
pub mod dispatch;
pub mod entry;
pub mod envelope;
pub mod label;
pub mod live;
pub mod nines;
pub mod palette;
pub mod place;
pub mod quantity;
pub mod reading;
pub mod samples;
pub mod scale;
pub mod timeout;
pub mod tradeoff;
