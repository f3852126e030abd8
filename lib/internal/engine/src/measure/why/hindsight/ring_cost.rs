//! The cost of recording a context switch, measured by two threads that wake each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle, Thread};

use crate::machine::os::{self, NotAvailable, SwitchHistory};
use cli::units::to_ns;

/// Number of measurements with and without recording. The shortest of each kind is used, which the
/// rest of the machine has not disturbed.
const BLOCKS: usize = 16;
const ROUND_TRIPS: usize = 200;
/// Bytes of the two records of a switch in the ring of a CPU.
pub const SWITCH_BYTES: u64 = 80;

/// CPU time that recording costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct RingCost {
    ns_per_byte: f64,
}

impl RingCost {
    /// Measures the cost with the ring of a CPU, or of the calling thread, on that CPU.
    pub fn measure_cpu(cpu: usize, ring: &SwitchHistory) -> Self {
        let cpus_before = os::affinity();
        let cost = measure_on(cpu, ring);
        if let Some(cpus) = cpus_before {
            // If this fails, the calling thread stays on one CPU.
            let _ = os::bind(&cpus);
        }
        cost
    }

    /// Measures the cost with a ring of the calling thread, which has `bytes`.
    ///
    /// # Errors
    ///
    /// Returns an error if there cannot be such a ring.
    pub fn measure_thread(cpu: usize, bytes: usize) -> Result<Self, NotAvailable> {
        let ring = SwitchHistory::for_thread(os::thread_id(), bytes)?;
        Ok(Self::measure_cpu(cpu, &ring))
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

/// Measures the cost with a ring that records the calling thread or its CPU.
fn measure_on(cpu: usize, ring: &SwitchHistory) -> RingCost {
    // If this fails, the two threads may run at the same time, and switch less often.
    let _ = os::bind(&[cpu]);
    let Some(partner) = Partner::start(cpu) else { return RingCost::default() };
    let (mut shortest_off_ns, mut shortest_on_ns) = (u64::MAX, u64::MAX);
    let written_before = ring.written_bytes();
    for _ in 0..BLOCKS {
        shortest_off_ns = shortest_off_ns.min(partner.measure_round_trips());
        ring.set_recording(true);
        shortest_on_ns = shortest_on_ns.min(partner.measure_round_trips());
        ring.set_recording(false);
    }
    let bytes = ring.written_bytes().saturating_sub(written_before) as f64 / BLOCKS as f64;
    let cost_ns = shortest_on_ns.saturating_sub(shortest_off_ns) as f64;
    RingCost { ns_per_byte: if bytes > 0.0 { cost_ns / bytes } else { 0.0 } }
}

/// A thread on the same CPU that hands each turn back.
struct Partner {
    state: Arc<PartnerState>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct PartnerState {
    has_turn: AtomicBool,
    is_over: AtomicBool,
}

impl Partner {
    fn start(cpu: usize) -> Option<Self> {
        let state: Arc<PartnerState> = Arc::default();
        let (partner_state, other) = (Arc::clone(&state), std::thread::current());
        let run = move || {
            let _ = os::bind(&[cpu]);
            partner_state.hand_back_turns(&other);
        };
        let thread = Builder::new().spawn(run).ok()?;
        Some(Self { state, thread: Some(thread) })
    }

    /// Returns the time of several round trips.
    fn measure_round_trips(&self) -> u64 {
        let Some(thread) = &self.thread else { return u64::MAX };
        let start = tach::Instant::now();
        for _ in 0..ROUND_TRIPS {
            self.state.has_turn.store(true, Ordering::Release);
            thread.thread().unpark();
            while self.state.has_turn.load(Ordering::Acquire) {
                std::thread::park();
            }
        }
        to_ns(start.elapsed())
    }
}

impl PartnerState {
    fn hand_back_turns(&self, other: &Thread) {
        loop {
            while !self.has_turn.load(Ordering::Acquire) {
                if self.is_over.load(Ordering::Acquire) {
                    return;
                }
                std::thread::park();
            }
            self.has_turn.store(false, Ordering::Release);
            other.unpark();
        }
    }
}

impl Drop for Partner {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
