//! Detection of standstills of the whole machine by witnesses: threads that only wait for the
//! clock.

use super::input::{CpuInterval, IDLE_THREAD, Standstill, WitnessGap, span};

/// Minimum duration of a standstill: on a busy machine any thread may be late by less.
pub const MIN_STANDSTILL_NS: u64 = 1_000_000;
/// Maximum delay of the handler of the signal that continues a process. The handler may run after
/// the threads that the stop delayed.
const MAX_HANDLER_DELAY_NS: i64 = 10_000_000;
/// Share of a thread's sleep from which a standstill explains all of it. The witnesses may have
/// been asleep when it began, and detect it only from the time at which they were due.
const MIN_COVERAGE: f64 = 0.8;

/// Finds the times in which all witnesses were due, but were neither woken nor waiting for a CPU. A
/// single witness is not enough, because its CPU alone may have been blocked.
#[must_use]
pub fn find_standstills(witnesses: &[Vec<WitnessGap>]) -> Vec<Standstill> {
    let [first, others @ ..] = witnesses else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let common = others.iter().fold(first.clone(), |gaps, other| intersection(&gaps, other));
    let is_long = |s: &WitnessGap| span(s.from_ns, s.to_ns) >= MIN_STANDSTILL_NS;
    let standstill =
        |WitnessGap { from_ns, to_ns }| Standstill { from_ns, to_ns, others_ran: false };
    common.into_iter().filter(is_long).map(standstill).collect()
}

/// The intersection of two lists in order of time.
fn intersection(a: &[WitnessGap], b: &[WitnessGap]) -> Vec<WitnessGap> {
    let (mut i, mut j) = (0, 0);
    let mut common = Vec::new();
    while let (Some(x), Some(y)) = (a.get(i), b.get(j)) {
        let (from_ns, to_ns) = (x.from_ns.max(y.from_ns), x.to_ns.min(y.to_ns));
        if from_ns < to_ns {
            common.push(WitnessGap { from_ns, to_ns });
        }
        if x.to_ns <= y.to_ns { i += 1 } else { j += 1 }
    }
    common
}

impl Standstill {
    /// Notes whether other threads ran on a CPU during the standstill, given all of that CPU's
    /// occupants. If they did, only the process was stopped. Threads that start towards the end do
    /// not count, because the end of the standstill woke them.
    pub fn note_occupants(&mut self, occupants: &[CpuInterval]) {
        let before_ns = self.to_ns - (self.to_ns - self.from_ns) / 4;
        let first = occupants.partition_point(|o| o.at_ns <= self.from_ns);
        let mut during = occupants[first..].iter().take_while(|o| o.at_ns < before_ns);
        self.others_ran |= during.any(|o| o.thread != IDLE_THREAD);
    }

    /// Returns whether only the process was stopped: other threads ran, or the process was
    /// continued at one of the given times.
    pub(super) fn is_stop(&self, continued_ns: &[i64]) -> bool {
        let until_ns = self.to_ns.saturating_add(MAX_HANDLER_DELAY_NS);
        self.others_ran || continued_ns.iter().any(|&at| self.from_ns < at && at <= until_ns)
    }

    /// Returns how much of a thread's sleep the standstill explains. The thread slept for
    /// `asleep_ns` between `from_ns` and `to_ns`.
    pub(super) fn explains_ns(&self, from_ns: i64, to_ns: i64, asleep_ns: u64) -> u64 {
        let common = span(self.from_ns.max(from_ns), self.to_ns.min(to_ns)).min(asleep_ns);
        if common as f64 >= MIN_COVERAGE * asleep_ns as f64 { asleep_ns } else { common }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;

    fn gap(&(from, to): &(i64, i64)) -> WitnessGap {
        WitnessGap { from_ns: from * MS, to_ns: to * MS }
    }

    fn find(witnesses: &[&[(i64, i64)]]) -> Vec<(i64, i64)> {
        let gaps: Vec<Vec<WitnessGap>> =
            witnesses.iter().map(|w| w.iter().map(gap).collect()).collect();
        find_standstills(&gaps).into_iter().map(|s| (s.from_ns / MS, s.to_ns / MS)).collect()
    }

    const STOOD: Standstill = Standstill { from_ns: 100 * MS, to_ns: 140 * MS, others_ran: false };

    #[test]
    fn standstills_need_all_witnesses() {
        assert_eq!(
            find(&[&[(0, 9), (20, 40)], &[(5, 8), (25, 26), (39, 50)]]),
            [(5, 8), (25, 26), (39, 40)]
        );
        assert_eq!(find(&[&[(0, 9)], &[(9, 20)]]), []);
        assert_eq!(find(&[&[(0, 9)]]), [], "one witness is not enough");
        assert_eq!(find(&[]), []);
        let almost =
            [vec![gap(&(0, 9))], vec![WitnessGap { from_ns: 9 * MS - 999_999, to_ns: 12 * MS }]];
        assert_eq!(find_standstills(&almost), []);
    }

    #[test]
    fn running_threads_reveal_a_stop() {
        let ran = |at: i64, thread| {
            let mut stood = STOOD;
            stood.note_occupants(&[CpuInterval { at_ns: at * MS, thread }]);
            stood.others_ran
        };
        assert!(ran(101, 7) && ran(129, 7));
        assert!(!ran(129, 0), "the idle thread does not count");
        assert!(!ran(100, 7) && !ran(130, 7) && !ran(141, 7));
        assert!(STOOD.is_stop(&[0, 141 * MS]) && !STOOD.is_stop(&[100 * MS, 151 * MS]));
    }

    #[test]
    fn covered_sleep_is_explained() {
        let explains =
            |from, to| STOOD.explains_ns(from * MS, to * MS, span(from * MS, to * MS)) / MS as u64;
        assert_eq!((explains(100, 140), explains(110, 130)), (40, 20));
        assert_eq!(explains(90, 140), 50, "40 of 50 are enough");
        assert_eq!((explains(89, 140), explains(0, 101), explains(140, 150)), (40, 1, 0));
    }

    proptest! {
        #[test]
        fn standstills_are_common_and_ordered(
            lengths in prop::collection::vec(prop::collection::vec((0..5 * MS, 1..9 * MS), 0..20), 0..4)
        ) {
            let in_order = |lengths: &Vec<(i64, i64)>| {
                let mut at = 0;
                let each = |&(pause, length): &(i64, i64)| {
                    let from_ns = at + pause;
                    at = from_ns + length;
                    WitnessGap { from_ns, to_ns: at }
                };
                lengths.iter().map(each).collect::<Vec<_>>()
            };
            let witnesses: Vec<Vec<WitnessGap>> = lengths.iter().map(in_order).collect();
            let found = find_standstills(&witnesses);
            for stood in &found {
                prop_assert!(span(stood.from_ns, stood.to_ns) >= MIN_STANDSTILL_NS);
                let contains = |gap: &WitnessGap| gap.from_ns <= stood.from_ns && stood.to_ns <= gap.to_ns;
                prop_assert!(witnesses.iter().all(|witness| witness.iter().any(contains)));
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
        }
    }
}
