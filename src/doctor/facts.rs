//! What is read of a Linux machine, before anything is made of it. All files are below one
//! directory, so that a test can make a machine of its own.

use std::io;
use std::path::{Path, PathBuf};

use engine::machine::cgroup::{self, CpuQuota};
use engine::machine::os::{self, cpu_list};

/// A fact, or why it is not known.
pub type Reading<T> = Result<T, String>;

/// What the operating system answers without a file.
#[derive(Clone, Debug, Default)]
pub struct Process {
    pub timer_slack_ns: Option<u64>,
    /// Steps by which timers expire, and of the kernel's tick.
    pub timer_steps: Option<os::TimerSteps>,
    /// CPUs that this process may use.
    pub affinity: Option<Vec<usize>>,
    /// Why the CPU counter is not used as a clock.
    pub why_not_counter: Option<String>,
    /// Programs to look for.
    pub looked_for: Vec<String>,
}

impl Process {
    pub fn ask(looked_for: Vec<String>) -> Self {
        Self {
            timer_slack_ns: os::timer_slack_ns(),
            timer_steps: os::timer_steps(),
            affinity: os::affinity(),
            why_not_counter: tach::why_not_counter().map(|why| why.to_string()),
            looked_for,
        }
    }
}

/// An idle state of a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleState {
    pub name: String,
    /// Time to leave it.
    pub latency_us: u64,
    pub disabled: bool,
}

/// An interrupt that a CPU handles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupt {
    pub number: u64,
    /// How often since the machine was started.
    pub count: u64,
    pub name: String,
}

/// Everything that is judged; a `None` inside is a thing that this kernel does not have.
#[derive(Clone, Debug)]
pub struct Facts {
    pub cpu: usize,
    pub process: Process,
    pub clock_source: Reading<String>,
    pub clock_sources: Reading<String>,
    pub kernel_version: Reading<String>,
    pub boot_options: Reading<String>,
    /// The modes of a kernel that can change its preemption model, the one in force in brackets.
    pub preempt_modes: Reading<String>,
    pub base_slice_ns: Reading<u64>,
    pub sched_ext: Reading<Option<String>>,
    pub governor: Reading<Option<String>>,
    pub energy_preference: Reading<Option<String>>,
    pub idle_states: Reading<Vec<IdleState>>,
    /// The latency that somebody holds the idle states to.
    pub dma_latency_us: Reading<Option<i32>>,
    pub siblings: Reading<String>,
    pub groups: Reading<String>,
    pub quota: Option<CpuQuota>,
    pub online: Reading<String>,
    pub rt_runtime_us: Reading<i64>,
    pub rt_period_us: Reading<i64>,
    /// Most that a thread may ask for, and that may be locked, in bytes; `None` is without limit.
    pub rtprio: Reading<Option<u64>>,
    pub memlock: Reading<Option<u64>>,
    /// What root would be allowed: one bit a capability.
    pub capabilities: Reading<u64>,
    /// Of the CPU, and how many there are.
    pub interrupts: Reading<(Vec<Interrupt>, usize)>,
    pub isolated: Reading<Option<String>>,
    pub nohz_full: Reading<Option<String>>,
    pub huge_pages: Reading<Option<String>>,
    pub numa_nodes: Reading<Option<String>>,
    pub numa_balancing: Reading<Option<String>>,
    pub swaps: Reading<Vec<String>>,
    pub cpu_flags: Reading<String>,
    pub vendor: Option<String>,
    /// Share of the time of all CPUs since the machine was started.
    pub stolen: Reading<f64>,
    pub container: Option<String>,
    /// Names of the kernel's tracers.
    pub tracers: Reading<String>,
    /// Tools of others that are there, and where.
    pub installed: Vec<(String, PathBuf)>,
}

/// The directory that `/proc`, `/sys` and `/dev` are in.
struct Root<'a>(&'a Path);

impl Facts {
    pub fn read(root: &Path, process: Process, cpu: usize) -> Self {
        let files = Root(root);
        let of_cpu = |file: &str| format!("sys/devices/system/cpu/cpu{cpu}/{file}");
        let clock =
            |file: &str| files.text(&format!("sys/devices/system/clocksource/clocksource0/{file}"));
        Self {
            cpu,
            clock_source: clock("current_clocksource"),
            clock_sources: clock("available_clocksource"),
            kernel_version: files.text("proc/sys/kernel/version"),
            boot_options: files.text("proc/cmdline"),
            preempt_modes: files.text("sys/kernel/debug/sched/preempt"),
            base_slice_ns: files.number("sys/kernel/debug/sched/base_slice_ns"),
            sched_ext: files.scheduler(),
            governor: files.feature(&of_cpu("cpufreq/scaling_governor")),
            energy_preference: files.feature(&of_cpu("cpufreq/energy_performance_preference")),
            idle_states: files.idle_states(&of_cpu("cpuidle")),
            dma_latency_us: files.dma_latency(),
            siblings: files.text(&of_cpu("topology/thread_siblings_list")),
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
            swaps: files
                .text("proc/swaps")
                .map(|text| text.lines().skip(1).map(first_word).collect()),
            cpu_flags: files.text("proc/cpuinfo").map(|text| {
                let flags =
                    text.lines().find(|l| l.starts_with("flags")).and_then(|l| l.split_once(':'));
                flags.map_or(String::new(), |(_, flags)| flags.trim().to_owned())
            }),
            vendor: files
                .text("sys/class/dmi/id/sys_vendor")
                .or_else(|_| files.text("sys/hypervisor/type"))
                .ok(),
            stolen: files.stolen(),
            container: files.container(),
            tracers: files.text("sys/kernel/tracing/available_tracers").or_else(|why| {
                files.text("sys/kernel/debug/tracing/available_tracers").map_err(|_| why)
            }),
            installed: process
                .looked_for
                .iter()
                .filter_map(|name| Some((name.clone(), files.program(name)?)))
                .collect(),
            process,
        }
    }
}

fn first_word(line: &str) -> String {
    line.split_whitespace().next().unwrap_or_default().to_owned()
}

impl Root<'_> {
    fn path(&self, file: &str) -> PathBuf {
        self.0.join(file)
    }

    fn bytes(&self, file: &str) -> Reading<Vec<u8>> {
        std::fs::read(self.path(file)).map_err(|error| refusal(file, &error))
    }

    fn text(&self, file: &str) -> Reading<String> {
        self.bytes(file).map(|bytes| String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    fn number<T: std::str::FromStr>(&self, file: &str) -> Reading<T> {
        let text = self.text(file)?;
        text.parse().map_err(|_| format!("/{file}: {text:?} is not a number"))
    }

    /// What the kernel has only with some option or hardware: `None` where the tree it would be in
    /// is there.
    fn feature(&self, file: &str) -> Reading<Option<String>> {
        let tree = Path::new(file).iter().take(2).collect::<PathBuf>();
        match std::fs::metadata(self.path(file)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.0.join(tree).is_dir() => Ok(None),
            _ => self.text(file).map(Some),
        }
    }

    /// The scheduler that a BPF program has put into the kernel's place.
    fn scheduler(&self) -> Reading<Option<String>> {
        let state = self.feature("sys/kernel/sched_ext/state")?;
        let name = || {
            self.text("sys/kernel/sched_ext/root/ops")
                .unwrap_or_else(|_| "one without a name".to_owned())
        };
        Ok(state.filter(|state| state == "enabled").map(|_| name()))
    }

    fn idle_states(&self, directory: &str) -> Reading<Vec<IdleState>> {
        let cpu = directory.trim_end_matches("/cpuidle");
        let listed = match std::fs::read_dir(self.path(directory)) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && self.path(cpu).is_dir() => {
                return Ok(Vec::new());
            }
            other => other.map_err(|error| refusal(directory, &error))?,
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
        let value = bytes.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes));
        value
            .map(Some)
            .ok_or_else(|| format!("/{FILE}: {} bytes where 4 were expected", bytes.len()))
    }

    /// A soft limit of this process.
    fn limit(&self, name: &str) -> Reading<Option<u64>> {
        let limits = self.text("proc/self/limits")?;
        let soft = limits.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next());
        let soft = soft.ok_or_else(|| format!("/proc/self/limits: no line {name:?}"))?;
        if soft == "unlimited" {
            return Ok(None);
        }
        soft.parse().map(Some).map_err(|_| format!("/proc/self/limits: {soft:?} is not a number"))
    }

    fn capabilities(&self) -> Reading<u64> {
        let status = self.text("proc/self/status")?;
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        let bits = line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
        bits.ok_or_else(|| "/proc/self/status: no line \"CapEff:\"".to_owned())
    }

    fn interrupts(&self, cpu: usize) -> Reading<(Vec<Interrupt>, usize)> {
        let table = self.text("proc/interrupts")?;
        let mut lines = table.lines();
        let heading: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let column = heading.iter().position(|name| *name == format!("CPU{cpu}"));
        let column = column.ok_or_else(|| format!("/proc/interrupts: no CPU {cpu}"))?;
        let (mut handled, mut all) = (Vec::new(), 0);
        for line in lines {
            let Some((number, rest)) = line.split_once(':') else { continue };
            // The others have names: they are the CPU's own, and cannot be moved.
            let Ok(number) = number.trim().parse::<u64>() else { continue };
            all += 1;
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
        Ok((handled, all))
    }

    fn stolen(&self) -> Reading<f64> {
        let stat = self.text("proc/stat")?;
        let times = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        // User, nice, system, idle, iowait, irq, softirq, steal; what follows is in user and nice
        // already.
        let times: Vec<f64> = times.take(8).filter_map(|n| n.parse().ok()).collect();
        let all: f64 = times.iter().sum();
        let stolen = times.get(7).filter(|_| all > 0.0);
        stolen.map(|stolen| stolen / all).ok_or_else(|| "/proc/stat: no steal time".to_owned())
    }

    /// Where a program is, also where only root looks.
    fn program(&self, name: &str) -> Option<PathBuf> {
        const DIRECTORIES: [&str; 6] =
            ["usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin"];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let of_path = std::env::split_paths(&path)
            .filter_map(|d| d.strip_prefix("/").ok().map(Path::to_path_buf));
        let all =
            of_path.chain(DIRECTORIES.map(PathBuf::from)).map(|directory| directory.join(name));
        all.into_iter()
            .find(|program| self.0.join(program).is_file())
            .map(|program| Path::new("/").join(program))
    }

    fn container(&self) -> Option<String> {
        let marked = [(".dockerenv", "docker"), ("run/.containerenv", "podman")];
        let by_mark = marked
            .into_iter()
            .find(|(file, _)| self.path(file).exists())
            .map(|(_, name)| name.to_owned());
        self.text("run/systemd/container").ok().filter(|name| !name.is_empty()).or(by_mark)
    }
}

/// Why a file was not read.
fn refusal(file: &str, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "not there".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => error.to_string(),
    };
    format!("/{file}: {why}")
}
