//! TaskLoad that hold the subject's own runtime: the load that most services put on their timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::load::TaskLoad;
use crate::machine::os;

/// What the tasks of a round have used so far.
#[derive(Clone, Debug, Default)]
pub struct LoadCpuTime(Arc<AtomicU64>);

impl LoadCpuTime {
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Spawns them on the runtime that this is called in; they end with it.
///
/// Each holds its worker and then yields behind all that are ready, as a task does that always has
/// work: a tick that comes due meanwhile waits for the rest of a turn of all of them.
pub fn spawn(tasks: TaskLoad, held: &LoadCpuTime) {
    for _ in 0..tasks.count {
        let held = held.clone();
        tokio::spawn(async move {
            loop {
                hold(tasks, &held);
                tokio::task::yield_now().await;
            }
        });
    }
}

/// Spins until the time is over by the clock, and books the CPU time it took: less where the thread
/// itself had to wait.
#[allow(clippy::disallowed_methods, reason = "how long a worker is held is a time by the clock")]
fn hold(tasks: TaskLoad, held: &LoadCpuTime) {
    let (began, before) = (std::time::Instant::now(), os::thread_cpu_ns());
    while began.elapsed() < tasks.hold {
        std::hint::spin_loop();
    }
    let used = os::thread_cpu_ns().zip(before).map(|(now, before)| now.saturating_sub(before));
    let by_clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    held.0.fetch_add(used.unwrap_or_else(by_clock), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "nothing may be earlier than the tasks let it")]
    fn whoever_yields_waits_for_a_turn_of_all_of_them() {
        let tasks = TaskLoad { count: 7, hold: Duration::from_micros(200) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let held = LoadCpuTime::default();
            spawn(tasks, &held);
            let turns = tokio::spawn(async {
                tokio::task::yield_now().await;
                let began = Instant::now();
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                began.elapsed()
            });
            assert!(turns.await.unwrap() >= tasks.hold * tasks.count * 10);
            assert!(held.ns() > 0);
        });
    }
}
