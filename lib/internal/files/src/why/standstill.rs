//! Times in which everything stood still, by what threads saw that only wait.

use super::input::{Occupant, Standstill, WitnessGap, span};

/// Less than this is what any thread may be late on a busy machine.
pub const MIN_STANDSTILL_NS: u64 = 1_000_000;
/// The handler of the signal that continues a process may get its CPU later than the threads that
/// it finds late.
const HANDLED_WITHIN_NS: i64 = 10_000_000;
/// A standstill of at least this share of the time that a thread slept covers it: the witnesses may
/// have been asleep when it began, and see it only from the moment at which they were due.
const COVERS: f64 = 0.8;

/// When all witnesses at once were not woken though they were due, nor waited for a CPU. One
/// witness is none: it may have been held up by something on its CPU.
#[must_use]
pub fn find_standstills(witnesses: &[Vec<WitnessGap>]) -> Vec<Standstill> {
    let [first, others @ ..] = witnesses else { return Vec::new() };
    if others.is_empty() {
        return Vec::new();
    }
    let all = others.iter().fold(first.clone(), |seen, other| intersection(&seen, other));
    let long = |s: &WitnessGap| span(s.from_ns, s.to_ns) >= MIN_STANDSTILL_NS;
    let standstill =
        |WitnessGap { from_ns, to_ns }| Standstill { from_ns, to_ns, others_ran: false };
    all.into_iter().filter(long).map(standstill).collect()
}

/// Of two lists in order of time.
fn intersection(a: &[WitnessGap], b: &[WitnessGap]) -> Vec<WitnessGap> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        let (from_ns, to_ns) = (one.from_ns.max(other.from_ns), one.to_ns.min(other.to_ns));
        if from_ns < to_ns {
            both.push(WitnessGap { from_ns, to_ns });
        }
        if one.to_ns <= other.to_ns { i += 1 } else { j += 1 }
    }
    both
}

impl Standstill {
    /// Notes whether other threads were given this CPU meanwhile: then it was these threads alone
    /// that stood still. What ran towards the end was woken by what ended it.
    pub fn beside(&mut self, of_one_cpu: &[Occupant]) {
        let before_ns = self.to_ns - (self.to_ns - self.from_ns) / 4;
        let first = of_one_cpu.partition_point(|o| o.at_ns <= self.from_ns);
        let mut meanwhile = of_one_cpu[first..].iter().take_while(|o| o.at_ns < before_ns);
        self.others_ran |= meanwhile.any(|o| o.thread != 0);
    }

    /// Whether it was these threads alone: others ran, or their process was continued at one of
    /// these times.
    pub(super) fn is_stop(&self, continued_ns: &[i64]) -> bool {
        let until_ns = self.to_ns.saturating_add(HANDLED_WITHIN_NS);
        self.others_ran || continued_ns.iter().any(|&at| self.from_ns < at && at <= until_ns)
    }

    /// How much of the time from `from_ns` to `to_ns` it explains of `asleep_ns` that a thread
    /// slept in it.
    pub(super) fn explains_ns(&self, from_ns: i64, to_ns: i64, asleep_ns: u64) -> u64 {
        let both = span(self.from_ns.max(from_ns), self.to_ns.min(to_ns)).min(asleep_ns);
        if both as f64 >= COVERS * asleep_ns as f64 { asleep_ns } else { both }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: i64 = 1_000_000;

    fn overslept(&(from, to): &(i64, i64)) -> WitnessGap {
        WitnessGap { from_ns: from * MS, to_ns: to * MS }
    }

    fn seen(witnesses: &[&[(i64, i64)]]) -> Vec<(i64, i64)> {
        let all: Vec<Vec<WitnessGap>> =
            witnesses.iter().map(|w| w.iter().map(overslept).collect()).collect();
        find_standstills(&all).into_iter().map(|s| (s.from_ns / MS, s.to_ns / MS)).collect()
    }

    const STOOD: Standstill = Standstill { from_ns: 100 * MS, to_ns: 140 * MS, others_ran: false };

    #[test]
    fn only_what_all_witnesses_saw_for_a_millisecond_counts() {
        assert_eq!(
            seen(&[&[(0, 9), (20, 40)], &[(5, 8), (25, 26), (39, 50)]]),
            [(5, 8), (25, 26), (39, 40)]
        );
        assert_eq!(seen(&[&[(0, 9)], &[(9, 20)]]), []);
        assert_eq!(seen(&[&[(0, 9)]]), [], "one witness is none");
        assert_eq!(seen(&[]), []);
        let almost = [
            vec![overslept(&(0, 9))],
            vec![WitnessGap { from_ns: 9 * MS - 999_999, to_ns: 12 * MS }],
        ];
        assert_eq!(find_standstills(&almost), []);
    }

    #[test]
    fn what_ran_in_the_middle_shows_that_the_machine_went_on() {
        let ran = |at: i64, thread| {
            let mut stood = STOOD;
            stood.beside(&[Occupant { at_ns: at * MS, thread }]);
            stood.others_ran
        };
        assert!(ran(101, 7) && ran(129, 7));
        assert!(!ran(129, 0), "the idle thread is nobody");
        assert!(!ran(100, 7) && !ran(130, 7) && !ran(141, 7));
        assert!(STOOD.is_stop(&[0, 141 * MS]) && !STOOD.is_stop(&[100 * MS, 151 * MS]));
    }

    #[test]
    fn most_of_a_sleep_is_all_of_it() {
        let explains =
            |from, to| STOOD.explains_ns(from * MS, to * MS, span(from * MS, to * MS)) / MS as u64;
        assert_eq!((explains(100, 140), explains(110, 130)), (40, 20));
        assert_eq!(explains(90, 140), 50, "40 of 50 are enough");
        assert_eq!((explains(89, 140), explains(0, 101), explains(140, 150)), (40, 1, 0));
    }

    proptest! {
        #[test]
        fn a_standstill_lies_within_what_each_overslept_and_in_order(
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
                let within = |of_one: &WitnessGap| of_one.from_ns <= stood.from_ns && stood.to_ns <= of_one.to_ns;
                prop_assert!(witnesses.iter().all(|witness| witness.iter().any(within)));
            }
            prop_assert!(found.windows(2).all(|pair| pair[0].to_ns <= pair[1].from_ns));
        }
    }
}
