//! The threads that ran on each CPU, their switches and their names.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use files::why::{self, CpuInterval, CpuIntervals, QueueWait, Standstill, Switch};

use crate::machine::os::{self, DrainedSwitches, NotAvailable, SwitchRecord, SwitchRing};
use crate::measure::why::drained_records::DrainedRecords;
use crate::measure::why::kernel_clock::KernelClock;

/// Rings with the switches of all CPUs, or the reason why there are none.
pub type CpuRings = Result<Mutex<Vec<SwitchRing>>, NotAvailable>;

/// The switches of threads by their numbers, in order of time.
pub type ThreadSwitches = BTreeMap<u32, Vec<Switch>>;

/// The switches of all CPUs.
#[derive(Debug, Default)]
pub struct CpuSwitches {
    pub occupants: CpuIntervals,
    pub by_thread: ThreadSwitches,
}

/// Reads the switches of all CPUs since the last call.
pub fn drain_cpus(rings: &CpuRings, clock: &KernelClock) -> DrainedRecords<CpuSwitches> {
    let rings = match rings {
        Ok(rings) => rings,
        Err(why) => return DrainedRecords::unavailable(why),
    };
    let mut rings = rings.lock().unwrap_or_else(PoisonError::into_inner);
    to_cpu_switches(rings.iter_mut().map(SwitchRing::drain), clock)
}

/// Converts the switches of all CPUs. If records were lost, the occupants are not known.
fn to_cpu_switches(
    drained: impl Iterator<Item = DrainedSwitches>,
    clock: &KernelClock,
) -> DrainedRecords<CpuSwitches> {
    let drained: Vec<DrainedSwitches> = drained.collect();
    let mut switches = CpuSwitches::default();
    for drained in &drained {
        add_occupants(&mut switches.occupants, &drained.switches, clock);
    }
    switches.by_thread = group_by_thread(&drained, clock);
    let lost = drained.iter().fold(0_u64, |lost, drained| lost.saturating_add(drained.lost));
    DrainedRecords::new(switches, lost, "switches of other threads")
}

/// Groups the switches of several rings by thread.
pub fn group_by_thread<'a>(
    rings: impl IntoIterator<Item = &'a DrainedSwitches>,
    clock: &KernelClock,
) -> ThreadSwitches {
    let mut by_thread = ThreadSwitches::new();
    for record in rings.into_iter().flat_map(|ring| &ring.switches) {
        by_thread.entry(record.thread).or_default().push(clock.switch(record));
    }
    // A thread may have run on several CPUs, each of which has a ring.
    for switches in by_thread.values_mut() {
        switches.sort_by_key(|switch| switch.at_ns);
    }
    by_thread
}

/// Adds the threads to which a CPU was given.
pub fn add_occupants(occupants: &mut CpuIntervals, switches: &[SwitchRecord], clock: &KernelClock) {
    for record in switches {
        if let Some(thread) = record.next {
            let occupant = CpuInterval { at_ns: clock.ns(record.at_ns), thread };
            occupants.entry(record.cpu).or_default().push(occupant);
        }
    }
}

/// Marks the standstills during which other threads ran, if the occupants are known.
pub fn mark_occupied(
    mut standstills: Vec<Standstill>,
    occupants: Option<&CpuIntervals>,
) -> Vec<Standstill> {
    for cpu_occupants in occupants.into_iter().flat_map(HashMap::values) {
        for standstill in &mut standstills {
            standstill.note_occupants(cpu_occupants);
        }
    }
    standstills
}

/// Names of threads, which are looked up once; `None` for a thread that has ended.
#[derive(Debug, Default)]
pub struct ThreadNames(BTreeMap<u32, Option<String>>);

impl ThreadNames {
    /// Creates the map with some known names.
    pub fn new(names: impl IntoIterator<Item = (u32, String)>) -> Self {
        let mut known = BTreeMap::new();
        for (thread, name) in names {
            known.insert(thread, Some(name));
        }
        Self(known)
    }

    /// Returns the name of a thread, if it is known or the thread still exists.
    pub fn find(&mut self, thread: u32) -> Option<String> {
        self.0.entry(thread).or_insert_with(|| os::thread_name(thread)).clone()
    }

    fn get(&mut self, thread: u32) -> String {
        self.find(thread).unwrap_or_else(|| "threads without a name".to_owned())
    }

    /// Returns the threads that ran while a tick was queued for a CPU, with their times.
    pub fn occupants_while_queued(
        &mut self,
        queued: &[QueueWait],
        occupants: Option<&CpuIntervals>,
    ) -> Vec<(String, u64)> {
        let mut times: BTreeMap<String, u64> = BTreeMap::new();
        for stretch in queued {
            let Some(switches) = occupants.and_then(|cpus| cpus.get(&stretch.cpu)) else {
                continue;
            };
            for (thread, ns) in why::occupants_during(stretch, switches) {
                *times.entry(self.get(thread)).or_default() += ns;
            }
        }
        times.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use files::why::SwitchKind;

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "any instant will do")]
    fn lost_switches_are_counted() {
        let Some(clock) = KernelClock::new(Instant::now()) else { return };
        let switch =
            SwitchRecord { at_ns: 5, cpu: 1, thread: 7, kind: SwitchKind::Waits, next: Some(8) };
        let ring =
            |lost| DrainedSwitches { switches: vec![switch], lost, ..DrainedSwitches::default() };
        let complete = to_cpu_switches([ring(0), ring(0)].into_iter(), &clock);
        assert_eq!(complete.lost, 0);
        let switches = complete.records.unwrap();
        assert_eq!((switches.occupants[&1].len(), switches.by_thread[&7].len()), (2, 2));
        let lossy = to_cpu_switches([ring(0), ring(12)].into_iter(), &clock);
        assert_eq!(lossy.lost, 12);
        assert!(lossy.records.unwrap_err().to_string().contains("12 switches of other threads"));
    }
}
