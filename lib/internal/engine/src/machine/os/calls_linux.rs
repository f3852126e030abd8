//! Facts about threads of other programs: the system calls in which they wait, and the CPUs that
//! they may use.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// System calls that can wait for a timer: number and kind of wait.
pub const WAITS: &[(i64, &str)] = &[
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_clock_nanosleep, "nanosleep"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll"),
    (libc::SYS_epoll_pwait, "epoll"),
    (libc::SYS_epoll_pwait2, "epoll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    (libc::SYS_ppoll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
    (libc::SYS_pselect6, "select"),
    (libc::SYS_futex, "futex"),
    // Newer than the oldest supported C library. The number is the same on all architectures.
    (449, "futex"),
    (455, "futex"),
    (libc::SYS_rt_sigtimedwait, "sigtimedwait"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_mq_timedreceive, "mq_timedreceive"),
    (libc::SYS_io_uring_enter, "io_uring"),
    (libc::SYS_restart_syscall, "restart"),
];

/// Other system calls in which threads wait.
const OTHER_CALLS: &[(i64, &str)] = &[
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_pread64, "pread"),
    (libc::SYS_write, "write"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
    (libc::SYS_rt_sigsuspend, "sigsuspend"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_io_getevents, "io_getevents"),
];

/// Returns the system call in which a thread currently waits, in the notation of manual pages.
pub fn current_call(thread: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    let number: i64 = text.split_whitespace().next()?.parse().ok()?;
    let known = WAITS.iter().chain(OTHER_CALLS).find(|(call, _)| *call == number);
    Some(match known {
        Some((_, "epoll")) => "epoll_wait(2)".to_owned(),
        Some((_, "io_uring")) => "io_uring_enter(2)".to_owned(),
        Some((_, "restart")) => "a call that a signal interrupted".to_owned(),
        Some((_, name)) => format!("{name}(2)"),
        None if number < 0 => "a page fault or a signal".to_owned(),
        None => format!("system call {number}"),
    })
}

/// Returns the threads of a process. The list is empty if the process does not exist.
///
/// # Errors
/// Returns an error if the threads cannot be listed, for example because there is no `/proc`.
pub fn process_threads(process: u32) -> io::Result<Vec<u32>> {
    let tasks = match std::fs::read_dir(format!("/proc/{process}/task")) {
        Err(e) if e.kind() == io::ErrorKind::NotFound && Path::new("/proc/self").exists() => {
            return Ok(Vec::new());
        }
        tasks => tasks?,
    };
    let mut threads: Vec<u32> =
        tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    Ok(threads)
}

/// Returns whether a process belongs to another user while this process is not root.
pub fn belongs_to_other_user(process: u32) -> bool {
    let owner = |id: &str| Some(std::fs::metadata(format!("/proc/{id}")).ok()?.uid());
    let current_user = owner("self");
    current_user != Some(0) && owner(&process.to_string()) != current_user
}

/// Returns whether a process runs a 32-bit program, whose system calls have other numbers.
pub fn is_32_bit(process: u32) -> bool {
    let mut head = [0; 5];
    let read =
        File::open(format!("/proc/{process}/exe")).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF\x01"
}

/// Returns the CPUs that a thread may use.
pub fn cpus_allowed(thread: u32) -> Vec<usize> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map_or_else(Vec::new, super::cpu_list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_numbers_are_unique() {
        let mut numbers: Vec<i64> =
            WAITS.iter().chain(OTHER_CALLS).map(|(call, _)| *call).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] != pair[1]), "{numbers:?}");
    }
}
