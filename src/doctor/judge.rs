//! What the facts mean for a tick: one function a thing, from the facts to a line. Nothing is read
//! here.

use cli::time::{format_share, format_time};
use engine::machine::os::cpu_list;

use crate::doctor::facts::{Facts, Reading};
use crate::doctor::file::{Item, Weight};

use Weight::{Costs, Depends, Fine};

/// Everything that matters on Linux, in the order in which it is shown among things of one weight.
pub fn items(facts: &Facts) -> Vec<Item> {
    LINES.iter().map(|(key, name, judge)| item(key, name, judge(facts))).collect()
}

/// What a thing is, and what follows.
struct Judged {
    value: String,
    weight: Weight,
    why: String,
    change: Option<String>,
}

impl Judged {
    fn change(self, change: impl Into<String>) -> Self {
        Self { change: Some(change.into()), ..self }
    }
}

fn judged(value: impl Into<String>, weight: Weight, why: impl Into<String>) -> Judged {
    Judged { value: value.into(), weight, why: why.into(), change: None }
}

fn item(key: &str, name: &str, judged: Reading<Judged>) -> Item {
    let (key, name) = (key.to_owned(), name.to_owned());
    match judged {
        Ok(Judged { value, weight, why, change }) => {
            Item { key, name, value: Some(value), not_readable: None, weight, why, change }
        }
        Err(reason) => Item {
            key,
            name,
            value: None,
            not_readable: Some(reason),
            weight: Weight::Unknown,
            why: String::new(),
            change: None,
        },
    }
}

type Line = (&'static str, &'static str, fn(&Facts) -> Reading<Judged>);

const LINES: [Line; 29] = [
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

fn quota(facts: &Facts) -> Reading<Judged> {
    facts.groups.clone()?;
    let Some(quota) = &facts.quota else {
        return Ok(judged("none", Fine, "No control group limits the CPU time of this process."));
    };
    let still_us = quota.period_us - quota.quota_us.min(quota.period_us);
    let why = format!(
        "Once it is used up, every thread of the group stands still until the next period, for up to {}.",
        format_time((still_us * 1e3) as i64)
    );
    let unlimited = if quota.file.ends_with("cpu.max") { "max" } else { "-1" };
    let change = format!(
        "echo {unlimited} | sudo tee {}  # in a container: run it without a CPU limit",
        quota.file.display()
    );
    Ok(judged(format!("{:.2} CPUs", quota.cpus()), Costs, why).change(change))
}

fn cpus(facts: &Facts) -> Reading<Judged> {
    let online = cpu_list(facts.online.as_ref()?).len();
    Ok(match online {
        0 | 1 => {
            judged("1", Costs, "Everything else on the machine runs on the same CPU as the ticks.")
        }
        n => judged(n.to_string(), Fine, "There is room beside a ticking thread."),
    })
}

fn cpuset(facts: &Facts) -> Reading<Judged> {
    let online = cpu_list(facts.online.as_ref()?);
    let allowed = facts.process.affinity.as_ref().ok_or("the system does not report it")?;
    if allowed.len() >= online.len() {
        return Ok(judged("all CPUs", Fine, "This process may run anywhere."));
    }
    let value = format!("{} of {} CPUs: {}", allowed.len(), online.len(), list(allowed));
    let why = "The process cannot move away from whatever else runs there.";
    Ok(judged(value, Depends, why)
        .change(format!("taskset -c {} CMD  # as far as the cpuset allows it", listed(&online))))
}

fn hypervisor(facts: &Facts) -> Reading<Judged> {
    let guest = facts.cpu_flags.as_ref()?.split_whitespace().any(|flag| flag == "hypervisor");
    let name = facts.vendor.clone().map_or(String::new(), |vendor| format!(", {vendor}"));
    Ok(if guest {
        let why = "The host may run something else while this machine believes that it runs; only the host can change that.";
        judged(format!("yes{name}"), Depends, why)
            .change("on the host: vCPUs pinned to CPUs of their own")
    } else {
        judged(
            "none seen",
            Fine,
            "Nothing stands between the kernel and the CPU, as far as the CPU says.",
        )
    })
}

fn steal(facts: &Facts) -> Reading<Judged> {
    let stolen = *facts.stolen.as_ref()?;
    let value = format!("{} since boot", format_share((stolen * 1e6) as u64, 1_000_000));
    Ok(if stolen < 0.001 {
        judged(
            value,
            Fine,
            "The hypervisor, if any, accounts for hardly any time that it took away.",
        )
    } else {
        judged(
            value,
            Costs,
            "So much of the CPU time was taken by the hypervisor; a tick that falls into it waits.",
        )
        .change("on the host: fewer vCPUs to a CPU, or a dedicated host")
    })
}

fn container(facts: &Facts) -> Reading<Judged> {
    Ok(match &facts.container {
        Some(name) => judged(
            name,
            Depends,
            "Limits and rights come from outside, and settings of the system are those of the host.",
        )
        .change(
            "docker run --cap-add SYS_NICE --ulimit rtprio=99 --ulimit memlock=-1 ...  # for what is refused below",
        ),
        None => judged("none seen", Fine, "Nothing marks this as a container."),
    })
}

/// The mode that `preempt=` of the boot options, or root's view, states.
fn preempt_mode(facts: &Facts) -> Option<String> {
    let chosen = facts.preempt_modes.as_ref().ok().and_then(|modes| between(modes, '(', ')'));
    let booted = || {
        facts
            .boot_options
            .as_ref()
            .ok()?
            .split_whitespace()
            .find_map(|o| o.strip_prefix("preempt="))
    };
    chosen.or_else(booted).map(str::to_owned)
}

fn preemption(facts: &Facts) -> Reading<Judged> {
    let version = facts.kernel_version.as_ref()?;
    let has = |word: &str| version.split_whitespace().any(|w| w == word);
    let to_full = "echo full | sudo tee /sys/kernel/debug/sched/preempt";
    let real_time = "boot a kernel with PREEMPT_RT";
    let waits = "A thread that wakes waits until whatever runs in the kernel gives way by itself.";
    Ok(if has("PREEMPT_RT") {
        judged(
            "PREEMPT_RT",
            Fine,
            "A woken real-time thread runs at once, even when the kernel is at work.",
        )
    } else if has("PREEMPT_DYNAMIC") {
        let mode = preempt_mode(facts);
        match mode.as_deref() {
            Some("full") => {
                judged("dynamic: full", Fine, "A woken thread may interrupt the kernel at work.")
                    .change(real_time)
            }
            Some("lazy") => {
                let why = "Among normal threads the one that runs may keep its CPU until the next tick of the kernel.";
                judged("dynamic: lazy", Depends, why).change(to_full)
            }
            Some(other) => judged(format!("dynamic: {other}"), Costs, waits).change(to_full),
            None => {
                let why = "The kernel can be none, voluntary, lazy or full; which one is in force is not readable here.";
                let change = format!("boot with preempt=full, or: {to_full}");
                judged("dynamic", Depends, why).change(change)
            }
        }
    } else if has("PREEMPT") {
        judged("full", Fine, "A woken thread may interrupt the kernel at work.").change(real_time)
    } else {
        judged("none or voluntary", Costs, waits)
            .change("boot a kernel with PREEMPT_DYNAMIC, PREEMPT or PREEMPT_RT")
    })
}

fn sched_ext(facts: &Facts) -> Reading<Judged> {
    Ok(match facts.sched_ext.as_ref()? {
        Some(name) => {
            let why = "A BPF program decides who runs: what is known of the kernel's own scheduler does not hold.";
            judged(name, Depends, why)
                .change("stop the service that loaded it, for example: sudo systemctl stop scx")
        }
        None => judged("off", Fine, "The kernel's own scheduler decides who runs."),
    })
}

fn timer_slack(facts: &Facts) -> Reading<Judged> {
    let ns = facts.process.timer_slack_ns.ok_or("the system does not report it")?;
    let value = format_time(i64::try_from(ns).unwrap_or(i64::MAX));
    Ok(if ns > 1_000 {
        let why = "Sleeps and waits with a timeout of normal threads may end that much later; timerfd, which OsInterval uses, does not.";
        let change =
            "TimerSlackNSec=1 in the systemd unit, or prctl(PR_SET_TIMERSLACK, 1) in the program";
        judged(value, if ns > 100_000 { Costs } else { Depends }, why).change(change)
    } else {
        judged(value, Fine, "Sleeps end when they are due.")
    })
}

fn timers(facts: &Facts) -> Reading<Judged> {
    let engine::machine::os::TimerSteps { timer_ns, .. } =
        facts.process.timer_steps.ok_or("the system does not report it")?;
    let step = format_time(i64::try_from(timer_ns).unwrap_or(i64::MAX));
    Ok(match timer_ns {
        0..=1_000 => judged(
            "high resolution",
            Fine,
            "Timers expire when they are due, not on the kernel's tick.",
        ),
        _ => judged(format!("steps of {step}"), Costs, "Timers expire on the kernel's tick only.")
            .change("boot without highres=off, on a kernel with CONFIG_HIGH_RES_TIMERS"),
    })
}

fn hz(facts: &Facts) -> Reading<Judged> {
    let engine::machine::os::TimerSteps { tick_ns, .. } =
        facts.process.timer_steps.ok_or("the system does not report it")?;
    let tick = format_time(i64::try_from(tick_ns).unwrap_or(i64::MAX));
    let value = format!("{:.0}, a tick each {tick}", 1e9 / tick_ns.max(1) as f64);
    Ok(if tick_ns <= 1_000_000 {
        judged(value, Fine, "A thread that has used up its slice gives way within a millisecond.")
    } else {
        let why = "A thread that has used up its slice gives way at the next tick; timers do not depend on it.";
        judged(value, Depends, why).change("boot a kernel with CONFIG_HZ_1000")
    })
}

fn clock_source(facts: &Facts) -> Reading<Judged> {
    let source = facts.clock_source.as_ref()?;
    let available = facts.clock_sources.as_deref().unwrap_or_default();
    let tsc = available.split_whitespace().any(|s| s == "tsc");
    let judged = match source.as_str() {
        "tsc" | "arch_sys_counter" | "riscv_clocksource" | "stable_counter" => {
            return Ok(judged(source, Fine, "Reading the clock takes no system call."));
        }
        "kvm-clock" | "hyperv_clocksource_tsc_page" | "xen" => judged(
            source,
            Depends,
            "Reading the clock goes through a page of the hypervisor, which takes a little longer.",
        ),
        _ => judged(
            source,
            Costs,
            "Every reading of the clock is a system call, about a microsecond, and a tick reads it more than once.",
        ),
    };
    Ok(judged.change(if tsc {
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource"
    } else {
        "sudo dmesg | grep -i tsc  # why the kernel does not trust the CPU counter"
    }))
}

fn counter(facts: &Facts) -> Reading<Judged> {
    Ok(match &facts.process.why_not_counter {
        None => judged(
            "trusted",
            Fine,
            "The CPU counter runs at one rate on all CPUs, and stamps the ticks.",
        ),
        Some(why) => judged(
            "not trusted",
            Depends,
            format!("Ticks are stamped with the slower clock of the system: {why}."),
        ),
    })
}

/// Leaving an idle state that takes longer shows in the median of a sleeping ticker.
const LONG_EXIT_US: u64 = 10;

fn idle(facts: &Facts) -> Reading<Judged> {
    let states = facts.idle_states.as_ref()?;
    let Some(deepest) = states.iter().rfind(|state| !state.disabled) else {
        let why = "The kernel has no idle driver: an idle CPU halts, and in a guest the host may give it to others.";
        return Ok(judged("no idle driver", Depends, why)
            .change("boot with idle=poll, at the price of every core all the time"));
    };
    let value = format!("{}, {} us to leave", deepest.name, deepest.latency_us);
    Ok(if deepest.latency_us >= LONG_EXIT_US {
        let why = "A CPU that sleeps so deeply wakes so much later: an idle machine is later than a busy one.";
        judged(value, Costs, why).change(format!(
            "sudo cpupower idle-set -D {}  # or hold /dev/cpu_dma_latency open with 0",
            LONG_EXIT_US - 1
        ))
    } else {
        judged(value, Fine, "A sleeping CPU is back in no time.")
    })
}

fn dma_latency(facts: &Facts) -> Reading<Judged> {
    /// The kernel's word for no limit.
    const NO_LIMIT_US: i32 = 2_000_000_000;
    Ok(match *facts.dma_latency_us.as_ref()? {
        None => judged("no such device", Fine, "No program can hold the idle states of this machine to a latency."),
        Some(NO_LIMIT_US) => judged("no limit", Depends, "Nobody holds the idle states to a latency.")
            .change("exec 3<>/dev/cpu_dma_latency; printf '\\0\\0\\0\\0' >&3  # as root, in force while it is open"),
        Some(us) => judged(format!("{us} us"), Fine, "A program holds the idle states to this latency."),
    })
}

fn governor(facts: &Facts) -> Reading<Judged> {
    Ok(match facts.governor.as_ref()?.as_deref() {
        None => judged(
            "none",
            Fine,
            "This kernel does not change the CPU's frequency; in a guest, the host may.",
        ),
        Some("performance") => {
            judged("performance", Fine, "A CPU that wakes is at its full frequency.")
        }
        Some(other) => judged(
            other,
            Depends,
            "A CPU that was idle may run slowly for the first milliseconds of work.",
        )
        .change("sudo cpupower frequency-set -g performance"),
    })
}

fn energy(facts: &Facts) -> Reading<Judged> {
    Ok(match facts.energy_preference.as_ref()?.as_deref() {
        None => judged("none", Fine, "The hardware does not weigh energy against speed by a setting of this kernel."),
        Some("performance") => judged("performance", Fine, "The hardware prefers speed."),
        Some(other) => judged(other, Depends, "The hardware takes its time to raise the frequency after idle.")
            .change("echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference"),
    })
}

fn smt(facts: &Facts) -> Reading<Judged> {
    let others: Vec<usize> =
        cpu_list(facts.siblings.as_ref()?).into_iter().filter(|&cpu| cpu != facts.cpu).collect();
    Ok(if others.is_empty() {
        judged(
            format!("none of CPU {}", facts.cpu),
            Fine,
            "No other CPU that this kernel knows shares its core.",
        )
    } else {
        let why = format!("What runs on CPU {} slows down CPU {}.", list(&others), facts.cpu);
        judged(format!("CPU {} beside CPU {}", list(&others), facts.cpu), Depends, why)
            .change("echo off | sudo tee /sys/devices/system/cpu/smt/control")
    })
}

fn interrupts(facts: &Facts) -> Reading<Judged> {
    let (handled, all) = facts.interrupts.as_ref()?;
    let used: Vec<_> = handled.iter().filter(|interrupt| interrupt.count > 0).collect();
    let Some(busiest) = used.first() else {
        return Ok(judged(
            format!("none of {all} on CPU {}", facts.cpu),
            Fine,
            "No device interrupts it.",
        ));
    };
    let elsewhere = cpu_list(facts.online.as_deref().unwrap_or_default())
        .into_iter()
        .find(|&cpu| cpu != facts.cpu);
    let value = format!(
        "{} of {all} on CPU {}, most of all {} ({})",
        used.len(),
        facts.cpu,
        busiest.number,
        busiest.name
    );
    let judged = judged(
        value,
        Depends,
        "A device's interrupt, and the work that it brings, delays a tick on that CPU by microseconds.",
    );
    Ok(match elsewhere {
        Some(cpu) => judged.change(format!(
            "echo {cpu} | sudo tee /proc/irq/{}/smp_affinity_list",
            busiest.number
        )),
        None => judged,
    })
}

/// A set of CPUs from which the kernel keeps something away.
fn kept_free(
    facts: &Facts,
    set: &Reading<Option<String>>,
    from: &str,
    option: &str,
) -> Reading<Judged> {
    // A kernel without the option writes "(null)".
    let set = set.as_ref()?.as_deref().map(cpu_list).unwrap_or_default();
    let cpu = facts.cpu;
    Ok(if set.contains(&cpu) {
        judged(list(&set), Fine, format!("CPU {cpu} is kept free of {from}."))
    } else {
        let value = if set.is_empty() { "none".to_owned() } else { list(&set) };
        judged(value, Depends, format!("CPU {cpu} is not kept free of {from}."))
            .change(option.replace("{cpu}", &cpu.to_string()))
    })
}

fn isolated(facts: &Facts) -> Reading<Judged> {
    kept_free(
        facts,
        &facts.isolated,
        "other threads",
        "boot with isolcpus={cpu}, and run there with taskset -c {cpu} CMD",
    )
}

fn nohz_full(facts: &Facts) -> Reading<Judged> {
    kept_free(
        facts,
        &facts.nohz_full,
        "the kernel's tick",
        "boot with nohz_full={cpu} rcu_nocbs={cpu}",
    )
}

fn slice(facts: &Facts) -> Reading<Judged> {
    let ns = *facts.base_slice_ns.as_ref()?;
    let why = "A normal thread that wakes beside a busy one may wait for about one slice.";
    let change = "a slice of its own for the thread: sched_setattr with a runtime of 100000 ns, from Linux 6.12";
    Ok(judged(format_time(i64::try_from(ns).unwrap_or(i64::MAX)), Depends, why).change(change))
}

/// Whether a capability is among those of this process.
fn is_capable(facts: &Facts, capability: u32) -> bool {
    facts.capabilities.as_ref().is_ok_and(|bits| bits >> capability & 1 == 1)
}

const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_NICE: u32 = 23;

fn rtprio(facts: &Facts) -> Reading<Judged> {
    let may = "A real-time thread goes before every normal one; this process may have one.";
    if is_capable(facts, CAP_SYS_NICE) {
        return Ok(judged("any, by CAP_SYS_NICE", Fine, may));
    }
    Ok(match facts.rtprio.as_ref()? {
        Some(0) => judged(
            "not permitted",
            Depends,
            "A real-time thread goes before every normal one; this process may have none.",
        )
        .change("echo '* - rtprio 99' | sudo tee /etc/security/limits.d/rtprio.conf  # systemd: LimitRTPRIO=99"),
        Some(most) => judged(format!("up to {most}"), Fine, may),
        None => judged("any", Fine, may),
    })
}

fn rt_throttling(facts: &Facts) -> Reading<Judged> {
    let (runtime, period) = (*facts.rt_runtime_us.as_ref()?, *facts.rt_period_us.as_ref()?);
    let off = "sudo sysctl kernel.sched_rt_runtime_us=-1";
    Ok(if runtime < 0 || runtime >= period {
        judged("off", Fine, "A real-time thread may keep its CPU for good.")
    } else {
        let still = format_time((period - runtime).saturating_mul(1_000));
        let why = format!(
            "A real-time thread that never sleeps loses its CPU for {still} each {}; one that ticks does not notice.",
            format_time(period.saturating_mul(1_000))
        );
        judged(format!("{runtime} of {period} us"), Fine, why).change(off)
    })
}

/// Enough for a program of ordinary size.
const MUCH_MEMORY: u64 = 1 << 30;

fn memlock(facts: &Facts) -> Reading<Judged> {
    if is_capable(facts, CAP_IPC_LOCK) {
        return Ok(judged(
            "any, by CAP_IPC_LOCK",
            Fine,
            "This process may keep its memory from being paged out.",
        ));
    }
    Ok(match *facts.memlock.as_ref()? {
        Some(most) if most < MUCH_MEMORY => {
            let why = "A program that is larger cannot lock its memory, and a page that was evicted takes milliseconds to come back.";
            judged(format!("at most {} KiB", most >> 10), Depends, why)
                .change("echo '* - memlock unlimited' | sudo tee /etc/security/limits.d/memlock.conf  # systemd: LimitMEMLOCK=infinity")
        }
        _ => judged("permitted", Fine, "This process may keep its memory from being paged out."),
    })
}

fn swap(facts: &Facts) -> Reading<Judged> {
    let swaps = facts.swaps.as_ref()?;
    Ok(if swaps.is_empty() {
        judged(
            "none",
            Fine,
            "No page of a program is written out; those of its files may still be dropped.",
        )
    } else {
        let why =
            "A page that was swapped out takes milliseconds to come back, in the middle of a tick.";
        judged(swaps.join(", "), Depends, why)
            .change("sudo swapoff -a  # or lock the memory of the program: mlockall")
    })
}

fn huge_pages(facts: &Facts) -> Reading<Judged> {
    let Some(modes) = facts.huge_pages.as_ref()? else {
        return Ok(judged("none", Fine, "This kernel has no transparent huge pages."));
    };
    Ok(match between(modes, '[', ']') {
        Some("always") => judged(
            "always",
            Depends,
            "A page fault may wait for memory to be compacted, for milliseconds.",
        )
        .change("echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"),
        mode => judged(
            mode.unwrap_or(modes),
            Fine,
            "Only programs that ask for huge pages wait for them.",
        ),
    })
}

fn numa_balancing(facts: &Facts) -> Reading<Judged> {
    let nodes = facts.numa_nodes.as_ref()?.as_deref().map_or(1, |nodes| cpu_list(nodes).len());
    let on = facts.numa_balancing.as_ref()?.as_deref().is_some_and(|mode| mode != "0");
    Ok(match (on, nodes) {
        (false, _) => {
            judged("off", Fine, "The kernel does not move pages between nodes by itself.")
        }
        (true, 0 | 1) => {
            judged("on, with one node", Fine, "There is no other node to move pages to.")
        }
        (true, nodes) => judged(
            format!("on, with {nodes} nodes"),
            Costs,
            "The kernel unmaps pages to see who uses them: each use afterwards is a page fault.",
        )
        .change("sudo sysctl kernel.numa_balancing=0"),
    })
}

fn boot(facts: &Facts) -> Reading<Judged> {
    /// Those that other lines do not show.
    const KNOWN: [&str; 9] = [
        "idle=",
        "nohz=",
        "highres=",
        "clocksource=",
        "tsc=",
        "processor.max_cstate=",
        "intel_idle.max_cstate=",
        "skew_tick=",
        "threadirqs",
    ];
    let options = facts.boot_options.as_ref()?.split_whitespace();
    let found: Vec<&str> =
        options.filter(|option| KNOWN.iter().any(|known| option.starts_with(known))).collect();
    Ok(if found.is_empty() {
        judged(
            "none that matter",
            Fine,
            "The kernel was started without options for its clocks, ticks or idle states.",
        )
    } else {
        judged(
            found.join(" "),
            Fine,
            "Somebody has set up clocks, ticks or idle states on purpose.",
        )
    })
}

/// What stands between the first of two characters, as the kernel marks the one in force.
fn between(text: &str, open: char, close: char) -> Option<&str> {
    text.split_once(open)?.1.split_once(close).map(|(inside, _)| inside)
}

/// CPUs for people: the first few, and how many there are.
fn list(cpus: &[usize]) -> String {
    const MAX_LISTED_CPUS: usize = 8;
    match cpus.len() {
        0..=MAX_LISTED_CPUS => listed(cpus),
        n => format!("{}, ... ({n})", listed(&cpus[..MAX_LISTED_CPUS])),
    }
}

fn listed(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// What matters on other systems, where nothing of it can be read without their own tools.
pub fn items_of(os: &str) -> Vec<Item> {
    let notes: &[(&str, &str, &str, &str)] = match os {
        "windows" => &[
            (
                "timer-resolution",
                "timer resolution",
                "Sleeps end on the system's tick, 15.6 ms unless a program asks for less; OsInterval uses the high-resolution timer instead.",
                "timeBeginPeriod(1) in the program, for other sleeps",
            ),
            (
                "power-throttling",
                "power throttling",
                "Windows 11 may ignore a program's timer resolution and run it on slow cores while its window is hidden.",
                "SetProcessInformation(ProcessPowerThrottling) with both control bits set and the state cleared",
            ),
            (
                "power-plan",
                "power plan",
                "A CPU that was idle may run slowly for the first milliseconds of work.",
                "powercfg /setactive SCHEME_MIN",
            ),
        ],
        "macos" => &[
            (
                "quality-of-service",
                "quality of service",
                "Timers of threads of a low class are coalesced, and run on efficiency cores.",
                "pthread_set_qos_class_self_np(QOS_CLASS_USER_INTERACTIVE, 0) in the ticking thread",
            ),
            (
                "app-nap",
                "App Nap",
                "An application that shows nothing may have its timers delayed by seconds.",
                "NSProcessInfo.beginActivity with NSActivityLatencyCritical",
            ),
        ],
        _ => &[],
    };
    let why = |text: &str| text.to_owned();
    notes
        .iter()
        .map(|(key, name, what, change)| Item {
            key: why(key),
            name: why(name),
            value: None,
            not_readable: Some("osjitter does not read it on this system".to_owned()),
            weight: Depends,
            why: why(what),
            change: Some(why(change)),
        })
        .collect()
}
