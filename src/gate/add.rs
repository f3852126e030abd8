//! `osjitter gate baseline add`: a session joins a file only if it says enough and is no worse than
//! what is there.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use cli::exit::{self, Error, ExitStatus, usage};
use engine::machine::{host, os, tuning};
use files::environment::EnvironmentKey;
use files::file::File as _;
use files::gate::baseline::{Baseline, MAX_SESSIONS, SCHEMA, SESSION_PAIRS, Session};
use files::gate::baseline_test;
use files::gate::verdict::BaselineMetric;
use jitterstat::gate::decision::Outcome;

use crate::gate::against::table;
use crate::gate::args::BaselineAddArgs;
use crate::gate::session::{SessionPlan, listed, read};
use crate::{file_io, interrupt, terminal};

/// Measures a session and puts it behind those of the file, or says why not.
pub fn run(args: &BaselineAddArgs) -> exit::Result<ExitStatus> {
    let (file, quiet) = (args.file.as_path(), args.judged.rounds.quiet);
    let name = file.display();
    let found = read(file)?;
    let kept = found.clone().filter(|_| !args.replace);
    let pairs = args.max_pairs.unwrap_or(SESSION_PAIRS);
    let session =
        SessionPlan::of(&args.judged, args.subject, kept.as_ref().map(|b| (file, b)), pairs)?;
    let environment = EnvironmentKey::from_host(&host::capture());
    if let Some(kept) = &kept {
        let differences = kept.environment.differences(&environment);
        if !differences.is_empty() {
            return Err(usage!(
                "{name} was recorded on another machine: {}; nothing was measured; --replace starts the file anew",
                listed(&differences)
            ));
        }
    }
    let directory = file.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    file_io::prove_writable(file)?;
    session.test.design.cpu.map_or(Ok(()), tuning::bind)?;
    let stop = Arc::default();
    interrupt::stop_on_interrupt(&stop)?;
    terminal::note(
        quiet,
        &format!("a session of {}: {:.0}s", session.test.names[1], session.seconds()),
    );

    let started_utc = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let (pairs, reason) = session.measure(&stop, quiet);
    if let Some(why) = pairs.failure {
        return Err(Error::measure(format!("{why}; no session was added to {name}")));
    }
    if reason.is_some() || stop.load(Ordering::Relaxed) {
        terminal::note(false, &format!("interrupted; no session was added to {name}"));
        return Ok(ExitStatus::NotMeasured);
    }
    let measured = session.session(&pairs, started_utc);
    // From here to the end no other of us adds to the file: it is judged by what it joins.
    let _alone = os::lock(directory)
        .map_err(|e| Error::measure(format!("cannot lock {}: {e}", directory.display())))?;
    let joined = joined(file, found.as_ref(), args.replace, &session, &environment)?;
    let judged = judged(&measured, joined.as_ref(), &session);
    let told = table(&judged, terminal::columns());
    let status = match Outcome::worst_of(judged.iter().map(|m| m.verdict)) {
        Outcome::Pass | Outcome::Improved => {
            let stored = store(file, joined, measured, &session, environment);
            if let Ok((sessions, gone)) = stored {
                let dropped =
                    if gone > 0 { format!("; the oldest {gone} dropped") } else { String::new() };
                terminal::note(
                    quiet,
                    &format!("{name}: {sessions} of at most {MAX_SESSIONS} sessions{dropped}"),
                );
            }
            stored.map(|_| ExitStatus::Done)
        }
        Outcome::Regressed | Outcome::LimitBroken => {
            let why = "worse than the sessions that are stored; if that is meant, --replace starts the file anew";
            terminal::note(false, &format!("NOT ADDED to {name}: {why}"));
            Ok(ExitStatus::Regressed)
        }
        Outcome::Inconclusive => {
            let reason = judged.iter().find_map(|m| m.reason);
            let why = reason.map_or("inconclusive".to_owned(), |reason| reason.to_string());
            terminal::note(false, &format!("NOT ADDED to {name}: {why}"));
            Ok(ExitStatus::Inconclusive)
        }
    };
    // Shown all the same where the file could not be written.
    let shown = file_io::deliver(told, None);
    status.and_then(|status| shown.map(|()| status))
}

/// A session by those that are stored; the first one by nothing but its own use.
fn judged(session: &Session, kept: Option<&Baseline>, plan: &SessionPlan) -> Vec<BaselineMetric> {
    let stored = kept.map_or(&[][..], |kept| &kept.sessions);
    let mut metrics = baseline_test::judge(session, stored, &plan.design, &plan.test.rules);
    if kept.is_none() {
        let unusable = baseline_test::rejection_reason(session, &plan.design, &plan.test.rules);
        for metric in &mut metrics {
            metric.verdict = if unusable.is_some() { Outcome::Inconclusive } else { Outcome::Pass };
            metric.reason = unusable;
        }
    }
    metrics
}

/// What the file holds now, which may be more than when the session began; none where the session
/// starts it anew.
fn joined(
    file: &Path,
    found: Option<&Baseline>,
    replace: bool,
    plan: &SessionPlan,
    environment: &EnvironmentKey,
) -> exit::Result<Option<Baseline>> {
    let now = read(file).map_err(|e| Error::measure(format!("{e}; nothing was written")))?;
    let what = match (&now, found) {
        (None, Some(_)) => "went away",
        (Some(_), None) if replace => "appeared",
        (Some(now), Some(found)) if replace && now != found => "was changed",
        (Some(now), _)
            if !replace && (now.scenario != plan.design || now.environment != *environment) =>
        {
            "was changed"
        }
        _ => return Ok(now.filter(|_| !replace)),
    };
    let name = file.display();
    Err(Error::measure(format!(
        "{name} {what} while the session was measured; nothing was written: add it again"
    )))
}

/// Adds the session to those it joins: how many there are now, and how many had to go.
fn store(
    file: &Path,
    joined: Option<Baseline>,
    session: Session,
    plan: &SessionPlan,
    environment: EnvironmentKey,
) -> exit::Result<(usize, usize)> {
    let (schema, scenario) = (SCHEMA.to_owned(), plan.design.clone());
    let mut baseline =
        joined.unwrap_or(Baseline { schema, scenario, environment, sessions: Vec::new() });
    let gone = baseline.push(session).len();
    file_io::deliver(baseline.to_json(), Some(file))?;
    Ok((baseline.sessions.len(), gone))
}
