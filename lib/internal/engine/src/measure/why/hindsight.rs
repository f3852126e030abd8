//! The last seconds before a late tick, for a process that runs for days.
//!
//! The kernel records context switches in rings and overwrites the oldest ones. Nothing is read
//! until ticks were late. Then the rings still contain the time before them, from which the lateness
//! is explained as in a profiled round.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use files::why::CpuIntervals;

use crate::machine::os::{self, NotAvailable, SwitchHistory};
use crate::measure::why::hindsight::loop_explainer::{LoopExplainer, RecordedSwitches};
use crate::measure::why::hindsight::ring_cost::{RingCost, SWITCH_BYTES};
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::ThreadNames;
use crate::measure::why::thread_samples::ThreadSamples;

mod loop_explainer;
mod paired_cost;
mod ring_cost;
mod stack_watch;

pub use loop_explainer::{ExplainedLoop, LateLoop, PastConditions};
pub use stack_watch::StackWatch;

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
    has_all_cpus: bool,
    /// Rings by the number of their CPU or, without those of all CPUs, of their thread.
    rings: BTreeMap<u32, SwitchHistory>,
    cost: RingCost,
    /// CPU time that rings had cost when they were closed.
    closed_ns: u64,
    /// Stacks of metered programs, or the reason why there are none.
    stacks: Result<StackWatch, NotAvailable>,
}

/// The recorded time before a tick. Times are relative to the origin.
#[derive(Debug, Default)]
pub struct Past {
    /// Recorded time before the origin, at most the wanted one.
    pub length: Duration,
    /// One for each given loop.
    pub loops: Vec<ExplainedLoop>,
    /// The threads that ran on each CPU, if those were recorded.
    pub occupants: Option<CpuIntervals>,
    pub names: ThreadNames,
    /// Parts that metered programs lack for complete names of their functions.
    pub hint: Option<String>,
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
            return Err(NotAvailable { what: "records of all CPUs", obstacle: None, needs });
        }
        let cpu = usable_cpu();
        let cost = RingCost::measure(cpu, &SwitchHistory::for_cpu(cpu, MIN_RING_BYTES)?);
        let rings = open_cpu_rings(&os::online_cpus(), length)?;
        let stacks = StackWatch::open();
        Ok(Self { length, has_all_cpus: true, rings, cost, closed_ns: 0, stacks })
    }

    /// Records the switches of the threads that [`Hindsight::watch_threads`] selects.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, or if no memory can be locked.
    pub fn for_own_threads(length: Duration) -> Result<Self, NotAvailable> {
        let ring = SwitchHistory::for_thread(os::thread_id(), thread_ring_bytes(length))?;
        let cost = RingCost::measure(usable_cpu(), &ring);
        let (rings, stacks) = (BTreeMap::new(), StackWatch::open());
        Ok(Self { length, has_all_cpus: false, rings, cost, closed_ns: 0, stacks })
    }

    /// Records only the switches of the threads of this process from now on. Returns whether this
    /// costs less.
    pub fn reduce_to_own_threads(&mut self) -> bool {
        let cost_ns = self.cpu_ns();
        let needs = "a larger --budget";
        let stacks = Err(NotAvailable { what: "stacks of programs", obstacle: None, needs });
        if !self.has_all_cpus {
            let had_stacks = std::mem::replace(&mut self.stacks, stacks).is_ok();
            self.closed_ns = cost_ns.saturating_sub(self.cpu_ns() - self.closed_ns);
            return had_stacks;
        }
        let Ok(reduced) = Self::for_own_threads(self.length) else { return false };
        *self = Self { closed_ns: cost_ns, stacks, ..reduced };
        true
    }

    /// Returns the sampled stacks of metered programs, or why none are sampled.
    pub fn stacks(&self) -> Result<&StackWatch, &NotAvailable> {
        self.stacks.as_ref()
    }

    /// Selects the programs whose stacks are sampled.
    pub fn watch_programs(&mut self, processes: &BTreeSet<u32>) {
        if let Ok(stacks) = &mut self.stacks {
            stacks.watch_programs(processes);
        }
    }

    pub fn has_all_cpus(&self) -> bool {
        self.has_all_cpus
    }

    /// Selects the threads of this process to record. This has no effect if all CPUs are recorded.
    pub fn watch_threads(&mut self, threads: &[u32]) {
        if self.has_all_cpus {
            return;
        }
        let (cost, closed_ns) = (self.cost, &mut self.closed_ns);
        self.rings.retain(|thread, ring| {
            let is_kept = threads.contains(thread);
            *closed_ns += if is_kept { 0 } else { cost.cpu_ns(ring.written_bytes()) };
            is_kept
        });
        for &thread in threads {
            if self.rings.contains_key(&thread) {
                continue;
            }
            // If this fails, the thread has just ended, or the ticks have no causes.
            if let Ok(ring) = SwitchHistory::for_thread(thread, thread_ring_bytes(self.length)) {
                self.rings.insert(thread, ring);
            }
        }
    }

    /// Returns the CPU time that recording has cost so far, by the cost of a record that was
    /// measured at the start.
    pub fn cpu_ns(&self) -> u64 {
        let written_bytes: u64 = self.rings.values().map(SwitchHistory::written_bytes).sum();
        let stacks = self.stacks.as_ref();
        let sampled_ns = stacks.map_or(0, |stacks| {
            stacks.cpu_ns().saturating_add(self.cost.cpu_ns(stacks.switch_bytes()))
        });
        let recorded_ns = self.cost.cpu_ns(written_bytes).saturating_add(sampled_ns);
        self.closed_ns.saturating_add(recorded_ns)
    }

    /// Returns the cost of recording a switch.
    pub fn switch_cost_ns(&self) -> u64 {
        self.cost.switch_ns()
    }

    /// Returns whether this cost was measured. Otherwise it is assumed.
    pub fn is_cost_measured(&self) -> bool {
        self.cost.is_measured
    }

    /// Returns the memory of the rings.
    pub fn memory_bytes(&self) -> u64 {
        let rings: u64 = self.rings.values().map(SwitchHistory::memory_bytes).sum();
        rings + self.stacks.as_ref().map_or(0, StackWatch::memory_bytes)
    }

    /// Reads the rings and explains late ticks. Times are relative to `origin`.
    ///
    /// Returns `None` if the kernel's clock cannot be read.
    pub fn look_back<'a>(
        &self,
        loops: impl Iterator<Item = &'a LateLoop>,
        origin: Instant,
        conditions: PastConditions,
    ) -> Option<Past> {
        let clock = KernelClock::new(origin)?;
        let past = self.rings.values().map(SwitchHistory::read).collect();
        let mut recorded = RecordedSwitches::new(past, self.has_all_cpus, &clock);
        let mut names = std::mem::take(&mut recorded.names);
        let loops: Vec<&LateLoop> = loops.collect();
        let foreign = loops.iter().filter(|late_loop| !late_loop.is_own);
        let threads = foreign.flat_map(|late_loop| late_loop.threads.iter().copied()).collect();
        let stacks = self.stacks.as_ref().ok();
        let past_stacks = stacks.map_or(Vec::new(), |stacks| stacks.read(&threads));
        if !self.has_all_cpus {
            recorded.add_program_threads(&past_stacks, &clock);
        }
        let mut explain = |mut samples: Option<&mut ThreadSamples<'_>>| {
            let mut explained = Vec::with_capacity(loops.len());
            for &late_loop in &loops {
                let explainer =
                    LoopExplainer { late_loop, recorded: &recorded, origin, conditions };
                let samples = samples.as_deref_mut().filter(|_| !late_loop.is_own);
                explained.push(explainer.explain(&clock, &mut names, samples));
            }
            explained
        };
        let explained = match stacks {
            Some(stacks) => stacks.with_names(&past_stacks, &clock, |names| explain(Some(names))),
            None => explain(None),
        };
        let recorded_ns = u64::try_from(recorded.complete_from_ns.saturating_neg()).unwrap_or(0);
        let length = self.length.min(Duration::from_nanos(recorded_ns));
        let occupants = recorded.occupants;
        let hint = stacks.and_then(StackWatch::hint);
        Some(Past { length, loops: explained, occupants, names, hint })
    }
}

/// Opens a ring for each CPU, of the largest size that the limit of locked memory allows.
fn open_cpu_rings(
    cpus: &[usize],
    length: Duration,
) -> Result<BTreeMap<u32, SwitchHistory>, NotAvailable> {
    let mut bytes = cpu_ring_bytes(length, cpus.len());
    loop {
        match open_sized_rings(cpus, bytes) {
            Err(_) if bytes > MIN_RING_BYTES => bytes /= 2,
            opened => return opened,
        }
    }
}

/// Opens a ring of a size for each CPU.
fn open_sized_rings(
    cpus: &[usize],
    bytes: usize,
) -> Result<BTreeMap<u32, SwitchHistory>, NotAvailable> {
    let mut rings = BTreeMap::new();
    for (number, &cpu) in (0..).zip(cpus) {
        rings.insert(number, SwitchHistory::for_cpu(cpu, bytes)?);
    }
    Ok(rings)
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
