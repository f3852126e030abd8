//! Sampling of the stacks of threads on Linux with `perf_event_open`.

use std::io;

use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::perf::{self, Attributes, OverwritingRing};
use crate::machine::os::ring::{
    CONTEXT_SWITCH, ENABLE_ON_EXEC, EXCLUDE_HYPERVISOR, EXCLUDE_KERNEL, INHERIT, OWN_THREADS_NEED,
    WRITE_BACKWARD, refused,
};
use crate::machine::os::stack_records::{
    MAX_RECORD_BYTES, REGISTER_MASK, STACK_BYTES, StackRecords,
};

/// CPU time of a thread between two samples. It is slightly less than a millisecond, so that samples
/// do not keep their distance from ticks with periods of whole milliseconds.
pub const SAMPLE_INTERVAL_NS: u64 = 997_000;
/// Memory of all rings of a process, and bounds of that of one.
const TOTAL_BYTES: usize = 32 << 20;
const MIN_RING_BYTES: usize = 1 << 16;
const MAX_RING_BYTES: usize = 2 << 20;

/// Overwriting ring buffer with the last sampled stacks of a thread, or of a program on a CPU.
#[derive(Debug)]
pub struct StackHistory(OverwritingRing);

impl StackHistory {
    /// Samples, on each of these CPUs, the running threads of programs that the calling thread starts
    /// later.
    ///
    /// # Errors
    ///
    /// Returns an error under the conditions of [`SwitchRing::for_started_programs`].
    ///
    /// [`SwitchRing::for_started_programs`]: super::SwitchRing::for_started_programs
    pub fn for_started_programs(cpus: &[usize]) -> Result<Vec<Self>, NotAvailable> {
        let flags = INHERIT | perf::DISABLED | ENABLE_ON_EXEC;
        let mut bytes = ring_bytes(cpus.len());
        loop {
            let open = |&cpu: &usize| {
                Self::open(
                    0,
                    i32::try_from(cpu).unwrap_or(i32::MAX),
                    flags,
                    bytes,
                    SAMPLE_INTERVAL_NS,
                )
            };
            // All rings have the same size, so that the last samples of each CPU are as old.
            match cpus.iter().map(open).collect() {
                Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
                opened => return opened.map_err(|error| refused(error, OWN_THREADS_NEED)),
            }
        }
    }

    /// Samples a thread of a program of this user after each interval of its CPU time, starting now,
    /// and records its switches. The ring is one of `rings`, which share the memory.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, if no memory can be locked, or if the
    /// thread has ended or belongs to another user.
    pub fn for_thread(thread: u32, rings: usize, interval_ns: u64) -> Result<Self, NotAvailable> {
        let thread = libc::pid_t::try_from(thread).unwrap_or(libc::pid_t::MAX);
        let mut bytes = ring_bytes(rings);
        loop {
            match Self::open(thread, -1, CONTEXT_SWITCH, bytes, interval_ns) {
                Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
                opened => return opened.map_err(|error| refused(error, OWN_THREADS_NEED)),
            }
        }
    }

    /// Opens a ring. If the user may observe the kernel, system calls are sampled as well.
    fn open(
        thread: libc::pid_t,
        cpu: libc::c_int,
        flags: u64,
        bytes: usize,
        interval_ns: u64,
    ) -> io::Result<Self> {
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
                flags: flags | perf::SAMPLE_ID_ALL | WRITE_BACKWARD,
                ..Attributes::default()
            };
            perf::open(attributes, thread, cpu)
        };
        let event = open(flags).or_else(|_| open(flags | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR))?;
        let pages = bytes / super::thread_stats::page_size();
        Ok(Self(OverwritingRing::map(event, pages, MAX_RECORD_BYTES)?))
    }

    /// Stops sampling, or continues it.
    pub fn set_recording(&self, is_on: bool) {
        perf::record(self.0.event(), is_on);
    }

    /// Returns whether the sampled thread has ended. Its number may belong to another one by now.
    pub fn has_ended(&self) -> bool {
        perf::has_ended(self.0.event())
    }

    /// Reads the last records, while sampling continues, and returns whether older ones were
    /// overwritten.
    pub fn read(&self) -> (StackRecords, bool) {
        let (bytes, is_cut) = self.0.copy();
        (StackRecords::parse(&bytes), is_cut)
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

/// Returns the size of each of some rings, which is a power of two.
fn ring_bytes(rings: usize) -> usize {
    let share = (TOTAL_BYTES / rings.max(1)).clamp(MIN_RING_BYTES, MAX_RING_BYTES);
    1 << share.ilog2()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the calling thread busy for three samples.
    fn keep_busy() {
        let thread = || super::super::thread_cpu_ns().expect("an account");
        let end = thread() + 3 * SAMPLE_INTERVAL_NS;
        while thread() < end {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn ended_threads_are_noticed() {
        let (number, numbers) = std::sync::mpsc::channel();
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            number.send(super::super::thread_id()).unwrap();
            ends.recv().unwrap_err();
        });
        let opened = StackHistory::for_thread(numbers.recv().unwrap(), 1, SAMPLE_INTERVAL_NS);
        let was_over = opened.as_ref().is_ok_and(StackHistory::has_ended);
        drop(end);
        thread.join().unwrap();
        let Ok(history) = opened else { return };
        assert!(!was_over);
        // The kernel wakes the thread that joins before it closes the events.
        while !history.has_ended() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn own_stacks_are_sampled() {
        let thread = super::super::thread_id();
        let clock = || super::super::thread_stats::monotonic_ns().expect("a clock");
        let started = clock();
        let history = match StackHistory::for_thread(thread, 1, SAMPLE_INTERVAL_NS) {
            Ok(history) => history,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        // A hypervisor that takes the CPU for some intervals leaves one sample of all of them.
        let mut busy = 0;
        let (records, is_cut) = loop {
            keep_busy();
            busy += 1;
            let past = history.read();
            if past.0.samples.len() >= 3 {
                break past;
            }
            assert!(busy < 20, "{} samples in {busy} times three intervals", past.0.samples.len());
        };
        let ended = clock();
        assert!(!is_cut && history.sampled_ns() >= 3 * SAMPLE_INTERVAL_NS);
        let samples = &records.samples;
        assert!(samples.is_sorted_by_key(|sample| sample.at_ns));
        for sample in samples {
            assert_eq!((sample.process, sample.thread), (std::process::id(), thread));
            assert!((started..=ended).contains(&sample.at_ns), "{started} {sample:?} {ended}");
            assert_eq!(sample.stack.len(), STACK_BYTES as usize);
            assert_ne!(sample.registers.instruction, 0);
        }
        assert!(history.written_bytes() > samples.len() as u64 * u64::from(STACK_BYTES));
    }
}
