//! Context switches through `perf_event_open`, on Linux: a ring that the kernel fills and this process empties.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::machine::os::switches::{Drained, parse};
use crate::machine::os::types::NotAvailable;

/// `perf_event_attr`, as long as it was when it got its `clockid`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clockid: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const SOFTWARE: u32 = 1;
const DUMMY: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_CPU: u64 = 1 << 7;
const DISABLED: u64 = 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CONTEXT_SWITCH: u64 = 1 << 26;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;

/// Where the kernel writes how far it has written, and reads how far has been read, in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;
/// Pages of records, the most first: less where the limit of locked memory allows no more.
const PAGES: [usize; 4] = [64, 16, 4, 1];

/// A ring of switches: of one thread, or of one CPU.
#[derive(Debug)]
pub struct SwitchRing {
    file: File,
    base: NonNull<u8>,
    page: usize,
    pages: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and the ring is read through `&mut self` alone.
unsafe impl Send for SwitchRing {}

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
        Self::open(-1, cpu, DISABLED).map_err(|error| refused(&error, needs))
    }

    fn open(thread: libc::pid_t, cpu: libc::c_int, flags: u64) -> io::Result<Self> {
        let attributes = Attributes {
            kind: SOFTWARE,
            size: size_of::<Attributes>() as u32,
            config: DUMMY,
            sample_type: SAMPLE_TID | SAMPLE_TIME | SAMPLE_CPU,
            flags: flags | SAMPLE_ID_ALL | USE_CLOCKID | CONTEXT_SWITCH,
            clockid: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        // SAFETY: the attributes are a whole structure of the size that they state, and are only read; the other arguments
        // are numbers.
        let fd =
            unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attributes, thread, cpu, -1, CLOSE_ON_EXEC) };
        let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the descriptor was just made for us, and nobody else owns it.
        let file = unsafe { File::from_raw_fd(fd) };
        let page = super::accounts::page_size();
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for pages in PAGES {
            let length = (1 + pages) * page;
            // SAFETY: no address is asked for, so that no mapping is replaced; the result is checked.
            let base = unsafe {
                let access = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(std::ptr::null_mut(), length, access, libc::MAP_SHARED, file.as_raw_fd(), 0)
            };
            match NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED) {
                Some(base) => return Ok(Self { file, base, page, pages }),
                None => last = io::Error::last_os_error(),
            }
        }
        Err(last)
    }

    /// Records, or stops to.
    pub fn record(&self, on: bool) {
        let request = if on { IOC_ENABLE } else { IOC_DISABLE };
        // SAFETY: the descriptor is open as long as the ring; the request takes a number.
        unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, 0) };
    }

    /// Empties the ring: at most what fits into it, however fast it fills.
    pub fn drain(&mut self) -> Drained {
        let size = self.pages * self.page;
        let head = self.position(HEAD).load(Ordering::Acquire);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let n = usize::try_from(head.wrapping_sub(tail)).unwrap_or(usize::MAX).min(size);
        let mut bytes = vec![0_u8; n];
        // A power of two divides the size, so that the position in the ring is the remainder.
        let first = (tail % size as u64) as usize;
        let until_end = n.min(size - first);
        // SAFETY: both parts lie within the mapping behind its first page, and within `bytes`. The kernel does not write
        // between tail and head until the tail is moved.
        unsafe {
            let ring = self.base.as_ptr().add(self.page);
            std::ptr::copy_nonoverlapping(ring.add(first), bytes.as_mut_ptr(), until_end);
            std::ptr::copy_nonoverlapping(ring, bytes.as_mut_ptr().add(until_end), n - until_end);
        }
        self.position(TAIL).store(head, Ordering::Release);
        parse(&bytes)
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned words in the first page of the mapping, which lives as long as the ring; the
        // kernel reads and writes them as whole words.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

impl Drop for SwitchRing {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and no reference into it outlives the ring.
        unsafe { libc::munmap(self.base.as_ptr().cast(), (1 + self.pages) * self.page) };
    }
}

fn refused(error: &io::Error, needs: &'static str) -> NotAvailable {
    NotAvailable { what: "perf_event_open", error: error.to_string(), needs }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jitterstat::why::SwitchKind;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a sleep is what makes a switch")]
    fn a_thread_that_sleeps_is_seen_to_leave_its_cpu_and_to_come_back() {
        let mut ring = match SwitchRing::of_this_thread() {
            Ok(ring) => ring,
            Err(why) => return assert!(why.to_string().contains("perf_event_open"), "{why}"),
        };
        let before = super::super::accounts::monotonic_ns().expect("a clock");
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
