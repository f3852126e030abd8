//! Reads the facts about a Linux machine that [`judge`](super::judge) assesses. All files are below
//! one root directory, so a test can provide the files of another machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use engine::machine::cgroup::{self, CpuQuota};
use engine::machine::os::{self, cpu_list};

/// A fact, or the reason for which it could not be read.
pub type Reading<T> = Result<T, FactError>;

/// Reason why a fact could not be read. Files are named without the slash at their start.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FactError {
    #[error("/{file}: {}", format_io_error(source))]
    Unreadable { file: String, source: Arc<io::Error> },
    #[error("/{file}: {text:?} is not a number")]
    NotNumber { file: String, text: String },
    #[error("/{file}: no line {line:?}")]
    MissingLine { file: &'static str, line: String },
    /// A file that contains a binary number has another length.
    #[error("/{file}: expected {expected} bytes, got {length}")]
    WrongLength { file: &'static str, expected: usize, length: usize },
    #[error("/proc/interrupts: no CPU {cpu}")]
    MissingCpu { cpu: usize },
    #[error("/proc/stat: no steal time")]
    MissingStealTime,
    #[error("the system does not report it")]
    NotReported,
}

fn format_io_error(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "not there".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    }
}

impl FactError {
    fn unreadable(file: &str, source: io::Error) -> Self {
        Self::Unreadable { file: file.to_owned(), source: Arc::new(source) }
    }

    /// Returns whether more rights would be needed to read the fact.
    pub fn is_permission_denied(&self) -> bool {
        match self {
            Self::Unreadable { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}

impl From<&FactError> for FactError {
    fn from(error: &FactError) -> Self {
        error.clone()
    }
}

/// Facts about this process that are not read from files, and the tools to look for.
#[derive(Clone, Debug, Default)]
pub struct ProcessFacts {
    pub timer_slack_ns: Option<u64>,
    /// Resolution of timers, and length of the kernel's tick.
    pub timer_steps: Option<os::TimerSteps>,
    /// CPUs that this process may use.
    pub affinity: Option<Vec<usize>>,
    /// Reason for which the CPU counter is not used as a clock.
    pub why_not_counter: Option<String>,
    /// Names of the programs to look for.
    pub tool_names: Vec<String>,
}

impl ProcessFacts {
    pub fn read(tool_names: Vec<String>) -> Self {
        Self {
            timer_slack_ns: os::timer_slack_ns(),
            timer_steps: os::timer_steps(),
            affinity: os::affinity(),
            why_not_counter: tach::why_not_counter().map(|why| why.to_string()),
            tool_names,
        }
    }
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub name: String,
    /// Time that a CPU needs to leave it.
    pub latency_us: u64,
    pub disabled: bool,
}

/// An interrupt that a CPU handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    pub number: u64,
    /// Number of occurrences since boot.
    pub count: u64,
    pub name: String,
}

/// The movable interrupts of a machine.
#[derive(Clone, Debug)]
pub struct Interrupts {
    /// Those that the examined CPU handles, the most frequent one first.
    pub handled: Vec<Interrupt>,
    /// Their number on all CPUs.
    pub total: usize,
}

/// All facts that are assessed. `Ok(None)` is a feature that this kernel does not have.
#[derive(Clone, Debug)]
pub struct MachineFacts {
    pub cpu: usize,
    pub process: ProcessFacts,
    pub clock_source: Reading<String>,
    pub clock_sources: Reading<String>,
    pub kernel_version: Reading<String>,
    pub boot_options: Reading<String>,
    /// Modes of a kernel that can change its preemption model; the active one is in brackets.
    pub preempt_modes: Reading<String>,
    pub base_slice_ns: Reading<u64>,
    pub sched_ext: Reading<Option<String>>,
    pub governor: Reading<Option<String>>,
    pub energy_preference: Reading<Option<String>>,
    pub idle_states: Reading<Vec<IdleState>>,
    /// Latency limit for idle states that a program holds open.
    pub dma_latency_us: Reading<Option<i32>>,
    pub siblings: Reading<String>,
    pub groups: Reading<String>,
    pub quota: Option<CpuQuota>,
    pub online: Reading<String>,
    pub rt_runtime_us: Reading<i64>,
    pub rt_period_us: Reading<i64>,
    /// Maximum real-time priority of a thread; `None` is unlimited.
    pub rtprio: Reading<Option<u64>>,
    /// Maximum size of locked memory in bytes; `None` is unlimited.
    pub memlock: Reading<Option<u64>>,
    /// Effective capabilities of this process, one bit each.
    pub capabilities: Reading<u64>,
    pub interrupts: Reading<Interrupts>,
    pub isolated: Reading<Option<String>>,
    pub nohz_full: Reading<Option<String>>,
    pub huge_pages: Reading<Option<String>>,
    pub numa_nodes: Reading<Option<String>>,
    pub numa_balancing: Reading<Option<String>>,
    pub swaps: Reading<Vec<String>>,
    pub cpu_flags: Reading<String>,
    pub vendor: Option<String>,
    /// Stolen share of the time of all CPUs since boot.
    pub stolen: Reading<f64>,
    pub container: Option<String>,
    /// Names of the kernel's tracers.
    pub tracers: Reading<String>,
    /// Names and paths of the installed tools.
    pub installed: Vec<(String, PathBuf)>,
}

/// The directory that contains `/proc`, `/sys` and `/dev`.
struct Root<'a>(&'a Path);

impl MachineFacts {
    pub fn read(root: &Path, process: ProcessFacts, cpu: usize) -> Self {
        let files = Root(root);
        Self {
            cpu,
            clock_source: files.clock("current_clocksource"),
            clock_sources: files.clock("available_clocksource"),
            kernel_version: files.text("proc/sys/kernel/version"),
            boot_options: files.text("proc/cmdline"),
            preempt_modes: files.text("sys/kernel/debug/sched/preempt"),
            base_slice_ns: files.number("sys/kernel/debug/sched/base_slice_ns"),
            sched_ext: files.scheduler(),
            governor: files.feature(&cpu_file(cpu, "cpufreq/scaling_governor")),
            energy_preference: files.feature(&cpu_file(cpu, ENERGY_PREFERENCE)),
            idle_states: files.idle_states(&cpu_file(cpu, "cpuidle")),
            dma_latency_us: files.dma_latency(),
            siblings: files.text(&cpu_file(cpu, "topology/thread_siblings_list")),
            groups: files.text("proc/self/cgroup"),
            quota: cgroup::quota(root),
            online: files.text("sys/devices/system/cpu/online"),
            rt_runtime_us: files.number("proc/sys/kernel/sched_rt_runtime_us"),
            rt_period_us: files.number("proc/sys/kernel/sched_rt_period_us"),
            rtprio: files.limit("Max realtime priority"),
            memlock: files.limit("Max locked memory"),
            capabilities: files.capabilities(),
            interrupts: files.interrupts(cpu),
            isolated: files.feature("sys/devices/system/cpu/isolated"),
            nohz_full: files.feature("sys/devices/system/cpu/nohz_full"),
            huge_pages: files.feature("sys/kernel/mm/transparent_hugepage/enabled"),
            numa_nodes: files.feature("sys/devices/system/node/online"),
            numa_balancing: files.feature("proc/sys/kernel/numa_balancing"),
            swaps: files.swaps(),
            cpu_flags: files.cpu_flags(),
            vendor: files.vendor(),
            stolen: files.stolen(),
            container: files.container(),
            tracers: files.tracers(),
            installed: files.installed(&process.tool_names),
            process,
        }
    }
}

const ENERGY_PREFERENCE: &str = "cpufreq/energy_performance_preference";

fn cpu_file(cpu: usize, file: &str) -> String {
    format!("sys/devices/system/cpu/cpu{cpu}/{file}")
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

impl Root<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn bytes(&self, file: &str) -> Reading<Vec<u8>> {
        std::fs::read(self.path(file)).map_err(|error| FactError::unreadable(file, error))
    }

    fn text(&self, file: &str) -> Reading<String> {
        self.bytes(file).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, file: &str) -> Reading<T> {
        let text = self.text(file)?;
        text.parse().map_err(|_| FactError::NotNumber { file: file.to_owned(), text })
    }

    /// Reads a file that exists only with some option or hardware. Returns `None` if it does not
    /// exist but its tree does, such as `/sys/kernel`.
    fn feature(&self, file: &str) -> Reading<Option<String>> {
        let tree = Path::new(file).iter().take(2).collect::<PathBuf>();
        match std::fs::metadata(self.path(file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.0.join(tree).is_dir() => Ok(None),
            _ => self.text(file).map(Some),
        }
    }

    fn clock(&self, file: &str) -> Reading<String> {
        self.text(&format!("sys/devices/system/clocksource/clocksource0/{file}"))
    }

    fn swaps(&self) -> Reading<Vec<String>> {
        let table = self.text("proc/swaps")?;
        Ok(table.lines().skip(1).map(first_word).collect())
    }

    fn cpu_flags(&self) -> Reading<String> {
        let cpuinfo = self.text("proc/cpuinfo")?;
        let line = cpuinfo.lines().find(|line| line.starts_with("flags"));
        let flags = line.and_then(|line| line.split_once(':'));
        Ok(flags.map_or(String::new(), |(_, flags)| flags.trim().to_owned()))
    }

    fn vendor(&self) -> Option<String> {
        self.text("sys/class/dmi/id/sys_vendor").or_else(|_| self.text("sys/hypervisor/type")).ok()
    }

    fn tracers(&self) -> Reading<String> {
        self.text("sys/kernel/tracing/available_tracers").or_else(|error| {
            self.text("sys/kernel/debug/tracing/available_tracers").map_err(|_| error)
        })
    }

    fn installed(&self, names: &[String]) -> Vec<(String, PathBuf)> {
        names.iter().filter_map(|name| Some((name.clone(), self.program(name)?))).collect()
    }

    /// The BPF scheduler that replaces that of the kernel, if one is enabled.
    fn scheduler(&self) -> Reading<Option<String>> {
        let state = self.feature("sys/kernel/sched_ext/state")?;
        let name =
            || self.text("sys/kernel/sched_ext/root/ops").unwrap_or_else(|_| "unnamed".to_owned());
        Ok(state.filter(|state| state == "enabled").map(|_| name()))
    }

    fn idle_states(&self, directory: &str) -> Reading<Vec<IdleState>> {
        let cpu = directory.trim_end_matches("/cpuidle");
        let listed = match std::fs::read_dir(self.path(directory)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.path(cpu).is_dir() => {
                return Ok(Vec::new());
            }
            listed => listed.map_err(|error| FactError::unreadable(directory, error))?,
        };
        let mut states: Vec<IdleState> = Vec::new();
        for state in listed.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned())
        {
            let file = |name: &str| format!("{directory}/{state}/{name}");
            if state.starts_with("state") {
                let disabled = self.text(&file("disable")).is_ok_and(|text| text != "0");
                let latency_us = self.number(&file("latency"))?;
                states.push(IdleState { name: self.text(&file("name"))?, latency_us, disabled });
            }
        }
        states.sort_by_key(|state| state.latency_us);
        Ok(states)
    }

    fn dma_latency(&self) -> Reading<Option<i32>> {
        const FILE: &str = "dev/cpu_dma_latency";
        if !self.path(FILE).exists() && self.path("dev").is_dir() {
            return Ok(None);
        }
        let bytes = self.bytes(FILE)?;
        match bytes.first_chunk() {
            Some(value) => Ok(Some(i32::from_ne_bytes(*value))),
            None => Err(FactError::WrongLength { file: FILE, expected: 4, length: bytes.len() }),
        }
    }

    /// Returns a soft limit of this process; `None` is unlimited.
    fn limit(&self, name: &str) -> Reading<Option<u64>> {
        const FILE: &str = "proc/self/limits";
        let limits = self.text(FILE)?;
        let soft = limits.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next());
        let missing = || FactError::MissingLine { file: FILE, line: name.to_owned() };
        let soft = soft.ok_or_else(missing)?;
        if soft == "unlimited" {
            return Ok(None);
        }
        let invalid = |_| FactError::NotNumber { file: FILE.to_owned(), text: soft.to_owned() };
        soft.parse().map(Some).map_err(invalid)
    }

    fn capabilities(&self) -> Reading<u64> {
        const FILE: &str = "proc/self/status";
        const PREFIX: &str = "CapEff:";
        let status = self.text(FILE)?;
        let line = status.lines().find_map(|l| l.strip_prefix(PREFIX));
        let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        bits.ok_or_else(|| FactError::MissingLine { file: FILE, line: PREFIX.to_owned() })
    }

    fn interrupts(&self, cpu: usize) -> Reading<Interrupts> {
        let table = self.text("proc/interrupts")?;
        let mut lines = table.lines();
        let heading: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let column = heading.iter().position(|name| *name == format!("CPU{cpu}"));
        let column = column.ok_or(FactError::MissingCpu { cpu })?;
        let (mut handled, mut total) = (Vec::new(), 0);
        for line in lines {
            let Some((number, rest)) = line.split_once(':') else { continue };
            // An interrupt with a name instead of a number is local to its CPU and cannot be moved.
            let Ok(number) = number.trim().parse::<u64>() else { continue };
            total += 1;
            let file = |name: &str| self.text(&format!("proc/irq/{number}/{name}"));
            let cpus = file("effective_affinity_list").or_else(|_| file("smp_affinity_list"))?;
            if cpu_list(&cpus).contains(&cpu) {
                let words: Vec<&str> = rest.split_whitespace().collect();
                let count = words.get(column).and_then(|n| n.parse().ok()).unwrap_or(0);
                let name = words.last().copied().unwrap_or_default().to_owned();
                handled.push(Interrupt { number, count, name });
            }
        }
        handled.sort_by_key(|interrupt| std::cmp::Reverse(interrupt.count));
        Ok(Interrupts { handled, total })
    }

    fn stolen(&self) -> Reading<f64> {
        let stat = self.text("proc/stat")?;
        let times = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        // User, nice, system, idle, iowait, irq, softirq, steal. The columns after these are
        // already contained in user and nice.
        let times: Vec<f64> = times.take(8).filter_map(|n| n.parse().ok()).collect();
        let total: f64 = times.iter().sum();
        let stolen = times.get(7).filter(|_| total > 0.0);
        stolen.map(|stolen| stolen / total).ok_or(FactError::MissingStealTime)
    }

    /// Finds a program in `PATH` or in a system directory that only root has in it.
    fn program(&self, name: &str) -> Option<PathBuf> {
        const DIRECTORIES: [&str; 6] =
            ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let search_path = std::env::split_paths(&path)
            .filter_map(|d| d.strip_prefix("/").ok().map(Path::to_path_buf));
        let directories = search_path.chain(DIRECTORIES.map(PathBuf::from));
        let mut candidates = directories.map(|directory| directory.join(name));
        let program = candidates.find(|program| self.0.join(program).is_file())?;
        Some(Path::new("/").join(program))
    }

    fn container(&self) -> Option<String> {
        const MARKER_FILES: [(&str, &str); 2] =
            [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
        let marker = MARKER_FILES.into_iter().find(|(file, _)| self.path(file).exists());
        let name = self.text("run/systemd/container").ok().filter(|name| !name.is_empty());
        name.or_else(|| marker.map(|(_, name)| name.to_owned()))
    }
}
