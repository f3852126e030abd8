//! Sampling of the stacks of a program during a round.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use files::why::Tick;
use files::why::external_process::WatchedThread;
use files::why::pool::ProfiledTick;
use files::why::stacks::StackSample;

use crate::machine::os::{
    NotAvailable, Obstacle, SAMPLE_INTERVAL_NS, StackRecord, StackRecords, StackRing,
};
use crate::measure::why::kernel_clock::KernelClock;
use crate::stacks::StackNamer;

/// Time between two readings of the rings, of which the smallest holds about as much.
const DRAIN_INTERVAL: Duration = Duration::from_millis(30);
/// Maximum number of samples that are kept until the end of the round. Older ones are dropped.
const MAX_SAMPLES: usize = 8_192;
/// Maximum number of samples of all late ticks of a round, of which each may be late for the same
/// reason as the one before it.
const MAX_TICK_SAMPLES: usize = 100_000;

/// Samples the stacks of the next program that the calling thread starts.
#[derive(Debug)]
pub struct StackRecorder {
    /// The thread ends when this is dropped.
    stop: Sender<()>,
    reader: JoinHandle<StackRecords>,
}

impl StackRecorder {
    /// Opens a ring for each CPU, and starts a thread that reads them.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids it, or if no memory can be locked.
    pub fn begin(cpus: &[usize]) -> Result<Self, NotAvailable> {
        let opened = cpus.iter().map(|&cpu| StackRing::for_started_programs(cpu));
        let mut rings = opened.collect::<Result<Vec<_>, _>>()?;
        let (stop, stopped) = mpsc::channel();
        let read_all = move || {
            let mut records = StackRecords::default();
            loop {
                let wait = stopped.recv_timeout(DRAIN_INTERVAL);
                rings.iter_mut().for_each(|ring| records.append(ring.drain()));
                let excess = records.samples.len().saturating_sub(MAX_SAMPLES);
                records.samples.drain(..excess);
                if wait != Err(RecvTimeoutError::Timeout) {
                    return records;
                }
            }
        };
        let spawned = Builder::new().name("stacks".to_owned()).spawn(read_all);
        let reader = spawned.map_err(|error| NotAvailable {
            what: "the thread that reads stacks",
            obstacle: Some(Obstacle::System(Arc::new(error))),
            needs: "to start a thread",
        })?;
        Ok(Self { stop, reader })
    }

    /// Ends sampling and returns the records.
    pub fn finish(self) -> StackRecords {
        drop(self.stop);
        self.reader.join().unwrap_or_default()
    }
}

/// Assigns to each late tick the samples of its thread between its deadline and its wake-up.
///
/// `seen` contains the threads of the ticks, as indices of `watched`, in the same order.
pub fn add_stacks(
    ticks: &mut [ProfiledTick],
    seen: &[Tick],
    watched: &[WatchedThread],
    records: &StackRecords,
    clock: &KernelClock,
    namer: &mut StackNamer,
) {
    let mut by_thread: BTreeMap<u32, Vec<&StackRecord>> = BTreeMap::new();
    for record in &records.samples {
        by_thread.entry(record.thread).or_default().push(record);
    }
    for records in by_thread.values_mut() {
        records.sort_by_key(|record| record.at_ns);
    }
    let lateness = |tick: &Tick| tick.wake_ns.saturating_sub(tick.deadline_ns);
    let mut late: Vec<usize> = (0..seen.len()).collect();
    late.retain(|&n| lateness(&seen[n]) >= SAMPLE_INTERVAL_NS as i64);
    late.sort_by_key(|&n| std::cmp::Reverse(lateness(&seen[n])));

    let mut processes =
        namer.processes(&records.mapped_files, |file| Some(PathBuf::from(&file.path)));
    let mut named: HashMap<(u32, u64), StackSample> = HashMap::new();
    let mut capacity = MAX_TICK_SAMPLES;
    for n in late {
        let tick = &seen[n];
        let thread = watched.get(tick.thread).and_then(|thread| by_thread.get(&thread.id));
        let Some(records) = thread else { continue };
        let first = records.partition_point(|record| clock.ns(record.at_ns) < tick.deadline_ns);
        let during = records[first..].iter().map(|record| (record, clock.ns(record.at_ns)));
        for (record, at_ns) in during.take_while(|(_, at_ns)| *at_ns <= tick.wake_ns).take(capacity)
        {
            let key = (record.thread, record.at_ns);
            let sample = named.entry(key).or_insert_with(|| processes.name(record, at_ns));
            ticks[n].stacks.push(sample.clone());
        }
        capacity -= ticks[n].stacks.len();
    }
}
