//! The machine: what it is, and what a plan may change on it.

pub mod cgroup;
pub mod host;
pub mod os;
pub mod setting;
pub mod trace_marker;
pub mod tuning;
