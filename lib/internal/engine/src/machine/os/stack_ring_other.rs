//! Placeholder for samples of stacks, which are supported on Linux only.

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::stack_records::StackRecords;

const NOT_SUPPORTED: NotAvailable = NotAvailable {
    what: "samples of stacks",
    obstacle: None,
    needs: "Linux on x86-64 or 64-bit Arm",
};

pub const SAMPLE_INTERVAL_NS: u64 = 997_000;

#[derive(Debug)]
pub enum StackHistory {}

impl StackHistory {
    pub fn for_started_programs(_: &[usize]) -> Result<Vec<Self>, NotAvailable> {
        Err(NOT_SUPPORTED)
    }

    pub fn for_thread(_: u32, _: usize, _: u64) -> Result<Self, NotAvailable> {
        Err(NOT_SUPPORTED)
    }

    pub fn set_recording(&self, _: bool) {
        match *self {}
    }

    pub fn has_ended(&self) -> bool {
        match *self {}
    }

    pub fn read(&self) -> (StackRecords, bool) {
        match *self {}
    }

    pub fn sampled_ns(&self) -> u64 {
        match *self {}
    }

    pub fn written_bytes(&self) -> u64 {
        match *self {}
    }

    pub fn memory_bytes(&self) -> u64 {
        match *self {}
    }
}
