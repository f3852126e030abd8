//! The last seconds before a late tick, for a process that runs for days.
//!
//! The kernel records context switches in rings and overwrites the oldest ones. Nothing is read
//! until ticks were late. Then the rings still contain the time before them, from which the lateness
//! is explained as in a profiled round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::machine::os::{self, NotAvailable, PastSwitches, SwitchHistory};
use crate::measure::why::hindsight::loop_explainer::{LoopExplainer, RecordedSwitches};
use crate::measure::why::hindsight::ring_cost::{RingCost, SWITCH_BYTES};
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::{Occupants, ThreadNames};
use cli::units::ns_after;

mod loop_explainer;
mod ring_cost;

pub use loop_explainer::{ExplainedLoop, LateLoop, LateLoopTick, PastConditions};

/// Part of the wanted time for which the rings have additional room: late ticks are noticed only
/// after a while, and may have to wait until the previous record is as old as its length.
const EXTRA_ROOM: f64 = 1.5;
/// Switches per second for which the ring of a CPU, or of a thread, has room.
const CPU_RATE: f64 = 5_000.0;
const THREAD_RATE: f64 = 1_000.0;
/// Bounds of the size of a ring, and of all rings together.
const MIN_RING_BYTES: usize = 1 << 14;
const MAX_RING_BYTES: usize = 8 << 20;
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// Overwriting rings with the last switches.
#[derive(Debug)]
pub struct Hindsight {
    length: Duration,
    rings: Rings,
    cost: RingCost,
    started: Instant,
    /// Bytes that were recorded before, to measure the cost.
    began_at_bytes: u64,
    /// Bytes that rings had recorded when they were closed.
    closed_bytes: u64,
}

#[derive(Debug)]
enum Rings {
    AllCpus(Vec<SwitchHistory>),
    /// Rings of single threads, by their numbers.
    OwnThreads(BTreeMap<u32, SwitchHistory>),
}

/// The recorded time before a tick. Times are relative to the origin.
#[derive(Debug, Default)]
pub struct Past {
    /// Recorded time before the origin, at most the wanted one.
    pub length: Duration,
    /// One for each given loop.
    pub loops: Vec<ExplainedLoop>,
    /// The threads that ran on each CPU, if those were recorded.
    pub occupants: Option<Occupants>,
    pub names: ThreadNames,
}

impl Hindsight {
    /// Records the switches of all CPUs from now on.
    ///
    /// # Errors
    ///
    /// Returns an error without the permission to observe other processes, in a container with its
    /// own thread numbers, or if no memory can be locked.
    pub fn for_all_cpus(length: Duration) -> Result<Self, NotAvailable> {
        if !os::has_kernel_thread_ids() {
            let needs = "to run outside a container with its own thread numbers";
            return Err(NotAvailable::new("records of all CPUs", "", needs));
        }
        let cpus = os::online_cpus();
        let rings = open_cpu_rings(&cpus, length)?;
        let usable = usable_cpu();
        let measured = cpus.iter().zip(&rings).find(|(cpu, _)| **cpu == usable);
        let cost = measured.map(|(cpu, ring)| RingCost::measure_cpu(*cpu, ring));
        for ring in &rings {
            ring.set_recording(true);
        }
        Ok(Self::new(length, Rings::AllCpus(rings), cost.unwrap_or_default()))
    }

    /// Records the switches of the threads that [`Hindsight::watch_threads`] selects.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, or if no memory can be locked.
    pub fn for_own_threads(length: Duration) -> Result<Self, NotAvailable> {
        let cost = RingCost::measure_thread(usable_cpu(), thread_ring_bytes(length))?;
        Ok(Self::new(length, Rings::OwnThreads(BTreeMap::new()), cost))
    }

    #[allow(clippy::disallowed_methods, reason = "recording begins now")]
    fn new(length: Duration, rings: Rings, cost: RingCost) -> Self {
        // The bytes that were recorded to measure the cost were not recorded by the monitor's loops.
        let began = rings.iter().map(SwitchHistory::written_bytes).sum();
        Self {
            length,
            rings,
            cost,
            started: Instant::now(),
            began_at_bytes: began,
            closed_bytes: 0,
        }
    }

    pub fn records_all_cpus(&self) -> bool {
        matches!(self.rings, Rings::AllCpus(_))
    }

    /// Selects the threads of this process to record. This has no effect if all CPUs are recorded.
    pub fn watch_threads(&mut self, threads: &BTreeSet<u32>) {
        let Rings::OwnThreads(rings) = &mut self.rings else { return };
        let closed_bytes = &mut self.closed_bytes;
        rings.retain(|thread, ring| {
            let is_kept = threads.contains(thread);
            *closed_bytes += if is_kept { 0 } else { ring.written_bytes() };
            is_kept
        });
        for &thread in threads {
            if rings.contains_key(&thread) {
                continue;
            }
            // If this fails, the thread has just ended, or the ticks have no causes.
            if let Ok(ring) = SwitchHistory::for_thread(thread, thread_ring_bytes(self.length)) {
                ring.set_recording(true);
                rings.insert(thread, ring);
            }
        }
    }

    /// Returns the CPU time that recording has cost so far, by the cost of a record that was
    /// measured at the start.
    pub fn cpu_ns(&self) -> u64 {
        let written: u64 = self.rings.iter().map(SwitchHistory::written_bytes).sum();
        let written = self.closed_bytes.saturating_add(written);
        self.cost.cpu_ns(written.saturating_sub(self.began_at_bytes))
    }

    /// Returns the measured cost of recording a switch.
    pub fn switch_cost_ns(&self) -> u64 {
        self.cost.switch_ns()
    }

    /// Returns the memory of the rings.
    pub fn memory_bytes(&self) -> u64 {
        self.rings.iter().map(SwitchHistory::memory_bytes).sum()
    }

    /// Reads the rings and explains late ticks. Times are relative to `origin`.
    ///
    /// Returns `None` if the kernel's clock cannot be read.
    pub fn look_back(
        &self,
        loops: &[LateLoop],
        origin: Instant,
        conditions: PastConditions,
    ) -> Option<Past> {
        let clock = KernelClock::new(origin)?;
        let past: Vec<PastSwitches> = self.rings.iter().map(SwitchHistory::read).collect();
        let mut recorded = RecordedSwitches::new(past, self.records_all_cpus(), &clock);
        let started_ns = ns_after(self.started, origin);
        recorded.complete_from_ns = recorded.complete_from_ns.max(started_ns);
        let mut names = recorded.thread_names();
        let mut explained = Vec::with_capacity(loops.len());
        for late_loop in loops {
            let explainer = LoopExplainer { late_loop, recorded: &recorded, origin, conditions };
            explained.push(explainer.explain(&clock, &mut names));
        }
        let recorded_ns = u64::try_from(recorded.complete_from_ns.saturating_neg()).unwrap_or(0);
        let length = self.length.min(Duration::from_nanos(recorded_ns));
        let occupants = recorded.occupants;
        Some(Past { length, loops: explained, occupants, names })
    }
}

impl Rings {
    fn iter(&self) -> Box<dyn Iterator<Item = &SwitchHistory> + '_> {
        match self {
            Self::AllCpus(rings) => Box::new(rings.iter()),
            Self::OwnThreads(rings) => Box::new(rings.values()),
        }
    }
}

/// Opens a ring for each CPU, of the largest size that the limit of locked memory allows.
fn open_cpu_rings(cpus: &[usize], length: Duration) -> Result<Vec<SwitchHistory>, NotAvailable> {
    let mut bytes = cpu_ring_bytes(length, cpus.len());
    loop {
        let open = |&cpu: &usize| SwitchHistory::for_cpu(cpu, bytes);
        match cpus.iter().map(open).collect::<Result<Vec<_>, _>>() {
            Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
            opened => return opened,
        }
    }
}

/// Returns a CPU on which this process may run.
fn usable_cpu() -> usize {
    os::affinity().and_then(|cpus| cpus.first().copied()).unwrap_or(0)
}

fn cpu_ring_bytes(length: Duration, cpus: usize) -> usize {
    let max_bytes = MAX_RING_BYTES.min(MAX_TOTAL_BYTES / cpus.max(1));
    ring_bytes(length, CPU_RATE).min(max_bytes).max(MIN_RING_BYTES)
}

fn thread_ring_bytes(length: Duration) -> usize {
    ring_bytes(length, THREAD_RATE).clamp(MIN_RING_BYTES, MAX_RING_BYTES)
}

fn ring_bytes(length: Duration, switches_per_second: f64) -> usize {
    let seconds = length.as_secs_f64() * (1.0 + EXTRA_ROOM);
    (seconds * switches_per_second * SWITCH_BYTES as f64) as usize
}

#[cfg(all(test, target_os = "linux"))]
mod tests;
