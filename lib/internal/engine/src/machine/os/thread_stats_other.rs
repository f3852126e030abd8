//! Placeholder for statistics of single threads, which are supported on Linux only.

use files::why::Reading;

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::switches::{DrainedSwitches, PastSwitches};
use crate::machine::os::types::ThreadTimes;

const LINUX_ONLY: NotAvailable =
    NotAvailable { what: "statistics of single threads", obstacle: None, needs: "Linux" };

#[derive(Debug)]
pub struct ThreadStats;

impl ThreadStats {
    pub fn for_current_thread(_: &[Quota]) -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn without_files() -> Self {
        Self
    }

    pub fn times(&self) -> Option<ThreadTimes> {
        None
    }

    pub fn throttled(&self) -> Option<u64> {
        None
    }

    pub fn read(&self) -> Reading {
        Reading::default()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub period_ns: u64,
}

pub fn quotas() -> Vec<Quota> {
    Vec::new()
}

pub fn monotonic_pair() -> std::io::Result<(std::time::Instant, u64)> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffsets {
    pub monotonic_ns: i64,
}

pub fn clock_offsets() -> ClockOffsets {
    ClockOffsets::default()
}

pub fn fault_ns() -> Option<u64> {
    None
}

pub fn install_stop_handler() {}

pub fn continued_ns() -> Vec<u64> {
    Vec::new()
}

pub fn thread_name(_: u32) -> Option<String> {
    None
}

pub fn thread_id() -> u32 {
    0
}

#[derive(Debug)]
pub enum SwitchHistory {}

impl SwitchHistory {
    pub fn for_thread(_: u32, _: usize) -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn for_cpu(_: usize, _: usize) -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn set_recording(&self, _: bool) {
        match *self {}
    }

    pub fn read(&self) -> PastSwitches {
        match *self {}
    }

    pub fn written_bytes(&self) -> u64 {
        match *self {}
    }

    pub fn memory_bytes(&self) -> u64 {
        match *self {}
    }
}

#[derive(Debug)]
pub enum SwitchRing {}

impl SwitchRing {
    pub fn for_current_thread() -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn for_started_programs(_: usize) -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn for_cpu(_: usize) -> Result<Self, NotAvailable> {
        Err(LINUX_ONLY)
    }

    pub fn record(&self, _: bool) {
        match *self {}
    }

    pub fn drain(&mut self) -> DrainedSwitches {
        match *self {}
    }
}
