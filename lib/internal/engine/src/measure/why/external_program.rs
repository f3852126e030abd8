//! Diagnosis of a user's program from outside.
//!
//! The kernel records the switches of the program's threads. They are compared with the times that
//! the program writes.

use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;

use files::report::why::Evidence;
use files::why::external_process::{self, ReconstructedRound, WatchedThread};
use files::why::pool::{ProfiledRound, ProfiledTick};
use files::why::stacks::StackSampling;
use files::why::{CpuIntervals, RoundConditions, Standstill};
use jitterstat::sample::Grid;

use crate::machine::os::{
    self, DrainedSwitches, MappedFile, NotAvailable, StackHistory, StackRecord, SwitchRing,
};
use crate::measure::program_output::ProgramRound;
use crate::measure::why::cpu_records::{CpuRecords, UsableRecords};
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::{ThreadNames, group_by_thread, mark_occupied};
use crate::measure::why::profiler::Profiler;
use crate::measure::why::round_diagnosis::{MAX_PATH_NS, RoundDiagnosis};
use crate::measure::why::thread_samples::{ThreadSamples, add_stacks, can_have_stacks};
use crate::measure::why::tick_attribution::{IndexedTick, RoundEvidence, ThreadChains};
use crate::measure::why::unavailable::Unavailable;
use crate::measure::why::witness::Witnesses;
use cli::units::to_signed_ns;

/// Minimum share of the ticks that can be assigned to a running thread. With fewer, the times of
/// the program are wrong.
const MIN_PLACED: f64 = 0.9;

/// Recorder of the next program that the calling thread starts.
pub struct ProgramProfiler<'a> {
    profiler: &'a Profiler,
    /// A ring per CPU for the threads of the program.
    rings: Result<Vec<SwitchRing>, NotAvailable>,
    /// The last stacks of these threads by CPU. They are read only if a tick was late.
    stacks: Result<Vec<StackHistory>, NotAvailable>,
    witnesses: Option<Witnesses>,
}

/// A round of a program that has ended.
#[derive(Debug)]
pub struct FinishedProgram<'a> {
    pub index: u64,
    pub grid: Grid,
    /// Name of the program.
    pub name: &'a str,
    /// Series, start and length of the run. They come from one source, since the times of the
    /// series are checked against the other two, and two readings of the start can be far apart on
    /// a busy machine.
    pub output: &'a ProgramRound,
    pub steal_ns: Option<u64>,
}

impl<'a> ProgramProfiler<'a> {
    /// Starts recording.
    pub fn begin(profiler: &'a Profiler, period: Duration) -> Self {
        // The rings record everything that this thread starts, so start the witnesses first.
        let witnesses = Some(Witnesses::begin(period));
        let cpus = os::affinity().unwrap_or_else(|| vec![0]);
        let rings = cpus.iter().map(|&cpu| SwitchRing::for_started_programs(cpu)).collect();
        let stacks = StackHistory::for_started_programs(&cpus);
        profiler.set_recording(true);
        Self { profiler, rings, stacks, witnesses }
    }

    /// Attributes the lateness of every tick of the round to its causes, as far as they are visible
    /// from outside. A round of which switches were lost is not explained.
    pub fn diagnose(mut self, round: &FinishedProgram<'_>) -> RoundDiagnosis {
        self.profiler.set_recording(false);
        let witnesses = self.witnesses.take();
        let standstills = witnesses.and_then(|witnesses| witnesses.end(round.output.started));
        let drained: Vec<DrainedSwitches> =
            self.rings.iter_mut().flatten().map(SwitchRing::drain).collect();
        let lost = drained.iter().fold(0_u64, |lost, d| lost.saturating_add(d.lost));
        if lost > 0 {
            return RoundDiagnosis::lost(round.index, lost);
        }
        let diagnosis = self.explain_round(&drained, standstills, round);
        diagnosis.unwrap_or_else(|why| RoundDiagnosis::unavailable(round.index, &why))
    }

    fn explain_round(
        &self,
        drained: &[DrainedSwitches],
        standstills: Option<Vec<Standstill>>,
        round: &FinishedProgram<'_>,
    ) -> Result<RoundDiagnosis, Unavailable> {
        self.rings.as_ref().map_err(NotAvailable::clone)?;
        let clock = KernelClock::new(round.output.started).ok_or(Unavailable::NoClock)?;
        // Each of the observed threads has its switches in order of time.
        let by_thread = group_by_thread(drained, &clock).into_iter();
        let watched: Vec<WatchedThread> =
            by_thread.map(|(id, switches)| WatchedThread { id, switches }).collect();
        let records = self.drain_records(&watched, round, &clock);
        let availability = records.availability(Ok(()), Ok(()));
        let tier = availability.tier();
        let lost = records.lost;
        let records = records.usable(tier);

        let seen = reconstruct_round(round, &watched, records.occupants.as_ref(), &clock)?;
        let steal_ns = round.steal_ns;
        let mut evidence = Evidence { steal_ns, switches_lost: lost, ..Evidence::default() };
        let mut conditions = RoundConditions {
            path_ns: seen.way_ns,
            steal_ns: round.steal_ns.unwrap_or(0),
            ..RoundConditions::default()
        };
        if let Some(standstills) = standstills {
            conditions.standstills = mark_occupied(standstills, records.occupants.as_ref());
            evidence.standstill_ns = Some(conditions.standstill_ns());
        }
        let mut names = thread_names(round.name, &watched, drained);
        let mut ticks =
            attribute_ticks(round.grid.first_tick, &seen, &conditions, &records, &mut names);
        let mapped_files = drained.iter().flat_map(|d| d.mapped_files.iter().cloned()).collect();
        let sampling = self.name_stacks(&mut ticks, &seen, &watched, mapped_files, &clock);
        let threads = seen.running_threads();
        evidence.threads = threads.len() as u64;
        let index = round.index;
        Ok(RoundDiagnosis {
            round: ProfiledRound {
                index,
                ticks,
                tier,
                evidence,
                sampling: Some(sampling),
                ..ProfiledRound::default()
            },
            missing: availability.missing(),
            threads,
            occupants: records.occupants.unwrap_or_default(),
        })
    }

    /// Adds the functions that ran while ticks were late, and returns how they were sampled.
    fn name_stacks(
        &self,
        ticks: &mut [ProfiledTick],
        seen: &ReconstructedRound,
        watched: &[WatchedThread],
        mut mapped_files: Vec<MappedFile>,
        clock: &KernelClock,
    ) -> StackSampling {
        let mut namer = self.profiler.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(rings) = &self.stacks
            && seen.ticks.iter().any(can_have_stacks)
        {
            let samples: Vec<StackRecord> =
                rings.iter().flat_map(|ring| ring.read().0.samples).collect();
            // A program may run on several CPUs, of which each has records of its files.
            mapped_files.sort_by_key(|file| file.at_ns);
            let locate = |file: &MappedFile| Some(PathBuf::from(&file.path));
            let processes = namer.processes(&mapped_files, locate);
            let mut samples = ThreadSamples::new(&samples, processes, clock);
            add_stacks(ticks, &seen.ticks, watched, &mut samples);
        }
        let missing = self.stacks.as_ref().err().map(ToString::to_string);
        StackSampling { missing, ..namer.sampling() }
    }

    /// Reads the records of all CPUs since the last call.
    fn drain_records(
        &self,
        watched: &[WatchedThread],
        round: &FinishedProgram<'_>,
        clock: &KernelClock,
    ) -> CpuRecords {
        let ids: Vec<Option<u32>> = watched.iter().map(|thread| Some(thread.id)).collect();
        let mut records = CpuRecords::drain(self.profiler, &ids, clock);
        if round.output.series.waited_ns.is_none() {
            let explain = |reason| Unavailable::UnknownWaits(Box::new(reason));
            records.switches = records.switches.map_err(explain);
        }
        records
    }
}

/// Stops recording even if the program failed and no diagnosis is made, so that recording does not
/// slow down the next round.
impl Drop for ProgramProfiler<'_> {
    fn drop(&mut self) {
        self.profiler.set_recording(false);
    }
}

/// Reconstructs which threads ran the ticks.
///
/// # Errors
///
/// Returns an error if the program writes no times, or times at which none of its threads ran.
fn reconstruct_round(
    round: &FinishedProgram<'_>,
    watched: &[WatchedThread],
    occupants: Option<&CpuIntervals>,
    clock: &KernelClock,
) -> Result<ReconstructedRound, Unavailable> {
    let times = tick_times(round, clock)?;
    let waited_ns = round.output.series.waited_ns.as_deref();
    let seen = external_process::reconstruct(&times, waited_ns, watched, occupants, MAX_PATH_NS);
    if (seen.placed as f64) < MIN_PLACED * times.len() as f64 {
        return Err(Unavailable::NoThreadAtTimes);
    }
    Ok(seen)
}

/// Returns the deadline and the wake-up of each tick, in nanoseconds after the start of the
/// program.
///
/// # Errors
///
/// Returns an error if the program writes no times, or times outside of its run.
fn tick_times(
    round: &FinishedProgram<'_>,
    clock: &KernelClock,
) -> Result<Vec<(i64, i64)>, Unavailable> {
    let series = &round.output.series;
    let Some(wake_times) = &series.wake_ns else {
        return Err(Unavailable::NoTimes);
    };
    let run = 0..=to_signed_ns(round.output.wall);
    let mut times = Vec::with_capacity(wake_times.len());
    for (&at_ns, &late_ns) in wake_times.iter().zip(&series.lateness_ns) {
        let wake_ns = clock.process_ns(at_ns);
        if !run.contains(&wake_ns) {
            return Err(Unavailable::TimesOutsideRun);
        }
        times.push((wake_ns.saturating_sub(late_ns), wake_ns));
    }
    Ok(times)
}

/// Attributes the lateness of the ticks, the first of which has the index `first_tick`.
fn attribute_ticks(
    first_tick: u64,
    seen: &ReconstructedRound,
    conditions: &RoundConditions,
    records: &UsableRecords,
    names: &mut ThreadNames,
) -> Vec<ProfiledTick> {
    // The ends of the parks are left out, since they are estimates: the runtime of a program cannot
    // be observed from outside.
    let mut unstamped = seen.threads.clone();
    for cycle in unstamped.iter_mut().flat_map(|thread| &mut thread.cycles) {
        cycle.unpark_ns = None;
    }
    let wakeups = records.wakeups.as_deref();
    let evidence = RoundEvidence {
        threads: &seen.threads,
        conditions,
        occupants: records.occupants.as_ref(),
        chains: wakeups.map(|wakeups| ThreadChains { threads: &unstamped, wakeups }),
    };
    let indexed = (first_tick..).zip(seen.ticks.iter().copied());
    let ticks: Vec<IndexedTick> =
        indexed.map(|(index, tick)| IndexedTick { index, tick }).collect();
    evidence.attribute(0, &ticks, names)
}

/// Returns the names of the program's threads.
fn thread_names(
    program: &str,
    watched: &[WatchedThread],
    drained: &[DrainedSwitches],
) -> ThreadNames {
    let threads = watched.iter().map(|thread| (thread.id, program.to_owned()));
    let named = drained.iter().flat_map(|d| d.names.iter().cloned());
    ThreadNames::new(threads.chain(named.map(|named| (named.thread, named.name))))
}
