//! Tools of other projects that measure below the level of a process: checks whether they would
//! work here, and summarizes their results.

use cli::exit::{self, usage};
use cli::time::format_time;
use cli::words::pluralize;
use files::report::Report;
use interop::unit::UNIT_WARNING;
use render::report::table::warning_sentences;

use crate::doctor::facts::{MachineFacts, Reading};
use crate::doctor::file::{Item, OtherTool, Weight};

/// A tool that can add to a checkup.
struct KnownTool {
    name: &'static str,
    /// The Debian package that contains it.
    package: &'static str,
    /// The kernel tracer that it requires, if any.
    tracer: Option<&'static str>,
    /// Information that it adds.
    adds: &'static str,
    /// The command that runs it and imports its result.
    command: &'static str,
}

const KNOWN_TOOLS: [KnownTool; 3] = [
    KnownTool {
        name: "rtla",
        package: "rtla",
        tracer: Some("timerlat"),
        adds: "Splits each wake-up into the interrupt, the thread and the interference.",
        command: "sudo rtla timerlat hist -d 1m > rt.txt; osjitter doctor --import rt.txt",
    },
    KnownTool {
        name: "hwlatdetect",
        package: "rt-tests",
        tracer: Some("hwlat"),
        adds: "Finds gaps caused by firmware or the hypervisor, with interrupts off.",
        command: "sudo hwlatdetect --duration 2m > hw.txt; osjitter doctor --import hw.txt",
    },
    KnownTool {
        name: "cyclictest",
        package: "rt-tests",
        tracer: None,
        adds: "Measures a sleeping real-time thread on each CPU: the most quoted figures.",
        command: "sudo cyclictest -q -m -p 80 -a -t -D 1m -h 400 --json=c.json && osjitter doctor --import c.json",
    },
];

/// Returns the names of the known tools.
pub fn names() -> impl Iterator<Item = &'static str> {
    KNOWN_TOOLS.iter().map(|tool| tool.name)
}

/// Lists the known tools, each with the obstacles to using it here.
pub fn check_tools(facts: &MachineFacts) -> Vec<OtherTool> {
    KNOWN_TOOLS.iter().map(|tool| check_tool(tool, facts)).collect()
}

fn check_tool(tool: &KnownTool, facts: &MachineFacts) -> OtherTool {
    let installed = facts.installed.iter().find(|(name, _)| *name == tool.name);
    let missing =
        installed.is_none().then(|| format!("not installed: sudo apt install {}", tool.package));
    let no_tracer = tracer_obstacle(tool, &facts.tracers);
    OtherTool {
        name: tool.name.to_owned(),
        installed: installed.map(|(_, path)| path.display().to_string()),
        obstacles: missing.into_iter().chain(no_tracer).collect(),
        adds: tool.adds.to_owned(),
        command: tool.command.to_owned(),
    }
}

/// Returns why the kernel's tracers are of no use to the tool, if they are not.
fn tracer_obstacle(tool: &KnownTool, tracers: &Reading<String>) -> Option<String> {
    let tracer = tool.tracer?;
    match tracers {
        Ok(names) if names.split_whitespace().any(|name| name == tracer) => None,
        Ok(_) => Some(format!("this kernel has no {tracer} tracer")),
        Err(why) if why.is_permission_denied() => {
            Some("only root can see the kernel's tracers".to_owned())
        }
        Err(why) => Some(format!("the kernel's tracers are not readable: {why}")),
    }
}

/// Longest lateness or gap that is still rated as fine.
const MAX_FINE_NS: i64 = 20_000;

/// Assessment of the result of another tool.
struct Finding {
    value: String,
    weight: Weight,
    why: &'static str,
}

/// Hint for an assumed unit, which no flag of this command states.
const UNIT_HINT: &str = "With -N they are nanoseconds; the file of --json states it.";

/// Start of the keys of imported results.
const IMPORTED: &str = "imported-";

/// Returns whether an item is the result of another tool.
pub fn is_imported(item: &Item) -> bool {
    item.key.starts_with(IMPORTED)
}

/// Turns the result of another tool into an item of the checkup.
///
/// # Errors
/// Returns an error if the result is incomplete, or shows nothing about the machine.
pub fn import_item(file: &str, report: &Report) -> exit::Result<Item> {
    let tool = report.tool.name.as_str();
    if let Some(warning) = interop::omission(report) {
        return Err(usage!("{file}: {}", warning_sentences(warning)));
    }
    let has_value = report.subjects.iter().any(|subject| subject.summary.is_some());
    if tool != "hwlatdetect" && tool != "rtla osnoise" && !has_value {
        return Err(usage!("{file} is a result of {tool} without a value"));
    }
    let Some(finding) = assess_result(tool, report) else {
        return Err(usage!("{file} is a result of {tool}; show it with osjitter report"));
    };
    let assumed_unit = report.warnings.iter().find(|warning| warning.code == UNIT_WARNING);
    let why = assumed_unit.map_or(finding.why.to_owned(), |warning| {
        format!("{} {} {UNIT_HINT}", finding.why, warning.message)
    });
    Ok(Item {
        key: format!("{IMPORTED}{}", tool.replace(' ', "-")),
        name: format!("{tool} in {file}"),
        value: Some(finding.value),
        not_readable: None,
        weight: finding.weight,
        why,
        change: None,
    })
}

/// The largest lateness or gap of a result, and the subject that has it.
struct Worst<'a> {
    subject: &'a str,
    max_ns: i64,
    /// Number of ticks or gaps of the subject.
    count: u64,
}

impl<'a> Worst<'a> {
    /// Returns the worst of all measured subjects.
    fn from_report(report: &'a Report) -> Option<Self> {
        let mut worst: Option<Self> = None;
        for subject in &report.subjects {
            let Some(summary) = &subject.summary else { continue };
            let (max_ns, count) = (summary.lateness_ns.max, summary.ticks);
            if worst.as_ref().is_none_or(|other| max_ns >= other.max_ns) {
                worst = Some(Self { subject: &subject.id, max_ns, count });
            }
        }
        worst
    }

    fn weight(&self) -> Weight {
        if self.max_ns > MAX_FINE_NS { Weight::Costs } else { Weight::Fine }
    }
}

/// Assesses the worst subject of a result; `None` if the tool shows nothing about the machine.
fn assess_result(tool: &str, report: &Report) -> Option<Finding> {
    let worst = Worst::from_report(report);
    let why_no_gap = match tool {
        "hwlatdetect" => "Firmware and hypervisor left the CPUs alone.",
        "rtla osnoise" => "Nothing stopped a busy loop for longer than the threshold.",
        _ => return assess_values(tool, &worst?),
    };
    if let Some(worst) = worst {
        return assess_values(tool, &worst);
    }
    let mut reasons = report.subjects.iter().filter_map(|subject| subject.status.failure());
    let value = reasons.next_back().unwrap_or("no gap found").to_owned();
    Some(match report.duration_ns {
        0 => Finding {
            value,
            weight: Weight::Unknown,
            why: "The output does not state a time in which gaps were searched for.",
        },
        _ => Finding { value, weight: Weight::Fine, why: why_no_gap },
    })
}

/// Assesses a result with values.
fn assess_values(tool: &str, worst: &Worst<'_>) -> Option<Finding> {
    let (max, subject) = (format_time(worst.max_ns), worst.subject);
    if tool == "hwlatdetect" {
        return Some(Finding {
            value: format!("{}, up to {max}", pluralize(worst.count, "gap")),
            weight: Weight::Costs,
            why: "Firmware or the hypervisor caused these gaps; no setting of this system avoids them.",
        });
    }
    let (value, why) = match tool {
        "oslat" | "rtla osnoise" => (
            format!("gaps up to {max} ({subject})"),
            "Longest time that a busy loop was stopped by interrupts, the kernel, firmware or the hypervisor.",
        ),
        "cyclictest" | "jitterdebugger" | "xenomai-latency" => (
            format!("up to {max} late ({subject})"),
            "Maximum lateness of a sleeping thread at the priority that the tool gave it.",
        ),
        "rtla timerlat" => (
            format!("up to {max} late ({subject})"),
            "Maximum lateness of a timer's interrupt, or of the thread that it wakes: the part of a tick that no runtime can shorten.",
        ),
        _ => return None,
    };
    Some(Finding { value, weight: worst.weight(), why })
}
