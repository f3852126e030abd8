//! What a baseline and a new session share: the file, and a session of the subject beside its
//! control.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use cli::exit::{self, Error, usage};
use engine::machine::host;
use engine::scenario::parse_subject;
use engine::subject::{SubjectInfo, control_for};
use files::environment::Difference;
use files::gate::baseline::{Baseline, Session, SessionDesign, SessionPair};
use files::histogram;
use jitterstat::gate::decision::{Reason, Rules};

use crate::gate::args::JudgedArgs;
use crate::gate::design::{ENDLESS, PairTest, periods, rules, scenario};
use crate::gate::pairs::{Collecting, Pairs};

/// The share of false alarms by design: half a per cent for each of the two percentiles.
const ALPHA: f64 = 0.01;

/// A session, planned. Side A is the control.
pub struct SessionPlan {
    pub design: SessionDesign,
    pub test: PairTest,
}

/// Reads a baseline; `None` if there is no such file.
pub fn read(file: &Path) -> exit::Result<Option<Baseline>> {
    if file.try_exists().is_ok_and(|there| !there) {
        return Ok(None);
    }
    crate::file_io::read(file).map(Some).map_err(|e| e.context("the baseline"))
}

pub fn listed(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl SessionPlan {
    /// What the arguments ask for, and where they are silent, what the file holds; refused where
    /// the two differ.
    pub fn of(
        judged: &JudgedArgs,
        subject: Option<&'static SubjectInfo>,
        file: Option<(&Path, &Baseline)>,
        pairs: u64,
    ) -> exit::Result<Self> {
        let (mut judged, mut subject) = (judged.clone(), subject);
        if let Some(stored) = file.map(|(_, stored)| &stored.scenario) {
            if judged.period.is_empty() {
                judged.period.push(Duration::from_nanos(stored.period_ns));
            }
            judged.rounds.round_ticks = judged.rounds.round_ticks.or(Some(stored.round_ticks));
            judged.rounds.warmup = judged.rounds.warmup.or(Some(stored.warmup_ticks));
            if let (None, Some(runtime)) = (judged.rounds.runtime, &stored.runtime) {
                judged.rounds.runtime = Some(runtime.parse().map_err(|e: String| Error::usage(e))?);
            }
            if subject.is_none() {
                subject = Some(parse_subject(&stored.subject).map_err(Error::usage)?);
            }
        }
        let [period] = periods(&judged)[..] else {
            return Err(Error::usage("a baseline holds one period; give --period once"));
        };
        let subject =
            subject.ok_or_else(|| Error::usage("a baseline needs a subject; give --subject"))?;
        let tested = scenario(&judged.rounds, subject, period, ENDLESS)?;
        let mut control = scenario(&judged.rounds, control_for(subject), period, ENDLESS)?;
        control.id = format!("control:{}", control.id);
        let looks = vec![usize::try_from(pairs).unwrap_or(usize::MAX)];
        let rules = Rules { alpha: ALPHA, looks, ..rules(&judged, &tested)? };
        let runtime = tested.runtime.map(|runtime| runtime.to_string());
        let test = PairTest::of_subjects([control, tested], &judged.rounds, rules);
        let design = SessionDesign::new(subject.name, runtime, &test.design);
        if let Some((file, stored)) = file.filter(|(_, stored)| stored.scenario != design) {
            let differences = listed(&stored.scenario.differences(&design));
            if stored.scenario.stalls != design.stalls {
                return Err(usage!(
                    "{} is of an older osjitter, which took every late tick for a stall ({differences}), and cannot be \
                     judged any more: start it anew with `osjitter gate baseline add {} --subject {} --replace`; \
                     nothing was measured",
                    file.display(),
                    file.display(),
                    design.subject
                ));
            }
            return Err(usage!(
                "{} holds something else: {differences}; nothing was measured",
                file.display()
            ));
        }
        Ok(Self { design, test })
    }

    /// How long it takes, in seconds.
    pub fn seconds(&self) -> f64 {
        self.test.seconds(self.test.pairs)
    }

    /// Measures the session. Of one that was interrupted or failed, what there is, and why.
    pub fn measure(&self, stop: &Arc<AtomicBool>, quiet: bool) -> (Pairs, Option<Reason>) {
        let enough = |pairs: &[_]| pairs.len() as u64 == self.test.pairs;
        let pairs = Collecting { stop, quiet, keep_ticks: true, enough }.run(&self.test);
        let reason = match &pairs.failure {
            Some(_) => Some(Reason::NotMeasured),
            None => (pairs.values.len() as u64 != self.test.pairs).then_some(Reason::Interrupted),
        };
        (pairs, reason)
    }

    /// The session as a file keeps it.
    pub fn session(&self, pairs: &Pairs, started_utc: String) -> Session {
        let [control, subject] = &pairs.lateness_ns;
        let pair = |([control, subject], subject_first): &([_; 2], bool)| SessionPair {
            subject_first: *subject_first,
            subject: Clone::clone(subject),
            control: Clone::clone(control),
        };
        Session {
            tool: host::tool(),
            started_utc,
            duration_ns: pairs.duration_ns(),
            seed: self.test.design.seed,
            cpu: self.test.design.cpu,
            resolution_ns: host::clock_resolution_ns(),
            pairs: pairs.records.iter().map(pair).collect(),
            subject_histogram: histogram::pack(subject.iter().copied()),
            control_histogram: histogram::pack(control.iter().copied()),
        }
    }
}
