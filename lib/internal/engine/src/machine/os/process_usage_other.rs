//! Resources of running processes, which only Linux reports.

use crate::machine::os::types::TreeUsage;

/// Resources of a running program and of the processes that it has started.
#[derive(Clone, Debug)]
pub struct ProcessUsage;

impl ProcessUsage {
    pub fn read(_: u32) -> Option<Self> {
        None
    }

    pub fn cpu_ns(&self) -> u64 {
        0
    }

    pub fn since(&self, _: &Self) -> Option<TreeUsage> {
        None
    }
}
