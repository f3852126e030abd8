//! The file `osjitter.baseline/1`: stored reference sessions of a subject beside a control, for
//! when the old program can't be run.
//!
//! A stored number alone says nothing: the machine of today is not the machine of then. So a
//! session measures the subject and a control, a bare thread that sleeps, in turn, and what is
//! compared later is how much later the subject was than its control. Where the old program can
//! still be run, comparing the two in one session is better in every way.

use super::round_record::RoundRecord;
use super::verdict::{GateDesign, Mode};
use crate::environment::{Difference, EnvironmentKey};
use crate::file::{File, Flaw, Invalid};
use crate::model::model;
use crate::report::{Histogram, Tool};
use jitterstat::gate::decision::{self, QUIET_SHARE};
use jitterstat::gate::round::{self, Pair};
use jitterstat::stall;

/// Value of [`Baseline::schema`] that this version writes and reads.
pub const SCHEMA: &str = "osjitter.baseline/1";
/// The subject that runs beside every other one.
pub const CONTROL: &str = "nanosleep";
/// Pairs of rounds in a session, unless told otherwise.
pub const SESSION_PAIRS: u64 = 200;
/// A file keeps the last so many sessions.
pub const SESSIONS_KEPT: usize = 10;

model! {
    /// Stored sessions of one subject on one machine.
    pub struct Baseline {
        /// Always [`SCHEMA`].
        pub schema: String,
        /// What was measured, and how; the same in every session.
        pub scenario: SessionDesign,
        /// The machine; the same in every session.
        pub environment: EnvironmentKey,
        /// The oldest first.
        pub sessions: Vec<Session>,
    }

    /// What a session measures, and how its rounds are made into values.
    pub struct SessionDesign {
        /// The subject.
        pub subject: String,
        /// Runtime of a tokio subject.
        pub runtime: Option<String>,
        /// What runs beside it.
        pub control: String,
        /// Nominal period.
        pub period_ns: u64,
        /// Recorded ticks of a round.
        pub round_ticks: u64,
        /// Leading ticks of a round that are dropped.
        pub warmup_ticks: u64,
        /// How the two take turns.
        pub mode: Mode,
        /// Whether both were bound to one CPU.
        pub bound_to_one_cpu: bool,
        /// A tick that was due so long before, when its predecessor came, belongs to the same
        /// stall.
        pub already_due_ns: u64,
        /// By which definition a round's stalls were found; null in files from before gap-1, where
        /// a late tick was one.
        pub stalls: Option<String>,
        /// Share of the pairs, the quietest, by which the tail is judged.
        pub quiet_share: f64,
    }

    /// One session.
    pub struct Session {
        /// The program that measured it.
        pub tool: Tool,
        /// Start, RFC 3339, UTC.
        pub started_utc: String,
        /// Wall time.
        pub duration_ns: u64,
        /// Seed of the order.
        pub seed: u64,
        /// The CPU that both were bound to.
        pub cpu: Option<usize>,
        /// Step of the clock: lateness below it counts as this much.
        pub resolution_ns: i64,
        /// The pairs, in the order they ran.
        pub pairs: Vec<SessionPair>,
        /// Every lateness of the subject, stalls and all.
        pub subject_histogram: Histogram,
        /// Every lateness of the control.
        pub control_histogram: Histogram,
    }

    /// A round of each, one directly after the other.
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

    fn check(&self) -> Result<(), Invalid> {
        let sessions = ("sessions".to_owned(), self.sessions.len(), 1);
        let pairs = |(i, s): (usize, &Session)| {
            (format!("sessions[{i}].pairs"), s.pairs.len(), 2 * decision::MIN_PAIRS)
        };
        let all = std::iter::once(sessions).chain(self.sessions.iter().enumerate().map(pairs));
        match { all }.find(|(_, found, least)| found < least) {
            Some((at, found, least)) => Err(Invalid { at, flaw: Flaw::TooFew { found, least } }),
            None => Ok(()),
        }
    }
}

impl Baseline {
    /// Adds a session behind those that are there, and returns those that had to go for it: it
    /// keeps the last [`SESSIONS_KEPT`].
    pub fn push(&mut self, session: Session) -> Vec<Session> {
        self.sessions.push(session);
        let too_many = self.sessions.len().saturating_sub(SESSIONS_KEPT);
        self.sessions.drain(..too_many).collect()
    }
}

impl Session {
    /// What is judged of its pairs, with the tail at that quantile; side A is the control.
    #[must_use]
    pub fn values(&self, tail_quantile: f64) -> Vec<Pair> {
        let value = |record: &RoundRecord| record.value(tail_quantile, self.resolution_ns);
        self.pairs.iter().map(|p| Pair { a: value(&p.control), b: value(&p.subject) }).collect()
    }
}

impl SessionDesign {
    /// What a session of such a design measures.
    #[must_use]
    pub fn new(subject: &str, runtime: Option<String>, design: &GateDesign) -> Self {
        Self {
            subject: subject.to_owned(),
            runtime,
            control: CONTROL.to_owned(),
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

    /// Every field that is not the same, `self` as side A.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let fields = |s: &Self| {
            [
                ("subject", s.subject.clone()),
                ("runtime", s.runtime.clone().unwrap_or_else(|| "none".to_owned())),
                ("control", s.control.clone()),
                ("period", format!("{} ns", s.period_ns)),
                ("ticks of a round", s.round_ticks.to_string()),
                ("warm-up ticks", s.warmup_ticks.to_string()),
                ("turns", s.mode.to_string()),
                ("bound to one CPU", if s.bound_to_one_cpu { "yes" } else { "no" }.to_owned()),
                ("already due", format!("{} ns", s.already_due_ns)),
                ("stalls", s.stalls.clone().unwrap_or_else(|| "late-1".to_owned())),
                ("quiet share", s.quiet_share.to_string()),
            ]
        };
        let pairs = fields(self).into_iter().zip(fields(other));
        let unlike = pairs.filter(|((_, a), (_, b))| a != b);
        unlike.map(|((field, a), (_, b))| Difference { field: field.to_owned(), a, b }).collect()
    }

    /// The quantile that stands for the tail in its rounds.
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
            control: CONTROL.into(),
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
    fn what_is_written_reads_back_and_the_oldest_sessions_go() {
        let mut file = baseline(10);
        assert_eq!(Baseline::from_json(&file.to_json()).unwrap(), file);
        let gone = file.push(Session { seed: 77, ..file.sessions[0].clone() });
        assert_eq!(
            (gone.len(), gone[0].seed, file.sessions.len(), file.sessions[9].seed),
            (1, 0, 10, 77)
        );
        assert!(baseline(1).push(file.sessions[0].clone()).is_empty());
    }

    #[test]
    fn a_file_from_before_stalls_were_gaps_is_read() {
        let mut old: serde_json::Value = serde_json::from_str(&baseline(1).to_json()).unwrap();
        let gone = old["scenario"].as_object_mut().unwrap().remove("stalls");
        for pair in old["sessions"][0]["pairs"].as_array_mut().unwrap() {
            for side in ["subject", "control"] {
                assert!(pair[side].as_object_mut().unwrap().remove("own").is_some());
            }
        }
        assert!(gone.is_some());
        let read = Baseline::from_json(&old.to_string()).unwrap();
        assert_eq!((read.scenario.stalls, &read.sessions[0].pairs[0].subject.own), (None, &None));
    }

    #[test]
    fn what_is_no_baseline_is_named() {
        let good = baseline(1).to_json();
        let few = Baseline {
            sessions: vec![Session { pairs: vec![], ..baseline(1).sessions[0].clone() }],
            ..baseline(1)
        };
        for (text, says) in [
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
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn every_difference_is_named() {
        let one = baseline(1).scenario;
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
        assert_eq!(one.differences(&other).len(), 11);
        assert_eq!(one.differences(&other)[9].to_string(), "stalls: gap-1 against late-1");
        assert_eq!(one.differences(&other)[3].to_string(), "period: 500000 ns against 1 ns");
        assert!(one.differences(&one).is_empty());
    }
}
