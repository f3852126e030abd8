//! Sampling of the stacks of threads on Linux with `perf_event_open`.

use std::fs::File;
use std::io;

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::perf::{self, Attributes, OverwritingRing, Ring};
use crate::machine::os::ring::{
    CONTEXT_SWITCH, ENABLE_ON_EXEC, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, OWN_THREADS_NEED,
    WRITE_BACKWARD, refused,
};
use crate::machine::os::stack_records::{
    MAX_RECORD_BYTES, REGISTER_MASK, STACK_BYTES, StackRecords,
};

const MMAP: u64 = 1 << 8;
const MMAP2: u64 = 1 << 23;
/// CPU time of a thread between two samples. It is slightly less than a millisecond, so that samples
/// do not keep their distance from ticks with periods of whole milliseconds.
pub const SAMPLE_INTERVAL_NS: u64 = 997_000;
/// Sizes of a ring to try, in pages, of which the first holds a quarter of a second.
const PAGES: [usize; 4] = [512, 256, 128, 64];
/// Minimum size of the ring of a thread.
const MIN_HISTORY_PAGES: usize = 16;

/// Ring buffer of the sampled stacks of a program on a CPU.
#[derive(Debug)]
pub struct StackRing(Ring);

impl StackRing {
    /// Samples, on one CPU, the running threads of programs that the calling thread starts later,
    /// and records the files that they map.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`SwitchRing::for_started_programs`].
    ///
    /// [`SwitchRing::for_started_programs`]: super::SwitchRing::for_started_programs
    pub fn for_started_programs(cpu: usize) -> Result<Self, NotAvailable> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        let flags = INHERIT | perf::DISABLED | ENABLE_ON_EXEC | MMAP | MMAP2;
        let event = open_event(0, cpu, flags, SAMPLE_INTERVAL_NS);
        let ring = event.and_then(|event| Ring::map(event, &PAGES));
        Ok(Self(ring.map_err(|error| refused(error, OWN_THREADS_NEED))?))
    }

    /// Empties the ring. Returns at most the capacity of the ring, even if it fills quickly.
    pub fn drain(&mut self) -> StackRecords {
        StackRecords::parse(&self.0.drain())
    }
}

/// Overwriting ring buffer with the last sampled stacks and switches of a thread.
#[derive(Debug)]
pub struct StackHistory(OverwritingRing);

impl StackHistory {
    /// Samples a thread of a program of this user after each interval of its CPU time, starting now.
    ///
    /// The ring has `bytes`, which are rounded up to a power of two, or the next smaller one for
    /// which memory can be locked.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, if no memory can be locked, or if the
    /// thread has ended or belongs to another user.
    pub fn for_thread(thread: u32, bytes: usize, interval_ns: u64) -> Result<Self, NotAvailable> {
        let thread = libc::pid_t::try_from(thread).unwrap_or(libc::pid_t::MAX);
        let mut pages = bytes.div_ceil(super::thread_stats::page_size()).next_power_of_two();
        loop {
            let event = open_event(thread, -1, CONTEXT_SWITCH | WRITE_BACKWARD, interval_ns);
            match event.and_then(|event| OverwritingRing::map(event, pages, MAX_RECORD_BYTES)) {
                Ok(ring) => return Ok(Self(ring)),
                Err(_) if pages > MIN_HISTORY_PAGES => pages /= 2,
                Err(error) => return Err(refused(error, OWN_THREADS_NEED)),
            }
        }
    }

    /// Stops sampling, or continues it.
    pub fn set_recording(&self, is_on: bool) {
        perf::record(self.0.event(), is_on);
    }

    /// Reads the last records, while sampling continues, and returns whether older ones were
    /// overwritten.
    pub fn read(&self) -> (StackRecords, bool) {
        let (bytes, is_cut) = self.0.copy();
        (StackRecords::parse_past(&bytes), is_cut)
    }

    /// Returns the CPU time that was sampled so far.
    pub fn sampled_ns(&self) -> u64 {
        perf::count(self.0.event()).unwrap_or(0)
    }

    /// Returns the number of bytes recorded so far.
    pub fn written_bytes(&self) -> u64 {
        self.0.written_bytes()
    }

    /// Returns the size of the ring in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.0.memory_bytes() as u64
    }
}

/// Opens an event that samples a thread. If the user may observe the kernel, its system calls are
/// sampled as well.
fn open_event(
    thread: libc::pid_t,
    cpu: libc::c_int,
    flags: u64,
    interval_ns: u64,
) -> io::Result<File> {
    let open = |flags| {
        let attributes = Attributes {
            kind: perf::SOFTWARE,
            config: perf::CPU_CLOCK,
            sample_period: interval_ns,
            sample_type: perf::SAMPLE_TID
                | perf::SAMPLE_TIME
                | perf::SAMPLE_CPU
                | perf::SAMPLE_REGS_USER
                | perf::SAMPLE_STACK_USER,
            sample_regs_user: REGISTER_MASK,
            sample_stack_user: STACK_BYTES,
            flags: flags | perf::SAMPLE_ID_ALL,
            ..Attributes::default()
        };
        perf::open(attributes, thread, cpu)
    };
    open(flags).or_else(|_| open(flags | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY_NS: u64 = 60_000_000;

    /// Keeps the calling thread busy for some CPU time.
    fn keep_busy() {
        let thread = || super::super::thread_cpu_ns().expect("an account");
        let end = thread() + BUSY_NS;
        while thread() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn own_stacks_are_sampled() {
        let thread = super::super::thread_id();
        let history = match StackHistory::for_thread(thread, 1 << 20, SAMPLE_INTERVAL_NS) {
            Ok(history) => history,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        let clock = || super::super::thread_stats::monotonic_ns().expect("a clock");
        let started = clock();
        keep_busy();
        let ended = clock();
        let (records, is_cut) = history.read();
        assert!(!is_cut && history.sampled_ns() >= BUSY_NS);
        let samples = &records.samples;
        assert!(samples.len() >= 3, "{} samples of 60 ms", samples.len());
        assert!(samples.is_sorted_by_key(|sample| sample.at_ns));
        for sample in samples {
            assert_eq!((sample.process, sample.thread), (std::process::id(), thread));
            assert!(sample.at_ns <= ended + SAMPLE_INTERVAL_NS);
            assert_eq!(sample.stack.len(), STACK_BYTES as usize);
            assert_ne!(sample.registers.instruction, 0);
        }
        assert!(samples[0].at_ns >= started, "{} before {started}", samples[0].at_ns);
        assert!(history.written_bytes() > samples.len() as u64 * u64::from(STACK_BYTES));
    }

    #[test]
    fn files_of_programs_are_recorded() {
        let cpus = super::super::affinity().expect("a list");
        let opened: Result<Vec<StackRing>, _> =
            cpus.into_iter().map(StackRing::for_started_programs).collect();
        let mut rings = match opened {
            Ok(rings) => rings,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        let mut child = std::process::Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done"])
            .spawn()
            .expect("a shell");
        let id = child.id();
        assert!(child.wait().expect("its end").success());
        let mut records = StackRecords::default();
        rings.iter_mut().for_each(|ring| records.append(ring.drain()));
        let shell = std::fs::canonicalize("/bin/sh").unwrap();
        let is_shell = |file: &&super::super::MappedFile| file.path == shell.to_str().unwrap();
        let mapped: Vec<_> = records.mapped_files.iter().filter(is_shell).collect();
        assert!(
            mapped.iter().any(|file| file.process == id && file.start < file.end),
            "{mapped:?}"
        );
        assert!(records.samples.iter().all(|sample| sample.process == id));
    }
}
