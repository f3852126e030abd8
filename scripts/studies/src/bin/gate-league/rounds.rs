//! Recorded sessions, with the rounds of a subject and of its control.

use files::report::{Report, Subject};
use files::subjects::SLEEPING_CONTROL;

pub(crate) type Ticks = Vec<(u64, i64)>;

/// Rounds that ran one after the other within minutes.
pub(crate) struct Session {
    pub(crate) subject: Vec<Ticks>,
    /// The rounds of the control, each measured next to one of the subject.
    pub(crate) control: Vec<Ticks>,
    pub(crate) period_ns: u64,
}

impl Session {
    /// Returns `None` if the report lacks the subject or was interrupted.
    pub(crate) fn from_report(report: &Report, subject: &str) -> Option<Self> {
        let rounds = |name: &str| report.subjects.iter().find(|s| s.name == name).map(rounds);
        let (mut subject_rounds, mut control) = (rounds(subject)?, rounds(SLEEPING_CONTROL.name)?);
        let both = subject_rounds.len().min(control.len());
        subject_rounds.truncate(both);
        control.truncate(both);
        let period_ns = report.subjects.first()?.period_ns;
        (!report.partial && both >= 100).then_some(Self {
            subject: subject_rounds,
            control,
            period_ns,
        })
    }
}

fn rounds(subject: &Subject) -> Vec<Ticks> {
    let ticks = |round: &files::report::Round| {
        round
            .lateness_ns
            .iter()
            .enumerate()
            .map(|(i, &late)| (round.tick_index(i), late))
            .collect::<Ticks>()
    };
    subject.rounds.iter().map(ticks).filter(|ticks| !ticks.is_empty()).collect()
}
