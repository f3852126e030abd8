//! The plan file: read into the same typed arguments as a command line, and written from an
//! effective plan.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use cli::exit::{self, usage};
use cli::suggest::did_you_mean;
use cli::units;
use engine::load::Load;
use engine::machine::os::Sched;
use engine::machine::tuning;
use engine::program::Program;
use engine::scenario::{self, Length, Plan, ProfileOptions, Runtime, ScenarioArgs, Subjects};
use engine::subject::target::Target;
use files::file::File as _;
use files::report::{self, Report};
use serde::de::{Deserialize, Deserializer, Error as _, SeqAccess, Visitor};

/// The schema that a plan file may name, and that a printed one does.
const SCHEMA: &str = "osjitter.plan/1";
/// A larger TOML file is no plan: in memory it becomes some fifty times its size.
const MAX_PLAN_BYTES: usize = 1 << 20;

/// What a plan file, or the command line of a run, states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanArgs {
    pub seed: Option<u64>,
    pub samples: Option<bool>,
    pub tuning: tuning::Settings,
    /// For every scenario that does not state otherwise.
    pub defaults: ScenarioArgs,
    /// One with nothing but the defaults if there are none.
    pub scenarios: Vec<ScenarioArgs>,
    /// Whether it is asked why ticks are late.
    pub why: Option<ProfileOptions>,
}

impl PlanArgs {
    /// The effective plan: these over the defaults of a file, and these over the built-in ones.
    pub fn plan(&self, file: &Self) -> exit::Result<Plan> {
        let defaults = self.defaults.or(&file.defaults);
        let only_defaults = [ScenarioArgs::default()];
        let listed = if file.scenarios.is_empty() { &only_defaults[..] } else { &file.scenarios };
        let mut scenarios = Vec::new();
        for args in listed {
            scenarios.extend(args.or(&defaults).scenarios()?);
            scenario::check_scenario_count(scenarios.len())?;
        }
        if let Some(unused) = self
            .defaults
            .commands
            .iter()
            .find(|c| scenarios.iter().all(|s| s.subject.program() != Some(*c)))
        {
            return Err(usage!(
                "the plan says of each scenario what it measures, and {} is not in it; add it there as command = [...]",
                unused.text()
            ));
        }
        Ok(Plan {
            seed: self.seed.or(file.seed).unwrap_or_else(scenario::draw_seed),
            scenarios: scenario::deduplicate(scenarios),
            tuning: self.tuning.or(&file.tuning),
            samples: self.samples.or(file.samples).unwrap_or(true),
            why: self.why.or(file.why),
        })
    }
}

/// Which key was meant, behind what the parser says of one that it does not know: it quotes that
/// one, and then all it knows.
fn meant(said: &str) -> String {
    let mut quoted = said.split('`').skip(1).step_by(2);
    match quoted.next().filter(|_| said.starts_with("unknown field")) {
        Some(unknown) => match did_you_mean(unknown, quoted).trim_end() {
            "" => String::new(),
            question => format!("; {question}"),
        },
        None => String::new(),
    }
}

/// Reads a plan file, or the plan out of a report; an error names the place.
pub fn parse(name: &str, text: &str) -> exit::Result<PlanArgs> {
    if text.trim_start().starts_with('{') {
        let report = Report::from_json(text).map_err(|e| usage!("{name}: {e}"))?;
        return of_report(&report.plan).map_err(|e| usage!("{name}: {e}"));
    }
    if text.len() > MAX_PLAN_BYTES {
        return Err(usage!(
            "{name}: {} KiB of TOML; a plan has at most {} KiB",
            text.len().div_ceil(1024),
            MAX_PLAN_BYTES / 1024
        ));
    }
    let file: Toml = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(String::new(), |span| {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
            format!(":{line}:{column}")
        });
        let said = error.message().trim();
        usage!("{name}{place}: {}{}", said.replace('\n', "; "), meant(said))
    })?;
    match file.schema.as_deref() {
        None | Some(SCHEMA) => Ok(PlanArgs {
            seed: file.run.seed,
            samples: file.run.samples,
            why: file.run.why(),
            tuning: tuning::Settings {
                cpu: file.run.cpu,
                sched: file.run.sched.map(|Text(class)| class),
                mlock: file.run.mlock,
                timer_slack: file.run.timer_slack.map(|Text(Any(slack))| slack),
            },
            defaults: file.defaults.0,
            scenarios: file.scenario.into_iter().map(|s| s.0).collect(),
        }),
        Some(other) => {
            Err(usage!("{name}: schema {other:?} is not known; this version reads {SCHEMA:?}"))
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Toml {
    schema: Option<String>,
    #[serde(default)]
    run: Run,
    #[serde(default)]
    defaults: Checked,
    #[serde(default)]
    scenario: Vec<Checked>,
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Run {
    seed: Option<u64>,
    samples: Option<bool>,
    cpu: Option<usize>,
    sched: Option<Text<Sched>>,
    mlock: bool,
    timer_slack: Option<Text<Any>>,
    why: bool,
    why_threshold: Option<Text<Any>>,
}

impl Run {
    /// A threshold alone asks, too.
    fn why(&self) -> Option<ProfileOptions> {
        let threshold = self.why_threshold.as_ref().map(|Text(Any(threshold))| *threshold);
        (self.why || threshold.is_some()).then_some(ProfileOptions { threshold })
    }
}

#[derive(Default, serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct Scenario {
    subject: Several<Subjects>,
    command: Option<Command>,
    period: Several<Period>,
    ticks: Option<u64>,
    duration: Option<Text<Any>>,
    round_ticks: Option<u64>,
    warmup: Option<u64>,
    runtime: Several<Runtime>,
    load: Several<Load>,
    instances: Option<u64>,
}

/// A scenario in which no two keys contradict each other.
#[derive(Default, serde::Deserialize)]
#[serde(try_from = "Scenario")]
struct Checked(ScenarioArgs);

impl TryFrom<Scenario> for Checked {
    type Error = &'static str;

    fn try_from(file: Scenario) -> Result<Self, Self::Error> {
        let length = match (file.ticks, file.duration) {
            (Some(_), Some(_)) => return Err("ticks and duration exclude each other; give one"),
            (ticks, duration) => {
                duration.map(|Text(Any(time))| Length::Time(time)).or(ticks.map(Length::Ticks))
            }
        };
        Ok(Self(ScenarioArgs {
            subjects: Subjects::union(file.subject.0),
            commands: file.command.map(|Command(program)| program).into_iter().collect(),
            periods: file.period.0.into_iter().map(|Period(period)| period).collect(),
            runtimes: file.runtime.0,
            loads: file.load.0,
            length,
            round_ticks: file.round_ticks,
            warmup: file.warmup,
            instances: file.instances,
        }))
    }
}

/// A program and its arguments, a word each.
#[derive(serde::Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Command(Program);

impl TryFrom<Vec<String>> for Command {
    type Error = String;

    fn try_from(words: Vec<String>) -> Result<Self, String> {
        Program::from_words(words).map(Self)
    }
}

/// A value that is written as text.
struct Text<T>(T);
/// One such value, or a list that makes a matrix.
struct Several<T>(Vec<T>);
struct Period(Duration);
/// A duration of any length.
struct Any(Duration);

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        units::parse_period(text).map(Self)
    }
}

impl FromStr for Any {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        units::parse_duration(text).map(Self)
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Several<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMany<T>(PhantomData<T>);
        impl<'de, T: FromStr<Err = String>> Visitor<'de> for OneOrMany<T> {
            type Value = Several<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Several<T>, E> {
                text.parse().map(|one| Several(vec![one])).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Several<T>, A::Error> {
                let mut values = Vec::new();
                while let Some(Text(value)) = list.next_element()? {
                    values.push(value);
                }
                match values.is_empty() {
                    true => Err(A::Error::custom(
                        "an empty list leaves nothing to measure; name at least one",
                    )),
                    false => Ok(Several(values)),
                }
            }
        }
        deserializer.deserialize_any(OneOrMany(PhantomData))
    }
}

/// The plan of a report, to be run again.
fn of_report(plan: &report::Plan) -> Result<PlanArgs, String> {
    let scenario = |s: &report::Scenario| {
        let (subjects, commands) = match &s.command {
            Some(words) => (Vec::new(), vec![Program::from_words(words.clone())?]),
            None => (s.subject.parse::<Subjects>()?.0, Vec::new()),
        };
        Ok(ScenarioArgs {
            subjects,
            commands,
            periods: vec![Duration::from_nanos(s.period_ns)],
            runtimes: s.runtime.iter().map(|text| text.parse()).collect::<Result<_, String>>()?,
            loads: s.load.iter().map(|text| text.parse()).collect::<Result<_, String>>()?,
            length: Some(Length::Ticks(s.ticks)),
            round_ticks: Some(s.round_ticks),
            warmup: Some(s.warmup_ticks),
            instances: Some(s.instances),
        })
    };
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
        scenarios: plan.scenarios.iter().map(scenario).collect::<Result<_, String>>()?,
        why: plan
            .why
            .as_ref()
            .map(|why| ProfileOptions { threshold: why.threshold_ns.map(Duration::from_nanos) }),
    })
}

/// The plan as a file that [`parse`] reads back to the same plan.
pub fn to_toml(plan: &Plan) -> String {
    let quoted = |value: String| toml::Value::from(value).to_string();
    let mut text = format!("# osjitter run --plan FILE\nschema = {SCHEMA:?}\n");
    let mut line = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!("{key} = {value}\n");
        }
    };
    let tuning = &plan.tuning;
    line("\n[run]\nseed", Some(plan.seed.to_string()));
    line("samples", Some(plan.samples.to_string()));
    line("cpu", tuning.cpu.map(|cpu| cpu.to_string()));
    line("sched", tuning.sched.map(|class| quoted(class.to_string())));
    line("mlock", Some(tuning.mlock.to_string()));
    line(
        "timer-slack",
        tuning.timer_slack.map(|slack| quoted(units::format_exact_duration(slack))),
    );
    line("why", plan.why.map(|_| "true".to_owned()));
    line(
        "why-threshold",
        plan.why.and_then(|why| why.threshold).map(|d| quoted(units::format_exact_duration(d))),
    );
    for s in &plan.scenarios {
        match &s.subject {
            Target::Builtin(entry) => {
                line("\n[[scenario]]\nsubject", Some(quoted(entry.name.to_owned())))
            }
            Target::Program(program) => {
                line(
                    "\n[[scenario]]\ncommand",
                    Some(toml::Value::from(program.words().to_vec()).to_string()),
                );
            }
        }
        line("period", Some(quoted(units::format_exact_duration(s.period))));
        line("ticks", Some(s.ticks.to_string()));
        line("round-ticks", Some(s.round_ticks.to_string()));
        line("warmup", Some(s.warmup_ticks.to_string()));
        line("runtime", s.runtime.map(|r| quoted(r.to_string())));
        line("load", s.reported_load().map(quoted));
        line("instances", (s.instances > 1).then(|| s.instances.to_string()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_plan_reads_back_to_itself() {
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
        let all = ScenarioArgs { subjects, commands, loads, ..ScenarioArgs::default() };
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
            scenarios: all.scenarios().unwrap(),
            why,
        };
        let again = parse("p", &to_toml(&plan)).unwrap();
        assert_eq!(PlanArgs::default().plan(&again).unwrap(), plan);
        assert_eq!(PlanArgs::default().plan(&of_report(&plan.to_report()).unwrap()).unwrap(), plan);
    }

    #[test]
    fn a_new_plan_explains_every_key_and_each_may_be_used() {
        use crate::run::new_plan::PLAN;
        let plain = parse("new", PLAN).unwrap();
        assert_eq!(PlanArgs::default().plan(&plain).unwrap().scenarios.len(), 4);
        // Ticks and a duration exclude each other; everything else can be used at once.
        let all = PLAN.replace("#: duration", "# duration").replace("#: ", "");
        let plan = parse("new", &all).unwrap();
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
    fn a_list_makes_a_matrix_and_the_command_line_overrides_defaults_only() {
        let text = "[defaults]\nticks = 7\nperiod = \"2ms\"\n[[scenario]]\nsubject = [\"spin\", \"nanosleep\"]\n\
                    period = [\"250us\", \"1ms\"]\n[[scenario]]\nsubject = \"tokio-sleep\"\nruntime = \"multi-thread:3\"\n";
        let defaults =
            ScenarioArgs { periods: vec![Duration::from_millis(3)], ..ScenarioArgs::default() };
        let arguments = PlanArgs { defaults, ..PlanArgs::default() };
        let plan = arguments.plan(&parse("p.toml", text).unwrap()).unwrap();
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
    fn mistakes_in_a_plan_are_placed() {
        for (text, says) in [
            (
                "[defaults]\nperiood = \"1ms\"\n",
                "p.toml:2:1: unknown field `periood`, expected one of ",
            ),
            ("[[scenari]]\n", "p.toml:1:3: unknown field `scenari`, expected one of "),
            ("[defaults]\n\nticks = \"many\"\n", "p.toml:3:9: "),
            ("[defaults]\nperiod = \"0us\"\n", "p.toml:2:10: a period of 0us"),
            ("[defaults]\nperiod = [\"1ms\", \"1\"]\n", "p.toml:2:10: \"1\" has no unit"),
            (
                "[defaults]\nsubject = 5\n",
                "p.toml:2:11: invalid type: integer `5`, expected a string or a list",
            ),
            ("[[scenario]]\ncommand = []\n", "p.toml:2:11: an empty command"),
            (
                "[[scenario]]\ncommand = \"./loop\"\n",
                "p.toml:2:11: invalid type: string \"./loop\", expected a sequence",
            ),
            ("[[scenario]]\nruntime = []\n", "p.toml:2:11: an empty list"),
            (
                "[[scenario]]\nticks = 5\nduration = \"1s\"\n",
                "p.toml:1:1: ticks and duration exclude each other",
            ),
            ("[run]\nsched = \"fifo:100\"\n", "p.toml:2:9: unknown scheduling class"),
        ] {
            let error = parse("p.toml", text).unwrap_err().to_string();
            assert!(error.starts_with(says), "{error}");
        }
    }

    #[test]
    fn a_mistyped_key_is_answered_with_the_near_one() {
        for (text, says) in [
            ("[defaults]\nperiood = \"1ms\"\n", "; did you mean period?"),
            ("[[scenari]]\n", "; did you mean scenario?"),
            ("[run]\nmloc = true\n", "; did you mean mlock?"),
            ("[run]\ncolour = true\n", "`"),
        ] {
            let error = parse("p.toml", text).unwrap_err().to_string();
            assert!(error.ends_with(says), "{error}");
        }
    }

    #[test]
    fn another_version_is_refused() {
        for text in ["schema = \"osjitter.plan/2\"\n", "{\"schema\": \"osjitter.report/2\"}"] {
            let error = parse("p", text).unwrap_err().to_string();
            assert!(error.contains("/2\" is not known; this version reads"), "{error}");
        }
    }
}
