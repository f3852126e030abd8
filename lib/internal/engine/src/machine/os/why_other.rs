//! What no platform but Linux accounts for of a single thread, as far as this program knows.

use files::why::Reading;

use crate::machine::os::switches::Drained;
use crate::machine::os::types::NotAvailable;

const NOWHERE_ELSE: NotAvailable =
    NotAvailable { what: "accounts of single threads", error: String::new(), needs: "Linux" };

#[derive(Debug)]
pub struct Accounts;

impl Accounts {
    pub fn of_this_thread(_: &[Quota]) -> Result<Self, NotAvailable> {
        Err(NOWHERE_ELSE)
    }

    pub fn without_files() -> Self {
        Self
    }

    pub fn times_ns(&self) -> Option<[u64; 2]> {
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

pub fn fault_ns() -> Option<u64> {
    None
}

pub fn watch_stops() {}

pub fn continued_ns() -> Vec<u64> {
    Vec::new()
}

pub fn thread_name(_: u32) -> Option<String> {
    None
}

#[derive(Debug)]
pub enum SwitchRing {}

impl SwitchRing {
    pub fn of_this_thread() -> Result<Self, NotAvailable> {
        Err(NOWHERE_ELSE)
    }

    pub fn of_programs(_: usize) -> Result<Self, NotAvailable> {
        Err(NOWHERE_ELSE)
    }

    pub fn of_cpu(_: usize) -> Result<Self, NotAvailable> {
        Err(NOWHERE_ELSE)
    }

    pub fn record(&self, _: bool) {
        match *self {}
    }

    pub fn drain(&mut self) -> Drained {
        match *self {}
    }
}
