//! Recording of context switches on Linux with `perf_event_open`.

use std::fs::File;
use std::io;

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::perf::{self, Attributes, OverwritingRing, Ring};
use crate::machine::os::switches::{DrainedSwitches, PastSwitches, parse, parse_past};

pub(super) const INHERIT: u64 = 1 << 1;
pub(super) const EXCLUDE_KERNEL: u64 = 1 << 5;
pub(super) const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const MMAP: u64 = 1 << 8;
pub(super) const COMM: u64 = 1 << 9;
pub(super) const ENABLE_ON_EXEC: u64 = 1 << 12;
const MMAP2: u64 = 1 << 23;
pub(super) const CONTEXT_SWITCH: u64 = 1 << 26;
pub(super) const WRITE_BACKWARD: u64 = 1 << 27;
/// Requirements of recording the switches of the user's own threads.
pub(super) const OWN_THREADS_NEED: &str =
    "kernel.perf_event_paranoid <= 2 and a sandbox that allows perf_event_open";
/// Requirements of recording the switches of all threads.
const ALL_THREADS_NEED: &str = "CAP_PERFMON or kernel.perf_event_paranoid <= 0";
/// Maximum size of a record of a switch or a name.
const MAX_SWITCH_BYTES: usize = 512;
/// Sizes of a ring to try, in pages.
const PAGES: [usize; 4] = [64, 16, 4, 1];
/// Sizes to try for a ring of a whole CPU, of which every machine may have hundreds.
const CPU_PAGES: [usize; 6] = [256, 128, 64, 16, 4, 1];
/// Sizes to try for a ring of a whole program.
const PROGRAM_PAGES: [usize; 7] = [512, 256, 128, 64, 16, 4, 1];

/// Ring buffer of the context switches of a thread or a CPU.
#[derive(Debug)]
pub struct SwitchRing(Ring);

impl SwitchRing {
    /// Records the switches of the calling thread, starting now.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, or if no memory can be locked.
    pub fn for_current_thread() -> Result<Self, NotAvailable> {
        Self::open(0, -1, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, &PAGES)
            .map_err(|error| refused(error, OWN_THREADS_NEED))
    }

    /// Records, on one CPU, the switches of all threads of programs that the calling thread starts
    /// later, and the files that these programs map.
    ///
    /// Recording starts at the `exec` of a program. Forked processes inherit the event, so this
    /// needs no permission for other processes.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`SwitchRing::for_current_thread`].
    pub fn for_started_programs(cpu: usize) -> Result<Self, NotAvailable> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        let flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR | INHERIT | perf::DISABLED | ENABLE_ON_EXEC;
        Self::open(0, cpu, flags | COMM | MMAP | MMAP2, &PROGRAM_PAGES)
            .map_err(|error| refused(error, OWN_THREADS_NEED))
    }

    /// Records the switches of all threads on a CPU while [`SwitchRing::record`] is on.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`SwitchRing::for_current_thread`], or without the
    /// permission to observe other processes.
    pub fn for_cpu(cpu: usize) -> Result<Self, NotAvailable> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        Self::open(-1, cpu, perf::DISABLED, &CPU_PAGES)
            .map_err(|error| refused(error, ALL_THREADS_NEED))
    }

    fn open(
        thread: libc::pid_t,
        cpu: libc::c_int,
        flags: u64,
        pages: &[usize],
    ) -> io::Result<Self> {
        Ok(Self(Ring::map(open_event(thread, cpu, flags)?, pages)?))
    }

    /// Starts or stops recording.
    pub fn record(&self, on: bool) {
        perf::record(&self.0.event, on);
    }

    /// Empties the ring. Returns at most the capacity of the ring, even if it fills quickly.
    pub fn drain(&mut self) -> DrainedSwitches {
        parse(&self.0.drain())
    }
}

/// Opens an event that records the switches of a thread or a CPU.
fn open_event(thread: libc::pid_t, cpu: libc::c_int, flags: u64) -> io::Result<File> {
    let attributes = Attributes {
        kind: perf::SOFTWARE,
        config: perf::DUMMY,
        sample_type: perf::SAMPLE_TID | perf::SAMPLE_TIME | perf::SAMPLE_CPU,
        flags: flags | perf::SAMPLE_ID_ALL | CONTEXT_SWITCH,
        ..Attributes::default()
    };
    perf::open(attributes, thread, cpu)
}

/// Overwriting ring buffer with the last context switches of a thread or a CPU.
#[derive(Debug)]
pub struct SwitchHistory {
    ring: OverwritingRing,
    /// Start of recording: `CLOCK_MONOTONIC`, in nanoseconds.
    started_ns: u64,
}

impl SwitchHistory {
    /// Records the switches of a thread of this process, starting now, in a ring of `bytes`, which
    /// is rounded up to a power of two.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, if no memory can be locked, or if the
    /// thread has ended.
    pub fn for_thread(thread: u32, bytes: usize) -> Result<Self, NotAvailable> {
        let thread = libc::pid_t::try_from(thread).unwrap_or(libc::pid_t::MAX);
        Self::open(thread, -1, EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR, bytes)
            .map_err(|error| refused(error, OWN_THREADS_NEED))
    }

    /// Records the switches of all threads on a CPU, and the names of new programs, starting now.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`SwitchHistory::for_thread`], or without the
    /// permission to observe other processes.
    pub fn for_cpu(cpu: usize, bytes: usize) -> Result<Self, NotAvailable> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        Self::open(-1, cpu, COMM, bytes).map_err(|error| refused(error, ALL_THREADS_NEED))
    }

    fn open(thread: libc::pid_t, cpu: libc::c_int, flags: u64, bytes: usize) -> io::Result<Self> {
        let event = open_event(thread, cpu, flags | WRITE_BACKWARD | perf::DISABLED)?;
        let pages = bytes.div_ceil(super::thread_stats::page_size()).next_power_of_two();
        let ring = OverwritingRing::map(event, pages, MAX_SWITCH_BYTES)?;
        perf::record(ring.event(), true);
        Ok(Self { ring, started_ns: super::thread_stats::monotonic_ns().unwrap_or(0) })
    }

    /// Stops recording, or continues it.
    pub fn set_recording(&self, is_on: bool) {
        perf::record(self.ring.event(), is_on);
    }

    /// Reads the recorded switches, while recording continues.
    pub fn read(&self) -> PastSwitches {
        let (bytes, is_cut) = self.ring.copy();
        let mut past = parse_past(&bytes, is_cut);
        past.complete_from_ns = past.complete_from_ns.max(self.started_ns);
        past
    }

    /// Returns the number of bytes recorded so far.
    pub fn written_bytes(&self) -> u64 {
        self.ring.written_bytes()
    }

    /// Returns the size of the ring in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.ring.memory_bytes() as u64
    }
}

pub(super) fn refused(error: io::Error, needs: &'static str) -> NotAvailable {
    NotAvailable::new("perf_event_open", error, needs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::os::switches::SwitchRecord;
    use files::why::SwitchKind;

    #[test]
    fn program_threads_are_recorded() {
        let cpus = super::super::affinity().expect("a list");
        let mut rings = match cpus
            .into_iter()
            .map(SwitchRing::for_started_programs)
            .collect::<Result<Vec<_>, _>>()
        {
            Ok(rings) => rings,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        std::thread::yield_now();
        let mut child = std::process::Command::new("sh")
            .args(["-c", "sleep 0.01; sleep 0.01"])
            .spawn()
            .expect("a shell");
        let id = child.id();
        assert!(child.wait().expect("its end").success());
        let drained: Vec<DrainedSwitches> = rings.iter_mut().map(SwitchRing::drain).collect();
        let threads: std::collections::BTreeSet<u32> =
            drained.iter().flat_map(|d| d.switches.iter().map(|s| s.thread)).collect();
        assert!(threads.contains(&id) && threads.len() >= 2, "{threads:?}");
        assert!(!threads.contains(&std::process::id()), "{threads:?}");
        let names: Vec<&str> =
            drained.iter().flat_map(|d| d.names.iter().map(|named| named.name.as_str())).collect();
        assert_eq!(names.iter().filter(|name| **name == "sleep").count(), 2, "{names:?}");
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let mut mapped = drained.iter().flat_map(|d| &d.mapped_files);
        assert!(
            mapped.any(|file| file.process == id
                && file.start < file.end
                && file.path == shell.to_str().unwrap()),
            "{drained:?}"
        );
        assert!(drained.iter().all(|d| d.lost == 0));
    }

    /// Sleeps 200 times, so that a ring of one page overwrites its first records.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sleep causes a switch")]
    fn history_keeps_the_last_switches() {
        let thread = super::super::thread_id();
        let history = match SwitchHistory::for_thread(thread, 1) {
            Ok(history) => history,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        let clock = || super::super::thread_stats::monotonic_ns().expect("a clock");
        let started = history.read().complete_from_ns;
        assert!(started > 0 && started <= clock(), "{started}");
        for _ in 0..199 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
        let before_last = clock();
        std::thread::sleep(std::time::Duration::from_micros(50));
        let (past, after) = (history.read(), clock());
        let switches = &past.records.switches;
        assert!(switches.len() >= 50 && switches.len() < 400, "{}", switches.len());
        assert!(
            switches.is_sorted_by_key(|s| s.at_ns) && switches.iter().all(|s| s.thread == thread)
        );
        let newest_ns = switches[switches.len() - 1].at_ns;
        assert!((before_last..=after).contains(&newest_ns), "the last sleep was recorded");
        assert_eq!(past.complete_from_ns, switches[0].at_ns, "older ones are overwritten");
        assert!(history.written_bytes() > history.memory_bytes() / 2);
        let alternates = |pair: &[SwitchRecord]| {
            (pair[0].kind == SwitchKind::On) != (pair[1].kind == SwitchKind::On)
        };
        assert!(switches.windows(2).all(alternates), "{switches:?}");
        history.set_recording(false);
        let stopped = history.written_bytes();
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(history.written_bytes(), stopped);
    }

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sleep causes a switch")]
    fn sleeping_threads_leave_their_cpu() {
        let before = super::super::thread_stats::monotonic_ns().expect("a clock");
        let mut ring = match SwitchRing::for_current_thread() {
            Ok(ring) => ring,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        std::thread::sleep(std::time::Duration::from_millis(1));
        let drained = ring.drain();
        let after = super::super::thread_stats::monotonic_ns().expect("a clock");
        assert_eq!(drained.lost, 0);
        let kinds: Vec<SwitchKind> = drained.switches.iter().map(|s| s.kind).collect();
        let slept = kinds.iter().position(|k| *k == SwitchKind::Waits).expect("it slept");
        assert!(kinds[slept..].contains(&SwitchKind::On), "{kinds:?}");
        assert!(
            drained.switches.iter().all(|s| (before..=after).contains(&s.at_ns)),
            "one clock for all"
        );
        // On a busy machine the thread may have been switched again.
        let last = drained.switches.last().expect("two switches at least").at_ns;
        assert!(ring.drain().switches.iter().all(|s| s.at_ns > last), "none is reported twice");
    }
}
