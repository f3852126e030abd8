//! Linux: a ring whose wait has the deadline in it, and a request that completes whenever the event
//! queue has events.
//!
//! The request is a poll of the event queue's own descriptor, which fires again and again
//! ("multishot"). It completes when something new comes, and says nothing of what was there before:
//! so events are taken after the completions, and all of them. `unsafe` is in the calls into the
//! kernel and in the memory that the kernel shares with its rings.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::clock::now;

/// `io_sqring_offsets` and `io_cqring_offsets` have the same size; the names are those of the
/// fields that are used.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Offsets {
    head: u32,
    tail: u32,
    mask: u32,
    entries: u32,
    flags_or_overflow: u32,
    dropped_or_entries_at: u32,
    array_or_flags: u32,
    reserved: u32,
    address: u64,
}

/// `io_uring_params`.
#[repr(C)]
#[derive(Default)]
struct Params {
    submissions: u32,
    completions: u32,
    flags: u32,
    poller_cpu: u32,
    poller_idle: u32,
    features: u32,
    workers_of: u32,
    reserved: [u32; 3],
    submission: Offsets,
    completion: Offsets,
}

/// `io_uring_sqe`, as far as a poll uses it.
#[repr(C)]
#[derive(Default)]
struct Request {
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
struct Completion {
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
    until: u64,
}

/// `__kernel_timespec`: 64 bits on every architecture.
#[repr(C)]
struct KernelTime {
    seconds: i64,
    nanoseconds: i64,
}

/// Completions are made by the thread that waits, when it waits: nobody interrupts it for them.
/// Both since Linux 6.1.
const SINGLE_ISSUER: u32 = 1 << 12;
const DEFER_TASK_WORK: u32 = 1 << 13;
/// Both rings are in one mapping, since Linux 5.4.
const SINGLE_MAPPING: u32 = 1 << 0;
const SUBMISSIONS_AT: libc::off_t = 0;
const REQUESTS_AT: libc::off_t = 0x1000_0000;
const POLL_ADD: u8 = 6;
const MULTISHOT: u32 = 1 << 0;
/// Of a completion: more will come of its request.
const MORE: u32 = 1 << 1;
const GET_EVENTS: u32 = 1 << 0;
const EXTENDED_ARGUMENTS: u32 = 1 << 3;
/// Since Linux 6.12; by `CLOCK_MONOTONIC`.
const ABSOLUTE_TIMER: u32 = 1 << 5;

#[derive(Debug)]
pub(super) struct Ring {
    descriptor: OwnedFd,
    events: RawFd,
    rings: Mapping,
    requests: Mapping,
    submission_tail: u32,
    completion_head: u32,
    completion_tail: u32,
    completion_mask: u32,
    completions: u32,
    /// The request is out, and will complete with the next event.
    polls: Cell<bool>,
    /// One moment by both clocks; the kernel's is no earlier than that.
    instant: Instant,
    kernel: Duration,
}

impl Ring {
    /// Watches the event queue, which must outlive it.
    ///
    /// # Errors
    /// No ring can be had, or its wait takes no absolute deadline: this kernel is older than 6.12.
    pub(super) fn new(poll: &mio::Poll) -> io::Result<Self> {
        let mut params = Params { flags: SINGLE_ISSUER | DEFER_TASK_WORK, ..Params::default() };
        // SAFETY: the pointer is to a whole `io_uring_params` of ours, which the call fills and
        // does not keep.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_setup, 2 as libc::c_long, &raw mut params) };
        let descriptor = RawFd::try_from(result)
            .ok()
            .filter(|fd| *fd >= 0)
            .ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the call has just made this descriptor, which nobody else has.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        if params.features & SINGLE_MAPPING == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let (submission, completion) = (&params.submission, &params.completion);
        let end = |at: u32, entries: u32, size: usize| at as usize + entries as usize * size;
        // The array of a completion ring stands where a submission ring counts what it dropped.
        let completions = completion.dropped_or_entries_at;
        let length = end(submission.array_or_flags, params.submissions, size_of::<u32>()).max(end(
            completions,
            params.completions,
            size_of::<Completion>(),
        ));
        let rings = Mapping::new(&descriptor, length, SUBMISSIONS_AT)?;
        let requests = Mapping::new(
            &descriptor,
            params.submissions as usize * size_of::<Request>(),
            REQUESTS_AT,
        )?;
        // The one request stands in slot 0, for every place in the submission ring.
        for place in 0..params.submissions {
            rings.word(submission.array_or_flags + place * 4).store(0, Ordering::Relaxed);
        }
        let (instant, kernel) = both_clocks()?;
        let ring = Self {
            descriptor,
            events: poll.as_raw_fd(),
            submission_tail: submission.tail,
            completion_head: completion.head,
            completion_tail: completion.tail,
            completion_mask: rings.word(completion.mask).load(Ordering::Relaxed),
            completions,
            rings,
            requests,
            polls: Cell::new(false),
            instant,
            kernel,
        };
        // A wait that is over before it begins shows whether the kernel knows such waits; it
        // submits the request, too.
        match ring.enter(Some(Duration::from_nanos(1))) {
            Err(error) if !is_no_failure(&error) => return Err(error),
            _ => {}
        }
        // One that failed at once will never complete: the kernel cannot poll what this is.
        match ring.take() {
            Taken { failed: Some(error), .. } => Err(error),
            _ => Ok(ring),
        }
    }

    /// Waits until there may be events, or the limit is reached: whether there may be. Returns
    /// early for a signal.
    ///
    /// # Panics
    /// If the kernel refuses to wait.
    pub(super) fn wait(&self, limit: Option<(Instant, Duration)>) -> bool {
        let until =
            limit.map(|(until, _)| self.kernel + until.saturating_duration_since(self.instant));
        match self.enter(until) {
            Err(error) if !is_no_failure(&error) => {
                panic!("the kernel refused to wait for events: {error}")
            }
            _ => {}
        }
        let taken = self.take();
        if let Some(error) = taken.failed {
            panic!("the kernel refused to watch for events: {error}");
        }
        taken.any
    }

    /// One call: submits the request where it is not out, and waits for a completion, or until then
    /// by the kernel's clock.
    fn enter(&self, until: Option<Duration>) -> io::Result<()> {
        let to_submit = if self.polls.replace(true) { 0 } else { self.submit() };
        let time = until.map(|until| KernelTime {
            seconds: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
            nanoseconds: until.subsec_nanos().into(),
        });
        let until = time.as_ref().map_or(0, |time| std::ptr::from_ref(time) as usize as u64);
        let arguments = WaitArguments { sigmask: 0, sigmask_size: 0, min_wait_us: 0, until };
        let flags =
            GET_EVENTS | EXTENDED_ARGUMENTS | if time.is_some() { ABSOLUTE_TIMER } else { 0 };
        // SAFETY: the descriptor is open as long as `self`. The arguments, and the time that they
        // point to, are ours, of the stated size, only read, and outlive the call. What is
        // submitted is the poll of `submit`, which names no memory.
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

    /// Puts the request into the submission ring.
    fn submit(&self) -> u8 {
        let request = Request {
            opcode: POLL_ADD,
            descriptor: self.events,
            length: MULTISHOT,
            // As the kernel has them: the half words of a big-endian machine are the other way
            // round.
            events: if cfg!(target_endian = "big") {
                (libc::POLLIN as u32) << 16
            } else {
                libc::POLLIN as u32
            },
            ..Request::default()
        };
        // SAFETY: slot 0 lies in the mapping, is aligned as its pages are, and the kernel reads it
        // only within the call that submits it, which comes after this.
        unsafe { self.requests.start.cast::<Request>().write(request) };
        let tail = self.rings.word(self.submission_tail);
        tail.store(tail.load(Ordering::Relaxed).wrapping_add(1), Ordering::Release);
        1
    }

    /// Takes the completions there are.
    fn take(&self) -> Taken {
        let (head, tail) =
            (self.rings.word(self.completion_head), self.rings.word(self.completion_tail));
        let mut taken = Taken { any: false, failed: None };
        let mut at = head.load(Ordering::Relaxed);
        let end = tail.load(Ordering::Acquire);
        while at != end {
            let place = self.completions as usize
                + (at & self.completion_mask) as usize * size_of::<Completion>();
            // SAFETY: the kernel wrote this entry before it moved the tail past it, and does not
            // touch it before the head is; the place lies in the mapping by the offset and the mask
            // that the kernel stated.
            let completion = unsafe { self.rings.start.add(place).cast::<Completion>().read() };
            taken.any = true;
            if completion.flags & MORE == 0 {
                // It is submitted again with the next wait, and then completes for what there is.
                self.polls.set(false);
            }
            if completion.result < 0 && completion.result != -libc::ECANCELED {
                taken.failed = Some(io::Error::from_raw_os_error(-completion.result));
            }
            at = at.wrapping_add(1);
        }
        head.store(at, Ordering::Release);
        taken
    }
}

struct Taken {
    any: bool,
    failed: Option<io::Error>,
}

/// The limit was reached, or a signal came.
fn is_no_failure(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR))
}

/// One moment by `Instant` and by `CLOCK_MONOTONIC`, which is read no earlier: what is waited for
/// is never early.
fn both_clocks() -> io::Result<(Instant, Duration)> {
    const PAIRS: usize = 16;
    let mut best: Option<(Duration, (Instant, Duration))> = None;
    for _ in 0..PAIRS {
        let before = now();
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let bracket = now().duration_since(before);
        let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
        let nanoseconds = u32::try_from(time.tv_nsec).map_err(io::Error::other)?;
        if best.as_ref().is_none_or(|(tightest, _)| bracket < *tightest) {
            best = Some((bracket, (before, Duration::new(seconds, nanoseconds))));
        }
    }
    best.map(|(_, pair)| pair).ok_or_else(|| io::ErrorKind::Other.into())
}

/// Memory that the kernel shares with a ring.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(ring: &OwnedFd, length: usize, at: libc::off_t) -> io::Result<Self> {
        // SAFETY: a fresh mapping at an address that the kernel chooses touches no memory of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                ring.as_raw_fd(),
                at,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(io::Error::last_os_error)?;
        Ok(Self { start, length })
    }

    /// A word that the kernel reads and writes, too.
    fn word(&self, at: u32) -> &AtomicU32 {
        let at = at as usize;
        assert!(
            at.is_multiple_of(4) && at + 4 <= self.length,
            "the kernel states where its words are"
        );
        // SAFETY: the word lies in the mapping and is aligned, as was just checked; it lives as
        // long as `self`; and the kernel accesses it as one word, as this program does.
        unsafe { self.start.add(at).cast::<AtomicU32>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing borrows from it any more. That it
        // cannot be unmapped would be a bug that nobody could do anything about.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
    }
}
