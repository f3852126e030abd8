//! Samples, statistics and the files of timer lateness.
//!
//! Everything here is pure: no clock, no operating system, no printing. The input is plain
//! nanoseconds, so a test needs no machine, and a report can be analysed again years later.
//!
//! | Module | Feature | What it holds |
//! |---|---|---|
//! | [`series`] | `series` | the file a program writes to be gated |
//! | [`recorder`] | `stats` | the preallocated buffer a measuring loop writes raw counts into |
//! | [`sample`] | `stats` | one round, every index of the grid delivered, coalesced or skipped |
//! | [`stall`] | `stats` | a stall of the machine, counted once |
//! | [`stats`] | `stats` | percentiles by nearest rank, intervals over rounds, portable random numbers |
//! | [`mod@file`] | `files` | reading, checking and writing any file of osjitter |
//! | [`report`] | `files` | `osjitter.report/1` as plain data |
//! | [`bins`] | `files` | histograms as rows, for engines that merge them over hosts and days: `osjitter.bins/1` |
//! | [`histogram`] | `files` | the stored HDR histogram of a subject |
//! | [`summary`] | `files` | percentiles and counts over the rounds of one subject |
//! | [`merge`] | `files` | several reports joined without loss |
//! | [`environment`] | `files` | what two measurements must share to be comparable |
//! | [`compare`] | `files` | how two measured subjects differ: `osjitter.comparison/1` |
//! | [`find`] | `files` | the shortest period at which goals hold, and the search for it: `osjitter.find/1` |
//! | [`fitness`] | `files` | whether the machine was quiet enough for a run to be believed |
//! | [`why`] | `files` | why a tick was late, from what its thread was doing |
//! | [`gate`] | `files` | whether B is later than A: `osjitter.verdict/1`, `osjitter.baseline/1`, `osjitter.calibration/1`, `osjitter.run-calibration/1` |
//! | [`cost`] | `files` | what an operation costs, and how much more than another in the same rounds |
//!
//! All three are on by default; `series` and `stats` have no dependencies. `schema` adds the JSON
//! Schema of each file.
//!
//! A loop that records its own lateness, to be gated by `osjitter gate`:
//!
//! ```
//! # #[cfg(feature = "series")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use jitterstat::series::Writer;
//!
//! # let mut file = Vec::new();
//! let mut series = Writer::new(&mut file, 500_000)?;
//! for lateness_ns in [14_250, 13_900, -3] {
//!     series.push(lateness_ns)?;
//! }
//! series.finish()?;
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "series"))] fn main() {}
//! ```
#![forbid(unsafe_code)]

#[cfg(feature = "files")]
pub mod bins;
#[cfg(feature = "files")]
pub mod compare;
#[cfg(feature = "files")]
pub mod cost;
#[cfg(feature = "files")]
pub mod environment;
#[cfg(feature = "files")]
pub mod file;
#[cfg(feature = "files")]
pub mod find;
#[cfg(feature = "files")]
pub mod fitness;
#[cfg(feature = "files")]
pub mod gate;
#[cfg(feature = "files")]
pub mod histogram;
#[cfg(feature = "files")]
pub mod merge;
#[cfg(feature = "files")]
mod model;
#[cfg(feature = "stats")]
pub mod recorder;
#[cfg(feature = "files")]
pub mod report;
#[cfg(feature = "stats")]
pub mod sample;
#[cfg(feature = "series")]
pub mod series;
#[cfg(feature = "stats")]
pub mod stall;
#[cfg(feature = "stats")]
pub mod stats;
#[cfg(feature = "files")]
pub mod summary;
#[cfg(feature = "files")]
pub mod why;

#[cfg(all(doctest, feature = "files", feature = "series"))]
#[doc = include_str!("../README.md")]
struct Readme;
