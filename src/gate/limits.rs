//! Limits on numbers of one run: of a report that is there, or of a subject that is measured for it.

use std::path::Path as File;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jitterstat::gate::limit::{Path, PathError, Quantity, Round};
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::verdict::LimitCheck;
use jitterstat::report::{Host, Report, Status, Subject};

use crate::exit;
use crate::gate::args::GateArgs;
use crate::machine::tuning;
use crate::measure::order::Observer;
use crate::measure::record::{self, Conditions};
use crate::measure::round::MeasuredRound;
use crate::scenario::{self, Length, Plan, Scenario, ScenarioArgs};
use crate::text::units;
use crate::{interop, terminal};

/// One limit.
struct Limit {
    path: Path,
    /// In the unit of its quantity.
    most: f64,
}

/// Limits and what they are held against.
pub struct Limits {
    limits: Vec<Limit>,
    pub source: Source,
}

/// Where the numbers come from.
pub enum Source {
    /// A report that is there, and which of its subjects.
    Report(Box<Report>, usize),
    /// A plan of one scenario.
    Measure(Box<Plan>),
}

/// Reads the limits of the arguments; `None` if there are none.
pub fn plan(args: &GateArgs, cpu: Option<usize>) -> Result<Option<Limits>, String> {
    if args.max.is_empty() {
        return match (&args.report, args.ticks) {
            (Some(_), _) => Err("--report is what limits are held against; give --max".to_owned()),
            (_, Some(_)) => Err("--ticks goes with --max".to_owned()),
            _ => Ok(None),
        };
    }
    let limits = args.max.iter().map(|text| limit(text)).collect::<Result<Vec<_>, _>>()?;
    let source = match &args.report {
        Some(file) => of_report(file, args)?,
        None => to_measure(args, cpu)?,
    };
    let limits = Limits { limits, source };
    limits.are_carried()?;
    Ok(Some(limits))
}

/// Reads `p99=200us`.
fn limit(text: &str) -> Result<Limit, String> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| format!("no limit {text:?}; write for example p99=200us"))?;
    let (name, value) = (name.trim(), value.trim());
    let path = Path::find(name).map_err(|error| match error {
        PathError::OfTheLength => format!("{name} says how long a run was, not how good; it has no limit"),
        PathError::Unknown => format!("a summary has no {name:?}; the nearest are {}", nearest(name)),
    })?;
    let most = value_of(path.quantity(), value).map_err(|why| format!("--max {text}: {why}"))?;
    Ok(Limit { path, most })
}

/// The three paths that look most like it.
fn nearest(name: &str) -> String {
    let mut names: Vec<String> = Path::all().iter().map(ToString::to_string).collect();
    let short = |full: &str| full.strip_prefix("lateness_ns.").map_or_else(|| full.replace("_ns.", "."), str::to_owned);
    let alike = |full: &String| {
        let best = strsim::jaro_winkler(full, name).max(strsim::jaro_winkler(&short(full), name));
        std::cmp::Reverse((best * 1000.0) as u32)
    };
    names.sort_by_key(alike);
    names.truncate(3);
    names.join(", ")
}

/// Reads a value with the unit its quantity has.
fn value_of(quantity: Quantity, text: &str) -> Result<f64, String> {
    let number = |text: &str, example: &str| -> Result<f64, String> {
        let read = text.trim().parse::<f64>().ok().filter(|v| v.is_finite() && *v >= 0.0);
        read.ok_or_else(|| format!("{text:?} is not a number of at least 0; write for example {example}"))
    };
    match quantity {
        Quantity::Time => Ok(units::duration(text)?.as_nanos() as f64),
        Quantity::PartOfTicks => match text.strip_suffix('%') {
            Some(percent) => number(percent, "0.1%")
                .and_then(|p| if p <= 100.0 { Ok(p) } else { Err(format!("{p}% is more than all ticks")) }),
            None => Err(format!("{text:?} has no unit; it is a part of the ticks, for example 0.1%")),
        },
        Quantity::Rate => match (text.strip_suffix("ppb"), text.strip_suffix("ppm")) {
            (Some(ppb), _) => number(ppb, "100ppb"),
            (_, Some(ppm)) => Ok(number(ppm, "0.1ppm")? * 1e3),
            _ => Err(format!("{text:?} has no unit; it is a rate, for example 100ppb or 0.1ppm")),
        },
        Quantity::PerTick => match text.strip_suffix("/tick") {
            Some(count) => number(count, "1.5/tick"),
            None => Err(format!("{text:?} has no unit; it is a number for each tick, for example 1.5/tick")),
        },
    }
}

fn of_report(file: &File, args: &GateArgs) -> Result<Source, String> {
    let name = file.display();
    let report = interop::read(file).map_err(|e| e.to_string())?;
    if args.ticks.is_some() {
        return Err("--ticks is for what is measured; a report has the ticks it has".to_owned());
    }
    let is = |s: &Subject| args.subject.as_deref().is_none_or(|wanted| wanted == s.id || wanted == s.name);
    let found: Vec<usize> = (0..report.subjects.len()).filter(|&i| is(&report.subjects[i])).collect();
    match found[..] {
        [one] => Ok(Source::Report(Box::new(report), one)),
        _ => {
            let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
            Err(format!("{name}: choose with --subject one of {}", ids.join(", ")))
        }
    }
}

fn to_measure(args: &GateArgs, cpu: Option<usize>) -> Result<Source, String> {
    let judged = &args.judged;
    let subject = args.subject.as_deref();
    let subject = subject.ok_or("a limit needs something to hold it against; give --subject or --report")?;
    if judged.period.len() > 1 {
        return Err("limits are held at one period; give --period once".to_owned());
    }
    let scenario_args = ScenarioArgs {
        subjects: vec![scenario::one_subject(subject)?],
        periods: judged.period.clone(),
        runtimes: judged.runtime.into_iter().collect(),
        length: args.ticks.map(Length::Ticks),
        round_ticks: judged.round_ticks,
        warmup: judged.warmup,
        ..ScenarioArgs::default()
    };
    let plan = Plan {
        seed: judged.seed.unwrap_or_else(scenario::draw_seed),
        samples: true,
        tuning: tuning::Settings { cpu, ..tuning::Settings::default() },
        scenarios: scenario_args.scenarios().map_err(|e| e.to_string())?,
    };
    plan.fits_memory().map_err(|e| e.to_string())?;
    Ok(Source::Measure(Box::new(plan)))
}

impl Limits {
    /// How long measuring takes.
    pub fn time(&self) -> Duration {
        match &self.source {
            Source::Report(..) => Duration::ZERO,
            Source::Measure(plan) => plan.expected(),
        }
    }

    /// What the ticks cannot carry is known before anything is measured.
    fn are_carried(&self) -> Result<(), String> {
        match &self.source {
            Source::Measure(plan) => {
                let scenario = &plan.scenarios[0];
                self.limits.iter().try_for_each(|limit| is_carried(&limit.path, scenario))
            }
            Source::Report(report, which) => {
                let subject = &report.subjects[*which];
                let rounds = Round::all_of(subject)?;
                self.limits.iter().try_for_each(|limit| match limit.path.measure(&rounds).value {
                    Some(_) => Ok(()),
                    None => Err(format!(
                        "the report has no {} of {}: its ticks do not carry it, or the platform did not tell it",
                        limit.path, subject.id
                    )),
                })
            }
        }
    }

    /// Holds the limits against a subject; an error says why there is nothing to hold them against.
    pub fn hold(&self, subject: &Subject) -> Result<Vec<LimitCheck>, String> {
        match (&subject.status, &self.source) {
            (Status::Failed { reason }, _) => return Err(format!("{}: {reason}", subject.id)),
            // An interrupted measurement is none; of a report that was, what is there is judged.
            (Status::Partial, Source::Measure(_)) => return Ok(self.open(&subject.id, Reason::Interrupted)),
            _ => {}
        }
        let rounds = Round::all_of(subject)?;
        let check = |limit: &Limit| {
            let measured = limit.path.measure(&rounds);
            let (verdict, reason) = measured.judge(limit.most);
            LimitCheck {
                subject: subject.id.clone(),
                path: limit.path.to_string(),
                unit: limit.path.quantity().unit().to_owned(),
                limit: limit.most,
                value: measured.value,
                interval: measured.interval,
                verdict,
                reason,
                rounds: measured.rounds as u64,
                ticks: measured.ticks,
                ticks_to_decide: measured.ticks_to_decide(limit.most),
            }
        };
        Ok(self.limits.iter().map(check).collect())
    }

    /// The limits, not held against anything.
    pub fn open(&self, subject: &str, why: Reason) -> Vec<LimitCheck> {
        let check = |limit: &Limit| LimitCheck {
            subject: subject.to_owned(),
            path: limit.path.to_string(),
            unit: limit.path.quantity().unit().to_owned(),
            limit: limit.most,
            value: None,
            interval: None,
            verdict: Outcome::Inconclusive,
            reason: Some(why),
            rounds: 0,
            ticks: 0,
            ticks_to_decide: None,
        };
        self.limits.iter().map(check).collect()
    }
}

fn is_carried(path: &Path, scenario: &Scenario) -> Result<(), String> {
    let (id, ticks) = (&scenario.id, scenario.ticks);
    if path.needs_runtime() && scenario.runtime.is_none() {
        return Err(format!("{id} runs in no runtime, so it has no {path}"));
    }
    match path.least_ticks(scenario.round_ticks) {
        Some(least) if least <= ticks => Ok(()),
        Some(least) => {
            Err(format!("{ticks} ticks do not carry {path}; give --ticks {least} or more; nothing was measured"))
        }
        None => Err(format!(
            "rounds of {} ticks carry no {path}; give longer ones with --round-ticks; nothing was measured",
            scenario.round_ticks
        )),
    }
}

/// Measures the plan of one scenario into a report.
pub fn measure(
    plan: &Plan,
    host: Host,
    started_utc: String,
    stop: &Arc<AtomicBool>,
    quiet: bool,
) -> exit::Result<Report> {
    let changes = record::changes(plan)?;
    let mut progress = Shown(terminal::Progress::new(plan.rounds(), quiet));
    let report = record::measure(plan, Conditions { host, changes, started_utc }, stop, &mut progress);
    progress.0.finish();
    Ok(report)
}

struct Shown(terminal::Progress);

impl Observer for Shown {
    fn before(&mut self, scenario: &Scenario, index: u64) {
        self.0.show(&scenario.id, index);
    }

    fn after(&mut self, _: &Scenario, _: &Result<MeasuredRound, String>) {
        self.0.step();
    }
}
