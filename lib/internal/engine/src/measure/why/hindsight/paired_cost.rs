//! A small cost that is measured on a busy machine, by pairs of blocks of the same work.

use std::ops::RangeInclusive;

/// Number of pairs of neighbouring blocks, one of them with recording.
pub const PAIRS: usize = 41;
/// Rank of the lower end of the interval of the median of so many pairs, and from the other end that
/// of the upper one. By the binomial distribution, its confidence is 99 %.
const INTERVAL_RANK: usize = 12;
/// Width of the interval, relative to the median, above which the cost is not known.
const MAX_INTERVAL_WIDTH: f64 = 0.5;

/// CPU time and records of the threads of a block so far.
#[derive(Clone, Copy, Debug)]
pub struct Counters {
    /// CPU time; `None` if it cannot be read.
    pub cpu_ns: Option<u64>,
    /// Number of units, such as bytes, that were recorded.
    pub recorded: u64,
}

/// Measures the CPU time of recording a unit by pairs of blocks of `work`, with and without
/// recording. The rest of the machine uses other CPU time, and disturbs both blocks of a pair
/// alike. Returns `None` if the cost is uncertain, or not plausible.
pub fn measure(
    plausible_ns: RangeInclusive<f64>,
    set_recording: impl Fn(bool),
    read: impl Fn() -> Counters,
    mut work: impl FnMut(),
) -> Option<f64> {
    let mut differences = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        // Each order is as frequent as the other.
        let is_recorded_first = pair % 2 == 1;
        let [first, second] = [is_recorded_first, !is_recorded_first].map(|is_recorded| {
            set_recording(is_recorded);
            let before = read();
            work();
            let after = read();
            let cpu_ns = after.cpu_ns.zip(before.cpu_ns).map(|(to, from)| to as f64 - from as f64);
            (cpu_ns, after.recorded.saturating_sub(before.recorded))
        });
        let (recorded, other) = if is_recorded_first { (first, second) } else { (second, first) };
        if let ((Some(recorded_ns), units @ 1..), (Some(other_ns), _)) = (recorded, other) {
            differences.push((recorded_ns - other_ns) / units as f64);
        }
    }
    median(differences, plausible_ns)
}

/// Returns the median of the differences of all pairs, unless it is uncertain or not plausible.
fn median(mut differences: Vec<f64>, plausible: RangeInclusive<f64>) -> Option<f64> {
    differences.sort_by(f64::total_cmp);
    let count = differences.len();
    if count < PAIRS {
        return None;
    }
    let median = differences[count / 2];
    let width = differences[count - 1 - INTERVAL_RANK] - differences[INTERVAL_RANK];
    (plausible.contains(&median) && width <= MAX_INTERVAL_WIDTH * median).then_some(median)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const PLAUSIBLE: RangeInclusive<f64> = 1.0..=100.0;

    fn median_of(differences: impl Iterator<Item = f64>) -> Option<f64> {
        median(differences.take(PAIRS).collect(), PLAUSIBLE)
    }

    #[test]
    fn estimates_are_certain_and_plausible() {
        // Two of five pairs were disturbed, in either direction.
        let disturbed = (0..).map(|i| match i % 10 {
            0 | 1 => 1_000.0,
            2 | 3 => -1_000.0,
            n => 2.5 + f64::from(n) / 10.0,
        });
        let estimate = median_of(disturbed).unwrap();
        assert!((2.9..3.6).contains(&estimate), "{estimate}");
        assert_eq!(median_of(std::iter::repeat(0.0)), None, "recording is not free");
        assert_eq!(median_of(std::iter::repeat(-1.0)), None);
        assert_eq!(median_of(std::iter::repeat(1e4)), None);
        assert_eq!(median_of([3.0, 3.0].into_iter()), None, "too few");
        let noise = (0..).map(|i| if i % 2 == 0 { 12.0 } else { 1.5 });
        assert_eq!(median_of(noise), None, "uncertain");
    }

    #[test]
    fn costs_are_differences_per_unit() {
        let (is_recorded, cpu_ns, units) = (Cell::new(false), Cell::new(0), Cell::new(0));
        let set = |is_on| is_recorded.set(is_on);
        let read = || Counters { cpu_ns: Some(cpu_ns.get()), recorded: units.get() };
        let mut work_ns = 1_000;
        let cost = measure(PLAUSIBLE, set, read, || {
            // The work takes longer and longer.
            work_ns += 4;
            let recorded = if is_recorded.get() { 50 } else { 0 };
            units.set(units.get() + recorded);
            cpu_ns.set(cpu_ns.get() + work_ns + recorded * 20);
        });
        assert!((cost.unwrap() - 20.0).abs() < 0.1, "{cost:?}");
        let unknown = || Counters { cpu_ns: None, ..read() };
        assert_eq!(measure(PLAUSIBLE, set, unknown, || units.set(units.get() + 1)), None);
        assert_eq!(measure(PLAUSIBLE, set, read, || ()), None, "nothing was recorded");
        let falling = || units.set(units.get() - 1);
        assert_eq!(measure(PLAUSIBLE, set, read, falling), None, "a counter that cannot be read");
    }
}
