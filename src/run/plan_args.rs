//! A plan as it is written: in a plan file, or by the flags of a run.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use cli::exit::{self, usage};
use cli::units;
use engine::load::{Load, load_parser};
use engine::machine::os::Sched;
use engine::machine::tuning;
use engine::program::{Program, parse_program_name};
use engine::scenario::{
    self, CpuSelection, Length, Plan, ProfileOptions, Runtime, Scenario, ScenarioArgs, Subjects,
    SubjectsParser, runtime_parser,
};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// A plan as it is written, with a field for each key. Missing keys have a default.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanArgs {
    /// The schema of a plan file, which it may state.
    pub schema: Option<String>,
    pub run: RunKeys,
    /// The values that scenarios do not set themselves.
    pub defaults: ScenarioKeys,
    /// The scenarios. Without any, one with all defaults is measured.
    #[serde(rename = "scenario")]
    pub scenarios: Vec<ScenarioKeys>,
    /// Whether these are the scenarios of a report.
    #[serde(skip)]
    pub is_from_report: bool,
}

/// The values that concern the run as a whole.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct RunKeys {
    pub seed: Option<u64>,
    pub samples: Option<bool>,
    pub cpu: Option<usize>,
    #[serde(deserialize_with = "read_text")]
    pub sched: Option<Sched>,
    pub mlock: bool,
    #[serde(deserialize_with = "read_duration")]
    pub timer_slack: Option<Duration>,
    pub why: bool,
    #[serde(deserialize_with = "read_duration")]
    pub why_threshold: Option<Duration>,
}

impl RunKeys {
    fn tuning(&self) -> tuning::Settings {
        let Self { cpu, sched, mlock, timer_slack, .. } = *self;
        tuning::Settings { cpu, sched, mlock, timer_slack }
    }

    /// Late ticks are also profiled if there is only a threshold.
    fn profile_options(&self, defaults: &Self) -> Option<ProfileOptions> {
        let threshold = self.why_threshold.or(defaults.why_threshold);
        let is_profiled = self.why || defaults.why || threshold.is_some();
        is_profiled.then_some(ProfileOptions { threshold })
    }
}

/// The values of scenarios. A key that has several values makes a matrix.
#[derive(Clone, Debug, Default, Args, serde::Deserialize)]
#[group(skip)]
#[serde(remote = "Self", deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct ScenarioKeys {
    /// Nominal period; repeat for several [default: 500us]
    #[arg(long, short, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_period, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_periods")]
    pub period: Vec<Duration>,
    /// Ticks to record of each subject [default: 10000]
    #[arg(long, short = 'n', value_name = "N", value_parser = units::parse_count, conflicts_with = "duration", help_heading = "Scenarios")]
    pub ticks: Option<u64>,
    /// Record each subject for this long instead
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_duration")]
    pub duration: Option<Duration>,
    /// Recorded ticks per round [default: a tenth of the ticks, at most 250 ticks or 1s]
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Scenarios")]
    pub round_ticks: Option<u64>,
    /// Ticks to drop at the start of each round [default: 10ms, but 3 to 20 ticks]
    #[arg(long, value_name = "N", value_parser = units::parse_number, help_heading = "Scenarios")]
    pub warmup: Option<u64>,
    /// Subject to measure: a name, a glob or all; repeat for several [default: those marked * by
    /// osjitter list]
    #[arg(long, value_name = "NAME", value_parser = SubjectsParser, hide_possible_values = true, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_list")]
    pub subject: Vec<Subjects>,
    /// Program to measure, given as a command line; repeat for several
    #[arg(long, value_name = "COMMAND", allow_hyphen_values = true, value_parser = Program::parse, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_command")]
    pub command: Vec<Program>,
    /// Name of a program; repeat in the order of the programs [default: its file, and the arguments
    /// that other programs do not have]
    #[arg(long, value_name = "NAME", value_parser = parse_program_name, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_name")]
    pub name: Vec<String>,
    /// Meter to measure in programs that have several [default: the one with the period]
    #[arg(long, value_name = "NAME", help_heading = "Scenarios")]
    pub meter: Option<String>,
    /// Time limit for a program to start and write its first tick [default: 5s]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = units::parse_duration, help_heading = "Scenarios")]
    // A plan does not contain this limit, which depends on the machine.
    #[serde(skip)]
    pub max_start_time: Option<Duration>,
    /// Runtime of tokio subjects: current-thread, multi-thread or multi-thread:N; repeat for
    /// several [default: current-thread]
    #[arg(long, value_name = "KIND", value_parser = runtime_parser(), hide_possible_values = true, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_list")]
    pub runtime: Vec<Runtime>,
    /// Load to run alongside the subjects: cpu:2, memory, io, softirq, tasks:100x50us or a command;
    /// repeat for several [default: none]
    #[arg(long, value_name = "LOAD", allow_hyphen_values = true, value_parser = load_parser(), hide_possible_values = true, help_heading = "Scenarios")]
    #[serde(deserialize_with = "read_list")]
    pub load: Vec<Load>,
    /// Number of instances of each tokio subject that run at once, with phases spread over the
    /// period; each records all its ticks
    #[arg(long, value_name = "N", value_parser = units::parse_count, help_heading = "Scenarios")]
    pub instances: Option<u64>,
    /// CPUs on which each scenario runs at once, with a thread on each. The flag needs `--each`.
    #[arg(skip)]
    #[serde(deserialize_with = "read_text")]
    pub cpus: Option<CpuSelection>,
}

/// Reads a table of a plan file, and moves the name and the meter into the program.
impl<'de> Deserialize<'de> for ScenarioKeys {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // The derived function, which reads each key by itself.
        let mut keys = Self::deserialize(deserializer)?;
        let (name, meter) = (std::mem::take(&mut keys.name).pop(), keys.meter.take());
        if let Some(program) = keys.command.pop() {
            let program = program.with_meter(meter);
            keys.command.push(match name {
                Some(name) => program.with_name(&name).map_err(D::Error::custom)?,
                None => program,
            });
        } else if name.is_some() || meter.is_some() {
            return Err(D::Error::custom("name and meter are those of a program; add its command"));
        }
        if keys.ticks.is_some() && keys.duration.is_some() {
            return Err(D::Error::custom("ticks and duration exclude each other; give one"));
        }
        Ok(keys)
    }
}

impl ScenarioKeys {
    /// Returns these values, with `defaults` in place of missing ones.
    fn or(&self, defaults: &Self) -> Self {
        let targets = if self.has_subject() { self } else { defaults };
        let lengths = if self.has_length() { self } else { defaults };
        Self {
            period: list_or(&self.period, &defaults.period),
            ticks: lengths.ticks,
            duration: lengths.duration,
            round_ticks: self.round_ticks.or(defaults.round_ticks),
            warmup: self.warmup.or(defaults.warmup),
            subject: targets.subject.clone(),
            command: targets.command.clone(),
            name: Vec::new(),
            meter: None,
            max_start_time: None,
            runtime: list_or(&self.runtime, &defaults.runtime),
            load: list_or(&self.load, &defaults.load),
            instances: self.instances.or(defaults.instances),
            cpus: self.cpus.clone().or_else(|| defaults.cpus.clone()),
        }
    }

    /// Returns a scenario of a report with the values that were given on the command line.
    fn overridden_by(&self, given: &Self) -> Self {
        let mut stored = self.clone();
        let has_other_period = !given.period.is_empty() && given.period != stored.period;
        // Rounds of another length or period have their default size.
        if has_other_period || given.has_length() {
            stored.round_ticks = None;
        }
        if has_other_period {
            stored.warmup = None;
        }
        if !given.subject.is_empty() {
            // The runtime is that of a subject that is not measured again.
            stored.runtime.clear();
        }
        given.or(&stored)
    }

    /// Returns whether a subject or a program is given.
    pub fn has_subject(&self) -> bool {
        !self.subject.is_empty() || !self.command.is_empty()
    }

    fn has_length(&self) -> bool {
        self.ticks.is_some() || self.duration.is_some()
    }

    /// Returns the flags that have no effect because each of `others` overrides them.
    pub fn overridden_flags(&self, others: &[Self]) -> Vec<&'static str> {
        type IsGiven = fn(&ScenarioKeys) -> bool;
        const FLAGS: [(&str, IsGiven); 9] = [
            ("--subject", ScenarioKeys::has_subject),
            ("--period", |s| !s.period.is_empty()),
            ("--runtime", |s| !s.runtime.is_empty()),
            ("--load", |s| !s.load.is_empty()),
            ("--ticks or --duration", ScenarioKeys::has_length),
            ("--round-ticks", |s| s.round_ticks.is_some()),
            ("--warmup", |s| s.warmup.is_some()),
            ("--instances", |s| s.instances.is_some()),
            ("--cpus", |s| s.cpus.is_some()),
        ];
        let is_overridden =
            |is_given: IsGiven| !others.is_empty() && is_given(self) && others.iter().all(is_given);
        let overridden = FLAGS.iter().filter(|(_, is_given)| is_overridden(*is_given));
        overridden.map(|(flag, _)| *flag).collect()
    }

    fn scenarios(self) -> exit::Result<Vec<Scenario>> {
        let args = ScenarioArgs {
            subjects: Subjects::union(self.subject),
            commands: self.command,
            periods: self.period,
            runtimes: self.runtime,
            loads: self.load,
            length: self.ticks.map(Length::Ticks).or(self.duration.map(Length::Time)),
            round_ticks: self.round_ticks,
            warmup: self.warmup,
            instances: self.instances,
            cpus: self.cpus,
        };
        args.scenarios()
    }
}

/// Returns `given`, or the default if it is empty.
fn list_or<T: Clone>(given: &[T], default: &[T]) -> Vec<T> {
    if given.is_empty() { default.to_vec() } else { given.to_vec() }
}

impl PlanArgs {
    /// Returns whether these arguments set a number of ticks or a duration.
    pub fn has_length(&self) -> bool {
        self.defaults.has_length() || self.scenarios.iter().any(ScenarioKeys::has_length)
    }

    /// Computes the effective plan. These arguments override the defaults of a file, which override
    /// the built-in ones. They also override the scenarios of a report.
    pub fn to_plan(&self, file: &Self) -> exit::Result<Plan> {
        let given = &self.defaults;
        let defaults = given.or(&file.defaults);
        let listed = match &file.scenarios[..] {
            [] => vec![ScenarioKeys::default()],
            stored if file.is_from_report => {
                stored.iter().map(|scenario| scenario.overridden_by(given)).collect()
            }
            written => written.to_vec(),
        };
        let mut scenarios = Vec::new();
        for keys in listed {
            scenarios.extend(keys.or(&defaults).scenarios()?);
            scenario::check_scenario_count(scenarios.len())?;
        }
        let is_unused = |c: &&Program| scenarios.iter().all(|s| s.subject.program() != Some(*c));
        if let Some(unused) = given.command.iter().find(is_unused) {
            return Err(usage!(
                "each scenario of the plan sets what it measures, and {} is not in it; add it there as command = [...]",
                unused.text()
            ));
        }
        if let Some(meter) = &given.meter {
            let mut programs: Vec<&mut Program> =
                scenarios.iter_mut().filter_map(|s| s.subject.program_mut()).collect();
            if programs.is_empty() {
                return Err(usage!(
                    "--meter {meter} selects a loop of a program: give the program"
                ));
            }
            programs.iter_mut().for_each(|program| program.set_meter(meter));
        }
        Ok(Plan {
            seed: self.run.seed.or(file.run.seed).unwrap_or_else(scenario::draw_seed),
            scenarios: scenario::deduplicate(scenarios),
            tuning: self.run.tuning().or(&file.run.tuning()),
            samples: self.run.samples.or(file.run.samples).unwrap_or(true),
            why: self.run.profile_options(&file.run),
        })
    }
}

/// Reads a value that is written as a string.
fn read_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

/// Reads a duration of any length.
fn read_duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    units::parse_duration(&text).map(Some).map_err(D::Error::custom)
}

/// Reads a value that is written as a string, or a list of them.
fn read_list<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(TextListVisitor(str::parse))
}

/// Reads periods within their bounds.
fn read_periods<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Duration>, D::Error> {
    deserializer.deserialize_any(TextListVisitor(units::parse_period))
}

/// Reads a program and its arguments, which are a list of words.
fn read_command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Program>, D::Error> {
    let words = Vec::<String>::deserialize(deserializer)?;
    Program::from_words(words).map(|program| vec![program]).map_err(D::Error::custom)
}

/// Reads the name of a program.
fn read_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    String::deserialize(deserializer).map(|name| vec![name])
}

/// Reads a string or a list of strings, each of which the function parses.
struct TextListVisitor<F>(F);

impl<'de, T, E: fmt::Display, F: Fn(&str) -> Result<T, E>> Visitor<'de> for TextListVisitor<F> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string or a list of strings")
    }

    fn visit_str<Error: serde::de::Error>(self, text: &str) -> Result<Vec<T>, Error> {
        (self.0)(text).map(|value| vec![value]).map_err(Error::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut values = Vec::new();
        while let Some(text) = list.next_element::<String>()? {
            values.push((self.0)(&text).map_err(A::Error::custom)?);
        }
        match values.is_empty() {
            true => Err(A::Error::custom("empty list: expected at least one value")),
            false => Ok(values),
        }
    }
}
