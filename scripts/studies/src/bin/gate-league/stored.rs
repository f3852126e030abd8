//! The gate by stored sessions, which compares a subject with its control.

use files::gate::baseline::{Session as StoredSession, SessionDesign, SessionPair};
use files::gate::baseline_test;
use files::gate::round_record::RoundRecord;
use files::gate::verdict::Mode;
use files::histogram;
use files::report::Tool;
use files::subjects::SLEEPING_CONTROL;
use jitterstat::gate::decision::{Outcome, Rules};
use jitterstat::stall;

use crate::changes::Change;
use crate::rounds::{Session, Ticks};
use crate::rules::{Decision, RESOLUTION_NS};

/// Judges the new session with its change by stored sessions without it.
pub(crate) fn judge(new: &Session, change: Change, stored: &[&Session]) -> Decision {
    let rules = Rules::new(new.period_ns);
    let design = SessionDesign {
        subject: String::new(),
        runtime: None,
        control: SLEEPING_CONTROL.name.to_owned(),
        period_ns: new.period_ns,
        round_ticks: new.subject.first().map_or(0, |ticks| ticks.len() as u64),
        warmup_ticks: 0,
        mode: Mode::Interleaved,
        bound_to_one_cpu: true,
        already_due_ns: stall::ALREADY_DUE_NS.unsigned_abs(),
        stalls: Some(stall::RULE.to_owned()),
        quiet_share: 0.5,
    };
    let stored: Vec<StoredSession> =
        stored.iter().map(|session| stored_session(session, None)).collect();
    let metrics =
        baseline_test::judge(&stored_session(new, Some(change)), &stored, &design, &rules);
    match Outcome::worst_of(metrics.iter().map(|metric| metric.judged.verdict)) {
        Outcome::Regressed => Decision::Alarm,
        Outcome::Inconclusive => Decision::Open,
        _ => Decision::Nothing,
    }
}

fn stored_session(session: &Session, change: Option<Change>) -> StoredSession {
    let record =
        |ticks: &[(u64, i64)]| RoundRecord::from_ticks(ticks.iter().copied(), session.period_ns);
    let pair = |(subject, control): (&Ticks, &Ticks)| {
        let subject =
            change.map_or_else(|| record(subject), |change| record(&change.apply(subject)))?;
        Some(SessionPair { subject_first: true, subject, control: record(control)? })
    };
    StoredSession {
        tool: Tool { name: String::new(), version: String::new(), commit: None },
        started_utc: String::new(),
        duration_ns: 0,
        seed: 0,
        cpu: Some(0),
        resolution_ns: RESOLUTION_NS,
        pairs: session.subject.iter().zip(&session.control).filter_map(pair).collect(),
        subject_histogram: histogram::pack([]),
        control_histogram: histogram::pack([]),
    }
}
