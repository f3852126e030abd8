//! What a plan file may say, and how a plan becomes a file again.

use std::time::Duration;

use jitterstat::report::{Plan, Report, Scenario};
use serde::Deserialize;

use crate::text::units;

/// The schema that a plan file may name, and that a printed one does.
const SCHEMA: &str = "osjitter.plan/1";

/// What one scenario may say; the command line's options are the same.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// Names or globs.
    pub subject: Option<OneOrMany>,
    /// Periods.
    pub period: Option<OneOrMany>,
    /// Ticks to record.
    pub ticks: Option<u64>,
    /// Instead of ticks: how long to record.
    pub duration: Option<String>,
    /// Recorded ticks of a round.
    pub round_ticks: Option<u64>,
    /// Dropped ticks of a round.
    pub warmup: Option<u64>,
    /// Runtimes.
    pub runtime: Option<OneOrMany>,
    /// How many tick at once.
    pub instances: Option<u64>,
}

impl Options {
    /// These options where they say something, `other` where they do not.
    pub fn over(&self, other: &Self) -> Self {
        Self {
            subject: self.subject.clone().or_else(|| other.subject.clone()),
            period: self.period.clone().or_else(|| other.period.clone()),
            ticks: self.ticks.or(other.ticks),
            duration: self.duration.clone().or_else(|| other.duration.clone()),
            round_ticks: self.round_ticks.or(other.round_ticks),
            warmup: self.warmup.or(other.warmup),
            runtime: self.runtime.clone().or_else(|| other.runtime.clone()),
            instances: self.instances.or(other.instances),
        }
    }
}

/// Options of the whole run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RunOptions {
    /// Seed of the randomised order.
    pub seed: Option<u64>,
    /// Whether samples are kept.
    pub samples: Option<bool>,
    /// CPU to bind to.
    pub cpu: Option<usize>,
    /// Scheduling class.
    pub sched: Option<String>,
    /// Lock memory.
    pub mlock: Option<bool>,
    /// Timer slack.
    pub timer_slack: Option<String>,
}

impl RunOptions {
    /// These options where they say something, `other` where they do not.
    pub fn over(&self, other: &Self) -> Self {
        Self {
            seed: self.seed.or(other.seed),
            samples: self.samples.or(other.samples),
            cpu: self.cpu.or(other.cpu),
            sched: self.sched.clone().or_else(|| other.sched.clone()),
            mlock: self.mlock.or(other.mlock),
            timer_slack: self.timer_slack.clone().or_else(|| other.timer_slack.clone()),
        }
    }
}

/// One value, or a list that makes a matrix.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    /// The values.
    pub fn list(&self) -> Vec<String> {
        match self {
            Self::One(value) => vec![value.clone()],
            Self::Many(values) => values.clone(),
        }
    }
}

/// A plan file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Version of the format.
    pub schema: Option<String>,
    /// Options of the whole run.
    #[serde(default)]
    pub run: RunOptions,
    /// For every scenario that does not say otherwise.
    #[serde(default)]
    pub defaults: Options,
    /// The scenarios; one with nothing but the defaults if there are none.
    #[serde(default)]
    pub scenario: Vec<Options>,
}

/// Reads a plan file, or the plan out of a report; an error names the place.
pub fn parse(name: &str, text: &str) -> Result<File, String> {
    if text.trim_start().starts_with('{') {
        let report = Report::from_json(text).map_err(|e| format!("{name}: {e}"))?;
        return Ok(of_plan(&report.plan));
    }
    let file: File = toml::from_str(text).map_err(|error| {
        let place = error.span().map_or(String::new(), |span| {
            let before = &text[..span.start.min(text.len())];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
            format!(":{line}:{column}")
        });
        format!("{name}{place}: {}", error.message().trim().replace('\n', "; "))
    })?;
    match file.schema.as_deref() {
        None | Some(SCHEMA) => Ok(file),
        Some(other) => Err(format!("{name}: schema {other:?} is not known; this version reads {SCHEMA:?}")),
    }
}

/// An effective plan, said as a file says it.
fn of_plan(plan: &Plan) -> File {
    File {
        schema: Some(SCHEMA.to_owned()),
        run: RunOptions {
            seed: Some(plan.seed),
            samples: Some(plan.samples),
            cpu: plan.cpu,
            sched: plan.sched.clone(),
            mlock: Some(plan.mlock),
            timer_slack: plan.timer_slack_ns.map(|ns| units::short(Duration::from_nanos(ns))),
        },
        defaults: Options::default(),
        scenario: plan.scenarios.iter().map(of_scenario).collect(),
    }
}

fn of_scenario(scenario: &Scenario) -> Options {
    Options {
        subject: Some(OneOrMany::One(scenario.subject.clone())),
        period: Some(OneOrMany::One(units::short(Duration::from_nanos(scenario.period_ns)))),
        ticks: Some(scenario.ticks),
        duration: None,
        round_ticks: Some(scenario.round_ticks),
        warmup: Some(scenario.warmup_ticks),
        runtime: scenario.runtime.clone().map(OneOrMany::One),
        instances: (scenario.instances > 1).then_some(scenario.instances),
    }
}

/// The plan as a file that [`parse`] reads back to the same plan.
pub fn to_toml(plan: &Plan) -> String {
    let file = of_plan(plan);
    let quoted = |value: &str| toml::Value::from(value).to_string();
    let mut text = format!("# osjitter run --plan FILE\nschema = {}\n", quoted(SCHEMA));
    let mut line = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!("{key} = {value}\n");
        }
    };
    let run = &file.run;
    line("\n[run]\nseed", run.seed.map(|v| v.to_string()));
    line("samples", run.samples.map(|v| v.to_string()));
    line("cpu", run.cpu.map(|v| v.to_string()));
    line("sched", run.sched.as_deref().map(quoted));
    line("mlock", run.mlock.map(|v| v.to_string()));
    line("timer-slack", run.timer_slack.as_deref().map(quoted));
    for scenario in &file.scenario {
        let one = |value: &Option<OneOrMany>| value.as_ref().map(|v| quoted(&v.list()[0]));
        line("\n[[scenario]]\nsubject", one(&scenario.subject));
        line("period", one(&scenario.period));
        line("ticks", scenario.ticks.map(|v| v.to_string()));
        line("round-ticks", scenario.round_ticks.map(|v| v.to_string()));
        line("warmup", scenario.warmup.map(|v| v.to_string()));
        line("runtime", one(&scenario.runtime));
        line("instances", scenario.instances.map(|v| v.to_string()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::build;

    #[test]
    fn a_printed_plan_reads_back_to_itself() {
        let all = Options { subject: Some(OneOrMany::One("*".into())), ..Options::default() };
        let run = RunOptions {
            seed: Some(1 << 40),
            samples: Some(false),
            cpu: Some(3),
            sched: Some("rr:4".into()),
            mlock: Some(true),
            timer_slack: Some("50us".into()),
        };
        let plan = build(&File::default(), &all, &run).unwrap();
        let again = parse("p", &to_toml(&plan)).unwrap();
        assert_eq!(build(&again, &Options::default(), &RunOptions::default()).unwrap(), plan);
    }

    #[test]
    fn mistakes_in_a_plan_are_placed() {
        let error = parse("p.toml", "[defaults]\nperiood = \"1ms\"\n").unwrap_err();
        assert!(error.starts_with("p.toml:2:1: unknown field `periood`"), "{error}");
        let error = parse("p.toml", "[defaults]\n\nticks = \"many\"\n").unwrap_err();
        assert!(error.starts_with("p.toml:3:9: "), "{error}");
    }

    #[test]
    fn another_version_is_refused() {
        for text in ["schema = \"osjitter.plan/2\"\n", "{\"schema\": \"osjitter.report/2\"}"] {
            let error = parse("p", text).unwrap_err();
            assert!(error.contains("/2\" is not known; this version reads"), "{error}");
        }
    }
}
