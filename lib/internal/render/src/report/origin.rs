//! Provenance of the numbers of a report: machine, date and command, in a line or two.

use cli::time::format_unsigned_time;
use cli::words::{pluralize, pluralize_grouped};
use cli::wrap::wrap;
use files::report::{Load, Report};

use crate::report::command::{Command, quote_command};
use crate::report::fitness;
use files::entry::summaries;

/// Maximum number of lines of a command below a picture.
const MAX_COMMAND_LINES: usize = 8;

/// Describes when and on which machine a report was made.
pub fn origin(report: &Report) -> String {
    let machine = report.host.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!(
        "{}, {machine}, {}",
        report.started_utc,
        report.host.kernel.as_deref().unwrap_or(&report.host.os)
    )
}

/// Returns the small print of a picture, in lines of about `width` characters: machine and date, the
/// number of ticks, the verdict on the machine, and the command that repeats the measurement.
pub fn footer(report: &Report, width: usize) -> Vec<String> {
    let ticks = summaries(report).map(|summary| summary.ticks).fold(0, u64::saturating_add);
    let ticks = pluralize_grouped(ticks, "tick");
    let subjects = pluralize(report.subjects.len(), "subject");
    let mut text = wrap(&format!("{}; {ticks} of {subjects}", origin(report)), width);
    if let Some((word, why)) = fitness::describe_causes(report) {
        text += &wrap(&format!("{word}: {why}"), width);
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.extend(match Command::from_report(report) {
        Some(command) => {
            command.lines(width, MAX_COMMAND_LINES).unwrap_or_else(|| vec![Command::repeat_plan()])
        }
        None => vec![format!("{} {}", report.tool.name, report.tool.version).trim().to_owned()],
    });
    lines
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
        let lines = footer(&report, 100);
        assert!(lines[0].starts_with(&report.started_utc), "{lines:?}");
        let text = lines.join("\n");
        assert!(text.contains(" ticks of 3 subjects"), "{text}");
        assert!(text.contains("\nosjitter run --period 1ms --ticks 600 "), "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    }
}
