//! Samples and statistics of timer lateness, and the decision whether lateness has become worse.
//!
//! The crate is pure: it has no clock, no I/O and no dependencies. Its input is plain nanoseconds,
//! so tests need no machine and recorded data can be analysed again years later.
//!
//! ```
//! # #[cfg(feature = "stats")] {
//! use jitterstat::stats::{Interval, quantile, sign_test};
//!
//! // The lateness of the ticks of one round, in nanoseconds.
//! let mut lateness_ns = vec![14_250, 13_900, 13_100, 88_000, 15_700];
//! lateness_ns.sort_unstable();
//! assert_eq!(quantile::nearest_rank(&lateness_ns, 0.5), Some(14_250));
//!
//! // The medians of several rounds: their median, and its exact interval with 95 % confidence.
//! let rounds_ns = [14_250, 13_900, 14_100, 14_800, 13_700, 14_300, 14_000];
//! let (median, interval) = sign_test::median_interval(&rounds_ns, 0.95).expect("there are rounds");
//! assert_eq!(median, 14_100);
//! assert_eq!(interval, Some(Interval { lower: 13_700, upper: 14_800 }));
//! # }
//! ```
//!
//! [`gate`] decides whether a change makes ticks later, and [`series`] is the file in which a program
//! reports its ticks to osjitter:
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
//!
//! | Module | Feature | Content |
//! |---|---|---|
//! | [`stats`] | `stats` | nearest-rank percentiles (`stats::quantile`, which needs no feature), intervals over rounds, portable random numbers |
//! | [`sample`] | `stats` | the ticks of one round: delivered, coalesced or skipped |
//! | [`stall`] | `stats` | detection of stalls, so that each is counted once |
//! | [`recorder`] | `stats` | a preallocated buffer for the raw counts of a measuring loop |
//! | [`gate`] | `stats` | the decision whether B is later than A, from ticks to the verdict; gates inside a test |
//! | [`series`] | `series` | the file format in which a program reports its ticks and metrics |
//!
//! Both features are enabled by default. `serde` and `schema` add (de)serialisation and JSON
//! Schemas for the few types that files contain.
//!
//! All types are `Send` and `Sync`, with two exceptions: [`series::Rounds`] is not `Sync`, and
//! [`gate::calls::CallPairs`], which contains functions of its caller, is neither.
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
pub mod stats;

#[cfg(all(doctest, feature = "stats", feature = "series"))]
#[doc = include_str!("../README.md")]
struct Readme;
