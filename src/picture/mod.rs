//! The canvas that every room draws on.

pub mod canvas;
pub mod envelope;
pub mod label_layout;
pub mod nines;
pub mod palette;
