//! Parking on an `io_uring`, on Linux.
//!
//! The wait of a ring has an absolute deadline, and a request in the ring completes when the event
//! queue has events. The request polls the event queue's own descriptor and fires repeatedly
//! ("multishot"). It completes for new events only and reports nothing about earlier ones, so all
//! events are taken after the completions. The `unsafe` code consists of the system calls and the
//! accesses to the memory that the kernel shares with the ring.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::clock::now;
use crate::wait_limit::WaitLimit;

/// `io_sqring_offsets` or `io_cqring_offsets`, which have the same size. The fields have the names
/// of those that are used.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RingOffsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags_or_overflow: u32,
    dropped_or_completions: u32,
    array_or_flags: u32,
    reserved: u32,
    address: u64,
}

/// `io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct SetupParams {
    submissions: u32,
    completions: u32,
    flags: u32,
    poller_cpu: u32,
    poller_idle: u32,
    features: u32,
    workers_fd: u32,
    reserved: [u32; 3],
    submission: RingOffsets,
    completion: RingOffsets,
}

impl SetupParams {
    /// Returns the size of the mapping that contains both rings.
    fn rings_length(&self) -> usize {
        let end = |start: u32, entries: u32, size: usize| start as usize + entries as usize * size;
        let submission_end =
            end(self.submission.array_or_flags, self.submissions, size_of::<u32>());
        let completion_end = end(
            self.completion.dropped_or_completions,
            self.completions,
            size_of::<CompletionEntry>(),
        );
        submission_end.max(completion_end)
    }
}

/// `io_uring_sqe`, as far as a poll request uses it.
#[repr(C)]
#[derive(Default)]
struct SubmissionEntry {
    opcode: u8,
    flags: u8,
    priority: u16,
    descriptor: RawFd,
    offset: u64,
    address: u64,
    length: u32,
    events: u32,
    user_data: u64,
    rest: [u64; 3],
}

/// `io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CompletionEntry {
    user_data: u64,
    result: i32,
    flags: u32,
}

/// `io_uring_getevents_arg`.
#[repr(C)]
struct WaitArguments {
    sigmask: u64,
    sigmask_size: u32,
    min_wait_us: u32,
    timespec: u64,
}

/// `__kernel_timespec`, which has 64-bit fields on every architecture.
#[repr(C)]
struct KernelTimespec {
    seconds: i64,
    nanoseconds: i64,
}

impl From<Duration> for KernelTimespec {
    fn from(time: Duration) -> Self {
        Self {
            seconds: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: time.subsec_nanos().into(),
        }
    }
}

/// Lets the waiting thread create the completions while it waits, so that it is never interrupted
/// for them. Both flags need Linux 6.1.
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASK_WORK: u32 = 1 << 13;
/// Both rings are in one mapping, since Linux 5.4.
const SINGLE_MAPPING: u32 = 1 << 0;
const RINGS_OFFSET: libc::off_t = 0;
const ENTRIES_OFFSET: libc::off_t = 0x1000_0000;
const POLL_ADD: u8 = 6;
const MULTISHOT: u32 = 1 << 0;
/// Flag of a completion whose request will complete again.
const MORE: u32 = 1 << 1;
const GET_EVENTS: u32 = 1 << 0;
const EXTENDED_ARGUMENTS: u32 = 1 << 3;
/// The deadline is absolute, by `CLOCK_MONOTONIC`. Needs Linux 6.12.
const ABSOLUTE_TIMER: u32 = 1 << 5;

#[derive(Debug)]
pub(super) struct Ring {
    descriptor: OwnedFd,
    rings: Mapping,
    entries: Mapping,
    submission_tail: u32,
    completion_head: u32,
    completion_tail: u32,
    completion_mask: u32,
    completions: u32,
    /// Whether the request is submitted and will complete with the next event.
    is_polling: Cell<bool>,
    start: ClockReading,
}

impl Ring {
    /// Creates a ring that watches an event queue.
    ///
    /// # Errors
    /// Returns an error if no ring is available, or if its wait does not support an absolute
    /// deadline, because the kernel is older than 6.12 or this process is in a time namespace.
    pub(super) fn new(event_queue: &mio::Poll) -> io::Result<Self> {
        if is_clock_shifted() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let flags = SINGLE_ISSUER | DEFER_TASK_WORK;
        let mut params = SetupParams { flags, ..SetupParams::default() };
        let descriptor = set_up_ring(&mut params)?;
        if params.features & SINGLE_MAPPING == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (submission, completion) = (&params.submission, &params.completion);
        let rings = Mapping::new(&descriptor, params.rings_length(), RINGS_OFFSET)?;
        let entries_length = params.submissions as usize * size_of::<SubmissionEntry>();
        let entries = Mapping::new(&descriptor, entries_length, ENTRIES_OFFSET)?;
        // The only request is in entry 0, so every slot of the submission ring refers to it.
        for slot in 0..params.submissions {
            rings.word(submission.array_or_flags + slot * 4).store(0, Ordering::Relaxed);
        }
        let ring = Self {
            descriptor,
            submission_tail: submission.tail,
            completion_head: completion.head,
            completion_tail: completion.tail,
            completion_mask: rings.word(completion.mask).load(Ordering::Relaxed),
            completions: completion.dropped_or_completions,
            rings,
            entries,
            is_polling: Cell::new(false),
            start: ClockReading::read()?,
        };
        ring.check_support(event_queue)?;
        Ok(ring)
    }

    /// Submits the request in a wait whose deadline has passed.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support such waits or cannot poll the event queue.
    fn check_support(&self, event_queue: &mio::Poll) -> io::Result<()> {
        match self.enter(event_queue, Some(Duration::from_nanos(1))) {
            Err(error) if !is_timeout_or_signal(&error) => return Err(error),
            _ => {}
        }
        // A request that fails at once would never complete.
        match self.take_completions() {
            CompletionSummary { failure: Some(error), .. } => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits until the event queue may have events, until the limit, or until a signal arrives.
    /// Returns whether there may be events. The event queue is the one of [`new`](Self::new).
    ///
    /// # Panics
    /// Panics if the kernel refuses to wait.
    pub(super) fn wait(&self, event_queue: &mio::Poll, limit: Option<WaitLimit>) -> bool {
        let deadline = limit.map(|limit| self.start.to_monotonic(limit.deadline));
        match self.enter(event_queue, deadline) {
            Err(error) if !is_timeout_or_signal(&error) => {
                panic!("the kernel refused to wait for events: {error}")
            }
            _ => {}
        }
        let summary = self.take_completions();
        if let Some(error) = summary.failure {
            panic!("the kernel refused to watch for events: {error}");
        }
        summary.has_completions
    }

    /// Submits the request unless it is active, and waits for a completion or until `deadline` by
    /// the kernel's clock, all in one system call.
    fn enter(&self, event_queue: &mio::Poll, deadline: Option<Duration>) -> io::Result<()> {
        let to_submit = if self.is_polling.replace(true) { 0 } else { self.submit(event_queue) };
        let time = deadline.map(KernelTimespec::from);
        // The kernel reads the time through a number, so its provenance is exposed.
        let address = time.as_ref().map_or(0, |time| std::ptr::from_ref(time).expose_provenance());
        let timespec = address as u64;
        let arguments = WaitArguments { sigmask: 0, sigmask_size: 0, min_wait_us: 0, timespec };
        let flags =
            GET_EVENTS | EXTENDED_ARGUMENTS | if time.is_some() { ABSOLUTE_TIMER } else { 0 };
        // SAFETY: the descriptor is open as long as `self`. The arguments, and the time that they
        // point to, are local variables of the stated size, are only read, and outlive the call.
        // The submitted request is the poll of `submit`, which refers to no memory. Its descriptor
        // is open during the call, and the kernel keeps a reference of its own to the file.
        let result = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                libc::c_long::from(self.descriptor.as_raw_fd()),
                libc::c_long::from(to_submit),
                1 as libc::c_long,
                libc::c_long::from(flags as i32),
                &raw const arguments,
                size_of::<WaitArguments>(),
            )
        };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Puts the request into the submission ring. Returns the number of requests to submit.
    fn submit(&self, event_queue: &mio::Poll) -> u8 {
        let request = SubmissionEntry {
            opcode: POLL_ADD,
            descriptor: event_queue.as_raw_fd(),
            length: MULTISHOT,
            // On a big-endian machine, the kernel expects the half words in reverse order.
            events: if cfg!(target_endian = "big") {
                (libc::POLLIN as u32) << 16
            } else {
                libc::POLLIN as u32
            },
            ..SubmissionEntry::default()
        };
        // SAFETY: the entry is in the mapping and is aligned, as `pointer_to` has checked, and the
        // kernel reads it only within the call that submits it, which comes after this.
        unsafe { self.entries.pointer_to::<SubmissionEntry>(0).write(request) };
        let tail = self.rings.word(self.submission_tail);
        tail.store(tail.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        1
    }

    /// Takes all completions.
    fn take_completions(&self) -> CompletionSummary {
        let head = self.rings.word(self.completion_head);
        let tail = self.rings.word(self.completion_tail);
        let mut summary = CompletionSummary { has_completions: false, failure: None };
        let mut position = head.load(Ordering::Relaxed);
        let end = tail.load(Ordering::Acquire);
        while position != end {
            let offset = self.completions as usize
                + (position & self.completion_mask) as usize * size_of::<CompletionEntry>();
            // SAFETY: the kernel wrote this entry before it moved the tail past it, and does not
            // touch it before the head is moved; the entry is in the mapping and is aligned, as
            // `pointer_to` has checked.
            let entry = unsafe { self.rings.pointer_to::<CompletionEntry>(offset).read() };
            summary.has_completions = true;
            if entry.flags & MORE == 0 {
                // The next wait submits the request again, which then completes for all events.
                self.is_polling.set(false);
            }
            if entry.result < 0 && entry.result != -libc::ECANCELED {
                summary.failure = Some(io::Error::from_raw_os_error(-entry.result));
            }
            position = position.wrapping_add(1);
        }
        head.store(position, Ordering::Release);
        summary
    }
}

struct CompletionSummary {
    has_completions: bool,
    failure: Option<io::Error>,
}

/// Creates the ring. The kernel fills `params`.
fn set_up_ring(params: &mut SetupParams) -> io::Result<OwnedFd> {
    // SAFETY: the pointer is to a whole `io_uring_params`, which the call fills and does not keep.
    let result = unsafe {
        libc::syscall(libc::SYS_io_uring_setup, 2 as libc::c_long, std::ptr::from_mut(params))
    };
    let created = RawFd::try_from(result).ok().filter(|fd| *fd >= 0);
    let descriptor = created.ok_or_else(io::Error::last_os_error)?;
    // SAFETY: the call has just created this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Returns whether `CLOCK_MONOTONIC` of this process has an offset to that of the kernel, by its time
/// namespace. The kernel does not apply the offset to the deadline of a ring.
fn is_clock_shifted() -> bool {
    // A kernel without time namespaces has no such file.
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let mut monotonic = offsets.lines().filter_map(|line| line.strip_prefix("monotonic"));
    monotonic.any(|offset| offset.split_whitespace().any(|number| number != "0"))
}

/// Returns whether a wait ended because of its limit or a signal, which are no failures.
fn is_timeout_or_signal(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR))
}

/// A time by two clocks, such that a wait is never early.
///
/// The pair is not `tach::read_paired`, which returns the most probable pair: a wait may be late, but
/// never early, so this is an upper bound. The crate also has no dependency on `tach`.
#[derive(Debug)]
struct ClockReading {
    instant: Instant,
    /// An upper bound of `CLOCK_MONOTONIC` at `instant`.
    monotonic: Duration,
}

impl ClockReading {
    /// Reads both clocks several times, `CLOCK_MONOTONIC` after `Instant`. Each pair gives an upper
    /// bound, and the least one is returned.
    fn read() -> io::Result<Self> {
        const READINGS: usize = 16;
        let instant = now();
        let mut monotonic = Duration::MAX;
        for _ in 0..READINGS {
            let since = now().duration_since(instant);
            let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
            let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
            let nanoseconds = u32::try_from(time.tv_nsec).map_err(io::Error::other)?;
            let time = Duration::new(seconds, nanoseconds);
            monotonic = monotonic.min(time.saturating_sub(since));
        }
        Ok(Self { instant, monotonic })
    }

    fn to_monotonic(&self, instant: Instant) -> Duration {
        self.monotonic + instant.saturating_duration_since(self.instant)
    }
}

/// Memory that the kernel shares with a ring.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(ring: &OwnedFd, length: usize, offset: libc::off_t) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                offset,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }

    /// Returns a word that the kernel also reads and writes.
    fn word(&self, offset: u32) -> &AtomicU32 {
        // SAFETY: the word is in the mapping and is aligned, as `pointer_to` has checked; it lives
        // as long as `self`; and the kernel accesses it as one word, as this program does.
        unsafe { self.pointer_to::<AtomicU32>(offset as usize).as_ref() }
    }

    /// Returns a pointer to a value at an offset that the kernel stated.
    ///
    /// # Panics
    /// Panics if the value is not in the mapping or is not aligned. The start of the mapping is
    /// aligned to a page.
    fn pointer_to<T>(&self, offset: usize) -> NonNull<T> {
        let is_aligned = offset.is_multiple_of(align_of::<T>());
        let is_within = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.length);
        assert!(is_aligned && is_within, "the kernel stated a value outside of the mapping");
        // SAFETY: the offset is in the mapping, which is one allocation.
        unsafe { self.start.add(offset).cast() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more. The result
        // is ignored, since a mapping that cannot be unmapped has no remedy.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
