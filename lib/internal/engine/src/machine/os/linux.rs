//! Implementation for Linux.

use std::io;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use cli::units::to_ns;
use rustix::io::Errno;
use rustix::mm::MlockAllFlags;
use rustix::process::Pid;
use rustix::thread::CpuSet;
use rustix::time::{ClockId, DynamicClockId, Timespec};

use crate::machine::cgroup;
use crate::machine::os::real_time;
use crate::machine::os::types::{Sched, TimerSteps, Usage};

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the CPU time and context switches of this process.
pub fn usage() -> Usage {
    resource_usage(libc::RUSAGE_SELF, ClockId::ProcessCPUTime)
}

/// Returns the CPU time and context switches of the calling thread.
pub fn thread_usage() -> Usage {
    resource_usage(libc::RUSAGE_THREAD, ClockId::ThreadCPUTime)
}

fn resource_usage(who: libc::c_int, cpu_clock: ClockId) -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a whole `rusage` of ours, which the call fills and does not keep.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return Usage::default();
    }
    // SAFETY: the call succeeded, and all-zero was a valid `rusage` before.
    let usage = unsafe { usage.assume_init() };
    #[allow(clippy::unnecessary_cast, reason = "the fields are narrower on 32-bit targets")]
    let ns = |t: libc::timeval| t.tv_sec as u64 * 1_000_000_000 + t.tv_usec as u64 * 1_000;
    // The clock has nanoseconds, `rusage` only microseconds.
    let cpu_ns = clock_ns(cpu_clock).unwrap_or(ns(usage.ru_utime) + ns(usage.ru_stime));
    Usage {
        cpu_ns: Some(cpu_ns),
        switches_voluntary: u64::try_from(usage.ru_nvcsw).ok(),
        switches_involuntary: u64::try_from(usage.ru_nivcsw).ok(),
    }
}

/// Returns the CPU time of the calling thread.
pub fn thread_cpu_ns() -> Option<u64> {
    clock_ns(ClockId::ThreadCPUTime).ok()
}

/// Reads a clock in nanoseconds.
///
/// # Errors
/// Returns an error if a sandbox denies the system call. `rustix::time::clock_gettime` would panic.
pub(super) fn clock_ns(clock: ClockId) -> io::Result<u64> {
    dynamic_clock_ns(DynamicClockId::Known(clock))
}

/// Reads a clock that not every kernel has, in nanoseconds.
pub(super) fn dynamic_clock_ns(clock: DynamicClockId<'_>) -> io::Result<u64> {
    let time = rustix::time::clock_gettime_dynamic(clock)?;
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the time for which the live threads of this process were runnable and waited for a CPU:
/// the second field of `schedstat`.
pub fn run_queue_ns() -> Option<u64> {
    let mut total = 0;
    for thread in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        // A thread may end between the listing and the reading.
        let Ok(text) = std::fs::read_to_string(thread.path().join("schedstat")) else { continue };
        total += queue_ns_of_schedstat(&text)?;
    }
    Some(total)
}

/// Returns the time for which the calling thread was runnable and waited for a CPU.
pub fn thread_run_queue_ns() -> Option<u64> {
    queue_ns_of_schedstat(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

fn queue_ns_of_schedstat(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// Returns the time that the hypervisor took from all CPUs, in steps of the kernel's clock tick.
pub fn steal_ns() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    let jiffies: u64 = stat.lines().next()?.split_whitespace().nth(8)?.parse().ok()?;
    Some(jiffies * (1_000_000_000 / rustix::param::clock_ticks_per_second()))
}

/// Returns the time for which the control groups of this process were stopped by a quota.
pub fn throttled_ns() -> Option<u64> {
    // Every group counts the time of its own quota only.
    static STAT_FILES: LazyLock<Vec<PathBuf>> = LazyLock::new(cpu_stat_files);
    STAT_FILES.iter().filter_map(|file| group_throttled_ns(file)).reduce(u64::saturating_add)
}

fn group_throttled_ns(stat_file: &Path) -> Option<u64> {
    let text = std::fs::read_to_string(stat_file).ok()?;
    match stat_field(&text, "throttled_usec ") {
        Some(us) => Some(us * 1_000),
        None => stat_field(&text, "throttled_time "),
    }
}

fn stat_field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

/// Returns the files with the CPU statistics of the control groups of this process.
fn cpu_stat_files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = cgroup::directories(Path::new("/"), "cpu")
        .into_iter()
        .map(|group| group.join("cpu.stat"))
        .collect();
    files.retain(|path| path.is_file());
    files.dedup();
    files
}

/// Returns the frequency of the CPU on which this thread runs.
pub fn cpu_khz() -> Option<u64> {
    let cpu = rustix::thread::sched_getcpu();
    let khz = std::fs::read_to_string(format!(
        "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq"
    ))
    .ok()?;
    khz.trim().parse().ok().filter(|&khz| khz > 0)
}

/// Returns the resolutions of the timers of the monotonic clock and of the kernel's tick.
pub fn timer_steps() -> Option<TimerSteps> {
    Some(TimerSteps {
        timer_ns: resolution_ns(libc::CLOCK_MONOTONIC)?,
        tick_ns: resolution_ns(libc::CLOCK_MONOTONIC_COARSE)?,
    })
}

// The function of rustix cannot report that a sandbox denies the system call.
#[allow(clippy::unnecessary_cast, reason = "the fields are narrower on 32-bit targets")]
fn resolution_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a `timespec` of ours, which the call fills and does not keep.
    check(unsafe { libc::clock_getres(clock, &mut time) }).ok()?;
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns the CPUs on which the calling thread may run.
pub fn affinity() -> Option<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Binds the calling thread, and the threads that it starts later, to some CPUs.
pub fn bind(cpus: &[usize]) -> io::Result<()> {
    let _ = real_time::unbound_cpus();
    bind_thread(None, cpus)
}

/// Binds a thread, or the calling one, to some CPUs.
pub fn bind_thread(thread: Option<Pid>, cpus: &[usize]) -> io::Result<()> {
    if cpus.iter().any(|&cpu| cpu >= CpuSet::MAX_CPU) {
        return Err(Errno::INVAL.into());
    }
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu);
    }
    Ok(rustix::thread::sched_setaffinity(thread, &set)?)
}

/// Returns the timer slack of the calling thread.
pub fn timer_slack_ns() -> Option<u64> {
    // `prctl` of libc and of rustix returns an `int`, which a slack of seconds exceeds.
    // SAFETY: the call takes no pointer, and ignores the arguments after the first.
    let slack_ns = unsafe { libc::syscall(libc::SYS_prctl, libc::PR_GET_TIMERSLACK, 0, 0, 0, 0) };
    u64::try_from(slack_ns).ok()
}

/// Sets the timer slack of the calling thread. Threads that it starts later inherit it.
pub fn set_timer_slack_ns(slack_ns: u64) -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(slack_ns))?)
}

/// Returns the scheduling class of the calling thread.
pub fn sched() -> Option<String> {
    let name = match policy(None)? & !libc::SCHED_RESET_ON_FORK {
        libc::SCHED_OTHER => "other",
        libc::SCHED_FIFO => "fifo",
        libc::SCHED_RR => "rr",
        libc::SCHED_BATCH => "batch",
        libc::SCHED_IDLE => "idle",
        libc::SCHED_DEADLINE => "deadline",
        _ => return None,
    };
    Some(name.to_owned())
}

/// Sets the scheduling class of the calling thread and of the threads that it starts later.
pub fn set_sched(sched: Sched) -> io::Result<()> {
    let (policy, priority) = match sched {
        Sched::Other => (libc::SCHED_OTHER, 0),
        Sched::Fifo(priority) => (libc::SCHED_FIFO, priority),
        Sched::RoundRobin(priority) => (libc::SCHED_RR, priority),
    };
    set_policy(None, policy, priority)
}

/// Returns the policy of a thread, or of the calling one, with its flag for children. The functions
/// of musl for policies return errors.
pub(super) fn policy(thread: Option<Pid>) -> Option<libc::c_int> {
    // SAFETY: the call takes no pointer; thread 0 is the calling one.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, Pid::as_raw(thread)) };
    libc::c_int::try_from(policy).ok().filter(|policy| *policy >= 0)
}

/// Sets the policy of a thread, or of the calling one. It keeps its nice value.
pub(super) fn set_policy(thread: Option<Pid>, policy: libc::c_int, priority: u8) -> io::Result<()> {
    // The `sched_param` of the kernel, which musl extends.
    let parameter = libc::c_int::from(priority);
    let (number, thread) = (libc::SYS_sched_setscheduler, Pid::as_raw(thread));
    // SAFETY: the parameter is ours and only read; thread 0 is the calling one.
    let result = unsafe { libc::syscall(number, thread, policy, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Requirements of [`set_sched`], for the message if it fails.
pub const SCHED_NEEDS: &str = "CAP_SYS_NICE, or a real-time priority limit (ulimit -r) of at least the priority; in a \
                               control group of version 1, cpu.rt_runtime_us above 0 as well";

/// Returns the memory that is available without swapping, on the machine and in the control groups
/// of this process.
pub fn available_memory() -> Option<u64> {
    let machine = read_kib("/proc/meminfo", "MemAvailable:");
    machine.into_iter().chain(cgroup::available_memory(Path::new("/"))).min()
}

/// Returns the peak memory of this process, which a started process counts as its own.
pub fn inherited_rss() -> u64 {
    read_kib("/proc/self/status", "VmHWM:").unwrap_or(0)
}

/// Returns whether memory of this process is locked; `None` if that is not known.
pub fn has_locked_memory() -> Option<bool> {
    read_kib("/proc/self/status", "VmLck:").map(|bytes| bytes > 0)
}

/// Reads a value in KiB and converts it to bytes.
fn read_kib(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|l| l.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

/// Keeps the memory of a process that runs for hours close to the memory it uses.
///
/// By default, glibc creates an arena per thread, up to eight per CPU, and memory that short-lived
/// threads leave in their arenas adds up. After a large block was freed, glibc also takes later
/// large blocks from the heap, which becomes fragmented. This function makes all threads share one
/// arena, and returns large blocks to the system.
pub fn limit_heap_growth() {
    #[cfg(target_env = "gnu")]
    for (option, value) in [(libc::M_ARENA_MAX, 1), (libc::M_MMAP_THRESHOLD, 128 << 10)] {
        // SAFETY: it takes two numbers, and changes only from where memory comes that is asked for
        // later.
        unsafe { libc::mallopt(option, value) };
    }
}

/// Locks all current and future pages of this process into memory.
pub fn lock_memory() -> io::Result<()> {
    Ok(rustix::mm::mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE)?)
}

/// Returns the current time as an [`Instant`], and as nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_pair() -> io::Result<(Instant, u64)> {
    let kernel_ns = tach::read_paired(|| clock_ns(ClockId::Monotonic));
    Ok((kernel_ns.at, kernel_ns.value?))
}

/// By how much the clocks of this process are ahead of those of the kernel, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffsets {
    pub monotonic_ns: i64,
    pub boottime_ns: i64,
}

/// Returns the offsets of the time namespace of this process. The kernel stamps its records with
/// clocks that have no offset.
pub fn clock_offsets() -> ClockOffsets {
    // A kernel without time namespaces has no such file.
    std::fs::read_to_string("/proc/self/timens_offsets")
        .map_or_else(|_| ClockOffsets::default(), |text| ClockOffsets::parse(&text))
}

impl ClockOffsets {
    /// Parses lines of a clock, its seconds and its nanoseconds, of which only the seconds can be
    /// negative.
    fn parse(text: &str) -> Self {
        let offset_ns = |clock: &str| {
            let mut fields =
                text.lines().find_map(|line| line.strip_prefix(clock))?.split_whitespace();
            let seconds: i64 = fields.next()?.parse().ok()?;
            let nanoseconds: i64 = fields.next()?.parse().ok()?;
            seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
        };
        Self {
            monotonic_ns: offset_ns("monotonic").unwrap_or(0),
            boottime_ns: offset_ns("boottime").unwrap_or(0),
        }
    }
}

/// Sleeps the calling thread until an instant, with `clock_nanosleep` in absolute mode.
#[derive(Debug)]
pub struct Sleeper {
    instant: Instant,
    kernel_ns: u64,
}

impl Sleeper {
    /// Name of the system call.
    pub const BACKEND: &'static str = "clock_nanosleep";

    pub fn new() -> io::Result<Self> {
        let (instant, kernel_ns) = monotonic_pair()?;
        Ok(Self { instant, kernel_ns })
    }

    /// Sleeps until `deadline`. Returns immediately if it has passed.
    pub fn sleep_until(&self, deadline: Instant) -> io::Result<()> {
        let after = deadline.saturating_duration_since(self.instant);
        let target_ns = self.kernel_ns + u64::try_from(after.as_nanos()).unwrap_or(u64::MAX / 2);
        let target = Timespec {
            tv_sec: (target_ns / 1_000_000_000) as _,
            tv_nsec: (target_ns % 1_000_000_000) as _,
        };
        loop {
            match rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &target) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }
}

/// The first version of `struct sched_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Scheduling parameters of a thread, which can be restored.
#[derive(Clone, Copy, Debug)]
pub struct Scheduling(SchedAttr);

impl Scheduling {
    /// Reads the parameters of the calling thread.
    pub fn now() -> io::Result<Self> {
        let mut attr = SchedAttr::default();
        let size = size_of::<SchedAttr>();
        // SAFETY: the pointer is to a `sched_attr` of ours of the stated size, which the call
        // fills; thread 0 is ours.
        let result = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
        if result == 0 { Ok(Self(attr)) } else { Err(io::Error::last_os_error()) }
    }

    /// Applies the parameters to the calling thread.
    pub fn restore(&self) -> io::Result<()> {
        let attr = SchedAttr { size: size_of::<SchedAttr>() as u32, ..self.0 };
        // SAFETY: the attributes are ours and only read; thread 0 is the calling one.
        let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
        if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Replaces the slice. Only normal threads on Linux 6.12 and later have one.
    pub fn with_slice(self, slice: Duration) -> Self {
        Self(SchedAttr { runtime_ns: to_ns(slice), ..self.0 })
    }

    /// Returns the slice, or zero if the kernel does not support slices.
    pub fn slice(&self) -> Duration {
        Duration::from_nanos(self.0.runtime_ns)
    }
}

/// Unlocks all pages of this process.
pub fn unlock_memory() -> io::Result<()> {
    Ok(rustix::mm::munlockall()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_may_be_negative() {
        let text = "monotonic          -3 250000000\nboottime         7200         0\n";
        let offsets = ClockOffsets { monotonic_ns: -2_750_000_000, boottime_ns: 7_200_000_000_000 };
        assert_eq!(ClockOffsets::parse(text), offsets);
        assert_eq!(ClockOffsets::parse("monotonic 1\n"), ClockOffsets::default());
    }

    #[cfg(target_pointer_width = "64")]
    #[test]
    fn long_timer_slack_is_exact() {
        let slack_ns =
            |ns: u64| std::thread::spawn(move || set_timer_slack_ns(ns).map(|()| timer_slack_ns()));
        for ns in [1, 50_000, 3_000_000_000, 1 << 32, 3_600_000_000_000] {
            assert_eq!(slack_ns(ns).join().unwrap().unwrap(), Some(ns));
        }
    }
}
