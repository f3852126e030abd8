//! Statistics of a single thread on Linux. They are read often, so reading is cheap.

use std::fs::File;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use files::why::Reading;
use rustix::time::ClockId;

use crate::machine::cgroup;
use crate::machine::os::imp::clock_ns;
use crate::machine::os::not_available::NotAvailable;
use crate::machine::os::types::ThreadTimes;

/// File of the calling thread. Reading that of the process takes a lock of the process.
const SCHEDSTAT_FILE: &str = "/proc/thread-self/schedstat";

/// Open files with statistics of a thread.
#[derive(Debug)]
pub struct ThreadStats {
    schedstat: Option<File>,
    throttled: Vec<File>,
}

impl ThreadStats {
    /// Opens the statistics of the calling thread, and those of control groups with a quota.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel does not report how long the thread waits for a CPU.
    pub fn for_current_thread(quotas: &[Quota]) -> Result<Self, NotAvailable> {
        let needs = "/proc, and a kernel with CONFIG_SCHED_INFO";
        let schedstat = File::open(SCHEDSTAT_FILE)
            .map_err(|error| NotAvailable::new(SCHEDSTAT_FILE, error, needs))?;
        let throttled =
            quotas.iter().filter_map(|quota| File::open(&quota.stat_file).ok()).collect();
        Ok(Self { schedstat: Some(schedstat), throttled })
    }

    /// Creates statistics without the files, which contain only the CPU time and page faults.
    pub fn without_files() -> Self {
        Self { schedstat: None, throttled: Vec::new() }
    }

    /// Returns the CPU time of the thread and the time for which it waited for a CPU. Any thread
    /// can call this.
    pub fn times(&self) -> Option<ThreadTimes> {
        self.schedstat.as_ref().and_then(read_schedstat)
    }

    /// Reads the statistics. Only the thread itself can call this, and it does not allocate.
    pub fn read(&self) -> Reading {
        let mut usage = MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the pointer is to a whole `rusage` of ours, which the call fills and does not
        // keep.
        let counted = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } == 0;
        // SAFETY: all-zero is a valid `rusage`, and the call fills it or leaves it alone.
        let usage = unsafe { usage.assume_init() };
        Reading {
            delay_ns: self.times().map(|times| times.run_queue_ns),
            cpu_ns: clock_ns(ClockId::ThreadCPUTime).ok(),
            minor_faults: u64::try_from(usage.ru_minflt).ok().filter(|_| counted),
            throttled: self.throttled(),
        }
    }

    /// Returns the number of periods in which the control groups were throttled.
    pub fn throttled(&self) -> Option<u64> {
        let mut numbers =
            self.throttled.iter().map(|file| read_number_after(file, b"nr_throttled "));
        numbers.try_fold(0, |sum, number| Some(sum + number?))
    }
}

/// Reads the first two numbers of `schedstat`.
fn read_schedstat(file: &File) -> Option<ThreadTimes> {
    let mut bytes = [0; 96];
    let n = file.read_at(&mut bytes, 0).ok()?;
    let mut numbers = bytes[..n]
        .split(|&b| b == b' ')
        .map(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    Some(ThreadTimes { cpu_ns: numbers.next()??, run_queue_ns: numbers.next()?? })
}

/// Reads the number that follows a name at the start of a line.
fn read_number_after(file: &File, name: &[u8]) -> Option<u64> {
    let mut bytes = [0; 1024];
    let n = file.read_at(&mut bytes, 0).ok()?;
    let digits = bytes[..n].split(|&b| b == b'\n').find_map(|line| line.strip_prefix(name))?;
    std::str::from_utf8(digits).ok()?.trim().parse().ok()
}

/// A control group with a CPU quota.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    stat_file: PathBuf,
    /// Period of the quota.
    pub period_ns: u64,
}

/// Returns the group of this process and the groups above it, as far as they have a quota.
pub fn quotas() -> Vec<Quota> {
    cgroup::quotas(Path::new("/")).into_iter().map(Quota::from).collect()
}

impl From<cgroup::CpuQuota> for Quota {
    fn from(quota: cgroup::CpuQuota) -> Self {
        Self {
            stat_file: quota.file.with_file_name("cpu.stat"),
            period_ns: (quota.period_us * 1e3) as u64,
        }
    }
}

/// Reads `CLOCK_MONOTONIC` in nanoseconds.
pub(super) fn monotonic_ns() -> Option<u64> {
    clock_ns(ClockId::Monotonic).ok()
}

/// Measures the cost of a page fault: the lowest of several measurements, since the thread may be
/// interrupted during one.
pub fn fault_ns() -> Option<u64> {
    const MEASUREMENTS: usize = 6;
    (0..MEASUREMENTS).filter_map(|_| new_page_ns()).min()
}

/// Touches new memory page by page, without huge pages. Returns the time per page.
fn new_page_ns() -> Option<u64> {
    const BYTES: usize = 1 << 20;
    // SAFETY: no address is asked for, so that no mapping is replaced; the result is checked.
    let memory = unsafe {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        libc::mmap(std::ptr::null_mut(), BYTES, access, kind, -1, 0)
    };
    if memory == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: the mapping is ours and of that length.
    unsafe { libc::madvise(memory, BYTES, libc::MADV_NOHUGEPAGE) };
    let page = page_size();
    let started = monotonic_ns();
    for at in (0..BYTES).step_by(page) {
        // SAFETY: `at` is within the mapping, which is writable; volatile, so that the touch is
        // not left out.
        unsafe { memory.cast::<u8>().add(at).write_volatile(1) };
    }
    let ended = monotonic_ns();
    // SAFETY: the mapping is ours, and no reference into it was made.
    unsafe { libc::munmap(memory, BYTES) };
    Some(ended?.checked_sub(started?)? / (BYTES / page) as u64)
}

pub(super) fn page_size() -> usize {
    rustix::param::page_size()
}

/// Times at which the process was last continued after a stop: a ring of the latest ones.
static CONTINUED: [AtomicU64; 64] = [const { AtomicU64::new(0) }; 64];
/// Number of times that the process was continued.
static CONTINUED_COUNT: AtomicUsize = AtomicUsize::new(0);

extern "C" fn record_continue(_: libc::c_int) {
    // A signal handler may only use system calls that are safe in one, and atomic stores.
    if let Some(now_ns) = monotonic_ns() {
        let count = CONTINUED_COUNT.fetch_add(1, Ordering::Relaxed);
        CONTINUED[count % CONTINUED.len()].store(now_ns, Ordering::Relaxed);
    }
}

/// Installs a signal handler that records when this process is continued after a stop.
pub fn install_stop_handler() {
    // The first reading finds the clock's function, which a signal handler must not do.
    monotonic_ns();
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: all-zero is a valid `sigaction`: no flags and an empty mask.
    let action = unsafe { action.assume_init_mut() };
    action.sa_sigaction = record_continue as extern "C" fn(libc::c_int) as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the handler is a function of the right signature that lives as long as the process,
    // and does only what is safe in one; the old action is not asked for.
    unsafe { libc::sigaction(libc::SIGCONT, action, std::ptr::null_mut()) };
}

/// Returns the latest 64 times at which the process was continued, by `CLOCK_MONOTONIC`.
pub fn continued_ns() -> Vec<u64> {
    let count = CONTINUED_COUNT.load(Ordering::Relaxed).min(CONTINUED.len());
    CONTINUED[..count].iter().map(|at| at.load(Ordering::Relaxed)).collect()
}

/// Returns the number of the calling thread in the system.
pub fn thread_id() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Returns the name of a thread of any process.
pub fn thread_name(thread: u32) -> Option<String> {
    if thread == 0 {
        return Some("an idle CPU".to_owned());
    }
    let name = std::fs::read(format!("/proc/{thread}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_monotonic() {
        let stats = ThreadStats::for_current_thread(&quotas()).expect("Linux has /proc");
        let first = stats.read();
        let page = vec![1_u8; 1 << 20];
        std::hint::black_box(&page);
        let spun = (0..200_000_u64).fold(0, |sum, n| std::hint::black_box(sum ^ n));
        std::hint::black_box(spun);
        let second = stats.read();
        assert!(first.delay_ns <= second.delay_ns && first.delay_ns.is_some());
        assert!(first.cpu_ns < second.cpu_ns && first.cpu_ns.is_some());
        assert!(first.minor_faults <= second.minor_faults && first.minor_faults.is_some());
        assert!(fault_ns().is_some_and(|ns| ns > 0));
        let without = ThreadStats::without_files().read();
        assert!(without.delay_ns.is_none() && without.cpu_ns > second.cpu_ns);
    }

    #[test]
    fn continues_are_recorded() {
        install_stop_handler();
        let before = monotonic_ns();
        // SAFETY: the signal goes to this process alone; without a stop before it, only the handler
        // runs.
        unsafe { libc::raise(libc::SIGCONT) };
        let stamped = continued_ns().into_iter().max();
        assert!(before <= stamped && stamped <= monotonic_ns());
    }
}
