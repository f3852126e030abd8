//! System calls that std does not have: files by their name in an open directory, locks, limits,
//! and the process's user, clocks and usage.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

/// Opens a file of a directory. Follows no link and never blocks. `mode` is that of a new file, if
/// `flags` create one.
pub(crate) fn open_at(
    directory: &File,
    name: &OsStr,
    flags: libc::c_int,
    mode: libc::c_uint,
) -> io::Result<File> {
    let name = file_name(name)?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the name is a string that ends with a zero byte and lives longer than the call; the
    // descriptor is open.
    let opened = unsafe { libc::openat(directory.as_raw_fd(), name.as_ptr(), flags, mode) };
    check(opened)?;
    // SAFETY: the call returned a new descriptor, which nothing else owns.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(opened) }))
}

/// Removes a file from a directory.
pub(crate) fn unlink_at(directory: &File, name: &OsStr) -> io::Result<()> {
    let name = file_name(name)?;
    // SAFETY: as in `open_at`.
    check(unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), 0) })
}

/// Gives a file a second name in its directory. Fails if that name is taken.
pub(crate) fn link_at(directory: &File, name: &OsStr, second: &OsStr) -> io::Result<()> {
    let (name, second) = (file_name(name)?, file_name(second)?);
    let directory = directory.as_raw_fd();
    // SAFETY: as in `open_at`, for both names.
    check(unsafe { libc::linkat(directory, name.as_ptr(), directory, second.as_ptr(), 0) })
}

/// Renames a file within its directory. Replaces a file that has the new name.
pub(crate) fn rename_at(directory: &File, name: &OsStr, new: &OsStr) -> io::Result<()> {
    let (name, new) = (file_name(name)?, file_name(new)?);
    let directory = directory.as_raw_fd();
    // SAFETY: as in `open_at`, for both names.
    check(unsafe { libc::renameat(directory, name.as_ptr(), directory, new.as_ptr()) })
}

/// Converts the name of a file. A path of several parts could lead out of its directory.
fn file_name(name: &OsStr) -> io::Result<CString> {
    if name.as_bytes().contains(&b'/') || matches!(name.as_bytes(), b"" | b"." | b"..") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(CString::new(name.as_bytes())?)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks a file exclusively, until it is closed or the process ends. Never blocks.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    flock(file, libc::LOCK_EX | libc::LOCK_NB)
}

/// Whether a process holds the lock of [`lock`].
pub(crate) fn is_locked(file: &File) -> bool {
    match flock(file, libc::LOCK_SH | libc::LOCK_NB) {
        Ok(()) => {
            let _ = flock(file, libc::LOCK_UN);
            false
        }
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    // SAFETY: takes no memory; the descriptor is open.
    check(unsafe { libc::flock(file.as_raw_fd(), operation) })
}

/// Checks that this process may write a file of so many bytes. By default, a write beyond its limit
/// ends the process by a signal.
///
/// # Errors
/// Returns an error if the file would be too large.
pub(crate) fn check_file_size(bytes: usize) -> io::Result<()> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is to a whole `rlimit` of ours, which the call fills and does not keep.
    let is_known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    #[allow(clippy::unnecessary_cast, reason = "the width differs from system to system")]
    let is_exceeded = limit.rlim_cur != libc::RLIM_INFINITY && bytes as u64 > limit.rlim_cur as u64;
    if is_known && is_exceeded { Err(io::Error::from_raw_os_error(libc::EFBIG)) } else { Ok(()) }
}

/// Returns the kernel's monotonic clock, in nanoseconds.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic_ns() -> Option<u64> {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns a clock in nanoseconds.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a whole `timespec` of ours, which the call fills and does not keep.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) } == 0;
    let ns = u64::try_from(time.tv_sec)
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(time.tv_nsec).ok()?)?;
    read.then_some(ns)
}

/// Resources that this process has used so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessUsage {
    /// CPU time of all threads.
    pub(crate) cpu_ns: u64,
    /// Context switches by waiting.
    pub(crate) switches_voluntary: u64,
    /// Context switches by being preempted.
    pub(crate) switches_involuntary: u64,
}

/// Returns the resources that this process has used so far.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    let usage = resource_usage(libc::RUSAGE_SELF)?;
    Some(ProcessUsage {
        // `rusage` has only microseconds.
        cpu_ns: clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)?,
        switches_voluntary: u64::try_from(usage.ru_nvcsw).ok()?,
        switches_involuntary: u64::try_from(usage.ru_nivcsw).ok()?,
    })
}

/// The usage is not available on other systems.
#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple")))]
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    None
}

/// Returns whether this process has never had a child, as far as the system can tell.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
pub(crate) fn has_no_children() -> bool {
    // A child that was waited for had some memory.
    let had_children =
        resource_usage(libc::RUSAGE_CHILDREN).is_none_or(|usage| usage.ru_maxrss > 0);
    let mut found = std::mem::MaybeUninit::<libc::siginfo_t>::zeroed();
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: the pointer is to a whole `siginfo_t` of ours, which the call may fill and does not
    // keep. With `WNOWAIT`, it leaves a child to be waited for by the program.
    let result = unsafe { libc::waitid(libc::P_ALL, 0, found.as_mut_ptr(), options) };
    let has_none = result != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
    has_none && !had_children
}

/// Children are not looked for on systems without the usage.
#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple")))]
pub(crate) fn has_no_children() -> bool {
    false
}

#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
fn resource_usage(who: libc::c_int) -> Option<libc::rusage> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage` of ours, which the call fills and does not keep.
    let read = unsafe { libc::getrusage(who, usage.as_mut_ptr()) } == 0;
    // SAFETY: all-zero is a valid `rusage`, and the call fills it or leaves it alone.
    read.then_some(unsafe { usage.assume_init() })
}

/// Returns the effective user id of this process.
pub(crate) fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        for name in ["", ".", "..", "/etc/passwd", "a/b", "a\0b"] {
            let error = file_name(OsStr::new(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(file_name(OsStr::new("1.tickmeter")).is_ok());
    }
}
