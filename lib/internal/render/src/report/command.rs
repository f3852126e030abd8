//! The shortest command that repeats the measurement of a report.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cli::units::format_exact_ns;
use files::report::{OWN_TOOL, Plan, Report, Scenario, Trace, defaults};
use files::subjects::{DefaultSelection, SLEEPING_CONTROL, SubjectInfo, defaults_of};

/// A command that repeats the plan in a report next to it, for plans that no flags describe.
const REPEAT_PLAN: &str = "--plan report.json";

/// A command line of osjitter, as parts that belong together: a flag and its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    parts: Vec<String>,
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.parts.join(" "))
    }
}

impl Command {
    /// Creates the command of a report; `None` if another tool made it.
    pub fn from_report(report: &Report) -> Option<Self> {
        if let Some(trace) = &report.trace {
            return Some(Self { parts: trace_parts(trace) });
        }
        if report.tool.name != OWN_TOOL || report.plan.scenarios.is_empty() {
            return None;
        }
        Some(Self::from_plan(&report.plan))
    }

    /// Creates the command of a plan from the flags that differ from their defaults.
    fn from_plan(plan: &Plan) -> Self {
        let mut parts = vec!["osjitter run".to_owned()];
        match scenario_flags(&plan.scenarios) {
            Some(flags) => {
                parts.extend(flags);
                parts.extend(plan_flags(plan));
                parts.extend(program_flags(&plan.scenarios));
            }
            // The file has the settings as well, and a program would replace all of its targets.
            None => parts.push(REPEAT_PLAN.to_owned()),
        }
        Self { parts }
    }

    /// Returns the parts that belong together: the subcommand, each flag with its value, and the
    /// program.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }

    /// Breaks the command into at most `max_lines` lines of `width` characters, which a shell joins
    /// again; `None` if the command is longer.
    pub fn lines(&self, width: usize, max_lines: usize) -> Option<Vec<String>> {
        let lines = break_lines(&self.parts, width);
        if lines.len() <= max_lines { Some(lines) } else { None }
    }

    /// Returns the command that repeats the plan of a report next to it.
    pub fn repeat_plan() -> String {
        format!("osjitter run {REPEAT_PLAN}")
    }
}

fn break_lines(parts: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for part in parts {
        match lines.last_mut() {
            // The continuation takes two characters.
            Some(line) if line.chars().count() + part.chars().count() + 3 <= width => {
                line.push(' ');
                line.push_str(part);
            }
            Some(line) => {
                line.push_str(" \\");
                lines.extend(cut(part, width));
            }
            None => lines.extend(cut(part, width)),
        }
    }
    lines
}

/// Cuts a text that is longer than a line.
fn cut(text: &str, width: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(width).map(String::from_iter).collect()
}

fn trace_parts(trace: &Trace) -> Vec<String> {
    let mut parts = vec!["osjitter trace".to_owned()];
    parts.extend(trace.thread.as_ref().map(|name| format!("--thread {}", quote_word(name))));
    parts.push(match &trace.command {
        Some(words) => format!("-- {}", quote_command(words)),
        None => format!("--pid {}", trace.process),
    });
    parts
}

/// Returns the flags that describe the scenarios, without programs. `None` if the scenarios do
/// not form a matrix of subjects, periods, runtimes and loads.
fn scenario_flags(scenarios: &[Scenario]) -> Option<Vec<String>> {
    // There is one flag for the meter of all programs.
    let meters = distinct(scenarios.iter().filter(|s| s.command.is_some()).map(|s| &s.meter));
    if !is_matrix(scenarios) || meters.len() > 1 {
        return None;
    }
    let mut parts = Vec::new();
    let periods = distinct(scenarios.iter().map(|s| s.period_ns));
    if periods != [defaults::PERIOD_NS] {
        parts.extend(periods.iter().map(|ns| format!("--period {}", format_exact_ns(*ns))));
    }
    match common(scenarios, |s| s.ticks) {
        Some(defaults::TICKS) => {}
        Some(ticks) => parts.push(format!("--ticks {ticks}")),
        None => {
            let ns = common(scenarios, |s| s.ticks.saturating_mul(s.period_ns))?;
            parts.push(format!("--duration {}", format_exact_ns(ns)));
        }
    }
    if !scenarios.iter().all(|s| s.round_ticks == defaults::round_ticks(s.period_ns, s.ticks)) {
        parts.push(format!("--round-ticks {}", common(scenarios, |s| s.round_ticks)?));
    }
    if !scenarios.iter().all(|s| s.warmup_ticks == defaults::warmup_ticks(s.period_ns)) {
        parts.push(format!("--warmup {}", common(scenarios, |s| s.warmup_ticks)?));
    }
    parts.extend(subject_flags(scenarios));
    parts.extend(condition_flags(scenarios));
    Some(parts)
}

/// Returns whether flags expand to exactly these scenarios: all combinations of their subjects and
/// programs with their periods, runtimes, loads and CPUs.
///
/// A program and a bare thread have no runtime, and therefore one instance and no load of tasks.
fn is_matrix(scenarios: &[Scenario]) -> bool {
    let periods = distinct(scenarios.iter().map(|s| s.period_ns));
    let cpus = distinct(scenarios.iter().map(|s| s.cpu));
    let runtimes = distinct(scenarios.iter().filter_map(|s| s.runtime.as_deref()));
    let loads = loads(scenarios);
    let loads_without_runtime =
        distinct(loads.iter().map(|load| load.filter(|load| !load.starts_with(TASKS))));
    let instances = scenarios.iter().map(|s| s.instances).max();
    let mut by_target: BTreeMap<_, Vec<&Scenario>> = BTreeMap::new();
    for scenario in scenarios {
        by_target.entry((&scenario.subject, &scenario.command)).or_default().push(scenario);
    }
    by_target.values().all(|group| {
        let has_runtime = group[0].runtime.is_some();
        let (loads, instances) = match has_runtime {
            true => (&loads, instances),
            false => (&loads_without_runtime, Some(1)),
        };
        let is_combination = |s: &&Scenario| {
            s.runtime.is_some() == has_runtime
                && Some(s.instances) == instances
                && loads.contains(&s.load.as_deref())
        };
        let runtimes = if has_runtime { runtimes.len() } else { 1 };
        let found: BTreeSet<_> =
            group.iter().map(|s| (s.period_ns, &s.runtime, &s.load, s.cpu)).collect();
        group.iter().all(is_combination)
            && found.len() == periods.len() * runtimes * loads.len() * cpus.len()
    })
}

/// The start of a load of tasks, which needs a runtime.
const TASKS: &str = "tasks:";

/// Returns the loads of the scenarios that run with every load: those with a runtime, if any has.
fn loads(scenarios: &[Scenario]) -> Vec<Option<&str>> {
    let has_runtime = scenarios.iter().any(|s| s.runtime.is_some());
    let complete = scenarios.iter().filter(|s| s.runtime.is_some() || !has_runtime);
    distinct(complete.map(|s| s.load.as_deref()))
}

/// Returns a flag for each subject, unless they are the ones that are measured by default.
fn subject_flags(scenarios: &[Scenario]) -> Vec<String> {
    let subjects: Vec<&str> = scenarios
        .iter()
        .filter(|scenario| scenario.command.is_none())
        .map(|scenario| scenario.subject.as_str())
        .collect();
    let subjects = distinct(subjects.into_iter());
    let has_program = scenarios.iter().any(|s| s.command.is_some());
    let is_each = scenarios.iter().any(|s| s.cpu.is_some());
    let default_subjects: Vec<&SubjectInfo> = match (has_program, is_each) {
        (true, _) => defaults_of(DefaultSelection::Program).collect(),
        (false, true) => vec![SLEEPING_CONTROL],
        (false, false) => defaults_of(DefaultSelection::Run).collect(),
    };
    if subjects.iter().eq(default_subjects.iter().map(|subject| &subject.name)) {
        return Vec::new();
    }
    subjects.iter().map(|subject| format!("--subject {subject}")).collect()
}

/// Returns the flags of runtimes, loads, instances and CPUs.
fn condition_flags(scenarios: &[Scenario]) -> Vec<String> {
    const DEFAULT_RUNTIME: &str = "current-thread";
    let mut parts = Vec::new();
    let runtimes = distinct(scenarios.iter().filter_map(|s| s.runtime.as_deref()));
    if runtimes.iter().any(|runtime| *runtime != DEFAULT_RUNTIME) {
        parts.extend(runtimes.iter().map(|runtime| format!("--runtime {runtime}")));
    }
    let loads = loads(scenarios);
    if loads != [None] {
        parts.extend(
            loads.iter().map(|load| format!("--load {}", quote_word(load.unwrap_or("none")))),
        );
    }
    let instances = scenarios.iter().map(|s| s.instances).max().unwrap_or(1);
    if instances > 1 {
        parts.push(format!("--instances {instances}"));
    }
    let cpus = distinct(scenarios.iter().filter_map(|s| s.cpu));
    if !cpus.is_empty() {
        let list: Vec<String> = cpus.iter().map(u64::to_string).collect();
        parts.push(format!("--each --cpus {}", list.join(",")));
    }
    parts
}

/// Returns the flags of the settings of the machine and of the diagnosis.
fn plan_flags(plan: &Plan) -> Vec<String> {
    let mut parts = Vec::new();
    parts.extend(plan.cpu.map(|cpu| format!("--cpu {cpu}")));
    parts.extend(plan.sched.as_ref().map(|class| format!("--sched {class}")));
    if plan.mlock {
        parts.push("--mlock".to_owned());
    }
    parts.extend(plan.timer_slack_ns.map(|ns| format!("--timer-slack {}", format_exact_ns(ns))));
    if let Some(why) = &plan.why {
        parts.push("--why".to_owned());
        let threshold = why.threshold_ns.map(format_exact_ns);
        parts.extend(threshold.map(|time| format!("--why-threshold {time}")));
    }
    parts
}

/// Returns the programs: a single one after `--`, several as `--command`.
fn program_flags(scenarios: &[Scenario]) -> Vec<String> {
    let programs = distinct(scenarios.iter().filter_map(|s| s.command.as_deref()));
    let meters = distinct(scenarios.iter().filter_map(|s| s.meter.as_deref()));
    let mut parts: Vec<String> =
        meters.iter().map(|meter| format!("--meter {}", quote_word(meter))).collect();
    match programs.as_slice() {
        [program] => parts.push(format!("-- {}", quote_command(program))),
        programs => {
            let quoted = programs.iter().map(|words| quote_word(&quote_command(words)));
            parts.extend(quoted.map(|program| format!("--command {program}")));
        }
    }
    parts
}

/// Returns the values without repetitions, in their order.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

/// Returns the value that all scenarios have in common.
fn common(scenarios: &[Scenario], value: impl Fn(&Scenario) -> u64) -> Option<u64> {
    match distinct(scenarios.iter().map(value)).as_slice() {
        [value] => Some(*value),
        _ => None,
    }
}

/// Quotes a text for a shell.
pub fn quote_word(text: &str) -> String {
    match shlex::try_quote(text) {
        Ok(quoted) => quoted.into_owned(),
        Err(_) => text.to_owned(),
    }
}

/// Quotes a command for a shell.
pub fn quote_command(words: &[String]) -> String {
    shlex::try_join(words.iter().map(String::as_str)).unwrap_or_else(|_| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(subject: &str) -> Scenario {
        Scenario {
            id: subject.to_owned(),
            subject: subject.to_owned(),
            command: None,
            meter: None,
            period_ns: defaults::PERIOD_NS,
            ticks: defaults::TICKS,
            round_ticks: 250,
            warmup_ticks: 20,
            runtime: Some("current-thread".to_owned()),
            instances: 1,
            load: None,
            cpu: None,
        }
    }

    fn program(words: &[&str]) -> Scenario {
        let command = Some(words.iter().map(|word| (*word).to_owned()).collect());
        Scenario { command, runtime: None, ..scenario("mine") }
    }

    fn command(scenarios: Vec<Scenario>) -> String {
        Command::from_plan(&Plan { scenarios, ..Plan::default() }).to_string()
    }

    #[test]
    fn defaults_are_left_out() {
        let selected = |selection| defaults_of(selection).map(|subject| scenario(subject.name));
        assert_eq!(command(selected(DefaultSelection::Run).collect()), "osjitter run");
        let mut companions = vec![program(&["./my-loop", "--fast"])];
        companions.extend(selected(DefaultSelection::Program));
        assert_eq!(command(companions), "osjitter run -- ./my-loop --fast");
    }

    #[test]
    fn changed_values_are_flags() {
        let changed = Scenario {
            period_ns: 1_000_000,
            ticks: 600,
            round_ticks: 50,
            warmup_ticks: 10,
            load: Some("sh -c 'x'".to_owned()),
            instances: 3,
            ..scenario("spin")
        };
        let expected = "osjitter run --period 1ms --ticks 600 --round-ticks 50 --subject spin \
                        --load \"sh -c 'x'\" --instances 3";
        assert_eq!(command(vec![changed]), expected);
        let runtimes = ["current-thread", "multi-thread:2"]
            .map(|runtime| Scenario { runtime: Some(runtime.to_owned()), ..scenario("os-sleep") });
        assert_eq!(
            command(runtimes.to_vec()),
            "osjitter run --subject os-sleep --runtime current-thread --runtime multi-thread:2"
        );
        let programs = vec![program(&["./a", "b c"]), program(&["./d"])];
        assert_eq!(command(programs), "osjitter run --command \"./a 'b c'\" --command ./d");
    }

    #[test]
    fn settings_are_flags() {
        let plan = Plan {
            cpu: Some(1),
            sched: Some("fifo:50".to_owned()),
            mlock: true,
            timer_slack_ns: Some(1),
            scenarios: vec![scenario("spin")],
            ..Plan::default()
        };
        assert_eq!(
            Command::from_plan(&plan).to_string(),
            "osjitter run --subject spin --cpu 1 --sched fifo:50 --mlock --timer-slack 1ns"
        );
    }

    #[test]
    fn irregular_plans_are_repeated_by_file() {
        let slow = Scenario { period_ns: 1_000_000, warmup_ticks: 10, ..scenario("nanosleep") };
        let expected = "osjitter run --plan report.json";
        assert_eq!(command(vec![scenario("spin"), slow.clone()]), expected);
        let half = Scenario { ticks: 5_000, ..slow.clone() };
        let two_periods = vec![scenario("nanosleep"), half];
        assert_eq!(
            command(two_periods),
            "osjitter run --period 500us --period 1ms --duration 5s --subject nanosleep"
        );
        let short = Scenario { ticks: 9, ..scenario("nanosleep") };
        assert_eq!(command(vec![scenario("spin"), short]), expected);
    }

    #[test]
    fn incomplete_matrix_has_no_flags() {
        let expected = "osjitter run --plan report.json";
        let loaded = Scenario { load: Some("cpu:1".to_owned()), ..scenario("os-sleep") };
        let incomplete = [scenario("spin"), scenario("os-sleep"), loaded.clone()];
        assert_eq!(command(incomplete.to_vec()), expected, "spin ran without the load");
        let multi = Scenario { runtime: Some("multi-thread:2".to_owned()), ..scenario("os-sleep") };
        assert_eq!(command(vec![scenario("spin"), multi]), expected);
        let three = Scenario { instances: 3, ..scenario("os-sleep") };
        assert_eq!(command(vec![scenario("spin"), three.clone()]), expected);
        // A program would replace every subject of the plan.
        assert_eq!(command(vec![program(&["./a"]), loaded, scenario("os-sleep")]), expected);
        // Only the subject with a runtime can have instances and tasks.
        let bare = Scenario { runtime: None, ..scenario("nanosleep") };
        let tasks = Scenario { load: Some("tasks:2x1us".to_owned()), ..three };
        assert_eq!(
            command(vec![tasks, bare]),
            "osjitter run --subject os-sleep --subject nanosleep --load tasks:2x1us --instances 3"
        );
    }

    #[test]
    fn lines_are_joined_by_a_shell() {
        let parts = ["osjitter run", "--period 1ms", "--ticks 600"].map(str::to_owned).to_vec();
        let command = Command { parts };
        let lines = |width, max_lines| command.lines(width, max_lines).unwrap_or_default();
        assert_eq!(lines(28, 2), ["osjitter run --period 1ms \\", "--ticks 600"]);
        assert_eq!(lines(80, 2), [command.to_string()]);
        assert_eq!(command.lines(20, 2), None);
        let long = Command { parts: vec!["abcdef".to_owned()] };
        assert_eq!(long.lines(4, 2), Some(vec!["abcd".to_owned(), "ef".to_owned()]));
    }
}
