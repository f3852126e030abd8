//! The last sampled stacks of the threads of metered programs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::machine::os::{
    self, MappedFile, NotAvailable, SAMPLE_INTERVAL_NS, STACK_BYTES, StackHistory, StackRecords,
};
use crate::measure::why::hindsight::paired_cost::{self, Counters};
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::thread_samples::ThreadSamples;
use crate::stacks::StackNamer;

/// Maximum number of threads that are sampled.
const MAX_THREADS: usize = 64;
/// Interval between samples while their cost is measured.
const COST_INTERVAL_NS: u64 = 20_000;
/// Number of turns in a block of the measurement, which take about 0.3 ms: both blocks of a pair
/// fit into a time slice.
const COST_TURNS: u64 = 200_000;
/// Range of plausible costs of a sample, which is an interrupt and a copy of a part of the stack.
const PLAUSIBLE_SAMPLE_NS: RangeInclusive<f64> = 300.0..=100_000.0;
/// Cost of a sample that is assumed if it cannot be measured: that of a virtual machine, on which it
/// is higher than on a server.
const ASSUMED_SAMPLE_NS: u64 = 10_000;

/// Overwriting rings with the last stacks of threads of other programs.
#[derive(Debug)]
pub struct StackWatch {
    threads: BTreeMap<u32, ProgramThread>,
    namer: Mutex<StackNamer>,
    /// Cost of a sample.
    sample_ns: u64,
    /// Whether it was measured, or assumed.
    is_cost_measured: bool,
    /// Samples of threads that have ended.
    ended_samples: u64,
}

#[derive(Debug)]
struct ProgramThread {
    process: u32,
    history: StackHistory,
}

/// The last records of a thread.
#[derive(Debug)]
pub struct PastStacks {
    pub thread: u32,
    pub records: StackRecords,
    /// Whether older records were overwritten.
    pub is_cut: bool,
}

impl StackWatch {
    /// Measures the cost of a sample.
    ///
    /// # Errors
    ///
    /// Returns an error if the kernel or a sandbox forbids samples, or if no memory can be locked.
    pub fn open() -> Result<Self, NotAvailable> {
        let history = StackHistory::for_thread(os::thread_id(), MAX_THREADS, COST_INTERVAL_NS)?;
        let measured_ns = measure_sample(&history);
        Ok(Self {
            threads: BTreeMap::new(),
            namer: Mutex::default(),
            sample_ns: measured_ns.unwrap_or(ASSUMED_SAMPLE_NS),
            is_cost_measured: measured_ns.is_some(),
            ended_samples: 0,
        })
    }

    /// Samples the threads of these programs, and no others. Programs of other users, and threads
    /// for which no memory is left, are not sampled.
    pub fn watch_programs(&mut self, processes: &BTreeSet<u32>) {
        let mut existing: BTreeMap<u32, u32> = BTreeMap::new();
        for &process in processes {
            let threads = os::process_threads(process).unwrap_or_default();
            existing.extend(threads.into_iter().map(|id| (id, process)));
        }
        let (mut has_ended, mut ended_samples) = (false, 0);
        self.threads.retain(|thread, watched| {
            let is_same = !watched.history.has_ended();
            let is_kept = is_same && existing.get(thread) == Some(&watched.process);
            if !is_kept {
                // A program may have been replaced by another one with its number.
                let is_leader = *thread == watched.process;
                has_ended |= !processes.contains(&watched.process) || (is_leader && !is_same);
                ended_samples += watched.samples();
            }
            is_kept
        });
        self.ended_samples += ended_samples;
        if has_ended {
            // The number of a process may be given to another program.
            self.namer = Mutex::default();
        }
        let rings = existing.len().min(MAX_THREADS);
        for (thread, process) in existing {
            if self.threads.len() < MAX_THREADS && !self.threads.contains_key(&thread) {
                let opened = StackHistory::for_thread(thread, rings, SAMPLE_INTERVAL_NS);
                self.threads.extend(
                    opened.ok().map(|history| (thread, ProgramThread { process, history })),
                );
            }
        }
    }

    /// Returns the cost of a sample.
    pub fn sample_ns(&self) -> u64 {
        self.sample_ns
    }

    /// Returns whether this cost was measured. Otherwise it is assumed.
    pub fn is_cost_measured(&self) -> bool {
        self.is_cost_measured
    }

    /// Returns the CPU time that sampling has cost so far, without that of recording switches.
    pub fn cpu_ns(&self) -> u64 {
        let samples: u64 = self.threads.values().map(ProgramThread::samples).sum();
        (self.ended_samples + samples).saturating_mul(self.sample_ns)
    }

    /// Returns the bytes of the switches that were recorded next to the samples.
    pub fn switch_bytes(&self) -> u64 {
        self.threads.values().map(ProgramThread::switch_bytes).sum()
    }

    /// Returns the memory of the rings.
    pub fn memory_bytes(&self) -> u64 {
        self.threads.values().map(|thread| thread.history.memory_bytes()).sum()
    }

    /// Reads the last records of some threads.
    pub fn read(&self, threads: &BTreeSet<u32>) -> Vec<PastStacks> {
        let mut past = Vec::new();
        for (&thread, watched) in self.threads.iter().filter(|(thread, _)| threads.contains(thread))
        {
            let (records, is_cut) = watched.history.read();
            past.push(PastStacks { thread, records, is_cut });
        }
        past
    }

    /// Calls `explain` with the samples, which it can name.
    pub fn with_names<T>(
        &self,
        past: &[PastStacks],
        clock: &KernelClock,
        explain: impl FnOnce(&mut ThreadSamples<'_>) -> T,
    ) -> T {
        let mut namer = self.namer.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = past.iter().flat_map(|past| &past.records.samples);
        let processes: BTreeSet<u32> = samples.clone().map(|sample| sample.process).collect();
        let mut mapped = Vec::new();
        for process in processes {
            let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            mapped.append(&mut MappedFile::parse_maps(process, &maps));
        }
        explain(&mut ThreadSamples::new(samples, namer.processes(&mapped, locate), clock))
    }

    /// Returns what the programs lack for complete names.
    pub fn hint(&self) -> Option<String> {
        self.namer.lock().unwrap_or_else(PoisonError::into_inner).sampling().hint
    }
}

impl ProgramThread {
    fn samples(&self) -> u64 {
        self.history.sampled_ns() / SAMPLE_INTERVAL_NS
    }

    fn switch_bytes(&self) -> u64 {
        let sample_bytes = self.samples().saturating_mul(u64::from(STACK_BYTES));
        self.history.written_bytes().saturating_sub(sample_bytes)
    }
}

/// Returns the path of a file in the file system of a process. Its program may have been replaced
/// or removed since it was started.
fn locate(file: &MappedFile) -> Option<PathBuf> {
    let process = Path::new("/proc").join(file.process.to_string());
    let program = process.join("exe");
    if std::fs::read_link(&program).is_ok_and(|path| path == Path::new(&file.path)) {
        return Some(program);
    }
    let path = file.path.strip_prefix('/').filter(|path| !path.ends_with(" (deleted)"))?;
    Some(process.join("root").join(path))
}

/// Measures the CPU time that a sample costs the calling thread; `None` if it is not known.
fn measure_sample(history: &StackHistory) -> Option<u64> {
    // The kernel takes fewer samples than asked for if an administrator has limited their rate.
    let sample_bytes = f64::from(STACK_BYTES);
    let (min_ns, max_ns) = PLAUSIBLE_SAMPLE_NS.into_inner();
    let plausible = min_ns / sample_bytes..=max_ns / sample_bytes;
    let read = || Counters { cpu_ns: os::thread_cpu_ns(), recorded: history.written_bytes() };
    let set_recording = |is_on| history.set_recording(is_on);
    let ns_per_byte = paired_cost::measure(plausible, set_recording, read, || {
        let mut word = 1_u64;
        for turn in 0..COST_TURNS {
            word = std::hint::black_box(word.rotate_left(7) ^ turn);
        }
    });
    ns_per_byte.map(|ns| (ns * sample_bytes) as u64)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn samples_are_never_free() {
        let Ok(watch) = StackWatch::open() else { return };
        assert!(PLAUSIBLE_SAMPLE_NS.contains(&(watch.sample_ns() as f64)), "{}", watch.sample_ns());
    }

    /// Two programs in a row have the same process and thread numbers.
    #[test]
    fn reused_numbers_are_sampled_again() {
        let Ok(mut watch) = StackWatch::open() else { return };
        let started = std::thread::spawn(|| {
            StackHistory::for_thread(os::thread_id(), MAX_THREADS, SAMPLE_INTERVAL_NS)
        });
        let ended = started.join().unwrap().expect("samples of this thread are allowed");
        while !ended.has_ended() {
            std::thread::yield_now();
        }
        let process = std::process::id();
        watch.threads.insert(process, ProgramThread { process, history: ended });
        watch.watch_programs(&[process].into());
        let main = watch.threads.get(&process);
        assert!(main.is_none_or(|thread| !thread.history.has_ended()), "its ring was kept");
    }
}
