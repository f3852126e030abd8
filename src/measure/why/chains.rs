//! The kernel's records of timers, and of the threads that they wake, beside the ticks of a round.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use jitterstat::why::Wakeup;

use crate::machine::os::{self, NotAvailable, Scope, TraceEvent, Tracer, What};
use crate::measure::why::kernel::Kernel;

const TOO_SMALL: &str = "the kernel's buffer was too small: timers were lost";
/// Records of every CPU, or why there are none.
#[derive(Debug)]
pub struct Chains(Result<Mutex<Tracer>, NotAvailable>);

/// The wake-ups of each of some threads, or why they are not known.
pub type Wakeups = Result<Vec<Vec<Wakeup>>, String>;

impl Chains {
    pub fn open() -> Self {
        if !os::numbers_threads_as_the_kernel() {
            let needs = "to run outside a container that numbers threads by itself";
            return Self(Err(NotAvailable { what: "records of timers", error: String::new(), needs }));
        }
        Self(Tracer::open(Scope::Wakeups).map(Mutex::new))
    }

    pub fn record(&self, on: bool) {
        if let Ok(tracer) = &self.0 {
            tracer.lock().unwrap_or_else(PoisonError::into_inner).record(on);
        }
    }

    /// Who of these was woken when since the last time: each with its number in the system, where that is known.
    pub fn wakeups(&self, threads: &[Option<u32>], kernel: &Kernel) -> Wakeups {
        let tracer = self.0.as_ref().map_err(NotAvailable::to_string)?;
        let mut events = Vec::new();
        tracer.lock().unwrap_or_else(PoisonError::into_inner).drain(&mut events);
        let mut of = woken(events).ok_or(TOO_SMALL)?;
        let mut in_round = |id: &u32| {
            let shifted = |w: Wakeup| Wakeup {
                expired_ns: w.expired_ns.map(|ns| kernel.after(ns)),
                woken_ns: kernel.after(w.woken_ns),
                on_cpu_ns: kernel.after(w.on_cpu_ns),
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
    // The timer whose function runs on a CPU, and the threads that are ready.
    let mut runs: HashMap<u32, i64> = HashMap::new();
    let mut ready: HashMap<u32, (Option<i64>, i64)> = HashMap::new();
    for event in events {
        match event.what {
            What::Lost { .. } => return None,
            What::Expire { .. } => {
                runs.insert(event.cpu, event.at_ns);
            }
            What::Expired { .. } => {
                runs.remove(&event.cpu);
            }
            // A thread that is ready already is woken once.
            What::Waking { thread } => {
                ready.entry(thread).or_insert((runs.get(&event.cpu).copied(), event.at_ns));
            }
            What::Switch { state, next, .. } => {
                // It was woken before it had fallen asleep.
                if state != 0 {
                    ready.remove(&event.thread);
                }
                if let Some((expired_ns, woken_ns)) = ready.remove(&next) {
                    all.entry(next).or_default().push(Wakeup { expired_ns, woken_ns, on_cpu_ns: event.at_ns });
                }
            }
            _ => {}
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::os::Name;

    fn at(at_ns: i64, cpu: u32, what: What) -> TraceEvent {
        TraceEvent { at_ns, cpu, thread: 0, what }
    }

    fn expire(at_ns: i64, cpu: u32) -> [TraceEvent; 2] {
        let entry = What::Expire { timer: 1, function: 2, now_ns: at_ns };
        [at(at_ns, cpu, entry), at(at_ns + 50, cpu, What::Expired { timer: 1 })]
    }

    fn given(at_ns: i64, cpu: u32, next: u32) -> TraceEvent {
        at(at_ns, cpu, What::Switch { state: 0, next, next_name: Name::of(b"loop") })
    }

    #[test]
    fn a_wake_up_is_by_the_timer_whose_function_runs_on_its_cpu() {
        let [first, last] = expire(100, 1);
        let [other, others_end] = expire(90, 0);
        // Two CPUs, one after the other; the thread is woken a second time while it is ready, once by no timer, and once in
        // vain.
        let events = vec![
            other,
            others_end,
            at(400, 0, What::Waking { thread: 7 }),
            given(410, 0, 7),
            at(420, 0, What::Waking { thread: 7 }),
            TraceEvent { thread: 7, ..at(430, 0, What::Switch { state: 1, next: 0, next_name: Name::default() }) },
            given(440, 0, 7),
            first,
            at(120, 1, What::Waking { thread: 7 }),
            at(130, 1, What::Waking { thread: 7 }),
            last,
            given(200, 1, 9),
            given(300, 1, 7),
        ];
        let by_timer = Wakeup { expired_ns: Some(100), woken_ns: 120, on_cpu_ns: 300 };
        let by_another = Wakeup { expired_ns: None, woken_ns: 400, on_cpu_ns: 410 };
        assert_eq!(woken(events).unwrap(), [(7, vec![by_timer, by_another])].into());
        let lost = vec![first, at(110, 1, What::Lost { records: 1, until_ns: 120 })];
        assert_eq!(woken(lost), None, "what is missing may have been a wake-up");
    }
}
