//! The kernel's records of timers, and of the threads that they wake, beside the ticks of a round.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use files::why::Wakeup;

use crate::machine::os::{self, NotAvailable, TraceEvent, TraceEventKind, TraceScope, Tracer};
use crate::measure::why::kernel::Kernel;

const TOO_SMALL: &str = "the kernel's buffer was too small: timers were lost";
/// Records of every CPU, or why there are none.
#[derive(Debug)]
pub struct Chains(Result<Mutex<Tracer>, NotAvailable>);

/// The wake-ups of each of some threads, or why they are not known.
pub type Wakeups = Result<Vec<Vec<Wakeup>>, String>;

impl Chains {
    pub fn open() -> Self {
        if !os::has_kernel_thread_ids() {
            let needs = "to run outside a container that numbers threads by itself";
            return Self(Err(NotAvailable {
                what: "records of timers",
                error: String::new(),
                needs,
            }));
        }
        Self(Tracer::open(TraceScope::Wakeups).map(Mutex::new))
    }

    pub fn record(&self, on: bool) {
        if let Ok(tracer) = &self.0 {
            tracer.lock().unwrap_or_else(PoisonError::into_inner).record(on);
        }
    }

    /// Who of these was woken when since the last time: each with its number in the system, where
    /// that is known.
    pub fn wakeups(&self, threads: &[Option<u32>], kernel: &Kernel) -> Wakeups {
        let tracer = self.0.as_ref().map_err(NotAvailable::to_string)?;
        let mut events = Vec::new();
        tracer.lock().unwrap_or_else(PoisonError::into_inner).drain(&mut events);
        let mut of = woken(events).ok_or(TOO_SMALL)?;
        let mut in_round = |id: &u32| {
            let shifted = |w: Wakeup| Wakeup {
                expired_ns: w.expired_ns.map(|ns| kernel.after(ns)),
                woken_ns: kernel.after(w.woken_ns),
            };
            of.remove(id).unwrap_or_default().into_iter().map(shifted).collect()
        };
        Ok(threads.iter().map(|id| id.as_ref().map_or_else(Vec::new, &mut in_round)).collect())
    }
}

/// Which thread was woken when, by the kernel's clock; `None` where records were lost.
fn woken(mut events: Vec<TraceEvent>) -> Option<HashMap<u32, Vec<Wakeup>>> {
    // Each CPU's are in order, and stand one after the other.
    events.sort_by_key(|event| event.at_ns);
    let mut all: HashMap<u32, Vec<Wakeup>> = HashMap::new();
    // When the timer began whose function runs on a CPU.
    let mut runs: HashMap<u32, i64> = HashMap::new();
    for event in events {
        match event.kind {
            TraceEventKind::Lost { .. } => return None,
            TraceEventKind::Expire { .. } => {
                runs.insert(event.cpu, event.at_ns);
            }
            TraceEventKind::Expired { .. } => {
                runs.remove(&event.cpu);
            }
            TraceEventKind::Waking { thread } => {
                let expired_ns = runs.get(&event.cpu).copied();
                all.entry(thread).or_default().push(Wakeup { expired_ns, woken_ns: event.at_ns });
            }
            _ => {}
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_ns: i64, cpu: u32, what: TraceEventKind) -> TraceEvent {
        TraceEvent { at_ns, cpu, thread: 0, kind: what }
    }

    fn expire(at_ns: i64, cpu: u32) -> [TraceEvent; 2] {
        let entry = TraceEventKind::Expire { timer: 1, function: 2, now_ns: at_ns };
        [at(at_ns, cpu, entry), at(at_ns + 50, cpu, TraceEventKind::Expired { timer: 1 })]
    }

    #[test]
    fn a_wake_up_is_by_the_timer_whose_function_runs_on_its_cpu() {
        let [first, last] = expire(100, 1);
        let [other, others_end] = expire(90, 0);
        // Two CPUs, one after the other.
        let events = vec![
            other,
            others_end,
            at(400, 0, TraceEventKind::Waking { thread: 7 }),
            first,
            at(120, 1, TraceEventKind::Waking { thread: 7 }),
            at(130, 1, TraceEventKind::Waking { thread: 8 }),
            last,
        ];
        let by = |expired_ns, woken_ns| Wakeup { expired_ns, woken_ns };
        let expected =
            [(7, vec![by(Some(100), 120), by(None, 400)]), (8, vec![by(Some(100), 130)])];
        assert_eq!(woken(events).unwrap(), expected.into());
        let lost = vec![first, at(110, 1, TraceEventKind::Lost { records: 1, until_ns: 120 })];
        assert_eq!(woken(lost), None, "what is missing may have been a wake-up");
    }
}
