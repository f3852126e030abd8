//! Reads and assesses machines whose files are in a temporary directory.

use engine::machine::host;
use engine::machine::os::cpu_list;

use super::facts::{MachineFacts, ProcessFacts};
use super::file::{Checkup, Item, Weight};
use super::{judge, text, tools, unread_settings};
use files::file::File as _;

const CPU: &str = "sys/devices/system/cpu";

/// A directory with the files of a machine.
struct Machine(tempfile::TempDir);

impl Machine {
    fn with(files: &[(&str, &str)]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for (file, content) in files {
            machine.put(file, content);
        }
        machine
    }

    fn put(&self, file: &str, content: &str) {
        let path = self.0.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    fn items(&self, process: ProcessFacts) -> Vec<Item> {
        judge::items(&MachineFacts::read(self.0.path(), process, 3))
    }

    fn item(&self, key: &str) -> Item {
        self.items(ProcessFacts::default()).into_iter().find(|item| item.key == key).unwrap()
    }
}

/// Returns the value, or the reason for which it is not readable, and the weight.
fn value_and_weight(item: &Item) -> (&str, Weight) {
    (item.value.as_deref().or(item.not_readable.as_deref()).unwrap(), item.weight)
}

/// A machine on which every item is bad.
fn worst_machine() -> Machine {
    let idle = |n: u8, file: &str| format!("{CPU}/cpu3/cpuidle/state{n}/{file}");
    let machine = Machine::with(&[
        ("proc/self/cgroup", "0::/user.slice\n"),
        ("sys/fs/cgroup/user.slice/cpu.max", "20000 100000\n"),
        ("proc/cpuinfo", "processor : 0\nflags : fpu hypervisor tsc\n"),
        ("sys/class/dmi/id/sys_vendor", "QEMU\n"),
        ("proc/stat", "cpu  100 0 100 700 0 0 0 100 0 0\n"),
        (".dockerenv", ""),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Debian\n"),
        ("sys/kernel/debug/sched/preempt", "none (voluntary) full lazy\n"),
        ("sys/kernel/debug/sched/base_slice_ns", "2800000\n"),
        ("sys/kernel/sched_ext/state", "enabled\n"),
        ("sys/kernel/sched_ext/root/ops", "scx_rusty\n"),
        ("proc/cmdline", "root=/dev/sda nohz=off quiet\n"),
        (
            "proc/self/limits",
            "Limit  Soft  Hard  Units\nMax locked memory  8388608  8388608  bytes\nMax realtime priority  0  0\n",
        ),
        ("proc/self/status", "Name: x\nCapEff:\t0000000000000000\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        (
            "proc/interrupts",
            "     CPU0  CPU3\n 24:  0  5  IO-APIC  eth0\n 25:  9  7  PCI-MSI  nvme0q1\n 26:  1  0  PCI-MSI  other\nLOC: 9  9  Local timer interrupts\n",
        ),
        ("proc/irq/24/effective_affinity_list", "3\n"),
        ("proc/irq/25/smp_affinity_list", "0-3\n"),
        ("proc/irq/26/effective_affinity_list", "0\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n"),
        ("sys/devices/system/node/online", "0-1\n"),
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("proc/swaps", "Filename Type Size Used Priority\n/swapfile file 1 0 -2\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
        ("sys/devices/system/clocksource/clocksource0/available_clocksource", "tsc hpet acpi_pm\n"),
        ("sys/devices/system/cpu/isolated", "\n"),
        ("sys/devices/system/cpu/nohz_full", "(null)\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/scaling_governor", "powersave\n"),
        ("sys/devices/system/cpu/cpu3/cpufreq/energy_performance_preference", "balance_power\n"),
        ("sys/devices/system/cpu/cpu3/topology/thread_siblings_list", "1,3\n"),
    ]);
    for (n, name, latency, disable) in
        [(0, "POLL", "0", "0"), (1, "C1", "2", "0"), (2, "C6", "133", "0"), (3, "C10", "900", "1")]
    {
        machine.put(&idle(n, "name"), name);
        machine.put(&idle(n, "latency"), latency);
        machine.put(&idle(n, "disable"), disable);
    }
    std::fs::create_dir_all(machine.0.path().join("dev")).unwrap();
    std::fs::write(machine.0.path().join("dev/cpu_dma_latency"), 2_000_000_000_i32.to_ne_bytes())
        .unwrap();
    machine
}

#[test]
fn worst_machine_gets_expected_items() {
    let process = ProcessFacts {
        timer_slack_ns: Some(10_000_000),
        timer_steps: Some(engine::machine::os::TimerSteps {
            timer_ns: 4_000_000,
            tick_ns: 4_000_000,
        }),
        affinity: Some(vec![2, 3]),
        why_not_counter: Some("the kernel gave it up".to_owned()),
        ..ProcessFacts::default()
    };
    let items = worst_machine().items(process);
    let expected = [
        ("quota", "0.20 CPUs", Weight::Costs),
        ("cpus", "4", Weight::Fine),
        ("hypervisor", "yes, QEMU", Weight::Depends),
        ("steal", "10.0 % since boot", Weight::Costs),
        ("container", "docker", Weight::Depends),
        ("preemption", "dynamic: voluntary", Weight::Costs),
        ("sched-ext", "scx_rusty", Weight::Depends),
        ("timer-slack", "10.0 ms", Weight::Costs),
        ("timers", "steps of 4.00 ms", Weight::Costs),
        ("hz", "250, one tick per 4.00 ms", Weight::Depends),
        ("clock-source", "hpet", Weight::Costs),
        ("counter", "not trusted", Weight::Depends),
        ("idle", "C6, 133 us to leave", Weight::Costs),
        ("dma-latency", "no limit", Weight::Depends),
        ("governor", "powersave", Weight::Depends),
        ("energy", "balance_power", Weight::Depends),
        ("smt", "CPU 1 shares the core of CPU 3", Weight::Depends),
        ("interrupts", "2 of 3 on CPU 3, most often 25 (nvme0q1)", Weight::Depends),
        ("isolated", "none", Weight::Depends),
        ("nohz-full", "none", Weight::Depends),
        ("slice", "2.80 ms", Weight::Depends),
        ("rtprio", "not permitted", Weight::Depends),
        ("rt-throttling", "950000 of 1000000 us", Weight::Fine),
        ("memlock", "at most 8192 KiB", Weight::Depends),
        ("swap", "/swapfile", Weight::Depends),
        ("huge-pages", "always", Weight::Depends),
        ("numa-balancing", "on, with 2 nodes", Weight::Costs),
        ("cpuset", "2 of 4 CPUs: 2,3", Weight::Depends),
        ("boot", "nohz=off", Weight::Fine),
    ];
    let found = items.iter().map(|item| (item.key.as_str(), value_and_weight(item).0, item.weight));
    assert_eq!(found.collect::<Vec<_>>(), expected);
    for item in items.iter().filter(|item| matches!(item.weight, Weight::Costs | Weight::Depends)) {
        assert!(item.change.is_some() || item.key == "counter", "{item:?}");
    }
}

#[test]
fn unreadable_items_have_unknown_weight() {
    let items = Machine::with(&[]).items(ProcessFacts::default());
    let known = items.iter().filter(|item| item.weight != Weight::Unknown);
    // A machine without a marker file counts as no container, and the counter as trusted unless
    // there is a reason against it.
    assert_eq!(known.map(|item| item.key.as_str()).collect::<Vec<_>>(), ["container", "counter"]);
    for item in items.iter().filter(|i| i.weight == Weight::Unknown) {
        assert!(item.value.is_none() && item.change.is_none(), "{item:?}");
        let reason = item.not_readable.as_deref().unwrap();
        assert!(
            reason.ends_with(": not there") || reason == "the system does not report it",
            "{}: {reason}",
            item.key
        );
    }
}

#[test]
fn missing_features_differ_from_hidden_ones() {
    let machine = Machine::with(&[
        ("sys/kernel/x", ""),
        ("sys/devices/x", ""),
        (&format!("{CPU}/cpu3/x"), ""),
    ]);
    assert_eq!(value_and_weight(&machine.item("sched-ext")), ("off", Weight::Fine));
    assert_eq!(value_and_weight(&machine.item("governor")), ("none", Weight::Fine));
    assert_eq!(value_and_weight(&machine.item("idle")), ("no idle driver", Weight::Depends));
    assert_eq!(machine.item("numa-balancing").weight, Weight::Unknown, "/proc is hidden");
}

#[test]
fn good_settings_are_fine() {
    let machine = Machine::with(&[
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n"),
        ("proc/self/status", "CapEff:\t0000000000804000\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000"),
        ("sys/devices/system/cpu/isolated", "2-3"),
        ("sys/devices/system/cpu/nohz_full", "3"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc"),
        ("proc/self/cgroup", "0::/\n"),
    ]);
    for key in [
        "preemption", "rtprio", "memlock", "rt-throttling", "isolated", "nohz-full",
        "clock-source", "quota",
    ] {
        assert_eq!(machine.item(key).weight, Weight::Fine, "{key}");
    }
}

#[test]
fn boot_options_select_preemption_mode() {
    let mode = |options: &str| {
        let machine = Machine::with(&[
            ("proc/sys/kernel/version", "#1 PREEMPT_DYNAMIC"),
            ("proc/cmdline", options),
        ]);
        let item = machine.item("preemption");
        (item.value.unwrap(), item.weight)
    };
    assert_eq!(mode("preempt=lazy"), ("dynamic: lazy".to_owned(), Weight::Depends));
    assert_eq!(mode("quiet"), ("dynamic".to_owned(), Weight::Depends));
    assert_eq!(mode("preempt=full"), ("dynamic: full".to_owned(), Weight::Fine));
}

#[test]
fn other_systems_have_unread_items() {
    let keys =
        |os: &str| unread_settings::items(os).into_iter().map(|item| item.key).collect::<Vec<_>>();
    assert_eq!(keys("windows"), ["timer-resolution", "power-throttling", "power-plan"]);
    assert_eq!(keys("macos"), ["quality-of-service", "app-nap"]);
    assert!(
        unread_settings::items("windows")
            .iter()
            .all(|item| item.value.is_none() && item.not_readable.is_some())
    );
}

#[test]
fn cpu_lists_are_parsed() {
    assert_eq!(cpu_list("0-2,7\n"), [0, 1, 2, 7]);
    assert_eq!(cpu_list("(null)"), [0_usize; 0]);
    assert_eq!(cpu_list(""), [0_usize; 0]);
}

#[test]
fn schema_matches_model() {
    files::model::check_schema("osjitter.doctor.1.json", &Checkup::json_schema());
}

fn worst_checkup() -> Checkup {
    let machine = worst_machine();
    machine.put("run/systemd/container", "lx\u{1b}[2Jc");
    Checkup {
        schema: String::new(),
        tool: host::tool(),
        started_utc: String::new(),
        host: host::capture(),
        cpu: 3,
        items: machine.items(ProcessFacts::default()),
        tools: Vec::new(),
        proof: None,
    }
}

#[test]
fn worst_items_come_first() {
    let table = render::document::terminal::render(&text::document(&worst_checkup()), 80);
    let parts = ["Makes ticks late here", "quota", "May make", "\nFine"];
    let positions =
        parts.map(|part| table.find(part).unwrap_or_else(|| panic!("{part} in {table}")));
    assert!(positions.is_sorted(), "{positions:?} in {table}");
    assert!(table.contains("    > echo max | sudo tee "), "{table}");
}

#[test]
fn markdown_contains_no_escape_sequences() {
    let made = render::formats::make(
        "a checkup",
        &text::FORMATS,
        render::formats::Format::Markdown,
        &worst_checkup(),
    );
    let shown = String::from_utf8(made.unwrap().into_bytes()).unwrap();
    assert!(!shown.contains('\u{1b}') && shown.contains("- CPU quota: 0.20 CPUs"), "{shown}");
}

#[test]
fn obstacles_of_tools_are_listed() {
    let machine = Machine::with(&[("usr/sbin/hwlatdetect", ""), ("usr/bin/cyclictest", "")]);
    let obstacles = || {
        let tool_names = tools::names().map(str::to_owned).collect();
        let found = tools::check_tools(&MachineFacts::read(
            machine.0.path(),
            ProcessFacts { tool_names, ..ProcessFacts::default() },
            0,
        ));
        found.into_iter().map(|tool| tool.obstacles.join("; ")).collect::<Vec<_>>()
    };
    let hidden =
        "the kernel's tracers are not readable: /sys/kernel/tracing/available_tracers: not there";
    assert_eq!(
        obstacles(),
        [&format!("not installed: sudo apt install rtla; {hidden}"), hidden, ""]
    );
    machine.put("sys/kernel/debug/tracing/available_tracers", "function hwlat nop");
    let lacks = "not installed: sudo apt install rtla; this kernel has no timerlat tracer";
    assert_eq!(obstacles(), [lacks, "", ""]);
}
