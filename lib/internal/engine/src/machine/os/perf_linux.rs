//! `perf_event_open` on Linux, and the ring buffer that the kernel fills.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use rustix::event::{PollFd, PollFlags, Timespec};

/// `perf_event_attr`, in the version that added `clockid`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Attributes {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub sample_period: u64,
    pub sample_type: u64,
    pub read_format: u64,
    pub flags: u64,
    pub wakeup_events: u32,
    pub bp_type: u32,
    pub config1: u64,
    pub config2: u64,
    pub branch_sample_type: u64,
    pub sample_regs_user: u64,
    pub sample_stack_user: u32,
    pub clockid: i32,
    pub sample_regs_intr: u64,
    pub aux_watermark: u32,
    pub sample_max_stack: u16,
    pub reserved: u16,
}

pub(super) const SOFTWARE: u32 = 1;
pub(super) const CPU_CLOCK: u64 = 0;
pub(super) const DUMMY: u64 = 9;
pub(super) const SAMPLE_TID: u64 = 1 << 1;
pub(super) const SAMPLE_TIME: u64 = 1 << 2;
pub(super) const SAMPLE_CPU: u64 = 1 << 7;
pub(super) const SAMPLE_REGS_USER: u64 = 1 << 12;
pub(super) const SAMPLE_STACK_USER: u64 = 1 << 13;
pub(super) const DISABLED: u64 = 1;
pub(super) const SAMPLE_ID_ALL: u64 = 1 << 18;
const USE_CLOCKID: u64 = 1 << 25;
const CLOSE_ON_EXEC: libc::c_ulong = 8;
const IOC_ENABLE: u64 = 0x2400;
const IOC_DISABLE: u64 = 0x2401;

/// Offsets, in the first page, of the end of the written data and the end of the read data.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Opens an event of a thread or a CPU, with time stamps of `CLOCK_MONOTONIC`.
pub(super) fn open(
    attributes: Attributes,
    thread: libc::pid_t,
    cpu: libc::c_int,
) -> io::Result<File> {
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        flags: attributes.flags | USE_CLOCKID,
        clockid: libc::CLOCK_MONOTONIC,
        ..attributes
    };
    // SAFETY: the attributes are a whole structure of the size that they state, and are only read;
    // the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            thread,
            cpu,
            -1,
            CLOSE_ON_EXEC,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the descriptor was just made here, and nothing else owns it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Starts or stops recording.
pub(super) fn record(event: &File, on: bool) {
    let request = if on { IOC_ENABLE } else { IOC_DISABLE };
    // SAFETY: the descriptor is open as long as the file; the request takes a number.
    unsafe { libc::ioctl(event.as_raw_fd(), request as _, 0) };
}

/// Reads the number of occurrences from the counter of the kernel.
pub(super) fn count(mut event: &File) -> io::Result<u64> {
    let mut number = [0; 8];
    event.read_exact(&mut number)?;
    Ok(u64::from_ne_bytes(number))
}

/// Returns whether the thread of an event has ended.
pub(super) fn has_ended(event: &File) -> bool {
    let mut polled = [PollFd::new(event, PollFlags::empty())];
    let is_polled = rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_polled && polled[0].revents().contains(PollFlags::HUP)
}

/// Ring buffer of an event, mapped into this process.
#[derive(Debug)]
pub(super) struct Ring {
    pub event: File,
    base: NonNull<u8>,
    page: usize,
    pages: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and the ring is read through
// `&mut self` alone.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps a ring of the first of these sizes that the limit of locked memory allows.
    ///
    /// The sizes are in pages, powers of two, and descending.
    pub fn map(event: File, sizes: &[usize]) -> io::Result<Self> {
        Self::map_with_access(event, sizes, libc::PROT_READ | libc::PROT_WRITE)
    }

    fn map_with_access(event: File, sizes: &[usize], access: libc::c_int) -> io::Result<Self> {
        let page = super::thread_stats::page_size();
        let mut last = io::Error::from(io::ErrorKind::OutOfMemory);
        for &pages in sizes {
            let length = (1 + pages) * page;
            // SAFETY: no address is asked for, so that no mapping is replaced; the result is
            // checked.
            let base = unsafe {
                libc::mmap(
                    std::ptr::null_mut(),
                    length,
                    access,
                    libc::MAP_SHARED,
                    event.as_raw_fd(),
                    0,
                )
            };
            match NonNull::new(base.cast::<u8>()).filter(|_| base != libc::MAP_FAILED) {
                Some(base) => return Ok(Self { event, base, page, pages }),
                None => last = io::Error::last_os_error(),
            }
        }
        Err(last)
    }

    /// Empties the ring. Returns at most the capacity of the ring, even if it fills quickly.
    pub fn drain(&mut self) -> Vec<u8> {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        // The kernel does not write between tail and head until the tail is moved.
        let bytes = self.copy_from(tail, head.wrapping_sub(tail));
        self.position(TAIL).store(head, Ordering::Release);
        bytes
    }

    /// Returns the size of the ring in bytes.
    fn size(&self) -> usize {
        self.pages * self.page
    }

    /// Copies `length` bytes from a position on, at most the whole ring.
    fn copy_from(&self, start: u64, length: u64) -> Vec<u8> {
        let size = self.size();
        let n = usize::try_from(length).unwrap_or(usize::MAX).min(size);
        let mut bytes = vec![0_u8; n];
        // The size is a power of two, so the position in the ring is the remainder.
        let first = (start % size as u64) as usize;
        let until_end = n.min(size - first);
        // SAFETY: both parts are within the mapping behind its first page, and within `bytes`. The
        // callers do not use bytes that the kernel may have written during the copy.
        unsafe {
            let ring = self.base.as_ptr().add(self.page);
            std::ptr::copy_nonoverlapping(ring.add(first), bytes.as_mut_ptr(), until_end);
            std::ptr::copy_nonoverlapping(ring, bytes.as_mut_ptr().add(until_end), n - until_end);
        }
        bytes
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both positions are aligned words in the first page of the mapping, which lives as
        // long as the ring; the kernel reads and writes them as whole words.
        unsafe { AtomicU64::from_ptr(self.base.as_ptr().add(at).cast()) }
    }
}

/// Ring buffer in which the kernel overwrites the oldest records.
///
/// The event must have `write_backward` set. The kernel then writes towards lower addresses, so that
/// the newest record is found at the head.
#[derive(Debug)]
pub(super) struct OverwritingRing {
    ring: Ring,
    /// Bytes at the oldest end of the ring that are not used. A CPU that is writing a record does so
    /// there before it moves the head.
    unfinished_bytes: usize,
}

impl OverwritingRing {
    /// Maps a ring of a number of pages, which is a power of two, for records of a maximum size.
    pub fn map(event: File, pages: usize, max_record_bytes: usize) -> io::Result<Self> {
        // The kernel overwrites a ring that its reader cannot write to.
        let ring = Ring::map_with_access(event, &[pages], libc::PROT_READ)?;
        Ok(Self { ring, unfinished_bytes: max_record_bytes })
    }

    pub fn event(&self) -> &File {
        &self.ring.event
    }

    /// Returns the size of the mapping in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.ring.page + self.ring.size()
    }

    /// Returns the number of bytes that were written since the ring was mapped.
    pub fn written_bytes(&self) -> u64 {
        0_u64.wrapping_sub(self.head())
    }

    /// Copies the records, newest first, and returns whether older ones were overwritten.
    ///
    /// The kernel continues to write during the copy. It does so where the oldest records are, which
    /// are then left out.
    pub fn copy(&self) -> (Vec<u8>, bool) {
        let head = self.head();
        let written = 0_u64.wrapping_sub(head);
        let mut bytes = self.ring.copy_from(head, written);
        // The copy is complete before the second reading.
        fence(Ordering::SeqCst);
        let overwritten = usize::try_from(head.wrapping_sub(self.head())).unwrap_or(usize::MAX);
        let intact =
            self.ring.size().saturating_sub(overwritten).saturating_sub(self.unfinished_bytes);
        bytes.truncate(intact);
        let is_cut = written > bytes.len() as u64;
        (bytes, is_cut)
    }

    fn head(&self) -> u64 {
        // SAFETY: the position is an aligned word in the first page of the mapping, which lives as
        // long as the ring. The read is volatile because the kernel writes the word as a whole.
        let head = unsafe { self.ring.base.as_ptr().add(HEAD).cast::<u64>().read_volatile() };
        fence(Ordering::Acquire);
        head
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, of that length, and no reference into it outlives the ring.
        unsafe { libc::munmap(self.base.as_ptr().cast(), (1 + self.pages) * self.page) };
    }
}
