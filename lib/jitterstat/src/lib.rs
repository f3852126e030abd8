//! Samples and statistics of timer lateness, and the decision whether lateness has become worse.
//!
//! The crate is pure: it has no clock, no I/O and no dependencies. Its input is plain nanoseconds,
//! so tests need no machine and recorded data can be analysed again years later.
//!
//! | Module | Feature | Content |
//! |---|---|---|
//! | [`series`] | `series` | the file format in which a program reports its ticks and metrics |
//! | [`recorder`] | `stats` | a preallocated buffer for the raw counts of a measuring loop |
//! | [`sample`] | `stats` | the ticks of one round: delivered, coalesced or skipped |
//! | [`stall`] | `stats` | detection of stalls, so that each is counted once |
//! | [`stats`] | `stats` | nearest-rank percentiles, intervals over rounds, portable random numbers |
//! | [`gate`] | `stats` | the decision whether B is later than A; gates inside a test |
//!
//! Both features are enabled by default. `serde` and `schema` add (de)serialisation and JSON
//! Schemas for the few types that files contain.
//!
//! A loop that records its own lateness for `osjitter gate`:
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
#![warn(clippy::must_use_candidate)]

#[cfg(feature = "stats")]
pub mod gate;
#[cfg(feature = "stats")]
pub mod recorder;
#[cfg(feature = "stats")]
pub mod sample;
#[cfg(feature = "series")]
pub mod series;
#[cfg(feature = "stats")]
pub mod stall;
#[cfg(feature = "stats")]
pub mod stats;

#[cfg(all(doctest, feature = "stats", feature = "series"))]
#[doc = include_str!("../README.md")]
struct Readme;
