//! Reads and writes plan files.
//!
//! A file is read into the same type as the flags of a command line. It is written from an
//! effective plan.

use std::str::FromStr;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::suggest::did_you_mean;
use cli::units;
use engine::program::Program;
use engine::scenario::{Plan, Scenario};
use engine::subject::target::Target;
use files::file::File as _;
use files::report::{self, Report};

use crate::run::plan_args::{PlanArgs, RunKeys, ScenarioKeys};

/// The schema of a plan file, which it may state. A printed plan states it.
const SCHEMA: &str = "osjitter.plan/1";
/// The size of the largest plan. In memory, TOML needs some fifty times its size.
const MAX_PLAN_BYTES: usize = 1 << 20;

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
        return plan_args_from_report(&report.plan).map_err(|e| e.context(name));
    }
    if text.len() > MAX_PLAN_BYTES {
        return Err(usage!(
            "{name}: {} KiB of TOML; a plan has at most {} KiB",
            text.len().div_ceil(1024),
            MAX_PLAN_BYTES / 1024
        ));
    }
    let file: PlanArgs = toml::from_str(text).map_err(|error: toml::de::Error| {
        let location = error.span().map_or(String::new(), |span| format_location(text, span.start));
        let message = error.message().trim();
        usage!("{name}{location}: {}{}", message.replace('\n', "; "), suggest_key(message))
    })?;
    match file.schema.as_deref() {
        None | Some(SCHEMA) => Ok(file),
        Some(other) => {
            Err(usage!("{name}: schema {other:?} is not known; this version reads {SCHEMA:?}"))
        }
    }
}

/// Formats an offset as line and column.
fn format_location(text: &str, offset: usize) -> String {
    let before = &text[..offset.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
    format!(":{line}:{column}")
}

/// Converts the plan of a report, so that it can be run again.
fn plan_args_from_report(plan: &report::Plan) -> exit::Result<PlanArgs> {
    let mut scenarios = Vec::new();
    for scenario in &plan.scenarios {
        scenarios.push(scenario_keys_from_report(scenario)?);
    }
    let why_threshold_ns = plan.why.as_ref().and_then(|why| why.threshold_ns);
    Ok(PlanArgs {
        run: RunKeys {
            seed: Some(plan.seed),
            samples: Some(plan.samples),
            cpu: plan.cpu,
            sched: plan.sched.as_deref().map(parse_stored).transpose()?,
            mlock: plan.mlock,
            timer_slack: plan.timer_slack_ns.map(Duration::from_nanos),
            why: plan.why.is_some(),
            why_threshold: why_threshold_ns.map(Duration::from_nanos),
        },
        scenarios,
        is_from_report: true,
        ..PlanArgs::default()
    })
}

/// Converts the scenario of a report, so that it can be run again.
fn scenario_keys_from_report(s: &report::Scenario) -> exit::Result<ScenarioKeys> {
    let (subject, command) = match &s.command {
        Some(words) => {
            let program = Program::from_words(words.clone())?.with_meter(s.meter.clone());
            // A name that was written by hand may be invalid.
            let named = program.clone().with_name(&s.subject);
            (Vec::new(), vec![named.unwrap_or(program)])
        }
        None => (vec![parse_stored(&s.subject)?], Vec::new()),
    };
    Ok(ScenarioKeys {
        subject,
        command,
        period: vec![Duration::from_nanos(s.period_ns)],
        ticks: Some(s.ticks),
        round_ticks: Some(s.round_ticks),
        warmup: Some(s.warmup_ticks),
        runtime: s.runtime.as_deref().map(parse_stored).transpose()?.into_iter().collect(),
        load: s.load.as_deref().map(parse_stored).transpose()?.into_iter().collect(),
        instances: Some(s.instances),
        cpus: s.cpu.map(|cpu| parse_stored(&cpu.to_string())).transpose()?,
        ..ScenarioKeys::default()
    })
}

/// Parses a value of a report, which has the form of the flag.
fn parse_stored<T: FromStr<Err: Into<Error>>>(text: &str) -> exit::Result<T> {
    text.parse().map_err(Into::into)
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
    use engine::machine::os::Sched;
    use engine::machine::tuning;
    use engine::scenario::{ProfileOptions, ScenarioArgs, Subjects};

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
        assert_eq!((first.load.len(), second.period.len(), third.command.len()), (2, 2, 1));
        let run = &plan.run;
        assert!(run.seed.is_some() && run.cpu.is_some() && run.why_threshold.is_some(), "{run:?}");
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
            ScenarioKeys { period: vec![Duration::from_millis(3)], ..ScenarioKeys::default() };
        let arguments = PlanArgs { defaults, ..PlanArgs::default() };
        let plan = arguments.to_plan(&parse("p.toml", text).unwrap()).unwrap();
        let ids: Vec<&str> = plan.scenarios.iter().map(|s| s.id.as_str()).collect();
        let expected = [
            "nanosleep@250us", "spin@250us", "nanosleep@1ms", "spin@1ms",
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
