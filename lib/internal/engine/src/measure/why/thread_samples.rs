//! The sampled stacks of the threads of a program, of which those during late ticks are named.

use std::collections::{BTreeMap, HashMap};

use files::why::Tick;
use files::why::external_process::WatchedThread;
use files::why::pool::ProfiledTick;
use files::why::stacks::{StackSample, find_late_code};

use crate::machine::os::{SAMPLE_INTERVAL_NS, StackRecord};
use crate::measure::why::kernel_clock::KernelClock;
use crate::stacks::NamedProcesses;

/// Maximum number of samples of all late ticks of a round, of which each may be late for the same
/// reason as the one before it.
const MAX_TICK_SAMPLES: usize = 100_000;
/// Share of a period that a busy thread is sampled.
const BUSY_SHARE: f64 = 0.7;

/// Returns whether a tick was late for so long that a stack may have been sampled.
pub fn can_have_stacks(tick: &Tick) -> bool {
    lateness_ns(tick) >= SAMPLE_INTERVAL_NS as i64
}

fn lateness_ns(tick: &Tick) -> i64 {
    tick.wake_ns.saturating_sub(tick.deadline_ns)
}

/// Assigns to each late tick the samples of its thread between its deadline and its wake-up.
///
/// If these name no function, those of another thread are used, because a task that blocks its worker
/// may continue on another one: of the thread that ran the last tick before the deadline, or of the
/// only thread that was busy all the time and no longer.
///
/// `seen` contains the threads of the ticks, as indices of `watched`, in the same order.
pub fn add_stacks(
    ticks: &mut [ProfiledTick],
    seen: &[Tick],
    watched: &[WatchedThread],
    samples: &mut ThreadSamples<'_>,
) {
    let mut late: Vec<usize> = (0..seen.len()).collect();
    late.retain(|&n| can_have_stacks(&seen[n]));
    late.sort_by_key(|&n| std::cmp::Reverse(lateness_ns(&seen[n])));
    let thread_id = |tick: &Tick| watched.get(tick.thread).map(|thread| thread.id);
    let mut capacity = MAX_TICK_SAMPLES;
    for n in late {
        let tick = &seen[n];
        let lateness_ns = lateness_ns(tick).unsigned_abs();
        let last_before = seen[..n].iter().rfind(|earlier| earlier.wake_ns <= tick.deadline_ns);
        let all_watched = watched.iter().map(|thread| thread.id);
        let threads = [
            thread_id(tick),
            last_before.and_then(thread_id),
            samples.only_busy_thread(all_watched, tick.deadline_ns, tick.wake_ns),
        ];
        for thread in threads.into_iter().flatten() {
            let stacks = samples.during(thread, tick.deadline_ns, tick.wake_ns, capacity);
            let is_named = find_late_code(&stacks, lateness_ns, SAMPLE_INTERVAL_NS).is_some();
            if is_named || ticks[n].stacks.is_empty() {
                ticks[n].stacks = stacks;
            }
            if is_named {
                break;
            }
        }
        capacity -= ticks[n].stacks.len();
    }
}

/// The samples of each thread, which are named when they are needed.
pub struct ThreadSamples<'a> {
    by_thread: BTreeMap<u32, Vec<&'a StackRecord>>,
    processes: NamedProcesses<'a>,
    clock: &'a KernelClock,
    named: HashMap<(u32, u64), StackSample>,
}

impl<'a> ThreadSamples<'a> {
    pub fn new(
        samples: impl IntoIterator<Item = &'a StackRecord>,
        processes: NamedProcesses<'a>,
        clock: &'a KernelClock,
    ) -> Self {
        let mut by_thread: BTreeMap<u32, Vec<&StackRecord>> = BTreeMap::new();
        for record in samples {
            by_thread.entry(record.thread).or_default().push(record);
        }
        for records in by_thread.values_mut() {
            records.sort_by_key(|record| record.at_ns);
        }
        Self { by_thread, processes, clock, named: HashMap::new() }
    }

    /// Returns the thread that was busy in a period and idle afterwards, if there is exactly one.
    fn only_busy_thread(
        &self,
        threads: impl Iterator<Item = u32>,
        from_ns: i64,
        until_ns: i64,
    ) -> Option<u32> {
        let count = |thread, from_ns, until_ns| {
            let records = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
            let before = |at_ns| records.partition_point(|r| self.clock.ns(r.at_ns) < at_ns);
            before(until_ns).saturating_sub(before(from_ns)) as f64
        };
        let interval_ns = SAMPLE_INTERVAL_NS as i64;
        let needed = (until_ns - from_ns) as f64 / interval_ns as f64 * BUSY_SHARE;
        let idle_from_ns = until_ns + 3 * interval_ns;
        let idle_until_ns = idle_from_ns + 10 * interval_ns;
        let mut busy = threads.filter(|&thread| {
            count(thread, from_ns, until_ns) >= needed
                && count(thread, idle_from_ns, idle_until_ns) <= 1.0
        });
        busy.next().filter(|_| busy.next().is_none())
    }

    /// Returns the first samples of a thread in a period of time.
    fn during(&mut self, thread: u32, from_ns: i64, until_ns: i64, max: usize) -> Vec<StackSample> {
        let records = self.by_thread.get(&thread).map_or(&[][..], Vec::as_slice);
        let first = records.partition_point(|record| self.clock.ns(record.at_ns) < from_ns);
        let mut samples = Vec::new();
        for record in records[first..].iter().take(max) {
            let at_ns = self.clock.ns(record.at_ns);
            if at_ns > until_ns {
                break;
            }
            let key = (thread, record.at_ns);
            let new = || self.processes.name(record, at_ns);
            samples.push(self.named.entry(key).or_insert_with(new).clone());
        }
        samples
    }
}
