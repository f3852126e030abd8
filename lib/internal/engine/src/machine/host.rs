//! Facts about the machine and the environment of a run. Facts that the platform does not report
//! are `None`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use files::report::{Host, Tool};

use crate::machine::{cgroup, os};

/// Reads the facts about this machine.
pub fn capture() -> Host {
    let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
    Host {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        kernel: read("/proc/sys/kernel/osrelease"),
        preempt: preempt(),
        cpu_model: cpuinfo_field(&cpuinfo, "model name"),
        cpus_online: cpus_online(&cpuinfo),
        affinity: os::affinity(),
        clock_source: clock_source(),
        timer_slack_ns: os::timer_slack_ns(),
        governor: governor(0),
        idle_driver: read("/sys/devices/system/cpu/cpuidle/current_driver"),
        hypervisor: hypervisor(&cpuinfo_field(&cpuinfo, "flags").unwrap_or_default()),
        quota_cpus: cgroup::quota(Path::new("/")).map(|quota| quota.cpus()),
        sched: os::sched(),
        versions: BTreeMap::from([
            ("osjitter".to_owned(), build_info().version.to_owned()),
            ("tokio".to_owned(), build_info().tokio.to_owned()),
        ]),
    }
}

/// Returns the clock source of the kernel, which can change at any time.
pub fn clock_source() -> Option<String> {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// Returns a field of the first CPU in the kernel's list.
fn cpuinfo_field(cpuinfo: &str, name: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Returns the name of the machine, if it is known.
pub fn hostname() -> Option<String> {
    if let Some(name) = read("/proc/sys/kernel/hostname") {
        return Some(name);
    }
    let mut names = ["HOSTNAME", "COMPUTERNAME"].into_iter().flat_map(std::env::var);
    names.find(|name| !name.is_empty())
}

/// Facts about the build of the program, which every report contains.
#[derive(Clone, Copy)]
pub struct BuildInfo {
    pub version: &'static str,
    /// Commit, or empty if unknown.
    pub commit: &'static str,
    /// Version of tokio that is measured.
    pub tokio: &'static str,
}

static BUILD_INFO: OnceLock<BuildInfo> = OnceLock::new();

/// Sets the build information. The program calls this first.
pub fn set_build_info(build: BuildInfo) {
    let _ = BUILD_INFO.set(build);
}

fn build_info() -> BuildInfo {
    let unknown = BuildInfo { version: env!("CARGO_PKG_VERSION"), commit: "", tokio: "unknown" };
    BUILD_INFO.get().copied().unwrap_or(unknown)
}

/// Returns the name and version of this program for a report.
pub fn tool() -> Tool {
    let BuildInfo { version, commit, .. } = build_info();
    let commit = Some(commit.to_owned()).filter(|commit| !commit.is_empty());
    Tool { name: "osjitter".to_owned(), version: version.to_owned(), commit }
}

/// Returns the resolution of the clock of the time stamps, rounded up to a whole nanosecond.
pub fn clock_resolution_ns() -> i64 {
    (1e9 / tach::info().rate_hz).ceil().max(1.0) as i64
}

/// Returns the number of CPUs in the list of the kernel or, without a list, that this process may
/// use.
fn cpus_online(cpuinfo: &str) -> Option<u64> {
    match cpuinfo.lines().filter(|l| l.starts_with("processor")).count() {
        0 => std::thread::available_parallelism().ok().map(|n| n.get() as u64),
        listed => Some(listed as u64),
    }
}

/// Reads the frequency governor of a CPU.
pub fn governor(cpu: usize) -> Option<String> {
    read(&format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_owned()).filter(|s| !s.is_empty())
}

/// Reads the preemption model from the version string of the kernel.
fn preempt() -> Option<String> {
    let version = read("/proc/sys/kernel/version")?;
    ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"]
        .into_iter()
        .find(|p| version.contains(p))
        .map(str::to_owned)
}

fn hypervisor(cpu_flags: &str) -> Option<String> {
    let vendor = read("/sys/class/dmi/id/sys_vendor").or_else(|| read("/sys/hypervisor/type"));
    let guest = cpu_flags.split_whitespace().any(|f| f == "hypervisor");
    if guest {
        Some(vendor.map_or("hypervisor".to_owned(), |v| format!("hypervisor ({v})")))
    } else {
        None
    }
}
