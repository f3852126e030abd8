//! Tasks that load the runtime of the subject, like the tasks of most services.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::load::TaskLoad;
use crate::machine::os;
use cli::units::to_ns;

/// CPU time that the tasks of a load have used so far.
#[derive(Clone, Debug, Default)]
pub struct LoadCpuTime(Arc<AtomicU64>);

impl LoadCpuTime {
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Spawns the tasks on the current runtime. They end with the runtime.
///
/// Each task occupies its worker and then yields to all ready tasks, like a task that always has
/// work. A tick that becomes due in the meantime waits until all of them have run.
pub fn spawn_load(tasks: TaskLoad, cpu_time: &LoadCpuTime) {
    for _ in 0..tasks.count {
        let cpu_time = cpu_time.clone();
        tokio::spawn(async move {
            loop {
                occupy_worker(tasks, &cpu_time);
                tokio::task::yield_now().await;
            }
        });
    }
}

/// Spins for the hold time by the clock, and adds the CPU time, which is less if the thread was
/// preempted.
#[allow(clippy::disallowed_methods, reason = "the hold time is measured by the clock")]
fn occupy_worker(tasks: TaskLoad, cpu_time: &LoadCpuTime) {
    let (began, before) = (std::time::Instant::now(), os::thread_cpu_ns());
    while began.elapsed() < tasks.hold {
        std::hint::spin_loop();
    }
    let used = os::thread_cpu_ns().zip(before).map(|(now, before)| now.saturating_sub(before));
    let by_clock = || to_ns(began.elapsed());
    cpu_time.0.fetch_add(used.unwrap_or_else(by_clock), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "the test measures time")]
    fn yielding_tasks_wait_for_the_load() {
        let tasks = TaskLoad { count: 7, hold: Duration::from_micros(200) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let cpu_time = LoadCpuTime::default();
            spawn_load(tasks, &cpu_time);
            let turns = tokio::spawn(async {
                tokio::task::yield_now().await;
                let began = Instant::now();
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                began.elapsed()
            });
            assert!(turns.await.unwrap() >= tasks.hold * tasks.count * 10);
            assert!(cpu_time.ns() > 0);
        });
    }
}
