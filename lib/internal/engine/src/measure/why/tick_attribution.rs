//! Attribution of the lateness of ticks to causes.

use files::why::pool::ProfiledTick;
use files::why::{
    self, Breakdown, CpuIntervals, RoundConditions, Thread, Tick, Wakeup, WakeupPath,
};

use crate::measure::why::occupants::ThreadNames;

/// A tick with its index on the grid.
#[derive(Clone, Copy, Debug)]
pub struct IndexedTick {
    pub index: u64,
    pub tick: Tick,
}

/// Evidence about a round, from which the lateness of its ticks is explained.
#[derive(Debug)]
pub struct RoundEvidence<'a> {
    pub threads: &'a [Thread],
    pub conditions: &'a RoundConditions,
    pub occupants: Option<&'a CpuIntervals>,
    /// Recorded wake-ups of the threads, if they are to be traced.
    pub chains: Option<ThreadChains<'a>>,
}

/// Wake-ups of each thread, and the cycles with which they are compared.
#[derive(Clone, Copy, Debug)]
pub struct ThreadChains<'a> {
    pub threads: &'a [Thread],
    pub wakeups: &'a [Vec<Wakeup>],
}

impl ThreadChains<'_> {
    /// Finds the path of a tick in the wake-ups of its thread.
    fn trace(&self, tick: &Tick, breakdown: &Breakdown) -> Option<WakeupPath> {
        let (thread, wakeups) = (self.threads.get(tick.thread)?, self.wakeups.get(tick.thread)?);
        Some(why::trace_wakeup(tick, thread, wakeups, breakdown))
    }
}

impl RoundEvidence<'_> {
    /// Attributes the lateness of every tick of an instance.
    pub fn attribute(
        &self,
        instance: u64,
        ticks: &[IndexedTick],
        names: &mut ThreadNames,
    ) -> Vec<ProfiledTick> {
        let plain: Vec<Tick> = ticks.iter().map(|indexed| indexed.tick).collect();
        let explained = why::explain(&plain, self.threads, self.conditions, self.occupants);
        let mut attributed = Vec::with_capacity(ticks.len());
        for (IndexedTick { index, tick }, explained) in ticks.iter().zip(explained) {
            attributed.push(ProfiledTick {
                instance,
                tick: *index,
                deadline_ns: tick.deadline_ns,
                wake_ns: tick.wake_ns,
                behind: names.occupants_while_queued(&explained.queued, self.occupants),
                way: self.chains.and_then(|chains| chains.trace(tick, &explained)),
                parts: explained.parts,
                stacks: Vec::new(),
            });
        }
        attributed
    }
}
