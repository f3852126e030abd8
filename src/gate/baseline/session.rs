//! Sessions of a subject and its control, as a baseline file stores them.
//!
//! Both `gate baseline add` and `gate --baseline` plan a session from the arguments and the file,
//! and measure it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use cli::file_io;
use engine::machine::host;
use engine::scenario::parse_subject;
use engine::subject::{SubjectInfo, control_for};
use files::environment::Difference;
use files::file::File as _;
use files::gate::baseline::{Baseline, Session, SessionDesign, SessionPair};
use files::gate::verdict::BaselineMetric;
use files::histogram;
use jitterstat::gate::Sides;
use jitterstat::gate::arrivals::{Arrivals, doubtful_side};
use jitterstat::gate::decision::{Reason, Rules};
use jitterstat::gate::round::Pair;

use crate::gate::args::JudgedArgs;
use crate::gate::pair_test::{ENDLESS, PairTest, build_rules, build_scenario};
use crate::gate::pairs::{CollectedPairs, PairCollection, PairRecord};

/// Share of false alarms by design: half a percent for each of the two percentiles.
const ALPHA: f64 = 0.01;

/// A planned session. The base is the control, the candidate is the subject.
pub struct SessionPlan {
    pub design: SessionDesign,
    pub test: PairTest,
}

/// A baseline with the file that it was read from.
#[derive(Clone, Copy)]
pub struct StoredBaseline<'a> {
    pub file: &'a Path,
    pub baseline: &'a Baseline,
}

/// Reads a baseline. Returns `None` if the file does not exist.
pub fn read_baseline(file: &Path) -> exit::Result<Option<Baseline>> {
    file_io::check_no_stdio(file, "baseline", "a file")?;
    if file.try_exists().is_ok_and(|exists| !exists) {
        return Ok(None);
    }
    let text = file_io::read_text(file).map_err(|e| e.context("the baseline"))?;
    let baseline = Baseline::from_json(&text);
    baseline.map(Some).map_err(|e| usage!("the baseline: {}: {e}", file.display()))
}

pub fn format_differences(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SessionPlan {
    /// Plans a session from the arguments. Values that they do not set come from the stored
    /// baseline.
    ///
    /// # Errors
    /// Returns an error if the arguments contradict the stored baseline.
    pub fn resolve(
        judged: &JudgedArgs,
        subject: Option<&'static SubjectInfo>,
        stored: Option<StoredBaseline<'_>>,
        pairs: u64,
    ) -> exit::Result<Self> {
        let (mut judged, mut subject) = (judged.clone(), subject);
        if let Some(stored) = stored {
            let design = &stored.baseline.scenario;
            apply_stored_rounds(&mut judged, design)?;
            if subject.is_none() {
                subject = Some(parse_subject(&design.subject)?);
            }
        }
        let period = judged.single_period("a baseline holds one period")?;
        let subject =
            subject.ok_or_else(|| Error::usage("a baseline needs a subject; give --subject"))?;

        let candidate = build_scenario(&judged.rounds, subject, period, ENDLESS)?;
        let mut base = build_scenario(&judged.rounds, control_for(subject), period, ENDLESS)?;
        base.id = format!("control:{}", base.id);
        let looks = vec![usize::try_from(pairs).unwrap_or(usize::MAX)];
        let rules =
            Rules { alpha: ALPHA, looks, ..build_rules(&judged, &[], candidate.round_length())? };
        let runtime = candidate.runtime.map(|runtime| runtime.to_string());
        let test = PairTest::from_subjects(Sides { base, candidate }, &judged.rounds, rules);
        let design = SessionDesign::new(subject.name, runtime, &test.design);
        if let Some(stored) = stored {
            check_same_design(stored, &design)?;
        }
        Ok(Self { design, test })
    }

    /// Returns the expected duration in seconds.
    pub fn seconds(&self) -> f64 {
        self.test.seconds(self.test.pairs)
    }

    /// Measures the session.
    ///
    /// If it was interrupted or failed, returns the pairs so far and the reason.
    pub fn measure(&self, stop: &Arc<AtomicBool>, quiet: bool) -> (CollectedPairs, Option<Reason>) {
        let is_enough = |pairs: &[Pair]| pairs.len() as u64 == self.test.pairs;
        let settings = &self.test.read_round_settings();
        let collection = PairCollection { stop, quiet, settings, keep_ticks: true, is_enough };
        let pairs = collection.run(&self.test);
        let is_complete = pairs.values.len() as u64 == self.test.pairs;
        let reason = match &pairs.failure {
            Some(_) => Some(Reason::NotMeasured),
            None => (!is_complete).then_some(Reason::Interrupted),
        };
        (pairs, reason)
    }

    /// Builds the session that a baseline file stores.
    pub fn session(&self, pairs: &CollectedPairs, started_utc: String) -> Session {
        let session_pair = |record: &PairRecord| SessionPair {
            subject_first: record.candidate_first,
            subject: record.rounds.candidate.clone(),
            control: record.rounds.base.clone(),
        };
        let Sides { base: control_ns, candidate: subject_ns } = &pairs.lateness_ns;
        Session {
            tool: host::tool(),
            started_utc,
            duration_ns: pairs.duration_ns(),
            seed: self.test.design.seed,
            cpu: self.test.design.cpu,
            resolution_ns: host::clock_resolution_ns(),
            pairs: pairs.records.iter().map(session_pair).collect(),
            subject_histogram: histogram::pack(subject_ns.iter().copied()),
            control_histogram: histogram::pack(control_ns.iter().copied()),
        }
    }
}

/// Makes the numbers of a session inconclusive that early ticks could have lowered. Lost ticks are
/// not examined: the control loses none, whatever the subject does with missed ticks. Neither are
/// stalls: those of the machine differ between sessions, and between a thread and a timer wheel.
pub fn leave_early_open(metrics: &mut [BaselineMetric], arrivals: &Arrivals) {
    for metric in metrics {
        if arrivals.is_early(doubtful_side(metric.judged.verdict)) {
            metric.judged.mark_inconclusive(Some(Reason::EarlyTicks));
        }
    }
}

/// Fills in the round arguments that are unset from the stored design.
fn apply_stored_rounds(judged: &mut JudgedArgs, design: &SessionDesign) -> exit::Result<()> {
    if judged.period.is_empty() {
        judged.period.push(Duration::from_nanos(design.period_ns));
    }
    let rounds = &mut judged.rounds;
    rounds.round_ticks.get_or_insert(design.round_ticks);
    rounds.warmup.get_or_insert(design.warmup_ticks);
    if let (None, Some(runtime)) = (rounds.runtime, &design.runtime) {
        rounds.runtime = Some(runtime.parse()?);
    }
    Ok(())
}

/// Checks that a session is measured like those of the stored baseline.
fn check_same_design(stored: StoredBaseline<'_>, design: &SessionDesign) -> exit::Result<()> {
    let stored_design = &stored.baseline.scenario;
    if stored_design == design {
        return Ok(());
    }
    let file = stored.file.display();
    let differences = format_differences(&stored_design.differences(design));
    if stored_design.stalls != design.stalls {
        return Err(usage!(
            "{file} was recorded by an older osjitter, which counted every late tick as a stall ({differences}), \
             and can no longer be used: start over with `osjitter gate baseline add {file} --subject {} --replace`; \
             nothing was measured",
            design.subject
        ));
    }
    Err(usage!("{file} holds a different session: {differences}; nothing was measured"))
}
