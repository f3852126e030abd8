//! Limits on numbers of one subject, which is read from a report or measured for the gate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::terminal::progress::Progress;
use cli::time::format_duration;
use cli::units::{format_exact_duration, format_exact_ns, to_ns};
use cli::words::{capitalize, end_sentence};
use engine::machine::tuning;
use engine::measure::load::Loads;
use engine::measure::order::Observer;
use engine::measure::plan_changes::apply_changes;
use engine::measure::program::StartupCosts;
use engine::measure::record::{self, Conditions};
use engine::measure::round::RoundResult;
use engine::scenario::{Length, Plan, Scenario, draw_seed, parse_subject};
use files::compare::NO_SAMPLES_HINT;
use files::file::File as _;
use files::gate::limit::rate::{MeasuredRate, UnknownRate};
use files::gate::limit::{Measured, MissingRounds, RoundTicks, SummaryPath};
use files::gate::verdict::{LimitCheck, Verdict};
use files::merge::partial_failure;
use files::quantity;
use files::report::{Report, Status, Subject, Summary, Warning};
use jitterstat::gate::arrivals;
use jitterstat::gate::decision::{Outcome, Reason};
use render::report::table::warning_sentences;

use crate::gate::args::{GateArgs, JudgedArgs, Limit};
use crate::gate::pair_test::{build_scenario, choose_cpu};
use crate::gate::rate_limits;
use crate::gate::running_gate::RunningGate;

/// Limits, with the subject that must meet them.
pub struct Limits {
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

    /// Checks that the subject was measured at a period and on the runtime that were asked for, as
    /// far as the report states them.
    fn check_settings(&self, judged: &JudgedArgs) -> exit::Result<()> {
        let (file, subject) = (self.file.display(), self.subject());
        let is_requested = |period: &Duration| to_ns(*period) == subject.period_ns;
        let states_period = subject.period_ns > 0;
        if states_period && !judged.period.is_empty() && !judged.period.iter().any(is_requested) {
            let requested: Vec<String> =
                judged.period.iter().map(|&period| format_exact_duration(period)).collect();
            return Err(usage!(
                "{file}: {} has the period {}, and --period (or osjitter.toml) is {}",
                subject.id,
                format_exact_ns(subject.period_ns),
                requested.join(" and ")
            ));
        }
        let requested = judged.rounds.runtime.map(|runtime| runtime.to_string());
        if let (Some(requested), Some(runtime)) = (requested, &subject.runtime)
            && requested != *runtime
        {
            return Err(usage!(
                "{file}: {} has the runtime {runtime}, and --runtime (or osjitter.toml) is {requested}",
                subject.id
            ));
        }
        Ok(())
    }
}

/// Plans the check of the limits, if the arguments have any.
pub fn plan(args: &GateArgs) -> exit::Result<Option<Limits>> {
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
    // Nothing is measured unless every limit can be decided.
    match &limits.subject {
        LimitedSubject::Planned(plan) => limits.check_planned(&plan.scenarios[0])?,
        LimitedSubject::Reported(reported) => limits.check_reported(reported)?,
    }
    Ok(Some(limits))
}

fn read_reported(file: &Path, args: &GateArgs) -> exit::Result<LimitedSubject> {
    let name = file.display();
    let report = interop::read_in_unit(file, args.unit)?;
    if let Some(warning) = interop::omission(&report) {
        return Err(usage!("{name}: {}", warning_sentences(warning)));
    }
    let is_selected = |subject: &Subject| {
        let wanted = args.subject.as_deref();
        wanted.is_none_or(|wanted| wanted == subject.id || wanted == subject.name)
    };
    let indices = 0..report.subjects.len();
    let selected: Vec<usize> =
        indices.filter(|&index| is_selected(&report.subjects[index])).collect();
    let [index] = selected[..] else {
        let ids: Vec<&str> = report.subjects.iter().map(|subject| subject.id.as_str()).collect();
        return Err(match ids.is_empty() {
            true => usage!("{name}: the report has no subject"),
            false => usage!("{name}: choose with --subject one of {}", ids.join(", ")),
        });
    };
    let reported = ReportedSubject { report, file: file.to_owned(), index };
    // If something is measured as well, the period and the runtime are those of the measurement.
    let has_programs = args.has_whole_runs() || args.programs().is_some();
    if args.a.is_empty() && args.baseline.is_none() && !has_programs {
        reported.check_settings(&args.judged)?;
    }
    Ok(LimitedSubject::Reported(Box::new(reported)))
}

fn plan_subject(args: &GateArgs) -> exit::Result<LimitedSubject> {
    let rounds = &args.judged.rounds;
    let Some(subject) = args.subject.as_deref() else {
        return Err(Error::usage("a limit needs a subject; give --subject or --report"));
    };
    let subject = parse_subject(subject).map_err(|e| Error::from(e).context("--subject"))?;
    let period = args.judged.single_period("limits apply to one period")?;
    let plan = Plan {
        seed: rounds.seed.unwrap_or_else(draw_seed),
        samples: true,
        tuning: tuning::Settings { cpu: choose_cpu(rounds), ..tuning::Settings::default() },
        scenarios: vec![build_scenario(rounds, subject, period, args.ticks.map(Length::Ticks))?],
        why: None,
    };
    plan.check_memory("fewer --ticks")?;
    Ok(LimitedSubject::Planned(Box::new(plan)))
}

impl Limits {
    /// Returns the expected duration as a note for the user, if something is measured.
    pub fn note(&self) -> Option<String> {
        let LimitedSubject::Planned(plan) = &self.subject else { return None };
        let seconds = plan.expected_duration().as_secs_f64();
        Some(format!("{} for the limits", format_duration(seconds)))
    }

    /// Measures the subject, unless a report has it, and adds the checked limits to the verdict.
    pub fn judge(self, gate: &mut RunningGate) -> exit::Result<()> {
        match &self.subject {
            LimitedSubject::Reported(reported) => {
                let report = &reported.report;
                // The verdict describes the machine of the report, unless this machine was measured
                // as well.
                if gate.verdict.answers().next().is_none() {
                    gate.verdict.host = report.host.clone();
                }
                let Subject { id, status, .. } = reported.subject();
                if report.partial {
                    let message = "The report comes from a run that was interrupted.";
                    gate.warn("partial-report", message, "Run it again.");
                } else if matches!(status, Status::Partial) {
                    let message = format!("The report lacks rounds of {id}.");
                    gate.warn("partial-report", &message, "Run it again.");
                }
                gate.record_fitness(report.fitness.clone());
                copy_warnings(report, reported.subject(), gate);
                self.check_subject(reported.subject(), gate);
            }
            LimitedSubject::Planned(plan) => {
                if let Some(reason) = gate.stop_reason() {
                    let scenario = &plan.scenarios[0];
                    gate.verdict.limits =
                        self.checks(&scenario.id, scenario.period_ns(), Err(reason));
                    gate.mark_partial(None);
                    return Ok(());
                }
                let report = measure(plan, gate)?;
                gate.record_fitness(report.fitness.clone());
                let is_empty = report.subjects[0].summary.is_none();
                gate.out.set_partial(gate.verdict.partial || report.partial || is_empty);
                gate.out.write("report.json", &report.to_json())?;
                copy_warnings(&report, &report.subjects[0], gate);
                self.check_subject(&report.subjects[0], gate);
            }
        }
        Ok(())
    }

    /// Checks that a scenario has enough ticks for every limit.
    fn check_planned(&self, scenario: &Scenario) -> exit::Result<()> {
        let Scenario { id, ticks, round_ticks, .. } = scenario;
        for limit in &self.limits {
            let path = &limit.path;
            if path.needs_runtime() && scenario.runtime.is_none() {
                return Err(usage!("{id} runs in no runtime, so it has no {path}"));
            }
            match path.least_ticks(*round_ticks) {
                Some(min_ticks) if min_ticks <= *ticks => {}
                Some(min_ticks) => {
                    return Err(usage!(
                        "{path} needs --ticks {min_ticks} or more, not {ticks}; nothing was measured"
                    ));
                }
                None => {
                    return Err(usage!(
                        "{path} needs longer rounds, and --round-ticks is {round_ticks}; nothing was measured"
                    ));
                }
            }
            let last_ticks = ticks % round_ticks;
            if last_ticks > 0 && !path.is_supported_by_round(last_ticks) {
                return Err(usage!(
                    "{path} needs longer rounds, and the last one of --ticks {ticks} has {last_ticks} ticks; give --ticks \
                     {}; nothing was measured",
                    ticks - last_ticks
                ));
            }
            if limit.is_rate {
                rate_limits::check_planned(limit, scenario, self.max_stall, self.round_ticks)?;
            }
        }
        Ok(())
    }

    /// Checks that a report has every limited number.
    fn check_reported(&self, reported: &ReportedSubject) -> exit::Result<()> {
        let numbers = SubjectNumbers::from_subject(reported.subject(), reported.report.is_own())
            .map_err(|e| Error::usage(e.to_string()))?;
        let id = &reported.subject().id;
        for Limit { path, is_rate, .. } in &self.limits {
            if path.needs_period() && reported.subject().period_ns == 0 {
                return Err(usage!("the report has no {path} of {id}: its period is not known"));
            } else if *is_rate {
                self.measure_rate(reported.subject(), reported.report.is_own())
                    .map_err(|e| usage!("the report has no rate of missed ticks of {id}: {e}"))?;
            } else if path.is_extreme() && quantity::has_bin_edges(&reported.report) {
                return Err(usage!(
                    "the report has no {path} of {id}: its tool prints bins alone, which do not state it"
                ));
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
    fn check_subject(&self, subject: &Subject, gate: &mut RunningGate) {
        if let Some(Summary { early: Some(early), ticks, .. }) = &subject.summary {
            gate.warn_of_early_ticks(&subject.id, *early, *ticks);
        }
        let measured = self.measure(subject);
        match &measured {
            Ok(MeasuredSubject { numbers, rate }) => {
                let has_value_limit = self.limits.iter().any(|limit| !limit.is_rate);
                if has_value_limit && matches!(numbers, SubjectNumbers::Summary { .. }) {
                    gate.warn(
                        "no-samples",
                        "The report has no samples: limits are compared with its numbers, without intervals.",
                        &format!("A repetition may have other numbers. {NO_SAMPLES_HINT}"),
                    );
                }
                if let Some(rate) = rate {
                    rate_limits::warn_of_assumptions(rate, self.max_stall, gate);
                }
            }
            Err(UnmeasuredSubject::Interrupted) => gate.mark_partial(None),
            Err(error) => gate.mark_partial(Some(error.to_string())),
        }
        let measured = measured.as_ref().map_err(|error| match error {
            UnmeasuredSubject::Interrupted => Reason::Interrupted,
            _ => Reason::NotMeasured,
        });
        let mut checks = self.checks(&subject.id, subject.period_ns, measured);
        if is_mostly_early(subject) {
            for (limit, check) in self.limits.iter().zip(&mut checks) {
                if check.verdict == Outcome::Pass && limit.path.is_lowered_by_early_ticks() {
                    (check.verdict, check.reason) =
                        (Outcome::Inconclusive, Some(Reason::EarlyTicks));
                }
            }
        }
        gate.verdict.limits = checks;
    }

    /// Collects the numbers of a subject that the limits concern.
    fn measure<'a>(&self, subject: &'a Subject) -> Result<MeasuredSubject<'a>, UnmeasuredSubject> {
        let is_own = match (&subject.status, &self.subject) {
            (Status::Failed { reason }, _) => {
                let (id, reason) = (subject.id.clone(), reason.clone());
                return Err(UnmeasuredSubject::Failed { id, reason });
            }
            // An interrupted measurement is not judged. A partial report is judged by its ticks.
            (Status::Partial, LimitedSubject::Planned(_)) => {
                return Err(UnmeasuredSubject::Interrupted);
            }
            (_, LimitedSubject::Reported(reported)) => {
                if let Some(reason) = partial_failure(&reported.report, subject) {
                    let (id, reason) = (subject.id.clone(), reason.to_owned());
                    return Err(UnmeasuredSubject::Failed { id, reason });
                }
                reported.report.is_own()
            }
            (_, LimitedSubject::Planned(_)) => true,
        };
        let numbers = SubjectNumbers::from_subject(subject, is_own)
            .map_err(UnmeasuredSubject::MissingRounds)?;
        let mut rate = None;
        if self.limits.iter().any(|limit| limit.is_rate) {
            let measured = self.measure_rate(subject, is_own);
            rate = Some(measured.map_err(UnmeasuredSubject::UnknownRate)?);
        }
        Ok(MeasuredSubject { numbers, rate })
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

fn is_mostly_early(subject: &Subject) -> bool {
    let summary = subject.summary.as_ref();
    let early = summary.and_then(|summary| Some((summary.early?, summary.ticks)));
    early.is_some_and(|(early, ticks)| arrivals::are_mostly_early(early, ticks))
}

/// Copies the warnings of a report to the verdict, such as one about rounds or files that are left
/// out, unless they concern another subject.
fn copy_warnings(report: &Report, judged: &Subject, gate: &mut RunningGate) {
    for Warning { code, message, hint } in &report.warnings {
        let names = |subject: &Subject| message.contains(&subject.id);
        if names(judged) || !report.subjects.iter().any(names) {
            let hint = capitalize(&end_sentence(hint));
            gate.warn(code, &end_sentence(message), &hint);
        }
    }
}

/// The numbers of a subject, as far as limits concern them.
struct MeasuredSubject<'a> {
    numbers: SubjectNumbers<'a>,
    /// The rate of missed ticks, if a limit concerns it.
    rate: Option<MeasuredRate>,
}

/// Reason why a subject has no numbers.
#[derive(Debug)]
enum UnmeasuredSubject {
    Failed { id: String, reason: String },
    Interrupted,
    MissingRounds(MissingRounds),
    UnknownRate(UnknownRate),
}

impl fmt::Display for UnmeasuredSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed { id, reason } => write!(f, "{id}: {reason}"),
            Self::Interrupted => f.write_str("it was interrupted"),
            Self::MissingRounds(error) => error.fmt(f),
            Self::UnknownRate(error) => error.fmt(f),
        }
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
                if self.lacks_tick_classes(path) {
                    measured.value = None;
                }
                measured
            }
        }
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

/// Measures the plan of one scenario and returns the report.
fn measure(plan: &Plan, gate: &RunningGate) -> exit::Result<Report> {
    let Verdict { host, started_utc, .. } = gate.verdict.clone();
    let conditions = Conditions {
        host,
        changes: apply_changes(plan)?,
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
