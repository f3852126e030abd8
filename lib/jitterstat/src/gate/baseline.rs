//! The file `osjitter.baseline/1`: sessions of a subject beside a control, kept for the day when the old program can no
//! longer be run.
//!
//! A stored number alone says nothing: the machine of today is not the machine of then. So a session measures the subject
//! and a control, a bare thread that sleeps, in turn, and what is compared later is how much later the subject was than
//! its control. Where the old program can still be run, comparing the two in one session is better in every way.

use super::look::{self, QUIET_SHARE};
use super::round::{self, RoundValue};
use super::verdict::Mode;
use crate::environment::{Difference, EnvironmentKey};
use crate::file::{File, Flaw, Invalid};
use crate::model::model;
use crate::report::{self, Histogram, Tool};
use crate::stall;
use crate::stats::quantile;

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
        pub scenario: Scenario,
        /// The machine; the same in every session.
        pub environment: EnvironmentKey,
        /// The oldest first.
        pub sessions: Vec<Session>,
    }

    /// What a session measures, and how its rounds are made into values.
    pub struct Scenario {
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
        /// A tick that was due so long before, when its predecessor came, belongs to the same stall.
        pub already_due_ns: u64,
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

    /// One round: percentiles of the ticks that are left when each stall is counted once, and what the round met.
    pub struct RoundRecord {
        /// Median.
        pub p50_ns: i64,
        /// 90th percentile.
        pub p90_ns: i64,
        /// 95th percentile.
        pub p95_ns: i64,
        /// 99th percentile; judged only in rounds that carry one.
        pub p99_ns: i64,
        /// Largest.
        pub max_ns: i64,
        /// Ticks they are of.
        pub kept: u64,
        /// Ticks left out because their stall is counted by its first tick.
        pub same_stall: u64,
        /// Time stolen by the hypervisor, over all CPUs.
        pub steal_ns: Option<u64>,
        /// Time the threads were runnable and waited for a CPU.
        pub run_queue_ns: Option<u64>,
        /// Context switches by waiting.
        pub switches_voluntary: Option<u64>,
        /// Context switches by being preempted.
        pub switches_involuntary: Option<u64>,
    }
}

impl File for Baseline {
    const SCHEMA: &'static str = SCHEMA;

    fn check(&self) -> Result<(), Invalid> {
        let sessions = ("sessions".to_owned(), self.sessions.len(), 1);
        let pairs = |(i, s): (usize, &Session)| (format!("sessions[{i}].pairs"), s.pairs.len(), 2 * look::MIN_PAIRS);
        let all = std::iter::once(sessions).chain(self.sessions.iter().enumerate().map(pairs));
        match { all }.find(|(_, found, least)| found < least) {
            Some((at, found, least)) => Err(Invalid { at, flaw: Flaw::TooFew { found, least } }),
            None => Ok(()),
        }
    }
}

impl Baseline {
    /// Adds a session behind those that are there, and returns those that had to go for it: it keeps the last
    /// [`SESSIONS_KEPT`].
    pub fn push(&mut self, session: Session) -> Vec<Session> {
        self.sessions.push(session);
        let too_many = self.sessions.len().saturating_sub(SESSIONS_KEPT);
        self.sessions.drain(..too_many).collect()
    }
}

impl Scenario {
    /// What a session of a planned scenario measures.
    #[must_use]
    pub fn of(planned: &report::Scenario, bound_to_one_cpu: bool) -> Self {
        Self {
            subject: planned.subject.clone(),
            runtime: planned.runtime.clone(),
            control: CONTROL.to_owned(),
            period_ns: planned.period_ns,
            round_ticks: planned.round_ticks,
            warmup_ticks: planned.warmup_ticks,
            mode: Mode::Interleaved,
            bound_to_one_cpu,
            already_due_ns: stall::ALREADY_DUE_NS.unsigned_abs(),
            quiet_share: QUIET_SHARE,
        }
    }

    /// Every field that is not the same, `self` as side A.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<Difference> {
        let fields = |s: &Self| {
            let mode = match s.mode {
                Mode::Interleaved => "in turn",
                Mode::Duet => "at once",
            };
            [
                ("subject", s.subject.clone()),
                ("runtime", s.runtime.clone().unwrap_or_else(|| "none".to_owned())),
                ("control", s.control.clone()),
                ("period", format!("{} ns", s.period_ns)),
                ("ticks of a round", s.round_ticks.to_string()),
                ("warm-up ticks", s.warmup_ticks.to_string()),
                ("turns", mode.to_owned()),
                ("bound to one CPU", if s.bound_to_one_cpu { "yes" } else { "no" }.to_owned()),
                ("already due", format!("{} ns", s.already_due_ns)),
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

/// What a round met, beside its ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Met {
    /// Time stolen by the hypervisor, over all CPUs.
    pub steal_ns: Option<u64>,
    /// Time the threads were runnable and waited for a CPU.
    pub run_queue_ns: Option<u64>,
    /// Context switches by waiting.
    pub switches_voluntary: Option<u64>,
    /// Context switches by being preempted.
    pub switches_involuntary: Option<u64>,
}

impl RoundRecord {
    /// Takes a round's ticks as pairs of index and lateness, with rising indices; `None` without a tick.
    #[must_use]
    pub fn of(ticks: impl IntoIterator<Item = (u64, i64)>, period_ns: u64, met: Met) -> Option<Self> {
        let mut all = 0_u64;
        let ticks = ticks.into_iter().inspect(|_| all += 1);
        let mut kept: Vec<i64> = stall::counted_once(ticks, period_ns).collect();
        kept.sort_unstable();
        let at = |q: f64| quantile::nearest_rank(&kept, q);
        Some(Self {
            p50_ns: at(0.50)?,
            p90_ns: at(0.90)?,
            p95_ns: at(0.95)?,
            p99_ns: at(0.99)?,
            max_ns: at(1.0)?,
            kept: kept.len() as u64,
            same_stall: all - kept.len() as u64,
            steal_ns: met.steal_ns,
            run_queue_ns: met.run_queue_ns,
            switches_voluntary: met.switches_voluntary,
            switches_involuntary: met.switches_involuntary,
        })
    }

    /// What the round comes to by a clock of that resolution, with the tail at that quantile.
    #[must_use]
    pub fn value(&self, tail_quantile: f64, resolution_ns: i64) -> RoundValue {
        let tail_ns = match round::tail_name(tail_quantile) {
            "p99" => self.p99_ns,
            "p95" => self.p95_ns,
            _ => self.p90_ns,
        };
        let ln = |ns: i64| (ns.max(resolution_ns).max(1) as f64).ln();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        RoundValue {
            ln_median: ln(self.p50_ns),
            ln_tail: ln(tail_ns),
            kept: count(self.kept),
            same_stall: count(self.same_stall),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline(sessions: usize) -> Baseline {
        let record =
            RoundRecord::of((0..).zip([9_000, 8_000, 700_000, 200_000, 7_000]), 500_000, Met::default()).unwrap();
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
        let scenario = Scenario {
            subject: "os-interval".into(),
            runtime: Some("current-thread".into()),
            control: CONTROL.into(),
            period_ns: 500_000,
            round_ticks: 250,
            warmup_ticks: 20,
            mode: Mode::Interleaved,
            bound_to_one_cpu: true,
            already_due_ns: 20_000,
            quiet_share: 0.5,
        };
        Baseline { schema: SCHEMA.into(), scenario, environment, sessions: (0..sessions).map(session).collect() }
    }

    #[test]
    fn a_stall_counts_once_and_the_rest_is_nearest_rank() {
        let record = &baseline(1).sessions[0].pairs[0].subject;
        assert_eq!((record.kept, record.same_stall), (4, 1));
        assert_eq!((record.p50_ns, record.p99_ns, record.max_ns), (8_000, 700_000, 700_000));
        assert_eq!(record.value(0.90, 1).ln_tail, 700_000_f64.ln());
        assert_eq!(record.value(0.99, 9_999).ln_median, 9_999_f64.ln());
        assert!(RoundRecord::of([], 500_000, Met::default()).is_none());
    }

    #[test]
    fn what_is_written_reads_back_and_the_oldest_sessions_go() {
        let mut file = baseline(10);
        assert_eq!(Baseline::from_json(&file.to_json()).unwrap(), file);
        let gone = file.push(Session { seed: 77, ..file.sessions[0].clone() });
        assert_eq!((gone.len(), gone[0].seed, file.sessions.len(), file.sessions[9].seed), (1, 0, 10, 77));
        assert!(baseline(1).push(file.sessions[0].clone()).is_empty());
    }

    #[test]
    fn what_is_no_baseline_is_named() {
        let good = baseline(1).to_json();
        let few =
            Baseline { sessions: vec![Session { pairs: vec![], ..baseline(1).sessions[0].clone() }], ..baseline(1) };
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
        let other = Scenario {
            subject: "spin".into(),
            runtime: None,
            control: "spin".into(),
            period_ns: 1,
            round_ticks: 2,
            warmup_ticks: 3,
            mode: Mode::Duet,
            bound_to_one_cpu: false,
            already_due_ns: 4,
            quiet_share: 0.25,
        };
        assert_eq!(one.differences(&other).len(), 10);
        assert_eq!(one.differences(&other)[3].to_string(), "period: 500000 ns against 1 ns");
        assert!(one.differences(&one).is_empty());
    }
}
