//! The files of osjitter as plain data, and the computations on them.
//!
//! Each file is a serde struct that implements [`file::File`], which reads, checks and writes it
//! with its schema number. Comparison, merging and the decisions of the gate are functions of these
//! structs.
//!
//! | Module | Content |
//! |---|---|
//! | [`mod@file`] | reads, checks and writes any file of osjitter |
//! | [`report`] | `osjitter.report/1` |
//! | [`bins`] | `osjitter.bins/1`: histograms as rows, which a database can merge over hosts and days |
//! | [`entry`] | the measured subjects of one or several reports as one list |
//! | [`samples`] | the lateness values of a subject, as exact as its report stores them |
//! | [`quantity`] | whether a report measures lateness or gaps of a busy loop |
//! | [`histogram`] | the stored HDR histogram of a subject |
//! | [`hdr_encoding`] | reads and writes the binary encodings of HdrHistogram |
//! | [`tick_counts`] | the counts of the ticks of a loop |
//! | [`summary`] | percentiles and counts over the rounds of one subject |
//! | [`merge`] | joins reports without loss |
//! | [`environment`] | the conditions under which two measurements are comparable |
//! | [`compare`] | `osjitter.comparison/1`: how two measured subjects differ |
//! | [`find`] | `osjitter.find/1`: the search for the shortest period at which goals hold |
//! | [`fitness`] | whether the machine was quiet enough to trust a run |
//! | [`subjects`] | the table of subjects: names, roles, defaults and signs |
//! | [`trust`] | the numbers of a summary that reflect the machine rather than the subject |
//! | [`settings`] | the settings in which the subjects of a run differ |
//! | [`why`] | the causes of a late tick, from the activity of its thread |
//! | [`gate`] | `osjitter.verdict/1`, `osjitter.baseline/1`, `osjitter.calibration/1`, `osjitter.run-calibration/1` |
//! | [`mod@model`] | declares the structs of files, and checks their published schemas |
//! | [`window`] | a time together with the window in which it was counted |
//! | [`round_costs`] | the costs of the rounds of a subject, and the windows in which they were counted |
//! | [`cost`] | the cost of an operation, alone and relative to another in the same rounds |
//!
//! The crate is published because `cargo install osjitter` needs it. Its interface follows the
//! program and may change in any release; the file formats are stable. The feature `schema` adds
//! the JSON Schema of each file.
#![forbid(unsafe_code)]

pub mod bins;
pub mod compare;
pub mod cost;
mod counters;
pub mod entry;
pub mod environment;
pub mod file;
pub mod find;
pub mod fitness;
pub mod gate;
pub mod hdr_encoding;
pub mod histogram;
mod histogram_error;
pub mod merge;
pub mod model;
pub mod quantity;
pub mod report;
pub mod round_costs;
pub mod samples;
pub mod settings;
pub mod subjects;
pub mod summary;
pub mod tick_counts;
pub mod trust;
pub mod why;
pub mod window;
