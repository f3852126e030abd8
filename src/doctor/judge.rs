//! Assesses the effect of each fact on ticks: one function per item. Does no I/O.

use cli::time::{format_share, format_time};
use cli::words::prefix_or_empty;
use engine::machine::os::cpu_list;

use crate::doctor::facts::{FactError, MachineFacts, Reading};
use crate::doctor::file::{Item, Weight};

use Weight::{Costs, Depends, Fine};

/// Returns the items of a Linux machine, in the order in which those of one weight are shown.
pub fn items(facts: &MachineFacts) -> Vec<Item> {
    CHECKS.iter().map(|(key, name, judge)| item(key, name, judge(facts))).collect()
}

/// The value of an item, its effect on ticks and its remedy.
struct Assessment {
    value: String,
    weight: Weight,
    why: String,
    change: Option<String>,
}

impl Assessment {
    fn change(self, change: impl Into<String>) -> Self {
        Self { change: Some(change.into()), ..self }
    }
}

fn assess(value: impl Into<String>, weight: Weight, why: impl Into<String>) -> Assessment {
    Assessment { value: value.into(), weight, why: why.into(), change: None }
}

fn item(key: &str, name: &str, assessment: Reading<Assessment>) -> Item {
    let (key, name) = (key.to_owned(), name.to_owned());
    match assessment {
        Ok(Assessment { value, weight, why, change }) => {
            Item { key, name, value: Some(value), not_readable: None, weight, why, change }
        }
        Err(reason) => Item {
            key,
            name,
            value: None,
            not_readable: Some(reason.to_string()),
            weight: Weight::Unknown,
            why: String::new(),
            change: None,
        },
    }
}

/// The key and the name of an item, and the function that assesses it.
type Check = (&'static str, &'static str, fn(&MachineFacts) -> Reading<Assessment>);

const CHECKS: [Check; 29] = [
    ("quota", "CPU quota", quota),
    ("cpus", "CPUs", cpus),
    ("hypervisor", "hypervisor", hypervisor),
    ("steal", "stolen time", steal),
    ("container", "container", container),
    ("preemption", "preemption model", preemption),
    ("sched-ext", "sched_ext", sched_ext),
    ("timer-slack", "timer slack", timer_slack),
    ("timers", "timers", timers),
    ("hz", "HZ", hz),
    ("clock-source", "clock source", clock_source),
    ("counter", "CPU counter", counter),
    ("idle", "deepest idle state", idle),
    ("dma-latency", "cpu_dma_latency", dma_latency),
    ("governor", "frequency governor", governor),
    ("energy", "energy preference", energy),
    ("smt", "SMT siblings", smt),
    ("interrupts", "interrupts", interrupts),
    ("isolated", "isolated CPUs", isolated),
    ("nohz-full", "nohz_full CPUs", nohz_full),
    ("slice", "scheduler slice", slice),
    ("rtprio", "real-time priority", rtprio),
    ("rt-throttling", "real-time throttling", rt_throttling),
    ("memlock", "locked memory", memlock),
    ("swap", "swap", swap),
    ("huge-pages", "transparent huge pages", huge_pages),
    ("numa-balancing", "NUMA balancing", numa_balancing),
    ("cpuset", "cpuset", cpuset),
    ("boot", "boot options", boot),
];

fn quota(facts: &MachineFacts) -> Reading<Assessment> {
    facts.groups.clone()?;
    let Some(quota) = &facts.quota else {
        return Ok(assess("none", Fine, "No control group limits the CPU time of this process."));
    };
    let throttled_us = quota.period_us - quota.quota_us.min(quota.period_us);
    let why = format!(
        "Once it is used up, every thread of the group is stopped until the next period, for up to {}.",
        format_time((throttled_us * 1e3) as i64)
    );
    let unlimited = if quota.file.ends_with("cpu.max") { "max" } else { "-1" };
    let change = format!(
        "echo {unlimited} | sudo tee {}  # in a container: run it without a CPU limit",
        quota.file.display()
    );
    Ok(assess(format!("{:.2} CPUs", quota.cpus()), Costs, why).change(change))
}

fn cpus(facts: &MachineFacts) -> Reading<Assessment> {
    let online = cpu_list(facts.online.as_ref()?).len();
    Ok(match online {
        0 | 1 => {
            assess("1", Costs, "Everything else on the machine runs on the same CPU as the ticks.")
        }
        n => assess(n.to_string(), Fine, "Other threads have CPUs without a ticking thread."),
    })
}

fn cpuset(facts: &MachineFacts) -> Reading<Assessment> {
    let online = cpu_list(facts.online.as_ref()?);
    let allowed = facts.process.affinity.as_ref().ok_or(FactError::NotReported)?;
    if allowed.len() >= online.len() {
        return Ok(assess("all CPUs", Fine, "This process may run anywhere."));
    }
    let (count, total) = (allowed.len(), online.len());
    let value = format!("{count} of {total} CPUs: {}", format_some_cpus(allowed));
    let why = "The process cannot avoid other work on these CPUs.";
    let change = format!("taskset -c {} CMD  # if the cpuset allows it", format_cpus(&online));
    Ok(assess(value, Depends, why).change(change))
}

fn hypervisor(facts: &MachineFacts) -> Reading<Assessment> {
    let guest = facts.cpu_flags.as_ref()?.split_whitespace().any(|flag| flag == "hypervisor");
    let name = prefix_or_empty(", ", facts.vendor.as_ref());
    Ok(if guest {
        let why = "The host may pause this machine at any time to run something else; only the host can change that.";
        assess(format!("yes{name}"), Depends, why)
            .change("on the host: vCPUs pinned to CPUs of their own")
    } else {
        assess("none seen", Fine, "The CPU reports no hypervisor between it and the kernel.")
    })
}

fn steal(facts: &MachineFacts) -> Reading<Assessment> {
    let stolen = *facts.stolen.as_ref()?;
    let value = format!("{} since boot", format_share((stolen * 1e6) as u64, 1_000_000));
    Ok(if stolen < 0.001 {
        assess(value, Fine, "The hypervisor, if any, reports almost no stolen time.")
    } else {
        assess(
            value,
            Costs,
            "The hypervisor took this share of the CPU time; a tick that is due in it waits.",
        )
        .change("on the host: fewer vCPUs per CPU, or a dedicated host")
    })
}

fn container(facts: &MachineFacts) -> Reading<Assessment> {
    Ok(match &facts.container {
        Some(name) => assess(
            name,
            Depends,
            "Limits and permissions are set from outside, and system settings are those of the host.",
        )
        .change(
            "docker run --cap-add SYS_NICE --ulimit rtprio=99 --ulimit memlock=-1 ...  # for missing permissions below",
        ),
        None => assess("none seen", Fine, "Nothing marks this as a container."),
    })
}

/// The preemption mode from debugfs, which only root can read, or from the boot options.
fn preempt_mode(facts: &MachineFacts) -> Option<String> {
    let chosen = facts.preempt_modes.as_ref().ok().and_then(|modes| between(modes, '(', ')'));
    chosen.or_else(|| booted_preempt_mode(facts)).map(str::to_owned)
}

fn booted_preempt_mode(facts: &MachineFacts) -> Option<&str> {
    let mut options = facts.boot_options.as_ref().ok()?.split_whitespace();
    options.find_map(|option| option.strip_prefix("preempt="))
}

fn preemption(facts: &MachineFacts) -> Reading<Assessment> {
    let version = facts.kernel_version.as_ref()?;
    let has = |word: &str| version.split_whitespace().any(|w| w == word);
    let to_full = "echo full | sudo tee /sys/kernel/debug/sched/preempt";
    let real_time = "boot a kernel with PREEMPT_RT";
    let waits = "A woken thread waits until the code that runs in the kernel yields.";
    Ok(if has("PREEMPT_RT") {
        assess(
            "PREEMPT_RT",
            Fine,
            "A woken real-time thread runs at once, even if its CPU runs kernel code.",
        )
    } else if has("PREEMPT_DYNAMIC") {
        let mode = preempt_mode(facts);
        match mode.as_deref() {
            Some("full") => {
                assess("dynamic: full", Fine, "A woken thread may preempt kernel code.")
                    .change(real_time)
            }
            Some("lazy") => {
                let why =
                    "A running normal thread may keep its CPU until the next tick of the kernel.";
                assess("dynamic: lazy", Depends, why).change(to_full)
            }
            Some(other) => assess(format!("dynamic: {other}"), Costs, waits).change(to_full),
            None => {
                let why = "The mode is none, voluntary, lazy or full; the active one is not readable here.";
                let change = format!("boot with preempt=full, or: {to_full}");
                assess("dynamic", Depends, why).change(change)
            }
        }
    } else if has("PREEMPT") {
        assess("full", Fine, "A woken thread may preempt kernel code.").change(real_time)
    } else {
        assess("none or voluntary", Costs, waits)
            .change("boot a kernel with PREEMPT_DYNAMIC, PREEMPT or PREEMPT_RT")
    })
}

fn sched_ext(facts: &MachineFacts) -> Reading<Assessment> {
    Ok(match facts.sched_ext.as_ref()? {
        Some(name) => {
            let why = "A BPF program schedules the threads; the properties of the kernel's scheduler do not apply.";
            assess(name, Depends, why)
                .change("stop the service that loaded it, for example: sudo systemctl stop scx")
        }
        None => assess("off", Fine, "The kernel's own scheduler schedules the threads."),
    })
}

fn timer_slack(facts: &MachineFacts) -> Reading<Assessment> {
    let ns = facts.process.timer_slack_ns.ok_or(FactError::NotReported)?;
    let value = format_time(i64::try_from(ns).unwrap_or(i64::MAX));
    Ok(if ns > 1_000 {
        let why = "Sleeps and waits with a timeout of normal threads may end that much later; timerfd, which OsInterval uses, does not.";
        let change =
            "TimerSlackNSec=1 in the systemd unit, or prctl(PR_SET_TIMERSLACK, 1) in the program";
        assess(value, if ns > 100_000 { Costs } else { Depends }, why).change(change)
    } else {
        assess(value, Fine, "Sleeps end when they are due.")
    })
}

fn timers(facts: &MachineFacts) -> Reading<Assessment> {
    let engine::machine::os::TimerSteps { timer_ns, .. } =
        facts.process.timer_steps.ok_or(FactError::NotReported)?;
    let step = format_time(i64::try_from(timer_ns).unwrap_or(i64::MAX));
    Ok(match timer_ns {
        0..=1_000 => assess(
            "high resolution",
            Fine,
            "Timers expire when they are due, not on the kernel's tick.",
        ),
        _ => assess(format!("steps of {step}"), Costs, "Timers expire on the kernel's tick only.")
            .change("boot without highres=off, on a kernel with CONFIG_HIGH_RES_TIMERS"),
    })
}

fn hz(facts: &MachineFacts) -> Reading<Assessment> {
    let engine::machine::os::TimerSteps { tick_ns, .. } =
        facts.process.timer_steps.ok_or(FactError::NotReported)?;
    let tick = format_time(i64::try_from(tick_ns).unwrap_or(i64::MAX));
    let value = format!("{:.0}, one tick per {tick}", 1e9 / tick_ns.max(1) as f64);
    Ok(if tick_ns <= 1_000_000 {
        assess(value, Fine, "A thread that has used up its slice is preempted within 1 ms.")
    } else {
        let why = "A thread that has used up its slice is preempted at the next tick; timers do not depend on it.";
        assess(value, Depends, why).change("boot a kernel with CONFIG_HZ_1000")
    })
}

fn clock_source(facts: &MachineFacts) -> Reading<Assessment> {
    let source = facts.clock_source.as_ref()?;
    let available = facts.clock_sources.as_deref().unwrap_or_default();
    let tsc = available.split_whitespace().any(|s| s == "tsc");
    let assessment = match source.as_str() {
        "tsc" | "arch_sys_counter" | "riscv_clocksource" | "stable_counter" => {
            return Ok(assess(source, Fine, "Reading the clock needs no system call."));
        }
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" => assess(
            source,
            Depends,
            "Reading the clock goes through a page of the hypervisor and is a little slower.",
        ),
        _ => assess(
            source,
            Costs,
            "Every clock reading is a system call of about a microsecond, and a tick needs several.",
        ),
    };
    Ok(assessment.change(if tsc {
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
    } else {
        "sudo dmesg | grep -i tsc  # why the kernel does not trust the CPU counter"
    }))
}

fn counter(facts: &MachineFacts) -> Reading<Assessment> {
    Ok(match &facts.process.why_not_counter {
        None => assess(
            "trusted",
            Fine,
            "The CPU counter runs at one rate on all CPUs and provides the timestamps.",
        ),
        Some(why) => assess(
            "not trusted",
            Depends,
            format!("Timestamps come from the slower clock of the system: {why}."),
        ),
    })
}

/// Exit latency of an idle state from which it affects the median of a sleeping ticker.
const LONG_EXIT_US: u64 = 10;

fn idle(facts: &MachineFacts) -> Reading<Assessment> {
    let states = facts.idle_states.as_ref()?;
    let Some(deepest) = states.iter().rfind(|state| !state.disabled) else {
        let why = "Without an idle driver an idle CPU halts; the host of a guest may then use it for others.";
        return Ok(assess("no idle driver", Depends, why)
            .change("boot with idle=poll, which keeps every core busy"));
    };
    let value = format!("{}, {} us to leave", deepest.name, deepest.latency_us);
    Ok(if deepest.latency_us >= LONG_EXIT_US {
        let why = "A CPU in this state wakes later by this time, so an idle machine is later than a busy one.";
        assess(value, Costs, why).change(format!(
            "sudo cpupower idle-set -D {}  # or hold /dev/cpu_dma_latency open with 0",
            LONG_EXIT_US - 1
        ))
    } else {
        assess(value, Fine, "A sleeping CPU wakes quickly.")
    })
}

fn dma_latency(facts: &MachineFacts) -> Reading<Assessment> {
    /// The value that the kernel uses for no limit.
    const NO_LIMIT_US: i32 = 2_000_000_000;
    Ok(match *facts.dma_latency_us.as_ref()? {
        None => assess("no such device", Fine, "Programs cannot limit the idle states of this machine."),
        Some(NO_LIMIT_US) => assess("no limit", Depends, "No program limits the latency of idle states.")
            .change("exec 3<>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3  # as root, effective while it is open"),
        Some(us) => assess(format!("{us} us"), Fine, "A program limits the latency of idle states."),
    })
}

fn governor(facts: &MachineFacts) -> Reading<Assessment> {
    Ok(match facts.governor.as_ref()?.as_deref() {
        None => assess(
            "none",
            Fine,
            "This kernel does not change the CPU's frequency; in a guest, the host may.",
        ),
        Some("performance") => assess("performance", Fine, "A CPU wakes at its full frequency."),
        Some(other) => assess(
            other,
            Depends,
            "A CPU that was idle may run slowly for the first milliseconds of work.",
        )
        .change("sudo cpupower frequency-set -g performance"),
    })
}

fn energy(facts: &MachineFacts) -> Reading<Assessment> {
    Ok(match facts.energy_preference.as_ref()?.as_deref() {
        None => assess("none", Fine, "This kernel has no setting that trades speed for energy."),
        Some("performance") => assess("performance", Fine, "The hardware prefers speed."),
        Some(other) => assess(other, Depends, "The hardware raises the frequency slowly after idle time.")
            .change("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference"),
    })
}

fn smt(facts: &MachineFacts) -> Reading<Assessment> {
    let others: Vec<usize> =
        cpu_list(facts.siblings.as_ref()?).into_iter().filter(|&cpu| cpu != facts.cpu).collect();
    Ok(if others.is_empty() {
        assess(
            format!("none of CPU {}", facts.cpu),
            Fine,
            "No other CPU of this kernel shares its core.",
        )
    } else {
        let others = format_some_cpus(&others);
        let why = format!("Work on CPU {others} slows down CPU {}.", facts.cpu);
        assess(format!("CPU {others} shares the core of CPU {}", facts.cpu), Depends, why)
            .change("echo off | sudo tee /sys/devices/system/cpu/smt/control")
    })
}

fn interrupts(facts: &MachineFacts) -> Reading<Assessment> {
    let interrupts = facts.interrupts.as_ref()?;
    let (cpu, total) = (facts.cpu, interrupts.total);
    let used: Vec<_> = interrupts.handled.iter().filter(|interrupt| interrupt.count > 0).collect();
    let Some(busiest) = used.first() else {
        let value = format!("none of {total} on CPU {cpu}");
        return Ok(assess(value, Fine, "No device interrupts it."));
    };
    let mut online = cpu_list(facts.online.as_deref().unwrap_or_default()).into_iter();
    let other_cpu = online.find(|&other| other != cpu);
    let (count, number, name) = (used.len(), busiest.number, &busiest.name);
    let value = format!("{count} of {total} on CPU {cpu}, most often {number} ({name})");
    let why = "The interrupt of a device, and the work that follows it, delays a tick on that CPU by microseconds.";
    let assessment = assess(value, Depends, why);
    Ok(match other_cpu {
        Some(other) => assessment
            .change(format!("echo {other} | sudo tee /proc/irq/{number}/smp_affinity_list")),
        None => assessment,
    })
}

/// Assesses whether the CPU is in a set of CPUs that the kernel keeps free of some `activity`.
fn assess_free_cpus(
    facts: &MachineFacts,
    set: &Reading<Option<String>>,
    activity: &str,
    option: &str,
) -> Reading<Assessment> {
    // A kernel without the option writes "(null)".
    let set = set.as_ref()?.as_deref().map(cpu_list).unwrap_or_default();
    let cpu = facts.cpu;
    Ok(if set.contains(&cpu) {
        assess(format_some_cpus(&set), Fine, format!("CPU {cpu} is kept free of {activity}."))
    } else {
        let value = if set.is_empty() { "none".to_owned() } else { format_some_cpus(&set) };
        assess(value, Depends, format!("CPU {cpu} is not kept free of {activity}."))
            .change(option.replace("{cpu}", &cpu.to_string()))
    })
}

fn isolated(facts: &MachineFacts) -> Reading<Assessment> {
    assess_free_cpus(
        facts,
        &facts.isolated,
        "other threads",
        "boot with isolcpus={cpu}, and run there with taskset -c {cpu} CMD",
    )
}

fn nohz_full(facts: &MachineFacts) -> Reading<Assessment> {
    assess_free_cpus(
        facts,
        &facts.nohz_full,
        "the kernel's tick",
        "boot with nohz_full={cpu} rcu_nocbs={cpu}",
    )
}

fn slice(facts: &MachineFacts) -> Reading<Assessment> {
    let ns = *facts.base_slice_ns.as_ref()?;
    let why = "A normal thread that wakes on the CPU of a busy one may wait for about one slice.";
    let change =
        "set the slice of the thread: sched_setattr with a runtime of 100000 ns, from Linux 6.12";
    Ok(assess(format_time(i64::try_from(ns).unwrap_or(i64::MAX)), Depends, why).change(change))
}

/// Returns whether this process has a capability.
fn is_capable(facts: &MachineFacts, capability: u32) -> bool {
    facts.capabilities.as_ref().is_ok_and(|bits| bits >> capability & 1 == 1)
}

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

fn rtprio(facts: &MachineFacts) -> Reading<Assessment> {
    let why = "A real-time thread preempts every normal one; this process may have one.";
    if is_capable(facts, CAP_SYS_NICE) {
        return Ok(assess("any, by CAP_SYS_NICE", Fine, why));
    }
    Ok(match facts.rtprio.as_ref()? {
        Some(0) => assess(
            "not permitted",
            Depends,
            "A real-time thread preempts every normal one; this process may not have one.",
        )
        .change("echo '* - rtprio 99' | sudo tee /etc/security/limits.d/rtprio.conf  # systemd: LimitRTPRIO=99"),
        Some(max) => assess(format!("up to {max}"), Fine, why),
        None => assess("any", Fine, why),
    })
}

fn rt_throttling(facts: &MachineFacts) -> Reading<Assessment> {
    let (runtime, period) = (*facts.rt_runtime_us.as_ref()?, *facts.rt_period_us.as_ref()?);
    let off = "sudo sysctl kernel.sched_rt_runtime_us=-1";
    Ok(if runtime < 0 || runtime >= period {
        assess("off", Fine, "A real-time thread may keep its CPU indefinitely.")
    } else {
        let throttled = format_time((period - runtime).saturating_mul(1_000));
        let why = format!(
            "A real-time thread that never sleeps loses its CPU for {throttled} in every {}; one that ticks is not affected.",
            format_time(period.saturating_mul(1_000))
        );
        assess(format!("{runtime} of {period} us"), Fine, why).change(off)
    })
}

/// Limit from which a program of ordinary size can lock all of its memory.
const ENOUGH_MEMLOCK_BYTES: u64 = 1 << 30;

fn memlock(facts: &MachineFacts) -> Reading<Assessment> {
    if is_capable(facts, CAP_IPC_LOCK) {
        return Ok(assess(
            "any, by CAP_IPC_LOCK",
            Fine,
            "This process may keep its memory from being paged out.",
        ));
    }
    Ok(match *facts.memlock.as_ref()? {
        Some(max) if max < ENOUGH_MEMLOCK_BYTES => {
            let why = "A larger program cannot lock its memory, and reading back an evicted page takes milliseconds.";
            assess(format!("at most {} KiB", max >> 10), Depends, why)
                .change("echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/memlock.conf  # systemd: LimitMEMLOCK=infinity")
        }
        _ => assess("permitted", Fine, "This process may keep its memory from being paged out."),
    })
}

fn swap(facts: &MachineFacts) -> Reading<Assessment> {
    let swaps = facts.swaps.as_ref()?;
    Ok(if swaps.is_empty() {
        assess(
            "none",
            Fine,
            "Memory is not swapped out; pages of program files may still be dropped.",
        )
    } else {
        let why = "Reading back a swapped-out page takes milliseconds, in the middle of a tick.";
        assess(swaps.join(", "), Depends, why)
            .change("sudo swapoff -a  # or lock the memory of the program: mlockall")
    })
}

fn huge_pages(facts: &MachineFacts) -> Reading<Assessment> {
    let Some(modes) = facts.huge_pages.as_ref()? else {
        return Ok(assess("none", Fine, "This kernel has no transparent huge pages."));
    };
    Ok(match between(modes, '[', ']') {
        Some("always") => assess(
            "always",
            Depends,
            "A page fault may wait for memory to be compacted, for milliseconds.",
        )
        .change("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        mode => assess(
            mode.unwrap_or(modes),
            Fine,
            "Only programs that request huge pages wait for them.",
        ),
    })
}

fn numa_balancing(facts: &MachineFacts) -> Reading<Assessment> {
    let nodes = facts.numa_nodes.as_ref()?.as_deref().map_or(1, |nodes| cpu_list(nodes).len());
    let on = facts.numa_balancing.as_ref()?.as_deref().is_some_and(|mode| mode != "0");
    Ok(match (on, nodes) {
        (false, _) => {
            assess("off", Fine, "The kernel does not move pages between nodes by itself.")
        }
        (true, 0 | 1) => {
            assess("on, with one node", Fine, "There is no other node to move pages to.")
        }
        (true, nodes) => assess(
            format!("on, with {nodes} nodes"),
            Costs,
            "The kernel unmaps pages to detect which node uses them; the next use is a page fault.",
        )
        .change("sudo sysctl kernel.numa_balancing=0"),
    })
}

fn boot(facts: &MachineFacts) -> Reading<Assessment> {
    /// Options that no other item reports.
    const PREFIXES: [&str; 9] = [
        "idle=", "nohz=", "highres=", "clocksource=", "tsc=", "processor.max_cstate=",
        "intel_idle.max_cstate=", "skew_tick=", "threadirqs",
    ];
    let options = facts.boot_options.as_ref()?.split_whitespace();
    let has_prefix = |option: &&str| PREFIXES.iter().any(|prefix| option.starts_with(prefix));
    let found: Vec<&str> = options.filter(has_prefix).collect();
    Ok(if found.is_empty() {
        assess(
            "none that matter",
            Fine,
            "The kernel was started without options for its clocks, ticks or idle states.",
        )
    } else {
        assess(found.join(" "), Fine, "Clocks, ticks or idle states were configured at boot.")
    })
}

/// Returns the text between two characters, with which the kernel marks the active choice.
fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.split_once(open)?.1.split_once(close).map(|(inside, _)| inside)
}

/// Formats the first few CPUs, and the number of all.
fn format_some_cpus(cpus: &[usize]) -> String {
    const MAX_LISTED_CPUS: usize = 8;
    match cpus.len() {
        0..=MAX_LISTED_CPUS => format_cpus(cpus),
        n => format!("{}, ... ({n})", format_cpus(&cpus[..MAX_LISTED_CPUS])),
    }
}

fn format_cpus(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}
