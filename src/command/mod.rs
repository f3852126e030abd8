//! One file a subcommand.

pub mod bench;
pub mod calibrate;
pub mod compare;
pub mod completions;
pub mod gate;
pub mod list;
pub mod merge;
pub mod report;
pub mod run;
