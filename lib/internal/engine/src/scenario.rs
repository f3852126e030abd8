//! What is measured, typed once: command lines and plan files become [`ScenarioArgs`], these become
//! [`Scenario`]s, and the loop, the gate and the report read nothing else.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, Command};
use files::report;

use crate::load::Load;
use crate::machine::{os, tuning};
use crate::program::Program;
use crate::subject::target::Target;
use crate::subject::{self, SubjectInfo, script};
use cli::exit::{self, usage};
use cli::suggest::did_you_mean;
use cli::units;

/// Recorded ticks of a round unless stated otherwise: short, because the round is the unit of every
/// interval.
const DEFAULT_ROUND_TICKS: u64 = 250;
/// A run is cut into at least this many rounds where its ticks allow.
const MIN_ROUNDS: u64 = 10;
/// A round lasts no longer than this where the period allows.
const MAX_ROUND_DURATION: Duration = Duration::from_secs(1);
/// Warm-up: as many ticks as fit into this time ...
const WARMUP_TIME: Duration = Duration::from_millis(10);
/// ... but at least and at most so many.
const WARMUP_TICKS: (u64, u64) = (3, 20);
pub const DEFAULT_PERIOD: Duration = Duration::from_micros(500);
const DEFAULT_TICKS: u64 = 10_000;
/// More instances than this are a slip of the keyboard.
const MAX_INSTANCES: u64 = 100_000;
const MAX_ROUND: Duration = Duration::from_secs(365 * 24 * 3600);
/// A run that keeps no samples keeps no more than so many rounds of a subject.
pub const MAX_ROUNDS_WITHOUT_SAMPLES: u64 = 1_000;
/// Memory a recorded tick takes while the report is made: samples, sorted copies, JSON text.
const BYTES_PER_TICK: u64 = 160;

/// A seed that every reader of JSON and TOML keeps exactly.
pub fn draw_seed() -> u64 {
    // The standard library keys its hash maps at random; of an empty input, the key is all there is
    // to hash.
    RandomState::new().build_hasher().finish() >> 32
}

/// What the loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Of the order and the phases.
    pub seed: u64,
    pub scenarios: Vec<Scenario>,
    pub tuning: tuning::Settings,
    /// Whether the report keeps every sample.
    pub samples: bool,
    /// Whether as many rounds again are run to find out why ticks are late.
    pub why: Option<ProfileOptions>,
}

/// Which ticks are asked why they are late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileOptions {
    /// Those at least this late; otherwise the latest per cent.
    pub threshold: Option<Duration>,
}

/// One thing to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Unique within a plan, for example `os-interval@500us/current-thread`.
    pub id: String,
    pub subject: Target,
    pub period: Duration,
    /// Of a tokio subject.
    pub runtime: Option<Runtime>,
    /// To record, over all rounds.
    pub ticks: u64,
    /// Recorded ticks of a full round.
    pub round_ticks: u64,
    /// Leading ticks of each round, run and dropped.
    pub warmup_ticks: u64,
    /// How many tick at once, each recording `ticks`.
    pub instances: u64,
    /// What runs beside it.
    pub load: Load,
}

/// What a command line or a plan file states; what it leaves open has a default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioArgs {
    /// Subjects, periods, runtimes and loads make a matrix; an empty list stands for the default.
    pub subjects: Vec<&'static SubjectInfo>,
    /// Target beside the subjects; where these alone are stated, nothing else is.
    pub commands: Vec<Program>,
    pub periods: Vec<Duration>,
    pub runtimes: Vec<Runtime>,
    pub loads: Vec<Load>,
    pub length: Option<Length>,
    pub round_ticks: Option<u64>,
    pub warmup: Option<u64>,
    pub instances: Option<u64>,
}

/// How much is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    Ticks(u64),
    Time(Duration),
    /// So many rounds, each as long as those of a long run.
    Rounds(u64),
}

impl ScenarioArgs {
    /// These where they state something, `other` where they do not.
    pub fn or(&self, other: &Self) -> Self {
        fn stated<T: Clone>(ours: &[T], theirs: &[T]) -> Vec<T> {
            (if ours.is_empty() { theirs } else { ours }).to_vec()
        }
        let what = if self.has_subject() { self } else { other };
        Self {
            subjects: what.subjects.clone(),
            commands: what.commands.clone(),
            periods: stated(&self.periods, &other.periods),
            runtimes: stated(&self.runtimes, &other.runtimes),
            loads: stated(&self.loads, &other.loads),
            length: self.length.or(other.length),
            round_ticks: self.round_ticks.or(other.round_ticks),
            warmup: self.warmup.or(other.warmup),
            instances: self.instances.or(other.instances),
        }
    }

    /// Whether these say what is measured.
    pub fn has_subject(&self) -> bool {
        !self.subjects.is_empty() || !self.commands.is_empty()
    }

    /// Flags of what these state and each of `others` states for itself: there it has no effect.
    pub fn overridden_flags(&self, others: &[Self]) -> Vec<&'static str> {
        type States = fn(&ScenarioArgs) -> bool;
        const PARTS: [(&str, States); 8] = [
            ("--subject", ScenarioArgs::has_subject),
            ("--period", |s| !s.periods.is_empty()),
            ("--runtime", |s| !s.runtimes.is_empty()),
            ("--load", |s| !s.loads.is_empty()),
            ("--ticks or --duration", |s| s.length.is_some()),
            ("--round-ticks", |s| s.round_ticks.is_some()),
            ("--warmup", |s| s.warmup.is_some()),
            ("--instances", |s| s.instances.is_some()),
        ];
        let overridden_flags = PARTS
            .iter()
            .filter(|(_, state)| !others.is_empty() && state(self) && others.iter().all(state));
        overridden_flags.map(|(flag, _)| *flag).collect()
    }

    /// Every combination: period by period, subject by subject, runtime by runtime, load by load.
    pub fn scenarios(&self) -> exit::Result<Vec<Scenario>> {
        fn or<T: Clone>(stated: &[T], default: impl FnOnce() -> Vec<T>) -> Vec<T> {
            if stated.is_empty() { default() } else { stated.to_vec() }
        }
        let ours = match &self.subjects[..] {
            [] if self.commands.is_empty() => subject::ALL.iter().filter(|e| e.default).collect(),
            stated => stated.to_vec(),
        };
        let programs = self.commands.iter().cloned().map(Target::Program);
        let subjects: Vec<Target> = programs.chain(ours.into_iter().map(Target::Builtin)).collect();
        let runtimes = or(&self.runtimes, || vec![Runtime::CurrentThread]);
        let periods = or(&self.periods, || vec![DEFAULT_PERIOD]);
        let loads = or(&self.loads, || vec![Load::None]);
        let combinations = [subjects.len(), runtimes.len(), loads.len()]
            .iter()
            .fold(periods.len(), |n, m| n.saturating_mul(*m));
        check_scenario_count(combinations)?;
        let mut scenarios = Vec::new();
        for period in periods {
            for subject in &subjects {
                for runtime in &runtimes {
                    for load in &loads {
                        scenarios.push(self.scenario(subject, period, *runtime, load)?);
                    }
                }
            }
        }
        if let Some(load) = loads
            .iter()
            .find(|load| load.tasks().is_some() && scenarios.iter().all(|s| s.load != **load))
        {
            return Err(usage!(
                "--load {load} is tasks on the runtime of a tokio subject; none of these subjects has one"
            ));
        }
        Ok(deduplicate(scenarios))
    }

    /// The one scenario of these, where they name no more.
    pub fn single_scenario(&self) -> exit::Result<Scenario> {
        let scenarios = self.scenarios()?;
        <[Scenario; 1]>::try_from(scenarios).map(|[one]| one).map_err(|several| {
            usage!(
                "{} scenarios where one is measured; name one subject, period and runtime",
                several.len()
            )
        })
    }

    fn scenario(
        &self,
        subject: &Target,
        period: Duration,
        runtime: Runtime,
        load: &Load,
    ) -> exit::Result<Scenario> {
        if !(units::MIN_PERIOD..=units::MAX_PERIOD).contains(&period) {
            return Err(usage!(
                "--period {} is outside 1us to 1h",
                units::format_exact_duration(period)
            ));
        }
        let in_time =
            |time: Duration| u64::try_from(time.as_nanos() / period.as_nanos()).unwrap_or(u64::MAX);
        let longest = DEFAULT_ROUND_TICKS.min(in_time(MAX_ROUND_DURATION).max(1));
        let ticks = match self.length.unwrap_or(Length::Ticks(DEFAULT_TICKS)) {
            Length::Ticks(0) => {
                return Err(usage!("0 ticks is nothing to measure; give --ticks at least 1"));
            }
            Length::Ticks(ticks) => ticks,
            Length::Time(time) => match in_time(time) {
                0 => {
                    let [time, period] = [time, period].map(units::format_exact_duration);
                    return Err(usage!(
                        "--duration {time} holds no tick of --period {period}; give a longer --duration"
                    ));
                }
                ticks => ticks,
            },
            Length::Rounds(rounds) => self.round_ticks.unwrap_or(longest).saturating_mul(rounds),
        };
        let round_ticks = match (self.round_ticks, self.length) {
            (Some(0), _) => {
                return Err(usage!(
                    "a round of 0 ticks measures nothing; give --round-ticks at least 1"
                ));
            }
            (Some(n), _) => n.min(ticks),
            (None, Some(Length::Rounds(_))) => longest,
            (None, _) => (ticks / MIN_ROUNDS).clamp(1, longest),
        };
        let warmup_ticks = self
            .warmup
            .unwrap_or_else(|| in_time(WARMUP_TIME).clamp(WARMUP_TICKS.0, WARMUP_TICKS.1));
        let end = warmup_ticks.checked_add(round_ticks).map(|n| u128::from(n) * period.as_nanos());
        if end.is_none_or(|ns| ns > MAX_ROUND.as_nanos()) {
            return Err(usage!(
                "a round of {round_ticks} ticks of {} is longer than a year; give fewer --round-ticks or --warmup",
                units::format_exact_duration(period)
            ));
        }
        let runtime = Some(runtime)
            .filter(|_| subject.as_builtin().is_some_and(|entry| entry.runtime_kind.has_runtime()));
        // A bare thread is a control, and a program is the user's: one is enough.
        let instances = if runtime.is_some() { self.instances.unwrap_or(1) } else { 1 };
        if !(1..=MAX_INSTANCES).contains(&instances) {
            return Err(usage!("--instances {instances} is outside 1 to {MAX_INSTANCES}"));
        }
        // What has no such runtime runs beside no tasks: it is measured once, as it is.
        let load = Some(load)
            .filter(|load| load.tasks().is_none() || runtime.is_some())
            .cloned()
            .unwrap_or_default();
        let many = if instances > 1 { format!("*{instances}") } else { String::new() };
        let place = runtime.map_or(String::new(), |r| format!("/{r}"));
        let beside = if load.is_none() { String::new() } else { format!("+{load}") };
        let id = format!(
            "{}{many}@{}{place}{beside}",
            subject.name(),
            units::format_exact_duration(period)
        );
        let subject = subject.clone();
        Ok(Scenario {
            id,
            subject,
            period,
            runtime,
            ticks,
            round_ticks,
            warmup_ticks,
            instances,
            load,
        })
    }
}

/// Refuses more scenarios than a report can hold.
pub fn check_scenario_count(scenarios: usize) -> exit::Result<()> {
    let most = report::MAX_SUBJECTS;
    if scenarios > most {
        Err(usage!("{scenarios} scenarios; a plan has at most {most}"))
    } else {
        Ok(())
    }
}

/// Leaves equal scenarios out, and numbers those that differ in nothing that their id shows.
pub fn deduplicate(scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let mut kept: Vec<Scenario> = Vec::new();
    let mut seen: HashMap<String, Vec<Scenario>> = HashMap::new();
    for scenario in scenarios {
        let twins = seen.entry(scenario.id.clone()).or_default();
        if twins.contains(&scenario) {
            continue;
        }
        twins.push(scenario.clone());
        let id = if twins.len() > 1 {
            format!("{}#{}", scenario.id, twins.len())
        } else {
            scenario.id.clone()
        };
        kept.push(Scenario { id, ..scenario });
    }
    kept
}

impl Scenario {
    /// Its ticks, cut into rounds of `round_ticks`, the last one shorter where they do not divide.
    pub fn rounds(&self) -> u64 {
        self.ticks.div_ceil(self.round_ticks)
    }

    /// Ticks that round `index` records.
    pub fn ticks_of_round(&self, index: u64) -> u64 {
        self.round_ticks.min(self.ticks - index * self.round_ticks)
    }

    pub fn period_ns(&self) -> u64 {
        u64::try_from(self.period.as_nanos()).expect("at most an hour")
    }

    /// How long it takes, by the grid: warm-up included, set-up between rounds estimated.
    pub fn expected_duration(&self) -> Duration {
        const SET_UP: Duration = Duration::from_millis(4);
        let ticks =
            u128::from(self.ticks) + u128::from(self.rounds()) * u128::from(self.warmup_ticks);
        let ns = ticks * self.period.as_nanos() + u128::from(self.rounds()) * SET_UP.as_nanos();
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// As a report has it.
    pub fn to_report(&self) -> report::Scenario {
        report::Scenario {
            id: self.id.clone(),
            subject: self.subject.name(),
            command: self.subject.program().map(|program| program.words().to_vec()),
            period_ns: self.period_ns(),
            ticks: self.ticks,
            round_ticks: self.round_ticks,
            warmup_ticks: self.warmup_ticks,
            runtime: self.runtime.map(|r| r.to_string()),
            instances: self.instances,
            load: self.reported_load(),
        }
    }

    /// The load as a report has it.
    pub fn reported_load(&self) -> Option<String> {
        (!self.load.is_none()).then(|| self.load.to_string())
    }
}

impl Plan {
    pub fn expected_duration(&self) -> Duration {
        let all = self.scenarios.iter().map(|s| s.expected_duration().saturating_mul(self.turns()));
        all.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// How often each round runs: where it is asked why ticks are late, another one is beside it.
    fn turns(&self) -> u32 {
        if self.why.is_some() { 2 } else { 1 }
    }

    /// Rounds of all scenarios.
    pub fn rounds(&self) -> u64 {
        let all = self.scenarios.iter().map(|s| s.rounds().saturating_mul(self.turns().into()));
        all.fold(0, u64::saturating_add)
    }

    /// Refuses more samples than memory holds, before anything runs.
    pub fn check_memory(&self) -> exit::Result<()> {
        let kept = |s: &Scenario| {
            let most = if self.samples {
                u64::MAX
            } else {
                s.round_ticks.saturating_mul(MAX_ROUNDS_WITHOUT_SAMPLES)
            };
            s.ticks.min(most)
        };
        let ticks = self
            .scenarios
            .iter()
            .try_fold(0_u64, |sum, s| sum.checked_add(kept(s).checked_mul(s.instances)?));
        let need = ticks.and_then(|t| t.checked_mul(BYTES_PER_TICK));
        let have = os::available_memory();
        let gibibytes = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
        match (need, have) {
            (Some(need), Some(have)) if need <= have => Ok(()),
            (Some(need), None) if isize::try_from(need).is_ok() => Ok(()),
            _ => Err(usage!(
                "the samples need {}, and {} is available; give fewer --ticks or fewer subjects, or --no-samples",
                need.map_or("more memory than there can be".into(), gibibytes),
                have.map_or("an unknown amount".into(), gibibytes),
            )),
        }
    }

    /// As a report has it.
    pub fn to_report(&self) -> report::Plan {
        let tuning::Settings { cpu, sched, mlock, timer_slack } = &self.tuning;
        report::Plan {
            seed: self.seed,
            samples: self.samples,
            cpu: *cpu,
            sched: sched.map(|class| class.to_string()),
            mlock: *mlock,
            timer_slack_ns: timer_slack.map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
            scenarios: self.scenarios.iter().map(Scenario::to_report).collect(),
            why: self.why.map(|why| report::WhyRequest {
                threshold_ns: why
                    .threshold
                    .map(|d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)),
            }),
        }
    }
}

/// The subjects that a name or a glob (`*`, `?`) stands for, in the order of the list; `all` stands
/// for every one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subjects(pub Vec<&'static SubjectInfo>);

impl FromStr for Subjects {
    type Err = String;

    fn from_str(pattern: &str) -> Result<Self, String> {
        if let Some(hidden) = script::find(pattern)? {
            return Ok(Self(vec![hidden]));
        }
        let named = |e: &&SubjectInfo| pattern == "all" || matches_glob(pattern, e.name);
        let mut found: Vec<_> = subject::ALL.iter().filter(named).collect();
        if found.len() > 1 {
            // Who asks for several asks for those that there are.
            found.retain(|e| subject::check_available(e.name).is_ok());
        }
        if found.is_empty() {
            let near = did_you_mean(pattern, subject::ALL.iter().map(|e| e.name));
            return Err(format!("no subject {pattern:?}; {near}`osjitter list` shows all"));
        }
        Ok(Self(found))
    }
}

/// Reads [`Subjects`] of an argument; a shell completes their names.
#[derive(Clone, Debug)]
pub struct SubjectsParser;

impl TypedValueParser for SubjectsParser {
    type Value = Subjects;

    fn parse_ref(
        &self,
        cmd: &Command,
        arg: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Subjects, clap::Error> {
        let read = StringValueParser::new().try_map(|text| text.parse::<Subjects>());
        read.parse_ref(cmd, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let names = subject::ALL.iter().map(|e| PossibleValue::new(e.name).help(e.about));
        Some(Box::new(names.chain([PossibleValue::new("all")])))
    }
}

impl Subjects {
    /// All of several, each once, in the order of the list.
    pub fn union(several: impl IntoIterator<Item = Self>) -> Vec<&'static SubjectInfo> {
        let mut all: Vec<&'static SubjectInfo> =
            several.into_iter().flat_map(|subjects| subjects.0).collect();
        all.sort_by_key(|entry| {
            subject::ALL.iter().chain(&script::SUBJECTS).position(|e| e == *entry)
        });
        all.dedup();
        all
    }
}

/// The subject that a name, or a glob that matches nothing else, stands for.
pub fn parse_subject(pattern: &str) -> Result<&'static SubjectInfo, String> {
    match pattern.parse::<Subjects>()?.0[..] {
        [one] => Ok(one),
        _ => Err(format!("{pattern:?} stands for several subjects; name one")),
    }
}

/// Whether `name` matches a pattern of literal characters, `*` and `?`.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let [pattern, name] = [pattern, name].map(|text| text.chars().collect::<Vec<_>>());
    let (mut p, mut n) = (0, 0);
    // Where the latest star stands, and how far it reaches so far: only that one may ever have to
    // reach further.
    let mut star = None;
    while n < name.len() {
        match (pattern.get(p), star) {
            (Some('*'), _) => {
                star = Some((p, n));
                p += 1;
            }
            (Some(&c), _) if c == '?' || c == name[n] => (p, n) = (p + 1, n + 1),
            (_, Some((at, reach))) => {
                star = Some((at, reach + 1));
                (p, n) = (at + 1, reach + 1);
            }
            (_, None) => return false,
        }
    }
    pattern[p..].iter().all(|&c| c == '*')
}

/// The runtime of a tokio subject: `current-thread`, `multi-thread` or `multi-thread:N`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runtime {
    CurrentThread,
    MultiThread(usize),
}

/// Worker threads of `multi-thread` without a number.
const DEFAULT_WORKERS: usize = 2;
/// More worker threads than this are a slip of the keyboard.
pub const MAX_WORKERS: usize = 1024;

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentThread => f.write_str("current-thread"),
            Self::MultiThread(workers) => write!(f, "multi-thread:{workers}"),
        }
    }
}

impl FromStr for Runtime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let workers = match text.split_once(':') {
            None if text == "current-thread" => return Ok(Self::CurrentThread),
            None if text == "multi-thread" => Some(DEFAULT_WORKERS),
            Some(("multi-thread", n)) => n.parse().ok().filter(|n| (1..=MAX_WORKERS).contains(n)),
            _ => None,
        };
        workers.map(Self::MultiThread).ok_or_else(|| {
            format!(
                "no runtime {text:?}; use current-thread, multi-thread or multi-thread:N (N from 1 to {MAX_WORKERS})"
            )
        })
    }
}

/// A number that is something and makes sense.
pub fn validate_count(what: &str, n: u64, most: u64) -> Result<u64, String> {
    match n {
        0 => Err(format!("0 {what} is nothing to measure; give at least 1")),
        n if n > most => {
            Err(format!("{n} {what} is more than {most}, the most that makes sense here"))
        }
        n => Ok(n),
    }
}

/// The names that patterns stand for, in the order of `all`; all of them without a pattern.
pub fn select_by_pattern<'a>(
    what: &str,
    patterns: &[String],
    all: &[&'a str],
) -> Result<Vec<&'a str>, String> {
    if let Some(unknown) = patterns.iter().find(|p| !all.iter().any(|name| matches_glob(p, name))) {
        return Err(format!("no {what} {unknown:?}; there are {}", all.join(", ")));
    }
    let wanted = |name: &str| patterns.is_empty() || patterns.iter().any(|p| matches_glob(p, name));
    Ok(all.iter().copied().filter(|name| wanted(name)).collect())
}

#[cfg(test)]
mod tests;
