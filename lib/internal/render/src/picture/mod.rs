//! Drawing primitives shared by the pictures of all commands: canvas, axes, palette and label
//! placement.

pub mod axis;
pub mod canvas;
pub mod columns;
pub mod label_layout;
pub mod nines;
pub mod palette;
