//! The cost of recording a context switch, measured by two threads that take turns.

use std::sync::Barrier;
use std::thread::Builder;

use crate::machine::os::{self, SwitchHistory};
use cli::units::to_ns;

/// Number of measurements with and without recording. The shortest of each kind is used, which the
/// rest of the machine has not disturbed.
const BLOCKS: usize = 16;
/// Number of turns in a measurement.
const TURNS: usize = 400;
/// Bytes of the two records of a switch in the ring of a CPU.
pub const SWITCH_BYTES: u64 = 80;

/// CPU time that recording costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingCost {
    ns_per_byte: f64,
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
            for _ in 0..2 * BLOCKS * TURNS {
                barrier.wait();
            }
        };
        let cost = std::thread::scope(|scope| {
            let partner = Builder::new().spawn_scoped(scope, take_turns);
            partner.map_or_else(|_| Self::default(), |_| measure_turns(ring, &barrier))
        });
        if let Some(cpus) = cpus_before {
            // If this fails, the calling thread stays on one CPU.
            let _ = os::bind(&cpus);
        }
        cost
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

fn measure_turns(ring: &SwitchHistory, barrier: &Barrier) -> RingCost {
    let mut shortest_unrecorded_ns = u64::MAX;
    // The shortest block with recording, and the bytes that were recorded in it and no other.
    let (mut shortest_recorded_ns, mut bytes) = (u64::MAX, 0);
    for block in 0..2 * BLOCKS {
        let is_recorded = block % 2 == 1;
        ring.set_recording(is_recorded);
        let written_before = ring.written_bytes();
        let start = tach::Instant::now();
        for _ in 0..TURNS {
            barrier.wait();
        }
        let ns = to_ns(start.elapsed());
        if !is_recorded {
            shortest_unrecorded_ns = shortest_unrecorded_ns.min(ns);
        } else if ns < shortest_recorded_ns {
            shortest_recorded_ns = ns;
            bytes = ring.written_bytes().saturating_sub(written_before);
        }
    }
    let cost_ns = shortest_recorded_ns.saturating_sub(shortest_unrecorded_ns) as f64;
    RingCost { ns_per_byte: if bytes > 0 { cost_ns / bytes as f64 } else { 0.0 } }
}
