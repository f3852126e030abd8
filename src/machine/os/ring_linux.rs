//! Context switches through `perf_event_open`, on Linux.

use std::io;

use crate::machine::os::perf::{self, Attributes, Ring};
use crate::machine::os::switches::{Drained, parse};
use crate::machine::os::types::NotAvailable;

const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const CONTEXT_SWITCH: u64 = 1 << 26;
/// Pages of records.
const PAGES: [usize; 4] = [64, 16, 4, 1];

/// A ring of switches: of one thread, or of one CPU.
#[derive(Debug)]
pub struct SwitchRing(Ring);

impl SwitchRing {
    /// Of the calling thread; it records from now on.
    ///
    /// # Errors
    /// The kernel or a sandbox refuses it, or there is no memory that can be locked.
    pub fn of_this_thread() -> Result<Self, NotAvailable> {
        let needs = "a kernel.perf_event_paranoid of at most 2, and a sandbox that allows perf_event_open";
        Self::open(0, -1, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR).map_err(|error| refused(&error, needs))
    }

    /// Of a CPU, whoever runs on it; it records while [`SwitchRing::record`] says so.
    ///
    /// # Errors
    /// As [`SwitchRing::of_this_thread`], and without the right to see other processes.
    pub fn of_cpu(cpu: usize) -> Result<Self, NotAvailable> {
        let needs = "CAP_PERFMON, or a kernel.perf_event_paranoid of at most 0";
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        Self::open(-1, cpu, perf::DISABLED).map_err(|error| refused(&error, needs))
    }

    fn open(thread: libc::pid_t, cpu: libc::c_int, flags: u64) -> io::Result<Self> {
        let attributes = Attributes {
            kind: perf::SOFTWARE,
            config: perf::DUMMY,
            sample_type: perf::SAMPLE_TID | perf::SAMPLE_TIME | perf::SAMPLE_CPU,
            flags: flags | perf::SAMPLE_ID_ALL | CONTEXT_SWITCH,
            ..Attributes::default()
        };
        Ok(Self(Ring::map(perf::open(attributes, thread, cpu)?, &PAGES)?))
    }

    /// Records, or stops to.
    pub fn record(&self, on: bool) {
        perf::record(&self.0.event, on);
    }

    /// Empties the ring: at most what fits into it, however fast it fills.
    pub fn drain(&mut self) -> Drained {
        parse(&self.0.drain())
    }
}

pub(super) fn refused(error: &io::Error, needs: &'static str) -> NotAvailable {
    NotAvailable { what: "perf_event_open", error: error.to_string(), needs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitterstat::why::SwitchKind;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sleep is what makes a switch")]
    fn a_thread_that_sleeps_is_seen_to_leave_its_cpu_and_to_come_back() {
        let before = super::super::accounts::monotonic_ns().expect("a clock");
        let mut ring = match SwitchRing::of_this_thread() {
            Ok(ring) => ring,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        std::thread::sleep(std::time::Duration::from_millis(1));
        let drained = ring.drain();
        let after = super::super::accounts::monotonic_ns().expect("a clock");
        assert_eq!(drained.lost, 0);
        let kinds: Vec<SwitchKind> = drained.switches.iter().map(|s| s.kind).collect();
        let slept = kinds.iter().position(|k| *k == SwitchKind::Waits).expect("it slept");
        assert!(kinds[slept..].contains(&SwitchKind::On), "{kinds:?}");
        assert!(drained.switches.iter().all(|s| (before..=after).contains(&s.at_ns)), "one clock for all");
        // On a busy machine the thread is switched again meanwhile.
        let last = drained.switches.last().expect("two switches at least").at_ns;
        assert!(ring.drain().switches.iter().all(|s| s.at_ns > last), "none is reported twice");
    }
}
