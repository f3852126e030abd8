//! The file `osjitter.baseline/1`: stored sessions of a subject and a control, as a reference for
//! when the old program can no longer run.
//!
//! A stored number alone has little meaning, because the state of the machine changes. A session
//! therefore measures the subject and a control, a bare thread that sleeps, in turn. Later sessions
//! are compared by how much later the subject is than its control. If the old program can still
//! run, comparing both programs in one session is better in every respect.

use super::round_record::RoundRecord;
use super::verdict::{GateDesign, Mode};
use crate::environment::{Difference, EnvironmentKey, format_ns};
use crate::file::{File, Flaw, Invalid};
use crate::model::model;
use crate::report::{Histogram, Tool};
use crate::subjects::SLEEPING_CONTROL;
use jitterstat::gate::decision::{self, QUIET_SHARE};
use jitterstat::gate::round::{self, Pair};
use jitterstat::stall;

/// Value of [`Baseline::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.baseline/1";
/// Default number of pairs of rounds in a session.
pub const SESSION_PAIRS: u64 = 200;
/// Maximum number of sessions in a file.
pub const MAX_SESSIONS: usize = 10;

model! {
    /// Stored sessions of one subject on one machine.
    pub struct Baseline {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// The design that all sessions share.
        pub scenario: SessionDesign,
        /// The machine of all sessions.
        pub environment: EnvironmentKey,
        /// The sessions, the oldest first.
        pub sessions: Vec<Session>,
    }

    /// The design of a session: the subject, the plan, and the way in which rounds become values.
    pub struct SessionDesign {
        /// The subject.
        pub subject: String,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// The control.
        pub control: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Number of recorded ticks of a round.
        pub round_ticks: u64,
        /// Number of leading ticks of a round that are dropped.
        pub warmup_ticks: u64,
        /// How the two run.
        pub mode: Mode,
        /// Whether both were bound to one CPU.
        pub bound_to_one_cpu: bool,
        /// Time before its deadline from which a tick counts as due, and belongs to the stall of
        /// its predecessor.
        pub already_due_ns: u64,
        /// Name of the definition of stalls; null in files older than `gap-1`, which treated each
        /// late tick as a stall.
        pub stalls: Option<String>,
        /// Share of the pairs, the quietest ones, by which the tail is judged.
        pub quiet_share: f64,
    }

    /// A session.
    pub struct Session {
        /// The program that measured it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time.
        pub duration_ns: u64,
        /// Seed of the order within pairs.
        pub seed: u64,
        /// CPU that both were bound to; null without one.
        pub cpu: Option<usize>,
        /// Step of the clock. Less lateness counts as this much.
        pub resolution_ns: i64,
        /// The pairs, in the order in which they ran.
        pub pairs: Vec<SessionPair>,
        /// Lateness of all ticks of the subject, including stalls.
        pub subject_histogram: Histogram,
        /// Lateness of all ticks of the control, including stalls.
        pub control_histogram: Histogram,
    }

    /// A round of the subject and one of the control, one directly after the other.
    pub struct SessionPair {
        /// Whether the subject ran first.
        pub subject_first: bool,
        /// The subject's round.
        pub subject: RoundRecord,
        /// The control's round.
        pub control: RoundRecord,
    }
}

impl File for Baseline {
    const SCHEMA: &'static str = SCHEMA;
    const IS_INDENTED: bool = false;

    fn check(&self) -> Result<(), Invalid> {
        check_length("sessions".to_owned(), self.sessions.len(), 1)?;
        if self.sessions.len() > MAX_SESSIONS {
            let (found, most) = (self.sessions.len(), MAX_SESSIONS);
            return Err(Invalid { at: "sessions".to_owned(), flaw: Flaw::TooMany { found, most } });
        }
        for (i, session) in self.sessions.iter().enumerate() {
            let at = format!("sessions[{i}].pairs");
            check_length(at, session.pairs.len(), 2 * decision::MIN_PAIRS)?;
            // A copy of a session is no further evidence.
            if self.sessions[..i].contains(session) {
                let session = format!("the session of {}", session.started_utc);
                return Err(Invalid { at: format!("sessions[{i}]"), flaw: Flaw::Twice(session) });
            }
        }
        Ok(())
    }
}

fn check_length(at: String, found: usize, least: usize) -> Result<(), Invalid> {
    if found < least {
        return Err(Invalid { at, flaw: Flaw::TooFew { found, least } });
    }
    Ok(())
}

impl Baseline {
    /// Appends a session, and removes and returns the oldest ones beyond [`MAX_SESSIONS`].
    pub fn push(&mut self, session: Session) -> Vec<Session> {
        self.sessions.push(session);
        let too_many = self.sessions.len().saturating_sub(MAX_SESSIONS);
        self.sessions.drain(..too_many).collect()
    }
}

impl Session {
    /// Returns the values of its pairs, with the tail at the given quantile. Side A is the control.
    #[must_use]
    pub fn values(&self, tail_quantile: f64) -> Vec<Pair> {
        let value = |record: &RoundRecord| record.value(tail_quantile, self.resolution_ns);
        self.pairs
            .iter()
            .map(|p| Pair { base: value(&p.control), candidate: value(&p.subject) })
            .collect()
    }
}

impl SessionDesign {
    /// Creates the design of the sessions of a subject.
    #[must_use]
    pub fn new(subject: &str, runtime: Option<String>, design: &GateDesign) -> Self {
        Self {
            subject: subject.to_owned(),
            runtime,
            control: SLEEPING_CONTROL.name.to_owned(),
            period_ns: design.period_ns,
            round_ticks: design.round_ticks,
            warmup_ticks: design.warmup_ticks,
            mode: Mode::Interleaved,
            bound_to_one_cpu: design.cpu.is_some(),
            already_due_ns: stall::ALREADY_DUE_NS.unsigned_abs(),
            stalls: Some(stall::RULE.to_owned()),
            quiet_share: QUIET_SHARE,
        }
    }

    /// Returns every field that differs, with `self` as side A.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let fields = |s: &Self| {
            [
                ("subject", s.subject.clone()),
                ("runtime", s.runtime.clone().unwrap_or("none".to_owned())),
                ("control", s.control.clone()),
                ("period", format_ns(s.period_ns)),
                ("ticks of a round", s.round_ticks.to_string()),
                ("warm-up ticks", s.warmup_ticks.to_string()),
                ("turns", s.mode.to_string()),
                ("bound to one CPU", if s.bound_to_one_cpu { "yes" } else { "no" }.to_owned()),
                ("already due", format_ns(s.already_due_ns)),
                ("stalls", s.stalls.clone().unwrap_or("late-1".to_owned())),
                ("quiet share", s.quiet_share.to_string()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        let differing = pairs.filter(|((_, a), (_, b))| a != b);
        differing.map(|((field, a), (_, b))| Difference { field: field.to_owned(), a, b }).collect()
    }

    /// Returns the quantile that represents the tail of its rounds.
    #[must_use]
    pub fn tail_quantile(&self) -> f64 {
        round::tail_quantile(self.round_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(sessions: usize) -> Baseline {
        let record =
            RoundRecord::from_ticks((0..).zip([9_000, 8_000, 700_000, 200_000, 7_000]), 500_000)
                .unwrap();
        let pair = SessionPair { subject_first: true, subject: record.clone(), control: record };
        let histogram = crate::histogram::pack([1, 2, 3]);
        let session = |i: usize| Session {
            tool: Tool { name: "osjitter".into(), version: "0".into(), commit: None },
            started_utc: "2026-01-01T00:00:00Z".into(),
            duration_ns: 1,
            seed: i as u64,
            cpu: Some(0),
            resolution_ns: 1,
            pairs: vec![pair.clone(); 24],
            subject_histogram: histogram.clone(),
            control_histogram: histogram.clone(),
        };
        let environment = EnvironmentKey {
            os: "linux".into(),
            arch: "x86_64".into(),
            cpu_model: None,
            cpus_online: Some(4),
            kernel: None,
            preempt: None,
            clock_source: None,
            hypervisor: None,
            timer_slack_ns: None,
            governor: None,
            quota_cpus: None,
        };
        let scenario = SessionDesign {
            subject: "os-interval".into(),
            runtime: Some("current-thread".into()),
            control: SLEEPING_CONTROL.name.into(),
            period_ns: 500_000,
            round_ticks: 250,
            warmup_ticks: 20,
            mode: Mode::Interleaved,
            bound_to_one_cpu: true,
            already_due_ns: 20_000,
            stalls: Some("gap-1".into()),
            quiet_share: 0.5,
        };
        Baseline {
            schema: SCHEMA.into(),
            scenario,
            environment,
            sessions: (0..sessions).map(session).collect(),
        }
    }

    #[test]
    fn oldest_sessions_are_dropped() {
        let mut file = baseline(10);
        assert_eq!(Baseline::from_json(&file.to_json()).unwrap(), file);
        let dropped = file.push(Session { seed: 77, ..file.sessions[0].clone() });
        assert_eq!(
            (dropped.len(), dropped[0].seed, file.sessions.len(), file.sessions[9].seed),
            (1, 0, 10, 77)
        );
        assert!(baseline(1).push(file.sessions[0].clone()).is_empty());
    }

    #[test]
    fn older_files_are_read() {
        let mut old: serde_json::Value = serde_json::from_str(&baseline(1).to_json()).unwrap();
        let stalls = old["scenario"].as_object_mut().unwrap().remove("stalls");
        for pair in old["sessions"][0]["pairs"].as_array_mut().unwrap() {
            for side in ["subject", "control"] {
                assert!(pair[side].as_object_mut().unwrap().remove("own").is_some());
            }
        }
        assert!(stalls.is_some());
        let read = Baseline::from_json(&old.to_string()).unwrap();
        assert_eq!((read.scenario.stalls, &read.sessions[0].pairs[0].subject.own), (None, &None));
    }

    #[test]
    fn invalid_baselines_are_rejected() {
        let good = baseline(1).to_json();
        let few = Baseline {
            sessions: vec![Session { pairs: vec![], ..baseline(1).sessions[0].clone() }],
            ..baseline(1)
        };
        for (text, expected) in [
            (good[..good.len() / 2].to_owned(), "cut off"),
            (String::new(), "cut off"),
            ("[1]".to_owned(), "not a valid"),
            ("{}".to_owned(), "no \"schema\" key"),
            (good.replace("baseline/1", "baseline/2"), "baseline/2"),
            (good.replace("osjitter.baseline/1", "osjitter.report/1"), "report/1"),
            (good.replace("\"seed\"", "\"seeds\""), "seeds"),
            (baseline(0).to_json(), "sessions: 0 of them; at least 1"),
            (few.to_json(), "sessions[0].pairs: 0 of them; at least 24"),
        ] {
            let error = Baseline::from_json(&text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn differences_name_every_field() {
        let design = baseline(1).scenario;
        let other = SessionDesign {
            subject: "spin".into(),
            runtime: None,
            control: "spin".into(),
            period_ns: 1,
            round_ticks: 2,
            warmup_ticks: 3,
            mode: Mode::Duet,
            bound_to_one_cpu: false,
            already_due_ns: 4,
            stalls: None,
            quiet_share: 0.25,
        };
        assert_eq!(design.differences(&other).len(), 11);
        assert_eq!(design.differences(&other)[9].to_string(), "stalls: gap-1 against late-1");
        assert_eq!(design.differences(&other)[3].to_string(), "period: 500us against 1ns");
        assert!(design.differences(&design).is_empty());
    }
}
