//! Samples, statistics and the report model of timer lateness.
//!
//! Everything here is pure: no clock, no operating system, no printing. The input is plain nanoseconds,
//! so a test needs no machine, and a report can be analysed again years later.
//!
//! | Module | What it holds |
//! |---|---|
//! | [`mod@bench`] | the files `osjitter.bench/1` as plain data |
//! | [`environment`] | what two measurements must share to be comparable |
//! | [`file`] | reading, checking and writing any file of osjitter |
//! | [`recorder`] | the preallocated buffer a measuring loop writes raw counts into |
//! | [`sample`] | one round, every index of the grid booked as delivered, coalesced or skipped |
//! | [`stall`] | a stall of the machine, counted once |
//! | [`stats`] | percentiles by nearest rank, and intervals over rounds |
//! | [`summary`] | percentiles and counts over the rounds of one subject |
//! | [`histogram`] | the stored HDR histogram of a subject |
//! | [`gate`] | whether B is worse than A: rounds, looks, verdict |
//! | [`series`] | the file a program writes to be gated |
//! | [`compare`] | how two measured subjects differ |
//! | [`merge`] | several reports joined without loss |
//! | [`report`] | the file `osjitter.report/1` as plain data |
#![forbid(unsafe_code)]

pub mod bench;
pub mod compare;
pub mod environment;
pub mod file;
pub mod gate;
pub mod histogram;
pub mod merge;
mod model;
pub mod recorder;
pub mod report;
pub mod sample;
pub mod series;
pub mod stall;
pub mod stats;
pub mod summary;
