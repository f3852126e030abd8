//! Limits on numbers of one subject, which is read from a report or measured for the gate.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::terminal::progress::Progress;
use cli::time::{format_duration, format_time};
use cli::units::to_ns;
use cli::words::pluralize;
use engine::machine::tuning;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::RoundResult;
use engine::scenario::{Length, Plan, Scenario, draw_seed, parse_subject};
use files::file::File as _;
use files::gate::limit::rate::{MeasuredRate, UnknownRate};
use files::gate::limit::{Measured, MissingRounds, RoundTicks, SummaryPath};
use files::gate::verdict::{LimitCheck, Verdict};
use files::report::{Report, Status, Subject, Summary};
use jitterstat::gate::decision::{Outcome, Reason};

use crate::gate::args::{GateArgs, Limit};
use crate::gate::design::{build_scenario, choose_cpu, periods_or_default};
use crate::gate::question::{Gate, PlannedQuestion, Question};
use crate::gate::rate_limits;
use crate::gate::text::{Row, Section, Title, format_option, format_range};

/// Limits, with the subject that must meet them.
struct Limits {
    limits: Vec<Limit>,
    subject: LimitedSubject,
    /// Longest stall that the rate of misses must account for; `None` for any.
    max_stall: Option<Duration>,
    /// Requested number of ticks of a round.
    round_ticks: Option<u64>,
}

/// The source of the numbers.
enum LimitedSubject {
    Reported(Box<ReportedSubject>),
    /// A plan of one scenario, to be measured.
    Planned(Box<Plan>),
}

/// A subject of an existing report.
struct ReportedSubject {
    report: Report,
    file: PathBuf,
    /// Index of the subject in the report.
    index: usize,
}

impl ReportedSubject {
    fn subject(&self) -> &Subject {
        &self.report.subjects[self.index]
    }

    fn numbers(&self) -> Result<SubjectNumbers<'_>, MissingRounds> {
        SubjectNumbers::from_subject(self.subject(), self.report.is_own())
    }
}

pub fn plan(args: &GateArgs) -> PlannedQuestion {
    if args.limit.is_empty() {
        return Ok(None);
    }
    let subject = match &args.report {
        Some(file) => read_reported(file, args)?,
        None => plan_subject(args)?,
    };
    if args.max_stall.is_some() && args.limit.iter().all(|limit| !limit.is_rate) {
        return Err(Error::usage(
            "--max-stall is for a limit on the rate of misses, such as missed<1e-4",
        ));
    }
    let limits = Limits {
        limits: args.limit.clone(),
        subject,
        max_stall: args.max_stall,
        round_ticks: args.judged.rounds.round_ticks,
    };
    limits.check_limits_supported()?;
    Ok(Some(Box::new(limits)))
}

fn read_reported(file: &Path, args: &GateArgs) -> exit::Result<LimitedSubject> {
    let name = file.display();
    let report = interop::read_in_unit(file, args.unit)?;
    let is_selected = |subject: &Subject| {
        let wanted = args.subject.as_deref();
        wanted.is_none_or(|wanted| wanted == subject.id || wanted == subject.name)
    };
    let indices = 0..report.subjects.len();
    let selected: Vec<usize> =
        indices.filter(|&index| is_selected(&report.subjects[index])).collect();
    let [index] = selected[..] else {
        let ids: Vec<&str> = report.subjects.iter().map(|subject| subject.id.as_str()).collect();
        return Err(usage!("{name}: choose with --subject one of {}", ids.join(", ")));
    };
    let reported = ReportedSubject { report, file: file.to_owned(), index };
    Ok(LimitedSubject::Reported(Box::new(reported)))
}

fn plan_subject(args: &GateArgs) -> exit::Result<LimitedSubject> {
    let rounds = &args.judged.rounds;
    let Some(subject) = args.subject.as_deref() else {
        return Err(Error::usage("a limit needs a subject; give --subject or --report"));
    };
    let subject = parse_subject(subject).map_err(|e| Error::from(e).context("--subject"))?;
    let [period] = periods_or_default(&args.judged)[..] else {
        return Err(Error::usage("limits apply to one period; give --period once"));
    };
    let plan = Plan {
        seed: rounds.seed.unwrap_or_else(draw_seed),
        samples: true,
        tuning: tuning::Settings { cpu: choose_cpu(rounds), ..tuning::Settings::default() },
        scenarios: vec![build_scenario(rounds, subject, period, args.ticks.map(Length::Ticks))?],
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
                let seconds = plan.expected_duration().as_secs_f64();
                vec![format!("{} for the limits", format_duration(seconds))]
            }
        }
    }

    fn judge(self: Box<Self>, gate: &mut Gate) -> exit::Result<()> {
        match &self.subject {
            LimitedSubject::Reported(reported) => {
                self.judge_reported(reported, gate);
                Ok(())
            }
            LimitedSubject::Planned(plan) => self.judge_planned(plan, gate),
        }
    }
}

impl Limits {
    fn judge_reported(&self, reported: &ReportedSubject, gate: &mut Gate) {
        let report = &reported.report;
        // The verdict describes the machine of the report, unless this machine was measured as
        // well.
        if gate.verdict.comparisons.is_empty() && gate.verdict.baseline.is_none() {
            gate.verdict.host = report.host.clone();
        }
        if report.partial {
            let message = "The report comes from a run that was interrupted.";
            gate.warn("partial-report", message, "Run it again.");
        }
        gate.record_fitness(report.fitness.clone());
        self.check_subject(reported.subject(), gate);
    }

    fn judge_planned(&self, plan: &Plan, gate: &mut Gate) -> exit::Result<()> {
        if let Some(reason) = gate.stop_reason() {
            let scenario = &plan.scenarios[0];
            gate.verdict.limits = self.checks(&scenario.id, scenario.period_ns(), Err(reason));
            gate.mark_partial(None);
            return Ok(());
        }
        let report = measure(plan, gate)?;
        gate.record_fitness(report.fitness.clone());
        gate.out.write("report.json", &report.to_json())?;
        self.check_subject(&report.subjects[0], gate);
        Ok(())
    }

    /// Checks, before anything is measured, that the number of ticks supports every limit.
    fn check_limits_supported(&self) -> exit::Result<()> {
        match &self.subject {
            LimitedSubject::Planned(plan) => {
                let scenario = &plan.scenarios[0];
                for limit in &self.limits {
                    check_limit_supported(&limit.path, scenario)?;
                    if limit.is_rate {
                        let (max_stall, round_ticks) = (self.max_stall, self.round_ticks);
                        rate_limits::check_planned(limit, scenario, max_stall, round_ticks)?;
                    }
                }
                Ok(())
            }
            LimitedSubject::Reported(reported) => self.check_limits_reported(reported),
        }
    }

    fn check_limits_reported(&self, reported: &ReportedSubject) -> exit::Result<()> {
        let numbers = reported.numbers().map_err(|e| Error::usage(e.to_string()))?;
        let id = &reported.subject().id;
        for Limit { path, is_rate, .. } in &self.limits {
            if *is_rate {
                self.measure_rate(reported.subject(), reported.report.is_own())
                    .map_err(|e| usage!("the report has no rate of missed ticks of {id}: {e}"))?;
            } else if numbers.measure(path).value.is_none() {
                let reason = numbers.missing_reason(path);
                return Err(usage!("the report has no {path} of {id}: {reason}"));
            }
        }
        Ok(())
    }

    fn measure_rate(&self, subject: &Subject, is_own: bool) -> Result<MeasuredRate, UnknownRate> {
        MeasuredRate::from_subject(subject, is_own, self.max_stall.map(to_ns))
    }

    /// Compares a measured subject with the limits and records the result in the verdict.
    fn check_subject(&self, subject: &Subject, gate: &mut Gate) {
        let measured = self.measure(subject);
        match &measured {
            Err(UnmeasuredSubject { failure, .. }) => gate.mark_partial(failure.clone()),
            Ok(measured) => self.warn_of_limits(measured, gate),
        }
        let measured = measured.as_ref().map_err(|unmeasured| unmeasured.reason);
        gate.verdict.limits = self.checks(&subject.id, subject.period_ns, measured);
    }

    /// Collects the numbers of a subject that the limits concern.
    fn measure<'a>(&self, subject: &'a Subject) -> Result<MeasuredSubject<'a>, UnmeasuredSubject> {
        let is_own = match (&subject.status, &self.subject) {
            (Status::Failed { reason }, _) => {
                return Err(UnmeasuredSubject::new(&format!("{}: {reason}", subject.id)));
            }
            // An interrupted measurement is not judged. A partial report is judged by its ticks.
            (Status::Partial, LimitedSubject::Planned(_)) => {
                return Err(UnmeasuredSubject { reason: Reason::Interrupted, failure: None });
            }
            (_, LimitedSubject::Reported(reported)) => reported.report.is_own(),
            (_, LimitedSubject::Planned(_)) => true,
        };
        let numbers = SubjectNumbers::from_subject(subject, is_own)
            .map_err(|e| UnmeasuredSubject::new(&e.to_string()))?;
        let mut rate = None;
        if self.limits.iter().any(|limit| limit.is_rate) {
            let measured = self.measure_rate(subject, is_own);
            rate = Some(measured.map_err(|e| UnmeasuredSubject::new(&e.to_string()))?);
        }
        Ok(MeasuredSubject { numbers, rate })
    }

    /// Warns of the limits of the measured numbers.
    fn warn_of_limits(&self, measured: &MeasuredSubject<'_>, gate: &mut Gate) {
        let has_value_limit = self.limits.iter().any(|limit| !limit.is_rate);
        if has_value_limit && matches!(measured.numbers, SubjectNumbers::Summary { .. }) {
            gate.warn(
                "no-samples",
                "The report has no samples: limits are compared with its numbers, without intervals.",
                "A repetition may have other numbers. A report of osjitter run keeps the samples.",
            );
        }
        if let Some(rate) = &measured.rate {
            rate_limits::warn_of_assumptions(rate, self.max_stall, gate);
        }
    }

    /// Compares the numbers of a subject with every limit. Without numbers, every limit is
    /// inconclusive for the given reason.
    fn checks(
        &self,
        subject: &str,
        period_ns: u64,
        measured: Result<&MeasuredSubject<'_>, Reason>,
    ) -> Vec<LimitCheck> {
        let report = match &self.subject {
            LimitedSubject::Reported(reported) => Some(reported.file.display().to_string()),
            LimitedSubject::Planned(_) => None,
        };
        let mut checks = Vec::new();
        for limit in &self.limits {
            let check = if limit.is_rate {
                let rate = measured.and_then(|m| m.rate.as_ref().ok_or(Reason::NotMeasured));
                rate_limits::check(limit, subject, rate)
            } else {
                check_limit(limit, subject, measured.map(|measured| &measured.numbers))
            };
            let report = report.clone();
            checks.push(LimitCheck { period_ns: Some(period_ns), report, ..check });
        }
        checks
    }
}

/// The numbers of a subject, as far as limits concern them.
struct MeasuredSubject<'a> {
    numbers: SubjectNumbers<'a>,
    /// The rate of missed ticks, if a limit concerns it.
    rate: Option<MeasuredRate>,
}

/// The reason for which a subject has no numbers.
struct UnmeasuredSubject {
    reason: Reason,
    failure: Option<String>,
}

impl UnmeasuredSubject {
    fn new(failure: &str) -> Self {
        Self { reason: Reason::NotMeasured, failure: Some(failure.to_owned()) }
    }
}

/// The numbers of a subject that limits are compared with.
enum SubjectNumbers<'a> {
    /// The rounds with their samples.
    Rounds(Vec<RoundTicks>),
    /// The summary of a subject without samples. `is_own` is whether osjitter measured it.
    Summary { subject: &'a Subject, summary: &'a Summary, is_own: bool },
}

impl<'a> SubjectNumbers<'a> {
    fn from_subject(subject: &'a Subject, is_own: bool) -> Result<Self, MissingRounds> {
        match (RoundTicks::from_subject(subject), &subject.summary) {
            (Err(MissingRounds::NoSamples(_)), Some(summary)) => {
                Ok(Self::Summary { subject, summary, is_own })
            }
            (rounds, _) => rounds.map(Self::Rounds),
        }
    }

    fn measure(&self, path: &SummaryPath) -> Measured {
        match self {
            Self::Rounds(rounds) => path.measure(rounds),
            Self::Summary { subject, summary, .. } => {
                let mut measured = path.from_summary(summary, subject.rounds.len());
                if self.lacks_period(path) || self.lacks_tick_classes(path) {
                    measured.value = None;
                }
                measured
            }
        }
    }

    /// Whether a number is unknown because the period is.
    fn lacks_period(&self, path: &SummaryPath) -> bool {
        matches!(self, Self::Summary { subject, .. } if subject.period_ns == 0)
            && path.needs_period()
    }

    /// Whether a number is unknown because another tool measured the subject.
    fn lacks_tick_classes(&self, path: &SummaryPath) -> bool {
        matches!(self, Self::Summary { is_own: false, .. }) && path.needs_tick_classes()
    }

    /// Explains why there is no value.
    fn missing_reason(&self, path: &SummaryPath) -> &'static str {
        match self {
            Self::Rounds(_) => {
                "it has too few ticks to support it, or the platform did not report it"
            }
            Self::Summary { .. } if self.lacks_period(path) => "its period is not known",
            Self::Summary { .. } if self.lacks_tick_classes(path) => {
                "its tool does not tell skipped, coalesced and early ticks apart; limit max instead"
            }
            Self::Summary { .. } if path.needs_samples() => {
                "the samples are not in it, which a percentile needs; limit max or missed instead"
            }
            Self::Summary { .. } if path.needs_period() => {
                "its tool does not count all missed ticks; limit max instead"
            }
            Self::Summary { .. } => "neither samples nor its summary have it",
        }
    }
}

/// Compares the numbers of a subject with a limit.
fn check_limit(
    limit: &Limit,
    subject: &str,
    numbers: Result<&SubjectNumbers<'_>, Reason>,
) -> LimitCheck {
    let measured = numbers.map(|numbers| numbers.measure(&limit.path));
    let (verdict, reason) = measured
        .as_ref()
        .map_or_else(|reason| (Outcome::Inconclusive, Some(*reason)), |m| m.judge(limit.max));
    let measured = measured.ok();
    LimitCheck {
        subject: subject.to_owned(),
        path: limit.path.to_string(),
        unit: limit.path.quantity().unit().to_owned(),
        limit: limit.max,
        value: measured.and_then(|m| m.value),
        interval: measured.and_then(|m| m.interval).map(Into::into),
        rate: None,
        verdict,
        reason,
        rounds: measured.map_or(0, |m| m.rounds as u64),
        ticks: measured.map_or(0, |m| m.ticks),
        ticks_to_decide: measured.and_then(|m| m.ticks_to_decide(limit.max)),
        period_ns: None,
        report: None,
    }
}

/// Checks that a scenario has enough ticks for a limit.
fn check_limit_supported(path: &SummaryPath, scenario: &Scenario) -> exit::Result<()> {
    let (id, ticks) = (&scenario.id, scenario.ticks);
    if path.needs_runtime() && scenario.runtime.is_none() {
        return Err(usage!("{id} runs in no runtime, so it has no {path}"));
    }
    match path.least_ticks(scenario.round_ticks) {
        Some(min_ticks) if min_ticks <= ticks => Ok(()),
        Some(min_ticks) => Err(usage!(
            "{path} needs --ticks {min_ticks} or more, not {ticks}; nothing was measured"
        )),
        None => Err(usage!(
            "{path} needs longer rounds, and --round-ticks is {}; nothing was measured",
            scenario.round_ticks
        )),
    }
}

/// Measures the plan of one scenario and returns the report.
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

/// Shows the progress of a measurement.
struct ShowProgress(Progress);

impl Observer for ShowProgress {
    fn before_round(&mut self, scenario: &Scenario, index: u64) {
        self.0.show(&scenario.id, index);
    }

    fn after_round(&mut self, _: &Scenario, _: &RoundResult) {
        self.0.step();
    }
}

/// Formats a value with its unit; a time gets a readable one.
fn format_value(value: f64, unit: &str) -> String {
    match unit {
        "ns" => format_time(value.round() as i64),
        unit => format!("{value:.3} {unit}"),
    }
}

pub fn sections(verdict: &Verdict) -> Vec<Section> {
    let Some(first) = verdict.limits.first() else { return Vec::new() };
    let (ticks, rounds) = (pluralize(first.ticks, "tick"), pluralize(first.rounds, "round"));
    let title = || Title::Subject(format!("{}, {ticks} in {rounds}", first.subject));
    let (rates, values): (Vec<_>, Vec<_>) =
        verdict.limits.iter().partition(|check| check.rate.is_some());
    let mut sections = Vec::new();
    if !values.is_empty() {
        sections.push(value_section(&values, title()));
    }
    if !rates.is_empty() {
        sections.push(rate_limits::section(&rates, title(), advice(&rates)));
    }
    sections
}

fn value_section(checks: &[&LimitCheck], title: Title) -> Section {
    Section {
        title,
        key_heading: "limited",
        headings: vec!["limit", "value", "99 % interval"],
        rows: checks.iter().map(|check| row(check)).collect(),
        notes: Vec::new(),
        measured: String::new(),
        sides: Vec::new(),
        lifts: Vec::new(),
        advice: advice(checks),
    }
}

fn row(check: &LimitCheck) -> Row {
    let format = |value| format_value(value, &check.unit);
    let (limit, value) = (format(check.limit), format_option(check.value, format));
    let interval = format_option(check.interval, |[low, high]| format_range(low, high, format));
    let path = &check.path;
    Row {
        name: path.clone(),
        class: check.subject.clone(),
        case: format!("{path} at most {limit}"),
        verdict: check.verdict,
        detail: format!("{path} {value} ({interval}), limit {limit}"),
        cells: vec![limit, value, interval],
    }
}

/// Suggests how many ticks would decide the inconclusive limits.
fn advice(limits: &[&LimitCheck]) -> Option<String> {
    let slowest = limits.iter().max_by_key(|check| check.ticks_to_decide)?;
    let ticks = slowest.ticks_to_decide?;
    let seconds = slowest.period_ns.map(|period| (period as f64 * ticks as f64 / 1e9).ceil());
    let duration = seconds.map_or(String::new(), |seconds| format!(" ({seconds:.0}s)"));
    let about =
        format!("about {}{duration} would probably decide the limits", pluralize(ticks, "tick"));
    Some(match &slowest.report {
        Some(_) => format!("a report of {about}"),
        None => format!("{about}: --ticks {ticks}"),
    })
}
