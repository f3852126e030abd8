//! Provenance of the numbers of a report: machine, date and command, in a line or two.

use std::collections::BTreeSet;

use cli::time::format_unsigned_time;
use cli::units::format_exact_ns;
use cli::words::{pluralize, pluralize_grouped};
use files::report::{Load, OWN_TOOL, Report, Scenario, Trace};

use crate::report::entry::summaries;

/// Describes when and on which machine a report was made.
pub fn origin(report: &Report) -> String {
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!(
        "{}, {machine}, {}",
        report.started_utc,
        report.host.kernel.as_deref().unwrap_or(&report.host.os)
    )
}

/// The two lines below a picture.
pub struct Footer {
    /// Machine and date.
    pub origin: String,
    /// The number of ticks and subjects, and the command that measured them.
    pub content: String,
}

/// Returns the footer of the pictures of a report.
pub fn footer(report: &Report) -> Footer {
    let tool = format!("{} {}", report.tool.name, report.tool.version);
    let ticks = summaries(report).map(|summary| summary.ticks).fold(0, u64::saturating_add);
    let by = command(report).unwrap_or(tool);
    let subjects = report.subjects.len();
    Footer {
        origin: origin(report),
        content: format!(
            "{} of {}; {}",
            pluralize_grouped(ticks, "tick"),
            pluralize(subjects, "subject"),
            by.trim()
        ),
    }
}

/// Returns the command that repeats the measurement, if the report was made by osjitter.
fn command(report: &Report) -> Option<String> {
    if let Some(trace) = &report.trace {
        return Some(trace_command(trace));
    }
    let scenarios = &report.plan.scenarios;
    if report.tool.name != OWN_TOOL || scenarios.is_empty() {
        return None;
    }
    let periods = flags(scenarios, "period", |s| Some(format_exact_ns(s.period_ns)));
    let runtimes = flags(scenarios, "runtime", runtime_flag);
    let loads: BTreeSet<Option<&str>> = scenarios.iter().map(|s| s.load.as_deref()).collect();
    let unloaded = (loads.len() > 1).then_some("none");
    let load = flags(scenarios, "load", |s| s.load.as_deref().or(unloaded).map(quote_word));
    let instances = flags(scenarios, "instances", instances_flag);
    let ticks = ticks_flag(scenarios);
    let subjects = flags(scenarios, "subject", subject_flag);
    let commands = flags(scenarios, "command", command_flag);
    Some(format!("osjitter run{periods}{runtimes}{load}{instances}{ticks}{subjects}{commands}"))
}

fn trace_command(trace: &Trace) -> String {
    match &trace.command {
        Some(words) => format!("osjitter trace -- {}", quote_command(words)),
        None => format!("osjitter trace --pid {}", trace.process),
    }
}

/// Formats a flag for each distinct value of the scenarios.
fn flags(
    scenarios: &[Scenario],
    flag: &str,
    value: impl Fn(&Scenario) -> Option<String>,
) -> String {
    let mut values: Vec<String> = Vec::new();
    for value in scenarios.iter().filter_map(value) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.iter().map(|value| format!(" --{flag} {value}")).collect()
}

fn runtime_flag(scenario: &Scenario) -> Option<String> {
    scenario.runtime.clone().filter(|runtime| runtime != "current-thread")
}

fn instances_flag(scenario: &Scenario) -> Option<String> {
    if scenario.instances > 1 { Some(scenario.instances.to_string()) } else { None }
}

/// Returns the number of ticks, or the plan if the numbers differ.
fn ticks_flag(scenarios: &[Scenario]) -> String {
    let ticks = scenarios[0].ticks;
    if scenarios.iter().all(|scenario| scenario.ticks == ticks) {
        format!(" --ticks {ticks}")
    } else {
        " --plan report.json".to_owned()
    }
}

fn subject_flag(scenario: &Scenario) -> Option<String> {
    if scenario.command.is_none() { Some(scenario.subject.clone()) } else { None }
}

fn command_flag(scenario: &Scenario) -> Option<String> {
    Some(quote_word(&quote_command(scenario.command.as_ref()?)))
}

/// Quotes a text for a shell.
fn quote_word(text: &str) -> String {
    match shlex::try_quote(text) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => text.to_owned(),
    }
}

/// Quotes a command for a shell.
fn quote_command(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Describes the commands of subjects whose name does not show the command: by name, or by id if
/// several commands share a name.
pub fn commands(report: &Report) -> Vec<String> {
    let scenarios = &report.plan.scenarios;
    let mut sentences = Vec::new();
    for scenario in scenarios {
        let Some(words) = &scenario.command else { continue };
        let mut namesakes = scenarios.iter().filter(|other| other.subject == scenario.subject);
        let is_unique = namesakes.all(|other| other.command.as_ref().is_none_or(|c| c == words));
        let name = if is_unique { &scenario.subject } else { &scenario.id };
        let sentence = format!("{name} is {}", quote_command(words));
        if *words != [name.as_str()] && !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    sentences
}

/// Describes the CPU time used by a load, if it is known.
pub fn load(load: &Load) -> Option<String> {
    Some(format!(
        "load {}: used {} of CPU time in {} of rounds, which is not part of any subject's cost",
        load.load,
        format_unsigned_time(load.cpu_ns?),
        format_unsigned_time(load.active_ns)
    ))
}

/// Describes the cost of osjitter's own work per tick.
pub fn observer(report: &Report) -> Option<String> {
    let ns = report.clock.observer_ns_per_tick?;
    Some(format!("taking timestamps costs {} per tick", format_unsigned_time(ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use files::file::File as _;

    #[test]
    fn footer_names_machine_and_command() {
        let report = Report::from_json(include_str!("../../../../../tests/fixtures/report.json"))
            .expect("a report");
        let Footer { origin, content } = footer(&report);
        assert!(origin.starts_with(&report.started_utc), "{origin}");
        assert!(
            content.contains(" ticks of ")
                && content.contains("osjitter run --period 1ms --ticks "),
            "{content}"
        );
    }
}
