//! Diagnosis of a profiled round.

use std::time::Instant;

use files::report::why::{Evidence, Missing, Tier};
use files::why::pool::{ProfiledRound, ProfiledTick};
use files::why::{CpuIntervals, Cycle, RoundConditions, Switch, Thread, Tick};
use jitterstat::sample::Grid;
use jitterstat::stats::quantile::nearest_rank;
use tach::Conversion;

use crate::machine::os;
use crate::measure::why::cpu_records::{CpuRecords, UsableRecords};
use crate::measure::why::kernel_clock::KernelClock;
use crate::measure::why::occupants::{ThreadNames, mark_occupied};
use crate::measure::why::profiler::{Profiler, RoundProfiler, ThreadLog};
use crate::measure::why::tick_attribution::{IndexedTick, RoundEvidence, ThreadChains};
use crate::measure::why::unavailable::Unavailable;
use crate::subject::WaitKind;
use cli::units::ns_after;

/// Maximum time from a timer to its task that counts as usual.
pub const MAX_PATH_NS: u64 = 20_000;
/// Lateness caused by tokio, which rounds a deadline up to the millisecond of its wheel, and the
/// timeout for the kernel to a whole millisecond.
const WHEEL_NS: u64 = 2_000_000;

/// A wake-up of a loop, with its thread.
#[derive(Clone, Copy, Debug)]
pub struct ThreadWakeup {
    /// Index of the last delivered tick.
    pub last_tick: u64,
    /// Number of delivered ticks.
    pub expirations: u64,
    /// Count of the clock.
    pub count: u64,
    /// Index of the thread.
    pub thread: usize,
}

/// The wake-ups of one instance of a round.
#[derive(Debug)]
pub struct InstanceWakeups {
    /// Deadline of tick 0.
    pub start: Instant,
    pub wakeups: Vec<ThreadWakeup>,
}

/// A profiled round that has ended.
#[derive(Debug)]
pub struct FinishedRound<'a> {
    pub index: u64,
    pub grid: Grid,
    pub conversion: Conversion,
    pub wait_kind: WaitKind,
    pub instances: &'a [InstanceWakeups],
    /// Whether nothing else runs on the thread of the loop.
    pub is_alone: bool,
    pub steal_ns: Option<u64>,
}

/// Diagnosis of a round.
#[derive(Debug)]
pub struct RoundDiagnosis {
    pub round: ProfiledRound,
    /// The lowest tier whose evidence was not available.
    pub missing: Option<Missing>,
    /// The threads that ran the ticks. Times count from the start of the grid of the first
    /// instance.
    pub threads: Vec<Thread>,
    /// The threads that ran on each CPU; empty if they were not recorded.
    pub occupants: CpuIntervals,
}

impl RoundDiagnosis {
    /// Creates the empty diagnosis of a round that could not be profiled.
    pub fn unavailable(index: u64, reason: &Unavailable) -> Self {
        let missing = Missing { tier: Tier::A1, reason: reason.to_string() };
        let round = ProfiledRound { index, ..ProfiledRound::default() };
        Self { round, missing: Some(missing), threads: Vec::new(), occupants: CpuIntervals::new() }
    }

    /// Creates the empty diagnosis of a round that cannot be explained without the lost records.
    pub fn lost(index: u64, lost: u64) -> Self {
        let mut diagnosis =
            Self::unavailable(index, &Unavailable::LostRecords { count: lost, kind: "switches" });
        diagnosis.round.evidence.switches_lost = lost;
        diagnosis
    }
}

/// Attributes the lateness of every tick of a round to its causes.
pub fn diagnose(
    profiler: &Profiler,
    recorder: &RoundProfiler,
    round: &FinishedRound<'_>,
) -> RoundDiagnosis {
    profiler.set_recording(false);
    let logs = recorder.take_logs();
    let Some(origin) = origin(round) else {
        return RoundDiagnosis::unavailable(round.index, &Unavailable::NoCommonOrigin);
    };
    let clock = KernelClock::new(origin);
    let mut collected = CollectedThreads::new(logs, round, origin, clock.as_ref());
    let mut records = drain_records(profiler, &collected.ids, clock.as_ref());
    if !recorder.has_thread_rings() {
        collected.take_cpu_switches(&mut records, profiler);
    }
    let lost = records.lost;
    let availability = records.availability(collected.stats.clone(), collected.switches.clone());
    let tier = availability.tier();
    let records = records.usable(tier);

    let ticks: Vec<Vec<IndexedTick>> =
        round.instances.iter().map(|instance| recorded_ticks(instance, round, origin)).collect();
    let mut conditions = round_conditions(profiler, round, &ticks, &collected, clock.as_ref());
    let mut evidence = collected.evidence(profiler, round, lost);
    if let Some(standstills) = recorder.take_standstills(origin) {
        conditions.standstills = mark_occupied(standstills, records.occupants.as_ref());
        evidence.standstill_ns = Some(conditions.standstill_ns());
    }
    let round = ProfiledRound {
        index: round.index,
        ticks: attribute_ticks(&ticks, &collected.threads, &conditions, &records),
        tier,
        known: conditions.known(),
        evidence,
        ..ProfiledRound::default()
    };
    RoundDiagnosis {
        round,
        missing: availability.missing(),
        threads: collected.threads,
        occupants: records.occupants.unwrap_or_default(),
    }
}

/// Reads the records of all CPUs, or gives the reason why there are none.
fn drain_records(
    profiler: &Profiler,
    threads: &[Option<u32>],
    clock: Option<&KernelClock>,
) -> CpuRecords {
    match clock {
        Some(clock) => CpuRecords::drain(profiler, threads, clock),
        None => CpuRecords::unavailable(Unavailable::NoClock),
    }
}

/// Attributes the lateness of the ticks of all instances.
fn attribute_ticks(
    ticks: &[Vec<IndexedTick>],
    threads: &[Thread],
    conditions: &RoundConditions,
    records: &UsableRecords,
) -> Vec<ProfiledTick> {
    let wakeups = records.wakeups.as_deref();
    let evidence = RoundEvidence {
        threads,
        conditions,
        occupants: records.occupants.as_ref(),
        chains: wakeups.map(|wakeups| ThreadChains { threads, wakeups }),
    };
    let mut names = ThreadNames::default();
    let mut attributed = Vec::new();
    for (instance, ticks) in (0..).zip(ticks) {
        attributed.extend(evidence.attribute(instance, ticks, &mut names));
    }
    attributed
}

/// Returns the origin of all times of a round: the start of the first instance or, without an
/// instance, the current time.
fn origin(round: &FinishedRound<'_>) -> Option<Instant> {
    match round.instances.first() {
        Some(instance) => Some(instance.start),
        None => os::monotonic_pair().ok().map(|(at, _)| at),
    }
}

/// The evidence of all threads of a round.
struct CollectedThreads {
    /// Threads by their index. Threads without a log are empty.
    threads: Vec<Thread>,
    /// Numbers of the threads in the system, for those with a log.
    ids: Vec<Option<u32>>,
    /// Number of threads with a log.
    count: u64,
    cycles_lost: u64,
    switches_lost: u64,
    throttled_periods: Option<u64>,
    /// Largest timer slack of the threads.
    slack_ns: Option<u64>,
    /// Availability of the statistics.
    stats: Result<(), Unavailable>,
    /// Availability of the switches.
    switches: Result<(), Unavailable>,
}

impl CollectedThreads {
    fn new(
        logs: Vec<ThreadLog>,
        round: &FinishedRound<'_>,
        origin: Instant,
        clock: Option<&KernelClock>,
    ) -> Self {
        let stats_error = logs.iter().find_map(|log| log.stats_error.as_ref());
        let mut collected = Self {
            threads: Vec::new(),
            ids: Vec::new(),
            count: logs.len() as u64,
            cycles_lost: 0,
            switches_lost: 0,
            throttled_periods: None,
            slack_ns: logs.iter().map(|log| log.slack_ns).max().flatten(),
            stats: stats_error.map_or(Ok(()), |error| Err(error.clone().into())),
            switches: clock.map(drop).ok_or(Unavailable::NoClock),
        };
        for log in logs {
            collected.add(log, round, origin, clock);
        }
        if collected.switches.is_ok() && collected.switches_lost > 0 {
            let count = collected.switches_lost;
            collected.switches = Err(Unavailable::LostRecords { count, kind: "switches" });
        }
        collected
    }

    /// Returns the counters for the report. `lost` is the number of lost records of the CPUs.
    fn evidence(&self, profiler: &Profiler, round: &FinishedRound<'_>, lost: u64) -> Evidence {
        let has_quota = !profiler.quotas.is_empty();
        Evidence {
            steal_ns: round.steal_ns,
            threads: self.count,
            cycles_lost: self.cycles_lost,
            switches_lost: self.switches_lost.saturating_add(lost),
            throttled_periods: self.throttled_periods.filter(|_| has_quota),
            ..Evidence::default()
        }
    }

    fn add(
        &mut self,
        mut log: ThreadLog,
        round: &FinishedRound<'_>,
        origin: Instant,
        clock: Option<&KernelClock>,
    ) {
        let cycles = log.cycles(&round.conversion, origin);
        self.cycles_lost += log.cycles_lost;
        self.throttled_periods = self.throttled_periods.max(throttled_periods(&cycles));
        let switches = self.drain_switches(&mut log, clock);
        self.threads.resize_with(log.thread, Thread::default);
        self.threads.push(Thread { cycles, switches });
        self.ids.resize(log.thread, None);
        self.ids.push(Some(log.id));
    }

    /// Reads the switches of a thread that has a ring.
    fn drain_switches(
        &mut self,
        log: &mut ThreadLog,
        clock: Option<&KernelClock>,
    ) -> Option<Vec<Switch>> {
        let ring = match log.ring.as_mut()? {
            Ok(ring) => ring,
            Err(why) => {
                let reason = why.clone().into();
                self.mark_unknown(reason);
                return None;
            }
        };
        let clock = clock?;
        let drained = ring.drain();
        self.switches_lost += drained.lost;
        let is_complete = drained.lost == 0;
        is_complete.then(|| drained.switches.iter().map(|s| clock.switch(s)).collect())
    }

    /// Takes the switches of the threads from those of all CPUs.
    fn take_cpu_switches(&mut self, records: &mut CpuRecords, profiler: &Profiler) {
        let cpus = match &mut records.switches {
            Ok(cpus) => cpus,
            Err(reason) => {
                profiler.separate_threads();
                let reason = reason.clone();
                return self.mark_unknown(reason);
            }
        };
        for (thread, id) in self.threads.iter_mut().zip(&self.ids) {
            thread.switches = id.map(|id| cpus.by_thread.remove(&id).unwrap_or_default());
        }
    }

    fn mark_unknown(&mut self, reason: Unavailable) {
        if self.switches.is_ok() {
            self.switches = Err(reason);
        }
    }
}

/// Returns the number of throttled periods between the first and the last cycle.
fn throttled_periods(cycles: &[Cycle]) -> Option<u64> {
    let (first, last) = (cycles.first()?, cycles.last()?);
    last.reading.throttled?.checked_sub(first.reading.throttled?)
}

/// Returns every recorded tick of an instance.
fn recorded_ticks(
    instance: &InstanceWakeups,
    round: &FinishedRound<'_>,
    origin: Instant,
) -> Vec<IndexedTick> {
    let grid = &round.grid;
    let shift_ns = ns_after(instance.start, origin);
    let recorded = grid.first_tick..grid.first_tick.saturating_add(grid.ticks);
    let mut ticks = Vec::with_capacity(instance.wakeups.len());
    for &ThreadWakeup { last_tick, expirations, count, thread } in &instance.wakeups {
        let wake_ns = round.conversion.ns_since(count, origin);
        let end = last_tick + 1;
        let first = end.saturating_sub(expirations).max(recorded.start);
        for index in first..end.min(recorded.end) {
            let deadline_ns = grid.deadline_ns(index).saturating_add(shift_ns);
            ticks.push(IndexedTick { index, tick: Tick { deadline_ns, wake_ns, thread } });
        }
    }
    ticks
}

/// Returns the conditions that apply to all ticks of a round, without standstills.
fn round_conditions(
    profiler: &Profiler,
    round: &FinishedRound<'_>,
    ticks: &[Vec<IndexedTick>],
    collected: &CollectedThreads,
    clock: Option<&KernelClock>,
) -> RoundConditions {
    let wait_kind = round.wait_kind;
    let lateness = ticks.iter().flatten().map(|t| t.tick.wake_ns - t.tick.deadline_ns).collect();
    let path_ns = MAX_PATH_NS.min(median_ns(lateness));
    let usual_cpu_ns = match wait_kind {
        // Anything that the thread does between deadline and wake-up is unusual.
        WaitKind::Spin => path_ns,
        _ => median_ns(cpu_times_of_cycles(&collected.threads)),
    };
    let continued_ns = clock.map_or(Vec::new(), |clock| {
        os::continued_ns().into_iter().map(|ns| clock.process_ns(ns)).collect()
    });
    RoundConditions {
        fault_ns: profiler.fault_ns,
        quota_period_ns: profiler.quotas.iter().map(|q| q.period_ns).max(),
        slack_ns: collected
            .slack_ns
            .filter(|_| matches!(wait_kind, WaitKind::Wheel | WaitKind::Sleep)),
        path_ns: path_ns + if wait_kind == WaitKind::Wheel { WHEEL_NS } else { 0 },
        usual_cpu_ns: round.is_alone.then_some(usual_cpu_ns),
        continued_ns,
        steal_ns: round.steal_ns.unwrap_or(0),
        standstills: Vec::new(),
    }
}

/// Returns the CPU time of each cycle of all threads.
fn cpu_times_of_cycles(threads: &[Thread]) -> Vec<i64> {
    let cpu_ns = |pair: &[Cycle]| {
        i64::try_from(pair[1].reading.cpu_ns?.checked_sub(pair[0].reading.cpu_ns?)?).ok()
    };
    threads.iter().flat_map(|thread| thread.cycles.windows(2).filter_map(cpu_ns)).collect()
}

/// Returns the median, or zero if it is negative or there are no values.
fn median_ns(mut values: Vec<i64>) -> u64 {
    values.sort_unstable();
    nearest_rank(&values, 0.5).and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0)
}
