//! `osjitter gate baseline add`: measures a session and adds it to a baseline file.
//!
//! A session is added only if it is conclusive and no worse than the stored ones.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use cli::exit::{self, Error, usage};
use cli::file_io;
use cli::file_io::Destination;
use cli::terminal;
use engine::machine::{host, os, tuning};
use files::environment::EnvironmentKey;
use files::file::File as _;
use files::gate::baseline::{Baseline, MAX_SESSIONS, SCHEMA, SESSION_PAIRS, Session};
use files::gate::baseline_test;
use files::gate::verdict::BaselineMetric;
use files::report::Warning;
use jitterstat::gate::Side;
use jitterstat::gate::decision::Outcome;
use render::document::terminal::render as render_terminal;

use crate::gate::args::{BaselineAddArgs, check_named_once};
use crate::gate::baseline::session::{
    SessionPlan, StoredBaseline, format_differences, read_baseline,
};
use crate::gate::text::answers::baseline_document;
use crate::gate::text::reason_remedy;
use crate::interrupt;

/// Reason for which a session that is worse than the stored ones is not added.
const WORSE_SESSION: &str =
    "worse than the stored sessions; if the change is intended, start over with --replace";

/// Measures a session and appends it to the file, or explains why it was not added. Returns the
/// outcome of the session, or `None` if it was interrupted.
pub fn run(args: &BaselineAddArgs) -> exit::Result<Option<Outcome>> {
    check_named_once("--tolerance", &args.judged.tolerance)?;
    let file = args.file.as_path();
    let initial = read_baseline(file)?;
    let request = AddRequest::new(args, initial)?;
    request.destination().check_file()?;
    request.plan.test.design.cpu.map_or(Ok(()), tuning::bind)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    let Some(session) = request.measure(&stop)? else { return Ok(None) };

    // Hold the lock until the file is written: the session is compared with what it joins.
    let _lock = lock_directory(&request.destination().target()?)?;
    let current = request.reload_baseline()?;
    let metrics = request.judge_session(&session, current.as_ref());
    let text = render_terminal(&baseline_document(&metrics), terminal::columns());
    let outcome = Outcome::worst_of(metrics.iter().map(|metric| metric.judged.verdict));
    let added = match outcome {
        Outcome::Pass | Outcome::Improved => request.append_session(current, session),
        _ => {
            request.explain_refusal(outcome, &metrics);
            Ok(())
        }
    };
    // Print the table even if the file could not be written.
    let printed = file_io::write_output(text, None);
    added?;
    printed?;
    Ok(Some(outcome))
}

/// A session to be added to a file.
struct AddRequest<'a> {
    file: &'a Path,
    replace: bool,
    quiet: bool,
    plan: SessionPlan,
    environment: EnvironmentKey,
    /// Content of the file before the session was measured.
    initial: Option<Baseline>,
}

impl<'a> AddRequest<'a> {
    fn new(args: &'a BaselineAddArgs, initial: Option<Baseline>) -> exit::Result<Self> {
        let file = args.file.as_path();
        let kept = initial.as_ref().filter(|_| !args.replace);
        let stored = kept.map(|baseline| StoredBaseline { file, baseline });
        let pairs = args.max_pairs.unwrap_or(SESSION_PAIRS);
        let plan = SessionPlan::resolve(&args.judged, args.subject, stored, pairs)?;
        let environment = EnvironmentKey::from_host(&host::capture());
        stored.map_or(Ok(()), |stored| check_same_machine(stored, &environment))?;
        let quiet = args.judged.rounds.quiet;
        Ok(Self { file, replace: args.replace, quiet, plan, environment, initial })
    }

    /// Returns the file. Its sessions are kept, unless `--replace` drops them.
    fn destination(&self) -> Destination<'a> {
        Destination { path: self.file, force: true }
    }

    /// Measures the session. Returns `None` if it was interrupted.
    fn measure(&self, stop: &Arc<AtomicBool>) -> exit::Result<Option<Session>> {
        let name = self.file.display();
        let subject = &self.plan.test.names.candidate;
        let seconds = self.plan.seconds();
        terminal::note(self.quiet, &format!("a session of {subject}: {seconds:.0}s"));
        let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let (mut pairs, reason) = self.plan.measure(stop, self.quiet);
        for Warning { message, hint, .. } in pairs.left_out.warnings("rounds") {
            terminal::warning(&format!("{message} {hint}"));
        }
        if let Some(failure) = pairs.failure.take() {
            return Err(Error::measure(format!("{failure}; no session was added to {name}")));
        }
        if reason.is_some() || stop.load(Ordering::Relaxed) {
            terminal::note(false, &format!("interrupted; no session was added to {name}"));
            return Ok(None);
        }
        for side in [Side::Base, Side::Candidate] {
            if pairs.arrivals.is_early(side) {
                let early = &self.plan.test.names[side];
                return Err(Error::measure(format!(
                    "{early} ticks before its deadlines; no session was added to {name}"
                )));
            }
        }
        Ok(Some(self.plan.session(&pairs, started_utc)))
    }

    /// Reads the file again, which may have gained sessions since this one was started. Returns
    /// `None` if the session starts a new file.
    ///
    /// # Errors
    /// Returns an error if the file changed such that the session does not fit any more.
    fn reload_baseline(&self) -> exit::Result<Option<Baseline>> {
        let current = read_baseline(self.file)
            .map_err(|e| Error::measure(format!("{e}; nothing was written")))?;
        let change = match (&current, &self.initial) {
            (None, Some(_)) => "was removed",
            (Some(_), None) if self.replace => "was created",
            (Some(current), Some(initial)) if self.replace && current != initial => "was changed",
            (Some(current), _) if !self.replace && !self.fits(current) => "was changed",
            _ => return Ok(current.filter(|_| !self.replace)),
        };
        let name = self.file.display();
        Err(Error::measure(format!(
            "{name} {change} while the session was measured; nothing was written: add it again"
        )))
    }

    fn fits(&self, baseline: &Baseline) -> bool {
        baseline.scenario == self.plan.design && baseline.environment == self.environment
    }

    /// Compares the session with the stored ones. The first session of a file only has to be
    /// usable.
    fn judge_session(&self, session: &Session, current: Option<&Baseline>) -> Vec<BaselineMetric> {
        let (design, rules) = (&self.plan.design, &self.plan.test.rules);
        let sessions = current.map_or(&[][..], |baseline| &baseline.sessions);
        let mut metrics = baseline_test::judge(session, sessions, design, rules);
        if current.is_none() {
            let rejection = baseline_test::rejection_reason(session, design, rules);
            let is_usable = rejection.is_none();
            for metric in &mut metrics {
                metric.judged.verdict =
                    if is_usable { Outcome::Pass } else { Outcome::Inconclusive };
                metric.judged.reason = rejection;
            }
        }
        metrics
    }

    fn append_session(&self, current: Option<Baseline>, session: Session) -> exit::Result<()> {
        let mut baseline = current.unwrap_or_else(|| Baseline {
            schema: SCHEMA.to_owned(),
            scenario: self.plan.design.clone(),
            environment: self.environment.clone(),
            sessions: Vec::new(),
        });
        let dropped_count = baseline.push(session).len();
        self.destination().write_file(baseline.to_json().as_bytes())?;
        let dropped = match dropped_count {
            0 => String::new(),
            count => format!("; the oldest {count} dropped"),
        };
        let (name, count) = (self.file.display(), baseline.sessions.len());
        let message = format!("{name}: {count} of at most {MAX_SESSIONS} sessions{dropped}");
        terminal::note(self.quiet, &message);
        Ok(())
    }

    fn explain_refusal(&self, outcome: Outcome, metrics: &[BaselineMetric]) {
        let reason = metrics.iter().find_map(|metric| metric.judged.reason);
        let why = match (outcome, reason) {
            (Outcome::Inconclusive, Some(reason)) => {
                format!("{reason}; {}", reason_remedy(reason))
            }
            (Outcome::Inconclusive, None) => outcome.to_string(),
            _ => WORSE_SESSION.to_owned(),
        };
        terminal::note(false, &format!("NOT ADDED to {}: {why}", self.file.display()));
    }
}

fn check_same_machine(
    stored: StoredBaseline<'_>,
    environment: &EnvironmentKey,
) -> exit::Result<()> {
    let differences = stored.baseline.environment.differences(environment);
    if differences.is_empty() {
        return Ok(());
    }
    Err(usage!(
        "{} was recorded on another machine: {}; nothing was measured; start over with --replace",
        stored.file.display(),
        format_differences(&differences)
    ))
}

/// Keeps other osjitter processes from adding to a file, which is no link: others may reach it by
/// another path.
fn lock_directory(file: &Path) -> exit::Result<File> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    os::lock(directory)
        .map_err(|e| Error::measure(format!("cannot lock {}: {e}", directory.display())))
}
