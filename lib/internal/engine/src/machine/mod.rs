//! The machine: facts about the host, and settings that a plan changes.

pub mod cgroup;
pub mod cpu_selection;
pub mod host;
pub mod os;
pub mod setting;
pub mod trace_marker;
pub mod tuning;
pub mod tuning_error;
