//! Records of all CPUs during a round: the threads that ran, and the wake-ups by timers.

use files::report::why::Tier;
use files::why::{CpuIntervals, Wakeup};

use crate::measure::why::availability::Availability;
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::{CpuSwitches, drain_cpus};
use crate::measure::why::profiler::Profiler;
use crate::measure::why::unavailable::Unavailable;
use crate::measure::why::wakeup_chains::ThreadWakeups;

/// Records of all CPUs, or the reasons why they are not available.
#[derive(Debug)]
pub struct CpuRecords {
    pub switches: Result<CpuSwitches, Unavailable>,
    pub wakeups: Result<ThreadWakeups, Unavailable>,
    /// Number of records that the kernel lost.
    pub lost: u64,
}

/// The part of the records that a diagnosis uses.
#[derive(Debug)]
pub struct UsableRecords {
    pub occupants: Option<CpuIntervals>,
    pub wakeups: Option<Vec<Vec<Wakeup>>>,
}

impl CpuRecords {
    /// Reads the records since the last call. Threads are given by their numbers in the system.
    pub fn drain(profiler: &Profiler, threads: &[Option<u32>], clock: &KernelClock) -> Self {
        let switches = drain_cpus(&profiler.cpus, clock);
        let wakeups = profiler.chains.drain(threads, clock);
        Self {
            lost: switches.lost.saturating_add(wakeups.lost),
            switches: switches.records,
            wakeups: wakeups.records,
        }
    }

    /// Creates the result if nothing could be read.
    pub fn unavailable(reason: Unavailable) -> Self {
        Self { switches: Err(reason.clone()), wakeups: Err(reason), lost: 0 }
    }

    /// Combines the availability of these records with that of the evidence of the threads.
    pub fn availability(
        &self,
        stats: Result<(), Unavailable>,
        switches: Result<(), Unavailable>,
    ) -> Availability {
        Availability {
            stats,
            switches,
            occupants: self.switches.as_ref().map(drop).map_err(Clone::clone),
            wakeups: self.wakeups.as_ref().map(drop).map_err(Clone::clone),
        }
    }

    /// Returns the records that a diagnosis of a tier uses. Only the highest tier uses the wake-ups.
    pub fn usable(self, tier: Option<Tier>) -> UsableRecords {
        let wakeups = self.wakeups.ok().filter(|_| tier == Some(Tier::B2));
        UsableRecords { occupants: self.switches.ok().map(|cpus| cpus.occupants), wakeups }
    }
}
