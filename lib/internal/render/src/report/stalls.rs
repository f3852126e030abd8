//! Known stalls of the machine: when the spinning control did not run, and in which rounds the
//! kernel counted time in which nothing ran.

use files::fitness::spin_gaps;
use files::report::{Report, Round, Subject};
use files::subjects::SPINNING_CONTROL;

use crate::report::label::concurrent_cpus;

/// Explains zones of rounds with stalls that the kernel counted.
pub const STALLED_ROUND_NOTE: &str =
    "during that round, the kernel counted time that a hypervisor, a quota or a suspension took.";

/// A time in which the spinning control did not run, relative to the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub start_ns: u64,
    pub end_ns: u64,
    /// CPU of a control that ran on several CPUs at once. Its stalls are those of this CPU.
    pub cpu: Option<u64>,
}

/// Whether a subject is a spinning control that observes stalls. A load stalls it on purpose.
pub fn is_observer(subject: &Subject) -> bool {
    subject.name == SPINNING_CONTROL.name && subject.load.is_none()
}

/// Returns all stalls that the spinning controls of a report observed. A control sees only stalls
/// during its own rounds.
pub fn stalls(report: &Report) -> Vec<Stall> {
    let cpus = concurrent_cpus(report);
    let mut stalls = Vec::new();
    for (subject, cpu) in report.subjects.iter().zip(cpus) {
        if is_observer(subject) {
            let rounds = subject.rounds.iter();
            stalls.extend(rounds.flat_map(|round| round_stalls(subject.period_ns, round, cpu)));
        }
    }
    stalls
}

/// Returns the stalls that a spinning control observed in one round.
pub fn round_stalls(period_ns: u64, round: &Round, cpu: Option<u64>) -> Vec<Stall> {
    let mut stalls = Vec::new();
    for gap in spin_gaps(period_ns, &round.lateness_ns) {
        let late_ns = round.lateness_ns[gap.tick].unsigned_abs();
        let end_ns = round.deadline_ns(gap.tick, period_ns).saturating_add(late_ns);
        let start_ns = end_ns.saturating_sub(gap.lost_ns.unsigned_abs());
        stalls.push(Stall { start_ns, end_ns, cpu });
    }
    stalls
}

/// Whether the kernel counted time during a round that the hypervisor stole, in which the quota of
/// the control group was used up, or in which the machine was suspended.
pub fn has_counted_stall(round: &Round) -> bool {
    let counts = [round.steal_ns, round.throttled_ns, round.suspended_ns];
    counts.into_iter().flatten().any(|ns| ns > 0)
}

#[cfg(test)]
mod tests {
    use files::file::File as _;

    use super::*;

    const MS: u64 = 1_000_000;

    fn report_with_spin(lateness_ns: Vec<i64>) -> Report {
        let text = include_str!("../../../../../tests/fixtures/report.json");
        let mut report = Report::from_json(text).expect("a report");
        let control = &mut report.subjects[2];
        control.name = "spin".to_owned();
        let start_ns = 50 * MS;
        control.rounds = vec![Round { start_ns, first_tick: 10, lateness_ns, ..Round::default() }];
        report
    }

    #[test]
    fn stalls_have_times_of_gaps() {
        // One stall delays three ticks, and a lateness of 20 us is none.
        let report = report_with_spin(vec![90, 2_400_000, 1_400_000, 400_000, 90, 20_000, 20_001]);
        let stall = |start_ns, end_ns| Stall { start_ns, end_ns, cpu: None };
        let [second, last] = [61 * MS, 66 * MS];
        assert_eq!(
            stalls(&report),
            [stall(second, second + 2_400_000), stall(last, last + 20_001)]
        );
    }

    #[test]
    fn loaded_controls_observe_nothing() {
        let mut report = report_with_spin(vec![2_400_000]);
        assert_eq!(stalls(&report).len(), 1);
        report.subjects[2].load = Some("cpu:2".to_owned());
        assert_eq!(stalls(&report), []);
    }

    #[test]
    fn counted_time_is_a_stall() {
        assert!(!has_counted_stall(&Round { steal_ns: Some(0), ..Round::default() }));
        for round in [
            Round { steal_ns: Some(1), ..Round::default() },
            Round { throttled_ns: Some(1), ..Round::default() },
            Round { suspended_ns: Some(1), ..Round::default() },
        ] {
            assert!(has_counted_stall(&round));
        }
    }
}
