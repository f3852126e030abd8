//! `osjitter gate`: has jitter become worse?
//!
//! Each kind of question has a file: two sides ([`subjects`], [`commands`]), one against what is stored of it
//! ([`mod@against`]), limits on one of them ([`limits`]). Here they are planned, run one after the other, and come to
//! one verdict.

mod add;
mod against;
pub mod args;
mod baseline;
pub mod calibrate;
mod calibration;
mod commands;
mod limits;
mod plan;
mod session;
mod subjects;
mod text;

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use jitterstat::file::File as _;
use jitterstat::gate::look::{Outcome, Reason};
use jitterstat::gate::round::tail_name;
use jitterstat::gate::verdict::{self, AgainstBaseline, LimitCheck, Mode, SCHEMA, Verdict};
use jitterstat::report::{Host, Subject, Warning};

use crate::exit::{Error, ExitStatus};
use crate::files::Directory;
use crate::gate::args::{BaselineAction, GateAction, GateArgs, OnInconclusive, VerdictFormat};
use crate::machine::{host, tuning};
use crate::{gate, interrupt, terminal};

use against::Against;
use limits::{Limits, Source};
use plan::{Comparison, Sides};
use session::Session;

/// Plans, measures until all is decided, writes the verdict.
pub fn run(args: &GateArgs) -> Result<ExitStatus, Error> {
    if let Some(GateAction::Baseline { action: BaselineAction::Add(add) }) = &args.action {
        return add::run(add);
    }
    let comparisons = plan::comparisons(args).map_err(Error::usage)?;
    let against = against::plan(args).map_err(Error::usage)?;
    let limits = limits::plan(args, plan::one_cpu(&args.judged)).map_err(Error::usage)?;
    if comparisons.is_empty() && against.is_none() && limits.is_none() {
        let what = "nothing to judge: give --a and --b, or --baseline-cmd and --candidate-cmd, or --baseline, or --max";
        return Err(Error::usage(what.to_owned()));
    }
    let calibration = args.calibration.as_deref().map(calibration::read).transpose().map_err(Error::usage)?;
    let quiet = args.judged.quiet;
    let cpu = comparisons.first().and_then(|c| c.plan.cpu);
    cpu.map_or(Ok(()), tuning::bind)?;
    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let out = Directory::open(args.out.as_deref(), &started_utc).map_err(Error::usage)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    for comparison in comparisons.iter().filter(|c| c.mode == Mode::Duet) {
        if let Sides::Subjects(scenarios) = &comparison.sides {
            subjects::can_run_at_once(scenarios, comparison, &stop).map_err(Error::usage)?;
        }
    }
    announce(&comparisons, against.as_ref(), limits.as_ref(), quiet);

    let mut gate = Gate::new(host::capture(), started_utc, stop, quiet);
    if let Some(calibration) = &calibration {
        gate.warnings = calibration::warnings(calibration, &comparisons, &gate.host);
        for warning in &gate.warnings {
            // Now, while there is time to end it.
            terminal::note(false, &format!("warning: {} {}", warning.message, warning.hint));
        }
    }
    for comparison in &comparisons {
        gate.compare(comparison);
    }
    if let Some(against) = &against {
        gate.judge_by(against)?;
    }
    if let Some(limits) = &limits {
        gate.limit(limits, &out)?;
    }
    conclude(&gate.verdict(), args, &out)
}

/// Writes the verdict, prints it, and turns it into an exit code.
fn conclude(verdict: &Verdict, args: &GateArgs, out: &Directory) -> Result<ExitStatus, Error> {
    let json = verdict.to_json();
    let file = out.write("verdict.json", &json)?;
    let text = match args.format {
        VerdictFormat::Table => gate::text::table(verdict),
        VerdictFormat::Json => json,
        VerdictFormat::Markdown => gate::text::markdown(verdict),
        VerdictFormat::Junit => gate::text::junit(verdict),
    };
    let written = std::io::stdout().write_all(text.as_bytes()).map_err(Error::writing);
    terminal::note(args.judged.quiet, &format!("verdict: {}", file.display()));
    if verdict.verdict == Outcome::Inconclusive {
        // Said even when asked to be quiet: an exit code of 0 must not be taken for a pass.
        terminal::note(false, &format!("NOT A PASS. {}", gate::text::sentence(verdict)));
    }
    written?;
    Ok(match verdict.verdict {
        _ if verdict.partial => ExitStatus::NotMeasured,
        Outcome::Regressed | Outcome::LimitBroken => ExitStatus::Regressed,
        Outcome::Inconclusive if args.on_inconclusive == OnInconclusive::Fail => ExitStatus::Inconclusive,
        Outcome::Inconclusive | Outcome::Pass | Outcome::Improved => ExitStatus::Done,
    })
}

/// From this share of all CPUs on, two sides at once share so many stalls that their difference drowns.
const MUCH_STEAL: f64 = 0.1;

/// What has been judged so far.
struct Gate {
    host: Host,
    started_utc: String,
    stop: Arc<AtomicBool>,
    quiet: bool,
    started: Instant,
    comparisons: Vec<verdict::Comparison>,
    baseline: Option<AgainstBaseline>,
    limits: Vec<LimitCheck>,
    failure: Option<String>,
    /// Something that was asked for could not be judged.
    partial: bool,
    warnings: Vec<Warning>,
}

impl Gate {
    fn new(host: Host, started_utc: String, stop: Arc<AtomicBool>, quiet: bool) -> Self {
        Self {
            host,
            started_utc,
            stop,
            quiet,
            started: now(),
            comparisons: Vec::new(),
            baseline: None,
            limits: Vec::new(),
            failure: None,
            partial: false,
            warnings: Vec::new(),
        }
    }

    /// Interrupted, or unable to go on: what is left is not begun.
    fn is_over(&self) -> bool {
        self.failure.is_some() || self.stop.load(Ordering::Relaxed)
    }

    /// Why what is left is not begun.
    fn why_over(&self) -> Reason {
        if self.failure.is_some() { Reason::NotMeasured } else { Reason::Interrupted }
    }

    fn compare(&mut self, planned: &Comparison) {
        if self.is_over() {
            self.partial = true;
            return;
        }
        let started = now();
        let mut session = Session::new(planned, self.quiet);
        match &planned.sides {
            Sides::Subjects(scenarios) => subjects::run(scenarios, planned, &self.stop, &mut session),
            Sides::Programs(a, b) => commands::run([a, b], planned, &self.stop, &mut session),
        }
        let (comparison, failure) = session.end(started.elapsed(), self.cpus());
        self.partial |= matches!(comparison.reason, Some(Reason::Interrupted | Reason::NotMeasured));
        self.failure = failure;
        let stolen = comparison.sides.iter().filter_map(|side| side.steal_share).fold(0.0, f64::max);
        if comparison.mode == Mode::Duet && stolen > MUCH_STEAL {
            let message =
                format!("The hypervisor took {:.0} % of the CPUs while both sides ran at once.", stolen * 100.0);
            self.warn("duet-under-steal", &message, "Run them in turn, without --duet: that decides more surely here.");
        }
        self.comparisons.push(comparison);
    }

    fn judge_by(&mut self, against: &Against) -> Result<(), Error> {
        if !against.forced.is_empty() {
            let what: Vec<String> = against.forced.iter().map(ToString::to_string).collect();
            let message = format!("The baseline is of another machine: {}.", what.join(", "));
            self.warn("environment-differs", &message, "Its interval may be tight around the wrong number.");
        }
        let (checked, failure) = if self.is_over() {
            (against.open(self.why_over(), self.cpus()), None)
        } else {
            against.cpu().map_or(Ok(()), tuning::bind)?;
            against.judge(self.started_utc.clone(), &self.stop, self.quiet, self.cpus())
        };
        self.partial |= matches!(checked.reason, Some(Reason::Interrupted | Reason::NotMeasured));
        self.failure = self.failure.take().or(failure);
        self.baseline = Some(checked);
        Ok(())
    }

    fn cpus(&self) -> f64 {
        self.host.cpus_online.unwrap_or(1).max(1) as f64
    }

    fn limit(&mut self, limits: &Limits, out: &Directory) -> Result<(), Error> {
        match &limits.source {
            Source::Report(report, which) => {
                // Where something is measured here, too, the verdict's machine is this one.
                if self.comparisons.is_empty() && self.baseline.is_none() {
                    self.host = report.host.clone();
                }
                if report.partial {
                    self.warn("partial-report", "The report is of a run that was interrupted.", "Run it again.");
                }
                self.hold(limits, &report.subjects[*which]);
            }
            Source::Measure(plan) if self.is_over() => {
                self.limits = limits.open(&plan.scenarios[0].id, self.why_over());
                self.partial = true;
            }
            Source::Measure(plan) => {
                let (host, started_utc) = (self.host.clone(), self.started_utc.clone());
                let report = limits::measure(plan, host, started_utc, &self.stop, self.quiet)?;
                out.write("report.json", &report.to_json())?;
                self.hold(limits, &report.subjects[0]);
            }
        }
        Ok(())
    }

    fn hold(&mut self, limits: &Limits, subject: &Subject) {
        match limits.hold(subject) {
            Ok(checks) => {
                self.partial |= checks.iter().any(|c| c.reason == Some(Reason::Interrupted));
                self.limits = checks;
            }
            Err(why) => {
                self.limits = limits.open(&subject.id, Reason::NotMeasured);
                (self.failure, self.partial) = (Some(why), true);
            }
        }
    }

    fn warn(&mut self, code: &str, message: &str, hint: &str) {
        self.warnings.push(Warning { code: code.to_owned(), message: message.to_owned(), hint: hint.to_owned() });
    }

    fn verdict(self) -> Verdict {
        let of_comparisons = self.comparisons.iter().map(|c| (c.verdict, c.reason));
        let of_baseline = self.baseline.iter().map(|b| (b.verdict, b.reason));
        let of_limits = self.limits.iter().map(|l| (l.verdict, l.reason));
        let outcomes: Vec<(Outcome, Option<Reason>)> = of_comparisons.chain(of_baseline).chain(of_limits).collect();
        let mut outcome = Outcome::of_all(outcomes.iter().map(|(outcome, _)| *outcome));
        if self.partial && matches!(outcome, Outcome::Pass | Outcome::Improved) {
            outcome = Outcome::Inconclusive;
        }
        let why_partial = self.partial.then(|| self.why_over());
        let open = outcomes.iter().find_map(|(o, reason)| reason.filter(|_| *o == Outcome::Inconclusive));
        Verdict {
            schema: SCHEMA.to_owned(),
            tool: host::tool(),
            started_utc: self.started_utc,
            duration_ns: u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX),
            partial: self.partial,
            verdict: outcome,
            reason: why_partial.or(open).filter(|_| outcome == Outcome::Inconclusive),
            comparisons: self.comparisons,
            baseline: self.baseline,
            limits: self.limits,
            failure: self.failure,
            host: self.host,
            warnings: self.warnings,
        }
    }
}

/// Says before it starts how long it will take.
fn announce(comparisons: &[Comparison], against: Option<&Against>, limits: Option<&Limits>, quiet: bool) {
    let mut parts = Vec::new();
    if !comparisons.is_empty() {
        let all = |pairs: fn(&Comparison) -> u64| comparisons.iter().map(|c| c.time_of(pairs(c))).sum::<Duration>();
        let first = all(|c| c.plan.looks.first().copied().unwrap_or(0)).as_secs_f64();
        let last = all(Comparison::most_pairs).as_secs_f64();
        parts.push(format!("{first:.0}s to the first look, at most {last:.0}s to the last"));
    }
    if let Some(against) = against {
        parts.push(format!("{:.0}s for a session", against.time().as_secs_f64()));
    }
    let tails = comparisons.iter().map(|c| tail_name(c.tail())).chain(against.map(against::tail));
    let mut tails: Vec<&str> = tails.filter(|&tail| tail != "p99").collect();
    tails.dedup();
    if !tails.is_empty() {
        parts.push(format!("rounds this short are judged by {} instead of p99", tails.join(" and ")));
    }
    if let Some(time) = limits.map(Limits::time).filter(|time| !time.is_zero()) {
        parts.push(format!("{:.0}s for the limits", time.as_secs_f64()));
    }
    if !parts.is_empty() {
        terminal::note(quiet, &format!("gate: {}", parts.join("; ")));
    }
}

#[allow(clippy::disallowed_methods, reason = "wall time of the gate")]
fn now() -> Instant {
    Instant::now()
}
