//! Placeholder for tracing, which is supported on 64-bit Linux only.

use std::collections::HashMap;
use std::io;

use crate::machine::os::events::{TraceEvent, TraceScope};
use crate::machine::os::not_available::NotAvailable;

pub const WAITS: &[(i64, &str)] = &[];

pub fn current_call(_: u32) -> Option<String> {
    None
}

pub fn process_threads(_: u32) -> io::Result<Vec<u32>> {
    Ok(Vec::new())
}

pub fn belongs_to_other_user(_: u32) -> bool {
    false
}

pub fn is_32_bit(_: u32) -> bool {
    false
}

pub fn cpus_allowed(_: u32) -> Vec<usize> {
    Vec::new()
}

pub fn online_cpus() -> Vec<usize> {
    super::affinity().unwrap_or_else(|| vec![0])
}

#[derive(Debug)]
pub enum Tracer {}

impl Tracer {
    pub fn open(_: TraceScope) -> Result<Self, NotAvailable> {
        Err(NotAvailable { what: "tracing", obstacle: None, needs: "Linux on 64 bits" })
    }

    pub fn record(&self, _: bool) {
        match *self {}
    }

    pub fn drain(&mut self, _: &mut Vec<TraceEvent>) {
        match *self {}
    }

    pub fn finish(&mut self, _: &mut Vec<TraceEvent>) -> u64 {
        match *self {}
    }

    pub fn bytes(&self) -> u64 {
        match *self {}
    }
}

pub fn has_kernel_thread_ids() -> bool {
    true
}

pub fn kernel_functions(_: &[&str]) -> HashMap<u64, String> {
    HashMap::new()
}

pub fn clocks_ahead_ns() -> Vec<i64> {
    Vec::new()
}
