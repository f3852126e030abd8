//! System calls that std does not have: files by their name in an open directory, locks, limits,
//! and the process's user, clocks and usage.
//!
//! They are made through `rustix`, except for two of `libc`: `getrusage`, which `rustix` does not
//! have, and `getrlimit`, with which `rustix` panics if a sandbox denies the call.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Opens a file of a directory. Follows no link and never blocks. `mode` is that of a new file, if
/// `flags` create one.
pub(crate) fn open_at(
    directory: &File,
    name: &OsStr,
    flags: OFlags,
    mode: Mode,
) -> io::Result<File> {
    check_name(name)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::openat(directory, name, flags, mode)?))
}

/// Returns the names of all entries of a directory, up to the first that cannot be read.
pub(crate) fn list_names(directory: &File) -> io::Result<Vec<OsString>> {
    let entries = rustix::fs::Dir::read_from(directory)?.map_while(Result::ok);
    Ok(entries.map(|entry| OsString::from_vec(entry.file_name().to_bytes().to_vec())).collect())
}

/// Removes a file from a directory.
pub(crate) fn unlink_at(directory: &File, name: &OsStr) -> io::Result<()> {
    check_name(name)?;
    Ok(rustix::fs::unlinkat(directory, name, AtFlags::empty())?)
}

/// Gives a file a second name in its directory. Fails if that name is taken.
pub(crate) fn link_at(directory: &File, name: &OsStr, second: &OsStr) -> io::Result<()> {
    check_name(name)?;
    check_name(second)?;
    Ok(rustix::fs::linkat(directory, name, directory, second, AtFlags::empty())?)
}

/// Renames a file within its directory. Replaces a file that has the new name.
pub(crate) fn rename_at(directory: &File, name: &OsStr, new: &OsStr) -> io::Result<()> {
    check_name(name)?;
    check_name(new)?;
    Ok(rustix::fs::renameat(directory, name, directory, new)?)
}

/// Renames a file within its directory. Fails if the new name is taken, and if the file system or the
/// system has no such call.
pub(crate) fn rename_to_free_at(directory: &File, name: &OsStr, new: &OsStr) -> io::Result<()> {
    check_name(name)?;
    check_name(new)?;
    #[cfg(target_os = "linux")]
    {
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        Ok(rustix::fs::renameat_with(directory, name, directory, new, flags)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = directory;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Allocates the first `bytes` bytes of a file. Fails if the file system or the system has no such
/// call.
pub(crate) fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    return Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes)?);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (file, bytes);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Checks the name of a file. A path of several parts could lead out of its directory.
fn check_name(name: &OsStr) -> io::Result<()> {
    let bytes = name.as_bytes();
    if bytes.contains(&b'/') || bytes.contains(&0) || matches!(bytes, b"" | b"." | b"..") {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(())
}

/// Locks a file exclusively, until it is closed or the process ends. Never blocks.
pub(crate) fn lock(file: &File) -> io::Result<()> {
    Ok(rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive)?)
}

/// Returns whether a process holds the lock of [`lock`].
pub(crate) fn is_locked(file: &File) -> bool {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            let _ = rustix::fs::flock(file, FlockOperation::Unlock);
            false
        }
        Err(error) => error == Errno::WOULDBLOCK,
    }
}

/// Checks that this process may write a file of `bytes` bytes. By default, a write beyond its limit
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
    if is_known && is_exceeded { Err(Errno::FBIG.into()) } else { Ok(()) }
}

/// Returns the kernel's monotonic clock, in nanoseconds.
#[cfg(target_os = "linux")]
pub(crate) fn monotonic_ns() -> Option<u64> {
    clock_ns(rustix::time::ClockId::Monotonic)
}

/// Returns a clock in nanoseconds; `None` if a sandbox denies the call.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
fn clock_ns(clock: rustix::time::ClockId) -> Option<u64> {
    let clock = rustix::time::DynamicClockId::Known(clock);
    let time = rustix::time::clock_gettime_dynamic(clock).ok()?;
    u64::try_from(time.tv_sec)
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(u64::try_from(time.tv_nsec).ok()?)
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
        cpu_ns: clock_ns(rustix::time::ClockId::ProcessCPUTime)?,
        switches_voluntary: u64::try_from(usage.ru_nvcsw).ok()?,
        switches_involuntary: u64::try_from(usage.ru_nivcsw).ok()?,
    })
}

/// Returns `None`: the usage is not available on other systems.
#[cfg(not(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple")))]
pub(crate) fn process_usage() -> Option<ProcessUsage> {
    None
}

/// Returns whether this process has never had a child, as far as the system reports.
#[cfg(any(target_os = "linux", target_os = "freebsd", target_vendor = "apple"))]
pub(crate) fn has_no_children() -> bool {
    use rustix::process::{WaitId, WaitIdOptions};

    // A child that was waited for had some memory.
    let had_children =
        resource_usage(libc::RUSAGE_CHILDREN).is_none_or(|usage| usage.ru_maxrss > 0);
    // `NOWAIT` leaves a child to be waited for by the program.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let has_none = matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD));
    has_none && !had_children
}

/// Returns false: children are not looked for on systems without the usage.
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
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_their_directory() {
        for name in ["", ".", "..", "/etc/passwd", "a/b", "a\0b"] {
            let error = check_name(OsStr::new(name)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{name:?}");
        }
        assert!(check_name(OsStr::new("1.tickmeter")).is_ok());
    }
}
