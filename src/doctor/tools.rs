//! Other people's tools that see what a process cannot: whether they would work here, and what
//! their results say.

use cli::exit::{self, usage};
use cli::time::format_time;
use files::report::Report;

use crate::doctor::facts::{Facts, Reading};
use crate::doctor::file::{Item, OtherTool, Weight};

/// A tool: its name, what it needs of the kernel's tracers, what it adds, and how it is run.
struct Known {
    name: &'static str,
    package: &'static str,
    tracer: Option<&'static str>,
    adds: &'static str,
    command: &'static str,
}

const KNOWN: [Known; 3] = [
    Known {
        name: "rtla",
        package: "rtla",
        tracer: Some("timerlat"),
        adds: "Splits each wake-up into the interrupt, the thread and what stood in its way.",
        command: "sudo rtla timerlat hist -d 1m > rt.txt; osjitter doctor --import rt.txt",
    },
    Known {
        name: "hwlatdetect",
        package: "rt-tests",
        tracer: Some("hwlat"),
        adds: "Finds gaps that firmware or the hypervisor makes, with interrupts off.",
        command: "sudo hwlatdetect --duration 2m > hw.txt; osjitter doctor --import hw.txt",
    },
    Known {
        name: "cyclictest",
        package: "rt-tests",
        tracer: None,
        adds: "Measures a sleeping real-time thread on each CPU; what people quote figures of.",
        command: "sudo cyclictest -q -m -p 80 -a -t -D 1m -h 400 --json=c.json && osjitter doctor --import c.json",
    },
];

/// The names that are looked for.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

/// Each tool, with what stands in its way.
pub fn tools(facts: &Facts) -> Vec<OtherTool> {
    let tool = |known: &Known| {
        let installed = facts
            .installed
            .iter()
            .find(|(name, _)| *name == known.name)
            .map(|(_, path)| path.clone());
        let missing = installed
            .is_none()
            .then(|| format!("not installed: sudo apt install {}", known.package));
        let obstacles: Vec<String> =
            missing.into_iter().chain(obstacle(known, &facts.tracers)).collect();
        OtherTool {
            name: known.name.to_owned(),
            installed: installed.map(|path| path.display().to_string()),
            obstacles,
            adds: known.adds.to_owned(),
            command: known.command.to_owned(),
        }
    };
    KNOWN.iter().map(tool).collect()
}

/// What the kernel lacks for it.
fn obstacle(known: &Known, tracers: &Reading<String>) -> Option<String> {
    let tracer = known.tracer?;
    match tracers {
        Ok(there) if there.split_whitespace().any(|name| name == tracer) => None,
        Ok(_) => Some(format!("this kernel has no {tracer} tracer")),
        Err(why) if why.ends_with("permission denied") => {
            Some("only root can see the kernel's tracers".to_owned())
        }
        Err(why) => Some(format!("the kernel's tracers are not readable: {why}")),
    }
}

/// A spinning thread that does not run for longer than this was kept from it.
const GAP_NS: i64 = 20_000;

/// What the result of another tool says about the machine.
pub fn imported(file: &str, report: &Report) -> exit::Result<Item> {
    let tool = report.tool.name.as_str();
    let worst = report
        .subjects
        .iter()
        .filter_map(|s| Some((s, s.summary.as_ref()?)))
        .max_by_key(|(_, m)| m.lateness_ns.max);
    let max_ns = worst.map_or(0, |(_, summary)| summary.lateness_ns.max);
    let at = worst.map_or(String::new(), |(subject, _)| format!(" ({})", subject.id));
    let late = if max_ns > GAP_NS { Weight::Costs } else { Weight::Fine };
    let below = "Nothing above the firmware and the hypervisor can have made these gaps, and no setting here avoids them.";
    let (value, weight, why) = match (tool, worst) {
        ("hwlatdetect", None) => (
            "no gap found".to_owned(),
            Weight::Fine,
            "Firmware and hypervisor left the CPUs alone.",
        ),
        ("hwlatdetect", Some((_, gaps))) => {
            (format!("{} gaps, up to {}", gaps.ticks, format_time(max_ns)), Weight::Costs, below)
        }
        ("oslat" | "rtla osnoise", _) => {
            let why = "A busy loop stood still so long: for an interrupt, the kernel, or what is below it.";
            (format!("gaps up to {}{at}", format_time(max_ns)), late, why)
        }
        ("cyclictest" | "jitterdebugger", _) => {
            let why = "A sleeping thread was at most so late, with the priority that it was given.";
            (format!("up to {} late{at}", format_time(max_ns)), late, why)
        }
        ("rtla timerlat", _) => {
            let why = "A timer's interrupt, or the thread that it wakes, was at most so late: this is the part of a tick that no runtime can shorten.";
            (format!("up to {} late{at}", format_time(max_ns)), late, why)
        }
        _ => return Err(usage!("{file} is a result of {tool}; show it with osjitter report")),
    };
    Ok(Item {
        key: format!("imported-{}", tool.replace(' ', "-")),
        name: format!("{tool} in {file}"),
        value: Some(value),
        not_readable: None,
        weight,
        why: why.to_owned(),
        change: None,
    })
}
