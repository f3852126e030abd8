//! Provenance of the numbers of a report: machine, date and command, in a line or two.

use std::time::Duration;

use cli::time::format_time;
use cli::units;
use files::report::{Load, Report, Scenario};

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
    let measured = report.subjects.iter().filter_map(|s| s.summary.as_ref());
    let ticks: u64 = measured.map(|s| s.ticks).fold(0, u64::saturating_add);
    let by = command(report).unwrap_or(tool);
    let subjects = report.subjects.len();
    Footer {
        origin: origin(report),
        content: format!("{} ticks of {subjects} subjects; {}", group_digits(ticks), by.trim()),
    }
}

/// Returns the command that repeats the measurement, if the report was made by osjitter.
fn command(report: &Report) -> Option<String> {
    if let Some(trace) = &report.trace {
        let what = trace.command.as_ref().map_or_else(
            || format!("--pid {}", trace.process),
            |words| format!("-- {}", quote_command(words)),
        );
        return Some(format!("osjitter trace {what}"));
    }
    let scenarios = &report.plan.scenarios;
    let first = scenarios.first().filter(|_| report.tool.name == "osjitter")?;
    let flags = |flag: &str, value: &dyn Fn(&Scenario) -> Option<String>| -> String {
        let mut seen = std::collections::BTreeSet::new();
        let each = scenarios.iter().filter_map(value).filter(|value| seen.insert(value.clone()));
        each.map(|value| format!(" --{flag} {value}")).collect()
    };
    let periods =
        flags("period", &|s| Some(units::format_exact_duration(Duration::from_nanos(s.period_ns))));
    let runtimes =
        flags("runtime", &|s| s.runtime.clone().filter(|runtime| runtime != "current-thread"));
    let loads: std::collections::BTreeSet<_> =
        scenarios.iter().map(|s| s.load.as_deref()).collect();
    let quoted = |text: &str| {
        shlex::try_quote(text).map_or_else(|_| text.to_owned(), |quoted| quoted.into_owned())
    };
    let load =
        flags("load", &|s| s.load.as_deref().or((loads.len() > 1).then_some("none")).map(quoted));
    let instances = flags("instances", &|s| (s.instances > 1).then(|| s.instances.to_string()));
    let same = scenarios.iter().all(|s| s.ticks == first.ticks);
    let ticks =
        if same { format!(" --ticks {}", first.ticks) } else { " --plan report.json".to_owned() };
    let subjects = flags("subject", &|s| s.command.is_none().then(|| s.subject.clone()));
    let commands = flags("command", &|s| Some(quoted(&quote_command(s.command.as_ref()?))));
    Some(format!("osjitter run{periods}{runtimes}{load}{instances}{ticks}{subjects}{commands}"))
}

/// Quotes a command for a shell.
fn quote_command(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

/// Describes the commands of subjects whose name does not show the command: by name, or by id if
/// several commands share a name.
pub fn commands(report: &Report) -> Vec<String> {
    let with_command =
        || report.plan.scenarios.iter().filter_map(|s| Some((s, s.command.as_ref()?)));
    let mut sentences = Vec::new();
    for (scenario, words) in with_command() {
        let is_unique = with_command()
            .all(|(other, command)| other.subject != scenario.subject || command == words);
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
    let ns = |ns: u64| format_time(i64::try_from(ns).unwrap_or(i64::MAX));
    let cpu = ns(load.cpu_ns?);
    Some(format!(
        "load {}: {cpu} of CPU time for {} of rounds, in no subject's cost",
        load.load,
        ns(load.active_ns)
    ))
}

/// Describes the cost of osjitter's own work per tick.
pub fn observer(report: &Report) -> Option<String> {
    let ns = i64::try_from(report.clock.observer_ns_per_tick?).unwrap_or(i64::MAX);
    Some(format!("stamping costs {} a tick", format_time(ns)))
}

/// Formats a count with its digits in groups of three.
pub fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| std::str::from_utf8(g).ok()).collect();
    groups.join(",")
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
        assert_eq!([7, 1_000, 12_345_678].map(group_digits), ["7", "1,000", "12,345,678"]);
    }
}
