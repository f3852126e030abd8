//! The threads that ran on each CPU, and their names.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use files::why::{self, Occupant, QueueWait, Standstill};

use crate::machine::os::{self, NotAvailable, SwitchRing};
use crate::measure::why::kernel_clock::KernelClock;

/// The threads to which each CPU was given, in order of time.
pub type Occupants = HashMap<u32, Vec<Occupant>>;

/// Rings with the switches of all CPUs, or the reason why there are none.
pub type CpuRings = Result<Mutex<Vec<SwitchRing>>, NotAvailable>;

/// Reads the occupants of all CPUs since the last call.
///
/// # Errors
///
/// Returns an error if the rings are not available or records were lost.
pub fn drain_occupants(rings: &CpuRings, clock: &KernelClock) -> Result<Occupants, String> {
    let rings = rings.as_ref().map_err(NotAvailable::to_string)?;
    let mut occupants = Occupants::new();
    let mut lost = 0;
    for ring in rings.lock().unwrap_or_else(PoisonError::into_inner).iter_mut() {
        let drained = ring.drain();
        lost += drained.lost;
        for record in drained.switches {
            if let Some(thread) = record.next {
                let occupant = Occupant { at_ns: clock.ns(record.at_ns), thread };
                occupants.entry(record.cpu).or_default().push(occupant);
            }
        }
    }
    match lost {
        0 => Ok(occupants),
        _ => {
            Err("the kernel's buffer was too small: switches of other threads were lost".to_owned())
        }
    }
}

/// Marks the standstills during which other threads ran, if the occupants are known.
pub fn mark_occupied(
    mut standstills: Vec<Standstill>,
    occupants: Option<&Occupants>,
) -> Vec<Standstill> {
    for cpu_occupants in occupants.into_iter().flat_map(HashMap::values) {
        standstills.iter_mut().for_each(|standstill| standstill.note_occupants(cpu_occupants));
    }
    standstills
}

/// Names of threads, which are looked up once.
#[derive(Debug, Default)]
pub struct ThreadNames(HashMap<u32, String>);

impl ThreadNames {
    /// Creates the map with some known names.
    pub fn new(names: impl IntoIterator<Item = (u32, String)>) -> Self {
        Self(names.into_iter().collect())
    }

    fn get(&mut self, thread: u32) -> String {
        let look_up =
            || os::thread_name(thread).unwrap_or_else(|| "threads without a name".to_owned());
        self.0.entry(thread).or_insert_with(look_up).clone()
    }

    /// Returns the threads that ran while a tick was queued for a CPU, with their times.
    pub fn occupants_while_queued(
        &mut self,
        queued: &[QueueWait],
        occupants: Option<&Occupants>,
    ) -> Vec<(String, u64)> {
        let mut times: HashMap<String, u64> = HashMap::new();
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
