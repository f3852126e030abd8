//! The cost of recording a context switch, measured by two threads that take turns.

use std::ops::RangeInclusive;
use std::sync::Barrier;
use std::thread::Builder;

use crate::machine::os::{self, SwitchHistory};

/// Number of pairs of neighbouring measurements, one of them with recording.
const PAIRS: usize = 41;
/// Rank of the lower end of the interval of the median of so many pairs, and from the other end that
/// of the upper one. By the binomial distribution, its confidence is 99 %.
const INTERVAL_RANK: usize = 12;
/// Number of turns in a measurement.
const TURNS: usize = 200;
/// Range of plausible costs of a switch: from a few stores to a virtual machine with slow counters.
const PLAUSIBLE_SWITCH_NS: RangeInclusive<f64> = 20.0..=5_000.0;
/// Cost of a switch that is assumed if it cannot be measured: that of a virtual machine, on which it
/// is higher than on a server.
const ASSUMED_SWITCH_NS: f64 = 1_000.0;
/// Width of the interval, relative to the median, above which the cost is not known.
const MAX_INTERVAL_WIDTH: f64 = 0.5;
/// Bytes of the two records of a switch in the ring of a CPU.
pub const SWITCH_BYTES: u64 = 80;

/// CPU time that recording costs.
#[derive(Clone, Copy, Debug)]
pub struct RingCost {
    ns_per_byte: f64,
    /// Whether it was measured, or assumed.
    pub is_measured: bool,
}

impl RingCost {
    /// Measures the cost on a CPU, with a ring of that CPU or of the calling thread.
    pub fn measure(cpu: usize, ring: &SwitchHistory) -> Self {
        let cpus_before = os::affinity();
        // The partner inherits the CPU. If this fails, the threads may run at the same time, and
        // switch less often.
        let _ = os::bind(&[cpu]);
        let barrier = Barrier::new(2);
        let take_turns = || {
            for _ in 0..2 * PAIRS * TURNS {
                barrier.wait();
            }
        };
        let cost = std::thread::scope(|scope| {
            let partner = Builder::new().spawn_scoped(scope, take_turns);
            partner.map_or_else(|_| Self::assumed(), |_| measure_turns(ring, &barrier))
        });
        if let Some(cpus) = cpus_before {
            // If this fails, the calling thread stays on one CPU.
            let _ = os::bind(&cpus);
        }
        cost
    }

    fn assumed() -> Self {
        Self { ns_per_byte: ASSUMED_SWITCH_NS / SWITCH_BYTES as f64, is_measured: false }
    }

    /// Estimates the cost from the differences of pairs, in CPU time per byte. It is their median,
    /// unless it is uncertain or not plausible.
    fn from_differences(mut ns_per_byte: Vec<f64>) -> Self {
        ns_per_byte.sort_by(f64::total_cmp);
        let count = ns_per_byte.len();
        if count < PAIRS {
            return Self::assumed();
        }
        let median = ns_per_byte[count / 2];
        let width = ns_per_byte[count - 1 - INTERVAL_RANK] - ns_per_byte[INTERVAL_RANK];
        let is_plausible = PLAUSIBLE_SWITCH_NS.contains(&(median * SWITCH_BYTES as f64));
        if is_plausible && width <= MAX_INTERVAL_WIDTH * median {
            Self { ns_per_byte: median, is_measured: true }
        } else {
            Self::assumed()
        }
    }

    /// Returns the cost of recording a switch.
    pub fn switch_ns(self) -> u64 {
        self.cpu_ns(SWITCH_BYTES)
    }

    /// Returns the cost of recording a number of bytes.
    pub fn cpu_ns(self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte) as u64
    }
}

/// Measures pairs of blocks in CPU time: the rest of the machine uses other CPU time, and disturbs
/// both blocks of a pair alike.
fn measure_turns(ring: &SwitchHistory, barrier: &Barrier) -> RingCost {
    let mut differences = Vec::with_capacity(PAIRS);
    for pair in 0..PAIRS {
        // Each order is as frequent as the other.
        let is_recorded_first = pair % 2 == 1;
        let [first, second] = [is_recorded_first, !is_recorded_first].map(|is_recorded| {
            ring.set_recording(is_recorded);
            let written_before = ring.written_bytes();
            let cpu_before = os::usage().cpu_ns;
            for _ in 0..TURNS {
                barrier.wait();
            }
            let cpu_ns =
                os::usage().cpu_ns.zip(cpu_before).map(|(now, before)| now as f64 - before as f64);
            (cpu_ns, ring.written_bytes().saturating_sub(written_before))
        });
        let (recorded, other) = if is_recorded_first { (first, second) } else { (second, first) };
        if let ((Some(recorded_ns), bytes @ 1..), (Some(other_ns), _)) = (recorded, other) {
            differences.push((recorded_ns - other_ns) / bytes as f64);
        }
    }
    ring.set_recording(true);
    RingCost::from_differences(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch_ns(differences: impl Iterator<Item = f64>) -> (u64, bool) {
        let cost = RingCost::from_differences(differences.take(PAIRS).collect());
        (cost.switch_ns(), cost.is_measured)
    }

    #[test]
    fn estimates_are_plausible_or_assumed() {
        let assumed = (ASSUMED_SWITCH_NS as u64, false);
        // Two of five pairs were disturbed, in either direction.
        let disturbed = (0..).map(|i| match i % 10 {
            0 | 1 => 1_000.0,
            2 | 3 => -1_000.0,
            n => 2.5 + f64::from(n) / 10.0,
        });
        let (ns, is_measured) = switch_ns(disturbed);
        assert!((230..290).contains(&ns) && is_measured, "{ns}");
        assert_eq!(switch_ns(std::iter::repeat(0.0)), assumed, "recording is not free");
        assert_eq!(switch_ns(std::iter::repeat(-1.0)), assumed);
        assert_eq!(switch_ns(std::iter::repeat(1e4)), assumed);
        assert_eq!(switch_ns([3.0, 3.0].into_iter()), assumed, "too few");
        let noise = (0..).map(|i| if i % 2 == 0 { 12.0 } else { 0.5 });
        assert_eq!(switch_ns(noise), assumed, "uncertain");
    }
}
