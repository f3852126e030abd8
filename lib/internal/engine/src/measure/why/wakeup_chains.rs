//! Records of the kernel about expired timers and the threads that they woke.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use files::why::Wakeup;

use crate::machine::os::{self, NotAvailable, TraceEvent, TraceEventKind, TraceScope, Tracer};
use crate::measure::why::drained_records::DrainedRecords;
use crate::measure::why::kernel_clock::KernelClock;

/// Recorder of the timers and wake-ups of all CPUs, if it is available.
#[derive(Debug)]
pub struct WakeupChains(Result<Mutex<Tracer>, NotAvailable>);

/// The wake-ups of each of several threads.
pub type ThreadWakeups = Vec<Vec<Wakeup>>;

impl WakeupChains {
    pub fn open() -> Self {
        if !os::has_kernel_thread_ids() {
            let needs = "to run outside a container with its own thread numbers";
            return Self(Err(NotAvailable { what: "records of timers", obstacle: None, needs }));
        }
        Self(Tracer::open(TraceScope::Wakeups).map(Mutex::new))
    }

    /// Starts or stops recording.
    pub fn set_recording(&self, on: bool) {
        if let Ok(tracer) = &self.0 {
            tracer.lock().unwrap_or_else(PoisonError::into_inner).record(on);
        }
    }

    /// Reads the wake-ups of threads since the last call.
    ///
    /// Threads are given by their number in the system. A thread without a number has no wake-ups.
    pub fn drain(
        &self,
        threads: &[Option<u32>],
        clock: &KernelClock,
    ) -> DrainedRecords<ThreadWakeups> {
        let tracer = match &self.0 {
            Ok(tracer) => tracer,
            Err(why) => return DrainedRecords::unavailable(why),
        };
        let mut events = Vec::new();
        tracer.lock().unwrap_or_else(PoisonError::into_inner).drain(&mut events);
        let lost = lost_records(&events);
        let mut by_thread = wakeups_by_thread(events);
        let mut found = Vec::with_capacity(threads.len());
        for id in threads {
            let wakeups = id.and_then(|id| by_thread.remove(&id)).unwrap_or_default();
            found.push(wakeups.into_iter().map(|wakeup| to_round_time(wakeup, clock)).collect());
        }
        DrainedRecords::new(found, lost, "records of timers")
    }
}

/// Returns the number of lost records, each of which may be a wake-up.
fn lost_records(events: &[TraceEvent]) -> u64 {
    let mut lost = 0_u64;
    for event in events {
        if let TraceEventKind::Lost { records, .. } = event.kind {
            lost = lost.saturating_add(records.max(1));
        }
    }
    lost
}

/// Converts the times of a wake-up to the time line of a round.
fn to_round_time(wakeup: Wakeup, clock: &KernelClock) -> Wakeup {
    Wakeup {
        expired_ns: wakeup.expired_ns.map(|ns| clock.convert_signed(ns)),
        woken_ns: clock.convert_signed(wakeup.woken_ns),
    }
}

/// Groups the wake-ups by thread, with times of the kernel's clock.
fn wakeups_by_thread(mut events: Vec<TraceEvent>) -> BTreeMap<u32, Vec<Wakeup>> {
    // The events of each CPU are in order, and the CPUs follow one another.
    events.sort_by_key(|event| event.at_ns);
    let mut wakeups: BTreeMap<u32, Vec<Wakeup>> = BTreeMap::new();
    // For each CPU, the start of the timer function that runs on it.
    let mut running: BTreeMap<u32, i64> = BTreeMap::new();
    for event in events {
        match event.kind {
            TraceEventKind::Expire { .. } => {
                running.insert(event.cpu, event.at_ns);
            }
            TraceEventKind::Expired { .. } => {
                running.remove(&event.cpu);
            }
            TraceEventKind::Waking { thread } => {
                let expired_ns = running.get(&event.cpu).copied();
                wakeups
                    .entry(thread)
                    .or_default()
                    .push(Wakeup { expired_ns, woken_ns: event.at_ns });
            }
            _ => {}
        }
    }
    wakeups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ns: i64, cpu: u32, what: TraceEventKind) -> TraceEvent {
        TraceEvent { at_ns, cpu, thread: 0, kind: what }
    }

    fn expire(at_ns: i64, cpu: u32) -> (TraceEvent, TraceEvent) {
        let entry = TraceEventKind::Expire { timer: 1, function: 2, now_ns: at_ns };
        (at(at_ns, cpu, entry), at(at_ns + 50, cpu, TraceEventKind::Expired { timer: 1 }))
    }

    #[test]
    fn wakeups_belong_to_the_running_timer() {
        let (first, last) = expire(100, 1);
        let (other, other_end) = expire(90, 0);
        // The events of two CPUs, one after the other.
        let events = vec![
            other,
            other_end,
            at(400, 0, TraceEventKind::Waking { thread: 7 }),
            first,
            at(120, 1, TraceEventKind::Waking { thread: 7 }),
            at(130, 1, TraceEventKind::Waking { thread: 8 }),
            last,
        ];
        let by = |expired_ns, woken_ns| Wakeup { expired_ns, woken_ns };
        let expected =
            [(7, vec![by(Some(100), 120), by(None, 400)]), (8, vec![by(Some(100), 130)])];
        assert_eq!(lost_records(&events), 0);
        assert_eq!(wakeups_by_thread(events), BTreeMap::from_iter(expected));
        let lost = |records| at(110, 1, TraceEventKind::Lost { records, until_ns: 120 });
        assert_eq!(lost_records(&[first, lost(3), lost(0)]), 4);
    }
}
