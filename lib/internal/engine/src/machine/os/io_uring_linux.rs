//! Sleep of a thread in `io_uring_enter` with an absolute deadline, on Linux 6.12 and later.
//!
//! Nothing is submitted, so the ring is not mapped.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::Instant;

use crate::machine::os::{clock_offsets, monotonic_pair};

/// `io_uring_params`, whose returned values are ignored.
#[repr(C)]
struct Params([u32; 30]);

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

const GET_EVENTS: u32 = 1 << 0;
const EXTENDED_ARGUMENTS: u32 = 1 << 3;
/// Flag of an absolute deadline, since Linux 6.12. The clock is `CLOCK_MONOTONIC` by default.
const ABSOLUTE_TIMER: u32 = 1 << 5;

/// Sleeps the calling thread until an instant, in `io_uring_enter`.
#[derive(Debug)]
pub struct RingSleeper {
    ring: File,
    instant: Instant,
    kernel_ns: u64,
}

impl RingSleeper {
    /// Name of the system call.
    pub const BACKEND: &'static str = "io_uring_enter, absolute";

    /// Creates a ring.
    ///
    /// # Errors
    ///
    /// Returns an error if no ring is available, or if its wait does not support an absolute
    /// deadline, because the kernel is older than 6.12 or this process is in a time namespace.
    pub fn new() -> io::Result<Self> {
        if clock_offsets().monotonic_ns != 0 {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring_enter does not know the offset of this time namespace",
            ));
        }
        let mut params = Params([0; 30]);
        // SAFETY: the pointer is to a whole `io_uring_params` of ours, which the call fills and
        // does not keep.
        let ring =
            unsafe { libc::syscall(libc::SYS_io_uring_setup, 1 as libc::c_long, &raw mut params) };
        if ring < 0 {
            return Err(explain_error(&io::Error::last_os_error()));
        }
        // SAFETY: the call has just made this descriptor, which nothing else owns.
        let ring = unsafe { File::from_raw_fd(ring as libc::c_int) };
        let (instant, kernel_ns) = monotonic_pair()?;
        let sleeper = Self { ring, instant, kernel_ns };
        // A wait until a past deadline shows whether the kernel supports absolute deadlines.
        match sleeper.wait_until_ns(1) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "io_uring_enter has absolute deadlines from Linux 6.12 on",
            )),
            Err(error) => Err(explain_error(&error)),
            Ok(()) => Ok(sleeper),
        }
    }

    /// Sleeps until `deadline`. Returns immediately if it has passed.
    pub fn sleep_until(&self, deadline: Instant) -> io::Result<()> {
        let after = deadline.saturating_duration_since(self.instant);
        self.wait_until_ns(self.kernel_ns + u64::try_from(after.as_nanos()).unwrap_or(u64::MAX / 2))
    }

    fn wait_until_ns(&self, until_ns: u64) -> io::Result<()> {
        let until = KernelTime {
            seconds: (until_ns / 1_000_000_000) as i64,
            nanoseconds: (until_ns % 1_000_000_000) as i64,
        };
        let until = (&raw const until) as usize as u64;
        let arguments = WaitArguments { sigmask: 0, sigmask_size: 0, min_wait_us: 0, until };
        let flags = GET_EVENTS | EXTENDED_ARGUMENTS | ABSOLUTE_TIMER;
        loop {
            // SAFETY: the descriptor is open as long as `self`. The arguments and the time they
            // point to are ours, of the stated size, only read, and outlive the call. Nothing is
            // submitted.
            let result = unsafe {
                libc::syscall(
                    libc::SYS_io_uring_enter,
                    self.ring.as_raw_fd() as libc::c_long,
                    0 as libc::c_long,
                    1 as libc::c_long,
                    flags as libc::c_long,
                    &raw const arguments,
                    size_of::<WaitArguments>(),
                )
            };
            let error = io::Error::last_os_error();
            match (result, error.raw_os_error()) {
                (-1, Some(libc::ETIME)) => return Ok(()),
                (-1, Some(libc::EINTR)) => {}
                (-1, _) => return Err(error),
                _ => return Err(io::Error::other("a ring without requests completed a request")),
            }
        }
    }
}

/// Explains why a ring cannot be created.
fn explain_error(error: &io::Error) -> io::Error {
    let why = match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring".to_owned(),
        Some(libc::EPERM | libc::EACCES) => {
            "io_uring is not permitted: by kernel.io_uring_disabled, or by a sandbox".to_owned()
        }
        _ => format!("io_uring: {error}"),
    };
    io::Error::new(error.kind(), why)
}
