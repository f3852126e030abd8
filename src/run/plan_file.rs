//! Reads and writes plan files.
//!
//! A file is read into the same typed arguments as a command line. It is written from an effective
//! plan.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::suggest::did_you_mean;
use cli::units;
use engine::load::Load;
use engine::machine::os::Sched;
use engine::machine::tuning;
use engine::program::Program;
use engine::program_error::ProgramError;
use engine::scenario::{
    self, CpuSelection, Length, Plan, ProfileOptions, Runtime, Scenario, ScenarioArgs, Subjects,
};
use engine::subject::target::Target;
use files::file::File as _;
use files::report::{self, Report};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// The schema of a plan file, which it may state. A printed plan states it.
const SCHEMA: &str = "osjitter.plan/1";
/// The size of the largest plan. In memory, TOML needs some fifty times its size.
const MAX_PLAN_BYTES: usize = 1 << 20;

/// The contents of a plan file, or of the command line of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanArgs {
    pub seed: Option<u64>,
    pub samples: Option<bool>,
    pub tuning: tuning::Settings,
    /// The values that scenarios do not set themselves.
    pub defaults: ScenarioArgs,
    /// The scenarios. Without any, one with all defaults is measured.
    pub scenarios: Vec<ScenarioArgs>,
    /// How late ticks are profiled, if they are.
    pub why: Option<ProfileOptions>,
    /// The meter that is measured in all programs.
    pub meter: Option<String>,
    /// Whether these are the scenarios of a report.
    pub is_from_report: bool,
}

impl PlanArgs {
    /// Computes the effective plan. These arguments override the defaults of a file, which override
    /// the built-in ones. They also override the scenarios of a report.
    pub fn to_plan(&self, file: &Self) -> exit::Result<Plan> {
        let defaults = self.defaults.or(&file.defaults);
        let overridden = file.is_from_report.then(|| file.overridden_by(&self.defaults));
        let file = overridden.as_ref().unwrap_or(file);
        let only_defaults = [ScenarioArgs::default()];
        let listed = if file.scenarios.is_empty() { &only_defaults[..] } else { &file.scenarios };
        let mut scenarios = Vec::new();
        for args in listed {
            scenarios.extend(args.or(&defaults).scenarios()?);
            scenario::check_scenario_count(scenarios.len())?;
        }
        let is_unused = |c: &&Program| scenarios.iter().all(|s| s.subject.program() != Some(*c));
        if let Some(unused) = self.defaults.commands.iter().find(is_unused) {
            return Err(usage!(
                "each scenario of the plan sets what it measures, and {} is not in it; add it there as command = [...]",
                unused.text()
            ));
        }
        self.select_meter(&mut scenarios)?;
        Ok(Plan {
            seed: self.seed.or(file.seed).unwrap_or_else(scenario::draw_seed),
            scenarios: scenario::deduplicate(scenarios),
            tuning: self.tuning.or(&file.tuning),
            samples: self.samples.or(file.samples).unwrap_or(true),
            why: self.why.or(file.why),
        })
    }

    /// Selects the meter of these arguments in all programs.
    fn select_meter(&self, scenarios: &mut [Scenario]) -> exit::Result<()> {
        let Some(meter) = &self.meter else { return Ok(()) };
        let mut programs = scenarios.iter_mut().filter_map(|s| s.subject.program_mut()).peekable();
        if programs.peek().is_none() {
            return Err(usage!("--meter {meter} selects a loop of a program: give the program"));
        }
        programs.for_each(|program| program.set_meter(meter));
        Ok(())
    }

    /// Returns the plan of a report with the values that were given on the command line.
    fn overridden_by(&self, given: &ScenarioArgs) -> Self {
        let mut plan = self.clone();
        for scenario in &mut plan.scenarios {
            *scenario = override_scenario(scenario, given);
        }
        plan
    }
}

/// Returns a scenario of a report with the values that were given on the command line.
fn override_scenario(scenario: &ScenarioArgs, given: &ScenarioArgs) -> ScenarioArgs {
    let mut stored = scenario.clone();
    let has_other_period = !given.periods.is_empty() && given.periods != stored.periods;
    // Rounds of another length or period have their default size.
    if has_other_period || given.length.is_some() {
        stored.round_ticks = None;
    }
    if has_other_period {
        stored.warmup = None;
    }
    if !given.subjects.is_empty() {
        // The runtime is that of a subject that is not measured again.
        stored.runtimes.clear();
    }
    given.or(&stored)
}

/// Suggests a key in place of an unknown one.
///
/// The message of the parser quotes the unknown key, and then all known ones.
fn suggest_key(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    match quoted.next().filter(|_| message.starts_with("unknown field")) {
        Some(unknown) => match did_you_mean(unknown, quoted).trim_end() {
            "" => String::new(),
            question => format!("; {question}"),
        },
        None => String::new(),
    }
}

/// Parses a plan file, or the plan of a report.
///
/// # Errors
/// Returns an error that names the location if the text is not a plan.
pub fn parse(name: &str, text: &str) -> exit::Result<PlanArgs> {
    if text.trim_start().starts_with('{') {
        let report = Report::from_json(text).map_err(|e| usage!("{name}: {e}"))?;
        return plan_args_from_report(&report.plan).map_err(|error| error.context(name));
    }
    if text.len() > MAX_PLAN_BYTES {
        return Err(usage!(
            "{name}: {} KiB of TOML; a plan has at most {} KiB",
            text.len().div_ceil(1024),
            MAX_PLAN_BYTES / 1024
        ));
    }
    let file: PlanTable =
        toml::from_str(text).map_err(|error| explain_toml_error(name, text, &error))?;
    match file.schema.as_deref() {
        None | Some(SCHEMA) => Ok(file.into()),
        Some(other) => {
            Err(usage!("{name}: schema {other:?} is not known; this version reads {SCHEMA:?}"))
        }
    }
}

fn explain_toml_error(name: &str, text: &str, error: &toml::de::Error) -> Error {
    let location = error.span().map_or(String::new(), |span| format_location(text, span.start));
    let message = error.message().trim();
    usage!("{name}{location}: {}{}", message.replace('\n', "; "), suggest_key(message))
}

/// Formats an offset as line and column.
fn format_location(text: &str, offset: usize) -> String {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!(":{line}:{column}")
}

/// A plan file.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanTable {
    schema: Option<String>,
    #[serde(default)]
    run: RunTable,
    #[serde(default)]
    defaults: ScenarioTable,
    #[serde(default)]
    scenario: Vec<ScenarioTable>,
}

impl From<PlanTable> for PlanArgs {
    fn from(file: PlanTable) -> Self {
        let run = file.run;
        Self {
            seed: run.seed,
            samples: run.samples,
            why: run.profile_options(),
            tuning: tuning::Settings {
                cpu: run.cpu,
                sched: run.sched.map(|Text(class)| class),
                mlock: run.mlock,
                timer_slack: run.timer_slack.map(|Text(AnyDuration(slack))| slack),
            },
            defaults: file.defaults.0,
            scenarios: file.scenario.into_iter().map(|s| s.0).collect(),
            meter: None,
            is_from_report: false,
        }
    }
}

/// The values that concern the run as a whole.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct RunTable {
    seed: Option<u64>,
    samples: Option<bool>,
    cpu: Option<usize>,
    sched: Option<Text<Sched>>,
    mlock: bool,
    timer_slack: Option<Text<AnyDuration>>,
    why: bool,
    why_threshold: Option<Text<AnyDuration>>,
}

impl RunTable {
    /// Late ticks are also profiled if there is only a threshold.
    fn profile_options(&self) -> Option<ProfileOptions> {
        let threshold = self.why_threshold.as_ref().map(|Text(AnyDuration(threshold))| *threshold);
        (self.why || threshold.is_some()).then_some(ProfileOptions { threshold })
    }
}

/// A scenario, or the defaults, as written.
#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct RawScenario {
    subject: OneOrMany<Subjects>,
    command: Option<CommandWords>,
    name: Option<String>,
    meter: Option<String>,
    period: OneOrMany<PeriodText>,
    ticks: Option<u64>,
    duration: Option<Text<AnyDuration>>,
    round_ticks: Option<u64>,
    warmup: Option<u64>,
    runtime: OneOrMany<Runtime>,
    load: OneOrMany<Load>,
    instances: Option<u64>,
    cpus: Option<Text<CpuSelection>>,
}

/// A scenario whose keys do not contradict each other.
#[derive(Default, serde::Deserialize)]
#[serde(try_from = "RawScenario")]
struct ScenarioTable(ScenarioArgs);

impl TryFrom<RawScenario> for ScenarioTable {
    type Error = String;

    fn try_from(mut file: RawScenario) -> Result<Self, Self::Error> {
        let program = file.take_program()?;
        let length = match (file.ticks, file.duration) {
            (Some(_), Some(_)) => {
                return Err("ticks and duration exclude each other; give one".to_owned());
            }
            (ticks, duration) => duration
                .map(|Text(AnyDuration(time))| Length::Time(time))
                .or(ticks.map(Length::Ticks)),
        };
        Ok(Self(ScenarioArgs {
            subjects: Subjects::union(file.subject.0),
            commands: program.into_iter().collect(),
            periods: file.period.0.into_iter().map(|PeriodText(period)| period).collect(),
            runtimes: file.runtime.0,
            loads: file.load.0,
            length,
            round_ticks: file.round_ticks,
            warmup: file.warmup,
            instances: file.instances,
            cpus: file.cpus.map(|Text(cpus)| cpus),
        }))
    }
}

impl RawScenario {
    /// Returns the program with its name and its meter, which need a program.
    fn take_program(&mut self) -> Result<Option<Program>, String> {
        let (name, meter) = (self.name.take(), self.meter.take());
        match (self.command.take(), name) {
            (Some(CommandWords(program)), Some(name)) => {
                let named = program.with_meter(meter).with_name(&name);
                named.map(Some).map_err(|error| error.to_string())
            }
            (Some(CommandWords(program)), None) => Ok(Some(program.with_meter(meter))),
            (None, None) if meter.is_none() => Ok(None),
            (None, _) => Err("name and meter are those of a program; add its command".to_owned()),
        }
    }
}

/// A program and its arguments, as a list of words.
#[derive(serde::Deserialize)]
#[serde(try_from = "Vec<String>")]
struct CommandWords(Program);

impl TryFrom<Vec<String>> for CommandWords {
    type Error = ProgramError;

    fn try_from(words: Vec<String>) -> Result<Self, ProgramError> {
        Program::from_words(words).map(Self)
    }
}

/// A value that is written as a string.
struct Text<T>(T);
/// A value that is written as a string, or a list of them that makes a matrix.
struct OneOrMany<T>(Vec<T>);
/// A period within its bounds.
struct PeriodText(Duration);
/// A duration of any length.
struct AnyDuration(Duration);

impl<T> Default for OneOrMany<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl FromStr for PeriodText {
    type Err = units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        units::parse_period(text).map(Self)
    }
}

impl FromStr for AnyDuration {
    type Err = units::UnitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        units::parse_duration(text).map(Self)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for OneOrMany<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrManyVisitor<T>(PhantomData<T>);
        impl<'de, T: FromStr<Err: fmt::Display>> Visitor<'de> for OneOrManyVisitor<T> {
            type Value = OneOrMany<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<OneOrMany<T>, E> {
                text.parse().map(|value| OneOrMany(vec![value])).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<OneOrMany<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(Text(value)) = list.next_element()? {
                    values.push(value);
                }
                match values.is_empty() {
                    true => Err(A::Error::custom("empty list: expected at least one value")),
                    false => Ok(OneOrMany(values)),
                }
            }
        }
        deserializer.deserialize_any(OneOrManyVisitor(PhantomData))
    }
}

/// Converts the scenario of a report, so that it can be run again.
fn scenario_args_from_report(s: &report::Scenario) -> exit::Result<ScenarioArgs> {
    let (subjects, commands) = match &s.command {
        Some(words) => {
            let program = Program::from_words(words.clone())?.with_meter(s.meter.clone());
            // A name that was written by hand may be invalid.
            let named = program.clone().with_name(&s.subject);
            (Vec::new(), vec![named.unwrap_or(program)])
        }
        None => (s.subject.parse::<Subjects>()?.0, Vec::new()),
    };
    Ok(ScenarioArgs {
        subjects,
        commands,
        periods: vec![Duration::from_nanos(s.period_ns)],
        runtimes: s.runtime.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
        loads: s.load.iter().map(|text| text.parse()).collect::<Result<_, _>>()?,
        length: Some(Length::Ticks(s.ticks)),
        round_ticks: Some(s.round_ticks),
        warmup: Some(s.warmup_ticks),
        instances: Some(s.instances),
        cpus: s.cpu.map(cpu_selection).transpose()?,
    })
}

fn cpu_selection(cpu: u64) -> exit::Result<CpuSelection> {
    Ok(cpu.to_string().parse()?)
}

/// Converts the plan of a report, so that it can be run again.
fn plan_args_from_report(plan: &report::Plan) -> exit::Result<PlanArgs> {
    let scenarios = plan.scenarios.iter().map(scenario_args_from_report);
    Ok(PlanArgs {
        seed: Some(plan.seed),
        samples: Some(plan.samples),
        tuning: tuning::Settings {
            cpu: plan.cpu,
            sched: plan.sched.as_deref().map(str::parse).transpose()?,
            mlock: plan.mlock,
            timer_slack: plan.timer_slack_ns.map(Duration::from_nanos),
        },
        defaults: ScenarioArgs::default(),
        scenarios: scenarios.collect::<Result<_, _>>()?,
        why: plan
            .why
            .as_ref()
            .map(|why| ProfileOptions { threshold: why.threshold_ns.map(Duration::from_nanos) }),
        meter: None,
        is_from_report: true,
    })
}

/// Formats a plan as a file that [`parse`] reads back to the same plan.
pub fn to_toml(plan: &Plan) -> String {
    let mut text = format!("# osjitter run --plan FILE\nschema = {SCHEMA:?}\n");
    write_run(&mut text, plan);
    for scenario in &plan.scenarios {
        write_scenario(&mut text, scenario);
    }
    text
}

fn write_run(text: &mut String, plan: &Plan) {
    let tuning = &plan.tuning;
    let why_threshold = plan.why.and_then(|why| why.threshold);
    text.push_str("\n[run]\n");
    write_key(text, "seed", Some(plan.seed.to_string()));
    write_key(text, "samples", Some(plan.samples.to_string()));
    write_key(text, "cpu", tuning.cpu.map(|cpu| cpu.to_string()));
    write_key(text, "sched", tuning.sched.map(|class| quote(class.to_string())));
    write_key(text, "mlock", Some(tuning.mlock.to_string()));
    write_key(text, "timer-slack", tuning.timer_slack.map(quote_duration));
    write_key(text, "why", plan.why.map(|_| "true".to_owned()));
    write_key(text, "why-threshold", why_threshold.map(quote_duration));
}

fn write_scenario(text: &mut String, scenario: &Scenario) {
    text.push_str("\n[[scenario]]\n");
    match &scenario.subject {
        Target::Builtin(subject) => {
            write_key(text, "subject", Some(quote(subject.name.to_owned())));
        }
        Target::Program(program) => {
            let words = toml::Value::from(program.words().to_vec());
            write_key(text, "command", Some(words.to_string()));
            write_key(text, "name", program.given_name().map(|name| quote(name.to_owned())));
            write_key(text, "meter", program.meter().map(|meter| quote(meter.to_owned())));
        }
    }
    let instances = (scenario.instances > 1).then(|| scenario.instances.to_string());
    write_key(text, "period", Some(quote_duration(scenario.period)));
    write_key(text, "ticks", Some(scenario.ticks.to_string()));
    write_key(text, "round-ticks", Some(scenario.round_ticks.to_string()));
    write_key(text, "warmup", Some(scenario.warmup_ticks.to_string()));
    write_key(text, "runtime", scenario.runtime.map(|r| quote(r.to_string())));
    write_key(text, "load", scenario.reported_load().map(quote));
    write_key(text, "instances", instances);
    write_key(text, "cpus", scenario.cpu.map(|cpu| quote(cpu.to_string())));
}

fn write_key(text: &mut String, key: &str, value: Option<String>) {
    if let Some(value) = value {
        text.push_str(&format!("{key} = {value}\n"));
    }
}

fn quote(value: String) -> String {
    toml::Value::from(value).to_string()
}

fn quote_duration(duration: Duration) -> String {
    quote(units::format_exact_duration(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_plan_parses_to_itself() {
        let loads = ["none", "cpu:2", "tasks:100x50us", "sh -c 'exec \"a b\"'"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let command = |words: &[&str]| {
            Program::from_words(words.iter().map(|w| (*w).to_owned()).collect()).unwrap()
        };
        let commands = vec![
            command(&["./a b", "it's", "\"", ""]),
            command(&["./a b", "2"]),
            command(&["spin"]),
        ];
        let subjects = "*".parse::<Subjects>().unwrap().0;
        let args = ScenarioArgs { subjects, commands, loads, ..ScenarioArgs::default() };
        let tuning = tuning::Settings {
            cpu: Some(3),
            sched: Some(Sched::RoundRobin(4)),
            mlock: true,
            timer_slack: Some(Duration::from_micros(50)),
        };
        let why = Some(ProfileOptions { threshold: Some(Duration::from_micros(300)) });
        let plan = Plan {
            seed: 1 << 40,
            samples: false,
            tuning,
            scenarios: args.scenarios().unwrap(),
            why,
        };
        let reparsed = parse("p", &to_toml(&plan)).unwrap();
        assert_eq!(PlanArgs::default().to_plan(&reparsed).unwrap(), plan);
        let from_report = plan_args_from_report(&plan.to_report()).unwrap();
        assert_eq!(PlanArgs::default().to_plan(&from_report).unwrap(), plan);
    }

    #[test]
    fn new_plan_documents_every_key() {
        use crate::run::new_plan::PLAN;
        let plain = parse("new", PLAN).unwrap();
        assert_eq!(PlanArgs::default().to_plan(&plain).unwrap().scenarios.len(), 4);
        // Ticks and a duration exclude each other; all other keys can be used at once.
        let text = PLAN.replace("#: duration", "# duration").replace("#: ", "");
        let plan = parse("new", &text).unwrap();
        let [first, second, third] = &plan.scenarios[..] else {
            panic!("{} scenarios", plan.scenarios.len())
        };
        assert_eq!((first.loads.len(), second.periods.len(), third.commands.len()), (2, 2, 1));
        assert!(plan.seed.is_some() && plan.tuning.cpu.is_some() && plan.why.is_some(), "{plan:?}");
        let unknown = parse("new", "[run]\nx = 1\n").unwrap_err().to_string()
            + &parse("new", "[defaults]\nx = 1\n").unwrap_err().to_string();
        let keys: Vec<&str> =
            unknown.split('`').skip(1).step_by(2).filter(|key| *key != "x").collect();
        assert!(keys.len() > 15, "{unknown}");
        for key in keys {
            let has = |line: &str| line.trim_start_matches("#: ").starts_with(&format!("{key} = "));
            assert!(PLAN.lines().any(has), "no {key} in a new plan");
        }
    }

    #[test]
    fn command_line_overrides_only_defaults() {
        let text = "[defaults]\nticks = 7\nperiod = \"2ms\"\n[[scenario]]\nsubject = [\"spin\", \"nanosleep\"]\n\
                    period = [\"250us\", \"1ms\"]\n[[scenario]]\nsubject = \"tokio-sleep\"\nruntime = \"multi-thread:3\"\n";
        let defaults =
            ScenarioArgs { periods: vec![Duration::from_millis(3)], ..ScenarioArgs::default() };
        let arguments = PlanArgs { defaults, ..PlanArgs::default() };
        let plan = arguments.to_plan(&parse("p.toml", text).unwrap()).unwrap();
        let ids: Vec<&str> = plan.scenarios.iter().map(|s| s.id.as_str()).collect();
        let expected = [
            "nanosleep@250us",
            "spin@250us",
            "nanosleep@1ms",
            "spin@1ms",
            "tokio-sleep@3ms/multi-thread:3",
        ];
        assert_eq!(ids, expected);
        assert!(plan.scenarios.iter().all(|s| s.ticks == 7));
    }

    #[test]
    fn errors_name_line_and_column() {
        for (text, expected) in [
            (
                "[defaults]\nperiood = \"1ms\"\n",
                "p.toml:2:1: unknown field `periood`, expected one of ",
            ),
            ("[[scenari]]\n", "p.toml:1:3: unknown field `scenari`, expected one of "),
            ("[defaults]\n\nticks = \"many\"\n", "p.toml:3:9: "),
            ("[defaults]\nperiod = \"0us\"\n", "p.toml:2:10: invalid period 0us"),
            ("[defaults]\nperiod = [\"1ms\", \"1\"]\n", "p.toml:2:10: \"1\" has no unit"),
            (
                "[defaults]\nsubject = 5\n",
                "p.toml:2:11: invalid type: integer `5`, expected a string or a list",
            ),
            ("[[scenario]]\ncommand = []\n", "p.toml:2:11: empty command"),
            (
                "[[scenario]]\ncommand = \"./loop\"\n",
                "p.toml:2:11: invalid type: string \"./loop\", expected a sequence",
            ),
            ("[[scenario]]\nruntime = []\n", "p.toml:2:11: empty list"),
            (
                "[[scenario]]\nticks = 5\nduration = \"1s\"\n",
                "p.toml:1:1: ticks and duration exclude each other",
            ),
            ("[run]\nsched = \"fifo:100\"\n", "p.toml:2:9: unknown scheduling class"),
        ] {
            let error = parse("p.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn misspelled_keys_get_suggestions() {
        for (text, expected) in [
            ("[defaults]\nperiood = \"1ms\"\n", "; did you mean period?"),
            ("[[scenari]]\n", "; did you mean scenario?"),
            ("[run]\nmloc = true\n", "; did you mean mlock?"),
            ("[run]\ncolour = true\n", "`"),
        ] {
            let error = parse("p.toml", text).unwrap_err().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn other_versions_are_rejected() {
        for text in ["schema = \"osjitter.plan/2\"\n", "{\"schema\": \"osjitter.report/2\"}"] {
            let error = parse("p", text).unwrap_err().to_string();
            assert!(error.contains("/2\" is not known; this version reads"), "{error}");
        }
    }
}
