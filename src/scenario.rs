//! Arguments and a plan file become one validated plan before anything runs.

mod file;

use std::time::Duration;

use crate::subject::{self, Place};
use crate::text::units;

use jitterstat::report::{Plan, Scenario};

pub use file::{File, OneOrMany, Options, RunOptions, parse, to_toml};

/// Recorded ticks of a round unless told otherwise: short, because the round is the unit of every interval.
const DEFAULT_ROUND_TICKS: u64 = 250;
/// A run is cut into at least this many rounds where its ticks allow.
const LEAST_ROUNDS: u64 = 10;
/// A round lasts no longer than this where the period allows.
const LONGEST_ROUND: Duration = Duration::from_secs(1);
/// Warm-up: as many ticks as fit into this time ...
const WARMUP_TIME: Duration = Duration::from_millis(10);
/// ... but at least and at most so many.
const WARMUP_TICKS: (u64, u64) = (3, 20);
/// Period and ticks of a run that names none.
pub const DEFAULT_PERIOD: Duration = Duration::from_micros(500);
/// See [`DEFAULT_PERIOD`].
pub const DEFAULT_TICKS: u64 = 10_000;
/// Memory a recorded tick takes while the report is made: samples, sorted copies, JSON text.
pub const BYTES_PER_TICK: u64 = 160;

/// A seed that every reader of JSON and TOML keeps exactly.
pub fn draw_seed() -> u64 {
    rand::random::<u32>().into()
}

/// The effective plan: file over nothing, command line over the file's defaults, built-in defaults last.
pub fn build(file: &File, arguments: &Options, run: &RunOptions) -> Result<Plan, String> {
    let mut defaults = file.defaults.clone();
    if arguments.ticks.is_some() || arguments.duration.is_some() {
        (defaults.ticks, defaults.duration) = (None, None);
    }
    let defaults = arguments.over(&defaults);
    let only_defaults = [Options::default()];
    let listed: &[Options] = if file.scenario.is_empty() { &only_defaults } else { &file.scenario };
    let mut scenarios: Vec<Scenario> = Vec::new();
    for options in listed {
        let mut base = defaults.clone();
        if options.ticks.is_some() || options.duration.is_some() {
            (base.ticks, base.duration) = (None, None);
        }
        for scenario in expand(&options.over(&base))? {
            if !scenarios.contains(&scenario) {
                scenarios.push(scenario);
            }
        }
    }
    make_ids_unique(&mut scenarios);
    let run = run.over(&file.run);
    let timer_slack = run.timer_slack.as_deref().map(units::duration).transpose()?;
    Ok(Plan {
        seed: run.seed.ok_or("a plan needs a seed")?,
        samples: run.samples.unwrap_or(true),
        cpu: run.cpu,
        sched: run.sched,
        mlock: run.mlock.unwrap_or(false),
        timer_slack_ns: timer_slack.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
        scenarios,
    })
}

fn expand(options: &Options) -> Result<Vec<Scenario>, String> {
    let subjects = match &options.subject {
        Some(patterns) => matching(&patterns.list())?,
        None => subject::ALL.iter().filter(|e| e.default).collect(),
    };
    let periods = match &options.period {
        Some(periods) => periods.list().iter().map(|p| units::period(p)).collect::<Result<Vec<_>, _>>()?,
        None => vec![DEFAULT_PERIOD],
    };
    let runtimes = match &options.runtime {
        Some(runtimes) => runtimes.list().iter().map(|r| runtime(r)).collect::<Result<Vec<_>, _>>()?,
        None => vec![Runtime::CurrentThread],
    };
    if subjects.is_empty() || periods.is_empty() || runtimes.is_empty() {
        return Err("an empty list leaves nothing to measure; name at least one subject, period and runtime".into());
    }
    let mut scenarios = Vec::new();
    for period in periods {
        let ticks = match (options.ticks, &options.duration) {
            (Some(_), Some(_)) => return Err("ticks and duration exclude each other; give one".into()),
            (Some(0), None) => return Err("0 ticks is nothing to measure; give at least 1".into()),
            (Some(ticks), None) => ticks,
            (None, Some(text)) => {
                let ticks = units::duration(text)?.as_nanos() / period.as_nanos();
                u64::try_from(ticks).ok().filter(|&t| t > 0).ok_or_else(|| {
                    format!("a duration of {text} holds no tick of {}; give a longer one", units::short(period))
                })?
            }
            (None, None) => DEFAULT_TICKS,
        };
        for entry in &subjects {
            for &kind in &runtimes {
                let runtime = (entry.place == Place::Tokio).then(|| kind.to_string());
                scenarios.push(scenario(entry.name, period, ticks, options, runtime)?);
            }
        }
    }
    Ok(scenarios)
}

fn scenario(
    name: &str,
    period: Duration,
    ticks: u64,
    options: &Options,
    runtime: Option<String>,
) -> Result<Scenario, String> {
    let in_time = |time: Duration| u64::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX);
    let round_ticks = match options.round_ticks {
        Some(0) => return Err("a round of 0 ticks measures nothing; give --round-ticks at least 1".into()),
        Some(n) => n.min(ticks),
        None => (ticks / LEAST_ROUNDS).clamp(1, DEFAULT_ROUND_TICKS).min(in_time(LONGEST_ROUND).max(1)),
    };
    let warmup_ticks = options.warmup.unwrap_or_else(|| in_time(WARMUP_TIME).clamp(WARMUP_TICKS.0, WARMUP_TICKS.1));
    let end = warmup_ticks.checked_add(round_ticks).and_then(|k| k.checked_mul(u64::try_from(period.as_nanos()).ok()?));
    if end.is_none_or(|ns| ns > MAX_ROUND_NS) {
        return Err(format!("a round of {round_ticks} ticks of {} is longer than a year", units::short(period)));
    }
    let place = runtime.as_deref().map_or(String::new(), |r| format!("/{r}"));
    // A bare thread is a control: one is enough.
    let instances = if runtime.is_some() { options.instances.unwrap_or(1) } else { 1 };
    if !(1..=MAX_INSTANCES).contains(&instances) {
        return Err(format!("{instances} instances; give 1 to {MAX_INSTANCES}"));
    }
    let many = if instances > 1 { format!("*{instances}") } else { String::new() };
    Ok(Scenario {
        id: format!("{name}{many}@{}{place}", units::short(period)),
        instances,
        subject: name.to_owned(),
        period_ns: u64::try_from(period.as_nanos()).expect("at most an hour"),
        ticks,
        round_ticks,
        warmup_ticks,
        runtime,
    })
}

/// More instances than this are a slip of the keyboard.
const MAX_INSTANCES: u64 = 100_000;

/// No round is longer than a year.
const MAX_ROUND_NS: u64 = 365 * 24 * 3_600_000_000_000;

fn make_ids_unique(scenarios: &mut [Scenario]) {
    for i in 0..scenarios.len() {
        let twins = scenarios[..i].iter().filter(|s| s.id.split('#').next() == Some(scenarios[i].id.as_str())).count();
        if twins > 0 {
            scenarios[i].id = format!("{}#{}", scenarios[i].id, twins + 1);
        }
    }
}

/// The subjects that names or globs (`*`, `?`) stand for, in the order of the list; `all` stands for every one.
pub fn matching(patterns: &[String]) -> Result<Vec<&'static subject::Entry>, String> {
    for pattern in patterns {
        if pattern != "all" && !subject::ALL.iter().any(|e| glob(pattern, e.name)) {
            let mut names: Vec<&str> = subject::ALL.iter().map(|e| e.name).collect();
            names.sort_by_key(|name| std::cmp::Reverse((strsim::jaro_winkler(name, pattern) * 1000.0) as u32));
            return Err(format!(
                "no subject {pattern:?}; the nearest are {}, {} and {}; `osjitter list` shows all",
                names[0], names[1], names[2]
            ));
        }
    }
    let wanted = |name: &str| patterns.iter().any(|p| p == "all" || glob(p, name));
    Ok(subject::ALL.iter().filter(|e| wanted(e.name)).collect())
}

/// Whether `name` matches a pattern of literal characters, `*` and `?`.
fn glob(pattern: &str, name: &str) -> bool {
    match pattern.chars().next() {
        None => name.is_empty(),
        Some('*') => {
            glob(&pattern[1..], name) || name.chars().next().is_some_and(|c| glob(pattern, &name[c.len_utf8()..]))
        }
        Some(p) => name
            .chars()
            .next()
            .is_some_and(|c| (p == '?' || p == c) && glob(&pattern[p.len_utf8()..], &name[c.len_utf8()..])),
    }
}

/// The runtime of a tokio subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    /// One thread.
    CurrentThread,
    /// Several worker threads.
    MultiThread(usize),
}

/// Worker threads of `multi-thread` without a number.
const DEFAULT_WORKERS: usize = 2;
/// More worker threads than this are a slip of the keyboard.
pub const MAX_WORKERS: usize = 1024;

impl std::fmt::Display for Runtime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CurrentThread => f.write_str("current-thread"),
            Self::MultiThread(workers) => write!(f, "multi-thread:{workers}"),
        }
    }
}

/// Reads `current-thread`, `multi-thread` or `multi-thread:N`.
pub fn runtime(text: &str) -> Result<Runtime, String> {
    let bad = || {
        format!("no runtime {text:?}; use current-thread, multi-thread or multi-thread:N (N from 1 to {MAX_WORKERS})")
    };
    match text.split_once(':') {
        None if text == "current-thread" => Ok(Runtime::CurrentThread),
        None if text == "multi-thread" => Ok(Runtime::MultiThread(DEFAULT_WORKERS)),
        Some(("multi-thread", n)) => match n.parse() {
            Ok(workers) if (1..=MAX_WORKERS).contains(&workers) => Ok(Runtime::MultiThread(workers)),
            _ => Err(bad()),
        },
        _ => Err(bad()),
    }
}

/// Rounds of a scenario: its ticks, cut into rounds of `round_ticks`, the last one shorter where they do not divide.
pub fn rounds(scenario: &Scenario) -> u64 {
    scenario.ticks.div_ceil(scenario.round_ticks)
}

/// Ticks that round `index` records.
pub fn ticks_of_round(scenario: &Scenario, index: u64) -> u64 {
    scenario.round_ticks.min(scenario.ticks - index * scenario.round_ticks)
}

/// How long the plan takes, by the grid: warm-up included, set-up between rounds estimated.
pub fn expected(plan: &Plan) -> Duration {
    const SET_UP: Duration = Duration::from_millis(4);
    plan.scenarios.iter().fold(Duration::ZERO, |sum, s| {
        let ticks = s.ticks + rounds(s) * s.warmup_ticks;
        let ns = u128::from(ticks) * u128::from(s.period_ns) + u128::from(rounds(s)) * SET_UP.as_nanos();
        sum + Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX / 4))
    })
}

/// A number that is something and makes sense.
pub fn within(what: &str, n: u64, most: u64) -> Result<u64, String> {
    match n {
        0 => Err(format!("0 {what} is nothing to measure; give at least 1")),
        n if n > most => Err(format!("{n} {what} is more than {most}, the most that makes sense here")),
        n => Ok(n),
    }
}

/// The names that patterns stand for, in the order of `all`; all of them without a pattern.
pub fn chosen(what: &str, patterns: &[String], all: &[&'static str]) -> Result<Vec<&'static str>, String> {
    if let Some(unknown) = patterns.iter().find(|p| !all.iter().any(|name| glob(p, name))) {
        return Err(format!("no {what} {unknown:?}; there are {}", all.join(", ")));
    }
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| glob(p, name));
    Ok(all.iter().copied().filter(|name| wanted(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded() -> RunOptions {
        RunOptions { seed: Some(7), ..RunOptions::default() }
    }

    fn one(subject: &str) -> Options {
        Options { subject: Some(OneOrMany::One(subject.into())), ..Options::default() }
    }

    #[test]
    fn rounds_follow_the_ticks() {
        for (ticks, period, round, warmup) in
            [(10_000, "500us", 250, 20), (100, "500us", 10, 20), (5, "1ms", 1, 10), (10_000, "100ms", 10, 3)]
        {
            let options = Options { ticks: Some(ticks), period: Some(OneOrMany::One(period.into())), ..one("spin") };
            let plan = build(&File::default(), &options, &seeded()).unwrap();
            let s = &plan.scenarios[0];
            assert_eq!((s.round_ticks, s.warmup_ticks), (round, warmup), "{ticks} {period}");
            let sum: u64 = (0..rounds(s)).map(|i| ticks_of_round(s, i)).sum();
            assert_eq!(sum, ticks);
        }
    }

    #[test]
    fn a_list_makes_a_matrix_and_the_command_line_overrides_defaults_only() {
        let text = "[defaults]\nticks = 7\nperiod = \"2ms\"\n[[scenario]]\nsubject = [\"spin\", \"nanosleep\"]\n\
                    period = [\"250us\", \"1ms\"]\n[[scenario]]\nsubject = \"tokio-sleep\"\nruntime = \"multi-thread:3\"\n";
        let arguments = Options { period: Some(OneOrMany::One("3ms".into())), ..Options::default() };
        let plan = build(&parse("p.toml", text).unwrap(), &arguments, &seeded()).unwrap();
        let ids: Vec<&str> = plan.scenarios.iter().map(|s| s.id.as_str()).collect();
        let expected = ["nanosleep@250us", "spin@250us", "nanosleep@1ms", "spin@1ms", "tokio-sleep@3ms/multi-thread:3"];
        assert_eq!(ids, expected);
        assert!(plan.scenarios.iter().all(|s| s.ticks == 7));
    }

    #[test]
    fn unknown_subjects_get_the_nearest_names() {
        let error = build(&File::default(), &one("tokio-intervall"), &seeded()).unwrap_err();
        assert!(error.contains("the nearest are tokio-interval,"), "{error}");
        assert_eq!(matching(&["*sleep*".into()]).unwrap().len(), 4);
        assert_eq!(matching(&["all".into()]).unwrap().len(), subject::ALL.len());
    }
}
