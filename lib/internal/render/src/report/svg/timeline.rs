//! The ticks of a subject on an axis of time, with the stalls of the machine.

use std::ops::Range;

use files::report::{Round, Subject};

use crate::report::stalls::{self, Stall};

/// The ticks of a subject and the stalls of the machine, with positions in seconds.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Position of the deadline of each tick, ascending, and its lateness.
    pub points: Vec<(f64, i64)>,
    /// Positions at which two rounds are joined.
    pub joints: Vec<f64>,
    pub end: f64,
    /// Times in which a spinning control did not run.
    pub stalls: Vec<Range<f64>>,
    /// Rounds in which the kernel counted a stall.
    pub stalled_rounds: Vec<Range<f64>>,
}

impl Timeline {
    /// Places the rounds of a subject at their time in the run, with stalls of any control.
    pub fn in_run<'a>(subject: &Subject, stalls: impl Iterator<Item = &'a Stall>) -> Self {
        let mut timeline = Self::default();
        for rounds in rounds_by_index(subject) {
            timeline.add_rounds(subject.period_ns, rounds, 0.0);
        }
        timeline.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        timeline.stalls = stalls.map(|stall| seconds(stall, 0.0)).collect();
        timeline
    }

    /// Joins the rounds of a subject, without the time between them. The stalls are those that the
    /// subject itself observed.
    pub fn joined(subject: &Subject) -> Self {
        let mut timeline = Self::default();
        // Without a period, the axis counts the ticks.
        let period_ns = if subject.period_ns > 0 { subject.period_ns } else { 1_000_000_000 };
        for rounds in rounds_by_index(subject) {
            let with_ticks = rounds.iter().filter(|round| !round.lateness_ns.is_empty());
            let deadlines_ns = with_ticks.map(|round| round.deadline_ns(0, period_ns));
            let Some(first) = deadlines_ns.map(|ns| ns as f64 / 1e9).reduce(f64::min) else {
                continue;
            };
            if !timeline.points.is_empty() {
                timeline.joints.push(timeline.end);
            }
            let shift = timeline.end - first;
            timeline.add_rounds(period_ns, rounds, shift);
            if stalls::is_observer(subject) {
                for round in rounds {
                    let observed = stalls::round_stalls(period_ns, round, None);
                    timeline.stalls.extend(observed.iter().map(|stall| seconds(stall, shift)));
                }
            }
        }
        timeline
    }

    /// Adds the instances of a round, which overlap in time. All of them move by `shift`.
    fn add_rounds(&mut self, period_ns: u64, rounds: &[Round], shift: f64) {
        let mut ticks: Vec<(f64, i64)> = Vec::new();
        for round in rounds {
            for (i, &late) in round.lateness_ns.iter().enumerate() {
                let deadline_ns = round.deadline_ns(i, period_ns);
                ticks.push((deadline_ns as f64 / 1e9 + shift, late));
            }
        }
        ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (Some(&(first, _)), Some(&(last, _))) = (ticks.first(), ticks.last()) else { return };
        let end = last + period_ns as f64 / 1e9;
        if rounds.iter().any(stalls::has_counted_stall) {
            self.stalled_rounds.push(first..end);
        }
        self.points.append(&mut ticks);
        self.end = self.end.max(end);
    }
}

/// Returns the rounds of a subject, each with all of its instances.
fn rounds_by_index(subject: &Subject) -> impl Iterator<Item = &[Round]> {
    subject.rounds.chunk_by(|a, b| a.index == b.index)
}

fn seconds(stall: &Stall, shift: f64) -> Range<f64> {
    stall.start_ns as f64 / 1e9 + shift..stall.end_ns as f64 / 1e9 + shift
}

#[cfg(test)]
mod tests {
    use files::file::File as _;
    use files::report::Report;

    use super::*;

    fn subject() -> Subject {
        let text = include_str!("../../../../../../tests/fixtures/report.json");
        Report::from_json(text).expect("a report").subjects.remove(0)
    }

    #[test]
    fn rounds_are_joined() {
        let mut subject = subject();
        let rounds = subject.rounds.len();
        let timeline = Timeline::joined(&subject);
        assert_eq!(timeline.joints.len(), rounds - 1);
        assert_eq!(timeline.points.len(), 600);
        assert!(timeline.points.is_sorted_by(|a, b| a.0 < b.0));
        // Twelve rounds of 50 ticks at 1 ms, although the run took 2.2 s.
        assert!((timeline.end - 0.6).abs() < 1e-6, "{}", timeline.end);
        subject.period_ns = 0;
        let ticks = Timeline::joined(&subject).end;
        assert!((ticks - 600.0).abs() < 1.0, "ticks are counted: {ticks}");
    }

    #[test]
    fn rounds_keep_their_run_time() {
        let subject = subject();
        let timeline = Timeline::in_run(&subject, [].iter());
        assert!(timeline.points.is_sorted_by(|a, b| a.0 < b.0));
        let round = &subject.rounds[7];
        let deadline_ns = round.deadline_ns(3, subject.period_ns);
        let point = (deadline_ns as f64 / 1e9, round.lateness_ns[3]);
        assert!(timeline.points.contains(&point), "{point:?}");
        assert_eq!((timeline.joints.len(), timeline.points.len()), (0, 600));
    }

    #[test]
    fn stalls_move_with_their_rounds() {
        let mut subject = subject();
        subject.name = "spin".to_owned();
        for round in &mut subject.rounds {
            round.lateness_ns.fill(50);
        }
        subject.rounds[1].lateness_ns[10] = 300_000;
        subject.rounds[2].steal_ns = Some(10_000_000);
        let timeline = Timeline::joined(&subject);
        let [stall] = &timeline.stalls[..] else { panic!("{:?}", timeline.stalls) };
        // The eleventh tick of the second round.
        assert!((stall.start - 0.060).abs() < 1e-6 && (stall.end - 0.0603).abs() < 1e-6);
        let [stalled] = &timeline.stalled_rounds[..] else { panic!("one round") };
        assert!((stalled.start - 0.1).abs() < 1e-6 && (stalled.end - 0.15).abs() < 1e-6);
    }
}
