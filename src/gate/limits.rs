//! The question of limits on numbers of one run: of a report that is there, or of a subject that is
//! measured for it.

use std::path::{Path, PathBuf};

use cli::exit::{self, Error, usage};
use cli::time::format_time;
use engine::machine::tuning;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::MeasuredRound;
use engine::scenario::{Length, Plan, Scenario, draw_seed, parse_subject};
use files::file::File as _;
use files::gate::limit::{RoundTicks, SummaryPath};
use files::gate::verdict::{LimitCheck, Verdict};
use files::report::{Report, Status, Subject};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::args::{GateArgs, Limit};
use crate::gate::design::{one_cpu, periods, scenario};
use crate::gate::question::{Gate, Question};
use crate::gate::text::{Row, Section, between, code, counted, or_none};
use crate::interop;
use crate::terminal::Progress;

/// Limits and what they are held against.
struct Limits {
    limits: Vec<Limit>,
    subject: LimitedSubject,
}

/// Where the numbers come from.
enum LimitedSubject {
    /// A report that is there, its file, and which of its subjects.
    Reported(Box<Report>, PathBuf, usize),
    /// A plan of one scenario.
    Planned(Box<Plan>),
}

pub fn plan(args: &GateArgs) -> exit::Result<Option<Box<dyn Question>>> {
    if args.max.is_empty() {
        return Ok(None);
    }
    let subject = match &args.report {
        Some(file) => reported(file, args)?,
        None => planned(args)?,
    };
    let limits = Limits { limits: args.max.clone(), subject };
    limits.are_supported()?;
    Ok(Some(Box::new(limits)))
}

fn reported(file: &Path, args: &GateArgs) -> exit::Result<LimitedSubject> {
    let name = file.display();
    let report = interop::read(file)?;
    let is = |s: &Subject| {
        args.subject.as_deref().is_none_or(|wanted| wanted == s.id || wanted == s.name)
    };
    let found: Vec<usize> =
        (0..report.subjects.len()).filter(|&i| is(&report.subjects[i])).collect();
    let [one] = found[..] else {
        let ids: Vec<&str> = report.subjects.iter().map(|s| s.id.as_str()).collect();
        return Err(usage!("{name}: choose with --subject one of {}", ids.join(", ")));
    };
    Ok(LimitedSubject::Reported(Box::new(report), file.to_owned(), one))
}

fn planned(args: &GateArgs) -> exit::Result<LimitedSubject> {
    let rounds = &args.judged.rounds;
    let Some(subject) = args.subject.as_deref() else {
        return Err(Error::usage(
            "a limit needs something to hold it against; give --subject or --report",
        ));
    };
    let subject = parse_subject(subject).map_err(|e| Error::usage(e).context("--subject"))?;
    let [period] = periods(&args.judged)[..] else {
        return Err(Error::usage("limits are held at one period; give --period once"));
    };
    let plan = Plan {
        seed: rounds.seed.unwrap_or_else(draw_seed),
        samples: true,
        tuning: tuning::Settings { cpu: one_cpu(rounds), ..tuning::Settings::default() },
        scenarios: vec![scenario(rounds, subject, period, args.ticks.map(Length::Ticks))?],
        why: None,
    };
    plan.check_memory()?;
    Ok(LimitedSubject::Planned(Box::new(plan)))
}

impl Question for Limits {
    fn announce(&self) -> Vec<String> {
        match &self.subject {
            LimitedSubject::Reported(..) => Vec::new(),
            LimitedSubject::Planned(plan) => {
                vec![format!("{:.0}s for the limits", plan.expected_duration().as_secs_f64())]
            }
        }
    }

    fn ask(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        match &self.subject {
            LimitedSubject::Reported(report, _, which) => {
                // Where something is measured here, too, the verdict's machine is this one.
                if gate.verdict.comparisons.is_empty() && gate.verdict.baseline.is_none() {
                    gate.verdict.host = report.host.clone();
                }
                if report.partial {
                    gate.warn(
                        "partial-report",
                        "The report comes from a run that was interrupted.",
                        "Run it again.",
                    );
                }
                gate.met(report.fitness.clone());
                self.hold(&report.subjects[*which], gate);
            }
            LimitedSubject::Planned(plan) => {
                if let Some(why) = gate.over() {
                    let scenario = &plan.scenarios[0];
                    gate.verdict.limits = self.checks(&scenario.id, scenario.period_ns(), Err(why));
                    gate.cut_short(None);
                    return Ok(());
                }
                let report = measure(plan, gate)?;
                gate.met(report.fitness.clone());
                gate.out.write("report.json", &report.to_json())?;
                self.hold(&report.subjects[0], gate);
            }
        }
        Ok(())
    }
}

impl Limits {
    /// What the ticks cannot support is known before anything is measured.
    fn are_supported(&self) -> exit::Result<()> {
        match &self.subject {
            LimitedSubject::Planned(plan) => self
                .limits
                .iter()
                .try_for_each(|limit| is_supported(&limit.path, &plan.scenarios[0])),
            LimitedSubject::Reported(report, _, which) => {
                let subject = &report.subjects[*which];
                let rounds =
                    RoundTicks::from_subject(subject).map_err(|e| Error::usage(e.to_string()))?;
                let missing =
                    self.limits.iter().find(|limit| limit.path.measure(&rounds).value.is_none());
                missing.map_or(Ok(()), |limit| {
                    Err(usage!(
                        "the report has no {} of {}: it has too few ticks to support it, or the platform did not \
                         report it",
                        limit.path,
                        subject.id
                    ))
                })
            }
        }
    }

    /// Holds the limits against a subject.
    fn hold(&self, subject: &Subject, gate: &mut Gate) {
        let rounds = match (&subject.status, &self.subject) {
            (Status::Failed { reason }, _) => {
                Err((Reason::NotMeasured, Some(format!("{}: {reason}", subject.id))))
            }
            // An interrupted measurement is none; of a report that was, what is there is judged.
            (Status::Partial, LimitedSubject::Planned(_)) => Err((Reason::Interrupted, None)),
            _ => RoundTicks::from_subject(subject)
                .map_err(|why| (Reason::NotMeasured, Some(why.to_string()))),
        };
        if let Err((_, failure)) = &rounds {
            gate.cut_short(failure.clone());
        }
        let found = rounds.as_deref().map_err(|(why, _)| *why);
        gate.verdict.limits = self.checks(&subject.id, subject.period_ns, found);
    }

    /// Every limit, held against rounds, or why there are none.
    fn checks(
        &self,
        subject: &str,
        period_ns: u64,
        rounds: Result<&[RoundTicks], Reason>,
    ) -> Vec<LimitCheck> {
        let report = match &self.subject {
            LimitedSubject::Reported(_, file, _) => Some(file.display().to_string()),
            LimitedSubject::Planned(_) => None,
        };
        let check = |limit| LimitCheck {
            period_ns: Some(period_ns),
            report: report.clone(),
            ..check(limit, subject, rounds)
        };
        self.limits.iter().map(check).collect()
    }
}

/// A limit, held against rounds, or why there are none.
fn check(limit: &Limit, subject: &str, rounds: Result<&[RoundTicks], Reason>) -> LimitCheck {
    let measured = rounds.map(|rounds| limit.path.measure(rounds));
    let (verdict, reason) = measured
        .as_ref()
        .map_or_else(|why| (Outcome::Inconclusive, Some(*why)), |m| m.judge(limit.most));
    let measured = measured.ok();
    LimitCheck {
        subject: subject.to_owned(),
        path: limit.path.to_string(),
        unit: limit.path.quantity().unit().to_owned(),
        limit: limit.most,
        value: measured.and_then(|m| m.value),
        interval: measured.and_then(|m| m.interval).map(Into::into),
        verdict,
        reason,
        rounds: measured.map_or(0, |m| m.rounds as u64),
        ticks: measured.map_or(0, |m| m.ticks),
        ticks_to_decide: measured.and_then(|m| m.ticks_to_decide(limit.most)),
        period_ns: None,
        report: None,
    }
}

fn is_supported(path: &SummaryPath, scenario: &Scenario) -> exit::Result<()> {
    let (id, ticks) = (&scenario.id, scenario.ticks);
    if path.needs_runtime() && scenario.runtime.is_none() {
        return Err(usage!("{id} runs in no runtime, so it has no {path}"));
    }
    match path.least_ticks(scenario.round_ticks) {
        Some(least) if least <= ticks => Ok(()),
        Some(least) => Err(usage!(
            "{ticks} ticks are too few for {path}; give --ticks {least} or more; nothing was measured"
        )),
        None => Err(usage!(
            "rounds of {} ticks are too short for {path}; give longer ones with --round-ticks; nothing was measured",
            scenario.round_ticks
        )),
    }
}

/// Measures the plan of one scenario into a report.
fn measure(plan: &Plan, gate: &Gate) -> exit::Result<Report> {
    let Verdict { host, started_utc, .. } = gate.verdict.clone();
    let conditions = Conditions {
        host,
        changes: record::apply_changes(plan)?,
        started_utc,
        starts: StartupCosts::default(),
    };
    let mut progress = ShowProgress(Progress::new(plan.rounds(), gate.quiet));
    let report =
        record::measure(plan, conditions, &mut Loads::default(), &gate.stop, &mut progress, None);
    progress.0.finish();
    Ok(report)
}

struct ShowProgress(Progress);

impl Observer for ShowProgress {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.0.show(&scenario.id, index);
    }

    fn after_round(&mut self, _: &Scenario, _: &Result<MeasuredRound, String>) {
        self.0.step();
    }
}

/// A value of a limit in the unit people use for it.
fn limited(value: f64, unit: &str) -> String {
    match unit {
        "ns" => format_time(value.round() as i64),
        unit => format!("{value:.3} {unit}"),
    }
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    let Some(first) = verdict.limits.first() else { return Vec::new() };
    let row = |l: &LimitCheck| {
        let shown = |value| limited(value, &l.unit);
        let (limit, value) = (shown(l.limit), or_none(l.value, shown));
        let interval = or_none(l.interval, |both| between(both, shown));
        Row {
            name: l.path.clone(),
            class: l.subject.clone(),
            case: format!("{} at most {limit}", l.path),
            verdict: l.verdict,
            detail: format!("{} {value} ({interval}), limit {limit}", l.path),
            cells: vec![limit, value, interval],
        }
    };
    let title =
        |subject: &str| format!("{subject}, {} ticks in {} rounds", first.ticks, first.rounds);
    vec![Section {
        title: [title(&first.subject), title(&code(&first.subject))],
        of: ("Limited", code),
        headings: vec!["limit", "value", "99 % interval"],
        rows: verdict.limits.iter().map(row).collect(),
        notes: Vec::new(),
        measured: String::new(),
        sides: Vec::new(),
        lifts: Vec::new(),
        advice: advice(&verdict.limits),
    }]
}

/// What would decide the limits that are left open.
fn advice(limits: &[LimitCheck]) -> Option<String> {
    let longest =
        limits.iter().filter(|l| l.ticks_to_decide.is_some()).max_by_key(|l| l.ticks_to_decide)?;
    let ticks = longest.ticks_to_decide?;
    let takes = longest
        .period_ns
        .map(|period| format!(" ({:.0}s)", (period as f64 * ticks as f64 / 1e9).ceil()));
    let about = format!(
        "about {}{} would probably decide the limits",
        counted(ticks, "tick"),
        takes.unwrap_or_default()
    );
    Some(match &longest.report {
        Some(_) => format!("a report of {about}"),
        None => format!("{about}: --ticks {ticks}"),
    })
}
