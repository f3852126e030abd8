//! The cost of recording a context switch, measured by two threads that take turns.

use std::ops::RangeInclusive;
use std::sync::Barrier;
use std::thread::Builder;

use crate::machine::os::{self, SwitchHistory};
use crate::measure::why::hindsight::paired_cost::{self, Counters, PAIRS};

/// Number of turns in a block.
const TURNS: usize = 200;
/// Range of plausible costs of a switch: from a few stores to a virtual machine with slow counters.
const PLAUSIBLE_SWITCH_NS: RangeInclusive<f64> = 20.0..=5_000.0;
/// Cost of a switch that is assumed if it cannot be measured: that of a virtual machine, on which it
/// is higher than on a server.
const ASSUMED_SWITCH_NS: f64 = 1_000.0;
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
            let measured = partner.ok().and_then(|_| measure_turns(ring, &barrier));
            measured
                .map_or_else(Self::assumed, |ns_per_byte| Self { ns_per_byte, is_measured: true })
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

    /// Returns the cost of recording a switch.
    pub fn switch_ns(self) -> u64 {
        self.cpu_ns(SWITCH_BYTES)
    }

    /// Returns the cost of recording a number of bytes.
    pub fn cpu_ns(self, bytes: u64) -> u64 {
        (bytes as f64 * self.ns_per_byte) as u64
    }
}

/// Measures the cost of a recorded byte; `None` if it is not known.
fn measure_turns(ring: &SwitchHistory, barrier: &Barrier) -> Option<f64> {
    let (min_ns, max_ns) = PLAUSIBLE_SWITCH_NS.into_inner();
    let plausible = min_ns / SWITCH_BYTES as f64..=max_ns / SWITCH_BYTES as f64;
    let read = || Counters { cpu_ns: os::usage().cpu_ns, recorded: ring.written_bytes() };
    let set_recording = |is_on| ring.set_recording(is_on);
    let cost = paired_cost::measure(plausible, set_recording, read, || {
        for _ in 0..TURNS {
            barrier.wait();
        }
    });
    ring.set_recording(true);
    cost
}
